"""The full-text rows of one write transaction, kept back until its end, and texts as Postgres' `tsvector`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.matching import age_facets
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.writing.database import OWN_CONTEXT_TOKENS, ChangedTokens, Tokens
from hermes_mnemosyne.store.writing.rows import scope_of, shelf_of

# The context of a stored row, which no statement reads back: no token looks like it.
_KEPT = "*"
# A tsvector takes less than 1 MiB, a word less than 2 KiB, a word's positions up to 255 of at most 16,383.
_MOST_BYTES = 1_000_000
_LONGEST_WORD = 2_000
_MOST_POSITIONS = 255
_LAST_POSITION = 16_383
_SURELY_SHORT = 1_900
# Of longer texts only the last few are remembered.
_REMEMBERED_CHARS = 65_536
# What a word takes beside its letters and positions.
_WORD_BYTES = 12


def words(body: str) -> str:
    """Return the words of a text as they stand in a `tsvector`, labelled A.

    A very long text keeps one position of each word, and of a longer one the words that come first.
    """
    return _short_words(body) if len(body) < _REMEMBERED_CHARS else _long_words(body)


@lru_cache(maxsize=1024)
def _short_words(body: str) -> str:
    return _words(body)


@lru_cache(maxsize=8)
def _long_words(body: str) -> str:
    return _words(body)


def _words(body: str) -> str:
    found: dict[str, list[str]] = {}
    for place, word in enumerate(body.split(), 1):
        marks = found.setdefault(word, [])
        if len(marks) < _MOST_POSITIONS:
            marks.append(f"{place}A")
    places = {word: ",".join(marks) for word, marks in found.items()}
    if len(body) < _SURELY_SHORT:
        return " ".join([f"{word}:{known}" for word, known in places.items()])
    size = sum(len(word) + _WORD_BYTES + 2 * len(marks) for word, marks in found.items())
    is_long = size > _MOST_BYTES
    parts, size = [], 0
    for word, known in places.items():
        size += len(word) + _WORD_BYTES + 2
        if is_long and size > _MOST_BYTES:
            break
        if len(word) <= _LONGEST_WORD:
            parts.append(f"{word}:{known.partition(',')[0] if is_long else known}")
    return " ".join(parts)


def vector(body: str, context: str = "", facets: Iterable[str] = ()) -> str:
    """Return a `tsvector` literal: words of the text labelled A, of the context once each D, facets without."""
    after = min(body.count(" ") + 2, _LAST_POSITION)
    return " ".join((words(body), *[f"{word}:{after}" for word in context.split()], *facets))


def facets_of(row: int, facets: str) -> list[str]:
    """Return the facets of a row as they stand in its `tsvector`."""
    return [f"/s{scope_of(row)}", f"/k{shelf_of(row)}", *age_facets(row), *(f"/{facet}" for facet in facets.split())]


@dataclass(frozen=True, slots=True)
class _Stored(Tokens):
    """A stored row as far as it is known: its words stay, its context may change."""


class Index(ChangedTokens):
    """The full-text rows as they will be at the end of the transaction."""

    def __init__(self, db: Database) -> None:
        """Begin with what is stored."""
        super().__init__()
        self._db = db
        self._sql = statements("write")

    def get(self, row: int) -> Tokens | None:
        """Return the full-text row; of a stored one what it lends, padded where it is long, and no context."""
        if row in self._changed:
            return self._changed[row]
        found = self._db.execute(self._sql["tokens"], (row,)).fetchone()
        if found is None:
            return None
        lead, words, version = found
        body = lead if words <= OWN_CONTEXT_TOKENS else lead + " " * (words - lead.count(" ") - 1)
        return _Stored(body, _KEPT, "", version)

    def is_cheap(self, row: int) -> bool:
        """Tell whether a row stands in memory yet."""
        return row in self._changed

    def copy(self) -> Index:
        """Return an independent copy, for a savepoint."""
        other = Index(self._db)
        other._changed = dict(self._changed)
        other._fresh = set(self._fresh)
        return other

    def write(self) -> None:
        """Write what has changed."""
        whole: list[int] = []
        for row in sorted(self._changed):
            tokens = self._changed[row]
            if not isinstance(tokens, _Stored):
                whole.append(row)
            elif tokens.context.startswith(_KEPT):
                self._db.execute(self._sql["lengthen_tokens"], (row, vector("", tokens.context[1:])))
            else:
                self._db.execute(self._sql["replace_context"], (row, vector("", tokens.context, facets_of(row, ""))))
        old = [row for row in whole if row not in self._fresh]
        if old:
            self._db.execute(self._sql["delete_tokens"], (old,))
        written = [(row, tokens) for row in whole if (tokens := self._changed[row]) is not None]
        if not written:
            return
        for row, tokens in written:
            text = vector(tokens.body, tokens.context, facets_of(row, tokens.facets))
            values = (scope_of(row), row, len(tokens.body.split()), tokens.version, tokens.lent, text)
            self._db.execute(self._sql["insert_tokens"], values)
        self._db.execute(self._sql["note_missing"], ([row for row, _ in written],))
