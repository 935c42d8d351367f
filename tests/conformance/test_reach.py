"""Isolation: one check covers every door, counts and states included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.store.operations import EditEntry, Forget, Retire, Undo
from hermes_mnemosyne.store.protocol import Counts, Filter, Reach
from hermes_mnemosyne.values import Turn
from tests.conformance.world import ANALYSER, EVERYTHING, World, any_of, turn

PLACES = [("alpha", ""), ("Alpha", ""), ("beta", ""), ("bucket", "ada"), ("bucket", "bob"), ("bucket", "")]
REACHES = [
    Reach(frozenset({"alpha"})),
    Reach(frozenset({"ALPHA"})),
    Reach(frozenset({"alpha", "beta"})),
    Reach(frozenset({"bucket"}), "ada"),
    Reach(frozenset({"bucket"}), ""),
    Reach(frozenset({"bucket"}), None),
    Reach(None, ""),
    Reach(None, "", frozenset({"BUCKET"})),
    Reach(None, "bob"),
    Reach(None, None, frozenset({"alpha"})),
    Reach(frozenset()),
    Reach(frozenset({"nowhere"})),
    EVERYTHING,
]


@pytest.fixture
def places(world: World) -> World:
    """One entry, one retired entry, one forgotten entry and one turn in each place."""
    for theme, subject in PLACES:
        place = {"theme": theme, "subject": subject}
        uid = world.add(f"apple of {theme} {subject}", **place)
        world.edit(uid, tags=("red",))
        world.done(world.adding(f"user of {theme} {subject}", target="user", **place))
        world.say(turn(f"turn of {theme} {subject}", speaker=f"speaker {theme} {subject}"), **place)
        world.retire(world.add(f"retired of {theme} {subject}", **place))
        world.forget(world.add(f"forgotten of {theme} {subject}", **place))
        other = world.add(f"other of {theme} {subject}", **place)
        world.edit(other, content=f"apple of {theme} {subject}")
    return world


@pytest.mark.parametrize("reach", REACHES)
def test_every_read_sees_the_rows_within_reach_and_no_others(places: World, reach: Reach) -> None:
    store = places.store
    inside = [place for place in PLACES if reach.covers(*place)]
    rows = places.rows()
    admitted = [row for row in rows if (row.theme, row.subject) in inside]
    assert {row.uid for row in store.select(Filter(reach=reach), limit=None)} == {row.uid for row in admitted}
    assert {row.uid for row in rows if store.read(row.uid, reach) is not None} == {row.uid for row in admitted}
    assert store.size(Filter(reach=reach)) == len(admitted) == 3 * len(inside)
    assert store.counts(reach) == Counts(
        entries=2 * len(inside), turns=len(inside), by_target={"memory": len(inside), "user": len(inside)}
    )
    assert set(store.themes(reach)) == {theme for theme, _ in inside}
    assert sum(counts.turns for counts in store.themes(reach).values()) == len(inside)
    found = store.load([candidate.id for candidate in store.lexical(any_of("apple user turn"), Filter(reach=reach))])
    assert {row.uid for row in found.values()} == {row.uid for row in admitted}
    apple = ANALYSER.entry_tokens("apple", ())
    assert store.term_counts((apple,), Filter(reach=reach), ceiling=99) == {apple: len(inside)}
    assert store.speakers(reach) == {row.speaker for row in admitted if isinstance(row, Turn)}


@pytest.mark.parametrize("reach", REACHES)
def test_states_histories_and_exports_stay_within_reach(places: World, reach: Reach) -> None:
    store = places.store
    everything = places.exported()
    inside = [record for record in everything if reach.covers(record["theme"], record["subject"])]
    assert list(store.export(reach)) == inside
    for record in everything:
        within = record in inside
        assert (store.state(record["uid"], reach) != "unknown") == within
        assert [change.uid for change in store.history(record["uid"], EVERYTHING) if not within] == [] or (
            store.history(record["uid"], reach) == []
        )


def test_a_row_out_of_reach_answers_like_one_that_does_not_exist(places: World) -> None:
    reach = Reach(frozenset({"alpha"}))
    theirs = next(row.uid for row in places.rows() if row.theme == "beta")
    for uid in (theirs, "no-such-id"):
        assert (places.store.read(uid, reach), places.store.state(uid, reach), places.store.history(uid, reach)) == (
            None,
            "unknown",
            [],
        )


@given(theme=st.text("aB\u00df\u0130\u03a3", min_size=1, max_size=3), swap=st.booleans())
def test_themes_are_the_same_whatever_their_case(new_world: Callable[..., World], theme: str, *, swap: bool) -> None:
    world = new_world()
    uid = world.add("apple", theme=theme)
    reach = Reach(frozenset({theme.swapcase() if swap else theme.lower()}))
    seen = theme.swapcase().lower() == theme.lower() or not swap
    assert (world.store.read(uid, reach) is not None) == seen
    assert (world.store.size(Filter(reach=reach)) == 1) == seen
    assert bool(world.store.themes(reach)) == seen


@pytest.mark.parametrize(("one", "other"), [("straße", "strasse"), ("ﬁx", "fix")])
def test_themes_that_are_written_otherwise_are_two(world: World, one: str, other: str) -> None:
    world.add("apple", theme=one)
    world.add("pear", theme=other)
    for theme, text in ((one, "apple"), (other, "pear")):
        assert [row.content for row in world.store.select(Filter(reach=Reach(frozenset({theme}))))] == [text]


@pytest.mark.parametrize("kind", [EditEntry, Retire, Undo, Forget])
@pytest.mark.parametrize("place", [{"theme": "alpha"}, {"theme": "bucket", "subject": "bob"}, {"theme": "bucket"}])
def test_an_operation_reaches_rows_of_its_own_theme_and_subject_only(
    world: World, kind: type[Retire], place: dict[str, str]
) -> None:
    live, gone = (world.add(text, theme="bucket", subject="ada") for text in ("live", "gone"))
    world.retire(gone)
    fields = {"changes": {"content": "taken"}} if kind is EditEntry else {}
    for uid in (live, gone):
        assert world.done(world.make(kind, uid=uid, **place, **fields)).status == "unknown"
    assert (world.texts(), world.state(gone)) == (["live"], "retired")
