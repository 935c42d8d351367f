"""Vectors in SQLite: every way of holding them finds the same rows, in this process, beside others and after a fork."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne.store.protocol import Candidate, Filter, Reach
from hermes_mnemosyne.store.sqlite import vector_cache, vector_math, vector_search
from hermes_mnemosyne.store.sqlite.store import SqliteStore
from tests.conformance.world import ANALYSER, EVERYTHING, FixedKey, World

MODEL = "model"
DIMENSION = 72  # no multiple of a word
HERE = Filter(reach=EVERYTHING)
OpenStore = Callable[[], SqliteStore]


def some_vectors(count: int, seed: int) -> list[list[float]]:
    source = random.Random(seed)  # noqa: S311 - test data
    return [[source.gauss(0, 1) for _ in range(DIMENSION)] for _ in range(count)]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the same file once more."""
    stores: list[SqliteStore] = []

    def new() -> SqliteStore:
        stores.append(SqliteStore(tmp_path / "mnemosyne.db", ANALYSER, FixedKey()))
        return stores[-1]

    yield new
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: OpenStore) -> SqliteStore:
    """A store of 600 rows with vectors."""
    store = opened()
    world = World(store)
    world.apply(
        *(world.adding(f"row {number}", theme=f"t{number % 30}", tags=("red",) * (number % 4 == 0)) for number in range(500)),
        *(world.turns(f"turn {number}", session=f"s{number % 7}") for number in range(100)),
    )
    pending = store.pending_vectors(MODEL, limit=1000)
    assert store.attach_vectors(MODEL, zip([item.id for item in pending], some_vectors(600, 1), strict=True)) == 600
    return store


FILTERS = [
    HERE,
    Filter(reach=Reach(frozenset({"t1"}))),
    Filter(reach=Reach(None, hidden=frozenset({"t2", "t5"}))),
    Filter(reach=Reach(frozenset(f"t{number}" for number in range(0, 30, 2)))),
    Filter(reach=EVERYTHING, tags=("red",)),
    Filter(reach=EVERYTHING, contains="7"),
    Filter(reach=EVERYTHING, contains="row 77"),
    Filter(reach=EVERYTHING, kinds=("turn",)),
    Filter(reach=EVERYTHING, session_id="s3"),
    Filter(reach=EVERYTHING, except_session="s3"),
]


@pytest.mark.parametrize("where", FILTERS)
def test_sketches_find_the_same_rows_as_whole_vectors(
    store: SqliteStore, opened: OpenStore, where: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = some_vectors(10, 5)
    monkeypatch.setattr(vector_cache, "FEW", 0)
    whole = [store.nearest(MODEL, query, where, limit=10) for query in queries]
    assert all(whole)
    monkeypatch.setattr(vector_cache, "WHOLE_BYTES", 0)
    sketched = opened()
    assert [sketched.nearest(MODEL, query, where, limit=10) for query in queries] == whole
    monkeypatch.setattr(vector_search, "STEP", 100)
    agreed = [len({*one} & {*sketched.nearest(MODEL, query, where, limit=10)}) for one, query in zip(whole, queries, strict=True)]
    assert sum(agreed) >= 0.85 * sum(map(len, whole))


@pytest.mark.parametrize("where", FILTERS)
def test_the_same_rows_are_nearest_without_numpy(
    store: SqliteStore, opened: OpenStore, where: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = some_vectors(5, 9)
    monkeypatch.setattr(vector_cache, "FEW", 0)
    found = [store.nearest(MODEL, query, where, limit=20) for query in queries]
    for name in ("numpy", "numpy_if_loaded"):
        monkeypatch.setattr(vector_cache, name, lambda: None)
    monkeypatch.setattr(vector_math, "numpy_if_loaded", lambda: None)
    plain = opened()
    assert [plain.nearest(MODEL, query, where, limit=20) for query in queries] == found


def test_sketches_choose_the_same_rows_without_numpy(
    store: SqliteStore, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "STEP", 30)
    monkeypatch.setattr(vector_cache, "WHOLE_BYTES", 0)
    monkeypatch.setattr(vector_cache, "FEW", 0)
    queries = some_vectors(20, 3)
    found = [store.nearest(MODEL, query, HERE, limit=3) for query in queries]
    monkeypatch.setattr(vector_cache, "numpy", lambda: None)
    plain = opened()
    assert [plain.nearest(MODEL, query, HERE, limit=3) for query in queries] == found


WITHOUT_NUMPY = """
import json, sys
sys.modules["numpy"] = None
from pathlib import Path
from hermes_mnemosyne.store.sqlite.store import SqliteStore
from hermes_mnemosyne.store.protocol import Filter, Reach
from tests.conformance.world import ANALYSER, FixedKey
store = SqliteStore(Path(sys.argv[1]), ANALYSER, FixedKey())
for query in json.load(sys.stdin):
    print(json.dumps([candidate.id for candidate in store.nearest("model", query, Filter(reach=Reach(None, None)), limit=20)]))
store.close()
"""


def test_an_interpreter_without_numpy_finds_the_same_rows(store: SqliteStore) -> None:
    root = Path(__file__).parents[2]
    queries = some_vectors(5, 9)
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMPY, store.path],
        input=json.dumps(queries), capture_output=True, text=True, check=True, cwd=root,
    )  # fmt: skip
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert found == [[candidate.id for candidate in store.nearest(MODEL, query, HERE, limit=20)] for query in queries]


