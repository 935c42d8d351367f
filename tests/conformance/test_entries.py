"""Entries: adding, editing, retiring, undoing, superseding, expiry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.clock import now_text, uuid7
from hermes_mnemosyne.store.operations import AddEntry, EditEntry, Retire, Undo
from hermes_mnemosyne.values import Entry, Origin
from tests.conformance.world import EVERYTHING, HOME_A, World

PAST, FUTURE = "2001-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"


# -- adding ----------------------------------------------------------------------------------------------------------------------


def test_an_added_entry_is_read_back_with_every_field(world: World) -> None:
    uid = world.add(
        "the kettle is copper", target="user", tags=("b", "a", "b"), importance=0.25, pinned=True, valid_until=FUTURE,
        occurred_at=PAST, occurred_offset=120, visibility="local", session_id="s", metadata={"k": [1, None, {"x": "y"}]},
        origin=Origin("cli", "shell"), subject="contact",
    )  # fmt: skip
    entry = world.entry(uid)
    assert entry == Entry(
        uid=uid, theme="alpha", subject="contact", content="the kettle is copper", target="user", tags=("a", "b"), importance=0.25,
        pinned=True, valid_until=FUTURE, occurred_at=PAST, occurred_offset=120, visibility="local", session_id="s",
        metadata={"k": [1, None, {"x": "y"}]}, origins=(Origin("cli", "shell"),), created_at=entry.created_at,
        updated_at=entry.created_at, seq=entry.seq, clock=entry.clock,
    )  # fmt: skip


def test_a_text_that_is_there_is_found_and_said_to_exist(world: World) -> None:
    first = world.done(world.adding("the kettle is copper"))
    second = world.done(world.adding("the kettle is copper"))
    assert (first.status, second.status, second.uid) == ("added", "exists", first.uid)
    assert len(world.rows()) == 1


@pytest.mark.parametrize("same", ["text\r\nline", "text\rline", "text \nline\t", "text\nline\n\n", "text\nline"])
def test_texts_of_one_canonical_form_are_one_entry(world: World, same: str) -> None:
    uid = world.add("text\nline")
    assert world.add(same) == uid


@pytest.mark.parametrize("other", ["written in J", "Written in J++", "Written in J#", " Written in J", "Written in  J"])
def test_texts_that_differ_in_a_sign_are_different_memories(world: World, other: str) -> None:
    assert world.add("Written in J") != world.add(other)


@pytest.mark.parametrize("place", [{"theme": "beta"}, {"subject": "contact"}, {"target": "user"}])
def test_a_text_is_unique_within_theme_subject_and_target_only(world: World, place: dict[str, str]) -> None:
    first = world.add("the same words")
    second = world.done(world.adding("the same words", **place))
    assert (second.status, second.uid != first) == ("added", True)


def test_adding_again_joins_tags_origins_and_pin(world: World) -> None:
    uid = world.add("fact", tags=("a",), origin=Origin("cli"), importance=0.9)
    outcome = world.done(world.adding("fact", tags=("b",), origin=Origin("tool"), pinned=True, importance=0.1))
    entry = world.entry(uid)
    assert outcome.uids == (uid,)
    assert (entry.tags, entry.origins, entry.pinned, entry.importance) == (("a", "b"), (Origin("cli"), Origin("tool")), True, 0.9)
    assert world.found("b") == ["fact"]


def test_adding_again_without_news_changes_nothing(world: World) -> None:
    uid = world.add("fact", tags=("a",))
    before = world.entry(uid)
    assert world.done(world.adding("fact", tags=("a",))).uids == ()
    assert world.entry(uid) == before


def test_a_spooled_add_of_a_known_text_makes_the_promised_id_an_alias(world: World) -> None:
    op = world.adding("fact")
    first = world.add("fact")
    outcome = world.late(op)
    assert outcome.status == "exists"
    assert outcome.uid == min(first, op.uid)
    assert {world.entry(first).uid, world.entry(op.uid).uid} == {outcome.uid}
    assert len(world.rows()) == 1


def test_saying_an_expired_text_again_makes_it_current(world: World) -> None:
    uid = world.add("the code is 4711", valid_until=PAST)
    assert world.found("4711", now=now_text()) == []
    assert world.add("the code is 4711") == uid
    assert world.found("4711", now=now_text()) == ["the code is 4711"]
    assert world.actions(uid) == ["edited"]


def test_a_late_or_implicit_add_does_not_make_a_text_current(world: World) -> None:
    late = world.adding("the code is 4711")
    uid = world.add("the code is 4711", valid_until=PAST)
    world.late(late)
    world.done(world.adding("the code is 4711", explicit=False))
    assert world.entry(uid).valid_until == PAST


# -- editing ---------------------------------------------------------------------------------------------------------------------


def test_the_index_follows_an_edit(world: World) -> None:
    uid = world.add("a copper kettle")
    world.edit(uid, content="a steel pan")
    assert world.found("copper kettle") == []
    assert world.found("steel") == ["a steel pan"]
    assert world.store.check() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [({"tags": ("zinc",)}, "zinc"), ({"content": "zinc pan"}, "zinc"), ({"content": "zinc pan", "tags": ("tin",)}, "tin")],
)
def test_what_was_edited_is_found(world: World, change: dict[str, object], words: str) -> None:
    uid = world.add("a copper kettle", tags=("brass",))
    world.edit(uid, **change)
    assert world.found(words) == [world.entry(uid).content]
    assert world.found("brass") == ([] if "tags" in change else [world.entry(uid).content])


def test_every_editable_field_changes_and_history_holds_the_former_values(world: World) -> None:
    uid = world.add("fact")
    before = world.entry(uid)
    changes = {
        "content": "another fact", "tags": ("a", "b"), "importance": 0.75, "pinned": True, "valid_until": FUTURE,
        "occurred_at": PAST, "occurred_offset": -60, "visibility": "local", "session_id": "s", "metadata": {"a": 1},
    }  # fmt: skip
    outcome = world.edit(uid, **changes)
    after = world.entry(uid)
    assert outcome.status == "updated"
    assert {name: getattr(after, name) for name in changes} == changes
    assert (after.created_at, after.uid) == (before.created_at, uid)
    assert after.clock > before.clock
    assert after.seq > before.seq
    (change,) = world.store.history(uid, EVERYTHING)
    assert (change.uid, change.action, change.clock) == (uid, "edited", after.clock)
    assert (change.before["content"], change.before["tags"], change.before["clock"]) == ("fact", [], before.clock)


def world_reach(world: World):  # noqa: ANN201
    from tests.conformance.world import EVERYTHING

    del world
    return EVERYTHING


def test_an_edit_that_changes_nothing_leaves_no_trace(world: World) -> None:
    uid = world.add("fact", tags=("a",))
    before = world.entry(uid)
    assert world.edit(uid, content="fact", tags=("a", "a")).status == "unchanged"
    assert (world.entry(uid), world.actions(uid)) == (before, [])


def test_the_session_of_an_edited_entry_can_be_searched(world: World) -> None:
    uid = world.add("fact", session_id="old")
    world.edit(uid, session_id="new")
    assert world.found("fact", session_id="new") == ["fact"]
    assert world.found("fact", session_id="old") == []


def test_an_edit_older_than_the_row_loses_and_is_kept_in_history(world: World) -> None:
    uid = world.add("first")
    old = world.make(EditEntry, uid=uid, changes={"content": "written offline"})
    world.edit(uid, content="second")
    outcome = world.late(old)
    assert outcome.status == "unchanged"
    assert world.texts() == ["second"]
    lost = world.store.history(uid, EVERYTHING)[0]
    assert (lost.action, lost.before["content"]) == ("lost", "written offline")


def test_an_edit_made_now_wins_over_a_clock_that_runs_ahead(world: World, new_world: Callable[..., World]) -> None:
    del new_world
    uid = world.add("first")
    ahead = replace(world.make(EditEntry, uid=uid, changes={"content": "from the future"}), clock="0fffffffffff0000-ahead")
    world.late(ahead)
    world.edit(uid, content="now")
    assert world.texts() == ["now"]
    assert world.entry(uid).clock > ahead.clock


def test_an_unknown_field_and_an_unknown_row_are_answered(world: World) -> None:
    uid = world.add("fact")
    failed = world.apply(world.make(EditEntry, uid=uid, changes={"theme": "beta"}))[0]
    assert failed.status == "failed"
    assert world.edit(uuid7(), content="x").status == "unknown"
    assert world.texts() == ["fact"]


def test_an_edit_into_the_text_of_another_entry_merges_the_two(world: World) -> None:
    first = world.add("steel pan", tags=("a",), origin=Origin("cli"))
    second = world.add("copper kettle", tags=("b",), origin=Origin("tool"), pinned=True)
    outcome = world.edit(second, content="steel pan")
    entry = world.entry(first)
    assert outcome.uid == min(first, second)
    assert entry == world.entry(second)
    assert entry.uid == min(first, second)
    assert (entry.tags, set(entry.origins), entry.pinned) == (("a", "b"), {Origin("cli"), Origin("tool")}, True)
    assert world.texts() == ["steel pan"]
    assert (world.found("copper"), world.found("steel")) == ([], ["steel pan"])
    assert sorted(world.actions(first)) == ["edited", "merged"]
    assert world.store.check() == []


def test_aliases_lead_to_the_last_survivor_of_many_merges(world: World) -> None:
    uids = [world.add(f"text {number}") for number in range(5)]
    for uid in (uids[3], uids[1], uids[4], uids[0]):
        world.edit(uid, content="text 2")
    assert {world.entry(uid).uid for uid in uids} == {min(uids)}
    assert len({row.seq for row in world.rows()}) == 1


# -- retiring and undoing --------------------------------------------------------------------------------------------------------


def test_a_retired_entry_is_gone_from_every_read_and_its_history_stays(world: World) -> None:
    uid = world.add("a copper kettle")
    assert world.retire(uid).status == "retired"
    assert world.get(uid) is None
    assert (world.state(uid), world.texts(), world.found("copper")) == ("retired", [], [])
    assert world.store.history(uid, EVERYTHING)[-1].before["content"] == "a copper kettle"
    assert world.store.counts(EVERYTHING).entries == 0


@pytest.mark.parametrize("kind", [Retire, Undo])
def test_an_unknown_row_cannot_be_retired_or_undone(world: World, kind: type[Retire]) -> None:
    assert world.done(world.make(kind, uid=uuid7())).status == "unknown"


def test_undo_takes_back_edit_retirement_and_addition(world: World) -> None:
    uid = world.add("first", tags=("a",))
    world.edit(uid, content="second", tags=("b",), importance=1.0)
    assert world.undo(uid).status == "restored"
    entry = world.entry(uid)
    assert (entry.content, entry.tags, entry.importance) == ("first", ("a",), 0.5)
    assert world.found("second") == []

    world.retire(uid)
    assert world.undo(uid).status == "restored"
    assert world.found("first") == ["first"]

    other = world.add("other")
    assert world.undo(other).status == "retired"
    assert world.state(other) == "retired"
    assert world.store.check() == []


def test_an_undone_change_can_be_undone_in_turn(world: World) -> None:
    uid = world.add("first")
    world.edit(uid, content="second")
    world.undo(uid)
    world.undo(uid)
    assert world.texts() == ["second"]
    world.retire(uid)
    world.undo(uid)
    assert world.undo(uid).status == "retired"
    assert world.undo(uid).status == "restored"
    assert world.texts() == ["second"]


def test_undo_of_a_retirement_meets_the_text_in_another_entry(world: World) -> None:
    uid = world.add("fact", tags=("a",))
    world.retire(uid)
    other = world.add("fact", tags=("b",))
    world.undo(uid)
    assert world.entry(uid) == world.entry(other)
    assert world.entry(uid).tags == ("a", "b")
    assert len(world.rows()) == 1


def test_undo_follows_an_id_that_a_late_add_replaced(world: World) -> None:
    late = world.adding("second")
    uid = world.add("first")
    world.edit(uid, content="second")
    world.late(late)
    world.undo(uid)
    assert world.texts() == ["first"]


def test_retire_and_undo_older_than_the_row_change_nothing(world: World) -> None:
    uid = world.add("first")
    late = [world.make(kind, uid=uid) for kind in (Retire, Undo)]
    world.edit(uid, content="second")
    assert [world.late(op).status for op in late] == ["unchanged", "unchanged"]
    assert world.texts() == ["second"]


def test_an_undo_older_than_the_retirement_changes_nothing(world: World) -> None:
    uid = world.add("first")
    late = world.make(Undo, uid=uid)
    world.retire(uid)
    assert world.late(late).status == "unchanged"
    assert world.state(uid) == "retired"


def test_what_a_person_brings_back_is_not_taken_by_the_file_again(world: World) -> None:
    world.file("fact", "other")
    (uid,) = [row.uid for row in world.rows() if row.content == "fact"]
    world.file("other")
    assert world.state(uid) == "retired"
    world.undo(uid)
    world.file("other", "third")
    assert world.state(uid) == "live"


def test_what_a_person_edits_is_not_taken_by_the_file_that_still_holds_the_old_text(world: World) -> None:
    world.file("the code is 1", "other")
    (uid,) = [row.uid for row in world.rows() if row.content == "the code is 1"]
    world.edit(uid, content="the code is 2")
    world.file("the code is 1", "other")
    assert world.entry(uid).content == "the code is 2"
    assert HOME_A not in world.entry(uid).origins


# -- superseding and expiry ------------------------------------------------------------------------------------------------------


def superseded_pair(world: World) -> tuple[str, str]:
    old = world.add("the build server is 10.0.0.4")
    return old, world.add("the build server moved to 10.0.0.9", supersedes=old)


def test_a_superseded_entry_is_hidden_and_shown_marked_on_request(world: World) -> None:
    old, new = superseded_pair(world)
    assert world.found("server") == ["the build server moved to 10.0.0.9"]
    assert world.texts(include_superseded=False) == ["the build server moved to 10.0.0.9"]
    assert len(world.found("server", include_superseded=True)) == 2
    assert world.entry(old).superseded_by == new
    assert world.actions(old) == ["superseded"]


def test_a_superseded_entry_is_current_again_when_the_newer_one_is_forgotten(world: World) -> None:
    old, new = superseded_pair(world)
    world.forget(new)
    assert world.entry(old).superseded_by is None
    assert world.found("server") == ["the build server is 10.0.0.4"]


def test_a_superseded_entry_follows_its_successor_out_and_back(world: World) -> None:
    old, new = superseded_pair(world)
    world.undo(new)
    assert world.found("server") == ["the build server is 10.0.0.4"]
    world.undo(new)
    assert world.found("server") == ["the build server moved to 10.0.0.9"]
    assert world.entry(old).superseded_by == new


def test_undo_of_the_superseded_entry_makes_it_current(world: World) -> None:
    old, _ = superseded_pair(world)
    world.undo(old)
    assert len(world.found("server")) == 2


def test_saying_a_superseded_text_again_makes_it_current(world: World) -> None:
    old, new = superseded_pair(world)
    world.add("the build server is 10.0.0.4", supersedes=new)
    assert world.found("server") == ["the build server is 10.0.0.4"]
    assert world.entry(new).superseded_by == old


def test_superseding_an_unknown_entry_fails_now_and_loses_nothing_later(world: World) -> None:
    assert world.apply(world.adding("now", supersedes=uuid7()))[0].status == "failed"
    assert world.late(world.adding("later", supersedes=uuid7())).status == "added"
    assert world.texts() == ["later"]


@pytest.mark.parametrize("place", [{"theme": "beta"}, {"subject": "contact"}])
def test_an_entry_of_another_theme_or_subject_cannot_be_superseded(world: World, place: dict[str, str]) -> None:
    other = world.add("theirs", **place)
    assert world.apply(world.adding("mine", supersedes=other))[0].status == "failed"
    assert world.entry(other).superseded_by is None


def test_an_entry_cannot_supersede_itself(world: World) -> None:
    uid = world.add("fact")
    assert world.apply(world.adding("fact", supersedes=uid))[0].status == "failed"


def test_an_alias_names_the_entry_to_supersede(world: World) -> None:
    old, other = world.add("old"), world.add("older")
    world.edit(other, content="old")
    new = world.add("new", supersedes=max(old, other))
    assert world.entry(old).superseded_by == new
    world.forget(new)
    assert world.entry(old).superseded_by is None


@given(until=st.sampled_from([None, "2020-01-01T00:00:00.000000Z", "2030-01-01T00:00:00.000000Z"]), searched=st.booleans())
def test_an_entry_is_hidden_from_its_expiry_on(new_world: Callable[..., World], until: str | None, *, searched: bool) -> None:
    world = new_world()
    world.add("fact one", valid_until=until)
    world.add("fact two")
    for now, shown in (("2020-01-01T00:00:00.000000Z", until is None or until > "2020-01-01T00:00:00.000000Z"), (None, True)):
        answer = world.found("fact", now=now) if searched else world.texts(now=now)
        assert sorted(answer) == (["fact one", "fact two"] if shown else ["fact two"])


def test_an_expired_entry_keeps_its_text(world: World) -> None:
    uid = world.add("fact", valid_until=PAST)
    assert world.entry(uid).content == "fact"
    assert world.store.counts(EVERYTHING).entries == 1


@given(st.data())
def test_any_text_that_can_be_stored_is_read_back_unchanged(new_world: Callable[..., World], data: st.DataObject) -> None:
    world = new_world("one")
    alphabet = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
    text = data.draw(st.text(alphabet, min_size=1).filter(str.strip))
    tags = data.draw(st.lists(st.text(alphabet, min_size=1, max_size=9), max_size=3))
    metadata = data.draw(
        st.dictionaries(
            st.text(alphabet), st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(alphabet)
        )
    )
    op = world.make(AddEntry, uid=uuid7(), content=text, tags=tuple(tags), theme=uuid7(), metadata=metadata)
    entry = world.entry(world.done(op).uid)
    assert (entry.content, entry.tags, dict(entry.metadata)) == (text, tuple(sorted(set(tags))), metadata)


@pytest.mark.parametrize("edited", ["older", "younger"])
@pytest.mark.parametrize("asked", ["older", "younger"])
def test_undoing_an_edit_that_made_two_entries_one_brings_both_back(world: World, edited: str, asked: str) -> None:
    texts = {"older": "alpha text", "younger": "beta text"}
    uids = {name: world.add(text, tags=(name,)) for name, text in texts.items()}
    other = "younger" if edited == "older" else "older"
    world.edit(uids[edited], content=texts[other])
    assert world.texts() == [texts[other]]
    assert world.undo(uids[asked]).status == "restored"
    assert sorted(world.texts()) == sorted(texts.values())
    assert {(row.content, row.tags) for row in world.rows()} == {(text, (name,)) for name, text in texts.items()}
    # On other machines the uids have become one for good: the survivor keeps the smaller one.
    survivor = world.entry(min(uids.values()))
    assert all(world.entry(uid) == survivor for uid in uids.values())
    assert world.store.check() == []


@pytest.mark.parametrize("asked", [0, 1])
def test_undoing_a_merge_joins_what_has_been_said_again_meanwhile(world: World, asked: int) -> None:
    uids = [world.add("alpha text"), world.add("beta text")]
    world.edit(uids[0], content="beta text")
    world.add("alpha text")
    assert world.undo(uids[asked]).status == "restored"
    assert sorted(world.texts()) == ["alpha text", "beta text"]
    assert world.store.check() == []


@pytest.mark.parametrize(
    ("text", "word"), [("wide " * 400_000, "wide"), ("0.0 " * 300_000 + "end", "0.0")], ids=["words", "numbers"]
)
def test_a_text_of_megabytes_that_says_the_same_again_and_again_is_stored_and_found(world: World, text: str, word: str) -> None:
    uid = world.add(text)
    world.add("another one")
    assert world.entry(uid).content == text
    assert world.found(word) == [text]
