"""Vectors in SQLite: sketches agree with the exact search, plain Python with numpy."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_mnemosyne.store.protocol import Filter, Reach
from hermes_mnemosyne.store.sqlite import vectors as sqlite_vectors
from hermes_mnemosyne.store.sqlite.store import SqliteStore
from tests.conformance.world import ANALYSER, EVERYTHING, FixedKey, World

MODEL = "model"
DIMENSION = 64
HERE = Filter(reach=EVERYTHING)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store of 600 rows with vectors."""
    store = SqliteStore(tmp_path / "mnemosyne.db", ANALYSER, FixedKey())
    world = World(store)
    world.apply(
        *(world.adding(f"row {number}", theme=f"t{number % 3}", tags=("red",) * (number % 4 == 0)) for number in range(600))
    )
    pending = store.pending_vectors(MODEL, limit=1000)
    source = random.Random(1)  # noqa: S311 - test data
    store.attach_vectors(MODEL, [(item.id, [source.gauss(0, 1) for _ in range(DIMENSION)]) for item in pending])
    yield store
    store.close()


FILTERS = [
    HERE,
    Filter(reach=Reach(frozenset({"t1"}))),
    Filter(reach=EVERYTHING, tags=("red",)),
    Filter(reach=EVERYTHING, contains="7"),
]


@pytest.mark.parametrize("where", FILTERS)
def test_the_search_for_large_stores_agrees_with_the_exact_one(
    store: SqliteStore, where: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(5)  # noqa: S311 - test data
    queries = [[source.gauss(0, 1) for _ in range(64)] for _ in range(20)]
    exact = [store.nearest(MODEL, query, where, limit=10) for query in queries]
    monkeypatch.setattr(sqlite_vectors, "EXACT_ROWS", 0)
    monkeypatch.setattr(sqlite_vectors, "RESCORED", 600)
    assert [store.nearest(MODEL, query, where, limit=10) for query in queries] == exact
    monkeypatch.setattr(sqlite_vectors, "RESCORED", 200)
    agreed = [len({*one} & {*store.nearest(MODEL, query, where, limit=10)}) for one, query in zip(exact, queries, strict=True)]
    assert sum(agreed) >= 0.85 * sum(map(len, exact))


WITHOUT_NUMPY = """
import json, random, sys
sys.modules["numpy"] = None
from pathlib import Path
from hermes_mnemosyne.store.sqlite.store import SqliteStore
from hermes_mnemosyne.store.protocol import Filter, Reach
from tests.conformance.world import ANALYSER, FixedKey
store = SqliteStore(Path(sys.argv[1]), ANALYSER, FixedKey())
source = random.Random(9)
for _ in range(5):
    query = [source.gauss(0, 1) for _ in range(64)]
    print(json.dumps([candidate.id for candidate in store.nearest("model", query, Filter(reach=Reach(None, None)), limit=20)]))
store.close()
"""


def test_the_same_rows_are_nearest_without_numpy(store: SqliteStore) -> None:
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY, store.path], capture_output=True, text=True, check=True, cwd=root)
    source = random.Random(9)  # noqa: S311 - test data
    for line in run.stdout.splitlines():
        query = [source.gauss(0, 1) for _ in range(64)]
        found = store.nearest(MODEL, query, Filter(reach=EVERYTHING), limit=20)
        assert json.loads(line) == [candidate.id for candidate in found]
