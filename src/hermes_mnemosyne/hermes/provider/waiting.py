"""Writes of contacts who cannot be told apart yet: they wait in a file of their own until the subject key is back.

A row of a shared theme belongs to a contact, known by a keyed hash. Without the key a write can be given to nobody, and it must
not be lost. So the words of the host by which the contact is known wait with it, in a local file that only the owner can read,
and leave with it: what reaches the store holds the hash alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne import identity, mirror
from hermes_mnemosyne._errors import StoreError, StoreUnavailable
from hermes_mnemosyne.spool import DrainReport
from hermes_mnemosyne.store.operations import CaptureTurns, Delegated, MarkInjected, MirrorChange, Operation, Outcome
from hermes_mnemosyne.values import Origin, Target

if TYPE_CHECKING:
    from hermes_mnemosyne.core import Engine

RELEASE_SECONDS = 1.0
KEYLESS = "the subject key is missing or another one: copy it to this host"
LOCKED = "the key that tells the contacts of this theme apart is missing or another one"
NAMELESS = "the host names the theme that contacts share and no contact"
_TO_COME = "?"
_KNOWN_BY = (
    "gateway_session_key", "platform", "chat_type", "chat_id", "thread_id", "user_id", "user_id_alt", "user_name", "chat_name",
    "agent_identity", "agent_workspace", "hermes_home",
)  # fmt: skip


class StoreKey:
    """The subject key of a store, looked at only after the store said which key it expects, so that no second one is made."""

    def __init__(self, engine: Engine) -> None:
        """Take the engine of the store; nothing is read yet."""
        self._engine = engine

    def digest(self, purpose: str, *parts: str) -> str | None:
        """Return a keyed hash (hex) over the parts; None when there is no usable key, or the store cannot say which it is."""
        if not self._engine.ready(0.0):
            return None
        try:
            usable = self._engine.bind_key()
        except (StoreError, OSError):
            return None
        return self._engine.key.digest(purpose, *parts) if usable else None


def why(engine: Engine) -> str:
    """Return why the contact of a shared theme is not known, from what is known of the key on this machine."""
    return NAMELESS if engine.key.load(create=False) else LOCKED


def origin_to_come(target: Target) -> Origin:
    """Return the origin of a write to a file whose home has no keyed hash yet; such a write can only wait."""
    return Origin("file", f"{_TO_COME}/{mirror.FILES[target]}")


def must_wait(op: Operation) -> bool:
    """Tell whether an operation cannot be stored as it is."""
    return isinstance(op, MirrorChange) and op.origin.place.startswith(_TO_COME)


def keep(engine: Engine, ops: Sequence[Operation], given: Mapping[str, str]) -> list[Outcome]:
    """Accept writes durably together with what the host said of the contact.

    Raises StoreFull, StoreBusy, StoreUnavailable, OSError.
    """
    contact = json.dumps({name: given[name] for name in _KNOWN_BY if name in given})
    # What stands in a prompt matters now or never.
    kept = [replace(op, subject=contact) for op in ops if not isinstance(op, MarkInjected)]
    engine.waiting.append(kept)
    return [Outcome(op_id=op.op_id, status="queued") for op in ops]


def held(engine: Engine) -> int:
    """Return how many writes wait for the key. Raises StoreBusy, StoreUnavailable."""
    status = engine.waiting.status()
    return int(status["count"]) + int(status["quarantined"])


def release(engine: Engine, *, seconds: float = RELEASE_SECONDS) -> DrainReport:
    """Give waiting writes to the store when the key is there to tell whose they are; the rest waits on.

    Raises StoreBusy, StoreFull, StoreUnavailable.
    """
    if engine.waiting.is_empty(wait=seconds) or not engine.ready(0.0):
        return DrainReport()
    key = StoreKey(engine)
    if key.digest("subject") is None:
        # With every hook that comes: what waits is not read for nothing.
        return DrainReport(stopped=KEYLESS)

    def apply(ops: Sequence[Operation]) -> list[Outcome]:
        if key.digest("subject") is None:
            raise StoreUnavailable(KEYLESS)
        known = {op.op_id: _known(op, key) for op in ops}
        done = iter(engine.submit([op for op in known.values() if op is not None], hook=True))
        return [
            Outcome(op_id=op.op_id, status="failed", error="the host named no contact") if known[op.op_id] is None else next(done)
            for op in ops
        ]

    return engine.waiting.drain(apply, until=time.monotonic() + seconds)


def _known(op: Operation, key: StoreKey) -> Operation | None:
    """Return the operation as it is stored, None when the host had named no contact."""
    given: dict[str, Any] = json.loads(op.subject)
    subject = identity.subject_of(op.theme, given, key)
    if subject is None:
        return None
    op = replace(op, subject=subject)
    if isinstance(op, CaptureTurns):
        parent = identity.session_reference(op.parent_session_id, key, given)
        turns = tuple(replace(turn, metadata=_referring(turn.metadata, key, given)) for turn in op.turns)
        name = identity.session_reference(op.session_id, key, given) or ""
        prompt = name + op.prompt.removeprefix(op.session_id) if op.prompt else ""
        op = replace(op, session_id=name, parent_session_id=parent or "", turns=turns, prompt=prompt)
    elif isinstance(op, Delegated):
        parent, child = (identity.session_reference(one, key, given) or "" for one in (op.parent_session_id, op.child_session_id))
        op = replace(op, parent_session_id=parent, child_session_id=child)
    elif isinstance(op, MirrorChange):
        op = replace(op, session_id=identity.session_reference(op.session_id, key, given) or "")
        if must_wait(op):
            op = replace(op, origin=mirror.origin(Path(given.get("hermes_home", "")), op.target, key) or op.origin)
    return op


def _referring(metadata: Mapping[str, Any], key: StoreKey, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata whose references to other sessions may be stored."""
    return {
        name: identity.session_reference(value, key, given) or ""
        if name.endswith("session_id") and isinstance(value, str)
        else value
        for name, value in metadata.items()
    }
