"""Records of what is gone: earlier versions and tombstones, and texts that a tombstone keeps out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermes_mnemosyne.store.operations import MergeRecord, Outcome
from hermes_mnemosyne.store.records import Fields, entry_of, turn_of
from hermes_mnemosyne.store.writing.entries import is_kept_out, release_superseded, retire_row
from hermes_mnemosyne.store.writing.forgetting import erase
from hermes_mnemosyne.store.writing.rows import Grave
from hermes_mnemosyne.store.writing.transaction import Rejected, Transaction
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import ROLES, VISIBILITIES, Entry, Turn

LATER = ("a later edit stands",)
LOCAL = ("local here",)


def state_of(tx: Transaction, uid: str) -> str:
    """Return `retired` or `forgotten` for a row with a tombstone, else an empty text."""
    grave = tx.grave(uid)
    return grave.state if grave else ""


def refused(tx: Transaction, op: MergeRecord, uid: str) -> Outcome:
    """Count a record that a tombstone stands against, and say so."""
    tx.tally.refused += 1
    return Outcome(op_id=op.op_id, uid=uid, status="refused", notes=("forgotten",))


def keep_out(tx: Transaction, op: MergeRecord, record: Mapping[str, Any], uid: str) -> Outcome:
    """Refuse a text that was forgotten here, and forget its row: others may hold it under this uid and know nothing of it."""
    if tx.live(uid) is not None or state_of(tx, uid) == "retired":
        erase(tx, op, uid, str(record["clock"]))
    else:
        _save(tx, op, {**record, "state": "forgotten", "kind": record["type"], "at": op.at, "session_id": None}, uid)
    return refused(tx, op, uid)


def keep_version(tx: Transaction, value: Entry | Turn, *, at: str) -> None:
    """Keep a version that another one or a tombstone ends in history, unless it is there already."""
    if tx.db.execute(tx.sql["has_version"], (value.uid, value.clock)).fetchone() is None:
        written = value.updated_at if isinstance(value, Entry) else value.created_at
        tx.record("lost", value, clock=value.clock, at=written or at)
        tx.tally.mixed = True


def history(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    """Join an earlier version; one without its text erases what is here."""
    fields = Fields(record)
    uid, action, at, clock = fields.name("uid"), fields.name("action"), fields.time("at"), fields.stamp("clock")
    text = fields.object("before")
    if not text:
        tx.erase_version(tx.scope(op.theme, op.subject), uid, action, at, clock)
        return Outcome(op_id=op.op_id, uid=uid, status="exists")
    before = {"theme": op.theme, "subject": op.subject, **text, "uid": uid}
    value = turn_of(before, at=at) if "role" in before else entry_of(before, at=at)
    if (value.theme, value.subject) != (op.theme, op.subject):
        raise Rejected(f"the version before belongs to theme {value.theme}, not {op.theme}")
    if "forgotten" in (state_of(tx, uid), state_of(tx, tx.survivor(uid))):
        return refused(tx, op, uid)
    if isinstance(value, Entry) and is_kept_out(
        tx, op, value.target, content_hash(value.content), clock=value.clock, explicit=True
    ):
        tx.erase_version(tx.scope(op.theme, op.subject), uid, action, at, clock)
        tx.tally.mixed = True
        return refused(tx, op, uid)
    added = tx.record(action, value, clock=clock, at=at).rowcount > 0
    return Outcome(op_id=op.op_id, uid=uid, status="added" if added else "exists")


def tombstone(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    """Join a tombstone."""
    fields = Fields(record)
    uid, clock, at = fields.name("uid"), fields.stamp("clock"), fields.time("at")
    state = fields.choice("state", ("retired", "forgotten"))
    kept_out = fields.keeps_out()
    outcome = _retired(tx, op, record, uid) if state == "retired" else forgotten(tx, replace(op, at=at), record, uid)
    scope = tx.scope(op.theme, op.subject)
    for mac, since, occurrence in kept_out:
        tx.db.execute(tx.sql["insert_forgotten"], (mac, uid, scope, since, occurrence))
    if outcome.uids:
        release_superseded(tx, tx.survivor(uid), clock=clock, at=at)
    return outcome


def _retired(tx: Transaction, op: MergeRecord, record: Mapping[str, Any], uid: str) -> Outcome:
    clock, uid = str(record["clock"]), tx.survivor(uid)
    grave = tx.grave(uid)
    if grave is not None and (grave.state == "forgotten" or grave.clock >= clock):
        return Outcome(op_id=op.op_id, uid=uid, status="exists")
    row = tx.live(uid)
    if tx.is_withdrawn(uid):
        return Outcome(op_id=op.op_id, uid=uid, status="unchanged", notes=LOCAL)
    if row is not None and row.value.clock > clock:
        return Outcome(op_id=op.op_id, uid=uid, status="unchanged", notes=LATER)
    if row is not None:
        # What was retired there may have been an earlier version.
        keep_version(tx, row.value, at=op.at)
        retire_row(tx, row, clock=clock, at=str(record["at"]))
    else:
        _save(tx, op, record, uid)
    tx.tally.mixed |= row is not None or uid != record["uid"]
    return Outcome(op_id=op.op_id, uid=uid, status="retired", uids=(uid,))


def forgotten(tx: Transaction, op: MergeRecord, record: Mapping[str, Any], uid: str) -> Outcome:
    """Join the forgetting of a row: nothing beats it."""
    real = tx.survivor(uid)
    if state_of(tx, uid) == state_of(tx, real) == "forgotten" or tx.is_withdrawn(real):
        return Outcome(op_id=op.op_id, uid=uid, status="exists")
    if tx.live(real) is not None or state_of(tx, real) == "retired":
        erase(tx, op, real, str(record["clock"]))
        tx.tally.mixed = True
    for name in dict.fromkeys((real, uid)):
        if not state_of(tx, name):
            _save(tx, op, record, name)
        tx.db.execute(tx.sql["delete_history"], (name,))
    return Outcome(op_id=op.op_id, uid=uid, status="forgotten", uids=(uid,))


def _save(tx: Transaction, op: MergeRecord, record: Mapping[str, Any], uid: str) -> None:
    """Save a tombstone as the record tells it."""
    fields = Fields(record)
    scope = tx.scope(op.theme, op.subject)
    session, role, digest, occurrence = None, None, None, None
    if fields.has("session_id"):
        session, role = tx.session(scope, fields.text("session_id")), fields.choice("role", ROLES)
        digest, occurrence = fields.digest("content_hash"), fields.integer("occurrence", least=1)
    tx.save_tombstone(
        Grave(
            uid, op.theme, op.subject, fields.choice("kind", ("entry", "turn")), fields.choice("state", ("retired", "forgotten")),
            fields.choice("visibility", VISIBILITIES, "synced"), fields.time("at"), fields.stamp("clock"),
            session, role, digest, occurrence, scope,
        )
    )  # fmt: skip
