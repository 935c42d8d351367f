"""Drives the host provider's write hooks without the host; see `benchmarks/serve.py` for the protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.serve import serve, timed


class Hooks:
    """One provider of one session, registered and initialised as the host does it."""

    def __init__(self) -> None:
        """Hold nothing until `open`."""
        self._provider: Any = None

    def register_memory_provider(self, provider: Any) -> None:
        """Take the provider, as the host's plugin context does."""
        self._provider = provider

    def open(self, home: str) -> None:
        """Register and initialise the provider for a Hermes home."""
        from hermes_mnemosyne.hermes import register

        register(self)
        self._provider.initialize(
            session_id="bench",
            hermes_home=home,
            platform="cli",
            agent_context="primary",
            agent_identity="default",
            agent_workspace="hermes",
        )

    def memory_write(self, texts: list[str]) -> dict[str, list[float]]:
        """Report texts as added by the host's memory tool."""
        metadata = {"write_origin": "assistant_tool", "session_id": "bench", "platform": "cli", "tool_name": "memory"}
        return timed(lambda text: self._provider.on_memory_write("add", "memory", text, metadata=metadata), texts)[0]

    def sync_turn(self, texts: list[str]) -> dict[str, list[float]]:
        """Report turns; the answer of the assistant is as long as the message of the user."""
        pairs = zip(texts[::2], texts[1::2], strict=True)
        return timed(lambda pair: self._provider.sync_turn(*pair, session_id="bench"), pairs)[0]

    def stop(self) -> None:
        """Shut the provider down."""
        self._provider.shutdown()

    def stored(self, path: str) -> dict[str, int]:
        """Return how many entries and turns the store and its spool hold."""
        from hermes_mnemosyne import Memory

        memory = Memory.open(path)
        try:
            return {kind: len(memory.list(kinds=(kind,), limit=None)) for kind in ("entry", "turn")}
        finally:
            memory.close()


if __name__ == "__main__":
    serve(Hooks())
