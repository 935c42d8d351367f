"""The lexical leg: matches of a GIN index inside the reach, every filter applied before a limit."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.matching import (
    LONGEST_TERM,
    MOST_RANKED,
    Words,
    all_of,
    any_of,
    blocks_of,
    choice_of,
    quoted,
    scoring,
)
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.postgres.statistics import LEAST_ROWS
from hermes_mnemosyne.store.protocol import Candidate, Filter, LexicalQuery, Reach
from hermes_mnemosyne.store.scopes import ALL_SHELVES, ScopeRows, limits, needs_rows
from hermes_mnemosyne.store.writing.rows import TURN, age_of
from hermes_mnemosyne.text import storable

_KNOWN_REACHES = 64
# Where one row in so many of the store is not within reach, or one in so many is, rows of other scopes are left out after they are
# found; else each of up to so many scopes is searched for itself.
_LITTLE_WASTE, _MUCH_WASTE = 2.0, 8.0
_MOST_GROUPS, _MOST_GROUPS_OF_FEW = 64, 256
# The index compares each row of these scopes with each scope: beyond this product, rows of other scopes are left out afterwards.
_MOST_SCOPE_CHECKS = 200_000
# Of more places than this the newest part and the frequent words are taken to be those of the whole store.
_MOST_PLACES = 12
_CACHED_COUNTS = 8192
_SMALL_COUNT = 200
_AVERAGED = 1_000
_USUAL_WORDS = 30.0
# A bounded search looks at the newest rows, this much more of them than are expected to do; where fewer match than are asked for (or
# than a share of what may be ranked), at more of them. To look for more than half takes as long as to rank all.
_AMPLE, _WIDER, _MUCH_WIDER = 1.2, 1.5, 8.0
_ENOUGH = 4
_MOST_SHARE = 0.5


class Scopes(ScopeRows):
    """The scopes within a reach at a moment, and what follows from them for row numbers."""

    def __init__(self, db: Database, reach: Reach) -> None:
        """Read the scopes of `reach`, and the change number of the moment."""
        sql = statements("search")
        subject = None if reach.subject is None else storable(reach.subject)[0]
        if reach.themes is None:
            found = db.execute(sql["scopes_all"], (subject,)).fetchall()
        else:
            folded = sorted({storable(theme)[0].lower() for theme in reach.themes})
            found = db.execute(sql["scopes_of"], (subject, folded)).fetchall()
        super().__init__((row[2:] for row in found if row[2] is not None), reach)
        self.seq: int = found[0][0]
        self.is_partitioned: bool = found[0][1]

    def conditions(self, *, told: bool) -> dict[str, list[int] | None]:
        """Return the parameters of the statements that search for rows of these scopes; `told` when facets say which these are."""
        ids = None if self.everything else self.ids()
        return {"scopes": None if told else ids, "pruned": ids if self.is_partitioned else None}

    def places(self, where: Filter) -> list[int]:
        """Return the places (scope << 2 | shelf) that hold rows."""
        return [scope << 2 | shelf for scope, shelf in self.filled(where)]


# By connection, which belongs to one database.
_known: WeakKeyDictionary[Any, dict[Reach, Scopes]] = WeakKeyDictionary()


# Those of the recall that this thread is at.
_shared: ContextVar[dict[Hashable, Any] | None] = ContextVar("shared_answers", default=None)


@contextmanager
def sharing() -> Iterator[None]:
    """Let all searches of a block share what the first of them looks up: scopes, and what there is to filter by."""
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def once(key: Hashable, look_up: Callable[[], Any]) -> Any:
    """Return what `look_up` returns, asked once in a block of `sharing`."""
    shared = _shared.get()
    if shared is None:
        return look_up()
    if key not in shared:
        shared[key] = look_up()
    return shared[key]


def scopes_of(db: Database, reach: Reach) -> Scopes:
    """Return the scopes within a reach, those of very many remembered while the store does not change."""
    scopes: Scopes = once(reach, lambda: _looked_up(db, reach))
    return scopes


def _looked_up(db: Database, reach: Reach) -> Scopes:
    remembered = _known.setdefault(db.raw, {})
    known = remembered.get(reach)
    if known is not None and known.seq == db.execute(statements("search")["sequence"]).fetchone()[0]:
        return known
    scopes = Scopes(db, reach)
    if len(scopes.rows) > _MOST_PLACES:
        if len(remembered) >= _KNOWN_REACHES:
            remembered.clear()
        remembered[reach] = scopes
    return scopes


def params(where: Filter) -> dict[str, Any]:
    """Return the parameters of the filtering statements."""
    return {
        **limits(where),
        "session": _text(where.session_id),
        "except_session": _text(where.except_session),
        "contains": None if where.contains is None else unicodedata.normalize("NFC", storable(where.contains)[0]),
        "tags": [storable(tag)[0] for tag in where.tags] or None,
    }


def _text(name: str | None) -> str | None:
    return None if name is None else storable(name)[0]


def excluded_ids(db: Database, where: Filter) -> list[int]:
    """Return the row numbers of a filter's excluded uids."""
    if not where.exclude:
        return []
    names = sorted({storable(uid)[0] for uid in where.exclude})
    return [row[0] for row in db.execute(statements("read")["ids_by_uid"], (names,))]


