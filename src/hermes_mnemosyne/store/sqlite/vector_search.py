"""The vector leg: the rows nearest by cosine, every filter applied inside the search."""

from __future__ import annotations

import heapq
import json
import sqlite3
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.store.protocol import Candidate, Filter
from hermes_mnemosyne.store.scopes import needs_rows
from hermes_mnemosyne.store.sqlite.search import Scopes, excluded_ids, params, quoted, scopes_of
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.sqlite.vector_blocks import Choice, Found
from hermes_mnemosyne.store.sqlite.vector_cache import VectorCache, View
from hermes_mnemosyne.store.sqlite.vector_math import cosines, packed

# Sketches choose rows to be looked at exactly, so many at a time, until as many in a row have changed nothing among the very best.
STEP, _HEAD = 300, 10
# So many rows one search looks at for each one asked for, and at least; on vectors that sketches tell badly it ends there.
_MOST, _MOST_EACH = 3_000, 30
# Whole vectors choose so many more than asked for: a few may be gone.
_SPARE = 16
# To look at all rows of a range for conditions costs a third, row for row, of looking at chosen ones.
_SCAN = 3


@dataclass
class _Best:
    """The best rows found so far."""

    limit: int
    scored: list[tuple[float, int]] = field(default_factory=list)
    seen: int = 0
    quiet: int = 0

    def add(self, scored: Sequence[tuple[float, int]]) -> None:
        """Take scores and row numbers; `quiet` counts those that came since the very best changed."""
        best = heapq.nsmallest(self.limit, [*self.scored, *((-score, row) for score, row in scored)])
        self.seen += len(scored)
        is_quiet = best[:_HEAD] == self.scored[:_HEAD] and len(best) == self.limit
        self.quiet = self.quiet + len(scored) if is_quiet else 0
        self.scored = best

    def candidates(self) -> list[Candidate]:
        """Return the rows, best first, ties by row number."""
        return [Candidate(row, -score) for score, row in self.scored]


def nearest(
    db: sqlite3.Connection, cache: VectorCache, key: str, vector: Sequence[float], where: Filter, limit: int
) -> list[Candidate]:
    """Return the rows nearest to a vector, best first, ties by row number; to be called inside a read transaction."""
    blob, _ = packed(vector)
    model = _model(db, key, len(vector))
    if model is None or limit <= 0:
        return []
    scopes = scopes_of(db, where.reach)
    choice = _choice(db, scopes, where)
    if not choice.ranges or choice.allowed == []:
        return []
    search = _Search(db, cache.view(db, model, len(vector)), blob, limit)
    return search.run(choice, where if needs_rows(where) else None, scopes.size(where))


def _model(db: sqlite3.Connection, key: str, dimension: int) -> int | None:
    found = db.execute(statements("vectors")["model"], (key,)).fetchone()
    if found is None:
        return None
    if found[1] != dimension:
        raise InvalidInput(f"the vectors of model {key!r} have {found[1]} dimensions, not {dimension}")
    number: int = found[0]
    return number


