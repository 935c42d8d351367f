"""Searching: what a lexical query finds, filters inside the search, counts of terms. The answers are worked out by brute force."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.store.protocol import Filter, LexicalQuery, Reach
from hermes_mnemosyne.values import Entry, Turn
from tests.conformance.world import ANALYSER, EVERYTHING, World, any_of, body_of, expected_uids, turn

WORDS = ("apple", "pear", "quince", "plum")
MOMENTS = tuple(f"2026-01-0{day}T00:00:00.000000Z" for day in range(1, 6))
TAGS = ("red", "green")


def term(word: str) -> str:
    return ANALYSER.entry_tokens(word, ())


def uids(world: World, query: LexicalQuery, where: Filter) -> list[str]:
    candidates = world.store.lexical(query, where)
    rows = world.store.load([candidate.id for candidate in candidates])
    return [rows[candidate.id].uid for candidate in candidates]


# -- which rows ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def fruit(world: World) -> World:
    for text in ("apple pear", "apple plum", "pear quince", "plum plum quince", "apple pear quince"):
        world.add(text)
    return world


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (LexicalQuery(required=("appl",)), {"apple pear", "apple plum", "apple pear quince"}),
        (LexicalQuery(required=("appl", "quinc"), all_required=True), {"apple pear quince"}),
        (LexicalQuery(required=("unknown", "quinc"), all_required=True), set()),
        (LexicalQuery(required=(), paired=("appl", "pear")), {"apple pear", "apple pear quince"}),
        (LexicalQuery(required=("plum",), paired=("pear", "quinc")),
         {"apple plum", "plum plum quince", "pear quince", "apple pear quince"}),
        (LexicalQuery(required=("plum",), optional=("quinc", "appl")), {"apple plum", "plum plum quince"}),
        (LexicalQuery(required=(), optional=("plum",)), set()),
        (LexicalQuery(required=(), paired=("plum",)), set()),
        (LexicalQuery(required=("unknown",)), set()),
    ],
)  # fmt: skip
def test_required_paired_and_optional_terms_select_as_they_should(fruit: World, query: LexicalQuery, expected: set[str]) -> None:
    candidates = fruit.store.lexical(query, Filter(reach=EVERYTHING))
    rows = fruit.store.load([candidate.id for candidate in candidates])
    assert {row.content for row in rows.values()} == expected
    assert [candidate.score for candidate in candidates] == sorted((candidate.score for candidate in candidates), reverse=True)


def test_optional_terms_raise_the_score(fruit: World) -> None:
    for number in range(20):
        fruit.add(f"kettle {number}")
    fruit.add("plum pan")
    plain = fruit.store.lexical(LexicalQuery(required=("plum",)), Filter(reach=EVERYTHING))
    raised = fruit.store.lexical(LexicalQuery(required=("plum",), optional=("appl", "pan")), Filter(reach=EVERYTHING))
    rows = fruit.store.load([candidate.id for candidate in raised])
    assert rows[raised[0].id].content == "plum pan"
    assert {candidate.id for candidate in plain} == {candidate.id for candidate in raised}


def test_rows_of_equal_score_stand_in_order_of_their_numbers(world: World) -> None:
    for number in range(30):
        world.add("apple", theme=f"t{number % 3}", subject=str(number))
    found = world.store.lexical(any_of("apple"), Filter(reach=EVERYTHING))
    assert [candidate.id for candidate in found] == sorted(candidate.id for candidate in found)
    assert len(found) == 30


def test_a_row_scores_by_its_text_more_than_by_its_context(world: World) -> None:
    world.say("pear", "apple")
    assert world.found("apple")[0] == "apple"


@pytest.mark.parametrize(
    "words", ['" OR "', "NEAR", "AND NOT", "body : x", "*", "^a", "{", "ERR-1042", "C++", "東京タワー", "zq"]
)
def test_query_terms_are_data(world: World, words: str) -> None:
    world.add(f"kettle {words} pan")
    world.add("something else entirely")
    assert world.found(words) in ([f"kettle {words} pan"], [])
    assert world.found(f"kettle {words}") == [f"kettle {words} pan"]


def test_with_newest_only_the_newest_matches_are_scored(world: World) -> None:
    for number in range(20):
        world.add(f"apple {number}", valid_until="2999-01-01T00:00:00.000000Z" if number % 2 else None)
    for now in (None, MOMENTS[0]):
        query = dataclasses.replace(any_of("apple"), newest=5)
        candidates = world.store.lexical(query, Filter(reach=EVERYTHING, now=now))
        rows = world.store.load([candidate.id for candidate in candidates])
        assert {row.content for row in rows.values()} == {f"apple {number}" for number in range(15, 20)}


def test_newest_counts_rows_within_the_filter_over_all_themes(world: World) -> None:
    for number in range(12):
        world.add(f"apple {number}", theme=f"t{number % 3}", tags=("red",) if number < 6 else ())
    query = dataclasses.replace(any_of("apple"), newest=2)
    candidates = world.store.lexical(query, Filter(reach=EVERYTHING, tags=("red",)))
    rows = world.store.load([candidate.id for candidate in candidates])
    assert {row.content for row in rows.values()} == {"apple 4", "apple 5"}
    skipped = frozenset(row.uid for row in world.rows() if row.content == "apple 11")
    candidates = world.store.lexical(query, Filter(reach=EVERYTHING, exclude=skipped))
    rows = world.store.load([candidate.id for candidate in candidates])
    assert {row.content for row in rows.values()} == {"apple 9", "apple 10"}


# -- filters ---------------------------------------------------------------------------------------------------------------------

ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["entry", "turn"]),
        "words": st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
        "theme": st.sampled_from(["alpha", "Alpha", "beta"]),
        "subject": st.sampled_from(["", "contact"]),
        "target": st.sampled_from(["memory", "user"]),
        "tags": st.sets(st.sampled_from(TAGS)),
        "session": st.sampled_from(["s1", "s2"]),
        "at": st.sampled_from(MOMENTS),
        "occurred_at": st.none() | st.sampled_from(MOMENTS),
        "valid_until": st.none() | st.sampled_from(MOMENTS),
        "superseded": st.booleans(),
    }
)
MOMENT = st.none() | st.sampled_from(MOMENTS)
FILTER = st.builds(
    Filter,
    reach=st.builds(
        Reach,
        st.none() | st.frozensets(st.sampled_from(["alpha", "ALPHA", "beta", "gamma"]), max_size=2),
        st.sampled_from([None, "", "contact", "nobody"]),
        st.frozensets(st.sampled_from(["Beta", "gamma"]), max_size=1),
    ),
    kinds=st.sampled_from([("entry", "turn"), ("entry",), ("turn",), ()]),
    target=st.none() | st.sampled_from(["memory", "user"]),
    session_id=st.none() | st.sampled_from(["s1", "s2", "s3"]),
    except_session=st.none() | st.sampled_from(["s1", "s3"]),
    since=MOMENT,
    until=MOMENT,
    written_since=MOMENT,
    written_until=MOMENT,
    tags=st.sampled_from([(), ("red",), ("red", "green"), ("blue",)]),
    contains=st.none() | st.sampled_from(["apple", "app", "plum q", "APPLE"]),
    now=MOMENT,
    include_superseded=st.booleans(),
)


LETTERS = st.text(st.sampled_from("aeK\u212a;\u037e\u00e9\u0301\u0323\u1ec7\uac01\u1100\u1161\u11a8\u6771 "), max_size=6)


@given(texts=st.lists(LETTERS.filter(str.strip), min_size=1, max_size=6), part=LETTERS.filter(bool))
def test_contains_is_literal_however_accents_are_composed(new_world: Callable[..., World], texts: list[str], part: str) -> None:
    world = new_world()
    for text in texts:
        world.add(text)
        world.say(turn(text))
    for form in ("NFC", "NFD"):
        where = Filter(reach=EVERYTHING, contains=unicodedata.normalize(form, part))
        found = {row.uid for row in world.store.select(where, limit=None)}
        composed = unicodedata.normalize("NFC", part)
        assert found == {row.uid for row in world.rows() if composed in unicodedata.normalize("NFC", row.content)}
        assert found == {row.uid for row in world.rows() if _admitted(where, row)}


def test_a_decomposed_text_is_stored_as_it_is_and_found_by_its_composed_form(world: World) -> None:
    world.add("the cafe\u0301 by the apple tree")
    world.add("the cafe by the apple tree")
    found = world.store.lexical(any_of("apple"), Filter(reach=EVERYTHING, contains="caf\u00e9 by"))
    assert [row.content for row in world.store.load([candidate.id for candidate in found]).values()] == [
        "the cafe\u0301 by the apple tree"
    ]


def write(world: World, number: int, row: dict[str, Any]) -> None:
    text = f"{' '.join(row['words'])} n{number}"
    place = {"theme": row["theme"], "subject": row["subject"], "at": row["at"]}
    if row["kind"] == "turn":
        world.say(turn(text, occurred_at=row["occurred_at"]), session=row["session"], **place)
        return
    uid = world.add(
        text, target=row["target"], tags=tuple(row["tags"]), session_id=row["session"], occurred_at=row["occurred_at"],
        valid_until=row["valid_until"], **place,
    )  # fmt: skip
    if row["superseded"]:
        world.add(f"newer {number}", supersedes=uid, **place)


@given(rows=st.lists(ROW, min_size=3, max_size=14), filters=st.lists(FILTER, min_size=4, max_size=10), data=st.data())
def test_filters_hold_inside_the_search(
    new_world: Callable[..., World], rows: list[dict[str, Any]], filters: list[Filter], data: st.DataObject
) -> None:
    world = new_world()
    for number, row in enumerate(rows):
        write(world, number, row)
    stored = world.rows()
    by_uid = {row.uid: row for row in stored}
    for drawn in filters:
        excluded = data.draw(st.frozensets(st.sampled_from(sorted(by_uid)), max_size=2)) if by_uid else frozenset()
        where = dataclasses.replace(drawn, exclude=excluded)
        query = LexicalQuery(
            required=(term("apple"),), paired=(term("pear"), term("plum")), optional=(term("quince"),), limit=1000
        )
        everything = uids(world, query, where)
        assert set(everything) == expected_uids(stored, query, where)
        assert len(set(everything)) == len(everything)
        for limit in (1, 2):
            assert uids(world, dataclasses.replace(query, limit=limit), where) == everything[:limit]
        listed = [row.uid for row in world.store.select(where, limit=None)]
        assert set(listed) == {row.uid for row in stored if _admitted(where, row)}
        assert listed == sorted(listed, key=lambda uid: (by_uid[uid].created_at, uid), reverse=True)
        assert world.store.select(where, limit=2, offset=1) == [by_uid[uid] for uid in listed[1:3]]
        assert [row.uid for row in world.store.select(where, limit=None, newest_first=False)] == listed[::-1]


def _admitted(where: Filter, row: Entry | Turn) -> bool:
    from hermes_mnemosyne.recall.overlay import admits

    return admits(where, row)


@pytest.mark.parametrize("filters", [
    {"since": MOMENTS[2]}, {"until": MOMENTS[2]}, {"written_since": MOMENTS[2]}, {"written_until": MOMENTS[2]}, {"tags": ("red",)},
    {"contains": "the one"}, {"target": "user", "kinds": ("entry",)}, {"session_id": "s9"}, {"now": MOMENTS[4]},
])  # fmt: skip
def test_better_rows_outside_the_filter_do_not_use_up_the_limit(world: World, filters: dict[str, Any]) -> None:
    late = filters.keys() & {"until", "written_until"}
    at, other_at = (MOMENTS[0], MOMENTS[3]) if late else (MOMENTS[3], MOMENTS[0])
    for number in range(40):
        world.add(f"apple apple apple {number}", at=other_at, valid_until=MOMENTS[3])
    world.add(
        "a rather long text about the one apple among many other things that were said", at=at, tags=("red",), session_id="s9",
        target="user",
    )  # fmt: skip
    query = dataclasses.replace(any_of("apple"), limit=3)
    found = world.store.lexical(query, Filter(reach=EVERYTHING, **filters))
    assert [row.content[:13] for row in world.store.load([candidate.id for candidate in found]).values()] == ["a rather long"]


def test_rows_that_are_excluded_do_not_use_up_the_limit(world: World) -> None:
    strong = frozenset(world.add(f"apple apple apple {number}") for number in range(20))
    weak = world.add("a rather long text about one apple among many other things that were said")
    query = dataclasses.replace(any_of("apple"), limit=2)
    assert uids(world, query, Filter(reach=EVERYTHING, exclude=strong)) == [weak]


def test_an_excluded_alias_excludes_its_row(world: World) -> None:
    first, second = world.add("apple"), world.add("pear")
    world.edit(second, content="apple")
    assert uids(world, any_of("apple"), Filter(reach=EVERYTHING, exclude=frozenset({max(first, second)}))) == []


def test_the_turns_of_one_session_can_be_left_out(world: World) -> None:
    world.say("apple one")
    world.say("apple two", session="s2")
    world.add("apple three", session_id="s1")
    assert sorted(world.found("apple", except_session="s1")) == ["apple three", "apple two"]


# -- counts ----------------------------------------------------------------------------------------------------------------------


@given(rows=st.lists(ROW, max_size=10), where=FILTER)
def test_sizes_and_counts_of_terms_are_those_of_the_reach(
    new_world: Callable[..., World], rows: list[dict[str, Any]], where: Filter
) -> None:
    world = new_world()
    for number, row in enumerate(rows):
        write(world, number, row)
    plain = Filter(reach=where.reach, kinds=where.kinds, target=where.target, include_superseded=True)
    inside = [row for row in world.rows() if _admitted(plain, row)]
    assert world.store.size(where) == len(inside)
    expected = {term(word): sum(term(word) in body_of(row).split() for row in inside) for word in WORDS}
    assert world.store.term_counts(sorted(expected), where, ceiling=1000) == expected
    assert world.store.term_counts(sorted(expected), where, ceiling=1) == {
        name: min(1, count) for name, count in expected.items()
    }


def test_counts_of_terms_follow_every_write(world: World) -> None:
    where = Filter(reach=EVERYTHING)
    uid = world.add("apple")
    for word, change in (("pear", True), ("apple", False), ("quince", True)):
        if change:
            world.edit(uid, content=word)
        expected = {term(name): int(name == world.entry(uid).content) for name in ("apple", "pear", "quince")}
        assert world.store.term_counts(sorted(expected), where, ceiling=9) == expected
    world.forget(uid)
    assert set(world.store.term_counts(sorted(expected), where, ceiling=9).values()) == {0}


def test_unknown_rows_are_left_out_of_what_is_loaded(world: World) -> None:
    world.add("apple")
    (candidate,) = world.store.lexical(any_of("apple"), Filter(reach=EVERYTHING))
    assert list(world.store.load([candidate.id, candidate.id + 1, 1, -5])) == [candidate.id]
    assert world.store.load([]) == {}
    assert world.store.terms_in([candidate.id, 1], ("appl", "pear"))[candidate.id] == {"appl"}


def test_searches_of_one_block_may_share_what_they_look_up_and_later_ones_see_what_came_since(world: World) -> None:
    world.add("the red lamp")
    everything = Filter(reach=Reach(None, ""))
    with world.store.together():
        assert (world.store.size(everything), world.found("lamp")) == (1, ["the red lamp"])
        world.add("the blue lamp", theme="beta")
        with world.store.together():
            assert world.store.size(everything) == 2
    assert (world.store.size(everything), sorted(world.found("lamp"))) == (2, ["the blue lamp", "the red lamp"])
