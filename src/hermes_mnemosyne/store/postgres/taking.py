"""Taking over rows from under the old names, inside a write transaction and by its rules: each once, under the id it had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.store.operations import AddEntry, CaptureTurns, MergeRecord, Operation, Outcome, TurnText
from hermes_mnemosyne.store.postgres.old_rows import ENTRIES, ORIGIN, OldRow
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.records import entry_of, turn_of
from hermes_mnemosyne.store.writing import entries, merging, turns
from hermes_mnemosyne.store.writing.applying import Prepared
from hermes_mnemosyne.store.writing.database import OWN_CONTEXT_TOKENS, lend
from hermes_mnemosyne.store.writing.graves import Session, capture_macs
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


def take_many(tx: Transaction, rows: Sequence[OldRow]) -> Counter[str]:
    """Take over rows that stand in an old table, with few statements for the plain ones."""
    done: Counter[str] = Counter()
    mapped: list[tuple[str, int, str]] = []
    plain: list[OldRow] = []
    scopes = {tx.scope(row.theme, row.subject or "") for row in rows}
    forgetful = {scope for scope in scopes if tx.has_gone(scope, "forgotten")}
    for row in rows:
        if not row.content.strip():
            mapped.append((row.relation, row.id, ""))
            done["blank"] += 1
        elif tx.scope(row.theme, row.subject or "") in forgetful:
            done[take(tx, row)] += 1
        else:
            plain.append(row)
    mapped += _insert_entries(tx, [row for row in plain if row.relation == ENTRIES], done)
    mapped += _insert_turns(tx, [row for row in plain if row.relation != ENTRIES], done)
    if mapped:
        tx.db.execute(statements("old_names")["map_rows"], _columns(mapped))
    return done


def _insert_entries(tx: Transaction, rows: Sequence[OldRow], done: Counter[str]) -> list[tuple[str, int, str]]:
    """Insert entries and return what to map; one whose text is here already is joined to that."""
    if not rows:
        return []
    keys = [(tx.scope(row.theme, row.subject or ""), row.part, bytes.fromhex(content_hash(row.content))) for row in rows]
    known = {
        (scope, target, bytes(digest))
        for scope, target, digest in tx.db.execute(statements("old_names")["known_texts"], _columns(keys))
    }
    mapped = []
    for row, key in zip(rows, keys, strict=True):
        if key in known:
            done[take(tx, row)] += 1
            continue
        known.add(key)
        entry = entry_of(
            {**_common(row), "target": row.part, "origins": [[ORIGIN.kind, ORIGIN.place]], "updated_at": row.updated_at},
            at=row.created_at,
        )
        entries.insert(tx, entry)
        tx.tally.clock = max(tx.tally.clock, row.clock)
        mapped.append((row.relation, row.id, entry.uid))
        done["added"] += 1
    return mapped


def _insert_turns(tx: Transaction, rows: Sequence[OldRow], done: Counter[str]) -> list[tuple[str, int, str]]:
    """Insert turns and return what to map; those of a session in which this store has captured turns itself are merged one by one."""
    if not rows:
        return []
    sessions: dict[int, list[OldRow]] = {}
    for row in rows:
        sessions.setdefault(tx.session(tx.scope(row.theme, row.subject or ""), row.session_id), []).append(row)
    last = {
        number: (place, position)
        for number, place, position in tx.db.execute(statements("old_names")["last_turns"], (list(sessions),))
    }
    wanted = [
        (tx.scope(row.theme, row.subject or ""), number, row.part, bytes.fromhex(content_hash(row.content)))
        for number, group in sessions.items()
        for row in group
    ]
    found = tx.db.execute(statements("old_names")["known_turns"], _columns(wanted))
    count = {(session, role, bytes(digest)): known for session, role, digest, known in found}
    mapped = []
    for number, group in sessions.items():
        place, position = last.get(number, (None, -1))
        if position >= 0:
            for row in group:
                done[take(tx, row)] += 1
            continue
        mapped += _insert_session(tx, number, group, place, count)
        done["added"] += len(group)
    return mapped


def _insert_session(
    tx: Transaction, session: int, rows: Sequence[OldRow], last: int | None, count: dict[tuple[int, str, bytes], int]
) -> list[tuple[str, int, str]]:
    """Insert turns of one session behind those that were copied before, of each text as many as `count` tells."""
    digests = [bytes.fromhex(content_hash(row.content)) for row in rows]
    bodies = [tx.analyser.turn_tokens(row.content, "", None) for row in rows]
    before = tx.lengthen_context(last, lend(bodies[0]), later=True) if last is not None else ""
    mapped = []
    for index, (row, digest, body) in enumerate(zip(rows, digests, bodies, strict=True)):
        known = count[session, row.part, digest] = count.get((session, row.part, digest), 0) + 1
        beside = [before, *(lend(other) for other in bodies[index + 1 : index + 2])]
        context = "" if body.count(" ") >= OWN_CONTEXT_TOKENS else " ".join(filter(None, beside))
        turn = turn_of(record_of(row, uuid7(), position=row.id - _BEFORE, occurrence=known), at=row.created_at)
        tx.insert_turn(turn, session, (digest, body, context))
        tx.tally.clock = max(tx.tally.clock, row.clock)
        before = lend(body)
        mapped.append((row.relation, row.id, turn.uid))
    return mapped


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


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


def prepare(prepared: Prepared, row: OldRow) -> None:
    """Compute the tokens of an old row, before the write lock is taken."""
    if row.relation == ENTRIES:
        prepared.entry_tokens(row.content, ())
    else:
        prepared.turn_tokens(row.content, "", None)


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
    where = Session(scope, tx.session(scope, row.session_id), row.theme, row.subject or "", row.session_id)
    macs = capture_macs(tx, where, row.part, content_hash(row.content))
    return any(tx.db.execute(tx.sql["forgotten_occurrences"], (mac,)).fetchone()[0] for mac in macs)


def record_of(row: OldRow, uid: str, *, position: int, occurrence: int) -> dict[str, Any]:
    """Return a later state of a turn as a record."""
    return {
        **_common(row), "type": "turn", "uid": uid, "role": row.part, "position": position, "occurrence": occurrence,
        "parent_session_id": row.parent_session_id,
    }  # fmt: skip
