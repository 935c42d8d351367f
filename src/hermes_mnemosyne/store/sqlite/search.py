"""The lexical leg: FTS5 matches inside the reach, every filter applied before a limit."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from hermes_mnemosyne.store.protocol import Candidate, Filter, LexicalQuery, Reach
from hermes_mnemosyne.store.scopes import ALL_SHELVES, ScopeRows, limits, needs_rows
from hermes_mnemosyne.store.sqlite.connections import Connection
from hermes_mnemosyne.store.sqlite.indexing import has_recent
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.writing.rows import age_of, bounds

_ALL = (-(2**63), 2**63 - 1)
# More ranges than this are cheaper as one scan with a set of places than as one query each.
_MOST_RANGES = 12
_CACHED_COUNTS = 8192
_KNOWN_REACHES = 64
_EXACT_ROWS = 2000
# Counts are taken while rows wait to be indexed, which changes no change number: they are of no certain moment.
_UNSETTLED = -1
_SMALL_COUNT = 200
# With more terms than this, taking a body apart once is cheaper than looking for each.
_MOST_LOOKUPS = 16


class Scopes(ScopeRows):
    """The scopes within a reach, and what follows from them for row numbers."""

    def __init__(self, db: sqlite3.Connection, reach: Reach) -> None:
        """Read the scopes of `reach`."""
        sql = statements("read")
        if reach.themes is None:
            rows = db.execute(sql["scopes_all"], (reach.subject,))
        else:
            folded = json.dumps(sorted({theme.lower() for theme in reach.themes}))
            rows = db.execute(sql["scopes_of"], (reach.subject, folded))
        super().__init__(rows, reach)

    def ranges(self, where: Filter) -> list[tuple[int, int]]:
        """Return the ranges of row numbers, empty ones left out; one range when it is the whole store."""
        shelves = self.shelves(where)
        if self.everything and len(shelves) == ALL_SHELVES:
            return [_ALL]
        found = []
        for row in self.rows:
            filled = [shelf for shelf in shelves if row[3:][shelf]]
            if filled and (len(shelves) == ALL_SHELVES or filled[-1] - filled[0] == len(filled) - 1):
                found.append(bounds(row[0], filled[0], filled[-1]))
            else:
                found += [bounds(row[0], shelf, shelf) for shelf in filled]
        return found

    def single_ranges(self, where: Filter) -> list[tuple[int, int]]:
        """Return one range of row numbers per filled shelf; within each the order of numbers is the order of age."""
        return [bounds(scope, shelf, shelf) for scope, shelf in self.filled(where)]

    def places(self, where: Filter) -> str | None:
        """Return the (scope, shelf) pairs as JSON, None when it is the whole store."""
        shelves = self.shelves(where)
        if self.everything and len(shelves) == ALL_SHELVES:
            return None
        return json.dumps([row[0] << 2 | shelf for row in self.rows for shelf in shelves])


def scopes_of(db: sqlite3.Connection, reach: Reach) -> Scopes:
    """Return the scopes within a reach, remembered by the connection while the store does not change."""
    if not isinstance(db, Connection):
        return Scopes(db, reach)
    seq: int = db.execute(statements("read")["sequence"]).fetchone()[0]
    known = db.known.get(reach)
    if known is None or known[0] != seq:
        if len(db.known) >= _KNOWN_REACHES:
            db.known.clear()
        known = db.known[reach] = seq, Scopes(db, reach)
    scopes: Scopes = known[1]
    return scopes


def quoted(terms: Iterable[str], joined: str) -> str:
    """Return encoded terms as FTS5 strings; the encoding has no quotes, so that nothing can end one."""
    return joined.join(f'"{term}"' for term in terms)


def expression(query: LexicalQuery) -> str:
    """Return the MATCH expression of a query without its filters."""
    choose = [quoted(query.required, " AND " if query.all_required else " OR ")] if query.required else []
    pairs = [f'("{first}" AND "{second}")' for n, first in enumerate(query.paired) for second in query.paired[n + 1 :]]
    chosen = " OR ".join(f"({part})" for part in (*choose, *pairs))
    others = [term for term in (*query.paired, *query.optional) if term not in query.required]
    if not others:
        return f"{{body context}} : ({chosen})"
    return f"{{body context}} : (({chosen}) AND ({quoted((*query.required, *others), ' OR ')}))"


def params(where: Filter) -> dict[str, Any]:
    """Return the parameters of the filtering statements."""
    return {
        **limits(where),
        "session": where.session_id,
        "except_session": where.except_session,
        "contains": where.contains,
        "tags": json.dumps(list(where.tags)) if where.tags else None,
    }


def excluded_ids(db: sqlite3.Connection, where: Filter) -> frozenset[int]:
    """Return the row numbers of a filter's excluded uids."""
    if not where.exclude:
        return frozenset()
    found = db.execute(statements("read")["ids_by_uid"], (json.dumps(sorted(where.exclude)),))
    return frozenset(row[0] for row in found)


