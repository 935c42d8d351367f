"""How long recalls take in this process, by leg, as plain counters: a histogram for each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, cast

from hermes_mnemosyne.store.protocol import Store

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the counted durations, in seconds; longer ones are counted in the sum only."""

# What each question to the store belongs to. `recall` is the whole, `embed` the wait for the vector of a query.
LEGS = {
    "term_counts": "words", "lexical": "words", "nearest": "vectors", "cosines": "vectors", "load": "rows", "terms_in": "rows",
    "neighbours": "rows",
}  # fmt: skip


class Latencies:
    """Durations by leg. Safe from any thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def renew(self) -> None:
        """Go on in a forked child, where the lock may be held by a thread that is not there."""
        self._lock = threading.Lock()

    def note(self, leg: str, seconds: float) -> None:
        """Count one duration."""
        place = next((number for number, bound in enumerate(BOUNDS) if seconds <= bound), len(BOUNDS))
        with self._lock:
            self._counts.setdefault(leg, [0] * (len(BOUNDS) + 1))[place] += 1
            self._sums[leg] = self._sums.get(leg, 0.0) + seconds

    @contextmanager
    def timing(self, leg: str) -> Iterator[None]:
        """Count how long a block takes, also one that raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.note(leg, time.perf_counter() - start)

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return by leg: `count`, `seconds` in sum, and `buckets`, how many were not longer than each of the bounds."""
        with self._lock:
            counts = {leg: list(found) for leg, found in self._counts.items()}
            sums = dict(self._sums)
        figures = {}
        for leg, found in sorted(counts.items()):
            buckets, total = {}, 0
            for bound, count in zip(BOUNDS, found, strict=False):
                total += count
                buckets[f"{bound:g}"] = total
            figures[leg] = {"count": sum(found), "seconds": round(sums[leg], 6), "buckets": buckets}
        return figures


class Timed:
    """A store whose answers to a recall are timed."""

    def __init__(self, store: Store, latencies: Latencies) -> None:
        """Time a store."""
        self._store = store
        self._latencies = latencies

    @classmethod
    def over(cls, store: Store, latencies: Latencies) -> Store:
        """Return the store, timed."""
        return cast("Store", cls(store, latencies))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found
        leg = LEGS.get(name)
        answering = found if leg is None else self._timed(found, leg)
        # Found without this detour from now on.
        setattr(self, name, answering)
        return answering

    def _timed(self, found: Callable[..., Any], leg: str) -> Callable[..., Any]:
        @wraps(found)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self._latencies.timing(leg):
                return found(*args, **kwargs)

        return timed
