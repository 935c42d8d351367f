"""Vectors: they follow the text, are never mixed, and filters apply inside the search for the nearest."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne._errors import InvalidInput, NotFound
from hermes_mnemosyne.store.protocol import Candidate, Filter, Store, VectorCounts, VectorFailure, VectorModel
from hermes_mnemosyne.values import Entry, Turn
from tests.conformance.test_search import FILTER, ROW, write
from tests.conformance.world import EVERYTHING, World, turn

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


def test_vectors_of_a_batch_with_one_that_is_none_are_stored_when_they_come_again_without_it(world: World) -> None:
    for number in range(3):
        world.add(f"row {number}")
    rows = sorted(numbers_of(world).values())
    with pytest.raises(InvalidInput):
        world.store.attach_vectors(MODEL, [(rows[0], [1.0, 0.0]), (rows[1], [0.0, 0.0]), (rows[2], [0.0, 1.0])])
    assert world.store.attach_vectors(MODEL, [(rows[0], [1.0, 0.0]), (rows[2], [0.0, 1.0])]) == 2
    assert [item.id for item in world.store.pending_vectors(MODEL)] == [rows[1]]
    assert world.found("row") != []


def test_a_vector_of_a_text_that_has_changed_meanwhile_is_left_out(world: World) -> None:
    uid, other = world.add("one"), world.add("other")
    pending = world.store.pending_vectors(MODEL)
    world.edit(uid, content="two")
    world.edit(other, importance=1.0)
    texts = {item.id: item.text for item in pending}
    assert world.store.attach_vectors(MODEL, [(item.id, [1.0, 0.0]) for item in pending], texts=texts) == 1
    assert [item.text for item in world.store.pending_vectors(MODEL)] == ["two"]


def test_of_a_very_long_text_the_beginning_is_given_to_be_embedded(world: World) -> None:
    """More than any model sees; whole pages of such texts would take all of the memory."""
    text = "many words and more " * 10_000
    world.add(text)
    (item,) = world.store.pending_vectors(MODEL)
    assert text.startswith(item.text)
    assert (40_000 < len(item.text) < 100_000, item.chars) == (True, len(text))
    assert world.store.attach_vectors(MODEL, [(item.id, [1.0, 0.0])], texts={item.id: item.text}) == 1
    assert world.store.pending_vectors(MODEL) == []


def test_the_cosines_of_rows_are_those_of_their_vectors(world: World) -> None:
    for number in range(3):
        world.add(f"row {number}")
    first, second, third = sorted(numbers_of(world).values())
    world.store.attach_vectors(MODEL, [(first, [2.0, 0.0]), (second, [1.0, 1.0])])
    found = world.store.cosines(MODEL, [1.0, 0.0], [first, second, third, third + 99])
    assert found == {first: pytest.approx(1.0), second: pytest.approx(math.sqrt(0.5), abs=1e-6)}
    assert world.store.cosines("unknown", [1.0, 0.0], [first]) == {}
    with pytest.raises(InvalidInput):
        world.store.cosines(MODEL, [1.0], [first])
    with pytest.raises(InvalidInput):
        world.store.cosines(MODEL, [0.0, 0.0], [first])


# -- what is missing -------------------------------------------------------------------------------------------------------------


def test_a_turn_is_embedded_with_its_speaker_and_day(world: World) -> None:
    world.say(turn("hello there", speaker="Ann", role="assistant", occurred_at="2026-11-30T12:00:00.000000Z"))
    world.add("an entry", tags=("tag",))
    entry, said = sorted(world.store.pending_vectors(MODEL), key=lambda item: item.kind)
    assert (said.text, said.role, said.chars) == ("Ann monday 30 november 2026 hello there", "assistant", 11)
    assert (entry.text, entry.role, entry.chars) == ("an entry", "", 8)


@pytest.mark.parametrize("many", [1, 200])
def test_rows_written_after_all_others_have_vectors_are_pending(open_store: Callable[..., Store], many: int) -> None:
    world = World(open_store("same"))
    world.apply(*(world.adding(f"row {number}", theme=f"t{number % 3}") for number in range(many)))
    given_vectors(world)
    assert world.store.pending_vectors(MODEL) == []
    world.apply(*(world.adding(f"later {number}", theme=f"t{number % 3}") for number in range(many)))
    world.say("a turn")
    for _ in range(2):
        pending = world.store.pending_vectors(MODEL, limit=1000)
        assert len(pending) == many + 1
        assert len(world.store.pending_vectors(MODEL, limit=1000, after=pending[0].id)) == many
        assert world.store.vector_counts(MODEL) == VectorCounts(stored=many, pending=many + 1)
        while not world.store.upkeep(seconds=5):
            pass
    again = World(open_store("same"))
    assert again.store.pending_vectors(MODEL, limit=1000) == pending
    given_vectors(again)
    assert world.store.pending_vectors(MODEL) == []
    assert world.store.vector_counts(MODEL) == VectorCounts(stored=2 * many + 1)


@pytest.mark.parametrize("indexed", [False, True])
def test_an_edited_row_is_pending_until_it_has_a_vector_again(world: World, indexed: bool) -> None:  # noqa: FBT001
    uid = world.add("one")
    world.add("other")
    given_vectors(world)
    world.edit(uid, content="two")
    if indexed:
        while not world.store.upkeep(seconds=5):
            pass
    (pending,) = world.store.pending_vectors(MODEL)
    assert pending.text == "two"
    world.store.attach_vectors(MODEL, [(pending.id, [1.0] * 8)])
    assert world.store.pending_vectors(MODEL) == []
    assert world.store.check() == []


def test_rows_may_get_their_vectors_in_any_order(world: World) -> None:
    for number in range(9):
        world.add(f"row {number}", theme=f"t{number % 2}")
    rows = sorted(numbers_of(world).values())
    left = list(rows)
    for row in (rows[4], rows[8], rows[0], rows[1], rows[6]):
        world.store.attach_vectors(MODEL, [(row, [1.0, 0.0])])
        left.remove(row)
        assert [item.id for item in world.store.pending_vectors(MODEL)] == left


def test_a_failed_row_is_tried_again_when_its_time_has_come(world: World) -> None:
    for number in range(4):
        world.add(f"row {number}")
    never, later, soon, plain = sorted(numbers_of(world).values())
    world.store.add_vector_model(VectorModel(key=MODEL, name="m", dimension=2))
    world.store.note_failures(
        MODEL,
        [
            VectorFailure(id=never, reason="too odd", retry_at=None),
            VectorFailure(id=later, reason="down", retry_at="2030-01-01T00:00:00.000000Z"),
            VectorFailure(id=soon, reason="down", retry_at="2020-01-01T00:00:00.000000Z"),
            VectorFailure(id=plain + 99, reason="no such row", retry_at=None),
        ],
    )

    def pending(now: str | None) -> list[int]:
        return [item.id for item in world.store.pending_vectors(MODEL, now=now)]

    assert pending("2026-01-01T00:00:00.000000Z") == [soon, plain]
    assert pending("2030-01-01T00:00:00.000000Z") == [later, soon, plain]
    assert pending(None) == [later, soon, plain]
    assert world.store.vector_counts(MODEL) == VectorCounts(pending=3, retrying=2, unembeddable=1)
    assert len(world.store.pending_vectors("another", now="2026-01-01T00:00:00.000000Z")) == 4
    # A failure may be noted anew, and a vector ends it.
    world.store.note_failures(MODEL, [VectorFailure(id=soon, reason="odd after all", retry_at=None)])
    world.store.attach_vectors(MODEL, [(later, [1.0, 0.0])])
    world.store.note_failures(MODEL, [VectorFailure(id=later, reason="too late", retry_at=None)])
    assert world.store.vector_counts(MODEL) == VectorCounts(stored=1, pending=1, unembeddable=2)
    assert world.store.clear_failures(MODEL) == 2
    assert pending("2026-01-01T00:00:00.000000Z") == [never, soon, plain]
    assert world.store.clear_failures(MODEL) == world.store.clear_failures("unknown") == 0


def test_a_failure_needs_a_known_model(world: World) -> None:
    with pytest.raises(NotFound):
        world.store.note_failures("unknown", [VectorFailure(id=1, reason="odd", retry_at=None)])


def test_rows_left_out_by_setting_are_neither_pending_nor_forgotten(world: World) -> None:
    for number in range(4):
        world.add(f"row {number}")
    rows = sorted(numbers_of(world).values())
    world.store.attach_vectors(MODEL, [(rows[0], [1.0, 0.0])])
    assert world.store.exclude_vectors([*rows[:3], rows[3] + 99]) == 2
    assert world.store.exclude_vectors(rows[:3]) == 0
    assert [item.id for item in world.store.pending_vectors(MODEL)] == [rows[3]]
    assert [item.id for item in world.store.pending_vectors("another")] == [rows[0], rows[3]]
    assert world.store.vector_counts(MODEL) == VectorCounts(stored=1, pending=1, excluded=2)
    world.store.note_failures(MODEL, [VectorFailure(id=rows[1], reason="odd", retry_at=None)])
    assert world.store.vector_counts(MODEL) == VectorCounts(stored=1, pending=1, excluded=2)
    world.store.attach_vectors(MODEL, [(rows[1], [1.0, 0.0])])
    assert world.store.vector_counts(MODEL) == VectorCounts(stored=2, pending=1, excluded=1)
    assert world.store.include_vectors() == 1
    assert world.store.include_vectors() == 0
    assert [item.id for item in world.store.pending_vectors(MODEL)] == rows[2:]


@pytest.mark.parametrize("swept", [False, True])
def test_all_rows_may_be_left_out_and_taken_in_again(world: World, swept: bool) -> None:  # noqa: FBT001
    world.add("first")
    if swept:
        given_vectors(world)
    world.apply(*(world.adding(f"row {number}") for number in range(150)))
    rows = [item.id for item in world.store.pending_vectors(MODEL, limit=1000)]
    assert world.store.exclude_vectors(iter(rows)) == len(rows)
    assert world.store.pending_vectors(MODEL) == []
    while not world.store.upkeep(seconds=5):
        pass
    assert world.store.pending_vectors(MODEL) == []
    assert world.store.include_vectors() == len(rows)
    assert [item.id for item in world.store.pending_vectors(MODEL, limit=1000)] == rows


@pytest.mark.parametrize("state", ["failed", "excluded"])
def test_why_a_row_has_no_vector_goes_with_its_text(world: World, state: str) -> None:
    uids = [world.add(f"row {number}") for number in range(3)]
    numbers = numbers_of(world)
    world.store.add_vector_model(VectorModel(key=MODEL, name="m", dimension=2))
    if state == "failed":
        world.store.note_failures(MODEL, [VectorFailure(id=row, reason="odd", retry_at=None) for row in numbers.values()])
    else:
        world.store.exclude_vectors(numbers.values())
    world.edit(uids[0], content="another text")
    world.edit(uids[1], importance=0.9)
    world.forget(uids[2])
    assert [item.text for item in world.store.pending_vectors(MODEL)] == ["another text"]
    counts = world.store.vector_counts(MODEL)
    assert (counts.pending, counts.unembeddable + counts.excluded) == (1, 1)
    assert world.store.check() == []


def test_texts_that_were_cut_are_counted(world: World) -> None:
    for number in range(3):
        world.add(f"row {number}")
    rows = sorted(numbers_of(world).values())
    world.store.attach_vectors(MODEL, [(row, [1.0, 0.0]) for row in rows], cut=frozenset(rows[:2]))
    assert world.store.vector_counts(MODEL) == VectorCounts(stored=3, cut=2)
    world.store.attach_vectors(MODEL, [(rows[0], [1.0, 0.0])])
    assert world.store.vector_counts(MODEL) == VectorCounts(stored=3, cut=1)


class Shadow:
    """What is known of each live row, kept beside a store: its text, and whether it has a vector, a failure or neither."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ids: dict[str, int] = {}
        self.rows: dict[int, tuple[str, str]] = {}

    def look(self) -> None:
        """Take in what the last writes have changed."""
        self.ids |= numbers_of(self.world)
        live = {self.ids[row.uid]: row.content for row in self.world.rows()}
        self.rows = {
            row: self.rows[row] if row in self.rows and self.rows[row][0] == text else (text, "pending")
            for row, text in live.items()
        }

    def set(self, rows: Sequence[int], state: str, *, unless: tuple[str, ...] = ()) -> None:
        for row in rows:
            text, before = self.rows[row]
            self.rows[row] = (text, before if before in unless else state)

    def of(self, state: str) -> list[int]:
        return sorted(row for row, (_, held) in self.rows.items() if held == state)

    def agrees(self) -> None:
        store = self.world.store
        assert [item.id for item in store.pending_vectors(MODEL, limit=1000)] == self.of("pending")
        assert [hit.id for hit in store.nearest(MODEL, [1.0, 0.0], HERE, limit=1000)] == self.of("stored")
        names = {"stored": "stored", "pending": "pending", "excluded": "excluded", "failed": "unembeddable"}
        counts = store.vector_counts(MODEL)
        assert {state: getattr(counts, name) for state, name in names.items()} == {state: len(self.of(state)) for state in names}


