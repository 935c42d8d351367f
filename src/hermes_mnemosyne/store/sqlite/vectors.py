"""What a file keeps of vectors: models, vectors of rows, and why rows have none."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from hermes_mnemosyne._errors import InvalidInput, NotFound
from hermes_mnemosyne.store.protocol import PendingText, VectorFailure, VectorModel
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.vectors import UNKNOWN, model_values, number_of, texts_of

# All rows were looked at: later ones are noted when they are written.
_ALL_SWEPT = 2**63 - 1

Packed = tuple[int, bytes, bytes]
"""A row with its vector and sketch."""


def save_model(db: sqlite3.Connection, model: VectorModel) -> None:
    """Make a model known or renew it. Raises InvalidInput when its dimension or those of its probes are wrong."""
    sql = statements("vectors")
    db.execute(sql["save_model"], model_values(db, sql, model))


def attach(
    db: sqlite3.Connection, key: str, vectors: Sequence[Packed], cut: frozenset[int], texts: Mapping[int, str] | None
) -> int:
    """Store vectors of rows that still live and, where `texts` are given, still have these; return how many."""
    sql = statements("vectors")
    dimension = len(vectors[0][1]) // 4
    db.execute(sql["insert_model"], (key, dimension))
    number, known, _ = db.execute(sql["model"], (key,)).fetchone()
    for _, blob, _ in vectors:
        if len(blob) != known * 4:
            raise InvalidInput(f"the vectors of model {key!r} have {known} dimensions, not {len(blob) // 4}")
    now = {item.id: item.text for item in texts_of(db, sql, [row for row, _, _ in vectors], json.dumps)}
    fitting = [item for item in vectors if item[0] in now and (texts is None or texts.get(item[0], now[item[0]]) == now[item[0]])]
    for row, blob, sketch in fitting:
        db.execute(sql["attach"], (number, row, row in cut, sketch, blob))
        db.execute(sql["found"], (number, row))
        if db.execute(sql["not_excluded"], (row,)).rowcount:
            db.execute(sql["include"], (row,))  # the sweeps of other models went past it
    _sweep_on(db)
    return len({row for row, _, _ in fitting})


def _sweep_on(db: sqlite3.Connection) -> None:
    """Let the sweeps go on over rows that are done with, so that the next search for missing vectors begins behind them."""
    sql = statements("vectors")
    for number, swept in db.execute(sql["unswept"]).fetchall():
        asked = {"model": number, "unswept": swept, "limit": 1}
        firsts = [row for name in ("missing_entries", "missing_turns") for (row,) in db.execute(sql[name], asked)]
        after = min(firsts) - 1 if firsts else _ALL_SWEPT
        if after > swept:
            db.execute(sql["save_swept"], (after, number))


def pending(db: sqlite3.Connection, key: str, *, limit: int, after: int, now: str | None) -> list[PendingText]:
    """Return rows without a vector of this model, by row number."""
    sql = statements("vectors")
    number, _, swept = db.execute(sql["model"], (key,)).fetchone() or (UNKNOWN, 0, 0)
    asked = {"model": number, "after": after, "swept": swept, "unswept": max(after, swept), "limit": limit, "now": now}
    names = ("missing", "missing_recent", "missing_entries", "missing_turns")
    found = {row for name in names for (row,) in db.execute(sql[name], asked)}
    return texts_of(db, sql, heapq.nsmallest(limit, found), json.dumps)


def note_failures(db: sqlite3.Connection, key: str, failures: Iterable[VectorFailure]) -> None:
    """Keep why rows have no vector; rows that have one, or none by setting, are left as they are. Raises NotFound."""
    sql = statements("vectors")
    number = number_of(db, sql, key)
    if number == UNKNOWN:
        raise NotFound(f"there is no model {key!r} in this store")
    for failure in failures:
        if _lives(db, failure.id):
            values = {"model": number, "row": failure.id, "reason": failure.reason, "retry_at": failure.retry_at}
            db.execute(sql["note_failure"], values)
    _sweep_on(db)


def _lives(db: sqlite3.Connection, row: int) -> bool:
    return bool(db.execute(statements("vectors")["is_live"], (row,)).fetchone()[0])


def exclude(db: sqlite3.Connection, rows: Iterable[int]) -> int:
    """Leave live rows that lack a vector of some model without one, and return how many."""
    sql = statements("vectors")
    count = 0
    for row in rows:
        if _lives(db, row) and db.execute(sql["exclude"], (row,)).rowcount:
            db.execute(sql["forget_missing"], (row,))
            count += 1
    _sweep_on(db)
    return count


def include(db: sqlite3.Connection, limit: int) -> int:
    """Let some excluded rows be embedded and return how many."""
    sql = statements("vectors")
    rows = [row for (row,) in db.execute(sql["excluded"], (limit,))]
    for row in rows:
        db.execute(sql["not_excluded"], (row,))
        db.execute(sql["include"], (row,))
    return len(rows)


def remove_some(db: sqlite3.Connection, limit: int) -> bool:
    """Remove some vectors of models that are gone, at last the models; True when none is left."""
    sql = statements("vectors")
    found = db.execute(sql["gone"]).fetchone()
    if found is None:
        return True
    removed = db.execute(sql["delete_some_vectors"], (*found, limit)).rowcount
    removed = removed or db.execute(sql["delete_some_missing"], (*found, limit)).rowcount
    if not removed:
        db.execute(sql["delete_model"], found)
    return False