def lexical(db: sqlite3.Connection, query: LexicalQuery, where: Filter) -> list[Candidate]:
    """Return the best matching rows, best first."""
    if not query.required and len(query.paired) < 2:  # noqa: PLR2004
        return []
    sql = statements("search")
    scopes = scopes_of(db, where.reach)
    facets = _facets(db, scopes, where)
    if facets is None:
        return []
    match = expression(query)
    skip = excluded_ids(db, where)
    values = params(where)
    needs = needs_rows(where)
    runs = [(facets, needs)]
    if where.now is not None and not needs and db.execute(sql["any_expiring"]).fetchone():
        # Rows with an expiry are few: they alone are looked at, the rest needs no join.
        runs = [([*facets, "-ve"], False), ([*facets, "+ve"], True)]
    best: list[tuple[int, float]] = []
    for wanted, look in runs:
        values["match"] = _with_facets(match, wanted)
        best += _run(db, query, scopes, where, values, (look, len(skip)))
    chosen = [Candidate(row, score) for row, score in best if row not in skip]
    if query.newest is not None:
        chosen = heapq.nlargest(query.newest, chosen, key=lambda found: age_of(found.id))
    return heapq.nsmallest(query.limit, chosen, key=lambda found: (-found.score, found.id))


def _run(
    db: sqlite3.Connection,
    query: LexicalQuery,
    scopes: Scopes,
    where: Filter,
    values: dict[str, Any],
    how: tuple[bool, int],
) -> list[tuple[int, float]]:
    sql = statements("search")
    look, extra = how
    ranges = scopes.ranges(where)
    values["limit"] = (query.newest or query.limit) + extra
    if query.newest is not None:
        ranges = _newest_ranges(db, scopes.single_ranges(where), values, look=look)
    elif not look and len(ranges) > _MOST_RANGES:
        values["places"] = scopes.places(where)
        return db.execute(sql["best_anywhere"], values).fetchall()
    name = "filtered_in_range" if look else "best_in_range"
    found: list[tuple[int, float]] = []
    for values["low"], values["high"] in ranges:
        found += db.execute(sql[name], values).fetchall()
    return found


def _newest_ranges(
    db: sqlite3.Connection, ranges: list[tuple[int, int]], values: dict[str, Any], *, look: bool
) -> list[tuple[int, int]]:
    """Return the parts of `ranges` that hold the newest matches; they are found without being ranked, which is cheap."""
    statement = statements("search")["newest_filtered" if look else "newest_in_range"]
    limit: int = values["limit"]
    newest: list[int] = []
    least = 0
    for low, high in ranges:
        values["low"], values["high"] = low + least, high
        newest += [row for (row,) in db.execute(statement, values)]
        if len(newest) >= limit:
            newest = heapq.nlargest(limit, newest, key=age_of)
            least = age_of(newest[-1]) if newest else 0
    return [(low + least, high) for low, high in ranges if any(low <= row <= high for row in newest)]


