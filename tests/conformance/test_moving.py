"""Export and import: lossless, in a stable order, repeatable, in any order of lines."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.clock import now_text, uuid7
from hermes_mnemosyne.store.operations import MergeRecord
from hermes_mnemosyne.store.protocol import Filter, Reach
from hermes_mnemosyne.values import Origin
from tests.conformance.random_writes import STEPS, play
from tests.conformance.world import EVERYTHING, World, lines_of, turn

FUTURE = "2999-01-01T00:00:00.000000Z"


def reread(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records as they come out of a file."""
    return [json.loads(line) for line in lines_of(records)]


@pytest.fixture
def full(world: World) -> World:
    """A store with every kind of record."""
    old = world.add(
        "the server is 10.0.0.4", tags=("net",), metadata={"a": [1, 2.5, "é"]}, origin=Origin("cli", "x"), pinned=True
    )
    world.add("the server is 10.0.0.9", supersedes=old, valid_until=FUTURE, importance=0.125)
    world.add("user fact", target="user", occurred_at=FUTURE, occurred_offset=60, visibility="local", session_id="s")
    world.file("line one", "line two")
    world.file("line one", origin=Origin("file", "home-b/MEMORY.md"), theme="beta")
    edited = world.add("first version")
    world.edit(edited, content="second version")
    merged = world.add("to be merged")
    world.edit(merged, content="second version")
    world.retire(world.add("retired"))
    back = world.add("retired and back")
    world.retire(back)
    world.undo(back)
    world.forget(world.add("forgotten"))
    world.forget(old)
    world.say(
        turn("hello", speaker="Ada"), turn("hi", role="assistant"), turn("hello", metadata={"m": 1}), subject="c", theme="bucket"
    )
    world.retire(next(row.uid for row in world.rows() if row.content == "hi"))
    world.forget(next(row.uid for row in world.rows() if row.content == "hello"))
    return world


def test_an_export_taken_in_by_an_empty_store_is_exported_again_byte_for_byte(
    full: World, new_world: Callable[..., World]
) -> None:
    records = full.exported()
    other = new_world()
    outcomes = other.merge(reread(records))
    assert {outcome.status for outcome in outcomes} <= {"added", "retired", "forgotten"}
    assert lines_of(other.exported()) == lines_of(records)
    assert other.store.check() == []
    assert {record["type"] for record in records} == {"entry", "turn", "alias", "history", "tombstone"}


def test_an_import_repeated_adds_nothing(full: World, new_world: Callable[..., World]) -> None:
    records = full.exported()
    for world in (full, new_world()):
        world.merge(records)
        rows = world.rows()
        outcomes = world.merge(records)
        assert {outcome.status for outcome in outcomes} <= {"exists", "unchanged"}
        assert world.rows() == rows
        assert lines_of(world.exported()) == lines_of(records)


def test_an_import_that_was_cut_off_is_completed_by_the_next(full: World, new_world: Callable[..., World]) -> None:
    records = full.exported()
    for cut in range(0, len(records), 4):
        other = new_world()
        other.merge(records[:cut])
        other.merge(records)
        assert lines_of(other.exported()) == lines_of(records)


def test_imported_rows_are_found_undone_and_kept_out_like_the_originals(full: World, new_world: Callable[..., World]) -> None:
    other = new_world()
    other.merge(full.exported())
    for words in ("server", "version", "hello", "line"):
        assert sorted(other.found(words)) == sorted(full.found(words))
    for change in ("second version", "retired and back"):
        uid = next(row.uid for row in full.rows() if row.content == change)
        assert full.undo(uid).status == other.undo(uid).status
        assert sorted(other.texts()) == sorted(full.texts())
    assert other.file("forgotten", "line one", "line two").counts["refused"] == 1
    said = ("hello", turn("hi", role="assistant"), "hello")
    assert other.transcript(*said, subject="c", theme="bucket").status == "exists"


def test_an_export_is_of_one_moment(world: World) -> None:
    for number in range(1200):
        if number % 400 == 0:
            world.apply(*(world.adding(f"text {number + step}") for step in range(400)))
    records = world.store.export(EVERYTHING)
    first = next(records)
    world.add("later")
    world.forget(next(row.uid for row in world.rows() if row.content == "text 7"))
    assert len([first, *records]) == 1200


