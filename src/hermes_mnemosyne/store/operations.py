"""Write operations: what a caller wants done, as plain data.

Every write goes to a store as an operation, directly or through the spool, and later from another replica. An operation carries
an id (`op_id`, recorded by the store when `spooled`, so that a replay has no effect) and the edit clock of the moment it was
made, so that a late arrival is merged and not blindly applied. Texts are already cleaned and masked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes_mnemosyne.clock import renamed
from hermes_mnemosyne.store.replicating import Sealed
from hermes_mnemosyne.values import Origin, Role, Target, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The common head. `subject` is empty outside bucket themes; `at` is the wall time (UTC text) of the edit."""

    op_id: str
    clock: str
    at: str
    theme: str
    subject: str = ""
    spooled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddEntry(Operation):
    """Add a text, or find the live row that holds it. `explicit` adds revive a forgotten text, others are refused.

    `supersedes` names a live entry that this one replaces; it stays, marked.
    """

    uid: str
    content: str
    target: Target = "memory"
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    pinned: bool = False
    valid_until: str | None = None
    occurred_at: str | None = None
    occurred_offset: int | None = None
    visibility: Visibility = "synced"
    session_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = Origin("api")
    supersedes: str | None = None
    explicit: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EditEntry(Operation):
    """Change fields of a live entry. `changes` holds Entry field names; a text equal to another row's merges the two."""

    uid: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire(Operation):
    """Take a row out of the live tables; history keeps it and `Undo` brings it back."""

    uid: str


SCRATCH_THEME = "_doctor"
"""The theme of trial rows. A local row of it that is forgotten leaves no tombstone: nobody wrote it, no replica knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget(Operation):
    """Erase a row and every copy of its text; only a tombstone without text stays, and of a trial row not even that."""

    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(Operation):
    """Take back the last change of a row: an edit, a retirement, or its addition."""

    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorChange(Operation):
    """A committed write of the host's own memory tool to one of its files.

    `action` is add, replace or remove. Matching (replace, remove): among rows with `origin` first: exactly `previous_content`,
    then exactly `old_text`, then the first by creation that contains `old_text` literally; at most one row. A match loses
    `origin` and is retired when no other origin is left. A replace without a match is an add.
    """

    uid: str
    action: str
    target: Target
    origin: Origin
    content: str = ""
    old_text: str = ""
    previous_content: str = ""
    session_id: str = ""
    visibility: Visibility = "synced"
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorFile(Operation):
    """The present lines of one mirrored file: adds this origin where a line is, drops it where none is.

    `lines` holds (uid to use when new, text) pairs. Lines that were forgotten are refused and counted. `stamp` is kept for
    `Store.file_stamp`.
    """

    target: Target
    origin: Origin
    lines: tuple[tuple[str, str], ...]
    stamp: str = ""
    visibility: Visibility = "synced"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnText:
    """One message to be captured."""

    uid: str
    role: Role
    content: str
    speaker: str = ""
    occurred_at: str | None = None
    occurred_offset: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureTurns(Operation):
    """Messages of one session, in order.

    With `transcript` false each is new and takes the next occurrence number of its text. With `transcript` true they are the
    session as it is known now: of each (role, text) only as many are stored as the list holds more than the session has had,
    live, retired or forgotten. With `prompt` the stored ones are marked as standing in the prompt of that session.
    With `brief` the words of the first message reach the one before it by upkeep, so that whoever waits waits less.
    """

    session_id: str
    turns: tuple[TurnText, ...]
    transcript: bool = False
    prompt: str = ""
    brief: bool = False
    parent_session_id: str = ""
    visibility: Visibility = "synced"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkInjected(Operation):
    """Rows that stand in the prompt of a session; `reset` empties the list first (compression, undo, reset)."""

    session_id: str
    uids: tuple[str, ...] = ()
    reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRecord(Operation):
    """The state of one row as another store holds it (an export line): `record["type"]` names its table."""

    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepState(Operation):
    """Keep a JSON object for sync under a key, in the transaction of what it tells of; None removes it. Its theme is empty."""

    key: str
    value: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSealed(Operation):
    """Keep records that this store cannot read; never spooled. The notes of the outcome tell what became of each record.

    They are `kept`, `exists`, `older` (a later one stands), `stale` (the sender must join what stands there first), `forgotten`, or
    `forbidden`. `seen` is how far the sender knows the records here (None: it is not asked), `themes` are the only ones it may change.
    """

    records: tuple[Sealed, ...]
    seen: int | None = None
    themes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Operation):
    """The end of a page of another replica: `state` goes into what is kept under `key`.

    The change numbers that the page was given here are appended to its list `skip`, unless a merge gave another row than the
    record: then the rows go back. They stand in the counts of the outcome as `first`, `last` (less than `first`: nothing was
    changed) and `mixed` (0 or 1).
    """

    key: str
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restamp(Operation):
    """Give the version of a row that has exactly the clock `old_clock` the clock of `record`, which may be an earlier one."""

    uid: str
    old_clock: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReplica(Operation):
    """Give the store a new replica id, which the outcome has as its uid; what was kept for sync is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAgent(Operation):
    """An agent of the theme is at work; `agent_kind` is the sort of identity it stands for. A file keeps no such list."""

    agent_kind: str = "theme"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegated(Operation):
    """An agent of the theme gave work to another one, whose theme is often not known.

    `task` is its beginning, empty where it may not be kept; `turn_uid` the turn that holds it whole and with which it is forgotten.
    """

    parent_session_id: str = ""
    child_session_id: str = ""
    child_theme: str = ""
    task: str = ""
    result_chars: int = 0
    turn_uid: str = ""


KINDS: dict[str, type[Operation]] = {
    kind.__name__: kind
    for kind in (
        AddEntry,
        EditEntry,
        Retire,
        Forget,
        Undo,
        MirrorChange,
        MirrorFile,
        CaptureTurns,
        MarkInjected,
        MergeRecord,
        SeenAgent,
        Delegated,
        KeepState,
        Received,
        Restamp,
        NewReplica,
    )
}


def of_replica(ops: Sequence[Operation], before: str, after: str) -> Sequence[Operation]:
    """Return operations whose clocks bear the replica id `after` where they bore `before`."""
    if not any(op.clock.endswith(f"-{before}") for op in ops):
        return ops
    return [dataclasses.replace(op, clock=renamed(op.clock, before, after)) for op in ops]


def to_json(op: Operation) -> dict[str, Any]:
    """Return `op` as a JSON-ready object with its kind under `op`."""
    return {"op": type(op).__name__, **dataclasses.asdict(op)}


def from_json(data: Mapping[str, Any]) -> Operation:
    """Return the operation that `to_json` wrote.

    Raises KeyError or TypeError for an object that is none.
    """
    fields = dict(data)
    kind = KINDS[fields.pop("op")]
    if isinstance(fields.get("origin"), Mapping):
        fields["origin"] = Origin(**fields["origin"])
    for name in ("tags", "uids"):
        if name in fields:
            fields[name] = tuple(fields[name])
    if "lines" in fields:
        fields["lines"] = tuple((uid, text) for uid, text in fields["lines"])
    if "turns" in fields:
        fields["turns"] = tuple(TurnText(**turn) for turn in fields["turns"])
    return kind(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one operation did: `uid` is the surviving row; `uids` all rows it added or changed; `notes` as in a Receipt.

    `status` is one of Receipt's, or `replayed` when the id was applied before, or `failed` with the reason in `error`.
    """

    op_id: str
    uid: str = ""
    status: str = "unchanged"
    uids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
