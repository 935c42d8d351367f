"""The SQLite file under the spool: one connection, made when it is needed, a damaged file set aside.

Other processes may replace the file at any time (setting a damaged one aside), and people may delete it. So every use compares
the file at the path with the one that the connection has open, before and after: work that went into a file which is no longer
there is done again in the new one. Work must therefore be safe to repeat.

SQLite opens the log of a file by its name, at the first statement, and the last connection deletes it by its name. Were the file
replaced in between, the log of the new file would be read, or deleted, with the pages of the old one. Therefore the directory is
locked: shared while a connection opens or closes, for one process alone while it makes, sets up or replaces the file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hermes_mnemosyne._errors import ForeignFile, SchemaMismatch, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from hermes_mnemosyne.forks import guard
from hermes_mnemosyne.paths import secure_directory, secure_file
from hermes_mnemosyne.store.sqlite.errors import translated
from hermes_mnemosyne.store.sqlite.spool_locks import SpoolLocks, unusable
from hermes_mnemosyne.store.sqlite.sql import statements

APPLICATION_ID = 0x4D6E5370  # "MnSp"
SCHEMA_VERSION = 1

_ATTEMPTS = 4
_MAX_PAUSE = 0.005
_FORK_WAIT = 10.0
_UPKEEP_WAIT = 2.0
_SCRUB_STEP = 0.01
_PRIMARY = 0xFF
_DAMAGED = ".damaged-"

# The columns of `everything`, waiting and in quarantine; what a damaged page yields may be anything.
_ROW_TYPES = ((str, str, str, type(None), int, str, int, str), (str, str, str, str, int, str, int, str))

_log = logging.getLogger(__name__)

T = TypeVar("T")
Row = tuple[Any, ...]
Run = Callable[..., list[Row]]  # (statement name, *parameters) -> all rows

# Connections that a child inherited from a fork which ran no hooks: closing them could disturb the parent's transaction.
_inherited: list[sqlite3.Connection] = []


def _patiently(step: Callable[[], T], deadline: float) -> T:
    """Repeat `step` while another connection is in its way, until the monotonic time `deadline`."""
    pause = 0.0002
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & _PRIMARY in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            left = deadline - time.monotonic()
            if not busy or left <= 0:
                raise
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _MAX_PAUSE)


def _runner(connection: sqlite3.Connection) -> Run:
    sql = statements("spool")
    # Every statement is read to its end: an open one would hold a snapshot, and the log could not be emptied.
    return lambda name, *parameters: connection.execute(sql[name], parameters).fetchall()


class _NotSetUpError(Exception):
    """The file has no schema or no write-ahead log yet."""


class SpoolFile:
    """Runs statements of `queries/spool.sql` by name; safe from any thread, and across forks."""

    def __init__(self, path: Path, *, durability: str = "normal") -> None:
        """Take the path of the file; its directory exists. Nothing is opened or created yet.

        With `durability` `full` each write waits for the disk.
        """
        self._synchronous = "connection_synchronous_full" if durability == "full" else "connection_synchronous"
        self.path = path.absolute()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._locks = SpoolLocks(self.path)
        self._held_for_fork = False
        guard(self)

    # -- use ---------------------------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Tell whether the file is there."""
        return self._present() is not None

    def exclusive(self) -> contextlib.AbstractContextManager[bool]:
        """Hold a lock beside the file during the block, if no other process or thread does: then yield True.

        Raises StoreUnavailable and StoreFull when it cannot be used.
        """
        return self._locks.exclusive()

    def read(self, name: str, *parameters: object, wait: float = _UPKEEP_WAIT) -> list[Row]:
        """Return the rows of the named query, none when there is no file; `wait` is in seconds. Raises the store errors."""
        rows = self._use(lambda db, deadline: _patiently(lambda: _runner(db)(name, *parameters), deadline), wait)
        return rows or []

    def write(self, work: Callable[[Run], T], *, wait: float = _UPKEEP_WAIT, create: bool = False) -> T | None:
        """Return what `work` returns from one write transaction, None when there is no file and `create` is false.

        `work` may run again from its beginning. `wait` is in seconds. Raises the store errors, then nothing was written.
        """
        return self._use(lambda db, deadline: self._transaction(db, work, deadline), wait, create=create)

    def write_one(self, name: str, *parameters: object, wait: float = _UPKEEP_WAIT) -> list[Row]:
        """Return the rows of a named statement that is a transaction of its own; the file is made when it is missing.

        A third of the way of `write`, which hooks notice. Raises the store errors, then nothing was written.
        """
        rows = self._use(lambda db, deadline: _patiently(lambda: _runner(db)(name, *parameters), deadline), wait, create=True)
        return rows or []

    def scrub(self, *, wait: float = _UPKEEP_WAIT) -> bool:
        """Wipe what was erased out of the file and its log; False when others were in the way or there is no room for it.

        Raises StoreUnavailable and StoreCorrupt.
        """
        deadline = time.monotonic() + wait
        wiped: tuple[object, int] | None = None

        def once(db: sqlite3.Connection, until: float) -> bool:
            nonlocal wiped
            run = _runner(db)
            [(_, _, erased, scrubbed)] = run("totals")
            if erased == scrubbed:
                return True
            if wiped is None or wiped[0] != self._identity:
                # Pages that SQLite rearranged may hold stale copies that secure_delete does not know of: write them all anew.
                run("vacuum")
                wiped = (self._identity, erased)
            if run("checkpoint")[0][0]:
                return False
            # Counted, not flagged: what another process erased meanwhile stays due.
            done = wiped[1]
            self._transaction(db, lambda inner: inner("mark_scrubbed", done), until)
            return True

        # In short steps: the hooks of this process must not stand behind a reader of another one.
        while True:
            with contextlib.suppress(StoreBusy):
                try:
                    if self._use(once, _SCRUB_STEP) is not False:
                        return True
                except StoreFull:
                    return False
            if time.monotonic() >= deadline:
                return False
            time.sleep(_MAX_PAUSE)

    def _transaction(self, db: sqlite3.Connection, work: Callable[[Run], T], deadline: float) -> T:
        _patiently(lambda: db.execute("BEGIN IMMEDIATE"), deadline)
        try:
            result = work(_runner(db))
            db.execute("COMMIT")
        except BaseException:
            # Some errors, a full disk among them, have rolled back already.
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return result

    def _use(self, step: Callable[[sqlite3.Connection, float], T], wait: float, *, create: bool = False) -> T | None:
        if not create and not self.exists():
            return None
        deadline = time.monotonic() + wait
        if not self._lock.acquire(timeout=max(wait, 0.0)):
            raise StoreBusy(f"{self.path}: another thread is using it; try again")
        try:
            for attempt in range(_ATTEMPTS):
                try:
                    with translated(self.path):
                        db = self._connected(deadline, create=create)
                        if db is None:
                            return None
                        result = step(db, deadline)
                except StoreError as error:
                    if attempt == _ATTEMPTS - 1:
                        raise
                    # An error of a file that is no longer there says nothing about the one that took its place.
                    if self._present() == self._identity:
                        if not isinstance(error, StoreCorrupt):
                            raise
                        self._set_aside()
                    continue
                if self._present() == self._identity:
                    return result
            raise StoreBusy(f"{self.path}: it is being replaced again and again; try again")
        finally:
            self._lock.release()

    # -- the connection ----------------------------------------------------------------------------------------------------------

    def _present(self) -> tuple[int, int] | None:
        """Return device and inode of the file at the path, None when there is none."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - Path.stat costs twice as much, and hooks come here
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unusable(error, self.path) from error
        return found.st_dev, found.st_ino

    def _is_blank(self) -> bool:
        try:
            return self.path.stat().st_size == 0
        except OSError:
            return True

    def _connected(self, deadline: float, *, create: bool) -> sqlite3.Connection | None:
        present = self._present()
        if self._connection is not None:
            if present == self._identity:
                return self._connection
            # SQLite sees that the file was moved, and leaves the log of the new one alone.
            self._disconnect()
        if not create and (present is None or self._is_blank()):
            # A blank file was made, but never set up, since a full disk stood in the way, for example: there is nothing in it.
            return None
        try:
            secure_directory(self.path.parent)
        except OSError as error:
            raise unusable(error, self.path) from error
        with self._locks.directory(deadline, shared=True):
            # Several that open a blank file would delete a log left from an earlier one under each other's hands.
            if not self._is_blank():
                self._identity = self._present()
                with contextlib.suppress(_NotSetUpError):
                    self._connection = self._open(deadline, set_up=False)
        if self._connection is None:
            with self._locks.directory(deadline):
                if not create and self._is_blank():
                    return None
                try:
                    secure_file(self.path)
                except OSError as error:
                    raise unusable(error, self.path) from error
                self._identity = self._present()
                self._connection = self._open(deadline, set_up=True)
        return self._connection

    def _open(self, deadline: float, *, set_up: bool) -> sqlite3.Connection:
        """Return a new connection; the caller holds the directory. Raises _NotSetUpError unless it may be `set_up`."""
        # mode=rw: SQLite itself must never create the file, it would do so with the modes of the umask.
        db = sqlite3.connect(f"{self.path.as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            run = _runner(db)
            _patiently(lambda: self._make_ready(db, run, set_up=set_up), deadline)
            for name in (self._synchronous, "connection_secure_delete", "connection_temp_store", "totals"):
                _patiently(partial(run, name), deadline)
        except BaseException:
            db.close()
            raise
        return db

    def _make_ready(self, db: sqlite3.Connection, run: Run, *, set_up: bool) -> None:
        if not self._is_fresh(run) and run("journal_mode") == [("wal",)]:
            return
        if not set_up:
            raise _NotSetUpError
        if run("use_log") != [("wal",)]:
            raise StoreUnavailable(f"{self.path}: its file system does not support a write-ahead log; move it to a local disk")
        if self._is_fresh(run):
            schema = [name for name in statements("spool") if name.startswith("schema_")]
            self._transaction(db, lambda inner: [inner(name) for name in schema], time.monotonic())

    def _is_fresh(self, run: Run) -> bool:
        [(application,)], [(version,)], [(objects,)] = run("application_id"), run("user_version"), run("objects")
        if not application and not objects:
            return True
        if application != APPLICATION_ID:
            raise ForeignFile(f"{self.path}: this database belongs to another program; move it away")
        if version > SCHEMA_VERSION:
            raise SchemaMismatch(
                f"{self.path}: a later release of Mnemosyne wrote this spool; upgrade, or drain it with that one"
            )
        return False

    def _disconnect(self) -> None:
        db, self._connection, self._identity = self._connection, None, None
        if db is not None:
            with translated(self.path):
                db.close()

    def _leave(self) -> None:
        """Close the connection to a file that may still be in its place."""
        if self._connection is None:
            return
        with contextlib.ExitStack() as held:
            # It is closed in any case, also when the directory is gone.
            with contextlib.suppress(StoreError):
                held.enter_context(self._locks.directory(time.monotonic() + _UPKEEP_WAIT, shared=True))
            self._disconnect()

    def close(self) -> None:
        """Close the connection; a later use opens a new one."""
        with self._lock:
            self._leave()

    # -- forks -------------------------------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait until nothing is under way, then close the connection, which a child must not inherit."""
        self._held_for_fork = self._lock.acquire(timeout=_FORK_WAIT)
        if self._held_for_fork:
            # The connection is gone also when closing it met an error, and the fork takes place anyway.
            with contextlib.suppress(StoreError):
                self._leave()

    def after_fork(self) -> None:
        """Go on in the parent."""
        if self._held_for_fork:
            self._held_for_fork = False
            self._lock.release()

    def abandon(self) -> None:
        """Forget what a forked child inherited; the next use opens a new connection."""
        if self._connection is not None:
            _inherited.append(self._connection)
            self._connection = self._identity = None
        self._lock = threading.Lock()
        self._held_for_fork = False
        self._locks.abandon()

    # -- damage ------------------------------------------------------------------------------------------------------------------

    def damaged(self) -> list[Path]:
        """Return the damaged files that were set aside and still lie beside the spool, oldest first."""
        prefix = self.path.name + _DAMAGED
        try:
            names = sorted(os.listdir(self.path.parent))  # noqa: PTH208 - names are wanted
        except OSError:
            return []
        return [self.path.with_name(name) for name in names if name.startswith(prefix) and not name.endswith(("-wal", "-shm"))]

    def _set_aside(self) -> None:
        """Rename the damaged file and start a new one with the rows of the old one that can still be read.

        One process at a time, by a lock on the directory. A file that is sound is left alone: another process was faster.
        """
        deadline = time.monotonic() + _UPKEEP_WAIT
        with self._locks.directory(deadline):
            # SQLite may find the damage again while it closes.
            with contextlib.suppress(StoreCorrupt):
                self._disconnect()
            if not self.exists() or self._is_sound(deadline):
                return
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
            aside = self.path.with_name(f"{self.path.name}{_DAMAGED}{stamp}")
            try:
                # The file itself goes last: a log that stayed behind would be replayed into the new file.
                for suffix in ("-wal", "-shm", ""):
                    with contextlib.suppress(FileNotFoundError):
                        Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
            except OSError as error:
                raise unusable(error, self.path) from error
            rows = self._readable_rows(aside)
            if rows:
                with translated(self.path):
                    db = self._connected(deadline, create=True)
                    if db is not None:
                        self._transaction(db, lambda run: [run("take_over", *row) for row in rows], deadline)
        _log.warning("the spool %s was damaged: kept as %s, %d operations taken over", self.path, aside.name, len(rows))

    def _is_sound(self, deadline: float) -> bool:
        try:
            with translated(self.path), contextlib.closing(self._open(deadline, set_up=True)) as db:
                return _patiently(lambda: _runner(db)("integrity"), deadline) == [("ok",)]
        except StoreCorrupt:
            return False

    def _readable_rows(self, damaged: Path) -> list[Row]:
        rows: list[Row] = []
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(f"{damaged.as_uri()}?mode=ro", uri=True, isolation_level=None)) as db,
        ):
            # Those before the damage stay in the list when the cursor fails.
            rows.extend(db.execute(statements("spool")["everything"]))
        return [row for row in rows if tuple(map(type, row)) in _ROW_TYPES]
