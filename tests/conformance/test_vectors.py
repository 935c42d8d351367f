"""Vectors: they follow the text, are never mixed, and filters apply inside the search for the nearest."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.store.protocol import Candidate, Filter
from hermes_mnemosyne.values import Entry, Turn
from tests.conformance.test_search import FILTER, ROW, write
from tests.conformance.world import EVERYTHING, World

MODEL = "model"
HERE = Filter(reach=EVERYTHING, include_superseded=True)
NUMBER = st.floats(-4, 4, width=16)
VECTOR = st.lists(NUMBER, min_size=3, max_size=3).filter(lambda vector: math.hypot(*vector) > 0.01)


def numbers_of(world: World) -> dict[str, int]:
    """Return the row number of every row by its uid."""
    pending = world.store.pending_vectors("a model that nobody has", limit=10**6)
    rows = world.store.load([item.id for item in pending])
    return {rows[item.id].uid: item.id for item in pending}


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True)) / math.hypot(*first) / math.hypot(*second)


def given_vectors(world: World, seed: int = 1, dimension: int = 8) -> dict[int, list[float]]:
    """Give every row a vector."""
    source = random.Random(seed)  # noqa: S311 - test data
    vectors = {number: [source.gauss(0, 1) for _ in range(dimension)] for number in numbers_of(world).values()}
    assert world.store.attach_vectors(MODEL, vectors.items()) == len(vectors)
    return vectors


# -- attaching -------------------------------------------------------------------------------------------------------------------


def test_rows_without_a_vector_are_pending_in_order(world: World) -> None:
    texts = ["one", "two", "three"]
    for text in texts:
        world.add(text)
    world.say("said")
    pending = world.store.pending_vectors(MODEL)
    assert [item.id for item in pending] == sorted(item.id for item in pending)
    assert sorted((item.kind, item.text) for item in pending) == [
        ("entry", "one"),
        ("entry", "three"),
        ("entry", "two"),
        ("turn", "said"),
    ]
    assert [item.id for item in world.store.pending_vectors(MODEL, limit=2)] == [item.id for item in pending[:2]]
    assert [item.id for item in world.store.pending_vectors(MODEL, after=pending[1].id)] == [item.id for item in pending[2:]]
    world.store.attach_vectors(MODEL, [(pending[1].id, [1.0, 2.0])])
    assert [item.id for item in world.store.pending_vectors(MODEL)] == [pending[0].id, pending[2].id, pending[3].id]
    assert len(world.store.pending_vectors("other model")) == 4


def test_a_vector_may_be_replaced_and_one_for_an_unknown_row_is_left_out(world: World) -> None:
    world.add("one")
    (number,) = numbers_of(world).values()
    assert world.store.attach_vectors(MODEL, [(number, [1.0, 0.0]), (number + 1, [1.0, 0.0])]) == 1
    assert world.store.attach_vectors(MODEL, [(number, [0.0, 1.0])]) == 1
    assert world.store.nearest(MODEL, [0.0, 1.0], HERE, limit=9) == [Candidate(number, pytest.approx(1.0))]


@pytest.mark.parametrize("vector", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [-math.inf, 0.0], [], [1.0, 2.0, 3.0]])
def test_a_vector_without_direction_or_of_another_dimension_is_not_stored(world: World, vector: list[float]) -> None:
    world.add("one")
    world.add("two")
    first, second = sorted(numbers_of(world).values())
    world.store.attach_vectors(MODEL, [(first, [1.0, 0.0])])
    with pytest.raises(InvalidInput):
        world.store.attach_vectors(MODEL, [(second, vector)])
    with pytest.raises(InvalidInput):
        world.store.nearest(MODEL, vector, HERE, limit=3)
    assert [item.id for item in world.store.pending_vectors(MODEL)] == [second]
    assert sorted(world.found("two")) == ["two"]


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1.0, 1e30, 1e200])
def test_only_the_direction_of_a_vector_counts(world: World, scale: float) -> None:
    world.add("one")
    (number,) = numbers_of(world).values()
    world.store.attach_vectors(MODEL, [(number, [3.0 * scale, 4.0 * scale])])
    assert world.store.nearest(MODEL, [0.6, 0.8], HERE, limit=1)[0].score == pytest.approx(1.0, abs=1e-6)


def test_models_are_not_mixed(world: World) -> None:
    world.add("one")
    (number,) = numbers_of(world).values()
    world.store.attach_vectors("small", [(number, [1.0, 0.0])])
    world.store.attach_vectors("large", [(number, [0.0, 1.0, 0.0])])
    assert world.store.nearest("small", [1.0, 0.0], HERE, limit=1)[0].score == pytest.approx(1.0)
    assert world.store.nearest("large", [1.0, 0.0, 0.0], HERE, limit=1)[0].score == pytest.approx(0.0)
    assert world.store.nearest("unknown", [1.0], HERE, limit=1) == []


# -- following the text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["edit", "retire", "forget"])
def test_a_vector_goes_with_its_text(world: World, step: str) -> None:
    uid = world.add("one")
    given_vectors(world)
    if step == "edit":
        world.edit(uid, content="two")
        assert [item.text for item in world.store.pending_vectors(MODEL)] == ["two"]
    else:
        getattr(world, step)(uid)
    assert world.store.nearest(MODEL, [1.0] * 8, HERE, limit=9) == []
    assert world.store.check() == []


def test_a_vector_stays_when_other_fields_change(world: World) -> None:
    uid = world.add("one")
    given_vectors(world)
    world.edit(uid, tags=("a",), importance=1.0, pinned=True)
    world.add("one", tags=("b",))
    assert world.store.pending_vectors(MODEL) == []


def test_a_row_that_comes_back_is_pending(world: World) -> None:
    uid = world.add("one")
    given_vectors(world)
    world.retire(uid)
    world.undo(uid)
    assert [item.text for item in world.store.pending_vectors(MODEL)] == ["one"]


# -- the nearest -----------------------------------------------------------------------------------------------------------------


def test_the_nearest_live_rows_are_found_when_nearer_ones_were_forgotten(world: World) -> None:
    for number in range(16):
        world.add(f"row {number}")
    numbers = numbers_of(world)
    by_text = {row.content: numbers[row.uid] for row in world.rows()}
    world.store.attach_vectors(MODEL, [(by_text[f"row {number}"], [1.0, number / 10]) for number in range(16)])
    for row in world.rows():
        if int(row.content.split()[1]) < 8:
            world.forget(row.uid)
    found = world.store.nearest(MODEL, [1.0, 0.0], HERE, limit=4)
    assert [candidate.id for candidate in found] == [by_text[f"row {number}"] for number in (8, 9, 10, 11)]


def expected(
    rows: Sequence[Entry | Turn], vectors: dict[str, list[float]], vector: Sequence[float], where: Filter
) -> dict[str, float]:
    from hermes_mnemosyne.recall.overlay import admits

    return {row.uid: cosine(vectors[row.uid], vector) for row in rows if admits(where, row) and row.uid in vectors}


@given(rows=st.lists(ROW, min_size=2, max_size=10), where=FILTER, query=VECTOR, data=st.data())
def test_filters_hold_inside_the_search_for_the_nearest(
    new_world: Callable[..., World], rows: list[dict[str, Any]], where: Filter, query: list[float], data: st.DataObject
) -> None:
    world = new_world()
    for number, row in enumerate(rows):
        write(world, number, row)
    vectors = data.draw(st.lists(VECTOR, min_size=2 * len(rows), max_size=2 * len(rows)))
    numbers = numbers_of(world)
    given_to = dict(zip(sorted(numbers, key=numbers.__getitem__), vectors, strict=False))
    world.store.attach_vectors(MODEL, [(numbers[uid], vector) for uid, vector in given_to.items()])
    should = expected(world.rows(), given_to, query, where)
    found = world.store.nearest(MODEL, query, where, limit=100)
    assert {candidate.id for candidate in found} == {numbers[uid] for uid in should}
    by_number = {numbers[uid]: score for uid, score in should.items()}
    for candidate in found:
        assert candidate.score == pytest.approx(by_number[candidate.id], abs=1e-5)
    assert [candidate.score for candidate in found] == sorted((candidate.score for candidate in found), reverse=True)
    assert world.store.nearest(MODEL, query, where, limit=2) == found[:2]


def test_equal_vectors_stand_in_order_of_their_numbers(world: World) -> None:
    for number in range(50):
        world.add(f"row {number}", theme=f"t{number % 5}")
    world.store.attach_vectors(MODEL, [(number, [0.1, 0.7, -0.3, 0.2, 0.9]) for number in numbers_of(world).values()])
    found = world.store.nearest(MODEL, [0.3, 0.1, 0.2, 0.5, 0.4], HERE, limit=50)
    assert [candidate.id for candidate in found] == sorted(numbers_of(world).values())
