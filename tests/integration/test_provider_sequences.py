"""Whatever a host does between two turns, each is stored as often as it was said."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_mnemosyne import registry
from hermes_mnemosyne.hermes.provider import MnemosyneProvider
from tests.integration.provider_home import BOAT, QUESTION, REPLY, SESSION, HermesHome, exchange, transcript

SUMMARY = {
    "role": "user",
    "content": "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted: gulls and lighthouses.",
}
NOISE = "ok"
Event = Literal["report", "end", "undo", "restart", "crash", "branch", "lock", "unlock"]


@dataclass(frozen=True)
class Said:
    """A turn, by the numbers of its texts, 0 for noise; it is reported at once, or `late`."""

    question: int
    answer: int
    late: bool = False


@dataclass(frozen=True)
class Compressed:
    """A compression that keeps the last turns, in the same session or in one that continues it."""

    kept: int
    rotated: bool


Step = Event | Said | Compressed
EVENTS: tuple[Event, ...] = ("report", "end", "undo", "restart", "crash", "branch", "lock", "unlock")
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(Said, st.integers(0, 3), st.integers(0, 3), st.booleans()),
    st.builds(Compressed, st.integers(0, 2), st.booleans()),
    st.sampled_from(EVENTS),
)


@dataclass
class Host:
    """A host with one conversation, which knows what was said in it and how often."""

    home: HermesHome
    provider: MnemosyneProvider = field(init=False)
    sessions: int = 0
    turns: list[tuple[str, str]] = field(default_factory=list)
    start: list[dict[str, Any]] = field(default_factory=list)
    late: list[tuple[str, str, str, list[dict[str, Any]]]] = field(default_factory=list)
    said: Counter[tuple[str, str]] = field(default_factory=Counter)
    blocker: sqlite3.Connection | None = None

    def __post_init__(self) -> None:
        self.provider = self.home.start(self.session)

    @property
    def session(self) -> str:
        return f"20261130_124458_{self.sessions:06x}"

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [*self.start, *transcript(*self.turns)]

    def do(self, step: Step) -> None:
        if isinstance(step, Said):
            self.say(step)
        elif isinstance(step, Compressed):
            self.compress(step)
        else:
            getattr(self, step)()

    def say(self, turn: Said) -> None:
        question, answer = exchange(turn.question)[0], exchange(turn.answer)[1]
        pair = (question if turn.question else NOISE, answer if turn.answer else NOISE)
        self.turns.append(pair)
        self.said.update(message for message in zip(("user", "assistant"), pair, strict=True) if message[1] != NOISE)
        self.late.append((*pair, self.session, self.messages))
        if not turn.late:
            self.report()

    def report(self) -> None:
        for asked, answered, session, messages in self.late:
            self.provider.sync_turn(asked, answered, session_id=session, messages=messages)
        self.late.clear()

    def end(self) -> None:
        self.provider.on_session_end(self.messages)

    def undo(self) -> None:
        self.report()
        if self.turns:
            self.turns.pop()
            self.provider.on_session_switch(self.session, parent_session_id="", reset=False, rewound=True)

    def compress(self, how: Compressed) -> None:
        if any(session != self.session for _, _, session, _ in self.late):
            # A host is late by one session, not by any number of them.
            self.report()
        self.provider.on_pre_compress(self.messages)
        self.end()
        before = self.session
        self.sessions += how.rotated
        self.provider.on_session_switch(self.session, parent_session_id=before, reset=False, reason="compression")
        self.start = [SUMMARY]
        self.turns = self.turns[len(self.turns) - min(how.kept, len(self.turns)) :]

    def branch(self) -> None:
        self.report()
        before = self.session
        self.sessions += 1
        self.provider.on_session_switch(self.session, parent_session_id=before, reset=False, reason="branch")

    def restart(self) -> None:
        self.report()
        self.end()
        self.provider.shutdown()
        self.provider = self.home.start(self.session)

    def crash(self) -> None:
        self.report()
        self.provider = self.home.start(self.session)

    def lock(self) -> None:
        if self.blocker is None:
            self.home.memory()
            self.blocker = sqlite3.connect(self.home.store, isolation_level=None)
            self.blocker.execute("BEGIN IMMEDIATE")

    def unlock(self) -> None:
        if self.blocker is not None:
            self.blocker.execute("ROLLBACK")
            self.blocker.close()
            self.blocker = None


# Each text is one of a few, so that the same is said again before and after every other event.
@pytest.mark.usefixtures("hermes")
@given(steps=st.lists(STEPS, max_size=14))
# An answer that an undone turn gave too, in a turn that the transcript overtakes.
@example(steps=[Said(1, 1), "undo", Said(2, 1, late=True), "end", "report"])
@example(steps=["lock", Said(1, 1), "undo", Said(2, 1, late=True), "end", "report"])
@example(steps=[Said(1, 1), "undo", "restart", "lock", Said(2, 1, late=True), "end", "report"])
# A late turn that says what an undone one said, before another late one.
@example(steps=[Said(1, 1), "undo", Said(1, 1, late=True), Said(2, 2, late=True), "end", "report"])
# An answer that was compressed away.
@example(steps=[Said(1, 1), Compressed(0, rotated=False), Said(2, 1, late=True), "end", "report"])
# A late turn of the session before, said again in the one that continues it.
@example(steps=[Said(1, 1, late=True), Compressed(0, rotated=True), "report", Said(1, 1)])
@example(steps=["lock", Said(1, 1), Said(1, 1, late=True), Compressed(0, rotated=True), "report", Said(1, 1), "end"])
# A turn of a resumed session, said again after a compression.
@example(steps=[Said(1, 1), "restart", Compressed(0, rotated=True), Said(1, 1)])
@example(steps=[Said(1, 1), "lock", "restart", Compressed(0, rotated=True), Said(1, 1)])
def test_each_turn_is_stored_as_often_as_it_was_said(steps: list[Step], tmp_path_factory: pytest.TempPathFactory) -> None:
    host = Host(HermesHome(tmp_path_factory.mktemp("hermes")))
    try:
        for step in [*steps, "report", "end", "unlock"]:
            host.do(step)
        assert Counter((turn.role, turn.content) for turn in host.home.turns()) == host.said
    finally:
        host.unlock()
        registry.close_all()


@pytest.mark.parametrize("rotated", [False, True])
def test_a_question_stands_in_the_prompt_after_a_compression_in_the_middle_of_its_turn(
    hermes: HermesHome, *, rotated: bool
) -> None:
    after = "20261130_130000_aaaaaa" if rotated else SESSION
    provider = hermes.start()
    asked = [{"role": "user", "content": BOAT}]
    provider.on_pre_compress(asked)
    provider.on_session_end(asked)
    provider.on_session_switch(after, parent_session_id=SESSION, reset=False, reason="compression")
    provider.sync_turn(BOAT, REPLY, session_id=after, messages=transcript((BOAT, REPLY)))
    assert provider.prefetch(QUESTION, session_id=after) == ""
