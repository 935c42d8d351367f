"""What `maintain` does: indexes for large themes and for all rows together, as often as it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from hermes_mnemosyne._errors import StoreBusy
from hermes_mnemosyne.store.postgres import vector_indexes
from hermes_mnemosyne.store.postgres.store import PostgresStore
from hermes_mnemosyne.store.postgres.vector_indexes import Step, maintain, usable, wanting
from hermes_mnemosyne.store.protocol import EVERYTHING, Filter, VectorModel
from tests.conformance.world import ANALYSER, FixedKey, World
from tests.postgres.databases import PgDatabase

EVERY = Filter(reach=EVERYTHING, include_superseded=True)
EXACT = 20

Admin = psycopg.Connection[tuple[object, ...]]


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_indexes, "threshold", lambda _dimension: EXACT)


@pytest.fixture(params=[pytest.param(0, id="one table"), pytest.param(3, id="partitions")])
def database(request: pytest.FixtureRequest, new_postgres: Callable[..., PgDatabase]) -> PgDatabase:
    return new_postgres(request.param)


@pytest.fixture
def admin(database: PgDatabase) -> Iterator[Admin]:
    with psycopg.connect(database.admin_dsn, autocommit=True) as db:
        yield db


@pytest.fixture
def world(database: PgDatabase) -> Iterator[World]:
    store = PostgresStore(database.dsn, ANALYSER, FixedKey())
    yield World(store)
    store.close()


def fill(world: World, model: str, sizes: dict[str, int], dimension: int = 4) -> None:
    """Write rows where there are none, and give every row a vector of a model."""
    for theme, size in sizes.items():
        world.apply(*(world.adding(f"{theme} {number}", theme=theme) for number in range(size)))
    world.store.add_vector_model(VectorModel(key=model, name=model, dimension=dimension, active=True))
    pending = world.store.pending_vectors(model, limit=10_000)
    vectors = [(item.id, [1.0, number / 10, *[0.5] * (dimension - 2)]) for number, item in enumerate(pending)]
    assert world.store.attach_vectors(model, vectors) == len(pending)


def indexes(admin: Admin) -> dict[str, bool]:
    found = admin.execute(
        "SELECT c.relname, i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid "
        "WHERE c.relnamespace = 'mnemosyne'::regnamespace AND c.relname LIKE 'hnsw%'"
    )
    return {str(name): bool(valid) for name, valid in found}


def actions(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.action, step.theme) for step in steps]


def test_large_themes_and_all_rows_together_get_an_index_once(world: World, admin: Admin) -> None:
    fill(world, "model", {"large": 60, "second": 30, "third": 15, "fourth": 15})
    planned = maintain(admin, dry_run=True)
    assert indexes(admin) == {}
    assert {name for _, name in actions(planned)} == {"", "large", "second"}
    assert {one.theme for one in wanting(admin)} == {"", "large", "second"}
    assert maintain(admin) == planned
    assert all(indexes(admin).values())
    assert set(indexes(admin)) == {step.name for step in planned}
    assert maintain(admin) == wanting(admin) == []
    known = usable(admin)
    assert (len(known.shared), len(known.own)) == (1, 2)


def test_one_large_theme_needs_no_second_index_for_all(world: World, admin: Admin) -> None:
    fill(world, "model", {"large": 60, "small": 5})
    assert actions(maintain(admin)) == [("create", "large")]


def test_a_small_store_needs_none(world: World, admin: Admin) -> None:
    assert maintain(admin) == []
    fill(world, "model", {"small": EXACT})
    assert maintain(admin) == []


def test_what_an_interrupted_run_has_left_is_made_anew(world: World, admin: Admin) -> None:
    fill(world, "model", {"large": 60})
    maintain(admin)
    admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'mnemosyne.hnsw_1_1'::regclass")
    assert usable(admin).own == frozenset()
    assert actions(maintain(admin)) == [("drop", ""), ("create", "large")]
    assert indexes(admin) == {"hnsw_1_1": True}


def test_the_indexes_of_a_model_go_with_it(world: World, admin: Admin) -> None:
    fill(world, "old", {"large": 60})
    maintain(admin)
    fill(world, "new", {})
    assert actions(maintain(admin)) == [("create", "large")]
    world.store.activate_vector_model("new")
    assert actions(maintain(admin)) == [("drop", "")]
    assert indexes(admin) == {"hnsw_2_1": True}
    while not world.store.upkeep(seconds=5):
        pass
    assert maintain(admin) == []


def test_the_index_of_a_theme_stays_until_half_of_its_rows_are_gone(world: World, admin: Admin) -> None:
    fill(world, "model", {"large": EXACT + 1})
    maintain(admin)
    rows = world.rows()
    for row in rows[:5]:
        world.forget(row.uid)
    assert maintain(admin) == []
    for row in rows[5:15]:
        world.forget(row.uid)
    assert actions(maintain(admin)) == [("drop", "")]


def test_only_one_maintains_at_a_time(world: World, admin: Admin, database: PgDatabase) -> None:
    fill(world, "model", {"large": 60})
    with psycopg.connect(database.admin_dsn, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(1835100526)")
        with pytest.raises(StoreBusy):
            maintain(admin)
        assert indexes(admin) == {}
        # The server ends a session, and frees its locks, some time after the client has left.
        other.execute("SELECT pg_advisory_unlock(1835100526)")
    assert actions(maintain(admin)) == [("create", "large")]


@pytest.mark.parametrize(("dimension", "count"), [(2_000, 1), (2_001, 1), (4_000, 1), (4_001, 0)])
def test_long_vectors_are_indexed_up_to_four_thousand_dimensions(world: World, admin: Admin, dimension: int, count: int) -> None:
    fill(world, "model", {"large": EXACT + 10}, dimension)
    assert len(maintain(admin)) == count
    query = [1.0, 0.0, *[0.5] * (dimension - 2)]
    found = world.store.nearest("model", query, EVERY, limit=30)
    assert len(found) == 30
    assert found[0].score > found[-1].score
