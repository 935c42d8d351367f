"""Drives recall by words and meaning through the public interface; see `benchmarks/serve.py` for the protocol."""

from __future__ import annotations

import itertools
import os
import sys
import time
from array import array
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
if os.environ.get("BENCHMARK_WITHOUT_NUMPY"):
    sys.modules["numpy"] = None  # type: ignore[assignment]  # an import of it fails, as where it is not installed

from benchmarks.corpus import Corpus
from benchmarks.serve import serve, timed

_ROWS = 500
_ATTACHED = 2048
_BATCH = 32


class Hybrid:
    """One file with the rows of the corpus; its vectors are given, those of the queries are the model's own."""

    def __init__(self) -> None:
        """Hold nothing until `open`."""
        self._memory: Any = None

    def open(self, path: str, embedder: str) -> None:
        """Open the database file with an embedder of the settings."""
        from hermes_mnemosyne import Memory
        from hermes_mnemosyne.settings import Settings

        self._memory = Memory.open(path, theme="main", settings=Settings(embedder=embedder))
        self._memory.engine.one_shot = True

    def fill(self, count: int) -> None:
        """Write the first rows of the corpus."""
        from hermes_mnemosyne.clock import uuid7
        from hermes_mnemosyne.store.operations import AddEntry

        rows = Corpus(count).main()
        while some := list(itertools.islice(rows, _ROWS)):
            ops = [self._memory.make(AddEntry, uid=uuid7(), content=row.text) for row in some]
            self._memory.engine.submit(ops, hook=False)
        while not self._memory.engine.store.upkeep(seconds=10):
            pass

    def attach(self, vectors: str, dimension: int, used: int) -> int:
        """Give every row a vector of the file, of which the first `used` numbers are taken, as if the model had made it."""
        key = self._memory.engine.embedding.model().key
        store = self._memory.engine.store
        after = attached = 0
        with Path(vectors).open("rb") as file:
            while pending := store.pending_vectors(key, limit=_ATTACHED, after=after):
                pairs = []
                for item in pending:
                    vector = array("f")
                    vector.frombytes(file.read(dimension * 4))
                    pairs.append((item.id, vector[:used]))
                attached += store.attach_vectors(key, pairs)
                after = pending[-1].id
        return attached

    def recall(self, queries: list[str], limit: int) -> dict[str, Any]:
        """Ask questions one by one."""
        times, answers = timed(lambda query: self._memory.recall(query, limit=limit, embed_timeout=20.0), queries)
        return {"times": times, "degraded": sum(bool(answer.degraded) for answer in answers)}

    def embed(self, texts: list[str]) -> dict[str, float]:
        """Return texts per second of the embedder alone and of a backfill of as many rows, turn about."""
        embedder = self._memory.engine.embedding.choice.embedder
        seconds = {"raw": 0.0, "backfill": 0.0}
        self._memory.embed_pending()
        for start in range(0, len(texts), 8 * _BATCH):
            some = sorted(texts[start : start + 8 * _BATCH], key=len)
            begun = time.perf_counter()
            for first in range(0, len(some), _BATCH):
                embedder.embed([f"{text} ." for text in some[first : first + _BATCH]], "document")
            seconds["raw"] += time.perf_counter() - begun
            for text in some:
                self._memory.remember(text)
            begun = time.perf_counter()
            self._memory.embed_pending()
            seconds["backfill"] += time.perf_counter() - begun
        return {name: len(texts) / spent for name, spent in seconds.items()}

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()


if __name__ == "__main__":
    serve(Hybrid())
