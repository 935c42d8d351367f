"""Changes made under the old names, applied by the rules of writing: each exactly once, in the transaction that takes it off the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermes_mnemosyne.clock import utc_text
from hermes_mnemosyne.store.operations import EditEntry, Retire
from hermes_mnemosyne.store.postgres.connections import Connections
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.old_rows import ENTRIES, OldRow, Reader
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.postgres.taking import capture, head, map_row, prepare, record_of, take
from hermes_mnemosyne.store.records import turn_of
from hermes_mnemosyne.store.writing import entries, turns
from hermes_mnemosyne.store.writing.applying import Prepared
from hermes_mnemosyne.store.writing.graves import Session
from hermes_mnemosyne.store.writing.transaction import REJECTIONS, Live, Tools, Transaction
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Entry, Turn

# From here on a number is that of a row itself and no old id.
_FIRST_ROW = 1 << 38
_LATER = "a later edit stands"
_LONGEST_PROBLEM = 300


@dataclass(frozen=True, slots=True)
class Change:
    """One change under an old name: its number, what was done to which row, and the row before and after it."""

    id: int
    at: str
    relation: str
    action: str
    legacy_id: int
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    row: OldRow


def waiting(db: Database) -> bool:
    """Tell whether changes wait that any host can apply."""
    return bool(db.execute(statements("old_names")["waiting"]).fetchone()[0])


def drain(connections: Connections, tools: Tools, limit: int = 200, *, wait: float = 5.0) -> int:
    """Apply up to `limit` changes, oldest first, and return how many were taken off the queue.

    Changes to rows of contacts wait for a host that has the subject key. One that cannot be applied stays, marked.
    Raises StoreBusy and other store errors; nothing is half done then.
    """
    reader = Reader(tools.key, tools.clock.replica)
    with connections.reading() as db:
        found = _read(db, reader, limit, held=False) or _read(db, reader, limit, held=True)
    if not found:
        return 0
    prepared = Prepared(tools.analyser, (), tools.dialect.prepared)
    for change in found:
        prepare(prepared, change.row)
    with connections.writing(wait) as db:
        tx = Transaction(db, replace(tools, analyser=prepared))
        done = apply(tx, found)
        tx.finish()
    tools.scopes.update(tx.scopes)
    return done


def apply(tx: Transaction, found: Sequence[Change]) -> int:
    """Apply changes inside a transaction and return how many were taken off the queue."""
    sql = statements("old_names")
    tx.db.execute(sql["by_our_code"])
    still = {number for (number,) in tx.db.execute(sql["still_forwarded"], ([change.id for change in found],))}
    done, held = [], []
    for change in found:
        if change.id not in still:
            continue
        if _must_wait(tx, change):
            # At once: a later change to the same row waits behind it.
            tx.db.execute(sql["hold"], ([change.id],))
            held.append(change.id)
            continue
        mark = tx.save()
        try:
            _apply(tx, change)
            tx.release()
            done.append(change.id)
        except (*REJECTIONS, *tx.dialect.rejections) as error:
            tx.roll_back(mark)
            tx.db.execute(sql["not_applied"], (change.id, f"{type(error).__name__}: {error}"[:_LONGEST_PROBLEM]))
    tx.db.execute(sql["applied"], (done,))
    return len(done)


def _read(db: Database, reader: Reader, limit: int, *, held: bool) -> list[Change]:
    found = []
    for number, at, relation, action, legacy_id, before, after in db.execute(statements("old_names")["forwarded"], (held, limit)):
        when = utc_text(at)
        row = reader.row(relation, after or before, at=when, number=number)
        found.append(Change(number, when, relation, action, legacy_id, before, after, row))
    return found


def _must_wait(tx: Transaction, change: Change) -> bool:
    place = (change.relation, change.legacy_id, change.id)
    return change.row.subject is None or tx.db.execute(statements("old_names")["earlier_held"], place).fetchone() is not None


def _apply(tx: Transaction, change: Change) -> None:
    uid = _uid(tx, change)
    row = tx.live(uid) if uid else None
    if change.action == "DELETE":
        _delete(tx, change, row)
    elif change.action == "INSERT":
        if uid is None:
            (take if change.relation == ENTRIES else capture)(tx, change.row)
    elif row is not None and isinstance(row.value, Entry):
        _edit(tx, change, row.value)
    elif row is not None and isinstance(row.value, Turn):
        _edit_turn(tx, change, row, row.value)
    elif not uid or _is_older(tx, uid, change.row.clock):
        take(tx, change.row)
    else:
        tx.db.execute(statements("old_names")["drop_old_row"], (change.relation, change.legacy_id))


def _uid(tx: Transaction, change: Change) -> str | None:
    """Return the uid that a changed row has here, empty for a row without text, None for one that is not here."""
    sql = statements("old_names")
    found = tx.db.execute(sql["row_of"], (change.relation, change.legacy_id)).fetchone()
    if found is None and change.legacy_id >= _FIRST_ROW:
        found = tx.db.execute(sql["entry_of" if change.relation == ENTRIES else "turn_of"], (change.legacy_id,)).fetchone()
    return found[0] if found else None


def _is_older(tx: Transaction, uid: str, clock: str) -> bool:
    """Tell whether a row was retired before a change to it."""
    grave = tx.db.execute(tx.sql["tombstone"], (tx.survivor(uid),)).fetchone()
    return grave is not None and grave[4] == "retired" and grave[7] < clock


def _head(change: Change, value: Entry | Turn) -> dict[str, Any]:
    """Return the common fields of an operation on a row that is here."""
    return {**head(change.row, at=change.at), "theme": value.theme, "subject": value.subject}


def _retire(tx: Transaction, change: Change, uid: str, value: Entry | Turn) -> None:
    """Retire a row unless another old row says the same."""
    sql = statements("old_names")
    tx.db.execute(sql["unmap_row"], (change.relation, change.legacy_id))
    if tx.db.execute(sql["also_of"], (change.relation, change.legacy_id, uid)).fetchone() is None:
        entries.retire(tx, Retire(**_head(change, value), uid=uid))


def _delete(tx: Transaction, change: Change, row: Live | None) -> None:
    if row is None:
        tx.db.execute(statements("old_names")["unmap_row"], (change.relation, change.legacy_id))
    else:
        _retire(tx, change, row.value.uid, row.value)


def _changed(change: Change) -> set[str]:
    before, after = change.before or {}, change.after or {}
    return {name for name in after if before.get(name) != after[name]}


def _edit(tx: Transaction, change: Change, old: Entry) -> None:
    """Apply an update of an entry; one of theme, target or to a blank text ends this row."""
    changed, row = _changed(change), change.row
    if changed & {"agent_identity", "target"} or not row.content.strip():
        _retire(tx, change, old.uid, old)
        take(tx, row)
        return
    changes: dict[str, Any] = {}
    if "content" in changed:
        changes["content"] = row.content
    if "metadata" in changed:
        changes["metadata"] = dict(row.metadata)
    if not changes:
        return
    outcome = entries.edit(tx, EditEntry(**_head(change, old), uid=old.uid, changes=changes))
    if outcome.status == "refused" or _LATER in outcome.notes:
        tx.db.execute(statements("old_names")["change_old_row"], (change.legacy_id, old.content, old.updated_at))
    elif outcome.uid != old.uid or outcome.notes:
        tx.db.execute(statements("old_names")["follow_aliases"], (outcome.uid,))


def _edit_turn(tx: Transaction, change: Change, live: Live, old: Turn) -> None:
    """Apply an update of a turn, which may move it to another theme; its place in the session stays."""
    changed, row = _changed(change), change.row
    if not row.content.strip():
        _retire(tx, change, old.uid, old)
        map_row(tx, change.relation, change.legacy_id, "")
        return
    if "agent_identity" not in changed:
        row = replace(row, theme=old.theme, subject=old.subject)
    if not changed - {"id"} or row.clock <= old.clock:
        return
    occurrence = old.occurrence
    if changed & {"agent_identity", "session_id", "role", "content"}:
        scope = tx.scope(row.theme, row.subject or "")
        session = Session(scope, tx.session(scope, row.session_id), row.theme, row.subject or "", row.session_id)
        occurrence = turns.occurrences(tx, session, row.part, content_hash(row.content))[1] + 1
        if "content" in changed:
            tx.record("edited", live.value, clock=row.clock, at=change.at)
    record = record_of(row, old.uid, position=old.position, occurrence=occurrence)
    tx.tally.clock = max(tx.tally.clock, row.clock)
    tx.remove_live(live)
    turns.restore_turn(tx, turn_of(record, at=change.at))
