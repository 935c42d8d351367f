"""What a recall must see of operations that still wait in the spool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.recall.analyse import TextAnalyser
from hermes_mnemosyne.recall.overlay import Overlay
from hermes_mnemosyne.recall.pipeline import Recaller
from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    EditEntry,
    Forget,
    MirrorChange,
    MirrorFile,
    Operation,
    Retire,
    Undo,
)
from hermes_mnemosyne.store.protocol import Candidate, Filter, LexicalQuery, Preview, Reach, Store
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Entry, Origin, RecallQuery, RecallResult, Turn


class NoStore:
    """A store that holds nothing, for a look at what waits while the real one is away.

    It has only what a recall by words asks, and what tells whether an operation would have an effect: each would.
    """

    @classmethod
    def as_store(cls) -> Store:
        """Return it for those who ask for a store."""
        return cast("Store", cls())

    def read(self, _uid: str, _reach: Reach) -> None:
        """Return nothing."""

    def preview(self, op: Operation) -> Preview:
        """Take every text for a new one."""
        match op:
            case AddEntry() | MirrorChange():
                return Preview(new=frozenset({op.uid}))
            case MirrorFile():
                return Preview(new=frozenset(uid for uid, _ in op.lines))
            case CaptureTurns():
                return Preview(new=frozenset(turn.uid for turn in op.turns))
            case _:
                return Preview()

    def together(self) -> AbstractContextManager[None]:
        """Share nothing."""
        return nullcontext()

    def size(self, _where: Filter) -> int:
        """Return 0."""
        return 0

    session_turns = size

    def term_counts(self, _terms: Sequence[str], _where: Filter, *, ceiling: int) -> dict[str, int]:  # noqa: ARG002 - of the protocol
        """Know no term."""
        return {}

    def lexical(self, _query: LexicalQuery, _where: Filter) -> list[Candidate]:
        """Find nothing."""
        return []

    def terms_in(self, _ids: Sequence[int], _terms: Sequence[str] = ()) -> dict[int, Any]:
        """Know no row."""
        return {}

    load = neighbours = terms_in

    def is_turn(self, _number: int) -> bool:
        """Say no."""
        return False

    def speakers(self, _reach: Reach) -> frozenset[str]:
        """Know nobody."""
        return frozenset()


_CHANGEABLE = frozenset(Entry.__slots__) - {"uid", "theme", "subject", "target", "origins", "kind"}


class _View:
    """The rows as they will be once the operations seen so far are applied."""

    def __init__(self, store: Store, reach: Reach) -> None:
        self.store = store
        self.reach = reach
        self.rows: dict[str, Entry | Turn] = {}
        self.hidden: set[str] = set()
        self.retired: dict[str, Entry | Turn] = {}

    def find(self, uid: str) -> Entry | Turn | None:
        if uid in self.hidden:
            return None
        return self.rows.get(uid) or self.store.read(uid, self.reach)

    def hide(self, uid: str) -> None:
        self.rows.pop(uid, None)
        self.hidden.add(uid)

    def add(self, op: Operation, uid: str, content: str, **fields: Any) -> None:
        """Add an entry unless one of these texts waits already."""
        entry = Entry(
            uid=uid, theme=op.theme, subject=op.subject, content=content, created_at=op.at, updated_at=op.at, clock=op.clock, **fields
        )  # fmt: skip
        twins = [row for row in self.rows.values() if isinstance(row, Entry) and _place(row) == _place(entry)]
        if not any(content_hash(row.content) == content_hash(content) for row in twins):
            self.rows[uid] = entry

    def of_origin(self, op: MirrorChange | MirrorFile) -> list[Entry]:
        """Return the waiting entries of a mirrored file, oldest first."""
        place = (op.theme, op.subject, op.target)
        rows = [row for row in self.rows.values() if isinstance(row, Entry) and _place(row) == place and op.origin in row.origins]
        return sorted(rows, key=lambda row: row.created_at)

    def drop(self, row: Entry, origin: Origin) -> None:
        """Take a file's origin from a waiting entry, and the entry when nothing else wrote it."""
        left = tuple(other for other in row.origins if other != origin)
        if left:
            self.rows[row.uid] = replace(row, origins=left)
        else:
            self.hide(row.uid)


def _place(row: Entry) -> tuple[str, str, str]:
    return row.theme, row.subject, row.target


def recall_waiting(
    ops: Iterable[Operation], analyser: TextAnalyser, reach: Reach, asked: RecallQuery, where: Filter
) -> RecallResult:
    """Return what is found, by words, among operations that wait while their store is away."""
    nothing = NoStore.as_store()
    overlay = overlay_of(ops, nothing, reach)
    return Recaller(nothing, analyser).recall(asked, where, now=now_text(), overlay=overlay)


