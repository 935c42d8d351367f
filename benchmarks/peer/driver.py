"""Drives mnemosyne-memory inside its own environment; see `benchmarks/serve.py` for the protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.serve import serve, timed


class Peer:
    """The peer's documented interface: `Mnemosyne.remember`, `.recall` and `beam.remember_batch`."""

    def __init__(self) -> None:
        """Hold nothing until `open`."""
        self._memory: Any = None

    def open(self, path: str) -> None:
        """Open the database file `path`."""
        from mnemosyne import Mnemosyne  # type: ignore[import-not-found]  # installed in the peer's environment only

        self._memory = Mnemosyne(db_path=Path(path))

    def remember(self, texts: list[str]) -> dict[str, Any]:
        """Store texts one by one."""
        times, ids = timed(self._memory.remember, texts)
        return {"times": times, "ids": ids}

    def bulk(self, texts: list[str]) -> list[str]:
        """Store texts by the batch interface."""
        ids: list[str] = self._memory.beam.remember_batch([{"content": text} for text in texts])
        return ids

    def recall(self, queries: list[str], limit: int) -> dict[str, Any]:
        """Ask questions one by one."""
        times, answers = timed(lambda query: self._memory.recall(query, top_k=limit), queries)
        return {"times": times, "hits": [[hit["id"] for hit in answer] for answer in answers]}


if __name__ == "__main__":
    serve(Peer())