@dataclass(frozen=True, slots=True)
class _Search:
    """One search in the view of a process: rows in order of a rough distance, looked at in the file."""

    db: sqlite3.Connection
    view: View
    blob: bytes
    limit: int

    def run(self, choice: Choice, where: Filter | None, size: int) -> list[Candidate]:
        """Return the nearest of the chosen rows, `size` at most, that pass the conditions on rows, if any."""
        whole = self.view.kernel.whole
        step = max(STEP, self.limit)
        count = self.limit + _SPARE if whole else 4 * step
        best, done = _Best(self.limit), 0
        while True:
            chosen = self.view.nearest(self.blob, choice, count)
            for some in [chosen] if whole else _cut(chosen[done:], step):
                best.add(self._scored(some, where))
                if self._is_done(best, step):
                    return best.candidates()
            if len(chosen) < count:
                return best.candidates()
            done, count = len(chosen), 4 * count
            if where is not None and count * _SCAN > size:
                choice, where, done = self._looked_through(choice, where), None, 0
            if whole or not done:
                best = _Best(self.limit)

    def _is_done(self, best: _Best, step: int) -> bool:
        """Tell whether no row that has not been looked at can be nearer, or hardly any."""
        if self.view.kernel.whole:
            return len(best.scored) == self.limit
        return best.quiet >= step or best.seen >= max(_MOST, _MOST_EACH * self.limit)

    def _scored(self, chosen: Found, where: Filter | None) -> list[tuple[float, int]]:
        """Return the cosines of those rows that are still there and pass a filter."""
        sql = statements("vectors")
        if where is not None:
            asked = {**params(where), "rows": json.dumps([row for row, _ in chosen])}
            passing = {row for (row,) in self.db.execute(sql["passing"], asked)}
            chosen = [pair for pair in chosen if pair[0] in passing]
        found = self.db.execute(sql["by_stamp"], (json.dumps(sorted(stamp for _, stamp in chosen)),)).fetchall()
        if len(found) < len(chosen):
            # Another thread may have seen stamps that are later than this moment: they are not gone but to come.
            (last,) = self.db.execute(sql["last_stamp"]).fetchone()
            missing = {stamp for _, stamp in chosen}.difference(stamp for stamp, _, _ in found)
            self.view.dead.update(stamp for stamp in missing if stamp <= last)
        return list(zip(cosines(self.blob, [data for _, _, data in found]), (row for _, row, _ in found), strict=True))

    def _looked_through(self, choice: Choice, where: Filter) -> Choice:
        """Return the choice narrowed to the rows that pass the conditions on rows, all rows looked at."""
        sql = statements("vectors")
        values: dict[str, Any] = params(where)
        allowed: list[int] = []
        for values["low"], values["high"] in choice.ranges:
            for kind in where.kinds:
                name = "passing_entries" if kind == "entry" else "passing_turns"
                allowed += [row for (row,) in self.db.execute(sql[name], values)]
        if choice.allowed is not None:
            allowed = list(set(allowed).intersection(choice.allowed))
        return replace(choice, allowed=sorted(allowed))


def _cut(found: Found, step: int) -> Iterator[Found]:
    return (found[start : start + step] for start in range(0, len(found), step))


def _choice(db: sqlite3.Connection, scopes: Scopes, where: Filter) -> Choice:
    """Return the rows that a filter leaves, conditions that need a look at the row left out."""
    sql = statements("vectors")
    ids = json.dumps(scopes.ids())
    forbidden = set(excluded_ids(db, where))
    if "entry" in where.kinds and (where.now is not None or not where.include_superseded):
        forbidden.update(row for (row,) in db.execute(sql["hidden_entries"], params(where)))
    if where.except_session is not None and "turn" in where.kinds:
        sessions = [row[0] for row in db.execute(statements("search")["session"], (where.except_session, ids))]
        forbidden.update(row for (row,) in db.execute(sql["turns_of_session"], (json.dumps(sessions),)))
    choice = Choice(scopes.ranges(where), sorted(forbidden))
    if where.session_id is None:
        return choice
    sessions = [row[0] for row in db.execute(statements("search")["session"], (where.session_id, ids))]
    facets = [f"{kind}{number}" for number in sessions for kind in "nm"]
    if not facets:
        return replace(choice, allowed=[])
    rows = db.execute(sql["session_rows"], (f"facets : ({quoted(facets, ' OR ')})", json.dumps(facets)))
    return replace(choice, allowed=_within(choice.ranges, sorted(row for (row,) in rows)))


def _within(ranges: Sequence[tuple[int, int]], rows: list[int]) -> list[int]:
    """Return those of some rows that lie in one of the ranges."""
    ordered = sorted(ranges)
    lows = [low for low, _ in ordered]
    places = ((row, bisect_right(lows, row) - 1) for row in rows)
    return [row for row, place in places if place >= 0 and row <= ordered[place][1]]


def cosines_of(db: sqlite3.Connection, key: str, vector: Sequence[float], ids: Sequence[int]) -> dict[int, float]:
    """Return the cosine of each of these rows that has a vector of the model."""
    blob, _ = packed(vector)
    model = _model(db, key, len(vector))
    if model is None:
        return {}
    pairs = db.execute(statements("vectors")["by_row"], (model, json.dumps(list(ids)))).fetchall()
    return dict(zip((row for row, _ in pairs), cosines(blob, [data for _, data in pairs]), strict=True))
