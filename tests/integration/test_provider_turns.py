"""Turns reach the store once, on whichever of the host's ways they come."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter

import pytest

from hermes_mnemosyne.hermes.provider import MnemosyneProvider
from tests.integration.provider_home import BOAT, REPLY, SESSION, HermesHome, exchange, transcript


def test_a_completed_turn_is_stored_with_both_its_sides(hermes: HermesHome) -> None:
    hermes.start().sync_turn(BOAT, REPLY, session_id=SESSION)
    assert [(turn.role, turn.content, turn.session_id, turn.theme) for turn in hermes.turns()] == [
        ("user", BOAT, SESSION, "hermes"),
        ("assistant", REPLY, SESSION, "hermes"),
    ]


def test_the_end_of_a_session_adds_nothing_that_was_reported(hermes: HermesHome) -> None:
    provider = hermes.start()
    for number in range(3):
        provider.sync_turn(*exchange(number), session_id=SESSION)
    provider.on_session_end(transcript(*map(exchange, range(3))))
    provider.on_session_end(transcript(*map(exchange, range(3))))
    assert hermes.said() == sorted(text for number in range(3) for text in exchange(number))


def test_the_end_of_a_session_stores_what_was_never_reported(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn(*exchange(0), session_id=SESSION)
    interrupted = {"role": "user", "content": BOAT}
    provider.on_session_end([*transcript(exchange(0)), interrupted])
    assert hermes.said() == sorted([*exchange(0), BOAT])


def test_a_report_that_the_end_of_the_session_overtook_is_stored_once(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn(*exchange(0), session_id=SESSION)
    provider.on_session_end(transcript(exchange(0), exchange(1), exchange(2)))
    provider.sync_turn(*exchange(1), session_id=SESSION)
    provider.sync_turn(*exchange(2), session_id=SESSION)
    assert Counter(hermes.said()) == Counter(text for number in range(3) for text in exchange(number))


def test_the_end_of_a_session_that_runs_beside_the_last_report_stores_each_turn_once(hermes: HermesHome) -> None:
    for number in range(10):
        session = f"{SESSION[:-2]}{number:02x}"
        provider = hermes.start(session)
        start = threading.Barrier(2)
        thread = threading.Thread(target=reported_at, args=(start, provider, session))
        thread.start()
        start.wait()
        provider.on_session_end(transcript(exchange(0)))
        thread.join()
    assert Counter(hermes.said()) == Counter(dict.fromkeys(exchange(0), 10))


def reported_at(start: threading.Barrier, provider: MnemosyneProvider, session: str) -> None:
    """Report a turn at the moment at which another thread passes the barrier."""
    start.wait()
    provider.sync_turn(*exchange(0), session_id=session)


def test_the_same_words_in_two_turns_are_two_turns(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    provider.on_session_end(transcript((BOAT, REPLY), (BOAT, REPLY)))
    assert hermes.said() == sorted([BOAT, BOAT, REPLY, REPLY])


def test_a_session_that_is_resumed_by_another_provider_is_stored_once(hermes: HermesHome) -> None:
    first = hermes.start()
    first.sync_turn(*exchange(0), session_id=SESSION)
    first.on_session_end(transcript(exchange(0)))
    second = hermes.start()
    second.sync_turn(*exchange(1), session_id=SESSION)
    second.on_session_end(transcript(exchange(0), exchange(1)))
    assert Counter(hermes.said()) == Counter([*exchange(0), *exchange(1)])


def test_a_compression_in_the_middle_of_a_turn_stores_each_turn_once(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn(*exchange(0), session_id=SESSION)
    before = [*transcript(exchange(0)), {"role": "user", "content": exchange(1)[0]}]
    assert provider.on_pre_compress(before) == ""
    provider.on_session_end(before)
    provider.on_session_switch(SESSION, parent_session_id=SESSION, reset=False, reason="compression")
    provider.sync_turn(*exchange(1), session_id=SESSION)
    compressed = [
        {"role": "user", "content": "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted: gulls and lighthouses."}
    ]
    provider.on_session_end([*compressed, *transcript(exchange(1))])
    assert Counter(hermes.said()) == Counter([*exchange(0), *exchange(1)])


def test_a_compression_that_changes_the_session_stores_each_turn_once_per_session(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn(*exchange(0), session_id=SESSION)
    provider.on_session_end(transcript(exchange(0)))
    provider.on_session_switch("20261130_130000_aaaaaa", parent_session_id=SESSION, reset=False, reason="compression")
    provider.sync_turn(*exchange(1), session_id="20261130_130000_aaaaaa")
    provider.on_session_end(transcript(exchange(1)))
    assert Counter(hermes.said()) == Counter([*exchange(0), *exchange(1)])
    assert {turn.session_id for turn in hermes.turns()} == {SESSION, "20261130_130000_aaaaaa"}


@pytest.mark.parametrize("reason", ["compression", "branch"])
def test_the_transcript_of_a_session_that_continues_another_is_stored_without_its_beginning(
    hermes: HermesHome, reason: str
) -> None:
    after = "20261130_130000_eeeeee"
    provider = hermes.start()
    provider.sync_turn(*exchange(0), session_id=SESSION)
    asked = [*transcript(exchange(0)), {"role": "user", "content": exchange(1)[0]}]
    provider.on_session_end(asked)
    provider.on_session_switch(after, parent_session_id=SESSION, reset=False, reason=reason)
    provider.sync_turn(*exchange(1), session_id=after)
    provider.on_session_end(transcript(exchange(0), exchange(1)))
    once = Counter([*exchange(0), *exchange(1)])
    assert Counter(hermes.said()) == once
    # Another process resumes the later session and knows only what the store remembers.
    resumed = hermes.start(after)
    resumed.sync_turn(*exchange(2), session_id=after)
    resumed.on_session_end(transcript(exchange(0), exchange(1), exchange(2)))
    assert Counter(hermes.said()) == once + Counter(exchange(2))


@pytest.mark.parametrize("reason", ["compression", "branch"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_session_that_continues_another_is_stored_once_while_the_file_is_locked(
    hermes: HermesHome, *, reason: str, restarted: bool
) -> None:
    names = [f"20261130_12445{number}_aaaaaa" for number in range(3)]
    provider = hermes.start(names[0])
    provider.sync_turn(*exchange(0), session_id=names[0])
    hermes.memory()
    blocker = sqlite3.connect(hermes.store, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    said = [exchange(0)]
    for number, name in enumerate(names[1:], start=1):
        provider.on_session_end(transcript(*said))
        provider.on_session_switch(name, parent_session_id=names[number - 1], reason=reason)
        if restarted:
            provider = hermes.start(name)
        said.append(exchange(number))
        provider.sync_turn(*said[-1], session_id=name)
        provider.on_session_end(transcript(*said))
    blocker.execute("ROLLBACK")
    blocker.close()
    assert hermes.said() == sorted(text for pair in said for text in pair)


@pytest.mark.parametrize("taken", ["forget", "retire"])
@pytest.mark.parametrize("reason", ["compression", "branch"])
def test_what_was_taken_out_of_a_session_does_not_come_back_by_one_that_continues_it(
    hermes: HermesHome, taken: str, reason: str
) -> None:
    following = "20261201_080000_bbbbbb"
    provider = hermes.start()
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    memory = hermes.memory()
    getattr(memory, taken)(next(turn.uid for turn in hermes.turns() if turn.content == BOAT))
    provider.on_session_switch(following, parent_session_id=SESSION, reason=reason)
    hermes.start(following).on_session_end(transcript((BOAT, REPLY), exchange(1)))
    assert hermes.said() == sorted([REPLY, *exchange(1)])


def test_undone_turns_stay_and_their_successors_are_stored_once(hermes: HermesHome) -> None:
    provider = hermes.start()
    for number in range(2):
        provider.sync_turn(*exchange(number), session_id=SESSION)
    provider.on_session_switch(SESSION, reset=False, rewound=True)
    provider.sync_turn(*exchange(2), session_id=SESSION)
    provider.on_session_end(transcript(exchange(0), exchange(2)))
    assert Counter(hermes.said()) == Counter(text for number in range(3) for text in exchange(number))


def test_a_turn_reported_late_for_the_session_before_goes_there(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.on_session_end(transcript(exchange(0)))
    provider.on_session_switch("20261130_130000_bbbbbb", parent_session_id=SESSION, reset=True, reason="new_session")
    provider.sync_turn(*exchange(0), session_id=SESSION)
    provider.sync_turn(*exchange(1), session_id="20261130_130000_bbbbbb")
    assert Counter((turn.session_id, turn.content) for turn in hermes.turns()) == Counter(
        [(SESSION, text) for text in exchange(0)] + [("20261130_130000_bbbbbb", text) for text in exchange(1)]
    )


def test_noise_is_stored_on_neither_way(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn("thanks a lot", "You are welcome!", session_id=SESSION)
    provider.on_session_end(transcript(("thanks a lot", "You are welcome!")))
    assert hermes.said() == []


def test_the_length_that_counts_as_noise_is_a_setting(hermes: HermesHome) -> None:
    hermes.configure(turn_min_chars=5)
    hermes.start().sync_turn("Momo is the cat", "OK.", session_id=SESSION)
    assert hermes.said() == ["Momo is the cat"]


def test_a_multimodal_turn_is_the_same_text_on_both_ways(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn(f"[1 image] {BOAT}\nWhat do you see?", REPLY, session_id=SESSION)
    parts = [
        {"type": "text", "text": BOAT},
        {"type": "image_url", "image_url": {"url": "data:x"}},
        {"type": "text", "text": "What do you see?"},
    ]
    provider.on_session_end([{"role": "user", "content": parts}, {"role": "assistant", "content": REPLY}])
    assert hermes.said() == sorted([f"{BOAT}\nWhat do you see?", REPLY])


def test_recalled_memory_is_never_stored_again(hermes: HermesHome) -> None:
    sent = f"{BOAT}\n\n<memory-context>\n[System note: recalled]\n\n- a secret echo of an earlier memory\n</memory-context>"
    provider = hermes.start()
    provider.sync_turn(sent, REPLY, session_id=SESSION)
    provider.on_session_end([{"role": "user", "content": BOAT, "api_content": sent}, {"role": "assistant", "content": REPLY}])
    assert hermes.said() == sorted([BOAT, REPLY])


def test_secrets_are_masked_before_they_are_stored(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn(
        "The database answers at postgres://ada:tremendous-secret@db.example/main today.", REPLY, session_id=SESSION
    )
    provider.on_memory_write("add", "memory", "password=tremendous-secret of the database", {})
    assert "tremendous-secret" not in "".join([*hermes.said(), *hermes.noted()])


@pytest.mark.parametrize("text", ["\ud800 half of a pair", "a NUL \0 inside", "\x1b[31m a control sequence", "漢字" * 30])
def test_texts_that_no_database_likes_are_stored_all_the_same(hermes: HermesHome, text: str) -> None:
    long = text + " " + BOAT
    provider = hermes.start()
    provider.sync_turn(long, REPLY, session_id=SESSION)
    provider.on_session_end(transcript((long, REPLY)))
    assert len(hermes.said()) == 2
    assert any(BOAT in said for said in hermes.said())


@pytest.mark.parametrize("context", ["cron", "subagent", "flush", "background"])
def test_only_a_primary_agent_writes(hermes: HermesHome, context: str) -> None:
    hermes.note("MEMORY.md", "Project uses uv")
    provider = hermes.start(agent_context=context)
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    provider.on_session_end(transcript((BOAT, REPLY)))
    provider.on_pre_compress(transcript((BOAT, REPLY)))
    provider.on_memory_write("add", "memory", "CI is slow", {})
    provider.on_delegation("count birds", "there are seven of them", child_session_id="20261130_130000_cccccc")
    provider.on_session_switch("20261130_130000_dddddd", reset=True, reason="new_session")
    assert hermes.turns() == []
    assert hermes.entries() == []


def test_further_contexts_that_may_write_are_a_setting(hermes: HermesHome) -> None:
    hermes.configure(write_contexts=["primary", "cron"])
    hermes.start(agent_context="cron").sync_turn(BOAT, REPLY, session_id=SESSION)
    assert hermes.said() == sorted([BOAT, REPLY])


def test_turns_are_not_stored_when_a_setting_says_so_and_memories_still_are(hermes: HermesHome) -> None:
    hermes.configure(sync_turns=False)
    provider = hermes.start()
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    provider.on_session_end(transcript((BOAT, REPLY)))
    provider.on_delegation("count birds", "there are seven of them", child_session_id="20261130_130000_cccccc")
    provider.on_memory_write("add", "memory", "CI is slow", {})
    assert hermes.said() == []
    assert hermes.noted() == ["CI is slow"]


def test_a_delegation_is_a_turn_that_says_where_it_came_from(hermes: HermesHome) -> None:
    hermes.start().on_delegation(
        "count birds in Oslo", "There are seven birds in Oslo.", child_session_id="20261130_130000_cccccc"
    )
    [turn] = hermes.turns()
    assert turn.content == "[delegation] task: count birds in Oslo\nresult: There are seven birds in Oslo."
    assert (turn.role, turn.session_id) == ("assistant", SESSION)
    assert dict(turn.metadata) == {"kind": "delegation", "child_session_id": "20261130_130000_cccccc"}


def test_the_time_a_message_was_said_is_kept_when_the_host_knows_it(hermes: HermesHome) -> None:
    hermes.start().on_session_end([{"role": "user", "content": BOAT, "timestamp": 1_796_040_000.0}])
    assert [turn.occurred_at for turn in hermes.turns()] == ["2026-11-30T12:00:00.000000Z"]
