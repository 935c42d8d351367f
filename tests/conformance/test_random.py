"""Any sequence of writes leaves a sound store whose answers are those of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_mnemosyne.store.operations import Operation, Outcome
from hermes_mnemosyne.store.protocol import Filter, LexicalQuery, Reach, Store
from tests.conformance.random_writes import PLACES, STEPS, TEXTS, play
from tests.conformance.world import ANALYSER, EVERYTHING, World, expected_uids, lines_of

WHERE = st.builds(
    Filter,
    reach=st.sampled_from([EVERYTHING, Reach(frozenset({"alpha"})), Reach(frozenset({"alpha"}), None), Reach(None, "")]),
    kinds=st.sampled_from([("entry", "turn"), ("entry",), ("turn",)]),
    target=st.sampled_from([None, "user"]),
    session_id=st.sampled_from([None, "s1"]),
    tags=st.sampled_from([(), ("r",)]),
    include_superseded=st.booleans(),
)
QUERIES = [
    LexicalQuery(required=("appl",), limit=1000),
    LexicalQuery(required=("appl", "pear"), all_required=True, limit=1000),
    LexicalQuery(required=("plum",), paired=("appl", "pear"), optional=("r",), limit=1000),
    LexicalQuery(required=("ada", "g"), limit=1000),
]


def is_sound(world: World, filters: list[Filter]) -> None:
    store = world.store
    assert store.check() == []
    rows = world.rows()
    assert len({row.uid for row in rows}) == len(rows)
    assert len({row.seq for row in rows}) == len(rows)
    assert len({(row.theme, row.subject, row.target, row.content) for row in rows if row.kind == "entry"}) == sum(
        row.kind == "entry" for row in rows
    )
    assert {world.state(row.uid) for row in rows} <= {"live"}
    for theme, subject in PLACES:
        own = Reach(frozenset({theme}), subject)
        counts = store.counts(own)
        mine = [row for row in rows if (row.theme, row.subject) == (theme, subject)]
        assert (counts.entries, counts.turns) == tuple(sum(row.kind == kind for row in mine) for kind in ("entry", "turn"))
    for where in filters:
        for query in QUERIES:
            found = store.load([candidate.id for candidate in store.lexical(query, where)])
            assert {row.uid for row in found.values()} == expected_uids(rows, query, where)
    forgotten = {record["uid"] for record in world.exported() if record["type"] == "tombstone" and record["state"] == "forgotten"}
    assert all(store.history(uid, EVERYTHING) == [] for uid in forgotten)


class Recorder(World):
    """Applies operations one by one, each as one that has waited, and keeps them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.ops: list[Operation] = []

    def apply(self, *ops: Operation) -> list[Outcome]:
        late = [replace(op, spooled=True) for op in ops]
        self.ops += late
        return [outcome for op in late for outcome in super(Recorder, self).apply(op)]


@given(steps=st.lists(STEPS, min_size=2, max_size=3))
def test_a_batch_ends_as_its_operations_do_one_by_one(
    new_world: Callable[..., World], steps: list[list[tuple[Any, ...]]]
) -> None:
    one_by_one, at_once = Recorder(new_world().store), new_world()
    for some in steps:
        play(one_by_one, some)
    if one_by_one.ops:
        at_once.apply(*one_by_one.ops)
    assert lines_of(at_once.exported()) == lines_of(one_by_one.exported())
    assert at_once.store.check() == []


@given(steps=STEPS, filters=st.lists(WHERE, min_size=1, max_size=3))
def test_any_sequence_of_writes_leaves_a_sound_store(
    new_world: Callable[..., World], steps: list[tuple[Any, ...]], filters: list[Filter]
) -> None:
    world = new_world()
    play(world, steps)
    is_sound(world, filters)


# The turn in the middle gets the same word from both sides, from one of them later.
BETWEEN_TWINS = [("say", ("alpha", ""), texts, "s1", False, False) for texts in (["apple", "apple"], ["apple"])]


@given(steps=STEPS, filters=st.lists(WHERE, min_size=1, max_size=2))
@example(steps=BETWEEN_TWINS, filters=[Filter(reach=EVERYTHING)])
@settings(max_examples=10)
def test_reindexing_and_upkeep_change_no_answer(
    new_world: Callable[..., World], steps: list[tuple[Any, ...]], filters: list[Filter]
) -> None:
    world = new_world()
    play(world, steps)
    before = [[candidate.id for candidate in world.store.lexical(query, filters[0])] for query in QUERIES]
    assert world.store.upkeep(seconds=30.0)
    assert world.store.reindex() == len(world.rows())
    assert world.store.upkeep(seconds=30.0)
    assert [[candidate.id for candidate in world.store.lexical(query, filters[0])] for query in QUERIES] == before
    is_sound(world, filters)


@pytest.mark.full
@given(steps=st.lists(STEPS, min_size=6, max_size=10), filters=st.lists(WHERE, min_size=1, max_size=3))
@settings(max_examples=300)
def test_long_sequences_of_writes_leave_a_sound_store(
    new_world: Callable[..., World], steps: list[list[tuple[Any, ...]]], filters: list[Filter]
) -> None:
    world = new_world()
    for part in steps:
        play(world, part)
    is_sound(world, filters)


class NewAnalyser:
    """An analyser of a later release, which writes every word another way."""

    version = ANALYSER.version + 1

    def entry_tokens(self, content: str, tags: Sequence[str]) -> str:
        return self.renewed(ANALYSER.entry_tokens(content, tags))

    def turn_tokens(self, content: str, speaker: str, occurred_at: str | None) -> str:
        return self.renewed(ANALYSER.turn_tokens(content, speaker, occurred_at))

    @staticmethod
    def renewed(tokens: str) -> str:
        return " ".join(f"new{token}" for token in tokens.split())


@pytest.mark.parametrize("by_upkeep", [True, False])
def test_the_index_follows_a_new_analyser(open_store: Callable[..., Store], *, by_upkeep: bool) -> None:
    world = World(open_store("one"))
    world.apply(*(world.adding(f"{text} w{number}") for number in range(60) for text in TEXTS))
    world.apply(*(world.turns(f"apple t{number}", "pear plum", session=f"s{number % 2}") for number in range(150)))
    world.store.close()
    world = World(open_store("one", analyser=NewAnalyser()))
    if by_upkeep:
        assert world.store.upkeep(seconds=60.0)
    else:
        assert world.store.reindex() == len(world.rows())
    where = Filter(reach=EVERYTHING)
    for words in ("t7", "plum", "w3 t149"):
        terms = tuple(ANALYSER.entry_tokens(words, ()).split())
        old, new = (LexicalQuery(required=some, limit=5000) for some in (terms, tuple(f"new{term}" for term in terms)))
        found = world.store.load([candidate.id for candidate in world.store.lexical(new, where)])
        assert {row.uid for row in found.values()} == expected_uids(world.rows(), old, where)
        assert world.store.lexical(old, where) == []
    assert world.store.check() == []
