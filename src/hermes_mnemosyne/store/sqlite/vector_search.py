"""The vector leg: the rows nearest by cosine, every filter applied inside the search."""

from __future__ import annotations

import heapq
import json
import sqlite3
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.store.protocol import Candidate, Filter
from hermes_mnemosyne.store.sqlite.search import Scopes, excluded_ids, needs_rows, params, quoted, scopes_of
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.sqlite.vector_blocks import Choice, Found
from hermes_mnemosyne.store.sqlite.vector_cache import VectorCache
from hermes_mnemosyne.store.sqlite.vector_math import cosines, packed

# So many of the nearest rows are looked at one by one for conditions on the row before all rows are.
_LOOKED = 800
_GROWTH = 4


def nearest(
    db: sqlite3.Connection, cache: VectorCache, key: str, vector: Sequence[float], where: Filter, limit: int
) -> list[Candidate]:
    """Return the rows nearest to a vector, best first, ties by row number; to be called inside a read transaction."""
    found = db.execute(statements("vectors")["model"], (key,)).fetchone()
    blob, _ = packed(vector)
    if found is None or limit <= 0:
        return []
    model, dimension, _ = found
    if dimension != len(vector):
        raise InvalidInput(f"the vectors of model {key!r} have {dimension} dimensions, not {len(vector)}")
    scopes = scopes_of(db, where.reach)
    choice = _choice(db, scopes, where)
    if not choice.ranges or choice.allowed == []:
        return []
    view = cache.view(db, model, dimension)
    looks = needs_rows(where)
    wanted = view.candidates(limit)
    # Whole vectors give the right order whoever is gone; of sketches some may be.
    enough = limit if view.kernel.whole else wanted - wanted // 4
    count = max(wanted, _LOOKED) if looks else wanted
    while True:
        chosen = view.nearest(blob, choice, count)
        live = _read(db, chosen, where if looks else None)
        if not looks and len(live) < len(chosen):
            view.dead.update(stamp for _, stamp in chosen if stamp not in live)
        if len(live) >= enough or len(chosen) < count:
            break
        if looks:
            choice, looks = _looked_through(db, choice, where), False
        else:
            count *= _GROWTH
    rows = [row for row, _ in live.values()]
    scored = zip(cosines(blob, [data for _, data in live.values()]), rows, strict=True) if live else ()
    best = heapq.nsmallest(limit, scored, key=lambda pair: (-pair[0], pair[1]))
    return [Candidate(row, score) for score, row in best]


def _read(db: sqlite3.Connection, chosen: Found, where: Filter | None) -> dict[int, tuple[int, bytes]]:
    """Return the rows and vectors of those stamps that are still there, and pass a filter; in the order of the file."""
    sql = statements("vectors")
    stamps = json.dumps(sorted(stamp for _, stamp in chosen))
    if where is None:
        found = db.execute(sql["by_stamp"], (stamps,))
    else:
        found = db.execute(sql["by_stamp_passing"], {**params(where), "stamps": stamps})
    return {stamp: (row, data) for stamp, row, data in found}


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


def _looked_through(db: sqlite3.Connection, choice: Choice, where: Filter) -> Choice:
    """Return the choice narrowed to the rows that pass the conditions on rows, all rows looked at."""
    sql = statements("vectors")
    values: dict[str, Any] = params(where)
    allowed: list[int] = []
    for values["low"], values["high"] in choice.ranges:
        for kind in where.kinds:
            name = "passing_entries" if kind == "entry" else "passing_turns"
            allowed += [row for (row,) in db.execute(sql[name], values)]
    if choice.allowed is not None:
        allowed = list(set(allowed).intersection(choice.allowed))
    return replace(choice, allowed=sorted(allowed))


def cosines_of(db: sqlite3.Connection, key: str, vector: Sequence[float], ids: Sequence[int]) -> dict[int, float]:
    """Return the cosine of each of these rows that has a vector of the model."""
    sql = statements("vectors")
    blob, _ = packed(vector)
    found = db.execute(sql["model"], (key,)).fetchone()
    if found is None:
        return {}
    if found[1] != len(vector):
        raise InvalidInput(f"the vectors of model {key!r} have {found[1]} dimensions, not {len(vector)}")
    pairs = db.execute(sql["by_row"], (found[0], json.dumps(list(ids)))).fetchall()
    return dict(zip((row for row, _ in pairs), cosines(blob, [data for _, data in pairs]), strict=True)) if pairs else {}
