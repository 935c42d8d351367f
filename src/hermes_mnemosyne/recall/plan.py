"""Which terms of a query choose the rows, and in which searches: pure functions over the counts of terms."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hermes_mnemosyne.recall.analyse import QueryTerms
from hermes_mnemosyne.store.protocol import LexicalQuery

COMMON_SHARE = 0.05
"""A term in more than this share of the rows may be common."""
MATCH_BUDGET = 20_000
"""Rows that a query may be expected to match before its common terms stop choosing rows."""
NEWEST = 2_000
"""Newest matching rows that are looked at where only common terms remain."""
MAX_SEARCH_TERMS = 64
"""Terms of a query that are searched for, the rarest; the others still count as evidence."""
_EXACT_COUNT = 2_000
_LONG_COUNT = 500
# Matches that are ranked without a second thought: a store finds rows thirty times faster than it ranks them.
_CHEAP = 1_000
# A part of a compound in at most this many rows chooses rows however rare the other parts are.
_FEW = 200
_MOST_PAIRED = 3
_MOST_WHOLE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The searches of one recall.

    `whole` finds rows that hold every known word, `narrow` those with a rare word or two frequent ones, `broad` all that may
    answer; where `broad` would rank many rows there is a `narrow` one to be tried first. `bounded` tells that only the newest matches are looked at, `shortened` that terms
    were left out.
    """

    broad: LexicalQuery
    narrow: LexicalQuery | None = None
    whole: LexicalQuery | None = None
    bounded: bool = False
    shortened: bool = False

    @property
    def searches(self) -> tuple[LexicalQuery, ...]:
        """Every search of the plan."""
        return tuple(search for search in (self.narrow, self.broad, self.whole) if search is not None)


def counted_terms(asked: QueryTerms) -> tuple[str, ...]:
    """Return the terms whose counts a plan needs: all but stop words, unless there is nothing else."""
    stop = {part for group in asked.groups if group.stop for part in group.parts} & asked.weak
    return tuple(term for term in asked.terms if term not in stop) or asked.terms


def ceiling_of(rows: int, terms: int) -> int:
    """Return up to which number each of `terms` terms must be counted among `rows` rows."""
    if terms > MAX_SEARCH_TERMS:
        # Only the rarest of so many are searched for.
        return _LONG_COUNT
    return max(MATCH_BUDGET, int(rows * COMMON_SHARE)) + 1 if rows > MATCH_BUDGET else _EXACT_COUNT


def plan_of(asked: QueryTerms, counts: Mapping[str, int], rows: int, limit: int) -> Plan:
    """Return the searches for a query with at least one term; `counts` are those of `counted_terms` among `rows` rows."""
    terms = counted_terms(asked)
    if all(group.stop for group in asked.groups):
        bounded = min(counts.get(term, 0) for term in terms) > MATCH_BUDGET
        newest = NEWEST if bounded else None
        search = LexicalQuery(required=terms[:MAX_SEARCH_TERMS], all_required=True, newest=newest, limit=limit)
        return Plan(broad=search, bounded=bounded)
    searched = _rarest(terms, counts, MAX_SEARCH_TERMS)
    strong = _choosing(asked, searched, counts)
    common = _common(strong, counts, rows)
    required = [term for term in strong if term not in common]
    weak = [term for term in searched if term not in strong]
    shortened = len(searched) < len(terms)
    whole = _whole(asked, counts, limit)
    if not required and common:
        search = LexicalQuery(required=tuple(common), optional=tuple(weak), newest=NEWEST, limit=limit)
        return Plan(broad=search, whole=whole, bounded=True, shortened=shortened)
    paired, rest = common[:_MOST_PAIRED], common[_MOST_PAIRED:]
    if not required:
        # Nothing but single letters of compounds is left: they choose.
        required, weak = weak, []
    broad = LexicalQuery(required=tuple(required), paired=tuple(paired), optional=(*rest, *weak), limit=limit)
    return Plan(broad=broad, narrow=_narrow(asked, broad, counts), whole=whole, shortened=shortened)


def _choosing(asked: QueryTerms, searched: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    """Return the searched terms that may choose rows: not weak, and of a compound none much more frequent than its rarest part."""
    limits: dict[str, int] = {}
    for group in asked.groups:
        known = [counts[part] for part in group.parts if part not in asked.weak and counts.get(part)]
        most = max(_FEW, min(known, default=0)) if len(group.parts) > 1 else MATCH_BUDGET + 1
        for term in (*group.parts, *group.joined, *group.wholes):
            limits[term] = max(most, limits.get(term, 0))
    return [term for term in searched if term not in asked.weak and min(counts.get(term, 0), MATCH_BUDGET + 1) <= limits[term]]


def _common(strong: Sequence[str], counts: Mapping[str, int], rows: int) -> list[str]:
    """Return the terms that are too common to choose rows, the rarest first."""
    if min(rows, sum(counts.get(term, 0) for term in strong)) <= MATCH_BUDGET:
        return []
    frequent = [term for term in strong if counts.get(term, 0) > rows * COMMON_SHARE]
    return sorted(frequent, key=lambda term: counts[term])


def _narrow(asked: QueryTerms, broad: LexicalQuery, counts: Mapping[str, int]) -> LexicalQuery | None:
    """Return a search for rows with a rare word or two frequent ones, None where everything is cheap to rank."""
    if sum(counts.get(term, 0) for term in broad.required) <= _CHEAP:
        return None
    by_count = sorted(broad.required, key=lambda term: counts.get(term, 0))
    totals = itertools.accumulate(counts.get(term, 0) for term in by_count)
    rare = {term for term, total in zip(by_count, totals, strict=True) if total <= _CHEAP}
    group_of = {part: group for group in asked.groups for part in group.parts}
    # Parts of one compound stand together anyway: a pair of them says no more than one.
    apart = {group_of[term]: term for term in reversed(by_count) if term in group_of and term not in rare}
    paired = [term for term in by_count if term in apart.values()] + list(broad.paired)
    paired = paired[:_MOST_PAIRED] if len(paired) > 1 else []
    if not rare and not paired:
        return None
    optional = [term for term in (*broad.required, *broad.paired, *broad.optional) if term not in rare and term not in paired]
    required = tuple(term for term in broad.required if term in rare)
    return LexicalQuery(required=required, paired=tuple(paired), optional=tuple(optional), limit=broad.limit)


def _whole(asked: QueryTerms, counts: Mapping[str, int], limit: int) -> LexicalQuery | None:
    """Return a search for rows that hold every word that stands anywhere, compounds whole where they stand whole anywhere."""
    terms: set[str] = set()
    for group in asked.groups:
        if not group.stop:
            whole = max(group.wholes, key=lambda term: counts.get(term, 0), default="")
            terms.update([whole] if counts.get(whole) else (part for part in group.parts if counts.get(part)))
    single = len(terms) == 1 and all(len(group.parts) == 1 for group in asked.groups)
    if asked.cut or single or not 0 < len(terms) <= _MOST_WHOLE:
        return None
    return LexicalQuery(required=tuple(sorted(terms)), all_required=True, limit=limit)


def _rarest(terms: Sequence[str], counts: Mapping[str, int], most: int) -> list[str]:
    """Return at most `most` terms in their order: the rarest of those that stand anywhere, then unknown ones."""
    if len(terms) <= most:
        return list(terms)
    known = sorted((term for term in terms if counts.get(term)), key=lambda term: counts[term])
    chosen: Iterable[str] = itertools.islice(itertools.chain(known, (term for term in terms if not counts.get(term))), most)
    kept = set(chosen)
    return [term for term in terms if term in kept]
