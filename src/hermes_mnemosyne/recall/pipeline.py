"""The read path over a store: analyse, search, fuse, boost, gate, pack."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes_mnemosyne.recall.analyse import QueryTerms, TextAnalyser
from hermes_mnemosyne.recall.boosts import Boosts, boosts_of, named_speaker
from hermes_mnemosyne.recall.fuse import Leg, fuse, merge, ranked, with_neighbours
from hermes_mnemosyne.recall.gate import Evidence, Judge, passing
from hermes_mnemosyne.recall.overlay import Overlay, admits, frequencies, lexical_score, selected
from hermes_mnemosyne.recall.pack import budget_of, pack
from hermes_mnemosyne.store.protocol import Candidate, Filter, LexicalQuery, Store
from hermes_mnemosyne.values import Entry, Hit, RecallQuery, RecallResult, Turn

COMMON_SHARE = 0.05
"""A term in more than this share of the rows may be common."""
MATCH_BUDGET = 20_000
"""Rows that a query may be expected to match before its common terms stop selecting rows."""
NEWEST = 2_000
"""Newest matching rows that are looked at where only common terms remain."""
MAX_SEARCH_TERMS = 64
"""Terms of a query that are searched for, the rarest; the others still count as evidence."""
_EXACT_COUNT = 2_000
_MOST_PAIRED = 4
_MOST_COMPLETE = 12
_FEWEST_CANDIDATES = 64
_SPARE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """What a recall weighs.

    `neighbour` is the share of a turn's score that the turns beside it get, `gate` the strength of evidence (0 to 1) that a
    strict recall demands.
    """

    boosts: Boosts = field(default_factory=Boosts)
    neighbour: float = 0.2
    gate: float = 0.34


@dataclass(frozen=True, slots=True)
class _Plan:
    """The searches of one recall and the counts of its terms. `bounded` tells that only the newest matches are looked at."""

    searches: tuple[LexicalQuery, ...]
    counts: Mapping[str, int]
    rows: int
    bounded: bool = False
    shortened: bool = False


@dataclass(slots=True)
class _Found:
    """What is known of the candidates of one recall, by row number; rows of the overlay have negative numbers.

    `whole` are rows found for all words at once.
    """

    lexical: list[Candidate]
    whole: frozenset[int]
    scores: dict[int, float]
    rows: dict[int, Entry | Turn] = field(default_factory=dict)
    held: dict[int, frozenset[str]] = field(default_factory=dict)
    evidence: dict[int, Evidence] = field(default_factory=dict)
    boosts: dict[int, dict[str, float]] = field(default_factory=dict)


class Recaller:
    """Answers recalls over one store. Holds no state of its own; safe from any thread."""

    def __init__(self, store: Store, analyser: TextAnalyser, options: RecallOptions | None = None) -> None:
        """Recall from `store`, whose index holds the tokens of `analyser`."""
        self._store = store
        self._analyser = analyser
        self._options = options or RecallOptions()

    def recall(self, query: RecallQuery, where: Filter, *, now: str, overlay: Overlay | None = None) -> RecallResult:
        """Return the hits of `query` among the rows that `where` admits; `now` (UTC text) is what age is measured against.

        Of the query only text, limit, budgets, `strict` and `explain` count here: its conditions are in `where` already. Rows
        of the `overlay` join the answer, and stored rows that it replaces or hides leave it.

        Raises what the store raises.
        """
        overlay = overlay or Overlay()
        fresh = [row for row in overlay.rows if row.uid not in overlay.hidden and admits(where, row)]
        where = dataclasses.replace(where, exclude=where.exclude | overlay.uids) if overlay.uids else where
        rows = self._store.size(where) + len(fresh)
        asked = self._analyser.analyse_query(query.text)
        if not asked.terms:
            return RecallResult(query=query.text, notes=("empty-query",), searched=rows)
        if query.limit < 1 or not rows:
            return RecallResult(query=query.text, searched=rows)
        plan = self._plan(asked, where, rows, max(_FEWEST_CANDIDATES, 2 * query.limit))
        found = self._search(asked, plan, where, fresh)
        judge = Judge(asked.groups, plan.counts, rows)
        order = self._order(found, asked, judge, where, now, query.limit)
        if query.strict:
            order = passing(order[: query.limit], found.evidence.__getitem__, self._options.gate)
        budget = budget_of(query.budget_chars, query.budget_tokens)
        # Only a budget can pass over a hit, so that later ones are needed.
        hits = [self._hit(row, found, explain=query.explain) for row in (order[: query.limit] if budget is None else order)]
        packed, left_out = pack(hits, query.limit, budget)
        flags = {"bounded": plan.bounded, "cut-query": asked.cut or plan.shortened, "cut-budget": left_out}
        notes = tuple(name for name, is_set in flags.items() if is_set)
        return RecallResult(query=query.text, hits=tuple(packed), notes=notes, searched=rows)

    # -- which rows --------------------------------------------------------------------------------------------------------------

    def _plan(self, asked: QueryTerms, where: Filter, rows: int, limit: int) -> _Plan:
        """Choose the terms that select rows: all that are not common."""
        stop = {term for group in asked.groups if group.stop for term in group.parts} & asked.weak
        terms = [term for term in asked.terms if term not in stop]
        if not terms:
            return self._plan_of_stop_words(asked, where, rows, limit)
        ceiling = max(MATCH_BUDGET, int(rows * COMMON_SHARE)) + 1 if rows > MATCH_BUDGET else _EXACT_COUNT
        counts = self._store.term_counts(terms, where, ceiling=ceiling)
        searched = _rarest(terms, counts, MAX_SEARCH_TERMS)
        strong = [term for term in searched if term not in asked.weak]
        weak = [term for term in searched if term in asked.weak]
        common = {term for term in strong if counts.get(term, 0) > rows * COMMON_SHARE}
        if min(rows, sum(counts.get(term, 0) for term in strong)) <= MATCH_BUDGET:
            common = set()
        required = tuple(term for term in strong if term not in common)
        frequent = sorted(common, key=lambda term: counts[term])
        paired, rest = tuple(frequent[:_MOST_PAIRED]), (*frequent[_MOST_PAIRED:], *weak)
        if required or not common:
            chosen = required or tuple(weak)
            searches = [LexicalQuery(required=chosen, paired=paired, optional=tuple(rest), limit=limit)]
        else:
            searches = [LexicalQuery(required=tuple(frequent), optional=tuple(weak), newest=NEWEST, limit=limit)]
        complete = {part for group in asked.groups if not group.stop for part in group.parts}
        if len(complete) in range(2, _MOST_COMPLETE + 1) and not asked.cut:
            searches.append(LexicalQuery(required=tuple(sorted(complete)), all_required=True, limit=limit))
        return _Plan(tuple(searches), counts, rows, not required and bool(common), len(searched) < len(terms))

    def _plan_of_stop_words(self, asked: QueryTerms, where: Filter, rows: int, limit: int) -> _Plan:
        """Ask for the rows that hold all words; where even the rarest stands in thousands of rows, for the newest of them."""
        counts = self._store.term_counts(asked.terms, where, ceiling=MATCH_BUDGET)
        bounded = min(counts.get(term, 0) for term in asked.terms) >= MATCH_BUDGET
        newest = NEWEST if bounded else None
        required = asked.terms[:MAX_SEARCH_TERMS]
        search = LexicalQuery(required=required, all_required=True, newest=newest, limit=limit)
        return _Plan((search,), counts, rows, bounded)

    def _search(self, asked: QueryTerms, plan: _Plan, where: Filter, fresh: Sequence[Entry | Turn]) -> _Found:
        """Search the store and the fresh rows, and let neighbours share."""
        first, *others = plan.searches
        candidates = self._store.lexical(first, where)
        whole: list[Candidate] = []
        if len(candidates) >= first.limit:
            # Rows that hold every word may stand behind many short ones that hold one of them often.
            whole = merge(*(self._store.lexical(other, where) for other in others))
            candidates = merge(candidates, whole) if whole else candidates
        held: dict[int, frozenset[str]] = {}
        rows: dict[int, Entry | Turn] = {}
        for number, row in enumerate(fresh, 1):
            tokens = frequencies(self._tokens(row))
            present = {term: tokens[term] for term in asked.terms if term in tokens}
            if any(selected(search, present) for search in plan.searches):
                score = max(lexical_score(search, present, plan.counts, plan.rows) for search in plan.searches)
                candidates = merge(candidates, [Candidate(-number, score)])
                rows[-number], held[-number] = row, frozenset(present)
        scores = fuse([Leg("lexical", candidates)])
        if self._options.neighbour and "turn" in where.kinds:
            stored = [row for row in ranked(scores)[: first.limit // 2] if row > 0]
            scores = with_neighbours(scores, self._store.neighbours(stored), self._options.neighbour)
        return _Found(candidates, frozenset(candidate.id for candidate in whole), scores, rows, held)

    def _tokens(self, row: Entry | Turn) -> str:
        if isinstance(row, Entry):
            return self._analyser.entry_tokens(row.content, row.tags)
        return self._analyser.turn_tokens(row.content, row.speaker, row.occurred_at)

    # -- in which order ----------------------------------------------------------------------------------------------------------

    def _order(self, found: _Found, asked: QueryTerms, judge: Judge, where: Filter, now: str, limit: int) -> list[int]:
        """Load the best rows, boost them and return them best first."""
        best = ranked(found.scores)
        size = limit + max(_SPARE, limit // 2)
        window = list(dict.fromkeys([*best[:size], *itertools.islice(filter(found.whole.__contains__, best), limit)]))
        stored = [row for row in window if row > 0]
        found.rows |= self._store.load(stored)
        matched = {candidate.id for candidate in found.lexical}
        window = [row for row in window if row in found.rows and (row in matched or admits(where, found.rows[row]))]
        found.held |= self._store.terms_in([row for row in window if row > 0], _judged(asked))
        speaker = self._speaker(asked, where) if "turn" in where.kinds else None
        boosts = self._options.boosts
        for row in window:
            found.evidence[row] = judge.evidence(found.held.get(row, frozenset()))
            found.boosts[row] = boosts_of(found.rows[row], speaker, now, boosts)
            found.scores[row] *= math.prod(found.boosts[row].values())
        top = max((found.scores[row] for row in window), default=0.0)
        for row in window:
            # Whoever wrote all these words wanted them all: such rows come first, whatever the length of the others.
            found.scores[row] += top if found.evidence[row].complete else 0.0
        return sorted(window, key=lambda row: (-found.scores[row], row))

    def _speaker(self, asked: QueryTerms, where: Filter) -> str | None:
        words = frozenset(asked.terms) - asked.weak
        return named_speaker(self._store.speakers(where.reach), words, lambda name: self._analyser.entry_tokens(name, ()))

    @staticmethod
    def _hit(number: int, found: _Found, *, explain: bool) -> Hit:
        row = found.rows[number]
        shared: dict[str, Any] = {
            name: getattr(row, name)
            for name in ("uid", "kind", "theme", "content", "subject", "session_id", "created_at", "occurred_at")
        }
        own = _ENTRY_FIELDS if isinstance(row, Entry) else _TURN_FIELDS
        shared |= {name: getattr(row, name) for name in own}
        evidence = found.evidence[number]
        if explain:
            shared["explain"] = _explanation(number, found)
        return Hit(score=found.scores[number], evidence=evidence.share, **shared)


_ENTRY_FIELDS = ("target", "tags", "importance", "pinned", "updated_at", "valid_until", "superseded_by", "origins")
_TURN_FIELDS = ("role", "speaker")


def _judged(asked: QueryTerms) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for group in asked.groups for term in (*group.parts, *group.wholes)))


def _rarest(terms: Sequence[str], counts: Mapping[str, int], most: int) -> list[str]:
    """Return at most `most` terms in their order: the rarest of those that stand anywhere, then unknown ones."""
    if len(terms) <= most:
        return list(terms)
    known = sorted((term for term in terms if counts.get(term)), key=lambda term: counts[term])
    chosen: Iterable[str] = itertools.islice(itertools.chain(known, (term for term in terms if not counts.get(term))), most)
    kept = set(chosen)
    return [term for term in terms if term in kept]


def _explanation(number: int, found: _Found) -> dict[str, Any]:
    """Return why a row stands where it stands: the rank and score in each leg, its evidence, the factors of its boosts."""
    place = next((rank for rank, candidate in enumerate(found.lexical, 1) if candidate.id == number), None)
    legs = {} if place is None else {"lexical": {"rank": place, "score": found.lexical[place - 1].score}}
    evidence = found.evidence[number]
    return {
        "legs": legs,
        "evidence": {"share": evidence.share, "strength": evidence.strength, "complete": evidence.complete},
        "boosts": dict(found.boosts[number]),
        "neighbour": place is None,
        "undrained": number < 0,
    }
