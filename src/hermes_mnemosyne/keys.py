"""The subject key: 32 secret random bytes in a file of one's own.

Contacts inside shared themes, forgotten texts and places of files are known to the store by keyed hashes only. The store keeps
`check_value()`, so that a host that holds no key or another one notices before it writes under wrong names.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

KEY_BYTES = 32


class SubjectKey:
    """The key in the file `path`; made at first need unless `create` is false or the store expects a certain key.

    Safe from any thread and after a fork: nothing is shared but the bytes read.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, expected: str | None = None) -> None:
        """Remember where the key lies; read nothing. `expected` is the check value that the store keeps."""
        self.path = Path(path)
        self._create = create
        self._expected = expected
        self._bytes: bytes | None = None

    def expect(self, check_value: str | None) -> None:
        """Accept only the key with this check value from now on; None accepts any."""
        self._expected = check_value

    def load(self, *, create: bool | None = None) -> bool:
        """Read the key, making the file first if `create` (None: as constructed) and no certain key is expected; tell success."""
        if self._bytes is None:
            self._bytes = self._read()
        wanted = self._create if create is None else create
        if self._bytes is None and wanted and self._expected is None:
            # Another thread may have made the file since it was looked for.
            if not os.path.lexists(self.path):
                with contextlib.suppress(OSError):  # `problems` tells
                    self._make()
            self._bytes = self._read()
        return self._usable() is not None

    def digest(self, purpose: str, *parts: str) -> str | None:
        """Return HMAC-SHA256 (hex) over `purpose` and `parts`, each with its length; None when there is no usable key."""
        if not self.load():
            return None
        key = self._usable()
        return None if key is None else _mac(key, purpose, *parts)

    def check_value(self) -> str | None:
        """Return the value by which a store recognises this key (hex, not secret), None when no key can be read or made."""
        self.load()
        return None if self._bytes is None else _check(self._bytes)

    def problems(self) -> list[str]:
        """Return what is wrong with the key file, each with its remedy; makes nothing."""
        try:
            info = self.path.stat()
        except FileNotFoundError:
            return [f"the subject key {self.path} is missing: copy it from the host where it was made"] if self._expected else []
        except OSError as error:
            return [f"the subject key {self.path} cannot be read ({error.strerror}): give this user access to it"]
        found = []
        raw = self._read()
        if not stat.S_ISREG(info.st_mode):
            found.append(f"the subject key {self.path} is no regular file: move it away and copy the key there")
        elif raw is None and info.st_size != KEY_BYTES:
            found.append(f"the subject key {self.path} has {info.st_size} bytes, not {KEY_BYTES}: copy it again from its host")
        elif raw is None:
            found.append(f"the subject key {self.path} cannot be read: give this user access to it")
        elif self._expected is not None and not hmac.compare_digest(_check(raw), self._expected):
            found.append(f"the subject key {self.path} is not the one this store was made with: copy the right one here")
        if info.st_mode & 0o077:
            found.append(f"the subject key {self.path} is open to others (mode {info.st_mode & 0o777:03o}): chmod 600 it")
        return found

    def _usable(self) -> bytes | None:
        key = self._bytes
        if key is None or (self._expected is not None and not hmac.compare_digest(_check(key), self._expected)):
            return None
        return key

    def _read(self) -> bytes | None:
        # Opened without waiting, as a pipe in this place must not hang a hook.
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            raw = os.read(handle, KEY_BYTES + 1)
        except OSError:
            return None
        finally:
            os.close(handle)
        return raw if len(raw) == KEY_BYTES else None

    def _make(self) -> None:
        from hermes_mnemosyne.paths import secure_directory

        secure_directory(self.path.parent)
        fresh = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            # A link refuses to replace: of two processes the second keeps the first one's key.
            with contextlib.suppress(FileExistsError):
                self._publish(fresh)
        finally:
            fresh.unlink(missing_ok=True)
        _sync_directory(self.path.parent)

    def _publish(self, fresh: Path) -> None:
        try:
            os.link(fresh, self.path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links: a reader of the unfinished file finds no key and asks again
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(fresh.read_bytes())
                file.flush()
                os.fsync(file.fileno())


def _mac(key: bytes, purpose: str, *parts: str) -> str:
    state = hmac.new(key, digestmod=hashlib.sha256)
    for part in (purpose, *parts):
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "big"))
        state.update(raw)
    return state.hexdigest()


def _check(key: bytes) -> str:
    return _mac(key, "check")


def _sync_directory(directory: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
