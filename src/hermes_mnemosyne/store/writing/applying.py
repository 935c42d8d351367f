"""Apply operations: one transaction, one outcome each, ids of spooled ones recorded with their effect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    Delegated,
    EditEntry,
    Forget,
    KeepSealed,
    KeepState,
    MarkInjected,
    MergeRecord,
    MirrorChange,
    MirrorFile,
    NewReplica,
    Operation,
    Outcome,
    Received,
    Restamp,
    Retire,
    SeenAgent,
    Undo,
)
from hermes_mnemosyne.store.protocol import Analyser
from hermes_mnemosyne.store.records import is_time
from hermes_mnemosyne.store.writing import attribution, entries, forgetting, merging, mirroring, replicas, sealed, turns
from hermes_mnemosyne.store.writing.database import Connections, Reading
from hermes_mnemosyne.store.writing.previewing import preview
from hermes_mnemosyne.store.writing.transaction import REJECTIONS, Rejected, Tools, Transaction
from hermes_mnemosyne.text import storable

_HANDLERS: dict[type[Operation], Callable[[Transaction, Any], Outcome]] = {
    AddEntry: entries.add,
    EditEntry: entries.edit,
    Retire: entries.retire,
    Undo: entries.undo,
    MirrorChange: mirroring.mirror_change,
    MirrorFile: mirroring.mirror_file,
    Forget: forgetting.forget,
    CaptureTurns: turns.capture,
    MarkInjected: turns.mark_injected,
    MergeRecord: merging.merge,
    SeenAgent: attribution.seen,
    Delegated: attribution.delegated,
    KeepState: replicas.keep,
    KeepSealed: sealed.keep,
    Received: replicas.received,
    Restamp: replicas.restamp,
    NewReplica: replicas.rename,
}


# What these ask changes only what they themselves have asked for; after any other operation nothing is foreseen.
_FORESEEABLE = (AddEntry, MirrorChange, CaptureTurns)


class Prepared:
    """An analyser that has already done the texts of the operations at hand, so that no lock is held meanwhile."""

    def __init__(self, analyser: Analyser, ops: Sequence[Operation], also: Callable[[str], object] | None = None) -> None:
        """Compute the tokens of every text that `ops` may index; `also` is called with them."""
        self._analyser = analyser
        self._also = also
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
                case MirrorFile():
                    for _, line in op.lines:
                        self.entry_tokens(line, ())
                case MergeRecord():
                    self._prepare_record(op.record)
                case CaptureTurns() if not op.transcript:
                    for text in op.turns:
                        self.turn_tokens(text.content, text.speaker, text.occurred_at)
                case _:
                    pass

    def _prepare_record(self, record: Mapping[str, Any]) -> None:
        """Compute the tokens of a record as far as it looks like one; the merge itself refuses a wrong one."""
        content, tags = record.get("content"), record.get("tags") or ()
        speaker, occurred_at = record.get("speaker", ""), record.get("occurred_at")
        if not isinstance(content, str):
            return
        content = storable(content)[0]
        if record.get("type") == "entry" and isinstance(tags, list | tuple) and all(isinstance(tag, str) for tag in tags):
            self.entry_tokens(content, tuple(sorted({storable(tag)[0] for tag in tags})))
        elif (
            record.get("type") == "turn"
            and isinstance(speaker, str)
            and (occurred_at is None or (isinstance(occurred_at, str) and is_time(occurred_at)))
        ):
            self.turn_tokens(content, storable(speaker)[0], occurred_at)

    def entry_tokens(self, content: str, tags: Sequence[str]) -> str:
        """Return the tokens of an entry."""
        key = (content, tuple(tags))
        if key not in self._known:
            self._know(key, self._analyser.entry_tokens(content, tags))
        return self._known[key]

    def turn_tokens(self, content: str, speaker: str, occurred_at: str | None) -> str:
        """Return the tokens of a turn."""
        key = (content, speaker, occurred_at)
        if key not in self._known:
            self._know(key, self._analyser.turn_tokens(content, speaker, occurred_at))
        return self._known[key]

    def _know(self, key: tuple[Any, ...], tokens: str) -> None:
        self._known[key] = tokens
        if self._also is not None:
            self._also(tokens)


class _Undone(Exception):
    """Rolls back a transaction in which an operation was rejected."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _prepared(connections: Connections, ops: Sequence[Operation], tools: Tools) -> Prepared:
    """Return an analyser that has done the texts of `ops`; of a transcript those that are new to its session, as far as is known yet."""
    prepared = Prepared(tools.analyser, ops, tools.dialect.prepared)
    for op in ops:
        if isinstance(op, CaptureTurns) and op.transcript:
            with connections.reading() as db:
                new = preview(Reading(db, tools.dialect.sql, tools.key), op).new
            for text in op.turns:
                if text.uid in new:
                    prepared.turn_tokens(text.content, text.speaker, text.occurred_at)
    return prepared