STEP = st.tuples(
    st.sampled_from(
        ["add", "say", "edit", "retire", "forget", "undo", "attach", "fail", "exclude", "include", "clear", "upkeep"]
    ),
    st.integers(0, 5),
    st.integers(0, 3),
)


@given(steps=st.lists(STEP, min_size=5, max_size=25))
def test_every_live_row_has_a_vector_or_is_known_to_have_none(
    new_world: Callable[..., World], steps: list[tuple[str, int, int]]
) -> None:
    world = new_world()
    store = world.store
    store.add_vector_model(VectorModel(key=MODEL, name="m", dimension=2))
    shadow = Shadow(world)
    uids: list[str] = []
    for kind, first, second in steps:
        uid = uids[first % len(uids)] if uids else ""
        some = list(shadow.rows)[first % 3 :: 2]
        match kind:
            case "add":
                uids.append(world.add(f"text {first}", theme="alpha" if second else "beta"))
            case "say":
                uids.append(world.say(f"said {first}", session=f"s{second}").uid)
            case "edit" if isinstance(world.get(uid), Entry):
                world.edit(uid, content=f"text {second}")
            case "retire" | "forget" | "undo" if world.get(uid) or (kind == "undo" and uid and world.state(uid) == "retired"):
                getattr(world, kind)(uid)
            case "attach":
                assert store.attach_vectors(MODEL, [(row, [1.0, 0.0]) for row in some]) == len(some)
                shadow.set(some, "stored")
            case "fail":
                store.note_failures(MODEL, [VectorFailure(id=row, reason="odd", retry_at=None) for row in some])
                shadow.set(some, "failed", unless=("stored", "excluded"))
            case "exclude":
                store.exclude_vectors(some)
                shadow.set(some, "excluded", unless=("stored",))
            case "include":
                assert store.include_vectors() == len(shadow.of("excluded"))
                shadow.set(shadow.of("excluded"), "pending")
            case "clear":
                assert store.clear_failures(MODEL) == len(shadow.of("failed"))
                shadow.set(shadow.of("failed"), "pending")
            case "upkeep":
                store.upkeep(seconds=1)
        shadow.look()
        shadow.agrees()
    assert store.check() == []