def _facets(db: sqlite3.Connection, scopes: Scopes, where: Filter) -> list[str] | None:
    """Return the facets to demand (`+`) and to refuse (`-`); None when no row can have them."""
    sql = statements("search")
    facets = []
    ids = json.dumps(scopes.ids())
    if where.session_id is not None:
        sessions = [row[0] for row in db.execute(sql["session"], (where.session_id, ids))]
        if not sessions:
            return None
        facets += [f"+{'|'.join(f'n{number}|m{number}' for number in sessions)}"]
    if where.except_session is not None:
        facets += [f"-n{row[0]}" for row in db.execute(sql["session"], (where.except_session, ids))]
    if not where.include_superseded and db.execute(sql["any_superseded"]).fetchone():
        facets.append("-sp")
    return facets


def _with_facets(match: str, facets: list[str]) -> str:
    demanded = [f"facets : ({quoted(facet[1:].split('|'), ' OR ')})" for facet in facets if facet[0] == "+"]
    refused = [facet[1:] for facet in facets if facet[0] == "-"]
    whole = " AND ".join([*demanded, f"({match})"])
    return f"({whole}) NOT facets : ({quoted(refused, ' OR ')})" if refused else whole


class TermCounts:
    """In how many rows a term stands, remembered while the store has hardly changed."""

    def __init__(self) -> None:
        """Begin empty."""
        # Without a lock, which a forked child could inherit locked; single steps on a dictionary need none.
        self._known: dict[tuple[Any, ...], tuple[int, int, int]] = {}

    def get(self, db: sqlite3.Connection, terms: Sequence[str], where: Filter, ceiling: int) -> dict[str, int]:
        """Return the counts. In stores of more than some thousand rows they may be off by a twentieth."""
        scopes = scopes_of(db, where.reach)
        rows = scopes.size(where)
        seq: int = db.execute(statements("read")["sequence"]).fetchone()[0]
        if has_recent(db):
            seq = _UNSETTLED
        ranges = scopes.ranges(where)
        place: tuple[Any, ...] = (ceiling, *(ranges if len(ranges) <= _MOST_RANGES else [scopes.places(where)]))
        counts = {}
        for term in terms:
            known = self._known.get((term, *place))
            if known is None or ((seq != known[2] or seq == _UNSETTLED) and self._is_stale(known, rows)):
                known = (self._count(db, term, ranges, scopes.places(where), ceiling), rows, seq)
                if len(self._known) >= _CACHED_COUNTS:
                    self._known.clear()
                self._known[term, *place] = known
            counts[term] = known[0]
        return counts

    @staticmethod
    def _is_stale(known: tuple[int, int, int], rows: int) -> bool:
        """Tell whether a count is to be taken again; a small one is cheap to take and wrong by much after one write."""
        count, rows_then, _ = known
        return count < _SMALL_COUNT or rows <= _EXACT_ROWS or abs(rows - rows_then) * 20 > rows

    @staticmethod
    def _count(db: sqlite3.Connection, term: str, ranges: list[tuple[int, int]], places: str | None, ceiling: int) -> int:
        sql = statements("search")
        match = f'body : "{term}"'
        if len(ranges) > _MOST_RANGES:
            return int(db.execute(sql["count_anywhere"], (match, places, ceiling)).fetchone()[0])
        total = 0
        for low, high in ranges:
            if total < ceiling:
                total += db.execute(sql["count_in_range"], (match, low, high, ceiling - total)).fetchone()[0]
        return total


def terms_in(db: sqlite3.Connection, ids: Sequence[int], terms: Sequence[str]) -> dict[int, frozenset[str]]:
    """Return which terms stand in the body of each row."""
    padded = [(term, f" {term} ") for term in terms]
    wanted = frozenset(terms)
    found = {}
    name = "bodies_with_recent" if has_recent(db) else "bodies"
    for row, body in db.execute(statements("search")[name], (json.dumps(list(ids)),)):
        if len(padded) > _MOST_LOOKUPS:
            found[row] = wanted.intersection(body.split(" "))
        else:
            text = f" {body} "
            found[row] = frozenset(term for term, word in padded if word in text)
    return found
