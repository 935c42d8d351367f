"""A process of the spool tests: `append`, `drain` or `first`, on the files that the command line names.

It prints one line per acknowledged step, so that its parent knows what must have survived when it kills it.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.spool import Spool
from hermes_mnemosyne.store.operations import AddEntry, Operation, Outcome


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def operation(op_id: str, content: str) -> AddEntry:
    return AddEntry(op_id=op_id, clock="0", at=now_text(), theme="hermes", uid=op_id, content=content)


class Recorder:
    """A store that records every operation once, and every time that it was handed one."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None, timeout=60)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS record (number INTEGER PRIMARY KEY, op_id TEXT UNIQUE, content TEXT)")

    def apply(self, ops: Sequence[Operation]) -> list[Outcome]:
        self.db.execute("BEGIN IMMEDIATE")
        outcomes = []
        for op in ops:
            assert isinstance(op, AddEntry)
            row = (op.op_id, op.content)
            added = self.db.execute("INSERT OR IGNORE INTO record (op_id, content) VALUES (?, ?)", row).rowcount
            outcomes.append(Outcome(op_id=op.op_id, status="added" if added else "replayed"))
        self.db.execute("COMMIT")
        return outcomes


def append(spool: Spool, name: str, count: int) -> None:
    for number in range(count):
        op_id = f"{name}:{number}"
        spool.append([operation(op_id, f"{op_id} {'x' * (number * 37 % 2_000)}")], wait=60.0)
        say(op_id)


def drain(spool: Spool, record: Path, rounds: int) -> None:
    recorder = Recorder(record)

    def apply(ops: Sequence[Operation]) -> list[Outcome]:
        say("before")
        outcomes = recorder.apply(ops)
        say("after")
        return outcomes

    for _ in range(rounds):
        report = spool.drain(apply, batch=5)
        say(f"drained {report.applied}")


def main() -> None:
    mode, path, argument, count = sys.argv[1:]
    spool = Spool(Path(path), max_bytes=100_000_000)
    sys.stdin.readline()
    if mode == "append":
        append(spool, argument, int(count))
    else:
        drain(spool, Path(argument), int(count))
    spool.close()


if __name__ == "__main__":
    main()