def apply(connections: Connections, ops: Sequence[Operation], tools: Tools, *, wait: float) -> list[Outcome]:
    """Apply operations in order in one write transaction and return their outcomes."""
    prepared = replace(tools, analyser=_prepared(connections, ops, tools))
    try:
        # Savepoints cost more than most operations, and rejections are rare: they are told apart in a second attempt.
        return _apply(connections, ops, prepared, wait, _run)
    except _Undone as undone:
        if len(ops) == 1:
            return [_failed(ops[0], undone.error)]
    return _apply(connections, ops, prepared, wait, _isolated)


_Apply = Callable[[Transaction, Operation, Collection[str]], Outcome]


def _apply(connections: Connections, ops: Sequence[Operation], tools: Tools, wait: float, run: _Apply) -> list[Outcome]:
    with connections.writing(wait) as db:
        tx = Transaction(db, tools)
        try:
            with tools.dialect.batched(db, len(ops)) if run is _run else nullcontext():
                seen = _seen(tx, ops)
                _know_strangers(tx, ops)
                if tools.dialect.foresee is not None and run is _run:
                    tools.dialect.foresee(tx, [op for op in ops if op.op_id not in seen])
                outcomes = [run(tx, op, seen) for op in ops]
                tx.finish()
        except (*REJECTIONS, *tools.dialect.rejections) as error:
            raise _Undone(error) from error
    tools.scopes.update(tx.scopes)
    return outcomes


def _seen(tx: Transaction, ops: Sequence[Operation]) -> frozenset[str]:
    """Return the ids of spooled operations that the store has applied already."""
    ids = [op.op_id for op in ops if op.spooled]
    return frozenset(row[0] for row in tx.db.execute(tx.sql["seen_ops"], (tx.dialect.many(ids),))) if ids else frozenset()


def _know_strangers(tx: Transaction, ops: Sequence[Operation]) -> None:
    """Find out at once which of the uids that records name stand in no table: most of a first sync do not."""
    named: set[str] = set()
    for op in ops:
        if isinstance(op, MergeRecord):
            for name in ("uid", "survivor", "superseded_by"):
                uid = op.record.get(name)
                if isinstance(uid, str):
                    named.add(storable(uid)[0])
    if len(named) > 1:
        known = {row[0] for row in tx.db.execute(tx.sql["known_uids"], (tx.dialect.many(sorted(named)),))}
        tx.strangers = named - known


def _run(tx: Transaction, op: Operation, seen: Collection[str]) -> Outcome:
    if not isinstance(op, _FORESEEABLE):
        tx.foreseen.clear()
    if not op.spooled:
        if tx.dialect.doubtful and isinstance(op, CaptureTurns):
            tx.tally.done.append(op.op_id)
        return _HANDLERS[type(op)](tx, op)
    if op.op_id in seen or op.op_id in tx.tally.done:
        return Outcome(op_id=op.op_id, uid=getattr(op, "uid", ""), status="replayed")
    outcome = _HANDLERS[type(op)](tx, op)
    tx.tally.done.append(op.op_id)
    return outcome


def _failed(op: Operation, error: Exception) -> Outcome:
    reason = str(error) if isinstance(error, Rejected) else f"{type(error).__name__}: {error}"
    return Outcome(op_id=op.op_id, uid=getattr(op, "uid", ""), status="failed", error=reason)


def _isolated(tx: Transaction, op: Operation, seen: Collection[str]) -> Outcome:
    """Run one of several operations in a savepoint, so that a rejected one leaves no trace and the others stand."""
    mark = tx.save()
    try:
        outcome = _run(tx, op, seen)
        tx.release()
    except (*REJECTIONS, *tx.dialect.rejections) as error:
        tx.roll_back(mark)
        return _failed(op, error)
    return outcome
