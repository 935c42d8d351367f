"""What a batch of operations will ask, asked at once: a way to the server costs more than most of the answers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from hermes_mnemosyne.store.operations import AddEntry, CaptureTurns, MirrorChange, Operation
from hermes_mnemosyne.store.writing.transaction import Transaction
from hermes_mnemosyne.text import content_hash

# A short batch asks little.
_LEAST = 3


def foresee(tx: Transaction, ops: Sequence[Operation]) -> None:
    """Put the answers to what plain additions and new turns will ask into `tx.foreseen`.

    An answer holds until something changes what it tells: of equal texts only the first is foreseen, and after an operation of
    another kind nothing is.
    """
    if len(ops) < _LEAST:
        return
    _ask(tx, "before_adding", "foresee_adding", _additions(tx, ops))
    _know_sessions(tx, ops)
    _ask(tx, "live_occurrences", "foresee_turns", _turns(tx, ops))
    _ask(tx, "last_turn", "foresee_last_turns", [(session,) for session in sorted(set(tx.sessions.values()))])


def _ask(tx: Transaction, name: str, statement: str, wanted: Sequence[tuple[Any, ...]]) -> None:
    if wanted:
        columns = [list(column) for column in zip(*wanted, strict=True)]
        for number, *answer in tx.db.execute(tx.sql[statement], columns):
            tx.foreseen[name, wanted[number - 1]] = tuple(answer)


def _additions(tx: Transaction, ops: Sequence[Operation]) -> list[tuple[Any, ...]]:
    wanted: dict[Hashable, tuple[Any, ...]] = {}
    for op in ops:
        if isinstance(op, AddEntry) or (isinstance(op, MirrorChange) and op.action == "add"):
            place = (tx.scope(op.theme, op.subject), op.target, bytes.fromhex(content_hash(op.content)))
            wanted.setdefault(place, (*place, op.uid))
    return list(wanted.values())


def _know_sessions(tx: Transaction, ops: Sequence[Operation]) -> None:
    names = {(tx.scope(op.theme, op.subject), op.session_id) for op in ops if isinstance(op, CaptureTurns)}
    wanted = sorted(names.difference(tx.sessions))
    if wanted:
        scopes, sessions = [scope for scope, _ in wanted], [name for _, name in wanted]
        for number, session in tx.db.execute(tx.sql["foresee_sessions"], (scopes, sessions)):
            tx.sessions[wanted[number - 1]] = session


def _turns(tx: Transaction, ops: Sequence[Operation]) -> list[tuple[Any, ...]]:
    wanted: dict[tuple[Any, ...], None] = {}
    for op in ops:
        if isinstance(op, CaptureTurns) and not op.transcript:
            scope = tx.scope(op.theme, op.subject)
            session = tx.session(scope, op.session_id)
            for text in op.turns:
                wanted[session, text.role, bytes.fromhex(content_hash(text.content)), scope] = None
    return list(wanted)
