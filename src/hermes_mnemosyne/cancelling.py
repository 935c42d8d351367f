"""What a forget does to queued operations: the forgotten text leaves them, the rest of each stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    EditEntry,
    MergeRecord,
    MirrorChange,
    MirrorFile,
    Operation,
    Retire,
    Undo,
)
from hermes_mnemosyne.text import content_hash


def eraser(
    theme: str, subject: str, uids: frozenset[str], digests: frozenset[str]
) -> Callable[[Operation], Operation | None]:
    """Return a function for `Spool.cancel` that takes rows `uids` and texts with these content hashes out of an operation."""

    def holds(text: str) -> bool:
        return content_hash(text) in digests

    def erase(op: Operation) -> Operation | None:
        if (op.theme, op.subject) != (theme, subject):
            return op
        if getattr(op, "uid", None) in uids:
            return None
        match op:
            case AddEntry() | MirrorChange() if holds(op.content):
                return None
            case MirrorChange() if holds(op.old_text) or holds(op.previous_content):
                return None
            case EditEntry() if holds(str(op.changes.get("content", ""))):
                return None
            case MirrorFile():
                return replace(op, lines=tuple(line for line in op.lines if not holds(line[1])))
            case CaptureTurns():
                kept = tuple(text for text in op.turns if text.uid not in uids and not holds(text.content))
                return replace(op, turns=kept) if kept else None
            case MergeRecord() if op.record.get("uid") in uids or holds(str(op.record.get("content", ""))):
                return None
            case Retire() | Undo():
                return op
        return op

    return erase
