"""What a forget does to queued operations: the forgotten text leaves them, the rest of each stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hermes_mnemosyne.store.operations import AddEntry, CaptureTurns, EditEntry, MergeRecord, MirrorChange, MirrorFile, Operation
from hermes_mnemosyne.text import content_hash


def _texts(op: Operation) -> Iterator[str]:
    """Yield the texts that an operation as a whole stands or falls with."""
    match op:
        case AddEntry():
            yield op.content
        case MirrorChange():
            yield from (op.content, op.old_text, op.previous_content)
        case EditEntry():
            yield str(op.changes.get("content", ""))
        case MergeRecord():
            before = op.record.get("before")
            yield from (str(part.get("content", "")) for part in (op.record, before) if isinstance(part, dict))
        case _:
            pass


def eraser(theme: str, subject: str, uids: frozenset[str], digests: frozenset[str]) -> Callable[[Operation], Operation | None]:
    """Return a function for `Spool.cancel` that takes rows `uids` and texts with these content hashes out of an operation."""

    def holds(text: str) -> bool:
        return content_hash(text) in digests

    def erase(op: Operation) -> Operation | None:
        if (op.theme, op.subject) != (theme, subject):
            return op
        match op:
            case MirrorFile():
                return replace(op, lines=tuple(line for line in op.lines if not holds(line[1])))
            case CaptureTurns():
                kept = tuple(text for text in op.turns if text.uid not in uids and not holds(text.content))
                return replace(op, turns=kept) if kept else None
        named = op.record.get("uid") if isinstance(op, MergeRecord) else getattr(op, "uid", None)
        return None if named in uids or any(map(holds, _texts(op))) else op

    return erase
