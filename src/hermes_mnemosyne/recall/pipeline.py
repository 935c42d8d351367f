"""The read path over a store: analyse, search, fuse, boost, gate, pack."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes_mnemosyne.recall.analyse import QueryTerms, TextAnalyser
from hermes_mnemosyne.recall.boosts import Boosts, boosts_of, named_speaker
from hermes_mnemosyne.recall.fuse import fuse, merge, ranked, with_neighbours
from hermes_mnemosyne.recall.gate import Evidence, Judge, passing
from hermes_mnemosyne.recall.meaning import JUDGED, Meaning, as_leg, cosines
from hermes_mnemosyne.recall.overlay import Overlay, admits, frequencies, lexical_score, selected
from hermes_mnemosyne.recall.pack import budget_of, pack
from hermes_mnemosyne.recall.periods import periods_of
from hermes_mnemosyne.recall.plan import Plan, ceiling_of, counted_terms, plan_of
from hermes_mnemosyne.recall.questions import asks
from hermes_mnemosyne.store.protocol import Candidate, Filter, LexicalQuery, Store
from hermes_mnemosyne.values import Entry, Hit, RecallQuery, RecallResult, Turn

_FEWEST_CANDIDATES = 64
_SPARE = 12
_Score = Callable[[LexicalQuery, Mapping[str, int]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """What a recall weighs.

    `neighbour` is the share of a turn's score that the turns beside it get (0: none get any), `answer` the one that the turn after a
    question gets instead, `gate` the strength of evidence (0 to 1) that a strict recall demands, `likeness` what a row needs that has
    no word of the query, `whole` the strength from which a row with all known words of the query comes first, however alike others are.
    """

    boosts: Boosts = field(default_factory=Boosts)
    neighbour: float = 0.15
    answer: float = 0.4
    gate: float = 0.34
    likeness: float = 0.1
    whole: float = 0.6


@dataclass(slots=True)
class _Found:
    """What is known of the candidates of one recall, by row number; rows of the overlay have negative numbers.

    `whole` are rows found for all words at once. With `by_words` false words neither find rows nor raise them.
    """

    lexical: list[Candidate]
    whole: frozenset[int]
    by_words: bool = True
    scores: dict[int, float] = field(default_factory=dict)
    cosines: dict[int, float] = field(default_factory=dict)
    likeness: dict[int, float] = field(default_factory=dict)
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

    def recall(
        self, query: RecallQuery, where: Filter, *, now: str, overlay: Overlay | None = None, meaning: Meaning | None = None
    ) -> RecallResult:
        """Return the hits of `query` among the rows that `where` admits; `now` (UTC text) is what age is measured against.

        Of the query only text, limit, budgets, `strict` and `explain` count here: its conditions are in `where` already. Rows
        of the `overlay` join the answer, and stored rows that it replaces or hides leave it. With a `meaning` rows are found
        without a word of the query too.

        Raises what the store raises.
        """
        with self._store.together():
            return self._recalled(query, where, now, overlay or Overlay(), meaning)

    def _recalled(self, query: RecallQuery, where: Filter, now: str, overlay: Overlay, meaning: Meaning | None) -> RecallResult:
        fresh = [row for row in overlay.rows if row.uid not in overlay.hidden and admits(where, row)]
        where = dataclasses.replace(where, exclude=where.exclude | overlay.uids) if overlay.uids else where
        rows = self._store.size(where) + len(fresh)
        searched = rows if where.session_id is None or where.kinds != ("turn",) else self._store.session_turns(where) + len(fresh)
        asked = self._analyser.analyse_query(query.text)
        if not asked.terms:
            return RecallResult(query=query.text, notes=("empty-query",), searched=searched)
        if query.limit < 1 or not rows:
            return RecallResult(query=query.text, searched=searched)
        terms = counted_terms(asked)
        counts = self._store.term_counts(terms, where, ceiling=ceiling_of(rows, len(terms)))
        plan = plan_of(asked, counts, rows, max(_FEWEST_CANDIDATES, 2 * query.limit))
        by_words = meaning is None or not meaning.alone
        found = _Found(*(self._search(plan, where, query.limit) if by_words else ([], frozenset())), by_words=by_words)
        # What has no vector yet can only be found by words.
        self._add_fresh(found, fresh, asked, plan, lambda search, held: lexical_score(search, held, counts, rows))
        judge = Judge(asked.groups, counts, rows)
        if meaning is not None:
            self._add_alike(found, meaning, where)
        shares = (0.0, 0.0) if meaning is None else meaning.shares(self._best_evidence(found, asked, judge))
        self._fuse(found, where, plan.broad.limit // 2, shares, query.limit)
        order = self._order(found, asked, judge, where, now, query)
        if query.strict:
            order = passing(order[: query.limit], found.evidence.__getitem__, self._options.gate)
        budget = budget_of(query.budget_chars, query.budget_tokens)
        # Only a budget can pass over a hit, so that later ones are needed.
        hits = [self._hit(row, found, explain=query.explain) for row in (order[: query.limit] if budget is None else order)]
        packed, left_out = pack(hits, query.limit, budget)
        flags = {"bounded": plan.bounded, "cut-query": asked.cut or plan.shortened, "cut-budget": left_out}
        notes = tuple(name for name, is_set in flags.items() if is_set)
        return RecallResult(query=query.text, hits=tuple(packed), notes=notes, searched=searched)

    # -- which rows --------------------------------------------------------------------------------------------------------------

    def _search(self, plan: Plan, where: Filter, limit: int) -> tuple[list[Candidate], frozenset[int]]:
        """Return the candidates of the lexical leg, and which of them were found for all words at once."""
        candidates: list[Candidate] = []
        whole: list[Candidate] | None = None
        if plan.whole is not None and (plan.narrow is not None or plan.bounded):
            # Rows that hold every word come first in the end: enough are enough.
            whole = self._store.lexical(plan.whole, where)
            candidates = whole if len(whole) >= _window(limit) else []
        if plan.narrow is not None and not candidates:
            candidates = self._store.lexical(plan.narrow, where)
        if len(candidates) < limit:
            candidates = self._store.lexical(plan.broad, where)
        if whole is None and plan.whole is not None and len(candidates) >= plan.broad.limit:
            # They may stand behind many short ones that hold one of the words often.
            whole = self._store.lexical(plan.whole, where)
        return merge(candidates, whole) if whole else candidates, frozenset(candidate.id for candidate in whole or ())

    def _add_fresh(self, found: _Found, fresh: Sequence[Entry | Turn], asked: QueryTerms, plan: Plan, score: _Score) -> None:
        """Let rows of the overlay that match join the candidates."""
        joined = []
        for number, row in enumerate(fresh, 1):
            tokens = frequencies(self._tokens(row))
            held = {term: tokens[term] for term in asked.terms if term in tokens}
            if any(selected(search, held) for search in plan.searches):
                joined.append(Candidate(-number, max(score(search, held) for search in plan.searches)))
                found.rows[-number], found.held[-number] = row, frozenset(held)
        if joined:
            found.lexical = merge(found.lexical, joined)

    def _tokens(self, row: Entry | Turn) -> str:
        if isinstance(row, Entry):
            return self._analyser.entry_tokens(row.content, row.tags)
        return self._analyser.turn_tokens(row.content, row.speaker, row.occurred_at)

    def _add_alike(self, found: _Found, meaning: Meaning, where: Filter) -> None:
        """Note how alike the candidates are, and let rows join that are alike enough without a word of the query."""
        lexical = {candidate.id for candidate in found.lexical}
        found.cosines = cosines(self._store, meaning, where, [row for row in lexical if row > 0])
        for row, cosine in found.cosines.items():
            likeness = meaning.likeness(cosine)
            if likeness > 0.0 and (row in lexical or (likeness >= self._options.likeness and cosine >= meaning.least)):
                found.likeness[row] = likeness

    def _best_evidence(self, found: _Found, asked: QueryTerms, judge: Judge) -> float:
        """Return the strength of the best evidence that words found."""
        best = [candidate.id for candidate in found.lexical[:JUDGED]]
        found.held |= self._store.terms_in([row for row in best if row > 0], _judged(asked))
        return max((judge.evidence(found.held.get(row, frozenset())).strength for row in best), default=0.0)

    def _fuse(self, found: _Found, where: Filter, givers: int, shares: tuple[float, float], limit: int) -> None:
        """Score the candidates of both legs; the best `givers` of them share with the turns beside them."""
        turn, entry = shares
        found.scores = fuse(
            found.lexical, as_leg(found.likeness), lambda row: turn if row > 0 and self._store.is_turn(row) else entry
        )
        if not self._options.neighbour or "turn" not in where.kinds or not found.by_words:
            return
        giving = [row for row in ranked(found.scores)[:givers] if row > 0]
        beside = self._store.neighbours(giving)
        # The best are loaded sooner or later; to load the others for the little that they give is not worth it.
        best = [row for row in giving[: _window(limit)] if row in beside and beside[row].next is not None]
        if best:
            found.rows |= self._store.load(best)
        asking = {row for row in best if row in found.rows and asks(found.rows[row].content)}
        found.scores = with_neighbours(found.scores, beside, self._options.neighbour, asking=asking, answer=self._options.answer)

    # -- in which order ----------------------------------------------------------------------------------------------------------

    def _order(self, found: _Found, asked: QueryTerms, judge: Judge, where: Filter, now: str, query: RecallQuery) -> list[int]:
        """Load the best rows, boost them and return them best first."""
        best = ranked(found.scores)
        whole = itertools.islice(filter(found.whole.__contains__, best), query.limit)
        window = list(dict.fromkeys([*best[: _window(query.limit)], *whole]))
        found.rows |= self._store.load([row for row in window if row > 0 and row not in found.rows])
        matched = {candidate.id for candidate in found.lexical}.union(found.likeness)
        window = [row for row in window if row in found.rows and (row in matched or admits(where, found.rows[row]))]
        unjudged = [row for row in window if row > 0 and row not in found.held]
        if found.by_words and unjudged:
            found.held |= self._store.terms_in(unjudged, _judged(asked))
        speaker = self._speaker(asked, where) if "turn" in where.kinds else None
        boosts, periods = self._options.boosts, periods_of(query.text, now)
        for row in window:
            found.evidence[row] = judge.evidence(found.held.get(row, frozenset())).with_likeness(found.likeness.get(row, 0.0))
            found.boosts[row] = boosts_of(found.rows[row], speaker, now, boosts, periods)
            found.scores[row] *= math.prod(found.boosts[row].values())
        top = max((found.scores[row] for row in window), default=0.0)
        for row in window:
            # Whoever wrote all these words wanted them all: such rows come first, whatever the length of the others.
            found.scores[row] += top if self._holds_all(found.evidence[row], with_meaning=bool(found.likeness)) else 0.0
        return sorted(window, key=lambda row: (-found.scores[row], row))

    def _holds_all(self, evidence: Evidence, *, with_meaning: bool) -> bool:
        """Tell whether a row holds every word that stands anywhere.

        Of a question whose words hardly stand anywhere that says little; where there are meanings to go by, it is not enough.
        """
        return evidence.complete and (not with_meaning or evidence.strength >= self._options.whole)

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
        return Hit(score=found.scores[number], evidence=evidence.share, similarity=found.cosines.get(number), **shared)


_ENTRY_FIELDS = ("target", "tags", "importance", "pinned", "updated_at", "valid_until", "superseded_by", "origins")
_TURN_FIELDS = ("role", "speaker")


def _judged(asked: QueryTerms) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for group in asked.groups for term in (*group.parts, *group.wholes)))


def _window(limit: int) -> int:
    """Return how many of the best candidates are looked at closely, so that boosts can reorder them."""
    return limit + max(_SPARE, limit // 2)


def _explanation(number: int, found: _Found) -> dict[str, Any]:
    """Return why a row stands where it stands: the rank and score in each leg, its evidence, the factors of its boosts."""
    legs = {}
    for name, leg in (("lexical", found.lexical), ("vector", as_leg(found.likeness))):
        place = next((rank for rank, candidate in enumerate(leg, 1) if candidate.id == number), None)
        if place is not None:
            legs[name] = {"rank": place, "score": leg[place - 1].score}
    evidence = found.evidence[number]
    return {
        "legs": legs,
        "evidence": {
            "share": evidence.share,
            "strength": evidence.strength,
            "likeness": evidence.likeness,
            "complete": evidence.complete,
        },
        "boosts": dict(found.boosts[number]),
        "neighbour": not legs,
        "undrained": number < 0,
    }
