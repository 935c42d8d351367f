"""Drives hermes-memory-pgvector inside its own environment; see `benchmarks/serve.py` for the protocol."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.provider_calls import SESSION, ProviderCalls
from benchmarks.serve import serve


class Reference(ProviderCalls):
    """One provider of one session."""

    def open(self, config: dict[str, Any], home: str, identity: str, session: str = SESSION) -> float:
        """Make and initialise a provider; return the seconds that the latter took."""
        from hermes_pgvector import PgvectorMemoryProvider  # type: ignore[import-not-found]  # installed in its environment only

        if self._provider is not None:
            self._provider.shutdown()
        self._provider = PgvectorMemoryProvider(config=config)
        begun = time.perf_counter()
        self._provider.initialize(
            session, hermes_home=home, platform="cli", agent_context="primary", agent_identity=identity, agent_workspace="hermes"
        )
        return time.perf_counter() - begun

    def settle(self, seconds: float) -> float:
        """Wait until the writer's queue is empty, at most so long; return the seconds."""
        queue = self._provider._writer._queue  # noqa: SLF001 - it has no public way to wait
        begun = time.perf_counter()
        while queue.unfinished_tasks and time.perf_counter() - begun < seconds:
            time.sleep(0.005)
        return time.perf_counter() - begun


if __name__ == "__main__":
    serve(Reference())
