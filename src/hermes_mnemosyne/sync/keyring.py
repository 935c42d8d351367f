"""The managed file of named keys: who may read or write which themes, revocable while servers run.

The file never holds a key. It holds its SHA-256, by which a bearer is known, and the two keys derived of it (HKDF) by which signed
requests and answers are; whoever reads them could sign in that key's name, so the file is as private as a key: mode 0600.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_mnemosyne._errors import ConfigError, InvalidInput, NotFound, StoreBusy, StoreFull
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.sync.secret import read_private
from hermes_mnemosyne.sync.signing import SigningKeys, derive
from hermes_mnemosyne.sync.wire import WireError, read_object

RIGHTS = ("read", "write")
FILE_SUFFIX = "keys.json"
KEY_PREFIX = "mnk_"

_FORMAT = 1
_MAX_FILE = 4 * 1024 * 1024
_LOCK_SECONDS = 10.0
_POLL_SECONDS = 0.02
_NAME = re.compile(r"[^\W_][\w.@+-]{0,63}")
_ID = re.compile(r"[0-9a-f]{16}")
_HASH = re.compile(r"[0-9a-f]{64}")
_FIELDS = {"name", "id", "sha256", "request", "answer", "rights", "themes", "created_at"}


@dataclass(frozen=True, slots=True)
class Grant:
    """What a key allows: `themes` are case-folded, None for all."""

    name: str
    read: bool
    write: bool
    themes: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class NamedKey:
    """One key of the file, without the key itself: what it allows, what it signs with, its SHA-256 (hex), when it was made."""

    grant: Grant
    signing: SigningKeys
    sha256: str
    created_at: str

    @classmethod
    def of(cls, key: str, grant: Grant) -> NamedKey:
        """Return what is kept of `key`."""
        return cls(grant, derive(key), _hash(key), now_text())

    @property
    def name(self) -> str:
        """Its name."""
        return self.grant.name

    @property
    def rights(self) -> tuple[str, ...]:
        """Its rights, of `read` and `write`."""
        return tuple(word for word, has in zip(RIGHTS, (self.grant.read, self.grant.write), strict=True) if has)

    def shown(self) -> dict[str, Any]:
        """Return what anybody may know of it."""
        themes = self.grant.themes
        return {
            "name": self.name,
            "id": self.signing.id,
            "rights": list(self.rights),
            "themes": None if themes is None else sorted(themes),
            "created_at": self.created_at,
        }


class Keyring:
    """The keys in the file `path`. Safe from any thread and any number of processes.

    A file that cannot be read or understood raises ConfigError from every method: then nobody is let in, and nobody by accident.
    """

    def __init__(self, path: str | os.PathLike[str], *, environ: Mapping[str, str] | None = None) -> None:
        """Remember where the file lies; read nothing. `environ` says where systemd's credentials are."""
        self.path = Path(path)
        self._environ = os.environ if environ is None else environ
        self._seen: tuple[int, ...] | None = None
        self._keys: tuple[NamedKey, ...] = ()
        self._by_id: dict[str, NamedKey] = {}
        self._lock = threading.Lock()

    def keys(self) -> tuple[NamedKey, ...]:
        """Return the keys by name. Raises ConfigError, also when there is no file."""
        self._refresh()
        return self._keys

    def find(self, key_id: str) -> NamedKey | None:
        """Return the key with this id, which is no secret. Raises ConfigError."""
        self._refresh()
        return self._by_id.get(key_id)

    def check_bearer(self, key: str) -> Grant | None:
        """Return what a key allows, None for one that is not in the file; the time it takes says nothing. Raises ConfigError."""
        self._refresh()
        digest, found = _hash(key), None
        for known in self._keys:
            if hmac.compare_digest(known.sha256, digest):
                found = known.grant
        return found

    def exists(self) -> bool:
        """Tell whether there is something under the name of the file."""
        return os.path.lexists(self.path)

    def add(self, name: str, *, rights: Iterable[str] = RIGHTS, themes: Iterable[str] | None = None) -> str:
        """Make a key and return it, the only time that anybody sees it; `themes` None means all.

        The file is made if there is none. Raises InvalidInput for a name that is taken or none, and for unknown rights.
        """
        grant = _grant(name, rights, themes)
        with self._changing() as keys:
            if any(known.name == grant.name for known in keys):
                raise InvalidInput(f"there is a key {grant.name} already: revoke it first, or take another name")
            key = KEY_PREFIX + secrets.token_urlsafe(32)
            keys.append(NamedKey.of(key, grant))
        return key

    def revoke(self, name: str) -> NamedKey:
        """Take a key out of the file and return what it was; servers refuse it from now on. Raises NotFound, ConfigError."""
        wanted = unicodedata.normalize("NFC", name)
        with self._changing() as keys:
            found = next((known for known in keys if known.name == wanted), None)
            if found is None:
                raise NotFound(f"there is no key {name} in {self.path}: 'mnemosyne keys list' prints those that are there")
            keys.remove(found)
        return found

    # -- the file ----------------------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Read the file again if it was changed."""
        with self._lock:
            seen = self._stamp()
            if seen != self._seen:
                self._take(self._read())
                self._seen = seen

    def _take(self, keys: Iterable[NamedKey]) -> None:
        self._keys = tuple(sorted(keys, key=lambda known: known.name))
        self._by_id = {known.signing.id: known for known in self._keys}

    def _stamp(self) -> tuple[int, ...]:
        try:
            info = self.path.stat()
        except FileNotFoundError:
            raise ConfigError(
                f"there is no file of keys {self.path}: make it with 'mnemosyne keys add NAME --keys-file {self.path}'"
            ) from None
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self.path} cannot be read ({getattr(error, 'strerror', None) or error}): correct the path"
            ) from None
        return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode)

    def _read(self) -> list[NamedKey]:
        return parse(read_private(self.path, environ=self._environ, limit=_MAX_FILE), str(self.path))

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[NamedKey]]:
        """Give the keys to be changed, alone among all processes, and write them back."""
        from hermes_mnemosyne.paths import secure_directory

        if "\0" in str(self.path):
            raise ConfigError("the path of a file of keys has no NUL in it: correct it")
        path = Path(os.path.realpath(self.path))
        try:
            secure_directory(path.parent)
            with _locked(path.parent):
                # What was read before the lock may be old by now.
                keys = self._read() if os.path.lexists(path) else []
                yield keys
                _write(path, keys)
        except OSError as error:
            raise _failed(self.path, error) from error


