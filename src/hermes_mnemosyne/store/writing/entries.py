"""Operations on entries: add, edit, retire, undo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermes_mnemosyne.clock import uuid7_of
from hermes_mnemosyne.store.operations import AddEntry, EditEntry, Operation, Outcome, Retire, Undo
from hermes_mnemosyne.store.writing.graves import content_macs, forgotten_since
from hermes_mnemosyne.store.writing.rows import (
    SHELVES,
    dumps,
    entry_from_snapshot,
    origins_json,
    row_number,
    turn_from_snapshot,
)
from hermes_mnemosyne.store.writing.transaction import Live, Rejected, Transaction
from hermes_mnemosyne.store.writing.turns import restore_turn
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Entry, Origin

EDITABLE = frozenset(
    {
        "content", "tags", "importance", "pinned", "valid_until", "occurred_at", "occurred_offset", "superseded_by", "visibility",
        "session_id", "metadata",
    }
)  # fmt: skip


def is_kept_out(tx: Transaction, op: Operation, target: str, digest: str, *, clock: str, explicit: bool) -> bool:
    """Tell whether a tombstone stands against a text: always for implicit writes, for explicit ones older than it."""
    scope = tx.scope(op.theme, op.subject)
    if not tx.has_gone(scope, "forgotten"):
        return False
    since = forgotten_since(tx, content_macs(tx, (scope, op.theme, op.subject), target, digest))
    return bool(since) and (not explicit or clock <= since)


def own(tx: Transaction, op: Operation, uid: str) -> Live | None:
    """Return the live row of a uid or alias when it belongs to the theme and subject of an operation."""
    row = tx.live(uid)
    return row if row and (row.value.theme, row.value.subject) == (op.theme, op.subject) else None


def own_grave(tx: Transaction, op: Operation, uid: str) -> tuple[Any, ...] | None:
    """Return the tombstone of a uid when it belongs to the theme and subject of an operation."""
    grave: tuple[Any, ...] | None = tx.db.execute(tx.sql["tombstone"], (uid,)).fetchone()
    return grave if grave and (grave[1], grave[2]) == (op.theme, op.subject) else None


def insert(tx: Transaction, entry: Entry) -> int:
    """Insert a live entry with its tokens and origins, and return its row number."""
    tx.strangers.discard(entry.uid)
    scope = tx.scope(entry.theme, entry.subject)
    seq = tx.next_seq()
    row = row_number(scope, SHELVES[entry.target], seq)
    tx.db.execute(
        tx.sql["insert_entry"],
        (
            row, entry.uid, scope, entry.target, entry.content, bytes.fromhex(content_hash(entry.content)), dumps(entry.tags),
            entry.importance, entry.pinned, entry.valid_until, entry.occurred_at, entry.occurred_offset, entry.superseded_by,
            entry.visibility, entry.session_id, origins_json(entry.origins), dumps(dict(entry.metadata)), entry.created_at,
            entry.updated_at, seq, entry.clock,
        ),
    )  # fmt: skip
    for origin in entry.origins:
        if origin.kind == "file":
            tx.db.execute(tx.sql["insert_mirrored"], (origin.place, row))
    tx.index_entry(row, entry, fresh=True)
    tx.count(row, 1)
    return row


def save(tx: Transaction, row: Live, entry: Entry) -> None:
    """Write new fields over a live entry; its number stays, its vector goes when the text changed."""
    old = row.value
    assert isinstance(old, Entry)
    tx.db.execute(
        tx.sql["update_entry"],
        (
            entry.uid, entry.content, bytes.fromhex(content_hash(entry.content)), dumps(entry.tags), entry.importance, entry.pinned,
            entry.valid_until, entry.occurred_at, entry.occurred_offset, entry.superseded_by, entry.visibility, entry.session_id,
            origins_json(entry.origins), dumps(dict(entry.metadata)), entry.created_at, entry.updated_at, tx.next_seq(), entry.clock,
            row.id,
        ),
    )  # fmt: skip
    for origin in set(old.origins) - set(entry.origins):
        tx.db.execute(tx.sql["delete_mirrored"], (row.id, origin.place))
    for origin in set(entry.origins) - set(old.origins):
        if origin.kind == "file":
            tx.db.execute(tx.sql["insert_mirrored"], (origin.place, row.id))
    if _indexed(entry) != _indexed(old):
        tx.index_entry(row.id, entry, fresh=False)
    if entry.content != old.content:
        tx.delete_vectors(row.id)


def _indexed(entry: Entry) -> tuple[object, ...]:
    """Return what the full-text index holds of an entry."""
    return entry.content, entry.tags, bool(entry.valid_until), bool(entry.superseded_by), entry.session_id


def also_written_here(origins: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """Return the origins of an entry that a person has just rewritten or brought back.

    Where mirrored files alone had written it, they must not be able to take it away again.
    """
    return origins if any(origin.kind != "file" for origin in origins) else tuple(sorted({*origins, Origin("api")}))


def add(tx: Transaction, op: AddEntry) -> Outcome:
    """Add an entry, or join its tags and origins to the live one that holds its text."""
    clock = tx.stamp(op)
    digest = content_hash(op.content)
    scope = tx.scope(op.theme, op.subject)
    twin, has_forgotten, is_gone = tx.ask("before_adding", (scope, op.target, bytes.fromhex(digest), op.uid))
    if twin:
        outcome = join(tx, op, twin, clock)
    elif is_gone or (has_forgotten and is_kept_out(tx, op, op.target, digest, clock=clock, explicit=op.explicit)):
        tx.tally.refused += 1
        return Outcome(op_id=op.op_id, uid=op.uid, status="refused", notes=("forgotten",))
    else:
        entry = Entry(
            uid=op.uid, theme=op.theme, subject=op.subject, content=op.content, target=op.target, tags=tuple(sorted(set(op.tags))),
            importance=op.importance, pinned=op.pinned, valid_until=op.valid_until, occurred_at=op.occurred_at,
            occurred_offset=op.occurred_offset, visibility=op.visibility, origins=(op.origin,), session_id=op.session_id,
            metadata=op.metadata, created_at=op.at, updated_at=op.at, clock=clock,
        )  # fmt: skip
        insert(tx, entry)
        outcome = Outcome(op_id=op.op_id, uid=op.uid, status="added", uids=(op.uid,))
    if op.supersedes:
        supersede(tx, op, outcome.uid, clock)
    return outcome


def join(tx: Transaction, op: AddEntry, uid: str, clock: str) -> Outcome:
    """Add tags, pin and origin to the entry that already holds the text; what hid it ends when the text is said again.

    A uid promised by a spooled write leads there too: the smaller uid survives, the other becomes its alias.
    """
    found = tx.live_entry(uid)
    assert found is not None
    row, old = found
    entry = replace(
        old,
        tags=tuple(sorted({*old.tags, *op.tags})),
        origins=tuple(sorted({*old.origins, op.origin})),
        pinned=old.pinned or op.pinned,
    )
    expired = old.valid_until is not None and old.valid_until <= op.at
    if op.explicit and clock > old.clock and (expired or old.superseded_by):
        tx.record("edited", old, clock=clock, at=op.at)
        until = op.valid_until if expired else old.valid_until
        entry = replace(entry, valid_until=until, superseded_by=None, updated_at=op.at)
    if op.spooled and op.uid != old.uid:
        entry = replace(entry, uid=min(op.uid, old.uid))
        link(tx, max(op.uid, old.uid), entry.uid, op, clock)
    if entry != old:
        save(tx, row, replace(entry, clock=max(old.clock, clock)))
    return Outcome(op_id=op.op_id, uid=entry.uid, status="exists", uids=(entry.uid,) if entry != old else ())


def link(tx: Transaction, alias: str, survivor: str, op: Operation, clock: str) -> None:
    """Make one uid lead to another, and all that led to it."""
    tx.strangers -= {alias, survivor}
    scope = tx.scope(op.theme, op.subject)
    tx.db.execute(tx.sql["delete_alias"], (survivor,))
    for (name,) in tx.db.execute(tx.sql["aliases_of"], (alias,)).fetchall():
        tx.db.execute(tx.sql["repoint_alias"], (survivor, tx.next_seq(), name))
    tx.db.execute(tx.sql["insert_alias"], (alias, survivor, scope, clock, tx.next_seq()))


def supersede(tx: Transaction, op: AddEntry, by: str, clock: str) -> None:
    """Mark the entry that another one replaces."""
    assert op.supersedes
    found = tx.live_entry(op.supersedes)
    if found is None or (found[1].theme, found[1].subject) != (op.theme, op.subject):
        if op.spooled:
            return  # it was accepted while that entry was there; the text must not be lost with it
        raise Rejected(f"no entry {op.supersedes} to supersede in theme {op.theme}")
    row, old = found
    if old.uid == by:
        raise Rejected("an entry cannot supersede itself")
    tx.record("superseded", old, clock=clock, at=op.at)
    save(tx, row, replace(old, superseded_by=by, updated_at=op.at, clock=max(clock, old.clock)))


def edit(tx: Transaction, op: EditEntry) -> Outcome:
    """Change fields of a live entry; an edit older than the row is kept in history only."""
    unknown = set(op.changes) - EDITABLE
    if unknown:
        raise Rejected(f"cannot edit {', '.join(sorted(unknown))}")
    row = own(tx, op, op.uid)
    if row is None or not isinstance(row.value, Entry):
        return Outcome(op_id=op.op_id, uid=op.uid, status="unknown")
    old = row.value
    clock = tx.stamp(op)
    changes = dict(op.changes)
    if "tags" in changes:
        changes["tags"] = tuple(sorted(set(changes["tags"])))
    new = replace(old, **changes)
    if new == old:
        return Outcome(op_id=op.op_id, uid=old.uid, status="unchanged")
    digest = content_hash(new.content)
    if digest != row.hash.hex() and is_kept_out(tx, op, old.target, digest, clock=clock, explicit=True):
        tx.tally.refused += 1
        return Outcome(op_id=op.op_id, uid=old.uid, status="refused", notes=("forgotten",))
    if clock <= old.clock:
        tx.record("lost", new, clock=clock, at=op.at)
        return Outcome(op_id=op.op_id, uid=old.uid, status="unchanged", notes=("a later edit stands",))
    if new.content != old.content:
        new = replace(new, origins=also_written_here(new.origins))
    return change(tx, op, row, new, clock)


def change(tx: Transaction, op: Operation, row: Live, new: Entry, clock: str, action: str = "edited") -> Outcome:
    """Write a newer version of an entry; a text that another entry holds merges the two under the smaller uid."""
    old = row.value
    assert isinstance(old, Entry)
    new = replace(new, updated_at=op.at, clock=clock)
    tx.record(action, old, clock=clock, at=op.at)
    scope = tx.scope(old.theme, old.subject)
    twin = tx.db.execute(tx.sql["entry_by_hash"], (scope, new.target, bytes.fromhex(content_hash(new.content)))).fetchone()
    if twin and twin[0] != old.uid:
        found = tx.live_entry(twin[0])
        assert found is not None
        other_row, other = found
        if new.visibility != other.visibility:
            return _beside_local(tx, op, row, new, other_row)
        tx.record("merged", other, clock=clock, at=op.at)
        tx.remove_live(other_row)
        uid = min(old.uid, other.uid)
        new = replace(
            new,
            uid=uid,
            tags=tuple(sorted({*new.tags, *other.tags})),
            origins=tuple(sorted({*new.origins, *other.origins})),
            pinned=new.pinned or other.pinned,
            created_at=min(new.created_at, other.created_at),
        )
        save(tx, row, new)
        link(tx, max(old.uid, other.uid), uid, op, clock)
        return Outcome(op_id=op.op_id, uid=uid, status="updated", uids=(uid,), notes=(f"merged:{max(old.uid, other.uid)}",))
    return _written(tx, op, row, new)


def _beside_local(tx: Transaction, op: Operation, row: Live, new: Entry, twin: Live) -> Outcome:
    """Keep of a local and a shared entry with the same text the shared one; nothing of the local one may travel with it."""
    other = twin.value
    if other.visibility == "local":
        retire_row(tx, twin, clock=max(new.clock, other.clock), at=op.at)
        return _written(tx, op, row, new)
    if row.value.visibility == "synced":
        # It has just become local itself, with the text that the other one shares.
        tx.withdraw(row.value, clock=new.clock, at=op.at)
        row = replace(row, value=replace(row.value, visibility="local"))
    retire_row(tx, row, clock=new.clock, at=op.at)
    return Outcome(op_id=op.op_id, uid=other.uid, status="updated", uids=(row.value.uid,), notes=(f"merged:{row.value.uid}",))


def _written(tx: Transaction, op: Operation, row: Live, new: Entry) -> Outcome:
    """Save a version of an entry whose text no other one holds."""
    old = row.value
    assert isinstance(old, Entry)
    renamed = _publish(tx, op, old, new)
    save(tx, row, replace(new, uid=renamed))
    notes = ("renamed",) if renamed != new.uid else ()
    return Outcome(op_id=op.op_id, uid=renamed, status="updated", uids=(renamed,), notes=notes)


def _publish(tx: Transaction, op: Operation, old: Entry, new: Entry) -> str:
    """Note a change of visibility for other replicas, and return the uid that the row has from now on.

    What has become local is forgotten there, for ever by that uid; should it be shared again, it is another row for them.
    """
    if old.visibility == "synced" and new.visibility == "local":
        tx.withdraw(new, clock=new.clock, at=new.updated_at)
    if not (old.visibility == "local" and new.visibility == "synced"):
        return new.uid
    uid = uuid7_of(op.at, op.op_id, new.uid) if tx.is_withdrawn(new.uid) else new.uid
    if uid == new.uid:
        tx.db.execute(tx.sql["republish_aliases"], (tx.next_seq(), uid))
    tx.db.execute(tx.sql["republish_history"], (uid, tx.next_seq(), new.uid))
    return uid


def retire(tx: Transaction, op: Retire) -> Outcome:
    """Take a row out of the live tables, kept in history."""
    row = own(tx, op, op.uid)
    if row is None:
        return Outcome(op_id=op.op_id, uid=op.uid, status="unknown")
    clock = tx.stamp(op)
    if clock <= row.value.clock:
        return Outcome(op_id=op.op_id, uid=row.value.uid, status="unchanged", notes=("a later edit stands",))
    retire_row(tx, row, clock=clock, at=op.at)
    return Outcome(op_id=op.op_id, uid=row.value.uid, status="retired", uids=(row.value.uid,))


def retire_row(tx: Transaction, row: Live, *, clock: str, at: str) -> None:
    """Move a live row into history; entries that it had replaced are current again."""
    if isinstance(row.value, Entry):
        release_superseded(tx, row.value.uid, clock=clock, at=at)
    tx.record("retired", row.value, clock=clock, at=at)
    tx.remove_live(row)
    tx.bury(row, "retired", clock=clock, at=at)


def release_superseded(tx: Transaction, uid: str, *, clock: str, at: str) -> None:
    """Make current again what an entry had replaced; history tells, so that `restore` can replace it anew."""
    names = (uid, *(alias for (alias,) in tx.db.execute(tx.sql["aliases_of"], (uid,)).fetchall()))
    for name in names:
        for (other,) in tx.db.execute(tx.sql["superseded_by"], (name,)).fetchall():
            found = tx.live_entry(other)
            assert found is not None
            row, old = found
            tx.record("released", old, clock=clock, at=at)
            save(tx, row, replace(old, superseded_by=None, clock=max(clock, old.clock)))


def _replace_anew(tx: Transaction, uid: str, *, clock: str) -> None:
    """Hide again what an entry had replaced before it was retired, where nothing has happened to it since."""
    for name, at in tx.db.execute(tx.sql["released_from"], (uid,)).fetchall():
        found = tx.live_entry(name)
        if found is not None and found[1].clock == at:
            row, old = found
            save(tx, row, replace(old, superseded_by=uid, clock=max(clock, old.clock)))


def undo(tx: Transaction, op: Undo) -> Outcome:
    """Take back the last change of a row."""
    uid = tx.survivor(op.uid)
    grave = own_grave(tx, op, uid)
    last = tx.db.execute(tx.sql["last_change"], (uid,)).fetchone()
    row = own(tx, op, uid)
    is_retired = grave is not None and grave[4] == "retired" and last is not None
    if row is None and not is_retired:
        return Outcome(op_id=op.op_id, uid=uid, status="unknown")
    clock = tx.stamp(op)
    if clock <= (row.value.clock if row else grave[7] if grave else ""):
        return Outcome(op_id=op.op_id, uid=uid, status="unchanged", notes=("a later edit stands",))
    if row is None:
        return restore(tx, op, uid, _fields(last), clock)
    if last is None or last[1] == "retired":  # the last change was its addition, or its return
        retire_row(tx, row, clock=clock, at=op.at)
        return Outcome(op_id=op.op_id, uid=uid, status="retired", uids=(uid,))
    if not isinstance(row.value, Entry):
        raise Rejected("a turn has no earlier version")
    if last[1] == "merged":
        return part(tx, op, row, last[3], clock)
    before = entry_from_snapshot(_fields(last))
    changes = {name: getattr(before, name) for name in EDITABLE}
    if before.superseded_by and tx.live(before.superseded_by) is None:
        changes["superseded_by"] = None
    outcome = change(tx, op, row, replace(row.value, origins=also_written_here(before.origins), **changes), clock)
    return replace(outcome, status="restored")


def part(tx: Transaction, op: Undo, row: Live, merged: str, clock: str) -> Outcome:
    """Take back an edit that made two entries one, at the clock `merged`.

    Both live again, the other one under a new uid: on other replicas too its old one leads to the survivor for ever.
    """
    survivor = row.value
    assert isinstance(survivor, Entry)
    versions = {
        uid: entry_from_snapshot(json.loads(text)) for uid, text in tx.db.execute(tx.sql["merged_rows"], (survivor.uid, merged))
    }
    uids = [survivor.uid]
    if own_version := versions.pop(survivor.uid, None):
        # Its earlier text may live in a third entry by now: then these two are one.
        uids = [change(tx, op, row, replace(own_version, uid=survivor.uid), clock).uid]
    for other, version in versions.items():
        digest = content_hash(version.content)
        scope = tx.scope(version.theme, version.subject)
        held = tx.db.execute(tx.sql["entry_by_hash"], (scope, version.target, bytes.fromhex(digest))).fetchone()
        if not held and not is_kept_out(tx, op, version.target, digest, clock=clock, explicit=True):
            parted = replace(version, uid=uuid7_of(op.at, op.op_id, other), updated_at=op.at, clock=clock)
            insert(tx, parted)
            uids.append(parted.uid)
    return Outcome(op_id=op.op_id, uid=op.uid, status="restored", uids=tuple(uids))


def _fields(last: tuple[int, str, str, str]) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = json.loads(last[2])
    return fields


def restore(tx: Transaction, op: Operation, uid: str, fields: Mapping[str, Any], clock: str) -> Outcome:
    """Make a retired row live again under its uid, merged when its text lives in another row now."""
    if "role" in fields:
        tx.delete_tombstone(uid)
        restore_turn(tx, replace(turn_from_snapshot(fields), uid=uid, clock=clock))
        return Outcome(op_id=op.op_id, uid=uid, status="restored", uids=(uid,))
    entry = replace(entry_from_snapshot(fields), uid=uid, clock=clock, updated_at=op.at)
    newer = entry.superseded_by if entry.superseded_by and tx.live(entry.superseded_by) else None
    entry = replace(entry, origins=also_written_here(entry.origins), superseded_by=newer)
    scope = tx.scope(entry.theme, entry.subject)
    twin = tx.db.execute(tx.sql["entry_by_hash"], (scope, entry.target, bytes.fromhex(content_hash(entry.content)))).fetchone()
    if twin:
        found = tx.live_entry(twin[0])
        assert found is not None
        row, other = found
        if other.visibility != entry.visibility:
            # The text is there, and what others know of this row stays true.
            return Outcome(op_id=op.op_id, uid=other.uid, status="exists")
        tx.delete_tombstone(uid)
        survivor = min(uid, other.uid)
        save(            tx,
            row,
            replace(other, uid=survivor, clock=max(clock, other.clock), tags=tuple(sorted({*other.tags, *entry.tags})),
                    origins=tuple(sorted({*other.origins, *entry.origins}))),
        )  # fmt: skip
        link(tx, max(uid, other.uid), survivor, op, clock)
        return Outcome(op_id=op.op_id, uid=survivor, status="restored", uids=(survivor,), notes=("merged",))
    tx.delete_tombstone(uid)
    insert(tx, entry)
    _replace_anew(tx, uid, clock=clock)
    return Outcome(op_id=op.op_id, uid=uid, status="restored", uids=(uid,))
