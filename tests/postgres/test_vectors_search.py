"""The rows nearest to a vector with indexes at work: as good as the exact answer, never short, inside every filter."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest
from pgvector import HalfVector, Vector

from hermes_mnemosyne.store.postgres import vector_indexes, vector_search
from hermes_mnemosyne.store.postgres.store import PostgresStore
from hermes_mnemosyne.store.postgres.vector_indexes import maintain
from hermes_mnemosyne.store.protocol import EVERYTHING, Filter, Reach, VectorModel
from hermes_mnemosyne.values import Entry, Turn
from tests.conformance.world import ANALYSER, FixedKey, World
from tests.postgres.databases import PgDatabase

MODEL = "model"
DIMENSION = 24
# As many rows as are searched exactly here, and an index is taken to cost less: elsewhere it begins to pay with some thousand rows.
EXACT = 80
SIZES = {"large": 320, "second": 200, "third": 75, "fourth": 70, "small": 30, "tiny": 5}


@dataclass
class Corpus:
    """A store of clustered vectors in themes of skewed sizes."""

    database: PgDatabase
    store: PostgresStore
    rows: dict[int, Entry | Turn]
    vectors: dict[int, list[float]]

    def exact(self, query: Sequence[float], limit: int, passes: Callable[[Entry | Turn], bool]) -> list[int]:
        chosen = [number for number, row in self.rows.items() if passes(row)]
        return sorted(chosen, key=lambda number: (-_cosine(query, self.vectors[number]), number))[:limit]

    def recall(self, where: Filter, passes: Callable[[Entry | Turn], bool], *, limit: int = 10) -> float:
        """Return the share of the exact answers that is found; no answer is short."""
        hits = wanted = 0
        for query in queries():
            found = [candidate.id for candidate in self.store.nearest(MODEL, query, where, limit=limit)]
            should = self.exact(query, limit, passes)
            assert len(found) == len(should)
            assert all(passes(self.rows[number]) for number in found)
            hits += len({*found} & {*should})
            wanted += len(should)
        return hits / wanted if wanted else 1.0

    def scans(self) -> dict[str, int]:
        """Return how often each of our indexes has been used."""
        with psycopg.connect(self.database.admin_dsn, autocommit=True) as db:
            found = db.execute("SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE indexrelname LIKE 'hnsw%'")
            return dict(found.fetchall())


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    return math.sumprod(first, second) if hasattr(math, "sumprod") else sum(a * b for a, b in zip(first, second, strict=True))


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.hypot(*vector)
    return [value / length for value in vector]


def _drawn(source: random.Random, centres: list[list[float]]) -> list[float]:
    return _unit([value + source.gauss(0, 0.7) for value in source.choice(centres)])


def _centres() -> list[list[float]]:
    source = random.Random(7)  # noqa: S311 - test data
    return [[source.gauss(0, 1) for _ in range(DIMENSION)] for _ in range(12)]


def queries() -> list[list[float]]:
    source = random.Random(99)  # noqa: S311 - test data
    return [_drawn(source, _centres()) for _ in range(12)]


def filled(database: PgDatabase) -> Corpus:
    """Write the themes: three rows of four are turns, one in ten of them of another session; each entry is older than the next."""
    store = PostgresStore(database.dsn, ANALYSER, FixedKey())
    world = World(store)
    for theme, size in SIZES.items():
        days = [f"2026-{1 + number * 12 // size:02d}-01T00:00:00.000000Z" for number in range(size)]
        world.apply(
            *(
                world.turns(f"said {number}", session="few" if number % 40 == 1 else "many", theme=theme, at=days[number])
                if number % 4
                else world.adding(f"entry {number}", theme=theme, target="user" if number % 8 else "memory", at=days[number])
                for number in range(size)
            )
        )
    source = random.Random(3)  # noqa: S311 - test data
    numbers = [item.id for item in store.pending_vectors("nobody's", limit=10**6)]
    vectors = {number: _drawn(source, _centres()) for number in numbers}
    store.add_vector_model(VectorModel(key=MODEL, name=MODEL, dimension=DIMENSION, active=True))
    assert store.attach_vectors(MODEL, vectors.items()) == len(vectors)
    return Corpus(database, store, store.load(numbers), vectors)


@pytest.fixture(params=[pytest.param(0, id="one table"), pytest.param(3, id="partitions")])
def corpus(
    request: pytest.FixtureRequest, new_postgres: Callable[..., PgDatabase], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Corpus]:
    monkeypatch.setattr(vector_indexes, "threshold", lambda _dimension: EXACT)
    monkeypatch.setattr(vector_search, "START", 10)
    monkeypatch.setattr(vector_search, "LOOK", 0.5)
    made = filled(new_postgres(request.param))
    with psycopg.connect(made.database.admin_dsn, autocommit=True) as admin:
        maintain(admin)
    yield made
    made.store.close()


def of_themes(*themes: str) -> Filter:
    return Filter(reach=Reach(frozenset(themes), None), include_superseded=True)


EVERY = Filter(reach=EVERYTHING, include_superseded=True)


def test_what_is_found_in_themes_of_every_size_is_what_an_exact_search_finds(corpus: Corpus) -> None:
    for limit in (1, 10, 100):
        for theme in SIZES:
            assert corpus.recall(of_themes(theme), of_theme(theme), limit=limit) >= 0.95
        assert corpus.recall(EVERY, lambda _: True, limit=limit) >= 0.95
        assert corpus.recall(of_themes("second", "small"), of_theme("second", "small"), limit=limit) >= 0.95


Passes = Callable[[Entry | Turn], bool]
FILTERS: list[tuple[dict[str, Any], Passes]] = [
    ({"target": "memory", "kinds": ("entry",)}, lambda row: isinstance(row, Entry) and row.target == "memory"),
    ({"kinds": ("turn",)}, lambda row: isinstance(row, Turn)),
    ({"since": "2026-02-01"}, lambda row: row.created_at >= "2026-02-01"),
    ({"since": "2026-12-01"}, lambda row: row.created_at >= "2026-12-01"),
    ({"session_id": "few"}, lambda row: row.session_id == "few"),
    ({"except_session": "many"}, lambda row: isinstance(row, Entry) or row.session_id != "many"),
    ({"contains": "said 1"}, lambda row: "said 1" in row.content),
]


def test_every_filter_holds_inside_a_search_by_index(corpus: Corpus) -> None:
    for changes, passes in FILTERS:
        assert corpus.recall(replace(EVERY, **changes), passes) >= 0.95
        assert corpus.recall(replace(of_themes("large"), **changes), both(passes, of_theme("large"))) >= 0.95
    named = frozenset(row.uid for number, row in corpus.rows.items() if number % 3)
    assert corpus.recall(replace(EVERY, exclude=named), lambda row: row.uid not in named) >= 0.95


def of_theme(*themes: str) -> Passes:
    return lambda row: row.theme in themes


def both(first: Passes, second: Passes) -> Passes:
    return lambda row: first(row) and second(row)


def test_large_themes_are_searched_by_indexes_of_their_own_and_all_together_by_the_shared_one(corpus: Corpus) -> None:
    before = corpus.scans()
    for where in (of_themes("large"), EVERY):
        for query in queries():
            corpus.store.nearest(MODEL, query, where, limit=3)
    corpus.store.close()
    after = corpus.scans()
    used = {name for name, count in after.items() if count > before[name]}
    own = {name for name in used if name.count("_") == 2 and "_p" not in name}
    assert len(own) == 1
    assert used - own


def test_an_answer_is_not_short_where_the_rows_that_pass_lie_far_from_the_query(corpus: Corpus) -> None:
    """All rows that an index offers first are hidden."""
    for query in queries()[:3]:
        far = corpus.exact(query, len(corpus.rows), of_theme("large"))[-40:]
        named = frozenset(row.uid for number, row in corpus.rows.items() if number not in far)
        found = corpus.store.nearest(MODEL, query, replace(of_themes("large"), exclude=named), limit=30)
        assert [candidate.id for candidate in found] == far[:30]


def test_an_index_that_has_gone_makes_no_answer_wrong(corpus: Corpus) -> None:
    corpus.recall(EVERY, lambda _: True)
    with psycopg.connect(corpus.database.admin_dsn, autocommit=True) as admin:
        for name in corpus.scans():
            admin.execute(f'DROP INDEX mnemosyne."{name}"'.encode())
    assert corpus.recall(EVERY, lambda _: True) == 1.0
    assert corpus.recall(of_themes("large"), of_theme("large")) == 1.0


def test_new_changed_and_forgotten_rows_are_seen_through_an_index(corpus: Corpus) -> None:
    world = World(corpus.store)
    query = queries()[0]
    (nearest,) = corpus.exact(query, 1, of_theme("large"))
    world.forget(corpus.rows[nearest].uid)
    uid = world.add("a new row", theme="large")
    (item,) = corpus.store.pending_vectors(MODEL)
    corpus.store.attach_vectors(MODEL, [(item.id, query)])
    found = corpus.store.nearest(MODEL, query, of_themes("large"), limit=5)
    assert found[0].id == item.id
    assert found[0].score == pytest.approx(1.0, abs=1e-6)
    assert nearest not in [candidate.id for candidate in found]
    world.edit(uid, content="another text")
    assert item.id not in [candidate.id for candidate in corpus.store.nearest(MODEL, query, of_themes("large"), limit=5)]


def test_vectors_go_to_the_server_as_numbers_not_as_text(postgres: PgDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> str:
        raise AssertionError("a vector was written as text")

    monkeypatch.setattr(Vector, "to_text", refused)
    monkeypatch.setattr(HalfVector, "to_text", refused)
    store = PostgresStore(postgres.dsn, ANALYSER, FixedKey())
    World(store).add("one")
    (item,) = store.pending_vectors("short")
    for key, dimension in (("short", 3), ("long", 2_001)):
        vector = [0.123456789, *[0.01] * (dimension - 1)]
        assert store.attach_vectors(key, [(item.id, vector)]) == 1
        assert store.nearest(key, vector, EVERY, limit=1)[0].score == pytest.approx(1.0, abs=1e-6 if dimension == 3 else 1e-3)
        assert store.cosines(key, vector, [item.id]) == {item.id: pytest.approx(1.0, abs=1e-3)}
    store.close()
