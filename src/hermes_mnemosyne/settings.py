"""Settings: one resolver for the keys of `setting_keys`.

A key comes from, first one wins: a flag, the environment (where the table names a variable), `--config FILE` or else the store's
own `mnemosyne.yaml` beside the database, `plugins.<provider>` in Hermes' `config.yaml`, the default. An empty variable, and in a
file a null or a blank text, are not set.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_mnemosyne import config_files, paths
from hermes_mnemosyne._errors import ConfigError
from hermes_mnemosyne.dsn import is_dsn
from hermes_mnemosyne.setting_keys import CLAMPED, DEFAULTS, KEYS, PROVIDER_DEFAULTS, Key, Settings, changed, value_of

__all__ = ["KEYS", "Effective", "Key", "Settings", "config_schema", "database_file", "resolve", "save", "shown"]

_BY_NAME = {key.name: key for key in KEYS}
_GROUPS = frozenset(name.partition(".")[0] for name in _BY_NAME if "." in name)
_PLACES = frozenset({"db", "data_dir", "dsn"})


def keys_of(provider: str) -> tuple[Key, ...]:
    """Return the keys that a provider has, in the order of the table."""
    return tuple(key for key in KEYS if key.provider in {"", provider})


@dataclass(frozen=True, slots=True)
class Effective:
    """Resolved settings: where each key came from, and what was ignored and why."""

    settings: Settings
    sources: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    provider: str = "mnemosyne"

    def rows(self) -> Iterator[tuple[Key, Any, str]]:
        """Return (key, value, source) for every key of the provider in the order of the table."""
        return ((key, value_of(self.settings, key.name), self.sources.get(key.name, "default")) for key in keys_of(self.provider))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Values of one place; `label` names it in messages and `place` per key where that differs."""

    label: str
    values: Mapping[str, Any]
    place: Mapping[str, str] = field(default_factory=dict)


def resolve(  # noqa: PLR0913 - each is one independent place that a setting may come from
    *,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    config_file: str | os.PathLike[str] | None = None,
    store_dir: str | os.PathLike[str] | None = None,
    hermes_home: str | os.PathLike[str] | None = None,
    provider: str = "mnemosyne",
    strict: bool = False,
) -> Effective:
    """Return the settings that hold, from every place that exists.

    `flags` are keys given by the caller (None values are not given). `config_file` is `--config`; without it `mnemosyne.yaml`
    is read in `store_dir`, or beside the database that the other places name. `hermes_home` None means the user's own.
    With `strict` (commands) an unknown key or a wrong value is an error; else (hosts) it is a warning and the next place counts.
    Raises ConfigError, always for a file that cannot be read.
    """
    environ = os.environ if environ is None else environ
    first = [_Source(label="flag", values=_given(flags or {}))]
    present = {key.name: key.env for key in keys_of(provider) if key.env and environ.get(key.env, "").strip()}
    values = {name: environ[variable] for name, variable in present.items()}
    first.append(_Source(label="environment", values=values, place={name: f"environment {env}" for name, env in present.items()}))
    if config_file is not None:
        first.append(_named_file(Path(config_file).expanduser(), provider))
    last = _hermes_source(hermes_home, environ, provider)
    if config_file is None:
        beside = store_dir or _store_directory(_merge([*first, *last], provider, strict=False).settings, environ, hermes_home)
        own = _own_file(Path(beside) / paths.SETTINGS_NAME) if beside is not None else []
        first.extend(own)
    return _merge([*first, *last], provider, strict=strict)


def database_file(
    settings: Settings, *, environ: Mapping[str, str] | None = None, hermes_home: str | os.PathLike[str] | None = None
) -> Path:
    """Return the SQLite file that these settings name. Raises ConfigError when no home directory is known."""
    if settings.db:
        return Path(settings.db).expanduser().absolute()
    return paths.default_file(environ=environ, home=hermes_home, data_dir=settings.data_dir)


