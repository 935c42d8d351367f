"""Batches that hold an operation that fails, on connections of any age."""

from __future__ import annotations

import pytest

from hermes_mnemosyne._errors import StoreBusy
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.store.operations import AddEntry
from tests.conformance.world import ANALYSER, FixedKey, World
from tests.postgres.databases import PgDatabase

pytest.importorskip("psycopg")


@pytest.mark.parametrize("good", [0, 1, 2])
@pytest.mark.parametrize("before", range(8))
def test_a_failed_operation_leaves_the_connection_as_good_as_it_was(postgres: PgDatabase, before: int, good: int) -> None:
    from hermes_mnemosyne.store.postgres.store import PostgresStore

    store = PostgresStore(postgres.dsn, ANALYSER, FixedKey())
    world = World(store)
    try:
        # The driver prepares a statement on the server once it has run some times. Where that falls into a batch that fails, the
        # server never learns of it.
        for number in range(before):
            world.add(f"before {number}")
        ops = [world.adding(f"text {place}") for place in range(good)]
        bad = world.make(AddEntry, uid=uuid7(), content="bad", importance=7.0)
        assert [outcome.status for outcome in world.apply(*ops, bad)] == ["added"] * good + ["failed"]
        world.add("after")
        assert len(world.texts()) == before + good + 1
    finally:
        store.close()


def test_a_statement_that_the_server_has_lost_costs_one_attempt(postgres: PgDatabase) -> None:
    from hermes_mnemosyne.store.postgres.store import PostgresStore

    store = PostgresStore(postgres.dsn, ANALYSER, FixedKey())
    world = World(store)
    try:
        for number in range(8):
            world.add(f"before {number}")
        with store._connections.reading() as db:  # noqa: SLF001 - as a pooler in between does it
            db.raw.pgconn.exec_(b"DEALLOCATE ALL")
        with pytest.raises(StoreBusy, match="prepared_statements"):
            world.add("lost")
        world.add("after")
        assert len(world.texts()) == 9
    finally:
        store.close()
