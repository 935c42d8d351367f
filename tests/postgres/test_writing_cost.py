"""What writing and upkeep leave behind on a connection, and how many rows they look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from hermes_mnemosyne.store.postgres.connections import Connections, PostgresOptions
from hermes_mnemosyne.store.postgres.store import PostgresStore
from tests.conformance.world import ANALYSER, FixedKey, World
from tests.postgres.databases import PgDatabase

ROWS = 1_500
LOOKED_AT = """
SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables WHERE schemaname = 'mnemosyne' AND relname IN ('entries', 'history')
"""


@pytest.fixture
def world(postgres: PgDatabase) -> Iterator[World]:
    store = PostgresStore(postgres.dsn, ANALYSER, FixedKey())
    yield World(store)
    store.close()


def _looked_at(world: World, postgres: PgDatabase) -> int:
    world.store.close()  # who leaves reports what it has read
    with psycopg.connect(postgres.admin_dsn, autocommit=True) as admin:
        for _ in range(200):
            others = admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mnemosyne' AND datname = current_database()"
            )
            if others.fetchone() == (0,):
                break
            admin.execute("SELECT pg_sleep(0.02)")
        found = admin.execute(LOOKED_AT).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.parametrize("work", ["forget the last turn of a session", "bring a retired entry back"])
def test_a_change_of_one_row_does_not_look_at_all_of_its_theme(world: World, postgres: PgDatabase, work: str) -> None:
    adding = [replace(world.adding(f"fact {number}", session_id=f"session {number % 7}"), spooled=True) for number in range(ROWS)]
    world.store.apply(adding)
    released = world.add("the newest fact", supersedes=adding[0].uid)
    for op in adding[1 : ROWS // 3]:
        world.edit(op.uid, content=f"{op.content} again")
    turn = world.say("hello", session="short").uid
    with psycopg.connect(postgres.admin_dsn, autocommit=True) as admin:
        admin.execute("ANALYZE")
    before = _looked_at(world, postgres)
    store = PostgresStore(postgres.dsn, ANALYSER, FixedKey())
    again = World(store)
    if work.startswith("forget"):
        again.forget(turn)
    else:
        again.retire(released)
        again.undo(released)
    assert _looked_at(again, postgres) - before < ROWS // 10


def test_a_connection_that_has_cleared_traces_away_keeps_its_time_limit(postgres: PgDatabase) -> None:
    options = PostgresOptions(statement_timeout=7.0, pool_max=1)
    store = PostgresStore(postgres.admin_dsn, ANALYSER, FixedKey(), options)  # a role that may vacuum
    connections = Connections(postgres.admin_dsn, options)
    try:
        world = World(store)
        world.forget(world.add("something"))
        assert store.stats()["erasures_pending"] == 1
        store.upkeep(seconds=10)
        assert store.stats()["erasures_pending"] == 0
        with connections.reading() as db:
            assert db.execute("SHOW statement_timeout").fetchone() == ("7s",)
    finally:
        connections.close()
        store.close()