def test_bits_are_counted_alike_by_numpy_of_every_version(
    store: SqliteStore, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy = pytest.importorskip("numpy")
    monkeypatch.setattr(vector_cache, "WHOLE_BYTES", 0)
    monkeypatch.setattr(vector_cache, "FEW", 0)
    query = some_vectors(1, 2)[0]
    found = store.nearest(MODEL, query, HERE, limit=30)
    monkeypatch.delattr(numpy, "bitwise_count", raising=False)
    assert opened().nearest(MODEL, query, HERE, limit=30) == found


# -- coherence -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["whole", "sketches", "plain"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way of holding vectors."""
    monkeypatch.setattr(vector_cache, "FEW", 0)
    if request.param != "whole":
        monkeypatch.setattr(vector_cache, "WHOLE_BYTES", 0)
    if request.param == "plain":
        monkeypatch.setattr(vector_cache, "numpy", lambda: None)
    return str(request.param)


def ids(found: list[Candidate]) -> list[int]:
    return [candidate.id for candidate in found]


@pytest.mark.usefixtures("kernel")
def test_what_another_process_attaches_replaces_and_forgets_is_seen_at_once(store: SqliteStore, opened: OpenStore) -> None:
    other = opened()
    query = some_vectors(1, 4)[0]
    first = ids(store.nearest(MODEL, query, HERE, limit=5))
    assert ids(other.nearest(MODEL, query, HERE, limit=5)) == first
    # Forgotten by the one, gone for the other.
    uid = store.load(first[:1])[first[0]].uid
    World(store).forget(uid)
    assert ids(other.nearest(MODEL, query, HERE, limit=4)) == first[1:]
    # Another vector for a row that the other holds already.
    store.attach_vectors(MODEL, [(first[1], [-number for number in query])])
    assert ids(other.nearest(MODEL, query, HERE, limit=3)) == first[2:]
    assert ids(other.nearest(MODEL, [-number for number in query], HERE, limit=1)) == [first[1]]
    # A new row.
    World(store).add("new")
    (new,) = store.pending_vectors(MODEL)
    assert store.attach_vectors(MODEL, [(new.id, query)]) == 1
    assert ids(other.nearest(MODEL, query, HERE, limit=4)) == [new.id, *first[2:]]


@pytest.mark.usefixtures("kernel")
def test_the_nearest_are_found_behind_many_that_are_gone(
    store: SqliteStore, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "STEP", 20)
    other = opened()
    query = some_vectors(1, 6)[0]
    order = ids(other.nearest(MODEL, query, HERE, limit=600))
    assert len(order) == 600
    world = World(store)
    for row in store.load(order[:400]).values():
        (world.retire if row.kind == "turn" else world.forget)(row.uid)
    for _ in range(3):
        assert ids(other.nearest(MODEL, query, HERE, limit=200)) == order[400:]
        assert set(ids(other.nearest(MODEL, query, HERE, limit=3))) <= set(order[400:])


@pytest.mark.usefixtures("kernel")
def test_vectors_that_come_one_by_one_are_found_like_those_that_come_at_once(
    store: SqliteStore, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_cache, "_TAIL", 8)
    query = some_vectors(1, 8)[0]
    store.nearest(MODEL, query, HERE, limit=1)
    rows = sorted(row for row in store.load(ids(store.nearest(MODEL, query, HERE, limit=600))))
    for row, vector in zip(rows[::11], some_vectors(100, 12), strict=False):
        store.attach_vectors(MODEL, [(row, vector)])
        store.nearest(MODEL, query, HERE, limit=1)
    assert store.nearest(MODEL, query, HERE, limit=600) == opened().nearest(MODEL, query, HERE, limit=600)


def test_a_growing_store_changes_to_sketches(store: SqliteStore, opened: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "FEW", 0)
    monkeypatch.setattr(vector_cache, "WHOLE_BYTES", 600 * DIMENSION * 4)
    query = some_vectors(1, 8)[0]
    before = store.nearest(MODEL, query, HERE, limit=9)
    World(opened()).add("new")
    (new,) = store.pending_vectors(MODEL)
    store.attach_vectors(MODEL, [(new.id, query)])
    after = store.nearest(MODEL, query, HERE, limit=10)
    assert ids(after) == [new.id, *ids(before)]


@pytest.mark.usefixtures("kernel")
def test_threads_that_search_while_others_write_see_complete_answers(store: SqliteStore) -> None:
    query = some_vectors(1, 10)[0]
    wrong: list[object] = []
    attached: list[int] = []
    done = threading.Event()

    def search() -> None:
        while not done.is_set():
            known = list(attached)
            found = ids(store.nearest(MODEL, query, HERE, limit=60))
            if not set(known) <= set(found) or len(set(found)) != 60:
                wrong.append((known, found))

    searching = [threading.Thread(target=search) for _ in range(3)]
    for thread in searching:
        thread.start()
    world = World(store)
    for number in range(25):
        world.add(f"new {number}")
        (new,) = store.pending_vectors(MODEL)
        store.attach_vectors(MODEL, [(new.id, query)])
        attached.append(new.id)
    done.set()
    for thread in searching:
        thread.join()
    assert wrong == []


@pytest.mark.usefixtures("kernel")
def test_a_search_of_an_earlier_moment_does_not_hide_what_came_after_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_cache, "_TAIL", 0)
    monkeypatch.setattr(vector_cache, "_TAIL_PART", 10**6)
    query = some_vectors(1, 10)[0]
    store.nearest(MODEL, query, HERE, limit=1)
    World(store).add("new")
    (new,) = store.pending_vectors(MODEL)
    view = vector_cache.VectorCache.view

    def later(*asked: Any) -> vector_cache.View:
        # The moment of this search has begun, and another thread stores and finds a vector.
        monkeypatch.setattr(vector_cache.VectorCache, "view", view)
        store.attach_vectors(MODEL, [(new.id, query)])
        assert ids(store.nearest(MODEL, query, HERE, limit=1)) == [new.id]
        return view(*asked)

    monkeypatch.setattr(vector_cache.VectorCache, "view", later)
    assert new.id not in ids(store.nearest(MODEL, query, HERE, limit=5))
    for _ in range(3):
        assert ids(store.nearest(MODEL, query, HERE, limit=1)) == [new.id]


