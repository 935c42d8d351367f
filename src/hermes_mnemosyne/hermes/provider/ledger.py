"""Who stored a message first: the report of its turn, or a transcript that overtook that report.

A host reports a turn on one thread and ends the session, or compresses it, on another. What the transcript of the end already
held must not be stored again when the late report arrives, while a person who says the same thing again must be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_mnemosyne.store.operations import TurnText
from hermes_mnemosyne.text import content_hash

Message = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Ahead:
    """A message that a transcript of `session_id` stored, as `uid`, before the report of its turn."""

    message: Message
    uid: str
    session_id: str


class Ledger:
    """The messages of one session that one provider reported, and those that a transcript stored ahead of their report.

    Reports come in the order of the turns, so what a transcript is ahead by are its last messages. Not safe for threads.
    """

    def __init__(self, session_id: str) -> None:
        """Begin with nothing reported.

        `inherited` is what the store knows of the sessions that this one continues, `before` what this process saw of them: each
        may know less than there was.
        """
        self.session_id = session_id
        self.inherited: Counter[Message] | None = None
        self.before: Counter[Message] = Counter()
        self._reported: Counter[Message] = Counter()
        self._read: Counter[Message] = Counter()
        self._ahead: list[Ahead] = []

    def continued(self, session_id: str) -> Ledger:
        """Return the ledger of the session that goes on where this one stops, in the middle of a turn perhaps."""
        after = Ledger(session_id)
        after._ahead = list(self._ahead)
        # A message is counted once whether it was reported, read, or both.
        after.before = self._known_before() + (self._reported | self._read)
        return after

    def transcript(self, turns: Sequence[TurnText]) -> list[TurnText]:
        """Take note of a transcript and return its messages without those of the sessions before, with which it may begin.

        What follows its last reported message is ahead of its report.
        """
        before = self._known_before()
        left = self._reported.copy()
        own: list[TurnText] = []
        self._ahead = []
        for turn in turns:
            message = message_of(turn.role, turn.content)
            if before[message] > 0:
                before[message] -= 1
                continue
            own.append(turn)
            if left[message] > 0:
                left[message] -= 1
                self._ahead = []
            else:
                self._ahead.append(Ahead(message, turn.uid, self.session_id))
        self._read |= Counter(message_of(turn.role, turn.content) for turn in own)
        return own

    def _known_before(self) -> Counter[Message]:
        return self.before | (self.inherited or Counter())

    def report(self, turns: Sequence[TurnText]) -> list[Ahead | None]:
        """Take note of a reported turn; return for each message where a transcript stored it, None when it is new."""
        found: list[Ahead | None] = []
        ahead = self._ahead
        for turn in turns:
            message = message_of(turn.role, turn.content)
            self._reported[message] += 1
            place = next((i for i, known in enumerate(ahead) if known.message == message), None)
            found.append(None if place is None else ahead[place])
            if place is not None:
                ahead = ahead[place + 1 :]
        # A turn of which nothing was ahead is a later one: no older report will come.
        self._ahead = ahead if any(found) else []
        return found


def message_of(role: str, content: str) -> Message:
    """Return what makes two messages of a session the same."""
    return role, content_hash(content)
