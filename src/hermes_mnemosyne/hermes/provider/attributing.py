"""Who has been seen and who gave work to whom, for stores that a fleet shares: provenance, never searched."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from hermes_mnemosyne._errors import MnemosyneError
from hermes_mnemosyne.hermes.provider.boundary import count, log
from hermes_mnemosyne.hermes.provider.capturing import submitted
from hermes_mnemosyne.hermes.provider.session import Session
from hermes_mnemosyne.identity import kind_of
from hermes_mnemosyne.store.operations import Delegated, Operation, SeenAgent

SEEN_SECONDS = 60.0
TASK_CHARS = 500


@dataclass(frozen=True, slots=True)
class Work:
    """A delegated task and its result; `turn` is the uid of the turn that holds both, empty where none is stored."""

    task: str
    result: str
    turn: str


def seen(session: Session) -> None:
    """Note that an agent of this theme is at work, at most once a minute: a host makes a provider for every request."""
    memory = session.memory
    last = memory.engine.seen.get(memory.theme, float("-inf"))
    if not memory.engine.place.is_server or not session.writes or time.monotonic() - last < SEEN_SECONDS:
        return
    memory.engine.seen[memory.theme] = time.monotonic()
    # It says nothing of a contact, so it need not wait for the key that tells them apart.
    _note(replace(session, keyless=False), memory.make(SeenAgent, agent_kind=kind_of(memory.theme)))


def delegated(session: Session, parent: str, child: str, work: Work) -> None:
    """Note a delegation. The task's words are kept where its turn is stored, to be forgotten with it, and never of a contact."""
    memory = session.memory
    if not memory.engine.place.is_server:
        return
    may_tell = bool(work.turn) and not session.bucket
    task = memory.clean(str(work.task or "")[: 2 * TASK_CHARS])[0][:TASK_CHARS] if may_tell else ""
    op = memory.make(
        Delegated,
        parent_session_id=parent,
        child_session_id=child,
        task=task,
        result_chars=len(str(work.result or "")),
        turn_uid=work.turn if task else "",
    )
    _note(session, op)


def _note(session: Session, op: Operation) -> None:
    try:
        submitted(session, [op])
    except (MnemosyneError, OSError) as error:
        count("attribution")
        log.warning("an agent was not noted: %s", error)