@pytest.mark.usefixtures("kernel")
def test_a_model_of_another_dimension_follows_one_that_was_given_up(store: SqliteStore, opened: OpenStore) -> None:
    other = opened()
    rows = sorted(item.id for item in other.pending_vectors("none", limit=1000))[:9]
    other.attach_vectors("given up", zip(rows, some_vectors(9, 1), strict=True))
    assert len(store.nearest("given up", some_vectors(1, 2)[0], HERE, limit=20)) == 9
    other.activate_vector_model(MODEL)
    while not other.upkeep(seconds=5):
        pass
    other.attach_vectors("next", [(row, [1.0] * 2 * DIMENSION) for row in rows])
    assert sorted(ids(store.nearest("next", [1.0] * 2 * DIMENSION, HERE, limit=20))) == rows


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_searches_on(store: SqliteStore) -> None:
    query = some_vectors(1, 10)[0]
    expected = ids(store.nearest(MODEL, query, HERE, limit=5))
    busy = threading.Event()
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            store.nearest(MODEL, query, HERE, limit=5)
            busy.set()

    thread = threading.Thread(target=search)
    thread.start()
    busy.wait(10)
    codes = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0 if ids(store.nearest(MODEL, query, HERE, limit=5)) == expected else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    stop.set()
    thread.join()
    assert codes == [0, 0, 0]
    assert ids(store.nearest(MODEL, query, HERE, limit=5)) == expected


# -- the file --------------------------------------------------------------------------------------------------------------------


def test_nothing_of_a_forgotten_vector_is_left_in_the_file(opened: OpenStore) -> None:
    store = opened()
    world = World(store)
    uids = [world.add(f"row {number}") for number in range(20)]
    vectors = some_vectors(20, 1)
    pending = store.pending_vectors(MODEL)
    store.attach_vectors(MODEL, [(item.id, vector) for item, vector in zip(pending, vectors, strict=True)])
    number = next(item.id for item in pending if item.text == "row 7")
    with closing(sqlite3.connect(store.path)) as db:
        blob, sketch = db.execute("SELECT vector, sketch FROM vectors WHERE row = ?", (number,)).fetchone()
    assert any(blob[:64] in file.read_bytes() for file in store.files())
    world.forget(uids[7])
    while not store.upkeep(seconds=5):
        pass
    for file in store.files():
        if file.exists():
            assert blob[:64] not in file.read_bytes()
            assert sketch not in file.read_bytes()


def test_counting_and_looking_for_missing_vectors_reads_no_vector(store: SqliteStore) -> None:
    """A file whose vectors cannot be read still tells what is there and what is missing."""
    counts = store.vector_counts(MODEL)
    with closing(sqlite3.connect(store.path)) as db:
        root = {row[0]: row[1] for row in db.execute("SELECT name, rootpage FROM sqlite_master")}["vectors"]
        size = db.execute("PRAGMA page_size").fetchone()[0]
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    with store.path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    again = SqliteStore(store.path, ANALYSER, FixedKey())
    assert again.vector_counts(MODEL) == counts
    assert again.pending_vectors(MODEL) == []
    again.close()
