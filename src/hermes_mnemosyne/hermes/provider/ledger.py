"""Who stored a message first: the report of its turn, or a transcript that overtook that report.

A host reports a turn on one thread and ends the session, or compresses it, on another. What the transcript of the end already
held must not be stored again when the late report arrives, while a person who says the same thing again must be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hermes_mnemosyne.store.operations import TurnText
from hermes_mnemosyne.text import content_hash

_Message = tuple[str, str]


class Ledger:
    """The messages of one session that one provider reported, and those that a transcript stored ahead of their report.

    Reports come in the order of the turns, so what a transcript is ahead by are its last messages. Not safe for threads.
    """

    def __init__(self) -> None:
        """Begin with nothing reported."""
        self._reported: Counter[_Message] = Counter()
        self._ahead: list[tuple[_Message, str]] = []

    def transcript(self, turns: Sequence[TurnText]) -> None:
        """Take note of a transcript: what follows its last reported message is ahead of its report."""
        left = self._reported.copy()
        self._ahead = []
        for turn in turns:
            message = _message(turn)
            if left[message] > 0:
                left[message] -= 1
                self._ahead = []
            else:
                self._ahead.append((message, turn.uid))

    def report(self, turns: Sequence[TurnText]) -> list[str | None]:
        """Take note of a reported turn; return for each message the uid a transcript gave it, None when it is new."""
        found: list[str | None] = []
        ahead = self._ahead
        for turn in turns:
            message = _message(turn)
            self._reported[message] += 1
            place = next((i for i, (known, _) in enumerate(ahead) if known == message), None)
            found.append(None if place is None else ahead[place][1])
            if place is not None:
                ahead = ahead[place + 1 :]
        # A turn of which nothing was ahead is a later one: no older report will come.
        self._ahead = ahead if any(found) else []
        return found


def _message(turn: TurnText) -> _Message:
    return turn.role, content_hash(turn.content)