def lexical(db: Database, query: LexicalQuery, where: Filter, counts: TermCounts | None = None) -> list[Candidate]:
    """Return the best matching rows, best first; `counts` are those that the store remembers."""
    query = _searchable(query)
    if not query.required and len(query.paired) < 2:  # noqa: PLR2004
        return []
    scopes = scopes_of(db, where.reach)
    if not scopes.size(where):
        return []
    values = params(where)
    expiring, facets = _facets(db, scopes, where, values)
    if facets is None:
        return []
    words = (counts or TermCounts()).words(db, (*query.required, *query.paired, *query.optional), where)
    groups, waste = _groups(scopes)
    values |= scoring(query, words)
    values |= {
        **scopes.conditions(told=bool(groups[0])),
        "skip": excluded_ids(db, where),
        "look": needs_rows(where),
        "expiring": expiring,
        "newest": query.newest,
        "limit": query.limit,
    }
    choice = choice_of(query, words, waste)
    wanted = query.newest or MOST_RANKED / waste
    share = min(1.0, _AMPLE * wanted / choice.expected) if choice.frequent and where.session_id is None else 1.0
    ages = _ages(db, scopes, where) if share <= _MOST_SHARE else []
    while True:
        is_part = share <= _MOST_SHARE and bool(ages)
        blocks = _blocks(ages, share) if is_part else ""
        values["matches"] = [choice.within(all_of((group, facets)), blocks) for group in groups]
        found = db.execute(statements("search")["best"], values, prepare=False).fetchall()
        matched = found[0][2] if found else 0
        if not is_part or matched >= (query.newest or wanted / _ENOUGH):
            return [Candidate(row, score) for row, score, _ in found]
        share *= max(_WIDER, _AMPLE * wanted / matched) if matched else _MUCH_WIDER


def _groups(scopes: Scopes) -> tuple[list[str], float]:
    """Return a facet for each scope, or an empty one for all, and how many times too many rows are looked at then.

    A facet for any of many scopes would be compared with every row of each.
    """
    ids, spread = scopes.ids(), scopes.seq / max(1, sum(sum(row[3:]) for row in scopes.rows))
    if not scopes.everything and (
        len(ids) == 1
        or (spread > _LITTLE_WASTE and len(ids) <= _MOST_GROUPS)
        or (spread > _MUCH_WASTE and len(ids) <= _MOST_GROUPS_OF_FEW)
    ):
        return [f"'/s{number}'" for number in ids], 1.0
    return [""], 1.0 if scopes.everything else max(1.0, spread / _LITTLE_WASTE)


