"""Rows that a store does not hold yet: accepted by the spool, to be seen by a recall all the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hermes_mnemosyne.store.protocol import Filter, LexicalQuery
from hermes_mnemosyne.text import holds
from hermes_mnemosyne.values import Entry, Turn

# The usual parameters of BM25; a row is taken to be of average length, since the store's average is not known here.
_SATURATION = 1.2
_AT_LEAST_PAIRED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Undrained changes: `rows` as they will be, and the uids of rows that are `hidden` because they will be gone."""

    rows: tuple[Entry | Turn, ...] = ()
    hidden: frozenset[str] = frozenset()

    @property
    def uids(self) -> frozenset[str]:
        """Every uid whose stored row must not be seen."""
        return self.hidden.union(row.uid for row in self.rows)


def admits(where: Filter, row: Entry | Turn) -> bool:
    """Tell whether a row fulfils every condition of a filter."""
    if not where.reach.covers(row.theme, row.subject) or row.kind not in where.kinds or row.uid in where.exclude:
        return False
    if where.session_id is not None and row.session_id != where.session_id:
        return False
    if where.contains is not None and not holds(row.content, where.contains):
        return False
    event = row.occurred_at or row.created_at
    if not _within(event, where.since, where.until) or not _within(row.created_at, where.written_since, where.written_until):
        return False
    if isinstance(row, Turn):
        return not where.tags and (where.except_session is None or row.session_id != where.except_session)
    return (
        (where.target is None or row.target == where.target)
        and set(where.tags).issubset(row.tags)
        and (where.include_superseded or row.superseded_by is None)
        and (where.now is None or row.valid_until is None or row.valid_until > where.now)
    )


def _within(at: str, since: str | None, until: str | None) -> bool:
    return (since is None or at >= since) and (until is None or at < until)


def selected(query: LexicalQuery, held: Mapping[str, int]) -> bool:
    """Tell whether a row that holds these terms is a candidate of a lexical query."""
    wanted = [term in held for term in query.required]
    if query.all_required:
        return bool(wanted) and all(wanted)
    return any(wanted) or sum(term in held for term in query.paired) >= _AT_LEAST_PAIRED


def lexical_score(query: LexicalQuery, held: Mapping[str, int], counts: Mapping[str, int], rows: int) -> float:
    """Return about the BM25 that a store would give to a row with these terms and their frequencies."""
    score = 0.0
    for term in {*query.required, *query.paired, *query.optional}.intersection(held):
        count = min(counts.get(term, 0), rows)
        weight = math.log(1.0 + (rows - count + 0.5) / (count + 0.5))
        score += weight * held[term] * (_SATURATION + 1.0) / (held[term] + _SATURATION)
    return score


def frequencies(tokens: str) -> Counter[str]:
    """Return how often each encoded token stands in an analysed text."""
    return Counter(tokens.split())
