"""Opening a file safely: whose it is, where it lies, its log, its migrations."""

from __future__ import annotations

import random
import secrets
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from hermes_mnemosyne import paths
from hermes_mnemosyne._errors import ForeignFile, StoreBusy, StoreUnavailable
from hermes_mnemosyne.store.sqlite import migrate
from hermes_mnemosyne.store.sqlite.connections import APPLICATION_ID, Connections
from hermes_mnemosyne.store.sqlite.errors import mnemosyne_error

# SQLite takes a shorter file for an empty database and would overwrite it.
_LEAST_BYTES = 512


def files(path: Path) -> list[Path]:
    """Return a database file and its companions."""
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]


def prepare(connections: Connections, analyser_version: int, wait: float) -> None:
    """Make the file with its directory (modes 0600 and 0700) when it is missing, and apply missing migrations.

    Raises ForeignFile for a file of another program, SchemaMismatch for one of a newer release, StoreUnavailable for a network
    file system or a file that cannot be written, StoreBusy when a lock is not free within `wait` seconds.
    """
    path = connections.path
    try:
        paths.secure_directory(path.parent)
        if paths.is_network_filesystem(path.parent):
            raise StoreUnavailable(
                f"{path} lies on a network file system, where SQLite's log loses data: choose a local path with --db or "
                "MNEMOSYNE_DATA_DIR"
            )
        if path.exists() and (path.stat().st_size or not path.is_file()):
            _refuse_foreign(path)
        else:
            paths.secure_file(path)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror or error}; choose another place with --db") from error
    _use_log(connections, wait)
    with connections.reading() as db:
        fresh = migrate.pending(db)
        if not fresh:
            migrate.verify(db)
    if fresh:
        with connections.writing(wait) as db:
            migrate.migrate(db)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
            for name, value in (("replica", secrets.token_hex(8)), ("analyser", str(analyser_version))):
                db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, value))


def _refuse_foreign(path: Path) -> None:
    """Look at the file without opening it for writing; another program's file is left as it is, its companions too.

    Only through SQLite: closing a handle of one's own would take away the locks that this process holds on the file.
    """
    # `immutable` makes no files beside it. What another process is making may stand in the log alone.
    foreign = not path.is_file() or path.stat().st_size < _LEAST_BYTES or _holds_other_tables(path, "immutable=1")
    if not foreign and files(path)[1].exists():
        foreign = _holds_other_tables(path, "mode=ro")
    if foreign:
        raise ForeignFile(f"{path} is not a Mnemosyne file and was left untouched: name another file with --db")


def _holds_other_tables(path: Path, how: str) -> bool:
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=5.0)) as db:
            if db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return False
            # Between the two looks another process may have marked the file that it is making.
            has_tables = db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
            return has_tables and db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_NOTADB:
            return True
        if code == sqlite3.SQLITE_CORRUPT and how == "immutable=1":
            return False  # a checkpoint is under way, or it is damaged: the ordinary opening tells
        raise mnemosyne_error(error, path) from error


def _use_log(connections: Connections, wait: float) -> None:
    """Switch to the write-ahead log; SQLite does not wait for a lock there, so several first openers take turns."""
    deadline = time.monotonic() + wait
    while True:
        try:
            with connections.maintaining(wait) as db:
                mode: str = db.execute("PRAGMA journal_mode").fetchone()[0]
                if mode != "wal":
                    mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except StoreBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.002, 0.02))  # noqa: S311 - spreads the openers, hides nothing
            continue
        if mode != "wal":
            raise StoreUnavailable(
                f"{connections.path}: its file system cannot hold SQLite's write-ahead log; choose another place"
            )
        return
