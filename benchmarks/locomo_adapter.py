"""LoCoMo conversations in Mnemosyne's public API, with the contract of a retrieval scorer: `index`, `search`, `close`."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.embedders import chosen, embed_all, open_memory
from hermes_mnemosyne import Memory, RecallQuery

_SESSION = re.compile(r"session_(\d+)")


def turns(conversation: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None, Mapping[str, Any]]]:
    """Yield (session, text, time, turn) in the order of the conversation; a picture counts with its caption."""
    names = [match.group(1) for match in map(_SESSION.fullmatch, conversation) if match]
    for number in sorted(map(int, names)):
        said = conversation[f"session_{number}"]
        if not isinstance(said, list):
            continue
        at = _time(conversation.get(f"session_{number}_date_time", ""))
        for turn in said:
            caption = turn.get("blip_caption")
            text = f"{turn.get('text') or ''}{f' [image: {caption}]' if caption else ''}".strip()
            if text:
                yield f"session-{number}", text, at, turn


def _time(text: str) -> str | None:
    try:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y").strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007  # has no zone
    except ValueError:
        return None


def capture(memory: Memory, conversation: Mapping[str, Any]) -> dict[str, str]:
    """Store a conversation in the theme of `memory`; return the id in the data of each row's uid."""
    ids = {}
    for session, text, at, turn in turns(conversation):
        receipt = memory.capture_turn(text, session_id=session, role="user", speaker=turn["speaker"], occurred_at=at)
        ids[receipt.uid] = turn["dia_id"]
    return ids


class Adapter:
    """Indexes one conversation at a time, each in a theme of its own in one temporary file."""

    def __init__(self, embedder: str = "auto") -> None:
        """Make an empty store with an embedder: a value of the setting, or a model directory."""
        self._embedder = chosen(embedder).embedder
        self._directory = tempfile.mkdtemp(prefix="mnemosyne-locomo-")
        self._numbers = itertools.count(1)
        self._memory: Memory | None = None
        self._ids: dict[str, str] = {}

    def index(self, conversation: Mapping[str, Any]) -> None:
        """Store a conversation; searches see this one only."""
        if self._memory is not None:
            self._memory.close()
        theme = f"conversation-{next(self._numbers)}"
        self._memory = open_memory(Path(self._directory) / "locomo.db", theme, self._embedder)
        self._ids = capture(self._memory, conversation)
        embed_all(self._memory, self._embedder)

    def search(self, question: str, k: int) -> list[str]:
        """Return the ids of at most `k` turns, best first."""
        if self._memory is None:
            return []
        return [self._ids[hit.uid] for hit in self._memory.recall(RecallQuery(text=question, limit=k, kinds=("turn",)))]

    def close(self) -> None:
        """Remove the store."""
        if self._memory is not None:
            self._memory.close()
        shutil.rmtree(self._directory, ignore_errors=True)
