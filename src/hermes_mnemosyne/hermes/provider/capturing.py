"""The one path on which turns reach the store: reported by the host one by one, or read from a transcript."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_mnemosyne._errors import StoreBusy, StoreError
from hermes_mnemosyne.capture import Said, is_noise
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.hermes.provider import waiting
from hermes_mnemosyne.hermes.provider.boundary import count, log, within
from hermes_mnemosyne.hermes.provider.ledger import Ledger, Message, message_of
from hermes_mnemosyne.hermes.provider.session import Session
from hermes_mnemosyne.store.operations import CaptureTurns, MarkInjected, Operation, Outcome, TurnText
from hermes_mnemosyne.values import Role

LINEAGE = ":from"
LINEAGE_SECONDS = 0.03
ANCESTORS_SECONDS = 2.0
MOST_ANCESTORS = 16
QUEUE_SECONDS = 0.01
MOST_QUEUED = 2000


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


def store_report(session: Session, ledger: Ledger, turns: Sequence[TurnText]) -> None:
    """Store the messages of one turn as new ones; those that a transcript stored ahead of this report follow its rule.

    In the same transaction they are marked as standing in the prompt.
    """
    overtaken = ledger.report(turns)
    late = tuple(turn for turn, ahead in zip(turns, overtaken, strict=True) if ahead and ahead.session_id == ledger.session_id)
    new = tuple(turn for turn, ahead in zip(turns, overtaken, strict=True) if not ahead)
    ops: list[Operation] = [_capture(session, ledger, some, transcript=some is late) for some in (late, new) if some]
    if uids := tuple(ahead.uid for ahead in overtaken if ahead):
        ops.append(session.memory.make(MarkInjected, session_id=session.own_marks(ledger.session_id), uids=uids))
    submitted(session, ops)


def store_transcript(session: Session, ledger: Ledger, turns: Sequence[TurnText]) -> None:
    """Store what a transcript holds more than its session, and those that it continues, already have."""
    if (known := inherited(session, ledger.session_id, turns)) is not None:
        ledger.inherited = known | (ledger.inherited or Counter())
    own = tuple(ledger.own(turns))
    if not own:
        return
    op = _capture(session, ledger, own, transcript=True)
    [outcome] = submitted(session, [op])
    ledger.read(turns, own, ledger.beyond(own, _had_before(session, op)) if outcome.status == "queued" else outcome.uids)


def _had_before(session: Session, op: CaptureTurns) -> Counter[Message]:
    """Return which messages of a transcript that waits its session has had; none while the store cannot say so at once."""
    if session.keyless or not session.memory.engine.ready(0.0):
        return Counter()
    waits = {one.op_id: one for one in queued(session)}
    if waits.pop(op.op_id, None) is None:
        return Counter()
    try:
        had = within(LINEAGE_SECONDS, lambda: _had(session, op.session_id, op.turns, tuple(waits.values())))
    except StoreError:
        return Counter()
    # What was drained meanwhile may have been counted twice, and the transcript itself as what was there before.
    return had if {one.op_id for one in queued(session)} >= {op.op_id, *waits} else Counter()


def _capture(session: Session, ledger: Ledger, turns: tuple[TurnText, ...], *, transcript: bool) -> CaptureTurns:
    return session.memory.make(
        CaptureTurns,
        session_id=ledger.session_id,
        turns=turns,
        transcript=transcript,
        prompt=session.own_marks(ledger.session_id),
        brief=True,
        parent_session_id=session.parent_session_id,
        visibility=session.visibility,
    )


# -- sessions that continue others -----------------------------------------------------------------------------------------------


def continues(session: Session, session_id: str, parent: str) -> None:
    """Note durably that the transcript of a session begins with messages of another one."""
    submitted(session, [session.memory.make(MarkInjected, session_id=session_id + LINEAGE, uids=(parent,))])


def inherited(session: Session, session_id: str, turns: Sequence[TurnText]) -> Counter[Message] | None:
    """Return which messages of a transcript the sessions before it have had; None while the store cannot say.

    It is asked within a bound: a transcript that is stored with a beginning too many is better than one that is lost.
    """
    if session.keyless:
        return Counter()
    try:
        if not session.memory.engine.ready(0.0):
            raise session.memory.engine.contact.error()
        first = within(LINEAGE_SECONDS, lambda: in_prompt(session, session_id + LINEAGE))
        return within(ANCESTORS_SECONDS, lambda: _ancestors_had(session, session_id, first, turns)) if first else Counter()
    except StoreError as error:
        count("lineage")
        log.warning("it is not known what the session continues: %s", error)
        return None


def _ancestors_had(session: Session, session_id: str, parents: frozenset[str], turns: Sequence[TurnText]) -> Counter[Message]:
    found: Counter[Message] = Counter()
    waiting_ops = queued(session)
    seen, next_ones = {session_id}, parents - {session_id}
    while next_ones and len(seen) <= MOST_ANCESTORS:
        for ancestor in next_ones:
            found.update(_had(session, ancestor, turns, waiting_ops))
        seen |= next_ones
        next_ones = frozenset(uid for one in next_ones for uid in in_prompt(session, one + LINEAGE)) - seen
    return found


def _had(session: Session, session_id: str, turns: Sequence[TurnText], ops: Sequence[Operation]) -> Counter[Message]:
    """Return which messages a session has had: stored, retired, forgotten, or waiting in the spool."""
    asked = session.memory.make(CaptureTurns, session_id=session_id, turns=tuple(turns), transcript=True)
    new = session.memory.engine.store.preview(asked).new
    found = Counter(message_of(turn.role, turn.content) for turn in turns if turn.uid not in new)
    for op in ops:
        if isinstance(op, CaptureTurns) and op.session_id == session_id:
            said = Counter(message_of(turn.role, turn.content) for turn in op.turns)
            # A transcript that waits repeats what is known; a report adds to it.
            found = found | said if op.transcript else found + said
    return found


# -- what is known of the prompt -------------------------------------------------------------------------------------------------


def in_prompt(session: Session, session_id: str) -> frozenset[str]:
    """Return the uids that stand in the prompt of a session, also by what still waits in the spool. Raises StoreError."""
    # The spool first: what is drained meanwhile is then seen twice and not missed.
    ops = queued(session)
    uids = set(session.memory.injected(session_id))
    for op in ops:
        if isinstance(op, MarkInjected) and op.session_id == session_id:
            uids = {*(() if op.reset else uids), *op.uids}
        elif isinstance(op, CaptureTurns) and op.prompt == session_id:
            uids.update(turn.uid for turn in op.turns)
    return frozenset(uids)


def queued(session: Session) -> list[Operation]:
    """Return the operations of the session's theme and subject that wait in the spool; none while the spool is busy."""
    spool, memory = session.memory.engine.spool, session.memory
    try:
        if spool.is_empty(wait=QUEUE_SECONDS):
            return []
        return [op for op in spool.pending(memory.theme, limit=MOST_QUEUED, wait=QUEUE_SECONDS) if op.subject == memory.subject]
    except StoreBusy:
        return []


def submitted(session: Session, ops: Sequence[Operation]) -> list[Outcome]:
    """Hand operations to the store or its spool, and make those that failed seen.

    Raises MnemosyneError when even the spool refuses them.
    """
    outcomes = _handed_over(session, ops)
    if not session.keyless:
        # What a contact said before the key was there goes the same way as soon as it can.
        with contextlib.suppress(StoreError):
            waiting.release(session.memory.engine, seconds=QUEUE_SECONDS)
    for op, outcome in zip(ops, outcomes, strict=True):
        if outcome.status == "failed":
            count("write-failed")
            log.warning("%s was not stored: %s", type(op).__name__, outcome.error)
    return outcomes


def _handed_over(session: Session, ops: Sequence[Operation]) -> list[Outcome]:
    if session.keyless or any(waiting.must_wait(op) for op in ops):
        return waiting.keep(session.memory.engine, ops, session.contact)
    return session.memory.submit(ops, hook=True)
