"""Connections of one SQLite file: one writer under a lock, a bounded pool of readers, none bound to a thread."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_mnemosyne import forks
from hermes_mnemosyne._errors import StoreBusy, StoreError
from hermes_mnemosyne.store.sqlite.errors import translated
from hermes_mnemosyne.text import holds

APPLICATION_ID = 0x4D6E656D  # "Mnem"
_FORK_WAIT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a file is used: `durability` is `normal` or `full`, `readers` bounds their pool, waits last `busy_timeout` seconds."""

    durability: str = "normal"
    readers: int = 4
    busy_timeout: float = 5.0


class Connection(sqlite3.Connection):
    """A connection that remembers what it has read lately, see `search.scopes_of`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Open as sqlite3 does."""
        super().__init__(*args, **kwargs)
        self.known: dict[Any, tuple[int, Any]] = {}


class Connections:
    """The connections of one file. Every method is safe from any thread."""

    def __init__(self, path: Path, options: Options) -> None:
        """Open nothing yet."""
        self.path = path
        self._wait = options.busy_timeout
        self._durability = options.durability
        self._readers = options.readers
        self._fresh()
        forks.guard(self)

    def _fresh(self) -> None:
        self._write_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._timeout = -1
        self._free: list[sqlite3.Connection] = []
        self._opened = 0
        self._pool = threading.Condition()
        self._closed = False
        self._forking = False

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, timeout=5.0, isolation_level=None, check_same_thread=False, cached_statements=256, factory=Connection
        )
        db.create_function("holds", 2, holds, deterministic=True)
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute("PRAGMA cache_size = -16000")
        # A checkpoint makes one writer wait for the disk. With 16 MB of log it comes four times less often than by default, and
        # pages that are written again and again go to the file once.
        db.execute("PRAGMA wal_autocheckpoint = 4000")
        db.execute("PRAGMA synchronous = FULL" if self._durability == "full" else "PRAGMA synchronous = NORMAL")
        return db

    @contextmanager
    def writing(self, wait: float) -> Iterator[sqlite3.Connection]:
        """Hold the write lock of the file: BEGIN IMMEDIATE, then commit, or roll back when the block raises.

        `wait` is in seconds, for this process and others together. Raises StoreBusy and the other store errors.
        """
        deadline = time.monotonic() + wait
        lock = self._write_lock
        if not lock.acquire(timeout=max(wait, 0.0)):
            raise StoreBusy(f"{self.path}: another thread is writing; try again")
        try:
            with translated(self.path):
                if self._closed:
                    raise StoreError(f"{self.path}: this memory was closed; open it again")
                db = self._writing()
                self._set_timeout(db, wait, deadline)
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
        finally:
            lock.release()

    def _writing(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = self._connect()
            self._timeout = -1
        return self._writer

    def _set_timeout(self, db: sqlite3.Connection, wait: float, deadline: float | None) -> None:
        """Set how long SQLite waits for other processes: what is left after a wait for other threads, else all of `wait`."""
        millis = int(wait * 1000)
        if deadline is not None:
            left = int((deadline - time.monotonic()) * 1000)
            millis = left if left < millis - 1 else millis
        if millis != self._timeout:
            db.execute(f"PRAGMA busy_timeout = {max(1, millis):d}")
            self._timeout = millis

    @contextmanager
    def maintaining(self, wait: float = 5.0) -> Iterator[sqlite3.Connection]:
        """Lend the writer connection outside a transaction, for checkpoints and pragmas."""
        lock = self._write_lock
        if not lock.acquire(timeout=max(wait, 0.0)):
            raise StoreBusy(f"{self.path}: another thread is writing; try again")
        try:
            with translated(self.path):
                db = self._writing()
                self._set_timeout(db, wait, None)
                yield db
        finally:
            lock.release()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a reader. Raises StoreBusy when all of them are busy for long."""
        pool = self._pool
        with pool:
            if not self._may_lend() and not pool.wait_for(self._may_lend, timeout=self._wait):
                raise StoreBusy(f"{self.path}: all readers are busy; try again")
            if self._closed:
                raise StoreError(f"{self.path}: this memory was closed; open it again")
            db = self._free.pop() if self._free else None
            if db is None:
                self._opened += 1
        try:
            with translated(self.path):
                if db is None:
                    db = self._connect()
                    db.execute("PRAGMA query_only = ON")
                yield db
        finally:
            with pool:
                self._take_back(db)
                # Before a fork one that waits for all readers to be back waits beside those that want one.
                (pool.notify_all if self._forking else pool.notify)()

    def _take_back(self, db: sqlite3.Connection | None) -> None:
        if db is None:
            self._opened -= 1
        elif self._closed:
            db.close()
            self._opened -= 1
        else:
            self._free.append(db)

    def _may_lend(self) -> bool:
        return self._closed or (not self._forking and (bool(self._free) or self._opened < self._readers))

    def open_count(self) -> int:
        """Return the number of open connections."""
        return self._opened + (self._writer is not None)

    def close(self) -> None:
        """Close every connection; lent readers are closed when they come back."""
        with self._write_lock, self._pool:
            self._closed = True
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            for db in self._free:
                db.close()
            self._opened -= len(self._free)
            self._free.clear()
            self._pool.notify_all()

    def before_fork(self) -> None:
        """Wait until nothing is under way, then close what a child must not inherit, keeping the locks."""
        self._write_lock.acquire()
        self._pool.acquire()
        self._forking = True
        self._pool.wait_for(lambda: self._opened == len(self._free), timeout=_FORK_WAIT)
        for db in (*self._free, *([self._writer] if self._writer else [])):
            db.close()
        self._writer = None
        self._opened -= len(self._free)
        self._free.clear()

    def after_fork(self) -> None:
        """Go on in the parent."""
        self._forking = False
        self._pool.notify_all()
        self._pool.release()
        self._write_lock.release()

    def abandon(self) -> None:
        """Begin anew in the child; what could not be closed before the fork stays open, unused."""
        closed = self._closed
        self._fresh()
        self._closed = closed