def test_other_lines_follow_the_reach(full: World) -> None:
    reach = Reach(frozenset({"bucket"}), "c")
    kinds = {record["type"] for record in full.store.export(reach)}
    assert kinds == {"turn", "history", "tombstone"}
    assert {(record["theme"], record["subject"]) for record in full.store.export(reach)} == {("bucket", "c")}


# -- any writes, any order -------------------------------------------------------------------------------------------------------


@given(steps=STEPS, order=st.integers(0, 1 << 16))
def test_any_store_is_moved_without_loss_in_any_order_of_its_lines(
    new_world: Callable[..., World], steps: list[tuple[Any, ...]], order: int
) -> None:
    world, other = new_world(), new_world()
    play(world, steps)
    records = reread(world.exported())
    # Not a permutation that is drawn: which uids are the smaller ones, and so how many lines there are, differs from run to run.
    shuffled = random.Random(order).sample(records, len(records))  # noqa: S311 - any order will do
    outcomes = other.merge(shuffled)
    assert "failed" not in {outcome.status for outcome in outcomes}
    assert lines_of(other.exported()) == lines_of(records)
    other.merge(records)
    assert lines_of(other.exported()) == lines_of(records)
    assert other.store.check() == []
    for words in ("apple", "pear", "plum"):
        assert sorted(other.found(words)) == sorted(world.found(words))


@given(before=STEPS, here=STEPS, there=STEPS)
def test_stores_that_went_apart_take_each_other_in_and_agree_on_what_is_forgotten(
    new_world: Callable[..., World], before: list[tuple[Any, ...]], here: list[tuple[Any, ...]], there: list[tuple[Any, ...]]
) -> None:
    one, two = new_world(), new_world()
    play(one, before)
    two.merge(one.exported())
    play(one, here)
    play(World(two.store, writer="other"), there)
    first, second = one.exported(), two.exported()
    for world, records in ((one, second), (two, first)):
        assert "failed" not in {outcome.status for outcome in world.merge(records)}
        assert world.store.check() == []
    forgotten = {
        record["uid"] for record in (*first, *second) if record["type"] == "tombstone" and record["state"] == "forgotten"
    }
    for world in (one, two):
        assert {world.state(uid) for uid in forgotten} <= {"forgotten"}
        assert (
            not {record["uid"] for record in world.exported() if record["type"] != "tombstone" and record["type"] != "alias"}
            & forgotten
        )


# -- what records may be ---------------------------------------------------------------------------------------------------------

