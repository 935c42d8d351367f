"""Queries as Postgres' `tsquery`: which rows match, what each word counts for, which part of a place is searched first.

Encoded terms are letters and digits only, facets begin with a slash: quoted, neither can be anything but a word.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne.store.protocol import LexicalQuery
from hermes_mnemosyne.store.writing.rows import age_of

LONGEST_TERM = 2_000
"""Longer words are not indexed: a `tsvector` does not take them."""

# Rows of one query that are ranked without a second thought: more are bounded to the newest of its frequent words.
MOST_RANKED = 1_000
# A neighbour lends its words to the turns beside it, so that a word stands in up to three of them.
_LENT_TO = 2
# Words of one text are related: pairs stand together this much more often than by chance.
_RELATED = 3.0

# Labels D, C, B, A: the context counts a fifth of the text itself. Tuned on LoCoMo, as are the figures of the norm.
_LABELS = [0.2, 0.2, 0.2, 1.0]
_SATURATION, _LENGTH_SHARE = 0.2, 0.6
# `ts_rank` of a word that stands once.
_ONCE = 0.607927
_SINGLE, _GROUPS = 8, 2

# Every row bears the block of change numbers that it was made in, in blocks of several sizes: the newest rows can be asked for.
_BLOCKS = {"b": 12, "c": 14, "d": 16, "e": 18, "f": 20}
_LARGEST = "f"
_MOST_BLOCKS = 4


def age_facets(row: int) -> list[str]:
    """Return the facets of a row's age."""
    return [f"/{name}{age_of(row) >> bits}" for name, bits in _BLOCKS.items()]


def quoted(words: Iterable[str]) -> list[str]:
    """Return words as operands of a `tsquery`."""
    return [f"'{word}'" for word in words]


def any_of(operands: Iterable[str]) -> str:
    """Return the disjunction of operands."""
    return f"({' | '.join(operands)})"


def all_of(operands: Iterable[str]) -> str:
    """Return the conjunction of operands; empty without any."""
    return " & ".join(operand for operand in operands if operand)


@dataclass(frozen=True, slots=True)
class Words:
    """In how many of `rows` rows within reach, `turns` of them turns, each word stands; the mean number of words in a row."""

    counts: Mapping[str, int]
    rows: int
    turns: int
    average: float

    def weight(self, term: str) -> float:
        """Return what a word counts for: the more, the rarer it is."""
        count = min(self.counts.get(term, 0), self.rows)
        return math.log(1 + (self.rows - count + 0.5) / (count + 0.5))

    def matches(self, term: str) -> float:
        """Return in about how many rows a word stands, in the text or beside it."""
        count = self.counts.get(term, 0)
        return min(self.rows, count * (1 + _LENT_TO * self.turns / max(self.rows, 1)))

    def together(self, terms: Sequence[str]) -> float:
        """Return in about how many rows words stand together."""
        found = [self.matches(term) for term in terms]
        chance = math.prod(min(1.0, _RELATED * count / max(self.rows, 1)) for count in found[1:])
        return min(found, default=0.0) if len(found) < 2 else min(*found, found[0] * chance)  # noqa: PLR2004


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows that a query chooses: `rare` all of them, `frequent` some of the newest, of which there are about `expected`."""

    rare: str
    frequent: str
    expected: float

    def within(self, facets: str, blocks: str) -> str:
        """Return the `tsquery` for rows that have all `facets`; with `blocks` frequent words count in these only."""
        parts = [part for part in (self.rare, all_of([self.frequent, blocks])) if part]
        return all_of([facets, any_of(f"({part})" for part in parts)])


def choice_of(query: LexicalQuery, words: Words, waste: float) -> Choice:
    """Return which rows a query chooses; `waste` is how many times as many rows are looked at as are within reach."""
    found = []
    if query.required and query.all_required:
        found.append((all_of(quoted(query.required)), words.together(sorted(query.required, key=words.matches))))
    else:
        found += [(f"'{term}'", words.matches(term)) for term in query.required]
    found += [
        (f"({all_of(quoted(pair))})", words.together(sorted(pair, key=words.matches)))
        for pair in itertools.combinations(query.paired, 2)
    ]
    found.sort(key=lambda part: part[1])
    total = sum(expected for _, expected in found)
    most = MOST_RANKED / waste
    if query.newest is None and total <= most:
        return Choice(any_of(part for part, _ in found), "", 0.0)
    most = most / 2 if query.newest is None else -1.0
    totals = itertools.accumulate(expected for _, expected in found)
    kept = [reached <= most for reached in totals]
    rare = [part for (part, _), keep in zip(found, kept, strict=True) if keep]
    rest = [found for found, keep in zip(found, kept, strict=True) if not keep]
    return Choice(
        any_of(rare) if rare else "",
        any_of(part for part, _ in rest),
        sum(expected for _, expected in rest),
    )


def blocks_of(oldest: int, newest: int) -> str:
    """Return the facets of rows made from change number `oldest` to `newest`, and of some older ones."""
    name = next((name for name, bits in _BLOCKS.items() if (newest >> bits) - (oldest >> bits) < _MOST_BLOCKS), _LARGEST)
    first, last = oldest >> _BLOCKS[name], newest >> _BLOCKS[name]
    return any_of(f"'/{name}{number}'" for number in range(first, last + 1))


def scoring(query: LexicalQuery, words: Words) -> dict[str, Any]:
    """Return the parameters of the score: words with their weights, the rarest first, and the norm by length."""
    terms = dict.fromkeys((*query.required, *query.paired, *query.optional))
    weights = sorted(((words.weight(term), term) for term in terms), reverse=True)
    values: dict[str, Any] = {
        "labels": _LABELS,
        "once": _ONCE,
        "least": _SATURATION * (1 - _LENGTH_SHARE),
        "slope": _SATURATION * _LENGTH_SHARE / max(words.average, 1.0),
    }
    slots: list[tuple[float | None, str | None]] = [(weight, f"'{term}'") for weight, term in weights[:_SINGLE]]
    rest = weights[_SINGLE:]
    half = (len(rest) + 1) // _GROUPS
    slots += [(None, None)] * (_SINGLE - len(slots))
    for group in (rest[:half], rest[half:]):
        # The rank of several words is the mean of theirs.
        slots.append((sum(weight for weight, _ in group), any_of(quoted(term for _, term in group))) if group else (None, None))
    for number, (weight, word) in enumerate(slots, 1):
        values[f"weight_{number}"], values[f"word_{number}"] = weight, word
    return values
