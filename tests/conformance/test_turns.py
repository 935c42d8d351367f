"""Turns: capture, occurrences, transcripts, neighbours, what stands in a prompt."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.store.operations import MarkInjected
from hermes_mnemosyne.store.protocol import Filter, Neighbours, Reach
from hermes_mnemosyne.values import Turn
from tests.conformance.world import EVERYTHING, World, any_of, body_of, contexts_of, turn

PAST = "2001-01-01T12:00:00.000000Z"


def test_a_captured_turn_is_read_back_with_every_field(world: World) -> None:
    said = turn("hello", role="assistant", speaker="Ada", occurred_at=PAST, occurred_offset=-300, metadata={"a": [1]})
    outcome = world.say(said, session="s", subject="contact", parent_session_id="p", visibility="local")
    row = world.get(said.uid)
    assert isinstance(row, Turn)
    assert (outcome.status, outcome.uid, outcome.uids) == ("added", said.uid, (said.uid,))
    assert row == Turn(
        uid=said.uid, theme="alpha", subject="contact", content="hello", session_id="s", position=1, role="assistant", speaker="Ada",
        occurrence=1, occurred_at=PAST, occurred_offset=-300, parent_session_id="p", visibility="local", metadata={"a": [1]},
        created_at=row.created_at, seq=row.seq, clock=row.clock,
    )  # fmt: skip


def test_turns_of_a_session_stand_in_the_order_they_were_said(world: World) -> None:
    world.say("one", "two")
    world.say("elsewhere", session="s2")
    world.say("three")
    rows = [row for row in world.rows(session_id="s1") if isinstance(row, Turn)]
    assert [row.content for row in sorted(rows, key=lambda row: row.position)] == ["one", "two", "three"]
    assert len({row.position for row in rows}) == 3


def occurrences(world: World, text: str, **where: object) -> list[int]:
    return sorted(row.occurrence for row in world.rows(**where) if isinstance(row, Turn) and row.content == text)


def test_saying_the_same_thing_twice_stores_it_twice(world: World) -> None:
    world.say("yes")
    world.say("yes", "yes")
    assert occurrences(world, "yes") == [1, 2, 3]


@pytest.mark.parametrize("other", [{"session": "s2"}, {"theme": "beta"}, {"subject": "contact"}])
def test_occurrences_count_within_one_session_of_one_contact(world: World, other: dict[str, str]) -> None:
    world.say("yes")
    world.say("yes", **other)
    assert occurrences(world, "yes") == [1, 1]


def test_occurrences_count_per_role(world: World) -> None:
    world.say(turn("yes"), turn("yes", role="assistant"))
    assert occurrences(world, "yes") == [1, 1]


def test_a_transcript_stores_only_what_the_session_does_not_have(world: World) -> None:
    world.say("one", "two")
    assert world.transcript("one", "two").status == "exists"
    assert world.transcript("one", "two", "three", "one").status == "added"
    assert world.transcript("one", "two", "three", "one").status == "exists"
    assert (occurrences(world, "one"), sorted(world.texts())) == ([1, 2], ["one", "one", "three", "two"])


def test_a_transcript_that_overlaps_adds_its_new_end(world: World) -> None:
    world.transcript("one", "two", "three")
    world.transcript("three", "four")
    rows = sorted((row for row in world.rows() if isinstance(row, Turn)), key=lambda row: row.position)
    assert [row.content for row in rows] == ["one", "two", "three", "four"]


def test_an_empty_transcript_is_nothing_new(world: World) -> None:
    assert world.transcript().status == "exists"
    assert world.rows() == []


@pytest.mark.parametrize("gone", ["retire", "forget"])
def test_retired_and_forgotten_turns_count_as_had(world: World, gone: str) -> None:
    world.say("yes", "no", "yes")
    uid = next(row.uid for row in world.rows() if row.content == "yes")
    getattr(world, gone)(uid)
    assert world.transcript("yes", "no", "yes").status == "exists"
    assert world.transcript("yes", "no", "yes", "yes").status == "added"
    world.say("yes")
    assert occurrences(world, "yes")[-2:] == [3, 4]


def test_a_retired_turn_comes_back_at_its_place(world: World) -> None:
    world.say("one", "two", "three")
    uid = next(row.uid for row in world.rows() if row.content == "two")
    world.retire(uid)
    assert world.found("two") == []
    world.undo(uid)
    rows = sorted((row for row in world.rows() if isinstance(row, Turn)), key=lambda row: row.position)
    assert [row.content for row in rows] == ["one", "two", "three"]
    assert sorted(world.found("two")) == ["one", "three", "two"]
    assert world.store.check() == []


def test_a_turn_has_no_versions_to_go_back_to(world: World) -> None:
    world.say("one")
    (row,) = world.rows()
    assert world.undo(row.uid).status == "retired"
    assert world.undo(row.uid).status == "restored"
    assert world.edit(row.uid, content="two").status == "unknown"


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=8))
def test_a_transcript_tops_up_to_what_it_holds(new_world: Callable[..., World], said: list[str], heard: list[str]) -> None:
    world = new_world()
    if said:
        world.say(*said)
    world.transcript(*heard)
    world.transcript(*heard)
    for text in "abc":
        assert occurrences(world, text) == list(range(1, max(said.count(text), heard.count(text)) + 1))


# -- neighbours ------------------------------------------------------------------------------------------------------------------


def test_a_turn_is_found_by_the_words_of_the_turns_beside_it(world: World) -> None:
    world.say("where is the boat moored", "in Bergen", "good", "and the kettle")
    found = world.found("moored")
    assert found[0] == "where is the boat moored"
    assert sorted(found) == ["in Bergen", "where is the boat moored"]


def test_words_of_other_sessions_and_of_entries_are_not_lent(world: World) -> None:
    world.say("where is the boat moored")
    world.say("in Bergen", session="s2")
    world.add("kettle", session_id="s1")
    assert world.found("moored") == ["where is the boat moored"]
    assert world.found("kettle") == ["kettle"]


def test_only_the_text_itself_counts_for_terms_in(world: World) -> None:
    world.say("moored", "bergen")
    terms = [body_of(row) for row in world.rows()]
    candidates = {candidate.id for candidate in world.store.lexical(any_of("moored"), _everything())}
    held = world.store.terms_in(sorted(candidates), ("moor", *(word for body in terms for word in body.split())))
    rows = world.store.load(sorted(candidates))
    for number, row in rows.items():
        assert held[number] >= set(body_of(row).split())
        assert ("bergen" in held[number]) == (row.content == "bergen")


def _everything() -> Filter:
    return Filter(reach=EVERYTHING)


def test_a_long_turn_borrows_nothing_and_lends_its_beginning(world: World) -> None:
    words = ["".join(chr(98 + int(digit)) for digit in f"{number:03}") + "zu" for number in range(700)]
    long = " ".join(words)
    world.say("moored", long, "after")
    assert world.found("moored") == ["moored"]
    assert sorted(world.found(words[1])) == sorted(["moored", long, "after"])
    assert world.found(words[699]) == [long]


def test_neighbours_are_told_by_row_number(world: World) -> None:
    world.say("one", "two", "three")
    world.say("alone", session="s2")
    world.add("two")
    ids = {}
    for text in ("one", "two", "three", "alone"):
        for candidate in world.store.lexical(any_of(text), _everything()):
            row = world.store.load([candidate.id])[candidate.id]
            ids[row.kind, row.content] = candidate.id
    one, two, three = (ids["turn", text] for text in ("one", "two", "three"))
    entry = ids["entry", "two"]
    assert world.store.neighbours([one, two, three, ids["turn", "alone"], entry]) == {
        one: Neighbours(None, two),
        two: Neighbours(one, three),
        three: Neighbours(two, None),
        ids["turn", "alone"]: Neighbours(None, None),
    }


@given(st.lists(st.sampled_from(["apple", "pear", "quince", "plum", "cherry"]), min_size=1, max_size=7), st.data())
def test_the_index_is_the_same_however_the_turns_came(
    new_world: Callable[..., World], texts: list[str], data: st.DataObject
) -> None:
    at_once, one_by_one, merged = new_world(), new_world(), new_world()
    at_once.say(*texts)
    for text in texts:
        one_by_one.say(text)
    merged.merge(data.draw(st.permutations(at_once.exported())))
    for text in texts:
        answers = [sorted(world.found(text)) for world in (at_once, one_by_one, merged)]
        assert answers[0] == answers[1] == answers[2]
        borrowed = contexts_of(at_once.rows())
        expected = [row.content for row in at_once.rows() if body_of(row) in f"{body_of(row)} {borrowed[row.uid]}".split()]
        assert len(expected) == len(texts)


# -- speakers and prompts --------------------------------------------------------------------------------------------------------


def test_speakers_are_known_while_they_have_turns(world: World) -> None:
    world.say(turn("one", speaker="Ada"), turn("two", speaker="Ada"), turn("three", speaker="Bob"))
    assert world.store.speakers(EVERYTHING) == {"Ada", "Bob"}
    for row in world.rows():
        if row.content != "one":
            world.forget(row.uid)
    assert world.store.speakers(EVERYTHING) == {"Ada"}
    world.retire(world.rows()[0].uid)
    assert world.store.speakers(EVERYTHING) == set()


def test_what_stands_in_a_prompt_is_kept_per_session_until_a_reset(world: World) -> None:
    marks = [("s1", ("u1", "u2"), False), ("s1", ("u2", "u3"), False), ("s2", ("u4",), False)]
    for session, uids, reset in marks:
        world.done(world.make(MarkInjected, session_id=session, uids=uids, reset=reset))
    assert world.store.injected("alpha", "", "s1") == {"u1", "u2", "u3"}
    world.done(world.make(MarkInjected, session_id="s1", uids=("u5",), reset=True))
    assert world.store.injected("alpha", "", "s1") == {"u5"}
    assert world.store.injected("alpha", "", "s2") == {"u4"}
    for theme, subject in (("beta", ""), ("alpha", "contact")):
        assert world.store.injected(theme, subject, "s1") == frozenset()


def test_a_brief_capture_leaves_the_index_as_any_other_once_upkeep_is_done(world: World, new_world: Callable[..., World]) -> None:
    other = new_world()
    for one, brief in ((world, False), (other, True)):
        for number in range(5):
            one.say(f"question {number} about lamps", f"answer {number} about chairs", brief=brief)
        assert one.store.upkeep(seconds=30)
    for words in ("question", "answer", "lamp", "2", "chair"):
        assert other.found(words) == world.found(words)
        assert len(world.found(words)) > 1


def test_the_words_around_a_brief_capture_are_those_around_any_other(new_world: Callable[..., World]) -> None:
    world = new_world()
    world.say("first lamp", brief=True)
    world.say("second chair", brief=True)
    assert world.store.upkeep(seconds=30)
    assert sorted(world.found("chair")) == ["first lamp", "second chair"]


PLACE = st.tuples(st.sampled_from(["alpha", "Alpha", "beta"]), st.sampled_from(["", "contact"]), st.sampled_from(["s1", "s2"]))


@given(
    said=st.lists(PLACE, max_size=10),
    reach=st.builds(Reach, st.none() | st.frozensets(st.sampled_from(["alpha", "beta"])), st.sampled_from([None, "", "contact"])),
)
def test_the_turns_of_a_session_are_counted_within_reach(
    new_world: Callable[..., World], said: list[tuple[str, str, str]], reach: Reach
) -> None:
    world = new_world()
    for number, (theme, subject, session) in enumerate(said):
        world.say(f"turn {number}", theme=theme, subject=subject, session=session)
        world.add(f"entry {number}", theme=theme, subject=subject, session_id=session)
    for session in ("s1", "s2", "s3"):
        within = sum(name == session and reach.covers(theme, subject) for theme, subject, name in said)
        assert world.store.session_turns(Filter(reach=reach, session_id=session)) == within
