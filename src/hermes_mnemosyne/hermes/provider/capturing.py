"""The one path on which turns reach the store: reported by the host one by one, or read from a transcript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hermes_mnemosyne.capture import Said, is_noise
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.hermes.provider import waiting
from hermes_mnemosyne.hermes.provider.boundary import count, log
from hermes_mnemosyne.hermes.provider.ledger import Ledger
from hermes_mnemosyne.hermes.provider.session import Session
from hermes_mnemosyne.store.operations import CaptureTurns, MarkInjected, Operation, Outcome, TurnText
from hermes_mnemosyne.values import Role


def worth_keeping(session: Session, spoken: Sequence[Said]) -> tuple[TurnText, ...]:
    """Return the messages that are no noise, cleaned and masked, each with a uid of its own."""
    return tuple(
        turn
        for one in spoken
        if not is_noise(one.content, min_chars=session.settings.turn_min_chars)
        and (turn := made_turn(session, one.role, one.content, occurred_at=one.occurred_at)).content
    )


def made_turn(
    session: Session, role: Role, content: str, *, occurred_at: str | None = None, metadata: Mapping[str, Any] | None = None
) -> TurnText:
    """Return one message, cleaned and masked."""
    text, _ = session.memory.clean(content)
    details, _ = session.memory.clean_value(dict(metadata or {}))
    return TurnText(uid=uuid7(), role=role, content=text, occurred_at=occurred_at, metadata=details)


def store_report(session: Session, ledger: Ledger, session_id: str, turns: Sequence[TurnText]) -> None:
    """Store the messages of one turn as new ones, but those that a transcript stored ahead of this report by its rule.

    In the same transaction they are marked as standing in the prompt.
    """
    overtaken = ledger.report(turns)
    late = tuple(turn for turn, ahead in zip(turns, overtaken, strict=True) if ahead)
    new = tuple(turn for turn, ahead in zip(turns, overtaken, strict=True) if not ahead)
    ops: list[Operation] = [
        session.memory.make(
            CaptureTurns,
            session_id=session_id,
            turns=some,
            transcript=some is late,
            parent_session_id=session.parent_session_id,
            visibility=session.visibility,
        )
        for some in (late, new)
        if some
    ]
    uids = tuple(ahead or turn.uid for turn, ahead in zip(turns, overtaken, strict=True))
    ops.append(session.memory.make(MarkInjected, session_id=session.own_marks(session_id), uids=uids))
    submitted(session, ops)


def store_transcript(session: Session, ledger: Ledger, session_id: str, turns: Sequence[TurnText]) -> None:
    """Store what a transcript holds more than the session already has."""
    ledger.transcript(turns)
    capture = session.memory.make(
        CaptureTurns,
        session_id=session_id,
        turns=tuple(turns),
        transcript=True,
        parent_session_id=session.parent_session_id,
        visibility=session.visibility,
    )
    added = tuple(uid for outcome in submitted(session, [capture]) for uid in outcome.uids)
    # Only now is it known which of them are rows; while they wait in the spool none is marked, at worst one is recalled.
    if added:
        submitted(session, [session.memory.make(MarkInjected, session_id=session.own_marks(session_id), uids=added)])


def submitted(session: Session, ops: Sequence[Operation]) -> list[Outcome]:
    """Hand operations to the store or its spool, and make those that failed seen.

    Raises MnemosyneError when even the spool refuses them.
    """
    if session.keyless or any(waiting.must_wait(op) for op in ops):
        outcomes = waiting.keep(session.memory.engine, ops, session.contact)
    else:
        outcomes = session.memory.submit(ops, hook=True)
    for op, outcome in zip(ops, outcomes, strict=True):
        if outcome.status == "failed":
            count("write-failed")
            log.warning("%s was not stored: %s", type(op).__name__, outcome.error)
    return outcomes
