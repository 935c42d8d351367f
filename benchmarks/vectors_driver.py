"""Drives the SQLite store's search for the nearest vectors; see `benchmarks/serve.py` for the protocol."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
if os.environ.get("BENCHMARK_WITHOUT_NUMPY"):
    sys.modules["numpy"] = None  # type: ignore[assignment]  # an import of it fails, as where it is not installed

from benchmarks.serve import serve, timed

MODEL = "synthetic"
THEME, SMALL_THEME = "main", "small"
# One row in so many belongs to the small theme.
SMALL_SHARE = 100
_ROWS = 500
_ATTACHED = 4096
_TAGS = 20


class Vectors:
    """A store of short rows whose vectors come from a file of float32."""

    def __init__(self) -> None:
        """Hold nothing until `open`."""
        self._store: Any = None

    def open(self, path: str) -> None:
        """Open the database file."""
        from hermes_mnemosyne.recall.analyse import TextAnalyser
        from hermes_mnemosyne.store.sqlite.store import SqliteStore

        class NoKey:
            def digest(self, purpose: str, *parts: str) -> str | None:  # noqa: ARG002 - nothing is forgotten here
                return None

        self._store = SqliteStore(path, TextAnalyser(), NoKey())

    def fill(self, count: int) -> None:
        """Write rows without vectors."""
        from hermes_mnemosyne.clock import HybridClock, now_text, uuid7
        from hermes_mnemosyne.store.operations import AddEntry

        clock = HybridClock("benchmark")
        for start in range(0, count, _ROWS):
            self._store.apply(
                [
                    AddEntry(
                        op_id=uuid7(), clock=clock.tick(), at=now_text(), uid=uuid7(), content=f"row {number} of this store",
                        theme=SMALL_THEME if number % SMALL_SHARE == 0 else THEME, tags=(f"tag{number // SMALL_SHARE % _TAGS}",),
                    )
                    for number in range(start, min(count, start + _ROWS))
                ]
            )  # fmt: skip
        while not self._store.upkeep(seconds=10):
            pass

    def attach(self, vectors: str, dimension: int) -> dict[str, Any]:
        """Give every row the vector of its number; return the ids by number and the time of the store's own part."""
        ids: dict[str, int] = {}
        seconds, after = 0.0, 0
        with Path(vectors).open("rb") as file:
            while pending := self._store.pending_vectors(MODEL, limit=_ATTACHED, after=after):
                pairs = []
                for item in pending:
                    number = int(item.text.split()[1])
                    file.seek(number * dimension * 4)
                    vector = array("f")
                    vector.frombytes(file.read(dimension * 4))
                    pairs.append((item.id, vector))
                    ids[str(number)] = item.id
                times, _ = timed(lambda some: self._store.attach_vectors(MODEL, some), [pairs])
                seconds += times["wall"][0]
                after = pending[-1].id
        return {"ids": ids, "seconds": seconds}

    def warm_up(self) -> None:
        """Do what a process without vectors does: recalls by words."""
        from hermes_mnemosyne.recall.analyse import TextAnalyser
        from hermes_mnemosyne.store.protocol import Filter, LexicalQuery, Reach

        analyser = TextAnalyser()
        for number in range(200):
            query = LexicalQuery(required=tuple(analyser.entry_tokens(str(97 * number), ()).split()))
            found = self._store.lexical(query, Filter(reach=Reach(None, None)))
            self._store.load([candidate.id for candidate in found])

    def nearest(self, queries: list[list[float]], limit: int, theme: str = "", tags: Sequence[str] = ()) -> dict[str, Any]:
        """Ask for the nearest rows, query by query."""
        from hermes_mnemosyne.store.protocol import Filter, Reach

        where = Filter(reach=Reach(frozenset({theme}) if theme else None, None), tags=tuple(tags))
        vectors = [array("f", query) for query in queries]
        times, found = timed(lambda query: self._store.nearest(MODEL, query, where, limit=limit), vectors)
        return {"times": times, "hits": [[candidate.id for candidate in hits] for hits in found]}

    def upkeep_questions(self, rounds: int) -> dict[str, Any]:
        """Ask what is missing and how many there are."""
        missing, _ = timed(lambda _: self._store.pending_vectors(MODEL), range(rounds))
        counts, _ = timed(lambda _: self._store.vector_counts(MODEL), range(rounds))
        return {"pending": missing, "counts": counts}

    def memory(self) -> dict[str, float]:
        """Return the megabytes that this process has in memory, now and at most."""
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return {name: int(fields[key].split()[0]) / 1024 for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))}

    def close(self) -> None:
        """Close the store."""
        self._store.close()


if __name__ == "__main__":
    serve(Vectors())
