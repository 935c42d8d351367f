"""What a waiting operation would do, told without doing it."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_mnemosyne.store.operations import AddEntry, CaptureTurns, MirrorChange, MirrorFile, Operation
from hermes_mnemosyne.store.protocol import Preview
from hermes_mnemosyne.store.writing.database import View
from hermes_mnemosyne.store.writing.graves import Session, content_macs, forgotten_since
from hermes_mnemosyne.store.writing.mirroring import matching
from hermes_mnemosyne.store.writing.turns import unknown
from hermes_mnemosyne.text import content_hash


def preview(view: View, op: Operation) -> Preview:
    """Return which new rows an operation would make and which rows it would take away; see `Store.preview`."""
    found = view.db.execute(view.sql["scope"], (op.theme, op.subject)).fetchone()
    scope = found[0] if found else 0
    match op:
        case AddEntry():
            return Preview(new=_new(view, op, scope, [(op.uid, op.content)]))
        case MirrorChange():
            added = [(op.uid, op.content)] if op.action != "remove" else []
            return Preview(new=_new(view, op, scope, added), gone=_replaced(view, op, scope))
        case MirrorFile():
            return Preview(new=_new(view, op, scope, op.lines), gone=_dropped(view, op, scope))
        case CaptureTurns():
            return Preview(new=_said(view, op, scope))
        case _:
            return Preview()


def _new(view: View, op: AddEntry | MirrorChange | MirrorFile, scope: int, texts: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the uids of texts that no live row holds and no tombstone keeps out."""
    db, sql = view.db, view.sql
    explicit = op.explicit if isinstance(op, AddEntry) else isinstance(op, MirrorChange)
    new = set()
    for uid, text in texts:
        digest = content_hash(text)
        twin, has_forgotten, is_gone = db.execute(sql["before_adding"], (scope, op.target, bytes.fromhex(digest), uid)).fetchone()
        if twin or is_gone:
            continue
        macs = content_macs(view, (scope, op.theme, op.subject), op.target, digest) if has_forgotten else []
        since = forgotten_since(view, macs)
        if not since or (explicit and op.clock > since):
            new.add(uid)
    return frozenset(new)


def _replaced(view: View, op: MirrorChange, scope: int) -> frozenset[str]:
    """Return the row that a write of the host's memory tool takes away, if only this file had written it."""
    uid = None if op.action == "add" else matching(view, op, scope)
    if uid is None or not _is_only_from(view, uid, op):
        return frozenset()
    digest = bytes.fromhex(content_hash(op.content))
    same = op.action == "replace" and view.db.execute(view.sql["entry_by_hash"], (scope, op.target, digest)).fetchone()
    return frozenset() if same and same[0] == uid else frozenset([uid])


def _dropped(view: View, op: MirrorFile, scope: int) -> frozenset[str]:
    present = {bytes.fromhex(content_hash(text)) for _, text in op.lines if text.strip()}
    rows = view.db.execute(view.sql["mirrored"], (op.origin.place, scope, op.target)).fetchall() if present else []
    return frozenset(uid for uid, digest in rows if digest not in present and _is_only_from(view, uid, op))


def _is_only_from(view: View, uid: str, op: MirrorChange | MirrorFile) -> bool:
    (count,) = view.db.execute(view.sql["other_origins"], (uid, op.origin.kind, op.origin.place)).fetchone()
    return not count


def _said(view: View, op: CaptureTurns, scope: int) -> frozenset[str]:
    found = view.db.execute(view.sql["session"], (scope, op.session_id)).fetchone() if op.transcript else None
    if found is None:
        return frozenset(text.uid for text in op.turns)
    session = Session(scope, found[0], op.theme, op.subject, op.session_id)
    return frozenset(text.uid for text in unknown(view, session, op.turns))