def config_schema(provider: str = "mnemosyne") -> list[dict[str, Any]]:
    """Return the fields that the host's set-up wizard asks for, with defaults as text, as the host stores and shows text.

    Of a fleet's provider these are all: its users know the keys from the wizard and the dashboard.
    """
    kinds = {"flag": "boolean", "whole": "integer", "bytes": "integer", "number": "number"}
    defaults = PROVIDER_DEFAULTS.get(provider, {})
    fields = []
    for key in keys_of(provider):
        if not key.asked and provider == "mnemosyne":
            continue
        entry: dict[str, Any] = {
            "key": key.name,
            "description": key.help,
            "default": shown(defaults.get(key.name, key.default)),
            "type": kinds.get(key.type, "text"),
        }
        if key.type == "flag":
            entry["choices"] = ["true", "false"]
        elif key.choices:
            entry["choices"] = list(key.choices)
        fields.append(entry)
    return fields


def save(values: Mapping[str, Any], *, hermes_home: str | os.PathLike[str], provider: str = "mnemosyne") -> Path:
    """Merge `values` into `plugins.<provider>` of Hermes' `config.yaml` and return that file.

    Values of known keys are checked and written with their type; a blank or None removes the key, so that its default holds.
    Unknown keys are written as they are, everything else in the file stays. Raises ConfigError.
    """
    merged: dict[str, Any] = {}
    for name, value in values.items():
        key = _BY_NAME.get(name)
        blank = value is None or (isinstance(value, str) and not value.strip())
        if blank or key is None:
            merged[name] = None if blank else value
            continue
        try:
            parsed = _parse(key, value)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error
        merged[name] = dict(parsed) if key.type == "aliases" else list(parsed) if isinstance(parsed, tuple) else parsed
    return config_files.update_plugin_section(Path(hermes_home), provider, merged)


def shown(value: Any) -> str:
    """Return a value of a setting as text that `resolve` reads back; empty for unset."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join("=".join(item) if isinstance(item, tuple) else item for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- places ----------------------------------------------------------------------------------------------------------------------


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _filled_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a file that are set: whoever copies an example, or passes a wizard's question, leaves blanks.

    Keys of a group may stand in a mapping under the group's name.
    """
    found: dict[str, Any] = {}
    for name, value in _given(values).items():
        if name in _GROUPS and isinstance(value, Mapping):
            found |= {f"{name}.{inner}": one for inner, one in _filled_in(value).items()}
        elif not isinstance(value, str) or value.strip():
            found[name] = value
    return found


def _named_file(path: Path, provider: str) -> _Source:
    data = config_files.read_mapping(path)
    if data is None:
        raise ConfigError(f"there is no file {path}: correct --config")
    # A file of the host is welcome too: its section of this provider counts.
    values = config_files.plugin_section(data, provider, str(path)) if isinstance(data.get("plugins"), Mapping) else data
    return _Source(label=str(path), values=_filled_in(values))


def _own_file(path: Path) -> list[_Source]:
    data = config_files.read_mapping(path)
    if not data:
        return []
    for name in sorted(_PLACES & data.keys()):
        raise ConfigError(f"`{name}` in {path} would point away from the store it lies beside: give it by flag or environment")
    return [_Source(label=str(path), values=_filled_in(data))]


def _hermes_source(home: str | os.PathLike[str] | None, environ: Mapping[str, str], provider: str) -> list[_Source]:
    place = Path(home) if home is not None else paths.hermes_home(environ)
    if place is None:
        return []
    path = place / config_files.HERMES_CONFIG
    data = config_files.read_mapping(path)
    if data is None:
        return []
    section = config_files.plugin_section(data, provider, str(path))
    return [_Source(label=f"{path} plugins.{provider}", values=_filled_in(section))]


def _store_directory(settings: Settings, environ: Mapping[str, str], home: str | os.PathLike[str] | None) -> Path | None:
    if settings.dsn or (settings.db and ("://" in settings.db or settings.db == ":memory:" or is_dsn(settings.db))):
        return None
    return database_file(settings, environ=environ, hermes_home=home).parent


def _merge(sources: list[_Source], provider: str, *, strict: bool) -> Effective:
    chosen: dict[str, Any] = {}
    origin: dict[str, str] = {}
    warnings: list[str] = []
    for source in sources:
        for name, value in source.values.items():
            place = source.place.get(name, source.label)
            key = _BY_NAME.get(name)
            problem = None
            if key is None or key.provider not in {"", provider}:
                problem = _unknown(name, provider)
            elif name not in chosen:
                try:
                    key = dataclasses.replace(key, clamped=key.clamped or name in CLAMPED.get(provider, ()))
                    chosen[name] = _parse(key, value)
                    origin[name] = place
                except ValueError as error:
                    problem = f"{name}: {error}"
            if problem and strict:
                raise ConfigError(f"{problem} ({place})")
            if problem:
                warnings.append(f"{problem}; ignored ({place})")
    settings = changed(DEFAULTS, {**PROVIDER_DEFAULTS.get(provider, {}), **chosen})
    return Effective(settings, origin, tuple(warnings), provider)


