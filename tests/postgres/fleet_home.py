"""A Hermes home whose provider is `pgvector`, and a hook's view of time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hermes_mnemosyne.core import Engine
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.hermes.provider import MnemosyneProvider
from hermes_mnemosyne.values import Entry, Turn

SESSION = "20261130_124458_f114fc"
LONG = 60.0
T = TypeVar("T")


@dataclass(frozen=True)
class FleetHome:
    """The home at `path` of a host of the fleet whose database is `dsn`."""

    path: Path
    dsn: str

    def configure(self, **settings: Any) -> None:
        """Write settings of the provider into the host's configuration."""
        self.path.mkdir(parents=True, exist_ok=True)
        section = {"plugins": {"pgvector": {"dsn": self.dsn, **settings}}}
        (self.path / "config.yaml").write_text(json.dumps(section), encoding="utf-8")

    def start(self, session_id: str = SESSION, **kwargs: Any) -> MnemosyneProvider:
        """Return a provider that is initialised with what a command line gives, changed by `kwargs`."""
        if not (self.path / "config.yaml").exists():
            self.configure()
        provider = MnemosyneProvider("pgvector")
        given = {
            "hermes_home": str(self.path), "platform": "cli", "agent_context": "primary", "agent_identity": "default",
            "agent_workspace": "hermes", **kwargs,
        }  # fmt: skip
        provider.initialize(session_id=session_id, **given)
        return provider

    def note(self, name: str, *lines: str) -> None:
        """Write a memory file of the host."""
        (self.path / "memories").mkdir(parents=True, exist_ok=True)
        (self.path / "memories" / name).write_text("\n\u00a7\n".join(lines), encoding="utf-8")


def engine_of(provider: MnemosyneProvider) -> Engine:
    """Return the engine that a provider has borrowed."""
    session = provider._session  # noqa: SLF001 - there is one per process and store, and no other way to this one
    assert session is not None
    return session.memory.engine


def eventually(holds: Callable[[], T]) -> T:
    """Return the first true answer; fails after a long while without one."""
    until = time.monotonic() + LONG
    while not (found := holds()) and time.monotonic() < until:
        time.sleep(0.01)
    assert found
    return found


def drained(engine: Engine) -> bool:
    """Write what waits on this machine, and tell whether nothing does any more."""
    return engine.finish(1.0) and engine.spool.is_empty() and engine.waiting.is_empty()


def operator(dsn: str) -> Memory:
    """Return the operator's view of the database."""
    return Memory.open(dsn, readable_themes="*")


def said(dsn: str) -> list[str]:
    """Return the texts of all live turns in the order of their writing."""
    with operator(dsn) as memory:
        rows = memory.list(kinds=("turn",), limit=None)
        return [turn.content for turn in sorted((row for row in rows if isinstance(row, Turn)), key=lambda turn: turn.seq)]


def noted(dsn: str) -> list[str]:
    """Return the texts of all live entries, sorted."""
    with operator(dsn) as memory:
        return sorted(row.content for row in memory.list(limit=None) if isinstance(row, Entry))


def seconds(work: Callable[[], T]) -> tuple[float, T]:
    """Return how long something took, and its answer."""
    began = time.monotonic()
    answer = work()
    return time.monotonic() - began, answer
