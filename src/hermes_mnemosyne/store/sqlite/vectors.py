"""Vectors as BLOBs: storing, what is pending, and the nearest rows by cosine.

A vector is little-endian float32 of unit length; its sketch has one sign bit per dimension. Small sets are compared exactly, large
ones by sketch first and exactly among the best. numpy is used when it is there; plain Python gives the same rows.
"""

from __future__ import annotations

import heapq
import json
import math
import sqlite3
import sys
from array import array
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.store.protocol import Candidate, Filter, PendingText
from hermes_mnemosyne.store.sqlite.search import excluded_ids, params, scopes_of
from hermes_mnemosyne.store.sqlite.sql import statements

EXACT_ROWS = 20_000
RESCORED = 800


def packed(vector: Sequence[float]) -> tuple[bytes, bytes]:
    """Return the BLOB and the sketch of a vector scaled to unit length.

    Raises InvalidInput for a vector that has no direction: empty, zero, NaN or infinite.
    """
    length = math.hypot(*vector)
    if not math.isfinite(length) or length == 0.0:
        raise InvalidInput("a vector must be finite and not zero")
    values = array("f", (value / length for value in vector))
    bits = 0
    for value in values:
        bits = bits << 1 | (value > 0)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes(), bits.to_bytes((len(values) + 7) // 8, "big")


def unpacked(blob: bytes) -> array[float]:
    """Return the numbers of a BLOB."""
    values = array("f")
    values.frombytes(blob)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def attach(db: sqlite3.Connection, model: str, vectors: Iterable[tuple[int, Sequence[float]]]) -> int:
    """Store vectors of rows that still live, inside the caller's write transaction."""
    sql = statements("vectors")
    stored = 0
    for row, vector in vectors:
        blob, sketch = packed(vector)
        db.execute(sql["insert_model"], (model, len(vector)))
        number, dimension = db.execute(sql["model"], (model,)).fetchone()
        if dimension != len(vector):
            raise InvalidInput(f"the vectors of model {model!r} have {dimension} dimensions, not {len(vector)}")
        stored += db.execute(sql["attach"], {"row": row, "model": number, "vector": blob, "sketch": sketch}).rowcount
    return stored


def pending(db: sqlite3.Connection, model: str, *, limit: int, after: int) -> list[PendingText]:
    """Return rows without a vector of this model, by row number."""
    found = db.execute(statements("vectors")["pending"], {"model": model, "limit": limit, "after": after})
    return [PendingText(id=row, kind=kind, text=text) for row, kind, text in found]


def nearest(db: sqlite3.Connection, model: str, vector: Sequence[float], where: Filter, *, limit: int) -> list[Candidate]:
    """Return the rows nearest to a vector, best first, ties by row number."""
    sql = statements("vectors")
    found = db.execute(sql["model"], (model,)).fetchone()
    if found is None:
        return []
    number, dimension = found
    if dimension != len(vector):
        raise InvalidInput(f"the vectors of model {model!r} have {dimension} dimensions, not {len(vector)}")
    blob, sketch = packed(vector)
    scopes = scopes_of(db, where.reach)
    values: dict[str, Any] = {**params(where), "model": number}
    skip = excluded_ids(db, where)
    ranges = scopes.ranges(where)
    rows: list[tuple[int, bytes]] = []
    if scopes.size(where) <= EXACT_ROWS:
        for values["low"], values["high"] in ranges:
            rows += [pair for pair in db.execute(sql["vectors"], values) if pair[0] not in skip]
    else:
        query_bits = int.from_bytes(sketch, "big")
        keep = max(RESCORED, 4 * limit)
        near: list[tuple[int, int]] = []
        for values["low"], values["high"] in ranges:
            candidates = (
                ((int.from_bytes(bits, "big") ^ query_bits).bit_count(), row)
                for row, bits in db.execute(sql["sketches"], values)
                if row not in skip
            )
            near = heapq.nsmallest(keep, [*near, *heapq.nsmallest(keep, candidates)])
        rows = db.execute(sql["vectors_by_row"], (number, json.dumps([row for _, row in near]))).fetchall()
    return _closest(unpacked(blob), rows, limit)


def _closest(query: array[float], rows: list[tuple[int, bytes]], limit: int) -> list[Candidate]:
    if not rows:
        return []
    try:
        import numpy as np
    except ImportError:
        scored = [(sum(map(mul, query, unpacked(blob))), row) for row, blob in rows]
    else:
        matrix = np.frombuffer(b"".join(blob for _, blob in rows), dtype="<f4").reshape(len(rows), -1)
        scores = (matrix @ np.asarray(query, dtype="<f4")).tolist()
        scored = list(zip(scores, (row for row, _ in rows), strict=True))
    best = heapq.nsmallest(limit, scored, key=lambda pair: (-pair[0], pair[1]))
    return [Candidate(row, min(1.0, max(-1.0, score))) for score, row in best]