# -- models ----------------------------------------------------------------------------------------------------------------------

SMALL = VectorModel(key="small", name="Small", dimension=2, probes=((0.1, 0.2), (0.3, -0.4)), floor=0.25)
LARGE = VectorModel(key="large", name="Large", dimension=3)


def test_models_are_kept_as_they_were_given_the_active_one_first(open_store: Callable[..., Store]) -> None:
    store = open_store("same")
    store.add_vector_model(LARGE)
    store.add_vector_model(replace(SMALL, active=True))
    store.add_vector_model(VectorModel(key="third", name="Third", dimension=2, active=True))
    known = [replace(SMALL, active=True), LARGE, VectorModel(key="third", name="Third", dimension=2)]
    assert store.vector_models() == known
    store.add_vector_model(replace(SMALL, name="Renamed", floor=0.5, probes=()))
    assert store.vector_models()[0] == VectorModel(key="small", name="Renamed", dimension=2, floor=0.5, active=True)
    assert open_store("same").vector_models() == store.vector_models()


@pytest.mark.parametrize(
    "model", [replace(SMALL, dimension=3, probes=()), replace(SMALL, key="new", probes=((1.0,),)), replace(LARGE, dimension=0)]
)
def test_a_model_has_one_dimension(world: World, model: VectorModel) -> None:
    world.store.add_vector_model(SMALL)
    with pytest.raises(InvalidInput):
        world.store.add_vector_model(model)
    assert world.store.vector_models() == [SMALL]