def overlay_of(ops: Iterable[Operation], store: Store, reach: Reach) -> Overlay:
    """Return the overlay that undrained operations within reach make. Raises what the store raises."""
    view = _View(store, reach)
    for op in ops:
        if reach.covers(op.theme, op.subject):
            _see(view, op)
    return Overlay(rows=tuple(view.rows.values()), hidden=frozenset(view.hidden))


def _see(view: _View, op: Operation) -> None:
    match op:
        case AddEntry():
            _see_add(view, op)
        case EditEntry():
            row = view.find(op.uid)
            if isinstance(row, Entry) and op.clock > row.clock:
                changes = {name: value for name, value in op.changes.items() if name in _CHANGEABLE}
                if "tags" in changes:
                    changes["tags"] = tuple(sorted(set(changes["tags"])))
                view.rows[row.uid] = replace(row, **changes, updated_at=op.at, clock=op.clock)
        case Retire() | Forget():
            row = view.find(op.uid)
            if row is not None and isinstance(op, Retire):
                view.retired[op.uid] = row
            view.hide(row.uid if row else op.uid)
        case Undo() if op.uid in view.retired:
            row = view.retired.pop(op.uid)
            view.hidden.discard(row.uid)
            view.rows[row.uid] = row
        case MirrorChange():
            _see_mirror(view, op)
        case MirrorFile():
            _see_file(view, op)
        case CaptureTurns():
            _see_turns(view, op)
        case _:
            pass


def _see_add(view: _View, op: AddEntry) -> None:
    if op.uid in view.store.preview(op).new:
        view.add(
            op, op.uid, op.content, target=op.target, tags=tuple(sorted(set(op.tags))), importance=op.importance, pinned=op.pinned,
            valid_until=op.valid_until, occurred_at=op.occurred_at, occurred_offset=op.occurred_offset, visibility=op.visibility,
            origins=(op.origin,), session_id=op.session_id, metadata=op.metadata,
        )  # fmt: skip
    older = view.find(op.supersedes) if op.supersedes else None
    if isinstance(older, Entry):
        view.rows[older.uid] = replace(older, superseded_by=op.uid)


def _see_mirror(view: _View, op: MirrorChange) -> None:
    preview = view.store.preview(op)
    if op.action != "add":
        waiting = _meant(view.of_origin(op), op)
        if waiting is not None:
            view.drop(waiting, op.origin)
        else:
            for uid in preview.gone:
                view.hide(uid)
    if op.action != "remove" and op.uid in preview.new:
        view.add(op, op.uid, op.content, target=op.target, origins=(op.origin,), session_id=op.session_id)


def _meant(rows: Sequence[Entry], op: MirrorChange) -> Entry | None:
    """Return the waiting entry that a replace or remove means, by the rule of the store."""
    for text in (op.previous_content, op.old_text):
        for row in rows:
            if text.strip() and content_hash(row.content) == content_hash(text):
                return row
    return next((row for row in rows if op.old_text.strip() and op.old_text in row.content), None)


def _see_file(view: _View, op: MirrorFile) -> None:
    preview = view.store.preview(op)
    present = {content_hash(text) for _, text in op.lines if text.strip()}
    for row in view.of_origin(op) if present else ():
        if content_hash(row.content) not in present:
            view.drop(row, op.origin)
    for uid in preview.gone:
        view.hide(uid)
    for uid, text in op.lines:
        if uid in preview.new and text.strip():
            view.add(op, uid, text, target=op.target, origins=(op.origin,))


def _see_turns(view: _View, op: CaptureTurns) -> None:
    new = view.store.preview(op).new
    waiting = [
        (row.role, content_hash(row.content))
        for row in view.rows.values()
        if isinstance(row, Turn) and (row.theme, row.subject, row.session_id) == (op.theme, op.subject, op.session_id)
    ]
    for text in op.turns:
        key = (text.role, content_hash(text.content))
        if op.transcript and key in waiting:
            waiting.remove(key)
        elif text.uid in new:
            view.rows[text.uid] = Turn(
                uid=text.uid, theme=op.theme, subject=op.subject, content=text.content, session_id=op.session_id, role=text.role,
                speaker=text.speaker, occurred_at=text.occurred_at, occurred_offset=text.occurred_offset,
                parent_session_id=op.parent_session_id, visibility=op.visibility, metadata=text.metadata, created_at=op.at,
                clock=op.clock,
            )  # fmt: skip
