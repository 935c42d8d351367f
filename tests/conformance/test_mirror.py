"""The mirror of the host's memory files: committed writes of its memory tool, and whole files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.values import Origin
from tests.conformance.world import HOME_A, HOME_B, World

OTHER_FILE = Origin("file", "home-a/USER.md")


def origins(world: World, content: str) -> set[Origin]:
    return {origin for row in world.rows() if row.content == content for origin in row.origins}  # type: ignore[union-attr]


# -- single writes ---------------------------------------------------------------------------------------------------------------


def test_an_add_stores_the_line_with_its_file(world: World) -> None:
    assert world.mirror("add", content="likes tea").status == "added"
    assert origins(world, "likes tea") == {HOME_A}
    assert world.mirror("add", content="likes tea").status == "exists"


def test_a_remove_retires_what_only_the_file_wrote(world: World) -> None:
    world.mirror("add", content="likes tea")
    assert world.mirror("remove", old_text="likes tea").status == "retired"
    assert world.texts() == []


@pytest.mark.parametrize("other", [HOME_B, Origin("cli"), Origin("api"), Origin("import", "MEMORY.md")])
def test_a_remove_leaves_what_something_else_wrote_too(world: World, other: Origin) -> None:
    world.mirror("add", content="likes tea")
    world.add("likes tea", origin=other)
    assert world.mirror("remove", old_text="likes tea").status == "updated"
    assert origins(world, "likes tea") == {other}


def test_a_replace_edits_the_row_and_keeps_its_id(world: World) -> None:
    uid = world.mirror("add", content="likes tea").uid
    outcome = world.mirror("replace", old_text="likes tea", content="likes coffee")
    assert (outcome.status, outcome.uid) == ("updated", uid)
    assert (world.texts(), world.actions(uid)) == (["likes coffee"], ["edited"])
    assert (world.found("tea"), world.found("coffee")) == ([], ["likes coffee"])


def test_a_replace_of_a_row_that_others_wrote_too_leaves_it_to_them(world: World) -> None:
    world.mirror("add", content="likes tea")
    world.mirror("add", HOME_B, content="likes tea")
    world.mirror("replace", old_text="likes tea", content="likes coffee")
    assert origins(world, "likes tea") == {HOME_B}
    assert origins(world, "likes coffee") == {HOME_A}


def test_a_replace_without_a_match_is_an_add(world: World) -> None:
    assert world.mirror("replace", old_text="unknown", content="likes coffee").status == "added"
    assert world.texts() == ["likes coffee"]


def test_a_remove_without_a_match_changes_nothing(world: World) -> None:
    world.add("likes tea")
    assert world.mirror("remove", old_text="likes tea").status == "unchanged"
    assert world.texts() == ["likes tea"]


def test_a_replace_into_an_existing_text_merges(world: World) -> None:
    tea = world.mirror("add", content="likes tea").uid
    coffee = world.add("likes coffee", origin=Origin("cli"))
    world.mirror("replace", old_text="likes tea", content="likes coffee")
    assert world.texts() == ["likes coffee"]
    assert origins(world, "likes coffee") == {HOME_A, Origin("cli")}
    assert world.entry(tea) == world.entry(coffee)


def test_a_replace_by_the_same_text_changes_nothing(world: World) -> None:
    uid = world.mirror("add", content="likes tea").uid
    assert world.mirror("replace", old_text="likes", content="likes tea").status == "unchanged"
    assert (world.texts(), world.actions(uid)) == (["likes tea"], [])


def test_the_exact_former_content_matches_before_old_text_and_that_before_a_part(world: World) -> None:
    for line in ("tea, tea with milk", "tea", "tea with milk"):
        world.mirror("add", content=line)
    world.mirror("remove", old_text="tea", previous_content="tea with milk")
    assert world.texts() == ["tea, tea with milk", "tea"]
    world.mirror("remove", old_text="tea")
    assert world.texts() == ["tea, tea with milk"]
    world.mirror("remove", old_text="with milk")
    assert world.texts() == []


def test_a_part_matches_the_oldest_row_only(world: World) -> None:
    world.mirror("add", content="green tea", at="2026-01-02T00:00:00.000000Z")
    world.mirror("add", content="black tea", at="2026-01-01T00:00:00.000000Z")
    world.mirror("remove", old_text="tea")
    assert world.texts() == ["green tea"]


@pytest.mark.parametrize("part", ["%", "_", "TEA", "tea*", "'", '"', "t.a"])
def test_a_part_is_matched_literally(world: World, part: str) -> None:
    world.mirror("add", content="likes tea")
    world.mirror("remove", old_text=part)
    assert world.texts() == ["likes tea"]


@pytest.mark.parametrize("row", [{"theme": "beta"}, {"subject": "contact"}, {"target": "user"}, {"origin": HOME_B}])
def test_only_rows_of_this_file_here_are_matched(world: World, row: dict[str, object]) -> None:
    world.mirror("add", **{"content": "likes tea", **row})
    world.mirror("remove", old_text="likes tea")
    assert world.texts() == ["likes tea"]


@pytest.mark.parametrize(
    "write",
    [
        {"action": "add", "content": " \n"},
        {"action": "replace", "old_text": "likes tea", "content": "\t"},
        {"action": "replace", "old_text": " ", "content": "likes coffee"},
        {"action": "remove", "old_text": ""},
        {"action": "erase", "old_text": "likes tea"},
    ],
)
def test_a_blank_text_and_an_unknown_action_are_refused(world: World, write: dict[str, str]) -> None:
    world.mirror("add", content="likes tea")
    assert world.apply(world.mirroring(**write))[0].status == "failed"
    assert world.texts() == ["likes tea"]


def test_a_remove_with_blank_content_is_accepted(world: World) -> None:
    world.mirror("add", content="likes tea")
    assert world.mirror("remove", content="", old_text="likes tea").status == "retired"


def test_a_late_remove_does_not_take_a_row_that_was_edited_since(world: World) -> None:
    uid = world.mirror("add", content="likes tea").uid
    late = world.mirroring("remove", old_text="likes")
    world.edit(uid, content="likes green tea")
    world.late(late)
    assert world.texts() == ["likes green tea"]


def test_a_late_replace_still_brings_the_new_line(world: World) -> None:
    uid = world.mirror("add", content="likes tea").uid
    late = world.mirroring("replace", old_text="likes", content="likes coffee")
    world.edit(uid, content="likes green tea")
    world.late(late)
    assert sorted(world.texts()) == ["likes coffee", "likes green tea"]


# -- whole files -----------------------------------------------------------------------------------------------------------------


def test_a_file_adds_joins_keeps_and_drops(world: World) -> None:
    world.add("from the api")
    world.file("one", "two")
    outcome = world.file("two", "three", "from the api")
    assert outcome.counts == {"added": 1, "joined": 1, "kept": 1, "dropped": 1, "refused": 0}
    assert sorted(world.texts()) == ["from the api", "three", "two"]
    assert world.state(next(uid for uid in outcome.uids if world.state(uid) == "retired")) == "retired"


def test_the_same_file_again_changes_nothing(world: World) -> None:
    world.file("one", "two")
    before = world.rows()
    outcome = world.file("two", "one", "one ")
    assert (outcome.status, outcome.uids, outcome.counts["kept"]) == ("unchanged", (), 2)
    assert world.rows() == before


@pytest.mark.parametrize("lines", [(), ("",), (" \n", "\t")])
def test_a_file_without_lines_removes_nothing(world: World, lines: tuple[str, ...]) -> None:
    world.file("one", "two")
    assert world.file(*lines).status == "unchanged"
    assert sorted(world.texts()) == ["one", "two"]


def test_two_homes_in_one_theme_do_not_retire_each_other(world: World) -> None:
    files = {HOME_A: ("shared", "of a"), HOME_B: ("shared", "of b")}
    for origin, lines in files.items():
        world.file(*lines, origin=origin)
    before = world.rows()
    for _ in range(10):
        for origin, lines in files.items():
            assert world.file(*lines, origin=origin).status == "unchanged"
    assert world.rows() == before
    world.file("of a", origin=HOME_A)
    assert sorted(world.texts()) == ["of a", "of b", "shared"]
    assert origins(world, "shared") == {HOME_B}


def test_a_file_touches_its_own_target_theme_and_subject_only(world: World) -> None:
    world.file("one", target="user")
    world.file("one", theme="beta")
    world.file("one", subject="contact")
    world.file("two")
    assert sorted(world.texts()) == ["one", "one", "one", "two"]


def test_a_line_that_was_removed_and_stands_there_again_is_a_new_row(world: World) -> None:
    world.file("one", "two")
    world.file("two")
    world.file("one", "two")
    assert sorted(world.texts()) == ["one", "two"]


def test_the_stamp_of_a_file_is_kept_per_theme_and_place(world: World) -> None:
    assert world.store.file_stamp("alpha", HOME_A.place) == ""
    world.file("one", stamp="1")
    world.file("one", stamp="2", origin=HOME_B)
    world.file("one", stamp="3", theme="beta")
    stamps = [
        world.store.file_stamp(theme, origin.place) for theme, origin in (("alpha", HOME_A), ("alpha", HOME_B), ("beta", HOME_A))
    ]
    assert stamps == ["1", "2", "3"]
    assert world.store.file_stamp("beta", HOME_B.place) == ""


@given(st.lists(st.tuples(st.sampled_from([HOME_A, HOME_B]), st.sets(st.sampled_from("abcdef"), min_size=1)), max_size=8))
def test_after_any_files_the_theme_holds_what_the_last_of_each_home_held(
    new_world: Callable[..., World], files: list[tuple[Origin, set[str]]]
) -> None:
    world = new_world()
    last: dict[Origin, set[str]] = {}
    for origin, lines in files:
        world.file(*lines, origin=origin)
        last[origin] = lines
    assert sorted(world.texts()) == sorted(set().union(*last.values()))
    for content in world.texts():
        assert origins(world, content) == {origin for origin, lines in last.items() if content in lines}
