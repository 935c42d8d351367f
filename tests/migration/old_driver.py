"""Runs in an environment of hermes-memory-pgvector: reads JSON lines and does with its own classes what they say."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from hermes_pgvector import PgvectorMemoryProvider
from hermes_pgvector.__main__ import main as command
from hermes_pgvector.store import MemoryStore


def vector(text: str) -> list[float]:
    draw = random.Random(text)  # noqa: S311 - any vector that depends on the text
    return [draw.uniform(-1, 1) for _ in range(768)]


def do(dsn: str, step: dict[str, Any]) -> Any:
    step = dict(step)
    action = step.pop("do")
    if action == "command":
        return command([*step["args"], "--dsn", dsn])
    if action == "session":
        return session(dsn, step)
    store = MemoryStore(dsn=dsn)
    try:
        if action in ("add", "append_turn"):
            return getattr(store, action)(**step, embedding=vector(step["content"]))
        return getattr(store, action)(**step)
    finally:
        store.close()


def session(dsn: str, step: dict[str, Any]) -> None:
    """One session of the provider: writes of the memory tool, then turns, then the end of the session."""
    config = {"dsn": dsn, "embed_on_write": False, "embed_url": "http://127.0.0.1:9", "bulk_sync_on_init": False}
    provider = PgvectorMemoryProvider(config=config)
    provider.initialize(step["session_id"], **step.get("who", {}))
    for write in step.get("writes", ()):
        provider.on_memory_write(*write[:3], metadata=write[3] if len(write) > 3 else None)
    for user, assistant in step.get("turns", ()):
        provider.sync_turn(user, assistant, session_id=step["session_id"])
    if "messages" in step:
        provider.on_session_end(step["messages"])
    provider.shutdown()


if __name__ == "__main__":
    for line in sys.stdin:
        answer = do(sys.argv[1], json.loads(line))
        print(f"answer: {json.dumps(answer, default=str)}")  # noqa: T201 - the answer
