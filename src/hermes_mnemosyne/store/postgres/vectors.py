"""What a database keeps of vectors: models, vectors of rows, and why rows have none."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pgvector import HalfVector, Vector
from psycopg import sql
from psycopg.types.array import ListBinaryDumper

from hermes_mnemosyne._errors import InvalidInput, NotFound
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.sql import Statement, statements
from hermes_mnemosyne.store.protocol import PendingText, VectorFailure, VectorModel
from hermes_mnemosyne.store.vectors import UNKNOWN, model_values, number_of, texts_of
from hermes_mnemosyne.text import storable

LONGEST_EXACT = 2_000
"""Up to so many dimensions vectors are kept as they are, above with half of the digits."""
LONGEST = 16_000
"""More dimensions pgvector cannot store."""

_UNIT = 1e-6

Number = Vector | HalfVector
"""A vector as it is stored."""


def column_of(dimension: int) -> str:
    """Return the column that holds vectors of a model."""
    return "embedding" if dimension <= LONGEST_EXACT else "half"


def stored(vector: Sequence[float]) -> Number:
    """Return a vector of unit length as it is stored.

    Raises InvalidInput for a vector that has no direction (empty, zero, NaN or infinite) or too many dimensions.
    """
    if len(vector) > LONGEST:
        raise InvalidInput(f"Postgres stores vectors of at most {LONGEST} dimensions, not {len(vector)}: use another model")
    length = math.hypot(*vector)
    if not math.isfinite(length) or length == 0.0:
        raise InvalidInput("a vector must be finite and not zero")
    unit = list(vector) if abs(length - 1.0) < _UNIT else [value / length for value in vector]
    return Vector(unit) if len(unit) <= LONGEST_EXACT else HalfVector(unit)


@cache
def fitted(name: str, dimension: int) -> Statement:
    """Return a statement about the vectors of a model of this dimension."""
    return filled(statements("vectors")[name], dimension)


def filled(statement: Statement, dimension: int, **parts: sql.Composable) -> Statement:
    """Return a statement with the column and type of a model's vectors, and other parts, in their places."""
    column = column_of(dimension)
    kind = "vector" if column == "embedding" else "halfvec"
    parts = {**parts, "column": sql.Identifier(column), "type": sql.Identifier(kind), "dimension": sql.Literal(dimension)}
    composed = sql.SQL(statement).format(**parts)
    made = Statement(composed.as_string(None))
    made.names = statement.names
    return made


def save_model(db: Database, model: VectorModel) -> None:
    """Make a model known or renew it. Raises InvalidInput when its dimension or those of its probes are wrong."""
    if model.dimension > LONGEST:
        raise InvalidInput(f"model {model.key!r} has {model.dimension} dimensions, Postgres stores at most {LONGEST}")
    known = _known(db, model.key)
    sql = statements("vectors")
    (number,) = db.execute(sql["save_model"], model_values(db, sql, model)).fetchone()
    if known is None or known[2]:
        db.execute(sql["note_all_missing"], {"model": number})


def _known(db: Database, key: str) -> tuple[int, int, bool] | None:
    """Return number and dimension of a model, and whether it is to be removed."""
    found: tuple[int, int, bool] | None = db.execute(statements("vectors")["model"], (key,)).fetchone()
    return found


def model_of(db: Database, key: str, dimension: int) -> int | None:
    """Return the number of a model, None for an unknown one. Raises InvalidInput when its vectors have another dimension."""
    found = _known(db, key)
    if found is not None and found[1] != dimension:
        raise InvalidInput(f"the vectors of model {key!r} have {found[1]} dimensions, not {dimension}")
    return found[0] if found else None


def begin(db: Database, key: str, dimension: int) -> None:
    """Make a model known by its first vector, unless it is; every row lacks one."""
    if model_of(db, key, dimension) is None:
        (number,) = db.execute(statements("vectors")["insert_model"], (key, dimension)).fetchone()
        db.execute(statements("vectors")["note_all_missing"], {"model": number})


