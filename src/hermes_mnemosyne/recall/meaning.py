"""The vector leg: rows near a query's vector, and what a cosine is worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes_mnemosyne.store.protocol import Candidate, Filter, Store

# Rows that the vector leg brings in; those of the lexical leg are compared too.
DEPTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """A query as a vector of the store's model.

    `floor` is the cosine that unrelated texts rarely reach: below it there is no likeness at all. `weight` (0 to 1) is the share
    of this leg in the ranking.
    """

    model: str
    vector: Sequence[float]
    floor: float
    weight: float

    def likeness(self, cosine: float) -> float:
        """Return how alike two texts are in 0 to 1: nothing at the floor, one where they are the same."""
        return max(0.0, (cosine - self.floor) / (1.0 - self.floor))


def likenesses(store: Store, meaning: Meaning, where: Filter, others: Iterable[int]) -> dict[int, float]:
    """Return the likeness of the nearest rows and of `others`, by row number; unlike ones are left out."""
    cosines = {row.id: row.score for row in store.nearest(meaning.model, meaning.vector, where, limit=DEPTH)}
    missing = [row for row in others if row not in cosines]
    if missing:
        cosines |= store.cosines(meaning.model, meaning.vector, missing)
    likeness = {row: meaning.likeness(cosine) for row, cosine in cosines.items()}
    return {row: value for row, value in likeness.items() if value > 0.0}


def as_leg(likeness: dict[int, float]) -> list[Candidate]:
    """Return rows by likeness, best first, as candidates."""
    return [Candidate(row, value) for row, value in sorted(likeness.items(), key=lambda pair: (-pair[1], pair[0]))]
