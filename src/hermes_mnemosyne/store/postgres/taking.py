"""Taking over rows from under the old names, inside a write transaction and by its rules: each once, under the id it had."""

from __future__ import annotations

from typing import Any

from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.store.operations import AddEntry, CaptureTurns, MergeRecord, Operation, Outcome, TurnText
from hermes_mnemosyne.store.postgres.old_rows import ENTRIES, ORIGIN, OldRow
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.writing import entries, merging, turns
from hermes_mnemosyne.store.writing.transaction import Transaction
from hermes_mnemosyne.text import content_hash

# Old turns stand before all that this store has captured itself, in the order of their ids.
_BEFORE = 1 << 40


def take(tx: Transaction, row: OldRow) -> str:
    """Take over a row that stands in an old table, and return `added`, `exists`, `refused` (forgotten here) or `blank`."""
    if not row.content.strip():
        map_row(tx, row.relation, row.id, "")
        return "blank"
    outcome = _entry(tx, row) if row.relation == ENTRIES else _turn(tx, row)
    return _settle(tx, row, outcome)


def capture(tx: Transaction, row: OldRow) -> str:
    """Take over a turn that has just been said: it stands at the end of its session."""
    if not row.content.strip():
        map_row(tx, row.relation, row.id, "")
        return "blank"
    if not row.said and _was_forgotten(tx, row):
        tx.tally.refused += 1
        return _settle(tx, row, Outcome(op_id="", status="refused"))
    text = TurnText(uid=uuid7(), role=row.part, content=row.content, metadata=row.metadata)  # type: ignore[arg-type]
    op = CaptureTurns(
        **head(row), session_id=row.session_id, parent_session_id=row.parent_session_id, turns=(text,), visibility=row.visibility,
        brief=True,
    )  # fmt: skip
    return _settle(tx, row, turns.capture(tx, op))


def head(row: OldRow, *, at: str | None = None) -> dict[str, Any]:
    """Return the common fields of an operation that takes over a row."""
    return {
        "op_id": f"{row.relation}:{row.id}", "clock": row.clock, "at": at or row.created_at, "theme": row.theme,
        "subject": row.subject or "", "spooled": True,
    }  # fmt: skip


def map_row(tx: Transaction, relation: str, number: int, uid: str) -> None:
    """Note which row of ours an old id stands for."""
    tx.db.execute(statements("old_names")["map_row"], (relation, number, uid))


def _settle(tx: Transaction, row: OldRow, outcome: Outcome) -> str:
    if outcome.status == "refused":
        tx.db.execute(statements("old_names")["drop_old_row"], (row.relation, row.id))
        return "refused"
    map_row(tx, row.relation, row.id, outcome.uid)
    return "added" if outcome.status == "added" else "exists"


def _entry(tx: Transaction, row: OldRow) -> Outcome:
    digest = content_hash(row.content)
    op = Operation(**head(row))
    scope = tx.scope(row.theme, row.subject or "")
    twin = tx.db.execute(tx.sql["entry_by_hash"], (scope, row.part, bytes.fromhex(digest))).fetchone()
    if twin is None and entries.is_kept_out(tx, op, row.part, digest, clock=row.clock, explicit=row.said):
        tx.tally.refused += 1
        return Outcome(op_id=op.op_id, status="refused")
    if twin is not None:
        return entries.add(
            tx,
            AddEntry(
                **head(row), uid=twin[0], content=row.content, target=row.part, origin=ORIGIN, explicit=False,  # type: ignore[arg-type]
            ),
        )  # fmt: skip
    record = {
        **_common(row), "type": "entry", "target": row.part, "origins": [[ORIGIN.kind, ORIGIN.place]], "updated_at": row.updated_at,
    }  # fmt: skip
    return merging.merge(tx, MergeRecord(**head(row), record=record))


def _turn(tx: Transaction, row: OldRow) -> Outcome:
    """Take a turn over; where this store has captured the same one itself, the two are one."""
    scope = tx.scope(row.theme, row.subject or "")
    session = tx.session(scope, row.session_id)
    digest = bytes.fromhex(content_hash(row.content))
    known = tx.db.execute(statements("old_names")["copies_of_turn"], (scope, session, row.part, digest)).fetchone()[0]
    record = {
        **_common(row), "type": "turn", "role": row.part, "position": row.id - _BEFORE, "occurrence": known + 1,
        "parent_session_id": row.parent_session_id,
    }  # fmt: skip
    return merging.merge(tx, MergeRecord(**head(row), record=record))


def _common(row: OldRow) -> dict[str, Any]:
    return {
        "uid": uuid7(), "theme": row.theme, "subject": row.subject or "", "content": row.content, "clock": row.clock,
        "visibility": row.visibility, "session_id": row.session_id, "metadata": dict(row.metadata), "created_at": row.created_at,
    }  # fmt: skip


def _was_forgotten(tx: Transaction, row: OldRow) -> bool:
    """Tell whether a turn that a transcript brings once more has been forgotten here."""
    scope = tx.scope(row.theme, row.subject or "")
    if not tx.has_gone(scope, "forgotten"):
        return False
    where = turns.Session(scope, tx.session(scope, row.session_id), row.theme, row.subject or "", row.session_id)
    mac = turns.capture_mac(tx.key, where, row.part, content_hash(row.content))
    return mac is not None and tx.db.execute(tx.sql["forgotten_occurrences"], (mac,)).fetchone()[0] > 0


def record_of(row: OldRow, uid: str, *, position: int, occurrence: int) -> dict[str, Any]:
    """Return a later state of a turn as a record."""
    return {
        **_common(row), "type": "turn", "uid": uid, "role": row.part, "position": position, "occurrence": occurrence,
        "parent_session_id": row.parent_session_id,
    }  # fmt: skip
