"""Forgetting: every copy goes, a tombstone without text stays, and the text does not come back by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.store.operations import SCRATCH_THEME, AddEntry, EditEntry, Forget, MarkInjected
from hermes_mnemosyne.store.protocol import Filter
from tests.conformance.world import EVERYTHING, NoKey, World, turn

WORD = "perelandra"


def is_nowhere(world: World, word: str = WORD) -> bool:
    """Tell whether no answer of the store holds a word: rows, index, history, export."""
    exported = "".join(str(record) for record in world.exported())
    return word not in exported and world.found(word, include_superseded=True) == [] and world.store.check() == []


def copper(world: World) -> str:
    return world.add(f"the boat is called {WORD}", tags=(WORD,), metadata={"name": WORD})


def prepare(world: World, case: str) -> str:
    """Make a row that holds the word in a certain state, and return its id."""
    if case == "edited":
        uid = copper(world)
        for number in range(3):
            world.edit(uid, content=f"{WORD} {number}")
        world.edit(uid, content="another name", tags=(), metadata={})
    elif case == "retired":
        uid = copper(world)
        world.retire(uid)
    elif case == "merged":
        uid = copper(world)
        other = world.add(f"a boat named {WORD}")
        world.edit(other, content=f"the boat is called {WORD}")
    elif case == "alias":
        late = world.adding(f"the boat is called {WORD}")
        uid = max(copper(world), late.uid)
        world.late(late)
    elif case == "superseding":
        old = world.add("the boat is called Malacandra")
        uid = world.add(f"the boat is called {WORD}", supersedes=old)
    elif case == "superseded":
        uid = copper(world)
        world.add("the boat is called Malacandra", supersedes=uid)
    elif case == "turn":
        world.say("hello there", f"my boat is called {WORD}", "how nice")
        uid = next(row.uid for row in world.rows() if WORD in row.content)
    elif case == "retired turn":
        world.say("hello there", f"my boat is called {WORD}", "how nice")
        uid = next(row.uid for row in world.rows() if WORD in row.content)
        world.retire(uid)
    else:
        uid = copper(world)
    return uid


CASES = ["live", "edited", "retired", "merged", "alias", "superseding", "superseded", "turn", "retired turn"]


@pytest.mark.parametrize("case", ["live", "edited", "retired", "turn"])
def test_a_trial_row_is_forgotten_without_a_trace(world: World, case: str) -> None:
    world.add("something else")
    before = world.exported()
    head = {"theme": SCRATCH_THEME, "visibility": "local"}
    uid = world.say("a trial", **head).uids[0] if case == "turn" else world.add("a trial", **head)
    if case == "edited":
        world.edit(uid, content="another trial")
    elif case == "retired":
        world.retire(uid)
    assert world.forget(uid).status == "forgotten"
    assert (world.state(uid), world.actions(uid)) == ("unknown", [])
    assert world.exported() == before
    assert world.forget(uid).status == "unknown"


def test_a_row_that_replicas_know_leaves_a_tombstone_in_the_theme_of_trials_too(world: World) -> None:
    uid = world.add("no trial", theme=SCRATCH_THEME)
    world.forget(uid)
    assert world.state(uid) == "forgotten"


@pytest.mark.parametrize("case", CASES)
def test_nothing_of_a_forgotten_row_is_left(world: World, case: str) -> None:
    uid = prepare(world, case)
    outcome = world.forget(uid)
    assert outcome.status == "forgotten"
    assert world.state(uid) == "forgotten"
    assert world.get(uid) is None
    assert world.store.history(uid, EVERYTHING) == []
    assert is_nowhere(world)


@pytest.mark.parametrize("case", CASES)
def test_a_forget_cannot_be_undone_and_not_repeated(world: World, case: str) -> None:
    uid = prepare(world, case)
    world.forget(uid)
    assert [world.undo(uid).status, world.forget(uid).status, world.retire(uid).status] == ["unknown"] * 3
    assert world.edit(uid, content="back").status == "unknown"
    assert world.state(uid) == "forgotten"


def test_an_unknown_row_cannot_be_forgotten(world: World) -> None:
    assert world.forget(uuid7()).status == "unknown"


def test_one_of_many_goes_and_the_others_stay(world: World) -> None:
    uids = [world.add(f"{WORD} number {number}") for number in range(5)]
    world.forget(uids[2])
    assert world.texts() == [f"{WORD} number {number}" for number in (0, 1, 3, 4)]


def test_a_forgotten_turn_takes_its_words_from_the_turns_beside_it(world: World) -> None:
    world.say("where is it moored", f"{WORD} lies in Bergen", "thank you")
    uid = next(row.uid for row in world.rows() if WORD in row.content)
    assert len(world.found(WORD)) == 3
    world.forget(uid)
    assert world.found(WORD) == []
    assert sorted(world.found("moored")) == ["thank you", "where is it moored"]


def test_marks_of_a_forgotten_row_go(world: World) -> None:
    uid = copper(world)
    world.done(world.make(MarkInjected, session_id="s", uids=(uid,)))
    world.forget(uid)
    assert world.store.injected("alpha", "", "s") == frozenset()


# -- other rows with the text ----------------------------------------------------------------------------------------------------


def test_a_version_of_another_row_that_holds_the_text_goes_and_the_row_stays(world: World) -> None:
    other = world.add(f"the boat is called {WORD}")
    world.edit(other, content="a kettle")
    world.forget(copper(world))
    assert world.texts() == ["a kettle"]
    assert is_nowhere(world)


def test_a_retired_row_that_holds_the_text_is_forgotten_with_it(world: World) -> None:
    other = copper(world)
    world.retire(other)
    uid = copper(world)
    world.forget(uid)
    assert (world.state(other), world.state(uid)) == ("forgotten", "forgotten")
    assert is_nowhere(world)


def test_a_retired_row_that_once_held_the_text_can_still_be_brought_back(world: World) -> None:
    other = world.add(f"the boat is called {WORD}")
    world.edit(other, content="a kettle")
    world.retire(other)
    world.forget(copper(world))
    assert is_nowhere(world)
    assert world.undo(other).status == "restored"
    assert world.texts() == ["a kettle"]


def test_a_turn_of_the_same_text_is_another_thing_than_an_entry(world: World) -> None:
    world.say(WORD, "how nice")
    said = next(row.uid for row in world.rows() if row.content == WORD)
    world.retire(said)
    world.forget(world.add(WORD))
    assert world.state(said) == "retired"
    assert world.transcript(WORD, "how nice").status == "exists"
    world.undo(said)
    assert sorted(world.texts()) == ["how nice", WORD]


@pytest.mark.parametrize("place", [{"theme": "beta"}, {"subject": "contact"}])
def test_another_theme_or_subject_keeps_its_text(world: World, place: dict[str, str]) -> None:
    other = world.add(WORD, **place)
    world.forget(world.add(WORD))
    assert world.entry(other).content == WORD


def test_a_text_that_another_entry_holds_today_stays_welcome(world: World) -> None:
    uid = world.add(f"the boat is called {WORD}")
    world.edit(uid, content="a kettle")
    held = world.add(f"the boat is called {WORD}")
    world.forget(uid)
    assert world.file(f"the boat is called {WORD}").counts["joined"] == 1
    world.retire(held)
    assert world.undo(held).status == "restored"
    assert world.texts() == [f"the boat is called {WORD}"]


# -- what would bring it back ----------------------------------------------------------------------------------------------------


def test_a_forgotten_text_does_not_come_back_by_itself(world: World) -> None:
    text = f"the boat is called {WORD}"
    records = [(copper(world), world.exported())][0][1]
    late = world.adding(text)
    late_mirror = world.mirroring("add", content=text)
    other = world.add("a kettle")
    late_edit = world.make(EditEntry, uid=other, changes={"content": text})
    world.file("a kettle")
    late_replace = world.mirroring("replace", old_text="a kettle", content=text)
    world.forget(world.rows()[0].uid)

    assert world.late(late).status == "refused"
    assert world.done(world.adding(text, explicit=False)).status == "refused"
    assert world.late(late_mirror).status == "refused"
    assert world.late(late_edit).status == "refused"
    assert world.late(late_replace).status == "refused"
    assert world.file(text, "a kettle").counts["refused"] == 1
    assert {outcome.status for outcome in world.merge(records)} == {"refused"}
    assert is_nowhere(world)
    assert world.store.stats()["refused"] == 7


def test_the_text_of_every_former_version_is_kept_out(world: World) -> None:
    uid = world.add(f"{WORD} one")
    world.edit(uid, content=f"{WORD} two")
    world.forget(uid)
    counts = world.file(f"{WORD} one", f"{WORD} two", f"{WORD} three").counts
    assert (counts["refused"], counts["added"]) == (2, 1)


def test_a_history_line_of_a_forgotten_text_is_not_taken_back(world: World) -> None:
    other = world.add(WORD)
    world.edit(other, content="a kettle")
    records = world.exported()
    world.forget(world.add(WORD))
    world.merge(records)
    assert is_nowhere(world)


def test_only_a_new_explicit_add_revives_a_forgotten_text(world: World) -> None:
    first = copper(world)
    world.forget(first)
    outcome = world.done(world.adding(f"the boat is called {WORD}"))
    assert (outcome.status, outcome.uid != first) == ("added", True)
    assert world.state(first) == "forgotten"
    assert world.file(f"the boat is called {WORD}").counts["joined"] == 1
    second = outcome.uid
    world.forget(second)
    assert world.file(f"the boat is called {WORD}").counts["refused"] == 1
    assert is_nowhere(world)


def test_the_id_of_a_forgotten_row_cannot_be_used_again(world: World) -> None:
    uid = copper(world)
    world.forget(uid)
    assert world.done(world.make(AddEntry, uid=uid, content="another text")).status == "refused"


def test_a_forgotten_turn_is_not_captured_again_from_a_transcript(world: World) -> None:
    texts = ("hello there", f"my boat is called {WORD}", "how nice")
    records: list[dict[str, Any]] = []
    world.say(*texts)
    records = world.exported()
    world.forget(next(row.uid for row in world.rows() if WORD in row.content))
    assert world.transcript(*texts).status == "exists"
    assert is_nowhere(world)
    world.merge(records)
    assert is_nowhere(world)
    world.transcript(*texts, texts[1])
    assert sorted(world.texts()) == ["hello there", "how nice", texts[1]]


def test_saying_a_forgotten_thing_again_is_a_new_turn(world: World) -> None:
    world.say(WORD)
    world.forget(world.rows()[0].uid)
    assert world.say(WORD).status == "added"
    assert [row.occurrence for row in world.rows()] == [2]  # type: ignore[union-attr]


def test_a_forgotten_turn_with_several_ids_counts_once(world: World, new_world: Callable[..., World]) -> None:
    other = new_world()
    for one in (world, other):
        one.say(turn(WORD), turn("how nice"))
    world.merge(other.exported())
    assert sorted(world.texts()) == ["how nice", WORD]
    world.forget(next(row.uid for row in world.rows() if row.content == WORD))
    world.transcript(WORD, WORD, "how nice")
    assert sorted(world.texts()) == ["how nice", WORD]


def test_without_a_key_a_forget_erases_all_the_same(new_world: Callable[..., World]) -> None:
    world = new_world(key=NoKey())
    uid = copper(world)
    assert world.done(world.make(Forget, uid=uid)).status == "forgotten"
    assert is_nowhere(world)


def test_the_name_of_a_session_goes_with_its_last_turn(world: World) -> None:
    first = world.say("one", session="with ada").uid
    second = world.say("two", session="with ada").uid
    world.forget(first)
    assert "with ada" in str(world.exported())
    world.forget(second)
    assert "with ada" not in str(world.exported())
    assert world.say("three", session="with ada").status == "added"


@pytest.mark.parametrize("retired", ["", "retired"])
def test_the_name_of_a_session_goes_with_its_last_entry(world: World, retired: str) -> None:
    uid, other = world.add("one", session_id="with ada"), world.add("two", session_id="with ada")
    turn_uid = world.say("three", session="with bob").uid
    fact = world.add("four", session_id="with bob")
    if retired:
        world.retire(uid)
        world.retire(fact)
    for number in (uid, fact, other):
        world.forget(number)
    assert world.store.session_turns(Filter(reach=EVERYTHING, session_id="with bob")) == 1
    world.forget(turn_uid)
    assert "with ada" not in str(world.exported())
    assert world.add("five", session_id="with ada")
    assert [row.content for row in world.rows(session_id="with ada")] == ["five"]
    assert world.store.check() == []


@pytest.mark.parametrize("beside", [0, 3])
@pytest.mark.parametrize("known", [False, True])
def test_a_session_that_a_forget_ends_can_begin_anew_in_the_same_batch(world: World, *, known: bool, beside: int) -> None:
    first, second = world.turns("one", session="with ada"), world.turns("two", session="with ada")
    if known:
        world.done(first)
    forgetting = world.make(Forget, uid=first.turns[0].uid)
    outcomes = world.apply(
        *([] if known else [first]), forgetting, second, *[world.adding(f"fact {number}") for number in range(beside)]
    )
    assert all(outcome.status in {"added", "forgotten"} for outcome in outcomes)
    assert [row.content for row in world.rows(kinds=frozenset({"turn"}))] == ["two"]
    assert world.found("two") == ["two"]
    assert world.store.check() == []
