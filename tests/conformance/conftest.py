"""The stores that must behave alike: every test here runs against each of them through the Store protocol alone."""

from __future__ import annotations

import importlib.util
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis.control import cleanup, currently_in_test_context

from hermes_mnemosyne.store.protocol import Analyser, ContentKey, Store
from hermes_mnemosyne.store.sqlite.store import SqliteStore
from tests.conformance.world import ANALYSER, FixedKey, World
from tests.postgres.databases import PgDatabase


class Places(Protocol):
    """Where the stores of one test lie, by name."""

    def open(self, name: str, key: ContentKey, analyser: Analyser) -> Store: ...

    def remove(self, name: str) -> None:
        """Give up a place whose stores are closed."""


class SqlitePlaces:
    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._directory: Path = request.getfixturevalue("directory")

    def open(self, name: str, key: ContentKey, analyser: Analyser) -> Store:
        place = self._directory / name
        place.mkdir(exist_ok=True)
        return SqliteStore(place / "mnemosyne.db", analyser, key)

    def remove(self, name: str) -> None:
        for file in (self._directory / name).iterdir():
            file.unlink()


class PostgresPlaces:
    def __init__(self, request: pytest.FixtureRequest, partitions: int = 0) -> None:
        self._pool = request.getfixturevalue("postgres_pool")(partitions)
        self._taken: dict[str, PgDatabase] = {}

    def open(self, name: str, key: ContentKey, analyser: Analyser) -> Store:
        from hermes_mnemosyne.store.postgres.store import PostgresStore

        if name not in self._taken:
            self._taken[name] = self._pool.take()
        return PostgresStore(self._taken[name].dsn, analyser, key)

    def remove(self, name: str) -> None:
        self._pool.give_back(self._taken.pop(name))


STORES: dict[str, Callable[[pytest.FixtureRequest], Places]] = {"sqlite": SqlitePlaces}
if importlib.util.find_spec("hermes_mnemosyne.store.postgres.store"):
    STORES |= {"postgres": PostgresPlaces, "partitions": partial(PostgresPlaces, partitions=4)}
_PARAMETERS = [pytest.param(name, marks=[pytest.mark.full] if name == "partitions" else []) for name in STORES]
# What survives a crash is the matter of other tests; these make thousands of stores and need not wait for a disk.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a directory of its own is made in it


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory for the stores of one test."""
    with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="mnemosyne-") as name:
        yield Path(name)


@pytest.fixture(params=_PARAMETERS)
def open_store(request: pytest.FixtureRequest) -> Iterator[Callable[..., Store]]:
    """Opens stores by name; the same name is the same database, a new one without a name, which ends with an example of hypothesis."""
    places = STORES[request.param](request)
    opened: list[tuple[str, Store]] = []
    numbers = itertools.count()

    def new(name: str | None = None, key: ContentKey | None = None, analyser: Analyser = ANALYSER) -> Store:
        place = name or f"store-{next(numbers)}"
        store = places.open(place, key or FixedKey(), analyser)
        if name is None and currently_in_test_context():
            cleanup(partial(end, [(place, store)]))
        else:
            opened.append((place, store))
        return store

    def end(ended: list[tuple[str, Store]]) -> None:
        for _, store in ended:
            store.close()
        for place in dict.fromkeys(place for place, _ in ended):
            places.remove(place)

    yield new
    end(opened)


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


@pytest.fixture
def new_world(open_store: Callable[..., Store]) -> Callable[..., World]:
    """Opens a new, empty store with a writer."""
    return lambda name=None, key=None: World(open_store(name, key))
