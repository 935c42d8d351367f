"""Processes of the engine tests, and what their files must look like afterwards."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from hermes_mnemosyne import Entry, Memory, Turn

WORKER = Path(__file__).with_name("engine_worker.py")


@contextlib.contextmanager
def worker(mode: str, path: Path, *arguments: object, user: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A worker that waits for `begin`."""
    command = [sys.executable, str(WORKER), mode, str(path), *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, user=user) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def lines_of(process: subprocess.Popen[str], most: int | None = None) -> list[str]:
    """Return the next lines; a line that a killed process did not finish is none."""
    assert process.stdout is not None
    lines: list[str] = []
    while most is None or len(lines) < most:
        line = process.stdout.readline()
        if not line.endswith("\n"):
            break
        lines.append(line.strip())
    return lines


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
