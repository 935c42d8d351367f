"""A Hermes home on which providers are started as a host starts them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.hermes.provider import MnemosyneProvider
from hermes_mnemosyne.values import Entry, Turn

SESSION = "20261130_124458_f114fc"
BOAT = "Ada's sailing boat is called Perelandra and lies in the old harbour of Bergen."
REPLY = "That is good to know, I shall remember the boat and where it lies."
QUESTION = "In which harbour does the sailing boat Perelandra lie?"


@dataclass(frozen=True)
class HermesHome:
    """The home at `path`, with the store where the provider puts it."""

    path: Path

    @property
    def store(self) -> Path:
        """The database file."""
        return self.path / "mnemosyne" / "mnemosyne.db"

    def start(self, session_id: str = SESSION, **kwargs: Any) -> MnemosyneProvider:
        """Return a provider that is initialised."""
        provider = MnemosyneProvider()
        self.begin(provider, session_id, **kwargs)
        return provider

    def begin(self, provider: MnemosyneProvider, session_id: str = SESSION, **kwargs: Any) -> None:
        """Initialise a provider with what a command line gives, changed by `kwargs`."""
        given = {
            "hermes_home": str(self.path), "platform": "cli", "agent_context": "primary", "agent_identity": "default",
            "agent_workspace": "hermes", **kwargs,
        }  # fmt: skip
        provider.initialize(session_id=session_id, **given)

    def configure(self, **settings: Any) -> None:
        """Write settings of the provider into the host's configuration."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "config.yaml").write_text(json.dumps({"plugins": {"mnemosyne": settings}}), encoding="utf-8")

    def note(self, name: str, *lines: str) -> None:
        """Write a memory file of the host."""
        (self.path / "memories").mkdir(parents=True, exist_ok=True)
        (self.path / "memories" / name).write_text("\n\u00a7\n".join(lines), encoding="utf-8")

    def memory(self) -> Memory:
        """Return the operator's view of the store, with everything that waited in it."""
        memory = Memory.open(self.store, readable_themes="*")
        assert memory.engine.finish(20.0)
        return memory

    def entries(self) -> list[Entry]:
        """Return all live entries, oldest first."""
        return [row for row in self.memory().list(limit=None, newest_first=False) if isinstance(row, Entry)]

    def turns(self) -> list[Turn]:
        """Return all live turns, oldest first."""
        rows = self.memory().list(kinds=("turn",), limit=None, newest_first=False)
        return sorted((row for row in rows if isinstance(row, Turn)), key=lambda turn: turn.seq)

    def said(self) -> list[str]:
        """Return the texts of all live turns, sorted."""
        return sorted(turn.content for turn in self.turns())

    def noted(self) -> list[str]:
        """Return the texts of all live entries, sorted."""
        return sorted(entry.content for entry in self.entries())


def exchange(number: int) -> tuple[str, str]:
    """Return a question and an answer that nobody else gives."""
    return (
        f"Question number {number}: how many gulls does the keeper of the lighthouse feed?",
        f"Answer number {number}: he feeds {number + 3} gulls, every morning before the tide.",
    )


def transcript(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    """Return exchanges as a host's messages."""
    return [
        message
        for asked, answered in pairs
        for message in ({"role": "user", "content": asked}, {"role": "assistant", "content": answered})
    ]


def answer_of(provider: MnemosyneProvider, tool: str, **args: Any) -> dict[str, Any]:
    """Return the parsed answer of a tool."""
    reply: dict[str, Any] = json.loads(provider.handle_tool_call(tool, args))
    return reply
