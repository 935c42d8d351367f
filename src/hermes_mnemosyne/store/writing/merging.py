"""Join the state of a row as another store holds it with the one here: an import, or another replica.

States form a join-semilattice, so that stores which have taken in the same records, in whatever order and how often, hold the same
rows. Uids that were found to be one entry are a class, named by the smallest of them; the others lead there for ever. The state of
a class is its version with the greatest clock. Of one clock sets are united. To be retired is a version; to be forgotten is the
greatest state. Versions that lose are kept in history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.store.operations import MergeRecord, Outcome
from hermes_mnemosyne.store.records import TYPES, Fields, entry_of, turn_of
from hermes_mnemosyne.store.writing.departed import (
    LATER,
    LOCAL,
    forgotten,
    history,
    keep_out,
    keep_version,
    refused,
    state_of,
    tombstone,
)
from hermes_mnemosyne.store.writing.entries import insert, is_kept_out, link, retire_row, save
from hermes_mnemosyne.store.writing.graves import Session, capture_macs, names_of
from hermes_mnemosyne.store.writing.rows import Grave, dumps, scope_of, snapshot
from hermes_mnemosyne.store.writing.transaction import Live, Rejected, Transaction
from hermes_mnemosyne.store.writing.turns import restore_turn
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Entry, Turn

# What is united where clocks are equal, and what a store gives a row itself.
_UNITED = ("uid", "tags", "origins", "pinned", "created_at", "superseded_by", "visibility")


def merge(tx: Transaction, op: MergeRecord) -> Outcome:
    """Join one record."""
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
        grave = None if row else tx.grave(name)
        if row is not None:
            place = scope_of(row.id), row.value.theme, row.value.subject
        elif grave is not None:
            place = grave.scope, grave.theme, grave.subject
        else:
            continue
        if (op.theme, op.subject) != place[1:] and (op.theme, op.subject) not in names_of(tx, *place):
            raise Rejected(f"{uid} belongs to another theme or subject here")


def _grave(tx: Transaction, uid: str) -> Grave | None:
    return tx.grave(uid)


def _older(tx: Transaction, op: MergeRecord, loser: Entry | Turn, winner: Entry | Turn | None) -> Outcome:
    """Keep a version that comes too late, and say so."""
    _keep_loser(tx, op, loser, winner)
    return Outcome(op_id=op.op_id, uid=loser.uid, status="unchanged", notes=LATER)


def _keep_loser(tx: Transaction, op: MergeRecord, loser: Entry | Turn, winner: Entry | Turn | None) -> None:
    """Keep the version that lost in history, where it differs in what a person wrote and is not there already."""
    blank: dict[str, Any] = {"uid": "", "clock": "", "created_at": "", "seq": 0}
    if isinstance(loser, Entry):
        blank |= {"updated_at": "", "origins": ()}
    if winner is not None and replace(loser, **blank) == replace(winner, **blank):
        return
    keep_version(tx, loser, at=op.at)


# -- versions --------------------------------------------------------------------------------------------------------------------


def _rank(value: Entry | Turn) -> tuple[str, str, str]:
    """Return what decides between two versions: the clock; where two stores gave out the same one, the texts themselves."""
    rest = {name: part for name, part in snapshot(value).items() if name not in _UNITED}
    return value.clock, content_hash(value.content), dumps(rest)


def _joined(one: Entry, other: Entry, uid: str) -> Entry:
    """Return the join of two versions of a class."""
    later, earlier = (one, other) if _rank(one) >= _rank(other) else (other, one)
    if one.clock == other.clock:
        return replace(_united(later, earlier, uid), superseded_by=one.superseded_by and other.superseded_by)
    return replace(later, uid=uid)


def _united(later: Entry, earlier: Entry, uid: str) -> Entry:
    """Return one entry for two of the same text."""
    by = later.superseded_by
    return replace(
        later,
        uid=uid,
        tags=tuple(sorted({*later.tags, *earlier.tags})),
        origins=tuple(sorted({*later.origins, *earlier.origins})),
        pinned=later.pinned or earlier.pinned,
        created_at=min(later.created_at, earlier.created_at),
        superseded_by=None if by in (later.uid, earlier.uid) else by,
    )


def _twin(tx: Transaction, entry: Entry) -> tuple[Live, Entry] | None:
    """Return another live entry that holds the same text."""
    scope = tx.scope(entry.theme, entry.subject)
    found = tx.db.execute(tx.sql["entry_by_hash"], (scope, entry.target, bytes.fromhex(content_hash(entry.content)))).fetchone()
    return tx.live_entry(found[0]) if found and found[0] != entry.uid else None


# -- entries ---------------------------------------------------------------------------------------------------------------------


def _entry(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    new = entry_of(record, at=op.at)
    new = replace(new, uid=tx.survivor(new.uid))
    if new.superseded_by and (new.superseded_by == new.uid or state_of(tx, new.superseded_by)):
        new = replace(new, superseded_by=None)
    grave = tx.grave(new.uid)
    if barred := _barred(tx, op, new.uid, grave):
        return barred
    row = tx.live(new.uid)
    if row is not None and (known := _known(op, row, new)):
        return known
    if is_kept_out(tx, op, new.target, content_hash(new.content), clock=new.clock, explicit=True):
        return keep_out(tx, op, record, new.uid)
    if grave is not None and grave.clock >= new.clock:
        return _older(tx, op, new, None)
    if grave is not None:
        tx.delete_tombstone(new.uid)
    return _settle(tx, op, None, new) if row is None else _version(tx, op, row, new)


def _barred(tx: Transaction, op: MergeRecord, uid: str, grave: Grave | None) -> Outcome | None:
    """Return the answer to a record of what is gone for good, or only for others."""
    if grave is not None and grave.state == "forgotten":
        return refused(tx, op, uid)
    if tx.is_withdrawn(uid):
        return Outcome(op_id=op.op_id, uid=uid, status="unchanged", notes=LOCAL)
    return None


def _known(op: MergeRecord, row: Live, new: Entry) -> Outcome | None:
    """Return the answer where a version is here already or is of no concern here."""
    old = row.value
    if not isinstance(old, Entry):
        raise Rejected(f"{new.uid} is a turn here and an entry there")
    if (new.theme, new.subject, new.target) != (old.theme, old.subject, old.target):
        raise Rejected(f"{new.uid} belongs to another theme or target here")
    if replace(old, seq=0) == new:
        return Outcome(op_id=op.op_id, uid=new.uid, status="exists")
    return None


def _version(tx: Transaction, op: MergeRecord, row: Live, new: Entry) -> Outcome:
    """Join another version of a live entry."""
    old = row.value
    assert isinstance(old, Entry)
    result = _joined(new, old, old.uid)
    is_same = _rank(new) == _rank(old)
    if replace(result, seq=old.seq) == old:
        return Outcome(op_id=op.op_id, uid=old.uid, status="exists") if is_same else _older(tx, op, new, old)
    if not is_same:
        _keep_loser(tx, op, min(new, old, key=_rank), result)
    return _settle(tx, op, row, result)


def _settle(tx: Transaction, op: MergeRecord, row: Live | None, entry: Entry) -> Outcome:
    """Write the state of a class, and make it one with another class that holds the same text."""
    status = "added" if row is None else "updated"
    twin = _twin(tx, entry)
    if twin is None:
        if row is None:
            insert(tx, entry)
        else:
            save(tx, row, entry)
        tx.tally.mixed |= snapshot(entry) != _sent(op)
        return Outcome(op_id=op.op_id, uid=entry.uid, status=status, uids=(entry.uid,))
    other_row, other = twin
    if other.visibility != entry.visibility:
        return _beside_local(tx, op, row, entry, other_row)
    later, earlier = (entry, other) if _rank(entry) >= _rank(other) else (other, entry)
    _keep_loser(tx, op, earlier, later)
    survivor, alias = sorted((entry.uid, other.uid))
    united = _united(later, earlier, survivor)
    if row is None:
        save(tx, other_row, united)
    else:
        tx.remove_live(other_row)
        save(tx, row, united)
    link(tx, alias, survivor, op, later.clock)
    tx.tally.mixed = True
    return Outcome(op_id=op.op_id, uid=survivor, status="exists" if row is None else status, uids=(survivor,), notes=("merged",))


def _beside_local(tx: Transaction, op: MergeRecord, row: Live | None, entry: Entry, twin: Live) -> Outcome:
    """Keep of a local and a shared entry with the same text the shared one; nothing of the local one may travel with it."""
    other = twin.value
    local = twin if other.visibility == "local" else row
    if local is not None:
        retire_row(tx, local, clock=max(entry.clock, local.value.clock), at=op.at)
    if entry.visibility == "local":
        return Outcome(op_id=op.op_id, uid=other.uid, status="exists")
    return _settle(tx, op, row, entry)


def _sent(op: MergeRecord) -> dict[str, Any]:
    """Return the fields of a record as a snapshot has them."""
    return {name: part for name, part in op.record.items() if name not in {"type", "vector"}}


# -- turns -----------------------------------------------------------------------------------------------------------------------


def _turn(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    new = turn_of(record, at=op.at)
    new = replace(new, uid=tx.survivor(new.uid))
    grave = tx.grave(new.uid)
    if barred := _barred(tx, op, new.uid, grave):
        return barred
    row = tx.live(new.uid)
    if row is not None and not isinstance(row.value, Turn):
        raise Rejected(f"{new.uid} is an entry here and a turn there")
    if row is not None and (new.theme, new.subject) != (row.value.theme, row.value.subject):
        raise Rejected(f"{new.uid} belongs to another theme here")
    if row is not None and _rank(new) <= _rank(row.value):
        return Outcome(op_id=op.op_id, uid=new.uid, status="exists")
    if grave is not None and grave.clock >= new.clock:
        return _older(tx, op, new, None)
    scope = tx.scope(new.theme, new.subject)
    session = tx.session(scope, new.session_id)
    digest = content_hash(new.content)
    if tx.has_gone(scope, "forgotten"):
        where = Session(scope, session, new.theme, new.subject, new.session_id)
        macs = capture_macs(tx, where, new.role, digest)
        if any(tx.db.execute(tx.sql["forgotten_occurrence"], (mac, new.occurrence)).fetchone() for mac in macs):
            return keep_out(tx, op, record, new.uid)
    if grave is not None:
        tx.delete_tombstone(new.uid)
    if row is not None:
        tx.remove_live(row)
    twin = tx.db.execute(tx.sql["turn_by_capture"], (session, new.role, bytes.fromhex(digest), new.occurrence)).fetchone()
    found = tx.live(twin[0]) if twin else None
    if found is None:
        restore_turn(tx, new)
        tx.tally.mixed |= snapshot(new) != _sent(op)
        return Outcome(op_id=op.op_id, uid=new.uid, status="updated" if row else "added", uids=(new.uid,))
    survivor, alias = sorted((new.uid, found.value.uid))
    later = max((new, found.value), key=_rank)
    assert isinstance(later, Turn)
    tx.remove_live(found)
    restore_turn(tx, replace(later, uid=survivor))
    link(tx, alias, survivor, op, later.clock)
    tx.tally.mixed = True
    return Outcome(op_id=op.op_id, uid=survivor, status="exists", uids=(survivor,), notes=("merged",))


# -- classes ---------------------------------------------------------------------------------------------------------------------


def _alias(tx: Transaction, op: MergeRecord, record: Mapping[str, Any]) -> Outcome:
    fields = Fields(record)
    one, other = tx.survivor(fields.name("uid")), tx.survivor(fields.name("survivor"))
    if one == other:
        return Outcome(op_id=op.op_id, uid=one, status="exists")
    survivor, alias = sorted((one, other))
    _check_kinds(tx, one, other)
    if any(_is_local(tx, uid) for uid in (one, other)):
        # To others what has become local here is forgotten, and so is what they found to be one with it.
        for uid in (one, other):
            if not _is_local(tx, uid):
                forgotten(tx, op, {**record, "uid": uid, "kind": "entry", "state": "forgotten", "at": op.at}, uid)
        return Outcome(op_id=op.op_id, uid=survivor, status="unchanged", notes=LOCAL)
    if "forgotten" in (state_of(tx, one), state_of(tx, other)):
        # The two were one where they were merged, so the forgetting of one is that of the other.
        for uid in (one, other):
            forgotten(tx, op, {**record, "uid": uid, "kind": "entry", "state": "forgotten", "at": op.at}, uid)
    else:
        _unite(tx, op, alias, survivor)
    link(tx, alias, survivor, op, fields.stamp("clock"))
    tx.tally.mixed |= (alias, survivor) != (record["uid"], record["survivor"])
    return Outcome(op_id=op.op_id, uid=survivor, status="added", uids=(alias,))


def _is_local(tx: Transaction, uid: str) -> bool:
    row, grave = tx.live(uid), tx.grave(uid)
    visibility = row.value.visibility if row else grave.visibility if grave else ""
    return visibility == "local" or tx.is_withdrawn(uid)


def _check_kinds(tx: Transaction, one: str, other: str) -> None:
    rows = [row.value for row in map(tx.live, (one, other)) if row is not None]
    shelves = {(row.kind, row.target if isinstance(row, Entry) else "") for row in rows}
    if len(shelves) > 1:
        raise Rejected(f"{one} and {other} are of two kinds here")


def _unite(tx: Transaction, op: MergeRecord, alias: str, survivor: str) -> None:
    """Make the states of two classes one, under the uid `survivor`."""
    rows = [row for row in (tx.live(alias), tx.live(survivor)) if row is not None]
    graves = [grave for grave in (tx.grave(alias), tx.grave(survivor)) if grave is not None]
    best = max(rows, key=lambda row: _rank(row.value), default=None)
    retired = max(graves, key=lambda grave: grave.clock, default=None)
    for row in rows:
        if row is not best:
            assert best is not None
            tx.record("merged", row.value, clock=best.value.clock, at=op.at)
            tx.remove_live(row)
    for grave in graves:
        tx.delete_tombstone(grave.uid)
    if best is not None:
        value = replace(best.value, uid=survivor)
        others = [row.value for row in rows if row is not best and row.value.content == value.content]
        if isinstance(value, Entry):
            for other in others:
                assert isinstance(other, Entry)
                value = _united(value, other, survivor)
            save(tx, best, value)
        elif value.uid != best.value.uid:
            tx.db.execute(tx.sql["replace_turn_uid"], (survivor, tx.next_seq(), best.id))
        tx.tally.mixed = True
        now = tx.live(survivor)
        if retired is not None and now is not None and retired.clock >= value.clock:
            retire_row(tx, now, clock=retired.clock, at=retired.at)
    elif retired is not None:
        tx.save_tombstone(retired._replace(uid=survivor))


_HANDLERS = {"entry": _entry, "turn": _turn, "alias": _alias, "history": history, "tombstone": tombstone}
