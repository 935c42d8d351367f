"""Vectors are given to rows beside other writers: what holds while that is under way, and after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Thread

import psycopg
import pytest

from hermes_mnemosyne.store.postgres.store import PostgresStore
from hermes_mnemosyne.store.protocol import VectorFailure, VectorModel
from tests.conformance.world import ANALYSER, FixedKey, World
from tests.postgres.databases import PgDatabase

HOLD = """
CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN NULL; END $$;
CREATE TRIGGER hold AFTER INSERT ON mnemosyne.vectors FOR EACH STATEMENT EXECUTE FUNCTION public.hold();
"""


@pytest.fixture
def world(postgres: PgDatabase) -> Iterator[World]:
    store = PostgresStore(postgres.dsn, ANALYSER, FixedKey())
    yield World(store)
    store.close()


@pytest.fixture
def embedding(world: World, postgres: PgDatabase) -> Iterator[Callable[[str], AbstractContextManager[None]]]:
    """Gives all rows that lack one a vector of a model; within the block of what it returns that is written but not yet committed."""
    with psycopg.connect(postgres.admin_dsn, autocommit=True) as admin:
        admin.execute(HOLD)

        @contextmanager
        def begin(model: str) -> Iterator[None]:
            rows = [item.id for item in world.store.pending_vectors(model)]
            assert rows
            admin.execute("SELECT pg_advisory_lock(77)")
            thread = Thread(target=lambda: world.store.attach_vectors(model, [(row, (1.0, 0.0)) for row in rows]))
            thread.start()
            _until(lambda: _waiting(admin, "AND l.locktype = 'advisory' AND l.objid = 77"))
            try:
                yield
            finally:
                admin.execute("SELECT pg_advisory_unlock(77)")
                thread.join()

        yield begin


def _waiting(admin: psycopg.Connection[tuple[int, ...]], which: str = "") -> int:
    found = admin.execute(
        "SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) "
        f"WHERE NOT l.granted AND a.datname = current_database() {which}"
    ).fetchone()
    assert found is not None
    return found[0]


def _until(true: Callable[[], object]) -> None:
    end, done = time.monotonic() + 10, Event()
    while not true():
        assert time.monotonic() < end
        done.wait(0.002)


def _beside(admin_dsn: str, work: Callable[[], object], waiting: int) -> Thread:
    """Begin some work in a thread and return when it waits for what somebody else holds, or has ended."""
    thread = Thread(target=work)
    thread.start()
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        _until(lambda: not thread.is_alive() or _waiting(admin) >= waiting)
    return thread


def _remove_old_vectors(world: World) -> bool:
    assert isinstance(world.store, PostgresStore)
    return world.store.remove_old_vectors(until=time.monotonic() + 10)


def _add_model(world: World, key: str) -> None:
    world.store.add_vector_model(VectorModel(key=key, name=key, dimension=2))


def test_vectors_of_a_model_that_is_being_removed_do_not_outlive_it(
    world: World, postgres: PgDatabase, embedding: Callable[[str], AbstractContextManager[None]]
) -> None:
    for text in ("one", "two"):
        world.add(text)
    _add_model(world, "old")
    _add_model(world, "new")
    with embedding("old"):
        world.store.activate_vector_model("new")
        removing = _beside(postgres.admin_dsn, lambda: _remove_old_vectors(world), 2)
    removing.join()
    assert _remove_old_vectors(world)
    with psycopg.connect(postgres.admin_dsn) as admin:
        assert admin.execute("SELECT count(*) FROM mnemosyne.vectors").fetchone() == (0,)
        assert admin.execute("SELECT key FROM mnemosyne.vector_models").fetchall() == [("new",)]


def test_a_row_that_somebody_else_embeds_meanwhile_has_not_failed(
    world: World, postgres: PgDatabase, embedding: Callable[[str], AbstractContextManager[None]]
) -> None:
    world.add("one")
    _add_model(world, "model")
    row = world.store.pending_vectors("model")[0].id
    with embedding("model"):
        failing = _beside(
            postgres.admin_dsn,
            lambda: world.store.note_failures("model", [VectorFailure(id=row, reason="too long", retry_at=None)]),
            2,
        )
    failing.join()
    counts = world.store.vector_counts("model")
    assert (counts.stored, counts.pending, counts.unembeddable) == (1, 0, 0)


@pytest.mark.parametrize("change", ["forget", "retire", "edit"])
def test_a_row_that_changes_while_it_is_embedded_keeps_no_vector_of_its_old_text(
    world: World, postgres: PgDatabase, embedding: Callable[[str], AbstractContextManager[None]], change: str
) -> None:
    uid = world.add("one")
    _add_model(world, "model")
    work = {
        "forget": lambda: world.forget(uid),
        "retire": lambda: world.retire(uid),
        "edit": lambda: world.edit(uid, content="two"),
    }
    with embedding("model"):
        writing = _beside(postgres.admin_dsn, work[change], 2)
        assert writing.is_alive()
    writing.join()
    counts = world.store.vector_counts("model")
    assert (counts.stored, counts.pending) == (0, change == "edit")
    assert world.store.check() == []
