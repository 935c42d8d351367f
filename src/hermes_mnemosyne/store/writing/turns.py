"""Operations on turns: capture, the transcript rule, restoring, and what stands in a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hermes_mnemosyne.store.operations import CaptureTurns, MarkInjected, Outcome, TurnText
from hermes_mnemosyne.store.writing.database import OWN_CONTEXT_TOKENS, View, lend
from hermes_mnemosyne.store.writing.graves import Session, capture_macs
from hermes_mnemosyne.store.writing.transaction import Transaction
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Turn


def capture(tx: Transaction, op: CaptureTurns) -> Outcome:
    """Store the messages of a session that are new to it."""
    clock = tx.stamp(op)
    scope = tx.scope(op.theme, op.subject)
    session = tx.session(scope, op.session_id)
    where = Session(scope, session, op.theme, op.subject, op.session_id)
    fresh = unknown(tx, where, op.turns) if op.transcript else list(op.turns)
    if not fresh:
        return Outcome(op_id=op.op_id, uid=_last_known(tx, op, where), status="exists")
    last = tx.ask("last_turn", (session,))
    position = last[1] if last else 0
    bodies = [tx.analyser.turn_tokens(text.content, text.speaker, text.occurred_at) for text in fresh]
    lent = [lend(body) for body in bodies]
    before = tx.lengthen_context(last[0], lent[0], later=op.brief) if last else ""
    uids = []
    for index, (text, body) in enumerate(zip(fresh, bodies, strict=True)):
        role, digest = _key(text)
        context = (
            ""
            if body.count(" ") >= OWN_CONTEXT_TOKENS
            else _joined(lent[index - 1] if index else before, lent[index + 1 : index + 2])
        )
        turn = Turn(
            uid=text.uid, theme=op.theme, subject=op.subject, session_id=op.session_id, position=position + 1 + index,
            role=text.role, speaker=text.speaker, content=text.content, occurrence=occurrences(tx, where, role, digest)[1] + 1,
            occurred_at=text.occurred_at, occurred_offset=text.occurred_offset, parent_session_id=op.parent_session_id,
            visibility=op.visibility, metadata=text.metadata, created_at=op.at, clock=clock,
        )  # fmt: skip
        row = tx.insert_turn(turn, session, (bytes.fromhex(digest), body, context))
        tx.expect("last_turn", (session,), (row, turn.position))
        uids.append(text.uid)
    if op.prompt:
        tx.db.executemany(tx.sql["mark_injected"], [(scope, op.prompt, uid, op.at) for uid in uids])
    return Outcome(op_id=op.op_id, uid=uids[-1], status="added", uids=tuple(uids))


def _joined(before: str, after: list[str]) -> str:
    return " ".join(part for part in (before, *after) if part)


def _key(text: TurnText) -> tuple[str, str]:
    return text.role, content_hash(text.content)


def unknown(view: View, session: Session, texts: Sequence[TurnText]) -> list[TurnText]:
    """Return the messages that a transcript holds beyond those the session has had, the last ones of each text."""
    left: dict[tuple[str, str], int] = {}
    for text in texts:
        left[_key(text)] = left.get(_key(text), 0) + 1
    for role, digest in left:
        left[role, digest] -= occurrences(view, session, role, digest)[0]
    fresh = []
    for text in reversed(texts):
        if left[_key(text)] > 0:
            left[_key(text)] -= 1
            fresh.append(text)
    return fresh[::-1]


def _last_known(tx: Transaction, op: CaptureTurns, session: Session) -> str:
    if not op.turns:
        return ""
    role, digest = _key(op.turns[-1])
    count = occurrences(tx, session, role, digest)[1]
    row = tx.db.execute(tx.sql["turn_by_capture"], (session.number, role, bytes.fromhex(digest), count)).fetchone()
    return row[0] if row else ""


def occurrences(view: View, session: Session, role: str, digest: str) -> tuple[int, int]:
    """Return how many turns of this role and text the session has had (live, retired, forgotten) and the greatest number."""
    text = (session.number, role, bytes.fromhex(digest))
    count, top, has_retired, has_forgotten = view.ask("live_occurrences", (*text, session.scope))
    found = [(count, top)]
    if has_retired:
        found.append(view.ask("retired_occurrences", text))
    if has_forgotten:
        found += [view.ask("forgotten_occurrences", (mac,)) for mac in capture_macs(view, session, role, digest)]
    return sum(count for count, _ in found), max(top for _, top in found)


def restore_turn(tx: Transaction, turn: Turn) -> None:
    """Make a retired turn live again at its position."""
    session = tx.session(tx.scope(turn.theme, turn.subject), turn.session_id)
    digest = bytes.fromhex(content_hash(turn.content))
    if tx.db.execute(tx.sql["turn_by_capture"], (session, turn.role, digest, turn.occurrence)).fetchone():
        scope = tx.scope(turn.theme, turn.subject)
        top = tx.db.execute(tx.sql["live_occurrences"], (session, turn.role, digest, scope)).fetchone()[1]
        turn = replace(turn, occurrence=top + 1)
    body = tx.analyser.turn_tokens(turn.content, turn.speaker, turn.occurred_at)
    row = tx.insert_turn(turn, session, (digest, body, ""))
    tx.renew_context(row)
    for number in tx.db.execute(tx.sql["beside"], (row,)).fetchone():
        if number is not None:
            tx.renew_context(number)


def mark_injected(tx: Transaction, op: MarkInjected) -> Outcome:
    """Note which rows stand in the prompt of a session."""
    scope = tx.scope(op.theme, op.subject)
    if op.reset:
        tx.db.execute(tx.sql["reset_injected"], (scope, op.session_id))
    tx.db.executemany(tx.sql["mark_injected"], [(scope, op.session_id, uid, op.at) for uid in op.uids])
    return Outcome(op_id=op.op_id, status="updated")
