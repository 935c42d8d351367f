"""The API key of sync, the same on server, client and provider: where it comes from, and which files are private enough for it.

A key that was meant to be there and cannot be used is an error in every case: never is there no authentication by accident.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from hermes_mnemosyne._errors import ConfigError

KEY_VARIABLE = "MNEMOSYNE_SYNC_KEY"
FILE_VARIABLE = "MNEMOSYNE_SYNC_KEY_FILE"
SEAL_VARIABLE = "MNEMOSYNE_SEAL_KEY_FILE"
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"
FLAG = "--api-key-file"

MAX_KEY = 1024
_MAX_SECRET = 64 * 1024
_FILE_SCHEME = "file:"
_VISIBLE = range(0x21, 0x7F)


def api_key(*, flag: str | os.PathLike[str] | None, environ: Mapping[str, str], credential: str = "api-key") -> str | None:
    """Return the API key, None where none is configured.

    One of `flag` (the value of `--api-key-file`), `MNEMOSYNE_SYNC_KEY` and `MNEMOSYNE_SYNC_KEY_FILE` (which takes `file:/path` too);
    without any of them `credential` in systemd's `$CREDENTIALS_DIRECTORY`, if it is there. Raises ConfigError when more than one of
    the three is set, and when what is set cannot be read, is open to others, empty, or no single line of visible ASCII.
    """
    given = [
        name
        for name, is_set in (
            (FLAG, flag is not None),
            (KEY_VARIABLE, KEY_VARIABLE in environ),
            (FILE_VARIABLE, FILE_VARIABLE in environ),
        )
        if is_set
    ]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} both say which the key is: leave one out (unset it, an empty one counts too)")
    if flag is not None:
        return key_in(path_of(os.fspath(flag), FLAG), environ=environ)
    if KEY_VARIABLE in environ:
        return _checked(environ[KEY_VARIABLE].encode("utf-8", "surrogateescape"), KEY_VARIABLE)
    if FILE_VARIABLE in environ:
        return key_in(path_of(environ[FILE_VARIABLE].removeprefix(_FILE_SCHEME), FILE_VARIABLE), environ=environ)
    directory = credentials_directory(environ)
    path = None if directory is None else directory / credential
    return key_in(path, environ=environ) if path is not None and os.path.lexists(path) else None


def client_key(*, flag: str | None, setting: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the API key of a client: as `api_key` does, and from the file of a setting where neither a flag nor a variable says it.

    Raises ConfigError.
    """
    in_environment = KEY_VARIABLE in environ or FILE_VARIABLE in environ
    return api_key(flag=setting if flag is None and not in_environment else flag, environ=environ)


def key_in(path: Path, *, environ: Mapping[str, str]) -> str:
    """Return the key that a file holds; the line end after it is dropped. Raises ConfigError."""
    return _checked(read_private(path, environ=environ), str(path))


def read_private(path: Path, *, environ: Mapping[str, str], limit: int = _MAX_SECRET) -> bytes:
    """Return what a file for secrets holds, at most `limit` bytes, or what a pipe such as /dev/stdin delivers.

    A file must be closed to all but its owner; in systemd's `$CREDENTIALS_DIRECTORY` its group may read it, as systemd makes them. A
    link is as good as its target. Raises ConfigError, whose message names the remedy and nothing of the content.
    """
    try:
        file = path.open("rb")
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    with file:
        info = os.fstat(file.fileno())
        if stat.S_ISREG(info.st_mode):
            _check_mode(path, info, environ)
        try:
            raw = file.read(limit + 1)
        except OSError as error:
            raise _unreadable(path, error) from None
    if len(raw) > limit:
        raise ConfigError(f"{path} is longer than {limit:,} bytes: name the file that holds the secret")
    return raw


def _unreadable(path: Path, error: Exception) -> ConfigError:
    reason = getattr(error, "strerror", None) or "no path of a file"
    return ConfigError(f"{path} cannot be read ({reason}): correct the path, or give this user access to it")


def credentials_directory(environ: Mapping[str, str]) -> Path | None:
    """Return systemd's directory of this unit's credentials."""
    given = environ.get(CREDENTIALS_VARIABLE, "")
    return Path(given) if given else None


def _check_mode(path: Path, info: os.stat_result, environ: Mapping[str, str]) -> None:
    directory = credentials_directory(environ)
    real = Path(os.path.realpath(path))
    of_systemd = directory is not None and real.is_relative_to(os.path.realpath(directory))
    mode = stat.S_IMODE(info.st_mode)
    if mode & (0o037 if of_systemd else 0o077):
        raise ConfigError(f"{path} is open to others (mode {mode:03o}): chmod 600 {real}")


def path_of(text: str, source: str) -> Path:
    """Return the path that a flag, a variable or a setting names. Raises ConfigError for an empty one."""
    if not text.strip():
        raise ConfigError(f"{source} is empty: name the file that holds the key, or leave it out")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConfigError(f"{source} begins with ~ and no home directory is known: give an absolute path") from None


def _checked(raw: bytes, source: str) -> str:
    key = raw.rstrip(b"\r\n")
    if not key.strip():
        raise ConfigError(f"{source} is empty: it must hold the key on one line")
    if b"\n" in key or b"\r" in key:
        raise ConfigError(f"{source} has several lines: it must hold the key alone, on one line")
    if len(key) > MAX_KEY or not all(byte in _VISIBLE for byte in key):
        raise ConfigError(f"{source} holds no key: it is at most {MAX_KEY} letters, digits and signs of ASCII, without blanks")
    return key.decode("ascii")
