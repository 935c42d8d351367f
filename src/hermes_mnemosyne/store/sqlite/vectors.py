"""What a file keeps of vectors: models, vectors of rows, and why rows have none."""

from __future__ import annotations

import heapq
import json
import sqlite3
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence

from hermes_mnemosyne._errors import InvalidInput, NotFound
from hermes_mnemosyne.store.protocol import PendingText, VectorCounts, VectorFailure, VectorModel
from hermes_mnemosyne.store.spoken import spoken
from hermes_mnemosyne.store.sqlite.sql import statements

# All rows were looked at: later ones are noted when they are written.
_ALL_SWEPT = 2**63 - 1
_UNKNOWN = -1
# Characters of a row that are embedded: no model sees more, and a page of rows of many megabytes would take all of the memory.
_SEEN = 65_536

Packed = tuple[int, bytes, bytes]
"""A row with its vector and sketch."""


def models(db: sqlite3.Connection) -> list[VectorModel]:
    """Return the models, the active one first; those that are to be removed are none any more."""
    return [
        VectorModel(key=key, name=name, dimension=dimension, probes=_probes(probes, dimension), floor=floor, active=bool(active))
        for key, name, dimension, probes, floor, active in db.execute(statements("vectors")["models"])
    ]


def _probes(data: bytes, dimension: int) -> tuple[tuple[float, ...], ...]:
    numbers = array("d")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(tuple(numbers[start : start + dimension]) for start in range(0, len(numbers), dimension))


def save_model(db: sqlite3.Connection, model: VectorModel) -> None:
    """Make a model known or renew it. Raises InvalidInput when its dimension or those of its probes are wrong."""
    if model.dimension <= 0 or any(len(probe) != model.dimension for probe in model.probes):
        raise InvalidInput(f"model {model.key!r} needs a positive dimension, and its probes need the same")
    known = db.execute(statements("vectors")["model"], (model.key,)).fetchone()
    if known and known[1] != model.dimension:
        raise InvalidInput(f"the vectors of model {model.key!r} have {known[1]} dimensions, not {model.dimension}")
    numbers = array("d", (number for probe in model.probes for number in probe))
    if sys.byteorder == "big":
        numbers.byteswap()
    values = {"key": model.key, "name": model.name, "dimension": model.dimension, "probes": numbers.tobytes()}
    db.execute(statements("vectors")["save_model"], {**values, "floor": model.floor, "active": model.active})


def activate(db: sqlite3.Connection, key: str) -> None:
    """Make a model the one that is searched; all others are to be removed. Raises NotFound."""
    sql = statements("vectors")
    if key not in {model.key for model in models(db)}:
        raise NotFound(f"no model {key!r} has vectors in this store")
    number = _number(db, key)
    db.execute(sql["retire_others"], (number,))
    db.execute(sql["activate"], (number,))


def _number(db: sqlite3.Connection, key: str) -> int:
    found = db.execute(statements("vectors")["model"], (key,)).fetchone()
    return found[0] if found else _UNKNOWN


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
    now = {item.id: item.text for item in _texts(db, [row for row, _, _ in vectors])}
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
    number, _, swept = db.execute(sql["model"], (key,)).fetchone() or (_UNKNOWN, 0, 0)
    asked = {"model": number, "after": after, "swept": swept, "unswept": max(after, swept), "limit": limit, "now": now}
    names = ("missing", "missing_recent", "missing_entries", "missing_turns")
    found = {row for name in names for (row,) in db.execute(sql[name], asked)}
    return _texts(db, heapq.nsmallest(limit, found))


def _texts(db: sqlite3.Connection, rows: Sequence[int]) -> list[PendingText]:
    found = {}
    asked = (json.dumps(list(rows)), _SEEN)
    for row, kind, content, chars, role, speaker, occurred_at, local in db.execute(statements("vectors")["texts"], asked):
        text = spoken(content, speaker, occurred_at)
        found[row] = PendingText(id=row, kind=kind, text=text, role=role, chars=chars, local=bool(local))
    return [found[row] for row in rows if row in found]


def note_failures(db: sqlite3.Connection, key: str, failures: Iterable[VectorFailure]) -> None:
    """Keep why rows have no vector; rows that have one, or none by setting, are left as they are. Raises NotFound."""
    sql = statements("vectors")
    number = _number(db, key)
    if number == _UNKNOWN:
        raise NotFound(f"there is no model {key!r} in this store")
    for failure in failures:
        if _lives(db, failure.id):
            values = {"model": number, "row": failure.id, "reason": failure.reason, "retry_at": failure.retry_at}
            db.execute(sql["note_failure"], values)
    _sweep_on(db)


def _lives(db: sqlite3.Connection, row: int) -> bool:
    return bool(db.execute(statements("vectors")["is_live"], (row,)).fetchone()[0])


def clear_failures(db: sqlite3.Connection, key: str) -> int:
    """Let every failed row be tried again and return how many."""
    return db.execute(statements("vectors")["clear_failures"], (_number(db, key),)).rowcount


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


def counts(db: sqlite3.Connection, key: str) -> VectorCounts:
    """Return the live rows by the state of their vector; no vector is read."""
    found = db.execute(statements("vectors")["counts"], (_number(db, key),)).fetchone()
    live, stored, cut, excluded, unembeddable, retrying = found
    return VectorCounts(
        stored=stored,
        pending=live - stored - excluded - unembeddable,
        retrying=retrying,
        excluded=excluded,
        unembeddable=unembeddable,
        cut=cut,
    )


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


def has_gone(db: sqlite3.Connection) -> bool:
    """Tell whether vectors of a model are to be removed."""
    return db.execute(statements("vectors")["gone"]).fetchone() is not None
