"""The full-text rows of one write transaction, kept back until its end.

FTS5 writes its pending words to disk at every savepoint, so rows written one by one between savepoints would each become an index
segment of their own. Here they wait in memory and go in together, after everything else.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from hermes_mnemosyne.store.sqlite.sql import statements

# Neighbours lend at most this many tokens; a text of more tokens than the second figure carries its own context.
CONTEXT_TOKENS = 64
OWN_CONTEXT_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Tokens:
    """One full-text row: encoded tokens of the text, of its neighbours, facets, and the analyser's version."""

    body: str
    context: str
    facets: str
    version: int

    @property
    def is_long(self) -> bool:
        """Tell whether the text is long enough to carry its own context."""
        return self.body.count(" ") >= OWN_CONTEXT_TOKENS

    @property
    def lent(self) -> str:
        """Return the tokens that the text lends to its neighbours."""
        return lend(self.body)


def lend(body: str) -> str:
    """Return the tokens that a body lends to its neighbours."""
    return " ".join(body.split(" ", CONTEXT_TOKENS)[:CONTEXT_TOKENS])


class Index:
    """The full-text rows as they will be at the end of the transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Begin with what is stored."""
        self._db = db
        self._sql = statements("write")
        self._changed: dict[int, Tokens | None] = {}
        self._fresh: set[int] = set()

    def get(self, row: int) -> Tokens | None:
        """Return the full-text row of a row number."""
        if row in self._changed:
            return self._changed[row]
        found = self._db.execute(self._sql["tokens"], (row,)).fetchone()
        return Tokens(*found) if found else None

    def put(self, row: int, tokens: Tokens, *, fresh: bool = False) -> None:
        """Set the full-text row of a row number; `fresh` when the row is new."""
        self._changed[row] = tokens
        if fresh:
            self._fresh.add(row)

    def remove(self, row: int) -> None:
        """Take the full-text row of a row number away."""
        if row in self._fresh:
            self._fresh.discard(row)
            del self._changed[row]
        else:
            self._changed[row] = None

    def copy(self) -> Index:
        """Return an independent copy, for a savepoint."""
        other = Index(self._db)
        other._changed = dict(self._changed)
        other._fresh = set(self._fresh)
        return other

    def write(self) -> None:
        """Write what has changed, in order of row numbers."""
        for row in sorted(self._changed):
            tokens = self._changed[row]
            if row not in self._fresh:
                self._db.execute(self._sql["delete_tokens"], (row,))
            if tokens is not None:
                self._db.execute(self._sql["insert_tokens"], (row, tokens.body, tokens.context, tokens.facets, tokens.version))
