"""Apply operations: one transaction, one outcome each, ids of spooled ones recorded with their effect."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from hermes_mnemosyne._errors import SchemaMismatch
from hermes_mnemosyne.clock import HybridClock
from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    EditEntry,
    Forget,
    MarkInjected,
    MergeRecord,
    MirrorChange,
    MirrorFile,
    Operation,
    Outcome,
    Retire,
    Undo,
)
from hermes_mnemosyne.store.protocol import Analyser, ContentKey
from hermes_mnemosyne.store.sqlite import entries, forgetting, merging, turns
from hermes_mnemosyne.store.sqlite.connections import Connections
from hermes_mnemosyne.store.sqlite.migrate import known
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.sqlite.transaction import Transaction

_HANDLERS: dict[type[Operation], Callable[[Transaction, Any], Outcome]] = {
    AddEntry: entries.add,
    EditEntry: entries.edit,
    Retire: entries.retire,
    Undo: entries.undo,
    MirrorChange: entries.mirror_change,
    MirrorFile: entries.mirror_file,
    Forget: forgetting.forget,
    CaptureTurns: turns.capture,
    MarkInjected: turns.mark_injected,
    MergeRecord: merging.merge,
}


class Prepared:
    """An analyser that has already done the texts of the operations at hand, so that no lock is held meanwhile."""

    def __init__(self, analyser: Analyser, ops: Sequence[Operation]) -> None:
        """Compute the tokens of every text that `ops` may index."""
        self._analyser = analyser
        self.version = analyser.version
        self._known: dict[tuple[Any, ...], str] = {}
        for op in ops:
            match op:
                case AddEntry():
                    self.entry_tokens(op.content, tuple(sorted(set(op.tags))))
                case EditEntry() if "content" in op.changes and "tags" not in op.changes:
                    self.entry_tokens(op.changes["content"], ())
                case MirrorChange() if op.action != "remove":
                    self.entry_tokens(op.content, ())
                case CaptureTurns() if not op.transcript:
                    for text in op.turns:
                        self.turn_tokens(text.content, text.speaker, text.occurred_at)
                case _:
                    pass

    def entry_tokens(self, content: str, tags: Sequence[str]) -> str:
        """Return the tokens of an entry."""
        key = (content, tuple(tags))
        if key not in self._known:
            self._known[key] = self._analyser.entry_tokens(content, tags)
        return self._known[key]

    def turn_tokens(self, content: str, speaker: str, occurred_at: str | None) -> str:
        """Return the tokens of a turn."""
        key = (content, speaker, occurred_at)
        if key not in self._known:
            self._known[key] = self._analyser.turn_tokens(content, speaker, occurred_at)
        return self._known[key]


def apply(
    connections: Connections,
    ops: Sequence[Operation],
    analyser: Analyser,
    key: ContentKey,
    clock: HybridClock,
    *,
    wait: float,
) -> list[Outcome]:
    """Apply operations in order in one write transaction and return their outcomes."""
    prepared = Prepared(analyser, ops)
    with connections.writing(wait) as db:
        _check_writer(db)
        tx = Transaction(db, prepared, key, clock)
        outcomes = [_one(tx, op) for op in ops]
        tx.finish()
    return outcomes


def _check_writer(db: sqlite3.Connection) -> None:
    """Notice a schema that a newer release has installed while this process was running."""
    oldest: int = db.execute(statements("apply")["oldest_writer"]).fetchone()[0]
    if oldest > known():
        raise SchemaMismatch("a newer release has changed the schema: restart this process with it")


def _one(tx: Transaction, op: Operation) -> Outcome:
    if op.spooled and tx.db.execute(tx.sql["seen_op"], (op.op_id,)).fetchone():
        return Outcome(op_id=op.op_id, uid=getattr(op, "uid", ""), status="replayed")
    outcomes: list[Outcome] = []

    def run() -> None:
        outcomes.append(_HANDLERS[type(op)](tx, op))
        if op.spooled:
            tx.db.execute(tx.sql["record_op"], (op.op_id, op.at))

    reason = tx.isolated(run)
    return Outcome(op_id=op.op_id, uid=getattr(op, "uid", ""), status="failed", error=reason) if reason else outcomes[0]