def attach(
    db: Database, key: str, vectors: Mapping[int, Number], cut: frozenset[int], texts: Mapping[int, str] | None
) -> int | None:
    """Store vectors of rows that still live and, where `texts` are given, still have these; return how many.

    Return None where the model is not known. Rows that are being changed at this moment are left out and stay pending.
    """
    dimension = next(iter(vectors.values())).dimensions()
    number = model_of(db, key, dimension)
    if number is None or db.execute(statements("vectors")["keep_model"], (number,)).fetchone() is None:
        return None
    for vector in vectors.values():
        if vector.dimensions() != dimension:
            raise InvalidInput(f"the vectors of model {key!r} have {dimension} dimensions, not {vector.dimensions()}")
    held = [
        row for name in ("hold_entries", "hold_turns") for (row,) in db.execute(statements("vectors")[name], (list(vectors),))
    ]
    # Only now, when nobody can change them.
    rows = _unchanged(db, held, texts)
    if rows:
        values = (number, rows, [row in cut for row in rows], [vectors[row] for row in rows])
        with db.raw.cursor() as cursor:
            # A list goes as text otherwise, whatever it holds.
            cursor.adapters.register_dumper(list, ListBinaryDumper)
            cursor.execute(fitted("attach", dimension), values)
    return len(rows)


def _unchanged(db: Database, rows: Sequence[int], texts: Mapping[int, str] | None) -> list[int]:
    """Return those of some rows that live and have the text that is given for them, if any is."""
    if texts is None:
        return sorted(row for (row,) in db.execute(statements("vectors")["live"], (rows,)))
    return sorted(
        item.id for item in texts_of(db, statements("vectors"), rows, list) if texts.get(item.id, item.text) == item.text
    )


def pending(db: Database, key: str, *, limit: int, after: int, now: str | None) -> list[PendingText]:
    """Return rows without a vector of this model, by row number."""
    sql = statements("vectors")
    number = number_of(db, sql, key)
    name = "missing_in_unknown" if number == UNKNOWN else "missing"
    values = {"model": number, "after": after, "limit": limit, "now": now}
    return texts_of(db, sql, heapq.nsmallest(limit, (row for (row,) in db.execute(sql[name], values))), list)


def note_failures(db: Database, key: str, failures: Iterable[VectorFailure]) -> None:
    """Keep why rows have no vector; rows that have one, or none by setting, are left as they are. Raises NotFound."""
    known = _known(db, key)
    if known is None:
        raise NotFound(f"there is no model {key!r} in this store")
    last = {failure.id: failure for failure in failures}
    reasons = [storable(failure.reason)[0] for failure in last.values()]
    db.execute(
        statements("vectors")["note_failures"],
        (known[0], list(last), reasons, [failure.retry_at for failure in last.values()]),
    )
    db.execute(statements("vectors")["drop_settled"], (known[0], list(last)))


def exclude(db: Database, rows: Iterable[int]) -> int:
    """Leave live rows that lack a vector of some model without one, and return how many."""
    count: int = db.execute(statements("vectors")["exclude"], (list(rows),)).fetchone()[0]
    return count


def include(db: Database, limit: int) -> int:
    """Let some excluded rows be embedded and return how many."""
    count: int = db.execute(statements("vectors")["include"], (limit,)).fetchone()[0]
    return count


@dataclass(slots=True)
class Removal:
    """How far a model has been removed: what has gone is not looked at again."""

    vectors_after: int = 0
    missing_after: int = 0

    def go_on(self, db: Database, limit: int) -> bool:
        """Remove some vectors of models that are gone, at last the models; True when none is left."""
        sql = statements("vectors")
        found = db.execute(sql["gone"]).fetchone()
        if found is None:
            return True
        asked = {"model": found[0], "limit": limit}
        first = db.execute(sql["first_vector"], {**asked, "after": self.vectors_after}).fetchone()
        if first:
            removed = db.execute(sql["delete_some_vectors"], {**asked, "first": first[0]}, prepare=False).fetchall()
            self.vectors_after = max(row for (row,) in removed)
            return False
        removed = db.execute(sql["delete_some_missing"], {**asked, "after": self.missing_after}, prepare=False).fetchall()
        if removed:
            self.missing_after = max(row for (row,) in removed)
        elif self.vectors_after or self.missing_after:
            self.vectors_after = self.missing_after = 0
        else:
            # Whoever gives rows vectors of it at this moment ends first; what is left of that goes in the next step.
            db.execute(sql["take_model"], found)
            if db.execute(sql["first_vector"], {**asked, "after": 0}).fetchone() is None:
                db.execute(sql["delete_model"], found)
        return False
