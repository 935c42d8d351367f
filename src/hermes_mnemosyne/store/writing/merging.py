"""Merge the state of a row as another store holds it: an import, and later a replica.

The later clock wins and the loser goes to history; a forget beats everything of its uid; equal texts of one theme, subject and
target become the smallest uid with the others as aliases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.store.operations import MergeRecord, Outcome
from hermes_mnemosyne.store.records import TYPES, Fields, entry_of, turn_of
from hermes_mnemosyne.store.writing.entries import insert, is_kept_out, link, release_superseded, retire_row, save
from hermes_mnemosyne.store.writing.forgetting import erase
from hermes_mnemosyne.store.writing.graves import Session, capture_macs, names_of
from hermes_mnemosyne.store.writing.rows import scope_of
from hermes_mnemosyne.store.writing.transaction import Live, Rejected, Transaction
from hermes_mnemosyne.store.writing.turns import restore_turn
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import ROLES, VISIBILITIES, Entry, Turn

_LATER = ("a later edit stands",)


def merge(tx: Transaction, op: MergeRecord) -> Outcome:
    """Merge one export record."""
    try:
        fields = Fields(op.record)
        kind = fields.choice("type", TYPES)
        clock = fields.stamp("clock")
        theme, subject = fields.text("theme", op.theme), fields.text("subject", op.subject)
        if (theme, subject) != (op.theme, op.subject):
            raise Rejected(f"the record belongs to theme {theme}, not {op.theme}")
        for name in ("uid", "survivor"):
            if fields.has(name):
                _check_place(tx, op, fields.name(name))
        tx.tally.clock = max(tx.tally.clock, clock)
        return _HANDLERS[kind](tx, op, {"theme": theme, "subject": subject, **op.record})
    except InvalidInput as error:
        raise Rejected(str(error)) from error


def _check_place(tx: Transaction, op: MergeRecord, uid: str) -> None:
    """Raise Rejected when a row stands, or has stood, in a theme and subject that were never those of the operation.

    Whoever may write in one place could end or change a row of another one otherwise, by naming it.
    """
    for name in dict.fromkeys((uid, tx.survivor(uid))):
        row = tx.live(name)
        grave = None if row else tx.db.execute(tx.sql["tombstone"], (name,)).fetchone()
        if row is not None:
            place = scope_of(row.id), row.value.theme, row.value.subject
        elif grave is not None:
            place = grave[12], grave[1], grave[2]
        else:
            continue
        if (op.theme, op.subject) != place[1:] and (op.theme, op.subject) not in names_of(tx, *place):
            raise Rejected(f"{uid} belongs to another theme or subject here")


def _refused(tx: Transaction, op: MergeRecord, uid: str) -> Outcome:
    tx.tally.refused += 1
    return Outcome(op_id=op.op_id, uid=uid, status="refused", notes=("forgotten",))


def _buried(tx: Transaction, op: MergeRecord, uid: str, clock: str) -> Outcome | None:
    """Return the answer to a live state that a tombstone stands against; an older retirement is lifted."""
    grave = tx.db.execute(tx.sql["tombstone"], (uid,)).fetchone()
    if grave is None:
        return None
    if grave[4] == "forgotten":
        return _refused(tx, op, uid)
    if grave[7] >= clock:
        return Outcome(op_id=op.op_id, uid=uid, status="unchanged", notes=_LATER)
    tx.db.execute(tx.sql["delete_tombstone"], (uid,))
    return None


def _state(tx: Transaction, uid: str) -> str:
    """Return `retired` or `forgotten` for a row with a tombstone, else an empty text."""
    grave = tx.db.execute(tx.sql["tombstone"], (uid,)).fetchone()
    return grave[4] if grave else ""


def _keep_loser(tx: Transaction, op: MergeRecord, loser: Entry, winner: Entry) -> None:
    """Keep the version that lost in history, where it differs in what a person wrote."""
    blank = {"uid": "", "clock": "", "updated_at": "", "created_at": "", "seq": 0, "origins": ()}
    if replace(loser, **blank) != replace(winner, **blank):  # type: ignore[arg-type]
        tx.record("lost", loser, clock=loser.clock, at=op.at)


def _joined(later: Entry, earlier: Entry, uid: str) -> Entry:
    """Return one entry for two of the same text."""
    return replace(
        later,
        uid=uid,
        tags=tuple(sorted({*later.tags, *earlier.tags})),
        origins=tuple(sorted({*later.origins, *earlier.origins})),
        pinned=later.pinned or earlier.pinned,
        created_at=min(later.created_at, earlier.created_at),
    )


def _twin(tx: Transaction, entry: Entry) -> tuple[Live, Entry] | None:
    """Return another live entry that holds the same text."""
    scope = tx.scope(entry.theme, entry.subject)
    found = tx.db.execute(tx.sql["entry_by_hash"], (scope, entry.target, bytes.fromhex(content_hash(entry.content)))).fetchone()
    return tx.live_entry(found[0]) if found and found[0] != entry.uid else None


def _entry(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    new = entry_of(record, at=op.at)
    new = replace(new, uid=tx.survivor(new.uid))
    if new.superseded_by and _state(tx, new.superseded_by):
        new = replace(new, superseded_by=None)
    if buried := _buried(tx, op, new.uid, new.clock):
        return buried
    row = tx.live(new.uid)
    if row is not None and row.value.clock == new.clock:
        return Outcome(op_id=op.op_id, uid=new.uid, status="exists")
    if is_kept_out(tx, op, new.target, content_hash(new.content), clock=new.clock, explicit=True):
        return _refused(tx, op, new.uid)
    if row is not None:
        return _version(tx, op, row, new)
    twin = _twin(tx, new)
    if twin is None:
        insert(tx, new)
        return Outcome(op_id=op.op_id, uid=new.uid, status="added", uids=(new.uid,))
    other_row, other = twin
    later, earlier = (new, other) if new.clock > other.clock else (other, new)
    _keep_loser(tx, op, earlier, later)
    survivor = min(new.uid, other.uid)
    save(tx, other_row, _joined(later, earlier, survivor))
    link(tx, max(new.uid, other.uid), survivor, op, later.clock)
    return Outcome(op_id=op.op_id, uid=survivor, status="exists", uids=(survivor,), notes=("merged",))


def _version(tx: Transaction, op: MergeRecord, row: Live, new: Entry) -> Outcome:
    """Take in another version of a live entry."""
    old = row.value
    if not isinstance(old, Entry):
        raise Rejected(f"{new.uid} is a turn here and an entry there")
    if (new.theme, new.subject, new.target) != (old.theme, old.subject, old.target):
        raise Rejected(f"{new.uid} belongs to another theme or target here")
    if new.clock < old.clock:
        _keep_loser(tx, op, new, old)
        return Outcome(op_id=op.op_id, uid=old.uid, status="unchanged", notes=_LATER)
    _keep_loser(tx, op, old, new)
    twin = _twin(tx, new)
    if twin is None:
        save(tx, row, new)
        return Outcome(op_id=op.op_id, uid=old.uid, status="updated", uids=(old.uid,))
    other_row, other = twin
    later, earlier = (new, other) if new.clock > other.clock else (other, new)
    _keep_loser(tx, op, earlier, later)
    tx.remove_live(other_row)
    survivor = min(old.uid, other.uid)
    save(tx, row, _joined(later, earlier, survivor))
    link(tx, max(old.uid, other.uid), survivor, op, later.clock)
    return Outcome(op_id=op.op_id, uid=survivor, status="updated", uids=(survivor,), notes=("merged",))


def _turn(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    new = turn_of(record, at=op.at)
    new = replace(new, uid=tx.survivor(new.uid))
    if buried := _buried(tx, op, new.uid, new.clock):
        return buried
    row = tx.live(new.uid)
    if row is not None:
        if not isinstance(row.value, Turn):
            raise Rejected(f"{new.uid} is an entry here and a turn there")
        if (new.theme, new.subject) != (row.value.theme, row.value.subject):
            raise Rejected(f"{new.uid} belongs to another theme here")
        if new.clock <= row.value.clock:
            return Outcome(op_id=op.op_id, uid=new.uid, status="exists")
        tx.remove_live(row)
        restore_turn(tx, new)
        return Outcome(op_id=op.op_id, uid=new.uid, status="updated", uids=(new.uid,))
    scope = tx.scope(new.theme, new.subject)
    session = tx.session(scope, new.session_id)
    digest = content_hash(new.content)
    if tx.has_gone(scope, "forgotten"):
        where = Session(scope, session, new.theme, new.subject, new.session_id)
        macs = capture_macs(tx, where, new.role, digest)
        if any(tx.db.execute(tx.sql["forgotten_occurrence"], (mac, new.occurrence)).fetchone() for mac in macs):
            return _refused(tx, op, new.uid)
    twin = tx.db.execute(tx.sql["turn_by_capture"], (session, new.role, bytes.fromhex(digest), new.occurrence)).fetchone()
    if twin is None:
        restore_turn(tx, new)
        return Outcome(op_id=op.op_id, uid=new.uid, status="added", uids=(new.uid,))
    found = tx.live(twin[0])
    assert found is not None
    other = found.value
    assert isinstance(other, Turn)
    survivor = min(new.uid, other.uid)
    if new.clock > other.clock:
        tx.remove_live(found)
        restore_turn(tx, replace(new, uid=survivor))
    elif survivor != other.uid:
        tx.db.execute(tx.sql["replace_turn_uid"], (survivor, tx.next_seq(), found.id))
    link(tx, max(new.uid, other.uid), survivor, op, max(new.clock, other.clock))
    return Outcome(op_id=op.op_id, uid=survivor, status="exists", uids=(survivor,), notes=("merged",))


def _alias(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    fields = Fields(record)
    uid, clock = fields.name("uid"), fields.stamp("clock")
    survivor = tx.survivor(fields.name("survivor"))
    known = tx.db.execute(tx.sql["alias_with_clock"], (uid,)).fetchone()
    if uid == survivor or (known and (known[0] == survivor or known[1] >= clock)):
        return Outcome(op_id=op.op_id, uid=survivor, status="exists")
    row = tx.live(uid)
    if row is not None and row.value.uid == uid:
        if row.value.clock > clock:
            return Outcome(op_id=op.op_id, uid=uid, status="unchanged", notes=_LATER)
        if _state(tx, survivor) == "forgotten":
            erase(tx, op, uid, clock)
        else:
            tx.record("merged", row.value, clock=clock, at=op.at)
            tx.remove_live(row)
    elif _state(tx, uid) == "forgotten" and _state(tx, survivor) != "forgotten":
        # The two were one where they were merged, so the forgetting of one is that of the other.
        _forgotten(tx, op, {**record, "uid": survivor, "kind": "entry", "state": "forgotten", "at": op.at}, survivor)
    link(tx, uid, survivor, op, clock)
    return Outcome(op_id=op.op_id, uid=survivor, status="added", uids=(uid,))


def _history(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    fields = Fields(record)
    uid, action, at, clock = fields.name("uid"), fields.name("action"), fields.time("at"), fields.stamp("clock")
    before = {"theme": op.theme, "subject": op.subject, **fields.object("before"), "uid": uid}
    value = turn_of(before, at=at) if "role" in before else entry_of(before, at=at)
    if (value.theme, value.subject) != (op.theme, op.subject):
        raise Rejected(f"the version before belongs to theme {value.theme}, not {op.theme}")
    if _state(tx, uid) == "forgotten":
        return _refused(tx, op, uid)
    if isinstance(value, Entry) and is_kept_out(tx, op, value.target, content_hash(value.content), clock=clock, explicit=True):
        return _refused(tx, op, uid)
    added = tx.record(action, value, clock=clock, at=at).rowcount > 0
    return Outcome(op_id=op.op_id, uid=uid, status="added" if added else "exists")


def _tombstone(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    fields = Fields(record)
    uid, clock, at = fields.name("uid"), fields.stamp("clock"), fields.time("at")
    state = fields.choice("state", ("retired", "forgotten"))
    kept_out = fields.keeps_out()
    outcome = _retired(tx, op, record, uid) if state == "retired" else _forgotten(tx, replace(op, at=at), record, uid)
    scope = tx.scope(op.theme, op.subject)
    for mac, since, occurrence in kept_out:
        tx.db.execute(tx.sql["insert_forgotten"], (mac, uid, scope, since, occurrence))
    if outcome.uids:
        release_superseded(tx, uid, clock=clock, at=at)
    return outcome


def _retired(tx: Transaction, op: MergeRecord, record: Mapping[str, Any], uid: str) -> Outcome:
    clock = str(record["clock"])
    grave = tx.db.execute(tx.sql["tombstone"], (uid,)).fetchone()
    if grave is not None and (grave[4] == "forgotten" or grave[7] >= clock):
        return Outcome(op_id=op.op_id, uid=uid, status="exists")
    row = tx.live(uid)
    if row is not None and (row.value.uid != uid or row.value.clock >= clock):
        return Outcome(op_id=op.op_id, uid=uid, status="unchanged", notes=_LATER)
    if row is not None:
        retire_row(tx, row, clock=clock, at=str(record["at"]))
    else:
        _save(tx, op, record, uid)
    return Outcome(op_id=op.op_id, uid=uid, status="retired", uids=(uid,))


def _forgotten(tx: Transaction, op: MergeRecord, record: Mapping[str, Any], uid: str) -> Outcome:
    if _state(tx, uid) == "forgotten":
        return Outcome(op_id=op.op_id, uid=uid, status="exists")
    real = tx.survivor(uid)
    if tx.live(real) is not None or _state(tx, real) == "retired":
        erase(tx, op, real, str(record["clock"]))
    if not _state(tx, uid):
        _save(tx, op, record, uid)
    tx.db.execute(tx.sql["delete_history"], (uid,))
    return Outcome(op_id=op.op_id, uid=uid, status="forgotten", uids=(uid,))


def _save(tx: Transaction, op: MergeRecord, record: Mapping[str, Any], uid: str) -> None:
    """Save a tombstone as the record tells it."""
    fields = Fields(record)
    scope = tx.scope(op.theme, op.subject)
    capture: tuple[object, ...] = (None, None, None, None)
    if fields.has("session_id"):
        capture = (
            tx.session(scope, fields.text("session_id")), fields.choice("role", ROLES), fields.digest("content_hash"),
            fields.integer("occurrence", least=1),
        )  # fmt: skip
    kind, state = fields.choice("kind", ("entry", "turn")), fields.choice("state", ("retired", "forgotten"))
    visibility, at, clock = fields.choice("visibility", VISIBILITIES, "synced"), fields.time("at"), fields.stamp("clock")
    tx.db.execute(tx.sql["save_tombstone"], (uid, scope, kind, state, visibility, at, clock, tx.next_seq(), *capture))


_HANDLERS = {"entry": _entry, "turn": _turn, "alias": _alias, "history": _history, "tombstone": _tombstone}