def test_another_model_takes_over_when_it_is_ready(world: World) -> None:
    for number in range(5):
        world.add(f"row {number}")
    rows = sorted(numbers_of(world).values())
    world.store.add_vector_model(replace(SMALL, active=True))
    world.store.attach_vectors("small", [(row, [1.0, 0.0]) for row in rows])
    world.store.add_vector_model(LARGE)
    assert [item.id for item in world.store.pending_vectors("large")] == rows
    world.store.attach_vectors("large", [(row, [0.0, 1.0, 0.0]) for row in rows[:3]])
    while not world.store.upkeep(seconds=5):
        pass
    # Until the switch the old vectors stay, new rows too.
    assert len(world.store.nearest("small", [1.0, 0.0], HERE, limit=9)) == 5
    world.add("new")
    assert [item.text for item in world.store.pending_vectors("small")] == ["new"]
    assert len(world.store.pending_vectors("large")) == 3
    world.store.activate_vector_model("large")
    assert world.store.vector_models() == [replace(LARGE, active=True)]
    while not world.store.upkeep(seconds=5):
        pass
    assert world.store.nearest("small", [1.0, 0.0], HERE, limit=9) == []
    assert [hit.id for hit in world.store.nearest("large", [0.0, 1.0, 0.0], HERE, limit=9)] == rows[:3]
    assert world.store.vector_counts("small").stored == 0
    # The old model may come back, with another dimension as well.
    world.store.add_vector_model(VectorModel(key="small", name="Small", dimension=4))
    assert len(world.store.pending_vectors("small")) == 6
    assert world.store.check() == []


