"""The vector side of the Store protocol over one Postgres database."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from hermes_mnemosyne.store.postgres import vector_search, vectors
from hermes_mnemosyne.store.postgres.connections import Connections
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.search import Scopes, scopes_of
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.postgres.vector_indexes import Catalogue
from hermes_mnemosyne.store.protocol import Candidate, Filter, PendingText, Reach, VectorFailure, VectorModel
from hermes_mnemosyne.store.vectors import StoreVectors

# Rows written in one transaction: others wait for its lock meanwhile. Where vectors have indexes a row takes some milliseconds.
_FEWEST, _MOST = 16, 512
_SHORT, _LONG = 0.02, 0.05
_REMOVED = 2_000
# All rows become missing in a new model at once.
_SLOW = 600.0

_Item = TypeVar("_Item")


class PostgresVectors(StoreVectors):
    """The methods on vectors, for a store with these connections."""

    _connections: Connections

    def __init__(self, connections: Connections, wait: float) -> None:
        """Share the connections of a store; `wait` is how long a write waits for the lock, in seconds."""
        super().__init__(connections, wait, statements, list)
        self._indexes = Catalogue()

    def _scopes(self, db: Database, reach: Reach) -> Scopes:
        """Return the scopes within reach."""
        return scopes_of(db, reach)

    def add_vector_model(self, model: VectorModel) -> None:
        """Make a model known or renew it."""
        with self._connections.writing(self._wait, limit=_SLOW) as db:
            vectors.save_model(db, model)

    def attach_vectors(
        self,
        model: str,
        vectors_by_row: Iterable[tuple[int, Sequence[float]]],
        *,
        cut: frozenset[int] = frozenset(),
        texts: Mapping[int, str] | None = None,
    ) -> int:
        """Store vectors of rows that still live, in short transactions; see `Store.attach_vectors`."""
        count = 0
        for some in _batches(vectors_by_row):
            ready = {row: vectors.stored(vector) for row, vector in some}
            # Vectors may go into an index, which takes long: meanwhile others write.
            with self._connections.changing(self._wait, limit=_SLOW) as db:
                stored = vectors.attach(db, model, ready, cut, texts)
            if stored is None:
                with self._connections.writing(self._wait, limit=_SLOW) as db:
                    vectors.begin(db, model, next(iter(ready.values())).dimensions())
                with self._connections.changing(self._wait, limit=_SLOW) as db:
                    stored = vectors.attach(db, model, ready, cut, texts)
            count += stored or 0
        return count

    def pending_vectors(self, model: str, *, limit: int = 64, after: int = 0, now: str | None = None) -> list[PendingText]:
        """Return rows without a vector of this model."""
        with self._connections.reading() as db:
            return vectors.pending(db, model, limit=limit, after=after, now=now)

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
                some = vectors.include(db, _MOST)
            count += some
            if some < _MOST:
                return count

    def nearest(self, model: str, vector: Sequence[float], where: Filter, *, limit: int) -> list[Candidate]:
        """Return the rows nearest by cosine."""
        with self._connections.reading() as db:
            return vector_search.nearest(db, self._indexes, model, vector, where, limit)

    def cosines(self, model: str, vector: Sequence[float], ids: Sequence[int]) -> dict[int, float]:
        """Return the cosine of each of these rows that has a vector."""
        with self._connections.reading() as db:
            return vector_search.cosines_of(db, model, vector, ids)

    def remove_old_vectors(self, *, until: float) -> bool:
        """Remove vectors of models that are gone as far as time allows (of time.monotonic()); True when none is left."""
        if not self.has_old_vectors():
            return True
        removal = vectors.Removal()
        while time.monotonic() <= until:
            with self._connections.writing(self._wait) as db:
                if removal.go_on(db, _REMOVED):
                    return True
        return False


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield items in batches, each as large as the time that the one before has taken allows."""
    source = iter(items)
    size = 4 * _FEWEST
    while some := list(itertools.islice(source, size)):
        begun = time.monotonic()
        yield some
        taken = time.monotonic() - begun
        if taken < _SHORT:
            size = min(2 * size, _MOST)
        elif taken > _LONG:
            size = max(size // 2, _FEWEST)
