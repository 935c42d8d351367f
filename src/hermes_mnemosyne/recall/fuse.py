"""Fusion: the scores of both legs into one, and the share of its neighbours that a turn gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from hermes_mnemosyne.store.protocol import Candidate, Neighbours

# Stands for a best score of zero: a word that every row holds.
_LEAST = 1e-9


def relative(candidates: Sequence[Candidate]) -> dict[int, float]:
    """Return the scores of one leg, best first, relative to its best: 0 to 1."""
    if not candidates:
        return {}
    best = max(candidates[0].score, _LEAST)
    return {candidate.id: max(candidate.score, 0.0) / best for candidate in candidates}


def fuse(words: Sequence[Candidate], meaning: Sequence[Candidate], share: Callable[[int], float]) -> dict[int, float]:
    """Return one score of 0 to 1 per row: the mean of both legs' relative scores, weighted by the `share` of meaning for the row.

    A row that a leg did not return gets nothing from it; a leg that returned nothing has no weight.
    """
    lexical, vector = relative(words), relative(meaning)
    if not lexical or not vector:
        return lexical or vector
    scores = {}
    for row in lexical.keys() | vector.keys():
        part = share(row)
        scores[row] = (1.0 - part) * lexical.get(row, 0.0) + part * vector.get(row, 0.0)
    return scores


def merge(*searches: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of searches that score alike as one list, best first, each row once with its best score."""
    best: dict[int, float] = {}
    for candidate in (candidate for search in searches for candidate in search):
        best[candidate.id] = max(candidate.score, best.get(candidate.id, candidate.score))
    return [Candidate(row, score) for row, score in sorted(best.items(), key=lambda found: (-found[1], found[0]))]


def with_neighbours(
    scores: Mapping[int, float],
    beside: Mapping[int, Neighbours],
    bonus: float,
    *,
    asking: Collection[int] = (),
    answer: float = 0.0,
) -> dict[int, float]:
    """Return the scores with `bonus` times each turn's score added to the turns beside it, also to those without a score.

    After a turn that is `asking` the next one gets `answer` times its score instead.
    """
    raised = dict(scores)
    for row, neighbours in beside.items():
        score = scores.get(row, 0.0)
        shares = ((neighbours.previous, bonus), (neighbours.next, answer if row in asking else bonus))
        for other, share in shares:
            if other is not None and score * share > 0.0:
                raised[other] = raised.get(other, 0.0) + score * share
    return raised


def ranked(scores: Mapping[int, float]) -> list[int]:
    """Return the rows best first, ties by row number."""
    return sorted(scores, key=lambda row: (-scores[row], row))
