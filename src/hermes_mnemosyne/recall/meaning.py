"""The vector leg: rows near a query's vector, what a cosine is worth, and how much meaning counts beside words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hermes_mnemosyne.store.protocol import Candidate, Filter, Store

# Rows that the vector leg brings in; those of the lexical leg are compared too.
DEPTH = 100
# The words of a query are trusted by the strength of the best evidence that they found: at the second figure or above wholly,
# at the first or below, where but a common word was met, by the third.
_UNSURE, _SURE, _LEAST_TRUST = 0.3, 0.55, 0.1
# Of so many lexical candidates the best evidence is taken.
JUDGED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The shares (0 to 1) of meaning in the ranking of turns and of entries.

    An entry is one statement in few words, so that a word in common says less than in a turn among its neighbours. With `fills`
    meaning counts only as far as words fail: for embedders that would make a good answer by words worse.
    """

    turn: float
    entry: float
    fills: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """A query as a vector of the store's model; `floor` is the cosine that unrelated texts rarely reach.

    `least` is the cosine that a row needs which has no word of the query. With `alone` words do not count at all.
    """

    model: str
    vector: Sequence[float]
    floor: float
    weights: Weights
    least: float = -1.0
    alone: bool = False

    def likeness(self, cosine: float) -> float:
        """Return how alike two texts are in 0 to 1: nothing at the floor, one where they are the same."""
        return max(0.0, (cosine - self.floor) / (1.0 - self.floor))

    def shares(self, strength: float) -> tuple[float, float]:
        """Return the shares of meaning for turns and for entries when the best evidence of words has this strength (0 to 1)."""
        trust = min(1.0, max(_LEAST_TRUST, (strength - _UNSURE) / (_SURE - _UNSURE)))
        return self._share(self.weights.turn, trust), self._share(self.weights.entry, trust)

    def _share(self, weight: float, trust: float) -> float:
        meaning = weight * (1.0 - trust) if self.weights.fills else weight
        words = (1.0 - weight) * trust
        return meaning / (meaning + words) if meaning else 0.0


def cosines(store: Store, meaning: Meaning, where: Filter, others: Iterable[int]) -> dict[int, float]:
    """Return the cosines of the nearest rows and of `others`, by row number."""
    found = {row.id: row.score for row in store.nearest(meaning.model, meaning.vector, where, limit=DEPTH)}
    missing = [row for row in others if row not in found]
    return found | store.cosines(meaning.model, meaning.vector, missing) if missing else found


def as_leg(likeness: Mapping[int, float]) -> list[Candidate]:
    """Return rows by likeness, best first, as candidates."""
    return [Candidate(row, value) for row, value in sorted(likeness.items(), key=lambda pair: (-pair[1], pair[0]))]
