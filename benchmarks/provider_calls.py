"""The calls of a host to a memory provider, timed the same for every provider. Standard library only."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.serve import timed

SESSION = "bench"


class ProviderCalls:
    """A provider that `_provider` holds, driven as the host does."""

    _provider: Any = None

    def memory_write(self, texts: list[str]) -> dict[str, list[float]]:
        """Report texts as added by the host's memory tool."""
        metadata = {"write_origin": "assistant_tool", "session_id": SESSION, "platform": "cli", "tool_name": "memory"}
        return timed(lambda text: self._provider.on_memory_write("add", "memory", text, metadata=metadata), texts)[0]

    def sync_turn(self, texts: list[str]) -> dict[str, list[float]]:
        """Report turns; every second text is the assistant's."""
        pairs = zip(texts[::2], texts[1::2], strict=True)
        return timed(lambda pair: self._provider.sync_turn(*pair, session_id=SESSION), pairs)[0]

    def tool(self, name: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        """Call a tool; return the times and, of each answer, the beginnings of its texts or its error."""
        times, answers = timed(lambda arguments: self._provider.handle_tool_call(name, arguments), calls)
        found = [json.loads(answer) for answer in answers]
        return {
            "times": times,
            "texts": [[hit["content"] for hit in answer.get("results", ())] for answer in found],
            "errors": [str(answer["error"]) for answer in found if answer.get("error")],
        }

    def prefetch(self, queries: list[str]) -> dict[str, Any]:
        """Ask for what is recalled before a turn."""
        times, answers = timed(lambda query: self._provider.prefetch(query, session_id=SESSION), queries)
        return {"times": times, "characters": [len(answer) for answer in answers]}

    def shut_down(self) -> None:
        """Shut the provider down."""
        self._provider.shutdown()