def _searchable(query: LexicalQuery) -> LexicalQuery:
    """Leave out words that are too long for the index; a row that must hold one of them cannot be had."""
    terms = (*query.required, *query.paired, *query.optional)
    if all(len(term) <= LONGEST_TERM for term in terms):
        return query
    kept = [tuple(term for term in part if len(term) <= LONGEST_TERM) for part in (query.required, query.paired, query.optional)]
    if query.all_required and len(kept[0]) < len(query.required):
        kept[0] = ()
    return replace(query, required=kept[0], paired=kept[1], optional=kept[2])


def _facets(db: Database, scopes: Scopes, where: Filter, values: dict[str, Any]) -> tuple[bool, str | None]:
    """Return whether rows may be expired, and the facets that a row must have; None when no row can have them."""
    asked = {"scopes": scopes.ids(), "session": values["session"], "except_session": values["except_session"]}
    key = (where.reach, values["session"], values["except_session"])
    sessions, left_out, expiring, superseded = once(key, lambda: db.execute(statements("search")["facets"], asked).fetchone())
    if where.session_id is not None and not sessions:
        return False, None
    parts = [_shelf_facet(scopes, where)]
    if sessions:
        parts.append(any_of(f"'/{kind}{number}'" for number in sessions for kind in "nm"))
    parts += [f"!'/n{number}'" for number in left_out]
    if superseded and not where.include_superseded:
        parts.append("!'/sp'")
    return expiring and where.now is not None and not needs_rows(where), all_of(parts)


def _shelf_facet(scopes: Scopes, where: Filter) -> str:
    shelves = scopes.shelves(where)
    return any_of(f"'/k{shelf}'" for shelf in shelves) if len(shelves) < ALL_SHELVES else ""


def _ages(db: Database, scopes: Scopes, where: Filter) -> list[tuple[int, int]]:
    """Return the change numbers at which the oldest and the newest row of each place were made, or those of the whole store."""
    places = scopes.places(where)
    if len(places) > _MOST_PLACES:
        return [(0, scopes.seq)]
    found = db.execute(statements("search")["ages"], (places,)).fetchall()
    return [(age_of(low), age_of(high)) for _, low, high in found if low is not None]


def _blocks(ages: Sequence[tuple[int, int]], share: float) -> str:
    """Return the facets of about this share of the rows, the newest; rows are taken to have been made at a steady pace."""
    oldest = min(int(high - share * (high - low)) for low, high in ages)
    return blocks_of(max(oldest, 0), max(high for _, high in ages))


