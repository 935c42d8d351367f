"""Vectors of adopted rows: taken over as those of a model only if that model makes the same ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.store.postgres.connections import Connections
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.old_names import COPIED
from hermes_mnemosyne.store.postgres.old_tables import OldTable
from hermes_mnemosyne.store.postgres.vectors import Number, attach, model_of, stored

Embed = Callable[[list[str]], Sequence[Sequence[float]]]

LEAST_COSINE = 0.99
_SAMPLE = 20
_BATCH = 200
_WAIT = 60.0
# The old package cut texts to so many characters before it embedded them; of longer ones we compare no more than these.
_CUT = 6_000
_COMPARED = 65_536

_ROWS = """
SELECT l.legacy_id, e.id, e.content, o.embedding
FROM mnemosyne.legacy_rows AS l JOIN {ours} AS e ON e.uid = l.uid JOIN {table} AS o ON o.id = l.legacy_id
WHERE l.relation = {name} AND l.legacy_id > $1 AND o.embedding IS NOT NULL AND vector_dims(o.embedding) = $2 AND e.content = o.content
    AND NOT EXISTS (SELECT 1 FROM mnemosyne.vectors AS v WHERE v.scope = e.scope AND v.model = $3 AND v.row = e.id)
    AND ($5::boolean OR e.visibility <> 'local')
ORDER BY {order} LIMIT $4
"""


@dataclass(frozen=True, slots=True)
class Model:
    """The store's model: its key and dimension, what makes a vector of it of each text, and whether that may see `local` rows."""

    key: str
    dimension: int
    embed: Embed
    sees_local: bool = True


@dataclass(slots=True)
class OldVectors:
    """What has become of old vectors: how many were compared and their least cosine, whether they were trusted, how many taken."""

    compared: int = 0
    least: float = 1.0
    trusted: bool = False
    taken: int = 0


def adopt_vectors(connections: Connections, model: Model) -> OldVectors:
    """Take over the old vectors of adopted rows, if the model makes the same ones of a sample; others stay where they are.

    May be run again. Raises EmbeddingError when the sample cannot be embedded, InvalidInput when the model is another one by this
    key, and store errors.
    """
    done = OldVectors()
    with connections.reading() as db:
        number = model_of(db, model.key, model.dimension)
        tables = [table for name in COPIED if (table := OldTable.find(db, name)) is not None]
        sample = [
            row
            for table in tables
            for row in _rows(db, table, (0, model.dimension, number or 0, _SAMPLE, model.sees_local), sample=True)
        ]
    if not sample:
        return done
    made = model.embed([content[:_CUT] for _, _, content, _ in sample])
    done.compared = len(sample)
    done.least = min(_cosine(mine, old.to_list()) for mine, (_, _, _, old) in zip(made, sample, strict=True))
    done.trusted = done.least > LEAST_COSINE
    for table in tables if done.trusted else ():
        last = 0
        while True:
            with connections.writing(_WAIT) as db:
                number = model_of(db, model.key, model.dimension)
                found = _rows(db, table, (last, model.dimension, number or 0, _BATCH, True))
                done.taken += _take(db, model, found)
            if not found:
                break
            last = found[-1][0]
    return done


def _rows(db: Database, table: OldTable, values: tuple[int, ...], *, sample: bool = False) -> list[tuple[int, int, str, Any]]:
    ours = "entries" if table.name == "memory_entries" else "turns"
    text = sql.SQL(_ROWS).format(
        table=table.place,
        name=sql.Literal(table.name),
        ours=sql.Identifier("mnemosyne", ours),
        order=sql.SQL("md5(l.legacy_id::text)" if sample else "l.legacy_id"),
    )
    return db.execute(text.as_string(db.raw), values, prepare=False).fetchall()


def _take(db: Database, model: Model, found: Sequence[tuple[int, int, str, Any]]) -> int:
    vectors: dict[int, Number] = {}
    for _, row, _, old in found:
        try:
            vectors[row] = stored(old.to_list())
        except InvalidInput:  # zero or not finite: the row waits for a vector of its own
            continue
    texts = {row: content[:_COMPARED] for _, row, content, _ in found}
    cut = frozenset(row for _, row, content, _ in found if len(content) > _CUT)
    return (attach(db, model.key, vectors, cut, texts) or 0) if vectors else 0


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    if len(one) != len(other) or not lengths or not math.isfinite(lengths):
        return -1.0
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths
