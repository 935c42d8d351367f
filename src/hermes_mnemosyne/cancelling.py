"""What a forget does to queued operations: the forgotten text leaves them, the rest of each stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hermes_mnemosyne.spool import Spool
from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    Delegated,
    EditEntry,
    Forget,
    MergeRecord,
    MirrorChange,
    MirrorFile,
    Operation,
)
from hermes_mnemosyne.store.protocol import EVERYTHING, Store
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Change, Entry, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A row to be forgotten: its theme and subject, its ids, the content hashes of all its versions.

    `said` is the session and role of a turn, None for an entry.
    """

    theme: str
    subject: str
    uids: frozenset[str]
    digests: frozenset[str]
    said: tuple[str, str] | None = None

    def holds(self, text: object) -> bool:
        """Tell whether a text is one of the row's."""
        return isinstance(text, str) and content_hash(text) in self.digests


def forgotten(uid: str, row: Entry | Turn | None, changes: list[Change]) -> Forgotten | None:
    """Return what is to be forgotten with a row, live or known by its history; None when nothing is known of it."""
    versions = [change.before for change in changes]
    if row is not None:
        versions.append({name: getattr(row, name) for name in ("theme", "subject", "content")})
    if not versions:
        return None
    said: tuple[str, str] | None = (row.session_id, row.role) if isinstance(row, Turn) else None
    if row is None and "role" in versions[-1]:
        said = (str(versions[-1].get("session_id", "")), str(versions[-1]["role"]))
    return Forgotten(
        theme=str(versions[-1].get("theme", "")),
        subject=str(versions[-1].get("subject", "")),
        uids=frozenset({uid, *(change.uid for change in changes), *([row.uid] if row else [])}),
        digests=frozenset(content_hash(str(version.get("content", ""))) for version in versions),
        said=said,
    )


def cancel_queued(ops: Iterable[Operation], store: Store, spool: Spool, waiting: Spool) -> None:
    """Take forgotten texts out of the spools before the store forgets them, so that no drain can bring them back."""
    forgets = [op for op in ops if isinstance(op, Forget)]
    if not forgets:
        return
    spools = [one for one in (spool, waiting) if not one.is_empty() or one.quarantined()]
    if not spools:
        return
    for op in forgets:
        row, changes = store.read(op.uid, EVERYTHING), store.history(op.uid, EVERYTHING)
        if gone := forgotten(op.uid, row, changes):
            for one in spools:
                # Whose the waiting writes are nobody knows yet.
                one.cancel(eraser(gone, every_subject=one is waiting))


def eraser(gone: Forgotten, *, every_subject: bool = False) -> Callable[[Operation], Operation | None]:
    """Return a function for `Spool.cancel` that takes a forgotten row and its texts out of an operation.

    With `every_subject` it does so whatever subject the operation names.
    """

    def erase(op: Operation) -> Operation | None:
        if op.theme != gone.theme or not (every_subject or op.subject == gone.subject):
            return op
        if isinstance(op, MergeRecord):
            return _without_record(op, gone)
        if getattr(op, "uid", None) in gone.uids:
            return None
        if isinstance(op, CaptureTurns):
            return _without_turns(op, gone)
        if isinstance(op, Delegated):
            return replace(op, task="", turn_uid="") if op.turn_uid in gone.uids else op
        return op if gone.said else _without_texts(op, gone)

    return erase


def _without_texts(op: Operation, gone: Forgotten) -> Operation | None:
    """Return an operation on entries without the texts of a forgotten one."""
    match op:
        case AddEntry() if gone.holds(op.content):
            return None
        case EditEntry() if gone.holds(op.changes.get("content")):
            left = {name: value for name, value in op.changes.items() if name != "content"}
            return replace(op, changes=left) if left else None
        case MirrorFile():
            return replace(op, lines=tuple(line for line in op.lines if not gone.holds(line[1])))
        case MirrorChange():
            return _without_lines(op, gone)
        case _:
            return op


def _without_lines(op: MirrorChange, gone: Forgotten) -> MirrorChange | None:
    """Return a write of the host's memory tool with what it still means for other rows."""
    if gone.holds(op.old_text) or gone.holds(op.previous_content):
        # The line that it replaced or removed is gone anyway: what is left of a replacement is the new line.
        op = replace(op, action="remove" if op.action == "remove" else "add", old_text="", previous_content="")
        if op.action == "remove":
            return None
    if not gone.holds(op.content):
        return op
    return replace(op, action="remove", content="") if op.action == "replace" else None


def _without_turns(op: CaptureTurns, gone: Forgotten) -> CaptureTurns | None:
    """Return a capture without the forgotten turn; in a transcript it is known by its text, since it has another id there."""
    same = op.transcript and gone.said is not None and op.session_id == gone.said[0]
    kept = tuple(
        text
        for text in op.turns
        if text.uid not in gone.uids and not (same and gone.said and text.role == gone.said[1] and gone.holds(text.content))
    )
    return replace(op, turns=kept) if kept else None


def _without_record(op: MergeRecord, gone: Forgotten) -> MergeRecord | None:
    before = op.record.get("before")
    versions = [op.record, *([before] if isinstance(before, dict) else [])]
    if op.record.get("uid") in gone.uids or any(version.get("uid") in gone.uids for version in versions):
        return None
    is_turn = any("role" in version for version in versions)
    return None if not is_turn and not gone.said and any(gone.holds(version.get("content")) for version in versions) else op
