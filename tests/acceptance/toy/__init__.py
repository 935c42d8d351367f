"""A memory provider of a few lines that keeps what its tool is told in one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent.memory_provider import MemoryProvider


class ToyProvider(MemoryProvider):  # type: ignore[misc]
    """Keeps texts, and recalls every one for any question."""

    name = "toy"

    def is_available(self) -> bool:
        """Be there always."""
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Find the file."""
        self._session = session_id
        self._file = Path(kwargs["hermes_home"]) / "toy.txt"

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Offer one tool."""
        parameters = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return [{"name": "toy_keep", "description": "Keep a text.", "parameters": parameters}]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **_: Any) -> str:
        """Keep the text."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(args["text"] + "\n")
        return json.dumps({"kept": args["text"], "by": tool_name})

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Recall everything."""
        del query, session_id
        return self._file.read_text(encoding="utf-8") if self._file.exists() else ""

    def sync_turn(self, user_content: str, assistant_content: str, *, session_id: str = "") -> None:
        """Be seen by the observer; keep nothing."""


def register(ctx: Any) -> None:
    """Hand the provider to the host."""
    ctx.register_memory_provider(ToyProvider())
