"""The file of seal keys: where it is named, and what stands in it."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from hermes_mnemosyne._errors import ConfigError
from hermes_mnemosyne.sync.seal import KEY_BYTES, Sealer, SealKey
from hermes_mnemosyne.sync.secret import SEAL_VARIABLE, credentials_directory, path_of, read_private

FLAG = "--seal-key-file"
CREDENTIAL = "seal-key"
_FILE_SCHEME = "file:"
_MOST_KEYS = 16
_KEY = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")


def new_key() -> str:
    """Return a new seal key: the line of a key file."""
    return secrets.token_hex(KEY_BYTES)


def sealer_of(*, flag: str | None, setting: str | None, environ: Mapping[str, str]) -> Sealer | None:
    """Return what seals and opens, None where no key file is named.

    One of `flag` (the value of `--seal-key-file`) and `MNEMOSYNE_SEAL_KEY_FILE`; without them the file of a setting, else the
    credential `seal-key` of systemd, if it is there. Raises ConfigError when two of them are set or the file holds no keys, MissingExtra.
    """
    path = _named(flag, setting, environ)
    return None if path is None else Sealer(keys_in(path, environ=environ))


def _named(flag: str | None, setting: str | None, environ: Mapping[str, str]) -> Path | None:
    if flag is not None and SEAL_VARIABLE in environ:
        raise ConfigError(
            f"{FLAG} and {SEAL_VARIABLE} both say where the seal key is: leave one out (unset it, an empty one counts too)"
        )
    if flag is not None:
        return path_of(flag, FLAG)
    if SEAL_VARIABLE in environ:
        return path_of(environ[SEAL_VARIABLE].removeprefix(_FILE_SCHEME), SEAL_VARIABLE)
    if setting is not None:
        return path_of(setting, "sync.seal_key_file")
    directory = credentials_directory(environ)
    path = None if directory is None else directory / CREDENTIAL
    return path if path is not None and os.path.lexists(path) else None


def keys_in(path: Path, *, environ: Mapping[str, str]) -> list[SealKey]:
    """Return the keys of a file, one on each line; blank lines and those that begin with # are passed over. Raises ConfigError."""
    lines = [line.strip() for line in read_private(path, environ=environ).decode("utf-8", "replace").splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise ConfigError(f"{path} is empty: it must hold a seal key, which 'mnemosyne keys seal-key' makes")
    if not all(map(_KEY.fullmatch, found)):
        raise ConfigError(
            f"{path} holds what is no seal key: each line is {2 * KEY_BYTES} hex digits, as 'mnemosyne keys seal-key' makes them"
        )
    keys = [SealKey.of(bytes.fromhex(line)) for line in found]
    if len({key.id for key in keys}) < len(keys):
        raise ConfigError(f"{path} holds a key twice: leave one out")
    if len(keys) > _MOST_KEYS:
        raise ConfigError(f"{path} holds more than {_MOST_KEYS} keys: leave out those under which nothing is sealed any more")
    return keys
