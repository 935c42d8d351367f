"""Merge the state of a row as another store holds it: an import, and later a replica.

The later clock wins and the loser goes to history; a forget beats everything of its uid; equal texts of one theme, subject and
target become the smallest uid with the others as aliases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermes_mnemosyne.store.operations import MergeRecord, Outcome
from hermes_mnemosyne.store.sqlite.entries import insert, is_kept_out, link, retire_row, save
from hermes_mnemosyne.store.sqlite.forgetting import erase
from hermes_mnemosyne.store.sqlite.rows import dumps, entry_from_snapshot, turn_from_snapshot
from hermes_mnemosyne.store.sqlite.transaction import Live, Rejected, Transaction
from hermes_mnemosyne.store.sqlite.turns import capture_mac, restore_turn
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Entry, Turn


def merge(tx: Transaction, op: MergeRecord) -> Outcome:
    """Merge one export record."""
    kind = op.record.get("type")
    handler = {"entry": _entry, "turn": _turn, "alias": _alias, "history": _history, "tombstone": _tombstone}.get(str(kind))
    if handler is None:
        raise Rejected(f"unknown record type {kind!r}: entry, turn, alias, history or tombstone")
    clock = op.record.get("clock")
    if not isinstance(clock, str) or not clock:
        raise Rejected("the record has no clock")
    tx.tally.clock = max(tx.tally.clock, clock)
    return handler(tx, op, op.record)


def _is_buried(tx: Transaction, uid: str, clock: str) -> bool:
    """Tell whether a tombstone stands against a live state; an older retirement is lifted."""
    grave = tx.db.execute(tx.sql["tombstone"], (uid,)).fetchone()
    if grave is None:
        return False
    if grave[4] == "forgotten" or grave[7] >= clock:
        return True
    tx.db.execute(tx.sql["delete_tombstone"], (uid,))
    return False


def _entry(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    new = entry_from_snapshot(record)
    uid = tx.survivor(new.uid)
    if _is_buried(tx, uid, new.clock):
        return _refused(tx, op, uid)
    row = tx.live(uid)
    if row is not None:
        return _newer(tx, op, row, replace(new, uid=uid))
    if is_kept_out(tx, op, new.target, content_hash(new.content), clock=new.clock, explicit=True):
        return _refused(tx, op, uid)
    scope = tx.scope(new.theme, new.subject)
    twin = tx.db.execute(tx.sql["entry_by_hash"], (scope, new.target, bytes.fromhex(content_hash(new.content)))).fetchone()
    if twin is None:
        insert(tx, new)
        return Outcome(op_id=op.op_id, uid=uid, status="added", uids=(uid,))
    found = tx.live_entry(twin[0])
    assert found is not None
    other_row, other = found
    later = max(other, new, key=lambda entry: entry.clock)
    survivor = min(uid, other.uid)
    joined = replace(
        later,
        uid=survivor,
        tags=tuple(sorted({*new.tags, *other.tags})),
        origins=tuple(sorted({*new.origins, *other.origins})),
        created_at=min(new.created_at, other.created_at),
    )
    save(tx, other_row, joined)
    link(tx, max(uid, other.uid), survivor, op, later.clock)
    return Outcome(op_id=op.op_id, uid=survivor, status="exists", uids=(survivor,), notes=("merged",))


def _newer(tx: Transaction, op: MergeRecord, row: Live, new: Entry) -> Outcome:
    old = row.value
    if not isinstance(old, Entry):
        raise Rejected(f"{new.uid} is a turn here and an entry there")
    if new.clock == old.clock:
        return Outcome(op_id=op.op_id, uid=old.uid, status="exists")
    if (new.theme, new.subject, new.target) != (old.theme, old.subject, old.target):
        raise Rejected(f"{new.uid} belongs to another theme or target here")
    if new.clock < old.clock:
        if snapshot_differs(old, new):
            tx.record("lost", new, clock=new.clock, at=op.at)
        return Outcome(op_id=op.op_id, uid=old.uid, status="unchanged", notes=("a later edit stands",))
    scope = tx.scope(old.theme, old.subject)
    digest = bytes.fromhex(content_hash(new.content))
    twin = tx.db.execute(tx.sql["entry_by_hash"], (scope, new.target, digest)).fetchone()
    if snapshot_differs(old, new):
        tx.record("lost", old, clock=old.clock, at=op.at)
    if twin and twin[0] != old.uid:
        found = tx.live_entry(twin[0])
        assert found is not None
        other_row, other = found
        tx.remove_live(other_row)
        survivor = min(old.uid, other.uid)
        tags, origins = {*new.tags, *other.tags}, {*new.origins, *other.origins}
        save(tx, row, replace(new, uid=survivor, tags=tuple(sorted(tags)), origins=tuple(sorted(origins))))
        link(tx, max(old.uid, other.uid), survivor, op, new.clock)
        return Outcome(op_id=op.op_id, uid=survivor, status="updated", uids=(survivor,), notes=("merged",))
    save(tx, row, new)
    return Outcome(op_id=op.op_id, uid=old.uid, status="updated", uids=(old.uid,))


def snapshot_differs(first: Entry, second: Entry) -> bool:
    """Tell whether two versions differ in what a person wrote."""
    return replace(first, clock="", updated_at="", seq=0, origins=()) != replace(second, clock="", updated_at="", seq=0, origins=())


def _turn(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    new = turn_from_snapshot(record)
    uid = tx.survivor(new.uid)
    if _is_buried(tx, uid, new.clock):
        return _refused(tx, op, uid)
    row = tx.live(uid)
    if row is not None:
        if isinstance(row.value, Turn) and new.clock > row.value.clock:
            seq = tx.next_seq()
            tx.db.execute(
                tx.sql["update_turn"],
                (
                    new.position, new.speaker, row.value.content, new.occurred_at, new.occurred_offset, new.parent_session_id,
                    new.visibility, dumps(dict(new.metadata)), new.created_at, seq, new.clock, row.id,
                ),
            )  # fmt: skip
            return Outcome(op_id=op.op_id, uid=uid, status="updated", uids=(uid,))
        return Outcome(op_id=op.op_id, uid=uid, status="exists")
    scope = tx.scope(new.theme, new.subject)
    digest = content_hash(new.content)
    if tx.has_gone(scope, "forgotten"):
        mac = capture_mac(tx, new.theme, new.subject, new.session_id, new.role, digest)
        gone = mac and tx.db.execute(tx.sql["forgotten_occurrence"], (mac, new.occurrence)).fetchone()
        if gone:
            return _refused(tx, op, uid)
    session = tx.session(scope, new.session_id)
    twin = tx.db.execute(tx.sql["turn_by_capture"], (session, new.role, bytes.fromhex(digest), new.occurrence)).fetchone()
    if twin is None:
        restore_turn(tx, new)
        return Outcome(op_id=op.op_id, uid=uid, status="added", uids=(uid,))
    survivor = min(uid, twin[0])
    found = tx.live(twin[0])
    assert found is not None
    if survivor != twin[0]:
        tx.db.execute(tx.sql["replace_turn_uid"], (survivor, tx.next_seq(), found.id))
    link(tx, max(uid, twin[0]), survivor, op, new.clock)
    return Outcome(op_id=op.op_id, uid=survivor, status="exists", uids=(survivor,), notes=("merged",))


def _alias(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    uid, survivor = str(record["uid"]), str(record["survivor"])
    if uid == survivor or tx.live(uid) is not None or tx.survivor(uid) == survivor:
        return Outcome(op_id=op.op_id, uid=survivor, status="exists")
    scope = tx.scope(op.theme, op.subject)
    tx.db.execute(tx.sql["insert_alias"], (uid, survivor, scope, record["clock"], tx.next_seq()))
    return Outcome(op_id=op.op_id, uid=survivor, status="added", uids=(uid,))


def _history(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    uid = str(record["uid"])
    grave = tx.db.execute(tx.sql["tombstone"], (uid,)).fetchone()
    if grave is not None and grave[4] == "forgotten":
        return _refused(tx, op, uid)
    fields = record["before"]
    value = turn_from_snapshot(fields) if "role" in fields else entry_from_snapshot(fields)
    before = tx.db.execute(tx.sql["changes"]).fetchone()[0]
    tx.record(str(record["action"]), replace(value, uid=uid), clock=str(record["clock"]), at=str(record["at"]))
    added = tx.db.execute(tx.sql["changes"]).fetchone()[0] != before
    return Outcome(op_id=op.op_id, uid=uid, status="added" if added else "exists")


def _tombstone(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    uid, state, clock, at = (str(record[name]) for name in ("uid", "state", "clock", "at"))
    if state not in {"retired", "forgotten"}:
        raise Rejected(f"unknown state {state!r} of a tombstone")
    grave = tx.db.execute(tx.sql["tombstone"], (uid,)).fetchone()
    if grave is not None and (grave[4] == "forgotten" or state == "retired"):
        _keep_out(tx, op, record)
        return Outcome(op_id=op.op_id, uid=uid, status="exists")
    row = tx.live(uid)
    if row is not None and row.value.uid == uid:
        if state == "retired" and row.value.clock >= clock:
            return Outcome(op_id=op.op_id, uid=uid, status="unchanged", notes=("a later edit stands",))
        if state == "retired":
            retire_row(tx, row, clock=clock, at=at)
            return Outcome(op_id=op.op_id, uid=uid, status="retired", uids=(uid,))
    if state == "forgotten" and (row is not None or grave is not None):
        erase(tx, replace(op, at=at), uid, clock)
    else:
        scope = tx.scope(op.theme, op.subject)
        capture: tuple[object, ...] = (None, None, None, None)
        if record.get("session_id") is not None:
            session = tx.session(scope, str(record["session_id"]))
            capture = (session, record["role"], bytes.fromhex(record["content_hash"]), record["occurrence"])
        kind, visibility = record["kind"], record["visibility"]
        tx.db.execute(
            tx.sql["save_tombstone"], (uid, scope, kind, state, visibility, at, clock, tx.next_seq(), *capture)
        )
    _keep_out(tx, op, record)
    return Outcome(op_id=op.op_id, uid=uid, status="added", uids=(uid,))


def _keep_out(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> None:
    scope = tx.scope(op.theme, op.subject)
    for mac, clock, occurrence in record.get("keeps_out", ()):
        tx.db.execute(tx.sql["insert_forgotten"], (mac, record["uid"], scope, clock, occurrence))


def _refused(tx: Transaction, op: MergeRecord, uid: str) -> Outcome:
    tx.tally.refused += 1
    return Outcome(op_id=op.op_id, uid=uid, status="refused", notes=("forgotten",))