def parse(raw: bytes, source: str) -> list[NamedKey]:
    """Return the keys that a file holds. Raises ConfigError for anything that is not exactly as it was written."""
    try:
        value = read_object([raw], encoding="identity", max_bytes=_MAX_FILE)
    except WireError as error:
        raise ConfigError(f"{source} is damaged ({error}): restore it, or move it away and make new keys") from None
    if value.get("format") != _FORMAT:
        raise ConfigError(f"{source} is of another release, or no file of keys: update Mnemosyne here, or correct the path")
    try:
        return _keys_of(value)
    except InvalidInput as error:
        # A field that is not understood could be a limit: passing over it would let in more than was meant.
        raise ConfigError(f"{source} is damaged ({error}): restore it, or move it away and make new keys") from None


def _keys_of(value: Mapping[str, Any]) -> list[NamedKey]:
    if value.keys() != {"format", "keys"} or not isinstance(value["keys"], list):
        raise InvalidInput("it has other fields than it should")
    keys = [_key_of(item) for item in value["keys"]]
    if len({key.name for key in keys}) < len(keys) or len({key.signing.id for key in keys}) < len(keys):
        raise InvalidInput("a name or an id stands in it twice")
    return keys


def _key_of(item: Any) -> NamedKey:
    if not isinstance(item, dict) or item.keys() != _FIELDS:
        raise InvalidInput("a key has other fields than it should")
    for name, form in (("id", _ID), ("sha256", _HASH), ("request", _HASH), ("answer", _HASH)):
        if not isinstance(item[name], str) or not form.fullmatch(item[name]):
            raise InvalidInput(name)
    rights, themes = item["rights"], item["themes"]
    if (
        not isinstance(rights, list)
        or not (themes is None or isinstance(themes, list))
        or not isinstance(item["created_at"], str)
    ):
        raise InvalidInput("rights, themes or created_at")
    signing = SigningKeys(item["id"], bytes.fromhex(item["request"]), bytes.fromhex(item["answer"]))
    return NamedKey(_grant(item["name"], rights, themes), signing, item["sha256"], item["created_at"])


def _grant(name: object, rights: Iterable[object], themes: Iterable[object] | None) -> Grant:
    """Return what a key allows, every part checked. Raises InvalidInput."""
    name = unicodedata.normalize("NFC", name) if isinstance(name, str) else ""
    if not _NAME.fullmatch(name):
        raise InvalidInput("the name of a key has 1 to 64 letters, digits and . @ + _ -, and begins with a letter or digit")
    given = list(rights)
    if not given or any(word not in RIGHTS for word in given):
        raise InvalidInput(f"the rights of a key are {' and '.join(RIGHTS)}")
    folded = None if themes is None else frozenset(_theme(theme) for theme in themes)
    if folded is not None and not folded:
        raise InvalidInput("a key for no theme is of no use: name one, or none for all")
    return Grant(name, "read" in given, "write" in given, folded)


def _theme(theme: object) -> str:
    from hermes_mnemosyne.text import storable

    folded = storable(theme)[0].strip().lower() if isinstance(theme, str) else ""
    if not folded:
        raise InvalidInput("a theme of a key is blank: name it")
    return folded


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _failed(path: Path, error: OSError) -> Exception:
    import errno

    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"{path} was not changed ({reason}): make room")
    return ConfigError(f"{path} was not changed ({reason}): name a place that this user may write with --keys-file")


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory: it needs no file of its own, whose owner and mode would matter to the next one who locks."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreBusy(f"another process has been changing keys in {directory} for long: try again") from None
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def _write(path: Path, keys: Iterable[NamedKey]) -> None:
    """Replace the file as a whole, durably: a revoked key must not come back with a power cut."""
    rows = [
        {**key.shown(), "sha256": key.sha256, "request": key.signing.request.hex(), "answer": key.signing.answer.hex()}
        for key in sorted(keys, key=lambda known: known.name)
    ]
    text = json.dumps({"format": _FORMAT, "keys": rows}, indent=1) + "\n"
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            _give_to_owner(file.fileno(), path)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _give_to_owner(handle: int, path: Path) -> None:
    """Let a file that the superuser writes belong to whom the old one belonged, or its directory: the server is not the superuser."""
    if os.geteuid() == 0:
        info = (path if path.exists() else path.parent).stat()
        os.fchown(handle, info.st_uid, info.st_gid)
