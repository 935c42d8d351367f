"""A writer may not learn of its commit: what it then queues once more stands there once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hermes_mnemosyne.store.operations import EditEntry, Forget, Operation, Retire, Undo
from hermes_mnemosyne.store.postgres.store import PostgresStore
from tests.conformance.world import ANALYSER, EVERYTHING, FixedKey, World, turn
from tests.postgres.databases import PgDatabase

KINDS: dict[str, Callable[[World, str], Operation]] = {
    "add": lambda world, _: world.adding("new", tags=("a",)),
    "add what exists": lambda world, _: world.adding("known", tags=("a",)),
    "edit": lambda world, uid: world.about(EditEntry, uid, changes={"content": "other"}),
    "retire": lambda world, uid: world.about(Retire, uid),
    "undo": lambda world, uid: world.about(Undo, uid),
    "forget": lambda world, uid: world.about(Forget, uid),
    "turns": lambda world, _: world.turns("hello", "hello", turn("yes", role="assistant")),
    "transcript": lambda world, _: world.turns("hello", "hello", turn("yes", role="assistant"), transcript=True),
}


@pytest.mark.parametrize("partitions", [0, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_committed_unknown_to_its_writer_stands_once_when_it_is_queued_again(
    new_postgres: Callable[..., PgDatabase], partitions: int, kind: str
) -> None:
    store = PostgresStore(new_postgres(partitions).dsn, ANALYSER, FixedKey())
    try:
        world = World(store)
        uid = world.add("known")
        op = KINDS[kind](world, uid)
        assert world.apply(op)[0].status != "failed"
        before = world.rows()
        for _ in range(2):
            assert store.apply([replace(op, spooled=True)])[0].status != "failed"
        assert [(row.content, row.created_at) for row in world.rows()] == [(row.content, row.created_at) for row in before]
        assert store.state(uid, EVERYTHING) == {"retire": "retired", "undo": "retired", "forget": "forgotten"}.get(kind, "live")
        assert store.check() == []
    finally:
        store.close()
