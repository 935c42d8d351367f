"""What a recall must see of operations that still wait in the spool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hermes_mnemosyne.recall.overlay import Overlay
from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    EditEntry,
    Forget,
    MirrorChange,
    MirrorFile,
    Operation,
    Retire,
)
from hermes_mnemosyne.store.protocol import Filter, Reach, Store
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Entry, Origin, Turn


class _View:
    """The rows as they will be once the operations seen so far are applied."""

    def __init__(self, store: Store, reach: Reach) -> None:
        self.store = store
        self.reach = reach
        self.rows: dict[str, Entry | Turn] = {}
        self.hidden: set[str] = set()

    def find(self, uid: str) -> Entry | Turn | None:
        return self.rows.get(uid) or self.store.read(uid, self.reach)

    def hide(self, uid: str) -> None:
        self.rows.pop(uid, None)
        self.hidden.add(uid)

    def add(self, op: Operation, uid: str, content: str, **fields: object) -> None:
        if uid not in self.hidden:
            entry = Entry(
                uid=uid, theme=op.theme, subject=op.subject, content=content, created_at=op.at, updated_at=op.at, clock=op.clock
            )
            self.rows[uid] = replace(entry, **fields)  # type: ignore[arg-type]


def overlay_of(ops: Iterable[Operation], store: Store, reach: Reach) -> Overlay:
    """Return the overlay that undrained operations within reach make."""
    view = _View(store, reach)
    for op in ops:
        if reach.covers(op.theme, op.subject):
            _see(view, op)
    return Overlay(rows=tuple(view.rows.values()), hidden=frozenset(view.hidden))


def _see(view: _View, op: Operation) -> None:
    match op:
        case AddEntry():
            view.add(
                op, op.uid, op.content, target=op.target, tags=op.tags, importance=op.importance, pinned=op.pinned,
                valid_until=op.valid_until, occurred_at=op.occurred_at, origins=(op.origin,), session_id=op.session_id,
            )  # fmt: skip
        case EditEntry():
            row = view.find(op.uid)
            if isinstance(row, Entry):
                view.rows[row.uid] = replace(row, **dict(op.changes))
        case Retire() | Forget():
            row = view.find(op.uid)
            view.hide(row.uid if row else op.uid)
        case MirrorChange():
            _see_mirror(view, op)
        case MirrorFile():
            known = {content_hash(text): (uid, text) for uid, text in op.lines}
            for row in _mirrored(view, op, op.origin):
                known.pop(content_hash(row.content), None)
            for uid, text in known.values():
                view.add(op, uid, text, target=op.target, origins=(op.origin,))
        case CaptureTurns():
            _see_turns(view, op)
        case _:
            pass


def _mirrored(view: _View, op: MirrorChange | MirrorFile, origin: Origin) -> list[Entry]:
    where = Filter(reach=Reach(frozenset({op.theme}), op.subject), kinds=("entry",), target=op.target)
    rows = [*view.store.select(where, limit=None), *view.rows.values()]
    return [row for row in rows if isinstance(row, Entry) and origin in row.origins and row.uid not in view.hidden]


def _see_mirror(view: _View, op: MirrorChange) -> None:
    if op.action != "add":
        rows = _mirrored(view, op, op.origin)
        wanted = {content_hash(text) for text in (op.previous_content, op.old_text) if text.strip()}
        exact = [row for row in rows if content_hash(row.content) in wanted]
        near = [row for row in rows if op.old_text.strip() and op.old_text in row.content]
        for row in (exact or sorted(near, key=lambda entry: entry.created_at))[:1]:
            if set(row.origins) <= {op.origin}:
                view.hide(row.uid)
    if op.action != "remove":
        view.add(op, op.uid, op.content, target=op.target, origins=(op.origin,))


def _see_turns(view: _View, op: CaptureTurns) -> None:
    had: set[tuple[str, str]] = set()
    if op.transcript:
        where = Filter(reach=Reach(frozenset({op.theme}), op.subject), kinds=("turn",), session_id=op.session_id)
        had = {(row.role, content_hash(row.content)) for row in view.store.select(where, limit=None) if isinstance(row, Turn)}
    for text in op.turns:
        if (text.role, content_hash(text.content)) not in had:
            view.rows[text.uid] = Turn(
                uid=text.uid, theme=op.theme, subject=op.subject, content=text.content, session_id=op.session_id, role=text.role,
                speaker=text.speaker, occurred_at=text.occurred_at, created_at=op.at, clock=op.clock,
            )  # fmt: skip
