"""Processes of the engine tests, and what their files must look like afterwards."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hermes_mnemosyne import Entry, Memory, Turn
from tests.integration.worker_processes import lines_of, started

WORKER = Path(__file__).with_name("engine_worker.py")


def worker(
    mode: str, path: Path, *arguments: object, user: int | None = None
) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """A worker that waits for `begin`."""
    return started(WORKER, mode, path, *arguments, user=user)


def finished(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines of a process that must end without an error."""
    lines = lines_of(process)
    assert process.stderr is not None
    errors = process.stderr.read()
    assert process.wait() == 0, errors
    return lines


def rows_of(path: Path) -> dict[str, Entry | Turn]:
    with Memory.open(path, readable_themes="*") as memory:
        rows = memory.list(kinds=("entry", "turn"), limit=None, include_superseded=True, include_expired=True)
    return {row.uid: row for row in rows}


def problems_of(path: Path) -> list[str]:
    with Memory.open(path) as memory:
        return memory.engine.store.check()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold the write lock of a file, as another process would."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db
        if db.in_transaction:
            db.execute("ROLLBACK")
