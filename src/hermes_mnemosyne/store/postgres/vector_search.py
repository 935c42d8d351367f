"""The vector leg: the rows nearest by cosine, every filter applied inside the search.

Few rows are compared exactly. Of many, those that pass a filter are, unless they are many too. Else an index is asked for the nearest
rows that pass, until there are enough; where it ends before that, all rows are compared: an answer is never short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from psycopg import sql

from hermes_mnemosyne.store.postgres import vector_indexes
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.search import Scopes, excluded_ids, once, params, scopes_of
from hermes_mnemosyne.store.postgres.sql import Statement, statements
from hermes_mnemosyne.store.postgres.vector_indexes import MOST_OWN, Catalogue, Indexes, in_scope
from hermes_mnemosyne.store.postgres.vectors import Number, filled, fitted, model_of, stored
from hermes_mnemosyne.store.protocol import Candidate, Filter
from hermes_mnemosyne.store.writing.rows import SHELVES, TURN

# What it costs, measured in rows that are compared exactly: to ask an index at all, for each row that it looks at (these lie
# anywhere), and to compare a row that was chosen by its text first.
START, LOOK, CHOSEN = 1_000, 12, 2.5
# An index finds the nearest rows by vectors with half of the digits, and not quite all: it is asked for more.
_SPARE, _SPARE_SHARE = 20, 4
_LEAST_EF, _MOST_EF = 120, 1_000
_LEAST_SCAN = 4_000
_FEWEST_CHOSEN = 500

Found = list[tuple[int, float]]
"""Rows with their distance."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Some scopes that are searched at once: `rows` in them on the shelves that are asked for, of `indexed` in the index."""

    scopes: Sequence[int] | None
    rows: int
    indexed: int = 0
    own: int | None = None

    def cost(self, fetched: int) -> float:
        """Return what it costs to search them."""
        if not self.indexed:
            return self.rows
        return START + LOOK * fetched * self.indexed / max(self.rows, 1)


def nearest(db: Database, catalogue: Catalogue, key: str, vector: Sequence[float], where: Filter, limit: int) -> list[Candidate]:
    """Return the rows nearest to a vector, best first, ties by row number."""
    number = stored(vector)
    model = once(("model", key, len(vector)), lambda: model_of(db, key, len(vector)))
    if model is None or limit <= 0:
        return []
    scopes = scopes_of(db, where.reach)
    rows = scopes.size(where)
    if not rows:
        return []
    search = _Search(db, model, number, where, limit)
    best = [_Part(None if scopes.everything else scopes.ids(), rows)]
    if rows > vector_indexes.threshold(len(vector)):
        best = _cheapest(db, scopes, where, (model, catalogue.get(db)), search.fetched)
        search.iterates = catalogue.get(db).iterates
    found = search.chosen(best, scopes, rows) if _chooses(where) else None
    if found is None:
        found = [pair for part in best for pair in search.part(part)]
    return [Candidate(row, 1.0 - distance) for distance, row in sorted((distance, row) for row, distance in found)[:limit]]


def _chooses(where: Filter) -> bool:
    """Tell whether a filter may leave few rows: conditions other than the shelf, expiry and rows that are named."""
    times = where.since or where.until or where.written_since or where.written_until
    return bool(times or where.contains or where.tags or where.session_id is not None)


def _cheapest(db: Database, scopes: Scopes, where: Filter, known: tuple[int, Indexes], fetched: int) -> list[_Part]:
    """Return the parts in which to search many rows: all of them exactly, all by the shared index, or the large ones by their own."""
    model, indexes = known
    shelves = scopes.shelves(where)
    ids = None if scopes.everything else scopes.ids()
    rows = scopes.size(where)
    ways = [[_Part(ids, rows)]]
    if model in indexes.shared:
        (total,) = db.execute(statements("vectors")["total"]).fetchone()
        ways.append([_Part(ids, rows, total)])
    own, rest, left = [], [], 0
    for row in scopes.rows:
        here = sum(row[3:][shelf] for shelf in shelves)
        if (model, row[0]) in indexes.own and here > START:
            own.append(_Part([row[0]], here, sum(row[3:]), row[0]))
        elif here:
            rest.append(row[0])
            left += here
    if 0 < len(own) <= MOST_OWN:
        ways.append(own + ([_Part(rest, left)] if rest else []))
    return min(ways, key=lambda parts: sum(part.cost(fetched) for part in parts))