WRONG = [
    ("content", None), ("content", 5), ("content", "  "), ("uid", ""), ("uid", 7), ("theme", None), ("theme", ["alpha"]), ("target", "x"),
    ("tags", "red"), ("tags", [1]), ("tags", {"a": 1}), ("importance", "high"), ("importance", True), ("importance", 2),
    ("pinned", "yes"), ("pinned", 1), ("valid_until", "tomorrow"), ("occurred_at", 5), ("occurred_offset", 1.5),
    ("occurred_offset", 10**30), ("visibility", "public"), ("metadata", []), ("metadata", "x"), ("origins", [["cli"]]),
    ("origins", "cli"), ("origins", [[1, 2]]), ("created_at", "2026-01-01"), ("clock", "now"), ("clock", None), ("superseded_by", 3),
    ("session_id", None), ("type", None), ("type", "dream"), ("subject", 4),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_record_with_a_wrong_field_fails_and_the_others_stand(world: World, name: str, value: object) -> None:
    world.add("good", tags=("a",))
    (record,) = world.exported()
    wrong = {**record, "uid": uuid7(), "content": "wrong", name: value}
    fine = {**record, "uid": uuid7(), "content": "fine"}
    ops = [world.make(MergeRecord, theme="alpha", record=one) for one in (wrong, fine)]
    outcomes = world.apply(*ops)
    assert [outcome.status for outcome in outcomes] == ["failed", "added"]
    assert sorted(world.texts()) == ["fine", "good"]
    assert world.store.check() == []


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
JSON = (
    PLAIN
    | st.lists(PLAIN | st.lists(PLAIN, max_size=3), max_size=3)
    | st.dictionaries(st.text(st.characters(), max_size=3), PLAIN, max_size=3)
)
FIELDS = (
    "action", "at", "before", "clock", "content", "content_hash", "created_at", "importance", "keeps_out", "kind", "metadata",
    "occurred_at", "occurrence", "origins", "parent_session_id", "pinned", "position", "role", "session_id", "speaker", "state",
    "subject", "survivor", "tags", "target", "theme", "type", "uid", "valid_until", "visibility",
)  # fmt: skip
VALUE = JSON | st.sampled_from(
    ["entry", "turn", "alias", "history", "tombstone", "retired", "forgotten", "user", "0aaaaaaaaaaa0001-x"]
)


@given(which=st.integers(0, 99), fields=st.dictionaries(st.sampled_from(FIELDS), VALUE, min_size=1, max_size=3))
def test_no_record_breaks_a_store(new_world: Callable[..., World], which: int, fields: dict[str, Any]) -> None:
    world = new_world("one")
    if not world.rows():
        world.add("good", tags=("a",), origin=Origin("cli"))
        world.edit(world.add("once"), content="twice")
        world.edit(world.add("merged"), content="twice")
        world.say("said", "heard")
        world.retire(next(row.uid for row in world.rows() if row.content == "said"))
        world.forget(world.add("gone"))
    records = world.exported()
    record = {**records[which % len(records)], **fields}
    theme, subject = (record[name] if isinstance(record[name], str) else "alpha" for name in ("theme", "subject"))
    outcome = world.apply(world.make(MergeRecord, theme=theme, subject=subject, record=record))[0]
    assert outcome.status in {"added", "exists", "updated", "unchanged", "refused", "retired", "forgotten", "failed"}
    assert world.store.check() == []
    assert world.store.apply([world.adding("fine")])[0].status in {"added", "exists"}
    lines_of(world.exported())


def test_texts_of_records_are_made_storable(world: World) -> None:
    world.add("good")
    (record,) = world.exported()
    odd = {**record, "uid": uuid7(), "content": "lone \ud800 and \0", "tags": ["\udfff"], "metadata": {"\ud800": "\0"}}
    assert world.merge([odd])[0].status == "added"
    assert sorted(world.texts()) == ["good", "lone \ufffd and \ufffd"]


def test_a_record_of_another_theme_than_its_operation_fails(world: World) -> None:
    world.add("good", theme="beta")
    (record,) = world.exported()
    assert world.apply(world.make(MergeRecord, theme="alpha", record={**record, "uid": uuid7()}))[0].status == "failed"
    assert world.store.size(Filter(reach=EVERYTHING)) == 1


# -- the merge rule --------------------------------------------------------------------------------------------------------------


def changed(record: dict[str, Any], clock: str, **fields: Any) -> dict[str, Any]:
    return {**record, "clock": clock, **fields}


def test_the_later_version_wins_and_the_other_is_kept_in_history(world: World, new_world: Callable[..., World]) -> None:
    uid = world.add("zero")
    (record,) = world.exported()
    first = changed(record, "0aaaaaaaaaaa0001-x", content="one")
    second = changed(record, "0aaaaaaaaaaa0002-x", content="two")
    for order in ((first, second), (second, first)):
        other = new_world()
        other.merge([record, *order])
        assert other.texts() == ["two"]
        assert {change.before["content"] for change in other.store.history(uid, EVERYTHING)} == {"zero", "one"}


def test_equal_clocks_are_broken_by_the_replica(world: World, new_world: Callable[..., World]) -> None:
    world.add("zero")
    (record,) = world.exported()
    first, second = changed(record, "0aaaaaaaaaaa0001-a", content="a"), changed(record, "0aaaaaaaaaaa0001-b", content="b")
    for order in ((first, second), (second, first)):
        other = new_world()
        other.merge(order)
        assert other.texts() == ["b"]


def test_equal_texts_become_the_smallest_id_with_tags_and_origins_joined(world: World, new_world: Callable[..., World]) -> None:
    other = new_world()
    mine = world.add("fact", tags=("a",), origin=Origin("cli"))
    theirs = World(other.store, writer="w2").add("fact", tags=("b",), origin=Origin("tool"))
    world.merge(other.exported())
    entry = world.entry(theirs)
    assert entry == world.entry(mine)
    assert (entry.uid, entry.tags, set(entry.origins)) == (min(mine, theirs), ("a", "b"), {Origin("cli"), Origin("tool")})


@pytest.mark.parametrize("late_edit", [True, False])
def test_a_forget_beats_an_edit_whatever_the_clock(world: World, new_world: Callable[..., World], *, late_edit: bool) -> None:
    uid = world.add("fact")
    other = new_world()
    other.clock = world.clock
    other.merge(world.exported())
    if late_edit:
        world.forget(uid)
        other.edit(uid, content="edited offline")
    else:
        other.edit(uid, content="edited offline")
        world.forget(uid)
    mine, theirs = world.exported(), other.exported()
    world.merge(theirs)
    other.merge(mine)
    for one in (world, other):
        assert (one.texts(), one.state(uid)) == ([], "forgotten")
        assert "edited" not in str(one.exported())


@pytest.mark.parametrize("retired_last", [True, False])
def test_of_a_retirement_and_an_edit_the_later_wins_everywhere(
    world: World, new_world: Callable[..., World], *, retired_last: bool
) -> None:
    uid = world.add("fact")
    other = new_world()
    other.clock = world.clock
    other.merge(world.exported())
    steps = [lambda: other.edit(uid, content="edited"), lambda: world.retire(uid)]
    for step in steps if retired_last else reversed(steps):
        step()
    mine, theirs = world.exported(), other.exported()
    world.merge(theirs)
    other.merge(mine)
    for one in (world, other):
        assert one.state(uid) == ("retired" if retired_last else "live")
        assert "edited" in str(one.exported())


def test_the_forgetting_of_an_alias_forgets_its_row(world: World, new_world: Callable[..., World]) -> None:
    other = new_world()
    mine = world.add("fact")
    theirs = World(other.store, writer="w2").add("fact")
    records = other.exported()
    world.merge(records)
    World(other.store, writer="w2").forget(theirs)
    world.merge(other.exported())
    assert (world.texts(), world.state(mine), world.state(theirs)) == ([], "forgotten", "forgotten")


def test_an_alias_takes_in_the_row_that_stood_under_its_id(world: World, new_world: Callable[..., World]) -> None:
    first, second = world.add("one"), world.add("two")
    other = new_world()
    other.merge(world.exported())
    world.edit(second, content="one")
    records = world.exported()
    for order in (records, records[::-1]):
        third = new_world()
        third.merge(other.exported())
        third.merge(order)
        assert third.texts() == ["one"]
        assert third.entry(first) == third.entry(second)
        assert third.store.check() == []


def test_captures_of_the_same_turn_become_one(world: World, new_world: Callable[..., World]) -> None:
    other = new_world()
    for one in (world, World(other.store, writer="w2")):
        one.say(turn("hello", speaker="Ada"), turn("hello"), turn("bye"))
    world.merge(other.exported())
    assert sorted(world.texts()) == ["bye", "hello", "hello"]
    assert sorted(world.found("ada")) == ["hello", "hello"]
    assert world.store.check() == []


FOREIGN = {
    "entry": {"target": "memory", "content": "mine", "origins": []},
    "turn": {"role": "user", "content": "mine", "session_id": "s", "position": 1, "occurrence": 1},
    "alias": {},
    "history": {"action": "edited", "before": {"target": "memory", "content": "mine", "origins": []}},
    "tombstone": {"kind": "entry", "state": "forgotten", "visibility": "synced"},
}


@pytest.mark.parametrize("place", [{"theme": "beta"}, {"subject": "ada"}, {"theme": "beta", "subject": "ada"}])
@pytest.mark.parametrize("fate", ["live", "retired", "alias"])
@pytest.mark.parametrize("kind", ["entry", "turn"])
def test_a_record_changes_nothing_of_a_row_in_another_place(world: World, kind: str, fate: str, place: dict[str, str]) -> None:
    theirs = world.add("theirs", **place) if kind == "entry" else world.say("theirs", **place).uid
    named, mine = theirs, world.add("my own")
    if fate == "retired":
        world.retire(theirs)
    elif fate == "alias":
        named = uuid7()
        clock = world.clock.tick()
        world.merge(
            [{"theme": "alpha", "subject": "", **place, "type": "alias", "uid": named, "survivor": theirs, "clock": clock}]
        )
    before = lines_of(world.exported())
    records = [
        {
            "theme": "alpha", "subject": "", "type": kind, "uid": named, "clock": world.clock.tick(), "at": now_text(),
            "created_at": now_text(), **({"survivor": mine} if kind == "alias" else {}), **fields,
        }
        for kind, fields in FOREIGN.items()
    ]  # fmt: skip
    records.append({**records[2], "uid": uuid7(), "survivor": named})
    records.append({**records[4], "state": "retired"})
    outcomes = world.merge(records)
    assert {outcome.status for outcome in outcomes} == {"failed"}
    assert lines_of(world.exported()) == before
