"""Errors of the sqlite3 module become errors of Mnemosyne here and nowhere else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hermes_mnemosyne._errors import (
    InvalidInput,
    MnemosyneError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)

_PRIMARY = 0xFF

_BY_PRIMARY_CODE: dict[int, tuple[type[MnemosyneError], str]] = {
    sqlite3.SQLITE_BUSY: (StoreBusy, "another process holds its lock; try again"),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "another connection holds its lock; try again"),
    sqlite3.SQLITE_PROTOCOL: (StoreBusy, "its locks are contended; try again"),
    sqlite3.SQLITE_INTERRUPT: (StoreBusy, "the statement was interrupted; try again"),
    sqlite3.SQLITE_FULL: (StoreFull, "there is no room left; free some space on its disk"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "it is damaged: keep it, and restore a backup or export what can be read"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "it is no SQLite database: keep it, and restore a backup or name another file"),
    sqlite3.SQLITE_READONLY: (StoreUnavailable, "it is read-only; check the owner and the mode of the file and its directory"),
    sqlite3.SQLITE_PERM: (StoreUnavailable, "access is not permitted; check the owner and the mode of the file"),
    sqlite3.SQLITE_AUTH: (StoreUnavailable, "access is not permitted; check the owner and the mode of the file"),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "it cannot be opened; check that its directory exists and may be written"),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "the disk reported an error; check the disk and its mount"),
    sqlite3.SQLITE_NOLFS: (StoreUnavailable, "its file system cannot hold large files; move it to another one"),
    sqlite3.SQLITE_SCHEMA: (StoreBusy, "its schema changed meanwhile; try again"),
    sqlite3.SQLITE_TOOBIG: (InvalidInput, "a value is longer than SQLite can store; shorten it"),
}

# Extended codes whose meaning for the caller differs from that of their primary code: shared memory that cannot grow is how a
# full disk shows in WAL mode, and a damaged file system damages the file.
_BY_EXTENDED_CODE: dict[int, int] = {
    sqlite3.SQLITE_IOERR_SHMSIZE: sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_CORRUPTFS: sqlite3.SQLITE_CORRUPT,
}


def mnemosyne_error(error: sqlite3.Error, what: Path | str = "the database") -> MnemosyneError:
    """Return the error of Mnemosyne that says what `error` means for the caller; `what` names the file.

    Errors without a known meaning (a constraint, a wrong statement, a closed connection) become a plain StoreError.
    """
    # Errors raised by the Python module itself carry no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind, remedy = _BY_PRIMARY_CODE.get(_BY_EXTENDED_CODE.get(code, code & _PRIMARY), (StoreError, "the statement failed"))
    return kind(f"{what}: {remedy} (SQLite: {error})")


@contextmanager
def translated(what: Path | str = "the database") -> Iterator[None]:
    """Raise errors of sqlite3 within the block as errors of Mnemosyne, the cause attached; `what` names the file.

    Raises StoreBusy, StoreFull, StoreCorrupt, StoreUnavailable, InvalidInput (a value too long), else StoreError.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise mnemosyne_error(error, what) from error