def _unknown(name: str, provider: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, [key.name for key in keys_of(provider) if key.name != name], n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`?" if near else "see `mnemosyne config show --effective` for the keys"
    return f"unknown setting `{name}`: {hint}"


# -- values ----------------------------------------------------------------------------------------------------------------------

_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_FALSE = frozenset({"0", "false", "no", "off", "n", "f"})
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)", re.IGNORECASE)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def _parse(key: Key, value: Any) -> Any:
    """Return a value of any spelling with its type. Raises ValueError saying what is accepted."""
    if isinstance(value, str):
        value = value.strip()
    if key.type == "flag":
        return _flag(value)
    if key.type in {"whole", "bytes", "number", "duration"}:
        return _numeric(key, value)
    if key.type == "list":
        return _list(key, value)
    if key.type == "aliases":
        return _aliases(value)
    if not isinstance(value, str | int | float | os.PathLike) or isinstance(value, bool) or value == "":
        raise ValueError("give a text")
    text = str(value)
    if "\0" in text:
        raise ValueError("a NUL character cannot stand here")
    if key.type == "choice":
        text = text.lower()
        if text not in key.choices:
            raise ValueError(f"{text!r} is none of {', '.join(key.choices)}")
    return text


def seconds_of(text: str) -> float:
    """Return a length of time, a number of seconds or one with `s`, `m`, `h` or `d`, in seconds; not a number for what is none."""
    match = _DURATION.fullmatch(text.strip())
    return float(match[1]) * _SECONDS[match[2].lower()] if match else math.nan


def _flag(value: Any) -> bool:
    word = str(value).lower()
    if isinstance(value, bool | int | str) and word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError(f"{word!r} is neither true nor false")


def _numeric(key: Key, value: Any) -> float:
    number = math.nan
    if isinstance(value, str):
        if key.type == "bytes" and (match := _SIZE.fullmatch(value)):
            number = math.floor(float(match[1]) * 1024 ** _POWERS[match[2].lower()])
        elif key.type == "duration":
            number = seconds_of(value)
        else:
            try:
                number = float(value)
            except ValueError:
                number = math.nan
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    whole = key.type not in {"number", "duration"}
    if not math.isfinite(number) or (whole and number != int(number)):
        wanted = "time such as 30s, 10m or 1h" if key.type == "duration" else "whole number" if whole else "number"
        raise ValueError(f"{str(value)[:40]!r} is no {wanted}")
    if key.clamped:
        number = min(max(number, key.low), key.high)
    if not key.low <= number <= key.high:
        bounds = f"at least {key.low:g}" if key.high == math.inf else f"between {key.low:g} and {key.high:g}"
        raise ValueError(f"{number:g} must be {bounds}")
    return int(number) if whole else number


def _list(key: Key, value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple | set | frozenset) or any(isinstance(item, dict | list | bool) for item in value):
        raise ValueError("give a list, or texts separated by commas")
    items = tuple(dict.fromkeys(text for text in (str(item).strip() for item in value if item is not None) if text))
    if items:
        return items
    if key.default is None:
        return None
    raise ValueError("give at least one value")


def _aliases(value: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(value, str):
        pairs = [item.rpartition("=")[::2] for item in value.split(",") if item.strip()]
        if any(not raw.strip() for raw, _ in pairs):
            raise ValueError("give `identity=theme` pairs separated by commas")
    elif isinstance(value, Mapping) and not any(isinstance(item, dict | list | bool) for item in value.values()):
        pairs = [(str(raw), "" if theme is None else str(theme)) for raw, theme in value.items()]
    elif isinstance(value, tuple) and all(isinstance(item, tuple) and len(item) == 2 for item in value):  # noqa: PLR2004 - a pair
        pairs = [(str(raw), str(theme)) for raw, theme in value]
    else:
        raise ValueError("give a mapping, or `identity=theme` pairs separated by commas")
    return tuple((raw.strip(), theme.strip()) for raw, theme in pairs)
