"""Evidence that a row answers a query, independent of its rank, and the gate that demands enough of it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hermes_mnemosyne.recall.analyse import QueryGroup

# Rows that are assumed beside those of the store, so that a word of one of three memories still counts as a rare one.
_PRIOR_ROWS = 300
# A long message is judged by this many of its rarest words: no single memory holds a fair share of a page.
_LONGEST = 6
# Identifiers and other compounds say more about what is meant than a plain word.
_COMPOUND_WEIGHT = 1.5
_SYMBOLIC_SHARE = 0.5
# All parts of a compound, but apart, where other rows hold it whole.
_APART_SHARE = 0.9
# What a likeness of one is worth beside words: texts with a likeness of a half have to do with each other for certain.
LIKENESS_WORTH = 0.8


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a row holds of a query.

    `share` (0 to 1) is the part of the weight of its words; `strength` the same, measured against the heaviest few words only;
    `complete` tells that no word is missing, but for words that stand nowhere. `likeness` (0 to 1) is that of their meanings.
    """

    share: float = 0.0
    strength: float = 0.0
    complete: bool = False
    likeness: float = 0.0

    def with_likeness(self, likeness: float) -> Evidence:
        """Return the same evidence with a likeness."""
        return replace(self, likeness=likeness) if likeness else self

    @property
    def total(self) -> float:
        """The strength of words or meaning, whichever says more, on the scale of `strength`."""
        return max(self.strength, LIKENESS_WORTH * self.likeness)


def rarity(count: int, rows: int) -> float:
    """Return the weight of a term that stands in `count` of `rows` rows: its inverse document frequency, never negative."""
    total = max(rows, count) + _PRIOR_ROWS
    return math.log(1.0 + (total - count + 0.5) / (count + 0.5))


class Judge:
    """Measures rows against the words of one query."""

    def __init__(self, groups: Sequence[QueryGroup], counts: Mapping[str, int], rows: int) -> None:
        """Weigh the words by `counts` of `rows`; an unknown one weighs most. Stop words count only when there is nothing else."""
        judged = [group for group in groups if not group.stop] or list(groups)
        weighed = [(group, [rarity(counts.get(part, 0), rows) for part in group.parts]) for group in judged]
        weights = [_weight(group, rarities) for group, rarities in weighed]
        self._known = {part for group in judged for part in group.parts if counts.get(part)}
        # Most words are plain: kept apart, they cost one look-up each.
        self._plain = [(group.parts[0], rarities[0]) for group, rarities in weighed if _is_plain(group)]
        self._compound = [(group, rarities, _apart_share(group, counts)) for group, rarities in weighed if not _is_plain(group)]
        self._total = sum(weights)
        self._heaviest = sum(heapq.nlargest(_LONGEST, weights))

    def evidence(self, held: Collection[str]) -> Evidence:
        """Return the evidence of a row that holds the terms `held` in its own text."""
        weights = [weight for part, weight in self._plain if part in held]
        found, complete = sum(weights), all(part in held for part, _ in self._plain if part in self._known)
        for group, rarities, apart in self._compound:
            covered = 1.0 if any(whole in held for whole in group.wholes) else apart * _parts_share(group, rarities, held)
            complete = complete and (covered == 1.0 or not self._known.intersection(group.parts))
            found += _weight(group, rarities) * covered
        if not found:
            return Evidence()
        return Evidence(min(1.0, found / self._total), min(1.0, found / self._heaviest), complete)


def _is_plain(group: QueryGroup) -> bool:
    return len(group.parts) == 1 and not group.wholes


def _weight(group: QueryGroup, rarities: Sequence[float]) -> float:
    return max(rarities) if _is_plain(group) else _COMPOUND_WEIGHT * max(rarities)


def _apart_share(group: QueryGroup, counts: Mapping[str, int]) -> float:
    """Return what the parts of a compound are worth where they do not stand together."""
    if group.symbolic:
        return _SYMBOLIC_SHARE
    return _APART_SHARE if any(counts.get(whole) for whole in group.wholes) else 1.0


def _parts_share(group: QueryGroup, rarities: Sequence[float], held: Collection[str]) -> float:
    parts = [weight for part, weight in zip(group.parts, rarities, strict=True) if part in held]
    return 1.0 if len(parts) == len(rarities) else sum(parts) / sum(rarities)


def passing(rows: Sequence[int], evidence: Callable[[int], Evidence], threshold: float) -> list[int]:
    """Return the rows that pass the strict gate, in their order.

    The strongest must reach `threshold`, or nothing passes: the best of nothing is nothing. Then rows with half of it pass too.
    """
    strengths = {row: evidence(row).total for row in rows}
    if max(strengths.values(), default=0.0) < threshold:
        return []
    return [row for row in rows if strengths[row] >= threshold / 2]
