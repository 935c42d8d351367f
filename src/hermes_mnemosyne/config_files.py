"""Configuration files: reading YAML, and editing Hermes' `config.yaml` without touching what is not ours."""

from __future__ import annotations

import io
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from hermes_mnemosyne._errors import ConfigError
from hermes_mnemosyne.paths import secure_directory, write_atomically

HERMES_CONFIG = "config.yaml"
_BOM = b"\xef\xbb\xbf"


def read_mapping(path: Path) -> dict[str, Any] | None:
    """Return the mapping in a YAML file (UTF-8, with or without a byte order mark); None where there is no file.

    An empty file is an empty mapping. Raises ConfigError when the file cannot be read, is no YAML or holds something else.
    """
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise ConfigError(f"{path} is no regular file: name a YAML file")
        return dict(_parsed(path, info.st_mtime_ns, info.st_size, info.st_ino))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror or error}): correct its owner or mode") from error


# A host starts a provider per request, and a large file takes the pure-Python parser a long time.
@lru_cache(maxsize=8)
def _parsed(path: Path, _modified: int, _size: int, _inode: int) -> dict[str, Any]:
    data = _loaded(path, _decoded(path, path.read_bytes()))
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold `key: value` lines, not a {type(data).__name__}")
    return {str(key): value for key, value in data.items()}


def _loaded(path: Path, text: str) -> Any:
    """Return what a YAML text holds: by PyYAML, or by ruamel.yaml where a host brings only that."""
    try:
        import yaml
    except ImportError:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            return YAML(typ="safe", pure=True).load(text)
        except (YAMLError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is no valid YAML: {_place(error)}") from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506 - both are safe loaders; the C one is quicker where it was built
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no valid YAML: {_place(error)}") from error


def _decoded(path: Path, raw: bytes) -> str:
    try:
        return raw.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error


def _place(error: Exception) -> str:
    # The parser's own message quotes the lines around the fault, and they may hold a secret.
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or type(error).__name__
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark is not None else str(what)


def plugin_section(data: Mapping[str, Any], provider: str, where: str) -> dict[str, Any]:
    """Return the mapping `plugins.<provider>`, empty when there is none. Raises ConfigError when it is no mapping."""
    plugins = data.get("plugins")
    section = plugins.get(provider) if isinstance(plugins, Mapping) else None
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"plugins.{provider} in {where} must hold `key: value` lines, not a {type(section).__name__}")
    return {str(key): value for key, value in section.items()}


def update_plugin_section(home: Path, provider: str, values: Mapping[str, Any]) -> Path:
    """Merge `values` into `plugins.<provider>` of the host's configuration under `home` and return the file.

    Comments, order, other keys, line ends and the file's mode stay; a value None removes the key. The file is replaced as a
    whole. Raises ConfigError when it cannot be read, understood or written.
    """
    path = home / HERMES_CONFIG
    read_mapping(path)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        before = _decoded(path, path.read_bytes())
    except FileNotFoundError:
        mode, before = 0o600, ""
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror or error}): correct its owner or mode") from error
    after = _edited(path, before, provider, values)
    if after == before:
        return path
    try:
        secure_directory(home)
        write_atomically(path, after.encode("utf-8"), mode=mode)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror or error}): set the values there by other means") from error
    return path


def _edited(path: Path, before: str, provider: str, values: Mapping[str, Any]) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.util import load_yaml_guess_indent

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1_000_000
    windows = "\r\n" in before
    text = before.replace("\r\n", "\n")
    try:
        data, indent, sequence_indent = load_yaml_guess_indent(text, yaml=yaml)
        if sequence_indent is not None:
            yaml.indent(mapping=_mapping_indent(text), sequence=indent, offset=sequence_indent)
        else:
            yaml.indent(mapping=_mapping_indent(text))
        comments_only = "" if data is not None else text
        data = CommentedMap() if data is None else data
    except (YAMLError, ValueError, IndexError) as error:
        raise ConfigError(f"{path} cannot be edited: {_place(error)}") from error
    section = _section(data, provider, path, CommentedMap)
    for name, value in values.items():
        place, key = _holder(section, name)
        if value is None:
            place.pop(key, None)
        elif key not in place or place[key] != value or isinstance(value, bool):
            place[key] = _scalar(value)
    out = io.StringIO()
    yaml.dump(data, out)
    after = (comments_only.rstrip("\n") + "\n" if comments_only.strip() else "") + out.getvalue()
    return after.replace("\n", "\r\n") if windows else after


def _section(data: Any, provider: str, path: Path, mapping: Any) -> Any:
    for key in ("plugins", provider):
        if data.get(key) is None:
            data[key] = mapping()
        data = data[key]
        if not isinstance(data, dict):
            raise ConfigError(f"`{key}` in {path} must hold `key: value` lines: correct it by hand first")
    return data


def _holder(section: Any, name: str) -> tuple[Any, str]:
    """Return the mapping in which a key stands: of a key with a dot it may be one under the name before the dot."""
    group, dot, rest = name.partition(".")
    return (section[group], rest) if dot and isinstance(section.get(group), dict) else (section, name)


def _mapping_indent(text: str) -> int:
    """Return the indentation of the first nested mapping; 2 when there is none."""
    open_key = False
    for line in text.split("\n"):
        body = line.strip()
        if not body or body.startswith("#"):
            continue
        width = len(line) - len(line.lstrip(" "))
        if open_key and width and not body.startswith("-"):
            return width
        open_key = width == 0 and body.split(" #")[0].rstrip().endswith(":")
    return 2


def _scalar(value: Any) -> Any:
    """Return a value as it is to be written: text that the host's YAML 1.1 would read as something else is quoted."""
    import yaml
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, Mapping):
        return {str(key): _scalar(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scalar(item) for item in value]
    if not isinstance(value, str):
        return value
    try:
        plain = yaml.safe_load(value) == value
    except (yaml.YAMLError, ValueError):
        plain = False
    return value if plain else DoubleQuotedScalarString(value)
