"""The brute-force oracle: which rows answer a question, found by reading every row.

It shares nothing with Mnemosyne's index or analyser: words are runs of letters, stemmed by the Snowball English stemmer; identifiers
are compared whole, as they stand between blanks; words of scripts without spaces are searched literally. One pass over the rows
answers all questions of a run.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from benchmarks.corpus import FUNCTION_WORDS, Query, QueryKind, Row

# Words of the question templates that carry no topic, beside the function words of the corpus.
_IGNORED = frozenset(FUNCTION_WORDS) | frozenset(
    (
        *("does", "told", "us", "remember", "decide", "decided", "changed", "end"),
        *("anything", "why", "find", "know", "meet", "note", "was", "problem"),
    )
)
_WORD = re.compile(r"[a-z]+")
_EDGE = ".,;:!?。"


@dataclass(slots=True)
class Score:
    """How well one system answered the questions of one kind."""

    asked: int = 0
    correct: int = 0
    unsound: int = 0
    by_reason: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """The share of correct answers, 0 to 1."""
        return self.correct / self.asked if self.asked else 1.0

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready object."""
        return {
            "asked": self.asked,
            "correct": self.correct,
            "share": round(self.share, 4),
            "hits_without_any_query_word": self.unsound,
            "wrong_because": dict(sorted(self.by_reason.items())),
        }


@cache
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@cache
def stem(word: str) -> str:
    """Return the Snowball stem of a lower-case word."""
    return str(_stemmer().stemWord(word))


def query_terms(query: Query) -> frozenset[str]:
    """Return what a row must hold to answer: stems of content words, one identifier, or literal runs."""
    if query.kind == "cjk":
        return frozenset(query.text.split())
    if query.kind == "identifier":
        return frozenset({query.text.split()[-1].lower()})
    words = _WORD.findall(query.text.lower())
    return frozenset(stem(word) for word in words if word not in _IGNORED)


class Oracle:
    """The right answers to `queries` over `rows`."""

    def __init__(self, rows: Iterable[Row], queries: Sequence[Query]) -> None:
        """Read every row once and note which of the wanted terms it holds."""
        stems: set[str] = set()
        names: set[str] = set()
        literals: set[str] = set()
        for query in queries:
            {"cjk": literals, "identifier": names}.get(query.kind, stems).update(query_terms(query))
        self._holders: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.rows = 0
        for row in rows:
            self.rows += 1
            self._read(row, stems, names, literals)

    def _read(self, row: Row, stems: set[str], names: set[str], literals: set[str]) -> None:
        lower = row.text.lower()
        for term in {stem(word) for word in _WORD.findall(lower)} & stems:
            self._holders["stem", term].add(row.number)
        # Between wide characters a name has no blanks around it: cut there, too.
        chunks = re.sub(r"[^\x00-\x7f]+", " ", lower).split()
        for name in {chunk.strip(_EDGE) for chunk in chunks} & names:
            self._holders["name", name].add(row.number)
        if not lower.isascii():
            for literal in literals:
                if literal in row.text:
                    self._holders["literal", literal].add(row.number)

    def holders(self, query: Query) -> dict[str, set[int]]:
        """Return the rows that hold each term of a question."""
        family = {"cjk": "literal", "identifier": "name"}.get(query.kind, "stem")
        return {term: self._holders.get((family, term), set()) for term in query_terms(query)}

    def best(self, query: Query) -> frozenset[int]:
        """Return the rows that hold the greatest idf-weighted share of a question's terms; empty when none holds any."""
        holders = {term: rows for term, rows in self.holders(query).items() if rows}
        weights = {term: math.log(1 + self.rows / len(rows)) for term, rows in holders.items()}
        scores: Counter[int] = Counter()
        for term, rows in holders.items():
            for row in rows:
                scores[row] += weights[term]  # type: ignore[assignment]  # Counter is typed for int, and sums floats as well
        top = max(scores.values(), default=0)
        return frozenset(row for row, score in scores.items() if score > top - 1e-9)

    def judge(self, query: Query, hits: Sequence[int]) -> str:
        """Return an empty text when `hits` (row numbers, best first) answer the question, else the reason why not.

        `none`: nothing may be returned. `identifier`: the first hit holds it, and where no more rows than were returned hold
        it, all of them are there. Else: a row that holds as many of the terms as any row does is among the hits.
        """
        best = self.best(query)
        if not best:
            return "hits for a question without an answer" if hits else ""
        if not hits:
            return "no hit"
        if query.kind == "identifier":
            if hits[0] not in best:
                return "first hit lacks the identifier"
            return "a row with the identifier is missing" if len(best) <= len(hits) and not best <= set(hits) else ""
        return "" if best & set(hits) else "no best row among the hits"

    def score(self, queries: Sequence[Query], answers: Sequence[Sequence[int]]) -> dict[QueryKind, Score]:
        """Return the score of one system by kind of question."""
        scores: dict[QueryKind, Score] = defaultdict(Score)
        for query, hits in zip(queries, answers, strict=True):
            score = scores[query.kind]
            score.asked += 1
            reason = self.judge(query, hits)
            if reason:
                score.by_reason[reason] += 1
            else:
                score.correct += 1
            held = set().union(*self.holders(query).values()) if query_terms(query) else set()
            score.unsound += sum(hit not in held for hit in hits)
        return dict(scores)