def test_a_model_that_comes_back_before_its_vectors_are_removed_keeps_them(world: World) -> None:
    world.add("one")
    world.add("two")
    first, second = sorted(numbers_of(world).values())
    world.store.attach_vectors("small", [(first, [1.0, 0.0]), (second, [1.0, 0.0])])
    world.store.add_vector_model(LARGE)
    world.store.activate_vector_model("large")
    world.store.add_vector_model(SMALL)
    while not world.store.upkeep(seconds=5):
        pass
    assert world.store.pending_vectors("small") == []
    world.store.activate_vector_model("small")
    assert [model.key for model in world.store.vector_models()] == ["small"]
    with pytest.raises(NotFound):
        world.store.activate_vector_model("large")


def test_rows_may_be_left_out_of_a_new_model_while_the_old_one_is_searched(world: World) -> None:
    for number in range(3):
        world.add(f"row {number}")
    rows = sorted(numbers_of(world).values())
    world.store.add_vector_model(replace(SMALL, active=True))
    world.store.attach_vectors("small", [(row, [1.0, 0.0]) for row in rows])
    world.store.add_vector_model(LARGE)
    assert world.store.exclude_vectors(rows[:1]) == 1
    assert [item.id for item in world.store.pending_vectors("large")] == rows[1:]
    assert world.store.vector_counts("large") == VectorCounts(pending=2, excluded=1)
    assert world.store.vector_counts("small") == VectorCounts(stored=3)
    assert len(world.store.nearest("small", [1.0, 0.0], HERE, limit=9)) == 3


def test_a_row_that_gets_a_vector_although_it_was_left_out_is_pending_for_other_models(world: World) -> None:
    for number in range(3):
        world.add(f"row {number}")
    rows = sorted(numbers_of(world).values())
    while not world.store.upkeep(seconds=5):
        pass
    for model in ("small", "other"):
        world.store.attach_vectors(model, [(row, [1.0, 0.0]) for row in rows[1:]])
    assert world.store.exclude_vectors(rows[:1]) == 1
    world.store.attach_vectors("small", [(rows[0], [1.0, 0.0])])
    assert [item.id for item in world.store.pending_vectors("other")] == rows[:1]
    assert world.store.check() == []


def test_a_first_vector_makes_its_model_known(world: World) -> None:
    world.add("one")
    (row,) = numbers_of(world).values()
    world.store.attach_vectors(MODEL, [(row, [1.0, 0.0])])
    assert world.store.vector_models() == [VectorModel(key=MODEL, name=MODEL, dimension=2)]
    with pytest.raises(NotFound):
        world.store.activate_vector_model("unknown")
    world.store.activate_vector_model(MODEL)
    assert world.store.vector_models()[0].active


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


def test_rows_that_become_one_leave_one_vector_at_most(world: World) -> None:
    first, second = world.add("one"), world.add("two")
    given_vectors(world)
    world.edit(second, content="one")
    assert [row.content for row in world.rows()] == ["one"]
    assert [item.text for item in world.store.pending_vectors(MODEL)] == ["one"]
    world.undo(min(first, second))
    assert sorted(item.text for item in world.store.pending_vectors(MODEL)) == ["one", "two"]
    assert world.store.check() == []


@pytest.mark.parametrize("step", ["edit", "retire", "forget"])
def test_what_another_store_did_to_a_text_is_done_to_its_vector(new_world: Callable[..., World], step: str) -> None:
    source, copy = new_world(), new_world()
    uid = source.add("one")
    source.say("a turn")
    copy.merge(source.exported())
    given_vectors(copy)
    assert copy.store.pending_vectors(MODEL) == []
    if step == "edit":
        source.edit(uid, content="two")
    else:
        getattr(source, step)(uid)
    copy.merge(source.exported())
    assert [item.text for item in copy.store.pending_vectors(MODEL)] == (["two"] if step == "edit" else [])
    assert len(copy.store.nearest(MODEL, [1.0] * 8, HERE, limit=9)) == 1
    assert copy.store.check() == []


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