class TermCounts:
    """In how many rows a term stands, remembered while the store has hardly changed."""

    def __init__(self) -> None:
        """Begin empty."""
        # Without a lock, which a forked child could inherit locked; single steps on a dictionary need none.
        self._known: dict[tuple[Any, ...], tuple[int, int, int, int]] = {}
        self._averages: dict[tuple[Any, ...], tuple[float, int]] = {}

    def get(self, db: Database, terms: Sequence[str], where: Filter, ceiling: int) -> dict[str, int]:
        """Return the counts. In stores of more than some thousand rows they may be off by a twentieth."""
        scopes = scopes_of(db, where.reach)
        rows = scopes.size(where)
        place = (where.reach, where.kinds, where.target)
        counts = dict.fromkeys(terms, 0)
        if not rows:
            return counts
        missing = []
        for term in counts:
            known = self._known.get((term, *place))
            if known is None or self._is_stale(known, rows, scopes.seq) or known[0] == known[1] < ceiling:
                missing.append(term)
            else:
                counts[term] = min(known[0], ceiling)
        if missing:
            if len(self._known) >= _CACHED_COUNTS:
                self._known.clear()
            for term, (count, reached) in self._count(db, missing, scopes, where, ceiling).items():
                self._known[term, *place] = count, reached, rows, scopes.seq
                counts[term] = min(count, ceiling)
        return counts

    def words(self, db: Database, terms: Sequence[str], where: Filter) -> Words:
        """Return what ranking has to know of words; counts of a moment ago are good enough."""
        scopes = scopes_of(db, where.reach)
        sizes = scopes.sizes(where)
        rows = sum(sizes.values())
        place = (where.reach, where.kinds, where.target)
        counts = {}
        for term in terms:
            known = self._known.get((term, *place))
            if known is not None and not _has_changed(known[2], rows):
                counts[term] = known[0]
        unknown = [term for term in terms if term not in counts]
        if unknown:
            counts |= self.get(db, unknown, where, max(rows, 1))
        return Words(counts, rows, sizes.get(TURN, 0), self._average(db, scopes, where, rows))

    def _average(self, db: Database, scopes: Scopes, where: Filter, rows: int) -> float:
        place = (where.reach, where.kinds, where.target)
        known = self._averages.get(place)
        if known is None or _has_changed(known[1], rows):
            counted, words, _ = _listed(db, (), scopes, where)
            value = words / counted if counted * 2 >= rows > 0 else None
            if value is None:
                asked = (scopes.ids(), scopes.places(where), _AVERAGED)
                value = db.execute(statements("search")["average"], asked).fetchone()[0]
            if len(self._averages) >= _CACHED_COUNTS:
                self._averages.clear()
            known = self._averages[place] = value or _USUAL_WORDS, rows
        return known[0]

    @staticmethod
    def _is_stale(known: tuple[int, int, int, int], rows: int, seq: int) -> bool:
        """Tell whether a count is to be taken again; a small one is cheap to take and wrong by much after one write."""
        count, _, rows_then, seq_then = known
        return seq != seq_then and (count < _SMALL_COUNT or rows < LEAST_ROWS or _has_changed(rows_then, rows))

    @staticmethod
    def _count(db: Database, terms: Sequence[str], scopes: Scopes, where: Filter, ceiling: int) -> dict[str, tuple[int, int]]:
        """Return each count and up to which number was counted; frequent words are those of the last count in the background."""
        rows = scopes.size(where)
        counts = {}
        if rows >= LEAST_ROWS:
            counted, _, listed = _listed(db, terms, scopes, where)
            if counted * 2 >= rows:
                counts = {term: (min(rows, round(count * rows / counted)), sys.maxsize) for term, count in listed.items()}
        sought = [term for term in terms if term not in counts and len(term) <= LONGEST_TERM]
        ids = scopes.ids()
        is_told = not scopes.everything and (len(ids) == 1 or len(ids) * rows <= _MOST_SCOPE_CHECKS)
        facets = all_of([any_of(f"'/s{number}'" for number in ids) if is_told else "", _shelf_facet(scopes, where)])
        values = {
            "terms": sought,
            "matches": [all_of([facets, f"'{term}':A"]) for term in sought],
            **scopes.conditions(told=is_told),
            "ceiling": ceiling,
        }
        found = dict(db.execute(statements("search")["count"], values, prepare=False).fetchall()) if sought else {}
        return counts | {term: (found.get(term, 0), ceiling) for term in terms if term not in counts}


def _listed(db: Database, terms: Sequence[str], scopes: Scopes, where: Filter) -> tuple[int, int, dict[str, int]]:
    """Return rows and words within reach and the rows of those terms that are listed as frequent, as of the last count."""
    places = scopes.places(where)
    if len(places) > _MOST_PLACES:
        places = [-1 - shelf for shelf in scopes.shelves(where)]
    (_, rows, words), *listed = db.execute(statements("search")["listed"], (places, list(terms))).fetchall()
    return rows, words, {term: count for term, count, _ in listed}


def _has_changed(then: int, now: int) -> bool:
    return abs(now - then) * 20 > now


def terms_in(db: Database, ids: Sequence[int], terms: Sequence[str]) -> dict[int, frozenset[str]]:
    """Return which terms stand in the body of each row."""
    sought = [term for term in terms if len(term) <= LONGEST_TERM]
    matches = [f"{word}:A" for word in quoted(sought)]
    rows = db.execute(statements("search")["words_held"], (list(ids), sought, matches))
    return {row: frozenset(held) for row, held in rows}


def session_turns(db: Database, where: Filter) -> int:
    """Return the number of turns within reach of the filter's session."""
    ids = scopes_of(db, where.reach).ids()
    count: int = db.execute(statements("search")["session_turns"], (_text(where.session_id), ids)).fetchone()[0]
    return count
