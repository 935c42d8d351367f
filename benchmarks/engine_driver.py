"""Drives this project's engine through its public interface; see `benchmarks/serve.py` for the protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.serve import serve, timed


class Engine:
    """`Memory.remember` and `Memory.recall`, one `Memory` per theme."""

    def __init__(self) -> None:
        """Hold nothing until `open`."""
        self._path = ""
        self._memories: dict[str, Any] = {}

    def open(self, path: str) -> None:
        """Choose the database file."""
        self._path = path
        self._memory("main")

    def _memory(self, theme: str) -> Any:
        from hermes_mnemosyne import Memory

        if theme not in self._memories:
            self._memories[theme] = Memory.open(self._path, theme=theme)
        return self._memories[theme]

    def remember(self, texts: list[str], theme: str = "main") -> dict[str, Any]:
        """Store texts one by one."""
        times, receipts = timed(self._memory(theme).remember, texts)
        return {"times": times, "ids": [receipt.uid for receipt in receipts]}

    def recall(self, queries: list[str], limit: int, theme: str = "main") -> dict[str, Any]:
        """Ask questions one by one."""
        memory = self._memory(theme)
        times, answers = timed(lambda query: memory.recall(query, limit=limit), queries)
        return {
            "times": times,
            "hits": [[hit.uid for hit in answer] for answer in answers],
            "themes": sorted({hit.theme for answer in answers for hit in answer}),
            "bounded": sum("bounded" in answer.notes for answer in answers),
            "degraded": sorted({part for answer in answers for part in answer.degraded}),
        }

    def count(self, theme: str = "main") -> int:
        """Return the number of entries of a theme."""
        return len(self._memory(theme).list(limit=None))

    def close(self) -> None:
        """Close every memory."""
        for memory in self._memories.values():
            memory.close()
        self._memories.clear()


if __name__ == "__main__":
    serve(Engine())
