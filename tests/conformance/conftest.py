"""The stores that must behave alike: every test here runs against each of them through the Store protocol alone."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes_mnemosyne.store.protocol import Analyser, ContentKey, Store
from hermes_mnemosyne.store.sqlite.store import SqliteStore
from tests.conformance.world import ANALYSER, FixedKey, World

OpenStore = Callable[[Path, ContentKey, Analyser], Store]


def _sqlite(directory: Path, key: ContentKey, analyser: Analyser) -> Store:
    return SqliteStore(directory / "mnemosyne.db", analyser, key)


STORES: dict[str, OpenStore] = {"sqlite": _sqlite}
# What survives a crash is the matter of other tests; these make thousands of stores and need not wait for a disk.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a directory of its own is made in it


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory for the stores of one test."""
    with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="mnemosyne-") as name:
        yield Path(name)


@pytest.fixture(params=sorted(STORES))
def open_store(request: pytest.FixtureRequest, directory: Path) -> Iterator[Callable[..., Store]]:
    """Opens stores by name; the same name is the same database, a new one without a name."""
    opened: list[Store] = []
    numbers = itertools.count()

    def new(name: str | None = None, key: ContentKey | None = None, analyser: Analyser = ANALYSER) -> Store:
        place = directory / (name or f"store-{next(numbers)}")
        place.mkdir(exist_ok=True)
        opened.append(STORES[request.param](place, key or FixedKey(), analyser))
        return opened[-1]

    yield new
    for store in opened:
        store.close()


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
