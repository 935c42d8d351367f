"""The full-text rows of one write transaction, kept back until its end, and those of the latest transactions.

FTS5 writes its pending words to disk at every savepoint, so rows written one by one between savepoints would each become an index
segment of their own. Here they wait in memory and go in together, after everything else. Few rows go into `recent_tokens`: a segment
for each transaction would cost more than all the rest of a write, one for some hundred rows costs a tenth of it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass

from hermes_mnemosyne.store.sqlite.connections import Connections
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.writing.database import ChangedTokens, Tokens

# A transaction with more rows than this writes its own segment.
_MOST_RECENT_AT_ONCE = 64
# Moved in one transaction, which holds the write lock for about 3 ms.
_MOVED_ROWS, _MOVED_CHARS = 256, 32_768


@dataclass(slots=True)
class Backlog:
    """The length of the tokens that this process has written since it last moved them into the index."""

    chars: int = 0


class Index(ChangedTokens):
    """The full-text rows as they will be at the end of the transaction."""

    def __init__(self, db: sqlite3.Connection, backlog: Backlog | None = None) -> None:
        """Begin with what is stored; the length of what goes into `recent_tokens` is added to `backlog`."""
        super().__init__()
        self._db = db
        self._sql = statements("write")
        self._recent: set[int] = set()
        self._backlog = backlog or Backlog()

    def get(self, row: int) -> Tokens | None:
        """Return the full-text row of a row number."""
        if row in self._changed:
            return self._changed[row]
        found = self._db.execute(self._sql["tokens"], (row,)).fetchone()
        if found is None:
            return None
        if found[4]:
            self._recent.add(row)
        return Tokens(*found[:4])

    def is_cheap(self, row: int) -> bool:
        """Tell whether to change a row that `get` has returned costs no segment of the index."""
        return row in self._changed or row in self._recent

    def copy(self) -> Index:
        """Return an independent copy, for a savepoint."""
        other = Index(self._db, self._backlog)
        other._changed = dict(self._changed)
        other._fresh = set(self._fresh)
        other._recent = set(self._recent)
        return other

    def write(self) -> None:
        """Write what has changed, in order of row numbers."""
        few = len(self._changed) <= _MOST_RECENT_AT_ONCE
        insert = self._sql["insert_recent" if few else "insert_tokens"]
        for row in sorted(self._changed):
            tokens = self._changed[row]
            is_replaced = row in self._fresh or (few and tokens is not None and row in self._recent)
            if not is_replaced and not self._db.execute(self._sql["delete_recent"], (row,)).rowcount:
                self._db.execute(self._sql["delete_tokens"], (row,))
            if tokens is not None:
                self._db.execute(insert, (row, tokens.body, tokens.context, tokens.facets, tokens.version))
                self._backlog.chars += few * (len(tokens.body) + len(tokens.context))
        if not few:
            # Only where they stand in `recent_tokens` would the search for missing vectors see them.
            written = [row for row, tokens in self._changed.items() if tokens is not None]
            self._db.execute(self._sql["note_missing"], (json.dumps(written),))


def has_recent(db: sqlite3.Connection) -> bool:
    """Tell whether the index lacks rows of the latest writes."""
    return db.execute(statements("upkeep")["any_recent"]).fetchone() is not None


def index_recent(connections: Connections, *, wait: float, pause: float = 0.0) -> None:
    """Move the rows of the latest writes into the index. Raises StoreBusy and the other store errors.

    With a `pause` (seconds) between the transactions others get their turn.
    """
    sql = statements("upkeep")
    while True:
        with connections.writing(wait) as db:
            moved, chars = 0, 0
            found = db.execute(sql["recent"], (_MOVED_ROWS,)).fetchall()
            for moved, (_, length) in enumerate(found, 1):  # noqa: B007 - counts what fits
                chars += length
                if chars >= _MOVED_CHARS:
                    break
            if moved:
                last = found[moved - 1][0]
                db.execute(sql["index_recent"], (last,))
                db.execute(sql["note_missing"], (last,))
                db.execute(sql["delete_recent"], (last,))
        if moved == len(found) < _MOVED_ROWS:
            return
        if pause:
            time.sleep(pause)
