"""What a store keeps of other replicas, its own id, and clocks that were corrected."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hermes_mnemosyne.store.operations import KeepState, NewReplica, Outcome, Received, Restamp
from hermes_mnemosyne.store.records import Fields
from hermes_mnemosyne.store.writing.entries import save
from hermes_mnemosyne.store.writing.rows import dumps
from hermes_mnemosyne.store.writing.transaction import Transaction
from hermes_mnemosyne.store.writing.turns import restore_turn
from hermes_mnemosyne.values import Entry

PREFIX = "sync:"
"""Begins the keys under which the state of sync is kept among the values of a store."""

# Intervals of change numbers that need not go back; of more the oldest are sent again, which does no harm.
_MOST_SKIPPED = 64


def keep(tx: Transaction, op: KeepState) -> Outcome:
    """Keep a JSON object, or drop it."""
    if op.value is None:
        tx.db.execute(tx.sql["drop_kept"], (PREFIX + op.key,))
    else:
        _save(tx, op.key, op.value)
    return Outcome(op_id=op.op_id, status="updated")


def _save(tx: Transaction, key: str, value: Mapping[str, Any]) -> None:
    tx.db.execute(tx.sql["save_meta"], (PREFIX + key, dumps(dict(value))))


def received(tx: Transaction, op: Received) -> Outcome:
    """Note how far the rows of another replica were taken in."""
    found = tx.db.execute(tx.sql["kept"], (PREFIX + op.key,)).fetchone()
    state = {**(json.loads(found[0]) if found else {}), **op.state}
    first, last = tx.first_seq, tx.tally.seq
    if first <= last and not tx.tally.mixed:
        state["skip"] = _appended(state.get("skip", []), first, last)
    _save(tx, op.key, state)
    counts = {"first": first, "last": last, "mixed": int(tx.tally.mixed)}
    return Outcome(op_id=op.op_id, status="updated", counts=counts)


def _appended(intervals: list[list[int]], first: int, last: int) -> list[list[int]]:
    if intervals and intervals[-1][1] + 1 == first:
        return [*intervals[:-1], [intervals[-1][0], last]]
    return [*intervals, [first, last]][-_MOST_SKIPPED:]


def restamp(tx: Transaction, op: Restamp) -> Outcome:
    """Give a version the clock that the first accepting server gave it, where it still stands as it was sent."""
    clock, uid = Fields(op.record).stamp("clock"), tx.survivor(op.uid)
    row, grave = tx.live(uid), tx.grave(uid)
    if row is not None and row.value.clock == op.old_clock:
        if isinstance(row.value, Entry):
            save(tx, row, replace(row.value, clock=clock))
        else:
            tx.remove_live(row)
            restore_turn(tx, replace(row.value, clock=clock))
    elif grave is not None and grave.clock == op.old_clock:
        tx.save_tombstone(grave._replace(clock=clock))
    else:
        return Outcome(op_id=op.op_id, uid=uid, status="unchanged")
    tx.wind_back()
    return Outcome(op_id=op.op_id, uid=uid, status="updated", uids=(uid,))


def rename(tx: Transaction, op: NewReplica) -> Outcome:
    """Take a new replica id."""
    name = secrets.token_hex(8)
    tx.db.execute(tx.sql["drop_kept_like"], (PREFIX,))
    tx.db.execute(tx.sql["save_meta"], ("replica", name))
    tx.clock.adopt(name)
    return Outcome(op_id=op.op_id, uid=name, status="updated")
