"""The vector side of the Store protocol over one SQLite file."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from hermes_mnemosyne.store.protocol import Candidate, Filter, PendingText, Reach, VectorFailure, VectorModel
from hermes_mnemosyne.store.sqlite import vector_search, vectors
from hermes_mnemosyne.store.sqlite.connections import Connections
from hermes_mnemosyne.store.sqlite.search import Scopes, scopes_of
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.sqlite.vector_cache import VectorCache
from hermes_mnemosyne.store.sqlite.vector_math import packed
from hermes_mnemosyne.store.vectors import StoreVectors

# Written in one transaction, which holds the lock for about two milliseconds; then others get their turn.
_BATCH = 64
_PAUSE = 0.002

_Item = TypeVar("_Item")


class SqliteVectors(StoreVectors):
    """The methods on vectors, for a store with these connections."""

    _connections: Connections

    def __init__(self, connections: Connections, wait: float) -> None:
        """Share the connections of a store; `wait` is how long a write waits for the lock, in seconds."""
        super().__init__(connections, wait, statements, json.dumps)
        self._vectors = VectorCache()

    def _scopes(self, db: sqlite3.Connection, reach: Reach) -> Scopes:
        """Return the scopes within reach."""
        return scopes_of(db, reach)

    def add_vector_model(self, model: VectorModel) -> None:
        """Make a model known or renew it."""
        with self._connections.writing(self._wait) as db:
            vectors.save_model(db, model)

    def attach_vectors(
        self,
        model: str,
        vectors_by_row: Iterable[tuple[int, Sequence[float]]],
        *,
        cut: frozenset[int] = frozenset(),
        texts: Mapping[int, str] | None = None,
    ) -> int:
        """Store vectors of rows that still live, in transactions of some dozens; see `Store.attach_vectors`."""
        stored = 0
        for some in _batches(vectors_by_row):
            ready = [(row, *packed(vector)) for row, vector in some]
            with self._connections.writing(self._wait) as db:
                stored += vectors.attach(db, model, ready, cut, texts)
        return stored

    def pending_vectors(self, model: str, *, limit: int = 64, after: int = 0, now: str | None = None) -> list[PendingText]:
        """Return rows without a vector of this model."""
        with self._connections.reading() as db:
            db.execute("BEGIN")
            try:
                return vectors.pending(db, model, limit=limit, after=after, now=now)
            finally:
                db.execute("ROLLBACK")

    def note_failures(self, model: str, failures: Iterable[VectorFailure]) -> None:
        """Keep why rows have no vector."""
        for some in _batches(failures):
            with self._connections.writing(self._wait) as db:
                vectors.note_failures(db, model, some)

    def exclude_vectors(self, ids: Iterable[int]) -> int:
        """Leave rows without a vector, by setting."""
        count = 0
        for some in _batches(ids):
            with self._connections.writing(self._wait) as db:
                count += vectors.exclude(db, some)
        return count

    def include_vectors(self) -> int:
        """Let every excluded row be embedded."""
        count = 0
        while True:
            with self._connections.writing(self._wait) as db:
                some = vectors.include(db, _BATCH)
            count += some
            if some < _BATCH:
                return count
            time.sleep(_PAUSE)

    def nearest(self, model: str, vector: Sequence[float], where: Filter, *, limit: int) -> list[Candidate]:
        """Return the rows nearest by cosine."""
        with self._connections.reading() as db:
            # One moment for the filters, what is new, and the vectors themselves.
            db.execute("BEGIN")
            try:
                return vector_search.nearest(db, self._vectors, model, vector, where, limit)
            finally:
                db.execute("ROLLBACK")

    def cosines(self, model: str, vector: Sequence[float], ids: Sequence[int]) -> dict[int, float]:
        """Return the cosine of each of these rows that has a vector."""
        with self._connections.reading() as db:
            return vector_search.cosines_of(db, model, vector, ids)

    def remove_old_vectors(self, *, until: float) -> bool:
        """Remove vectors of models that are gone as far as time allows (of time.monotonic()); True when none is left."""
        if not self.has_old_vectors():
            return True
        while time.monotonic() <= until:
            with self._connections.writing(self._wait) as db:
                if vectors.remove_some(db, _BATCH):
                    return True
            time.sleep(_PAUSE)
        return False


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield items in batches, with a pause between them."""
    source = iter(items)
    some = list(itertools.islice(source, _BATCH))
    while some:
        yield some
        some = list(itertools.islice(source, _BATCH))
        if some:
            time.sleep(_PAUSE)