@lru_cache(maxsize=256)
def _by_index(model: int, dimension: int, scope: int | None) -> Statement:
    parts = {"model": sql.Literal(model), "in_scope": in_scope(scope, ("v", "scope"))}
    return filled(statements("vectors")["nearest_by_index"], dimension, **parts)


class _Search:
    """One search for the rows nearest to a vector."""

    def __init__(self, db: Database, model: int, vector: Number, where: Filter, limit: int) -> None:
        self.db = db
        self.model = model
        self.limit = limit
        self.fetched = limit + max(_SPARE, limit // _SPARE_SHARE)
        self.iterates = False
        self.dimension = vector.dimensions()
        shelves = [SHELVES[where.target]] if where.target else list(SHELVES.values())
        shelves = [*(shelves if "entry" in where.kinds else []), *([TURN] if "turn" in where.kinds else [])]
        needs = _chooses(where)
        self.values: dict[str, Any] = {
            **params(where),
            "model": model,
            "vector": vector,
            "limit": limit,
            "scopes": None,
            "shelves": shelves,
            "targets": [name for name, shelf in SHELVES.items() if shelf in shelves],
            "turns": TURN in shelves,
            "excluded": sorted(excluded_ids(db, where)),
            "plain_turns": not needs and where.except_session is None,
            "plain_entries": not needs and where.now is None and where.include_superseded,
        }

    def chosen(self, parts: Sequence[_Part], scopes: Scopes, rows: int) -> Found | None:
        """Return the nearest of the rows that pass the conditions, None when these are too many to be compared one by one."""
        indexed = max(part.indexed for part in parts)
        most = math.isqrt(int(LOOK / CHOSEN * self.fetched * indexed)) if indexed else rows // 3
        cap = max(_FEWEST_CHOSEN, most)
        values = {"scopes": None if scopes.everything else scopes.ids(), "cap": cap}
        found = self._run(fitted("nearest_of_chosen", self.dimension), values)
        if found[0][0] >= cap:
            return None
        return [(row, distance) for _, row, distance in found if row is not None]

    def part(self, part: _Part) -> Found:
        """Return the nearest rows of some scopes."""
        found = self._by_index(part) if part.indexed else []
        if len(found) >= min(self.limit, part.rows):
            return found
        return self._run(fitted("nearest_of_all", self.dimension), {"scopes": part.scopes})

    def _by_index(self, part: _Part) -> Found:
        ef = min(_MOST_EF, max(_LEAST_EF, 2 * self.limit))
        most = max(_LEAST_SCAN, part.rows // LOOK)
        scopes = part.scopes if part.own is None else None
        statement = _by_index(self.model, self.dimension, part.own)
        settings = statements("vectors")
        with self.db.batched(1), self.db.raw.transaction():
            self.db.execute(settings["begin_with_index"], (str(ef),))
            if self.iterates:
                self.db.execute(settings["go_on_with_index"], (str(most),))
            return self._run(statement, {"scopes": scopes, "limit": self.fetched})

    def _run(self, statement: Statement, values: dict[str, Any]) -> list[Any]:
        # A plan that does not know the values would take the wrong index, or none.
        return self.db.execute(statement, {**self.values, **values}, prepare=False).fetchall()


def cosines_of(db: Database, key: str, vector: Sequence[float], ids: Sequence[int]) -> dict[int, float]:
    """Return the cosine of each of these rows that has a vector of the model."""
    number = stored(vector)
    model = once(("model", key, len(vector)), lambda: model_of(db, key, len(vector)))
    if model is None:
        return {}
    return dict(db.execute(fitted("cosines", len(vector)), (model, number, list(ids)), prepare=False).fetchall())
