"""Who stored a message first: the report of its turn, or a transcript that overtook that report.

A host reports a turn on one thread and ends the session, or compresses it, on another. What the transcript of the end already
held must not be stored again when the late report arrives, while a person who says the same thing again must be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
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

    Reports come in the order of the turns, also across sessions that continue each other. Not safe for threads.
    """

    def __init__(self, session_id: str) -> None:
        """Begin with nothing reported.

        `inherited` is what the store knows of the sessions that this one continues, `before` what this process saw of them: each
        may know less than there was.
        """
        self.session_id = session_id
        self.inherited: Counter[Message] | None = None
        self.before: Counter[Message] = Counter()
        # A message is counted once whether it was reported, read, or both, as the store counts it.
        self._had: Counter[Message] = Counter()
        # Reported, and in every transcript since; and what transcripts held after it, stored by them or said before.
        self._standing: Counter[Message] = Counter()
        self._unreported: Counter[Message] = Counter()
        self._ahead: list[Ahead] = []

    def continued(self, session_id: str) -> Ledger:
        """Return the ledger of the session that goes on where this one stops, in the middle of a turn perhaps."""
        after = Ledger(session_id)
        # The same for both: a late report, for whichever session, ends the wait for its messages in each of them.
        after._ahead, after._unreported = self._ahead, self._unreported
        after.before = self._known_before() + self._had
        return after

    def cut(self, *, undone: bool) -> None:
        """Take note that earlier messages may be missing from the next transcript: compressed away, or `undone`.

        After an undo nothing is waited for: the same question, which a person is likely to ask then, is another one.
        """
        self._standing.clear()
        if undone:
            self._ahead.clear()
            self._unreported.clear()

    def own(self, turns: Sequence[TurnText]) -> list[TurnText]:
        """Return the messages of a transcript without those of the sessions before, with which it may begin."""
        before = self._known_before()
        own: list[TurnText] = []
        for turn in turns:
            message = message_of(turn.role, turn.content)
            if before[message] > 0:
                before[message] -= 1
            else:
                own.append(turn)
        return own

    def read(self, turns: Sequence[TurnText], own: Sequence[TurnText], stored: Collection[str]) -> None:
        """Take note of a transcript, of its `own` messages, and of the uids that were stored of them.

        What was stored of it and follows its last reported message is ahead of its report. What was not stored has been reported,
        by another provider perhaps, or says what an undone message said: its report, if one comes, is a new one.
        """
        standing = self._standing.copy()
        ahead: list[Ahead] = []
        unreported: Counter[Message] = Counter()
        for turn in turns:
            message = message_of(turn.role, turn.content)
            if standing[message] > 0:
                standing[message] -= 1
                ahead.clear()
                unreported.clear()
                continue
            unreported[message] += 1
            if turn.uid in stored:
                ahead.append(Ahead(message, turn.uid, self.session_id))
        self._ahead += ahead
        self._unreported |= unreported
        self._had |= _counted(own)

    def beyond(self, own: Sequence[TurnText], known: Counter[Message]) -> frozenset[str]:
        """Return which messages the store will take of a transcript that waits, when it has had `known`: the last of each text."""
        left = _counted(own) - (self._had | known)
        found: list[str] = []
        for turn in reversed(own):
            message = message_of(turn.role, turn.content)
            if left[message] > 0:
                left[message] -= 1
                found.append(turn.uid)
        return frozenset(found)

    def _known_before(self) -> Counter[Message]:
        return self.before | (self.inherited or Counter())

    def report(self, turns: Sequence[TurnText]) -> list[Ahead | None]:
        """Take note of a reported turn; return for each message where a transcript stored it, None when it is new."""
        messages = [message_of(turn.role, turn.content) for turn in turns]
        newest = self._ahead[-1] if self._ahead else None
        overtaken = [self._taken(message) for message in messages]
        new = Counter(message for message, ahead in zip(messages, overtaken, strict=True) if ahead is None)
        self._had += new
        self._standing += new
        later = not Counter(messages) <= self._unreported
        self._unreported -= Counter(messages)
        if later or (newest and newest in overtaken and not self._unreported[newest.message]):
            # No transcript held more than this turn: no older report will come.
            self._ahead.clear()
            self._unreported.clear()
        return overtaken

    def _taken(self, message: Message) -> Ahead | None:
        place = next((i for i, ahead in enumerate(self._ahead) if ahead.message == message), None)
        return None if place is None else self._ahead.pop(place)


def _counted(turns: Sequence[TurnText]) -> Counter[Message]:
    return Counter(message_of(turn.role, turn.content) for turn in turns)


def message_of(role: str, content: str) -> Message:
    """Return what makes two messages of a session the same."""
    return role, content_hash(content)
