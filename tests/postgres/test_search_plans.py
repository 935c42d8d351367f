"""How Postgres is searched by words: by index, within bounds for frequent words, with counts taken in the background."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pytest

from hermes_mnemosyne.store.postgres import matching, search, statistics
from hermes_mnemosyne.store.postgres.connections import Connections, PostgresOptions
from hermes_mnemosyne.store.postgres.database import Database, Result
from hermes_mnemosyne.store.postgres.sql import Statement, statements
from hermes_mnemosyne.store.postgres.store import PostgresStore
from hermes_mnemosyne.store.protocol import Filter, LexicalQuery, Reach
from hermes_mnemosyne.store.writing.rows import age_of
from tests.conformance.world import ANALYSER, EVERYTHING, FixedKey, World, any_of
from tests.postgres.databases import PgDatabase

LATER = 3600.0
SMALL_BLOCKS = {"b": 2, "c": 4, "d": 6, "e": 8, "f": 10}


@pytest.fixture
def world(postgres: PgDatabase) -> Iterator[World]:
    store = PostgresStore(postgres.dsn, ANALYSER, FixedKey())
    yield World(store)
    store.close()


@pytest.fixture
def connections(postgres: PgDatabase) -> Iterator[Connections]:
    made = Connections(postgres.dsn, PostgresOptions())
    yield made
    made.close()


def fill(world: World, texts: Sequence[str], **fields: Any) -> None:
    world.apply(*[world.adding(text, **fields) for text in texts])


def theme(*names: str) -> Filter:
    return Filter(reach=Reach(frozenset(names)))


def renewed(connections: Connections) -> bool:
    return statistics.renew(connections, time.monotonic() + LATER)


def is_due(connections: Connections) -> bool:
    with connections.reading() as db:
        return statistics.due(db)


class Recorder(Database):
    """A connection that keeps the plan and the number of matches of every ranking, and counts how often words are counted."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        super().__init__(raw)
        self.plans: list[str] = []
        self.matched: list[int] = []
        self.counted: list[str] = []

    def execute(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = (), *, prepare: bool | None = None
    ) -> Result:
        sql = statements("search")
        if statement == sql["best"]:
            assert isinstance(statement, Statement)
            assert isinstance(parameters, Mapping)
            values = [parameters[name] for name in statement.names]
            self.plans.append("\n".join(row[0] for row in self.raw.execute("EXPLAIN " + statement, values)))
            found = self.raw.execute(statement, values).fetchall()
            self.matched.append(found[0][2] if found else 0)
        if statement == sql["count"]:
            assert isinstance(parameters, Mapping)
            self.counted += parameters["terms"]
        return super().execute(statement, parameters, prepare=prepare)


@pytest.fixture
def recorder(connections: Connections) -> Iterator[Recorder]:
    with connections.reading() as db:
        yield Recorder(db.raw)


# -- by index --------------------------------------------------------------------------------------------------------------------


def test_words_are_looked_up_in_the_index_in_every_scope(world: World, recorder: Recorder, postgres: PgDatabase) -> None:
    for number in range(12):
        fill(world, [f"apple {'pear ' * (row % 40 == 0)}{number} {row}" for row in range(200)], theme=f"t{number}")
    with psycopg.connect(postgres.admin_dsn, autocommit=True) as admin:
        admin.execute("VACUUM ANALYZE mnemosyne.tokens")
    for where in (theme("t1"), theme("t1", "t2"), Filter(reach=EVERYTHING), Filter(reach=Reach(None, ""))):
        found = search.lexical(recorder, any_of("pear"), where)
        assert len(found) == 5 * (12 if where.reach.themes is None else len(where.reach.themes))
    assert len(recorder.plans) == 4
    for plan in recorder.plans:
        assert "Bitmap Index Scan on tokens_by_term" in plan
        assert "Seq Scan on tokens" not in plan
        assert "tokens_pkey" not in plan


def test_words_too_long_for_the_index_choose_nothing(world: World) -> None:
    world.add("apple pear")
    long = "x" * (matching.LONGEST_TERM + 1)
    where = Filter(reach=EVERYTHING)
    assert len(world.store.lexical(LexicalQuery(required=("appl", long)), where)) == 1
    assert world.store.lexical(LexicalQuery(required=("appl", long), all_required=True), where) == []
    assert world.store.lexical(LexicalQuery(required=(long,)), where) == []
    assert world.store.term_counts(("appl", long), where, ceiling=9) == {"appl": 1, long: 0}
    (found,) = world.store.lexical(LexicalQuery(required=("appl",)), where)
    assert world.store.terms_in([found.id], ("appl", long)) == {found.id: {"appl"}}


def test_a_query_of_many_words_is_ranked_by_all_of_them(world: World) -> None:
    words = [f"{first}{second}mok" for first in "bcdfgh" for second in "aeiou"]
    for count in (5, 30, 12, 20):
        world.add(" ".join(words[:count]))
    terms = tuple(ANALYSER.entry_tokens(word, ()) for word in words)
    found = world.store.lexical(LexicalQuery(required=terms[:1], optional=terms[1:]), Filter(reach=EVERYTHING))
    rows = world.store.load([candidate.id for candidate in found])
    assert [len(rows[candidate.id].content.split()) for candidate in found] == [30, 20, 12, 5]


# -- bounded work ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch, world: World, postgres: PgDatabase) -> World:
    """Two themes of 300 rows that were written in turn; of few matches only the newest are ranked."""
    for module in (matching, search):
        monkeypatch.setattr(module, "MOST_RANKED", 20)
    monkeypatch.setattr(matching, "_BLOCKS", SMALL_BLOCKS)
    for start in range(0, 300, 10):
        for name in ("alpha", "beta"):
            fill(world, [f"apple {'quince ' * (row % 60 == 0)}{name} {row}" for row in range(start, start + 10)], theme=name)
    with psycopg.connect(postgres.admin_dsn) as admin:
        for scope, row in admin.execute("SELECT scope, row FROM mnemosyne.tokens").fetchall():
            facets = " ".join(matching.age_facets(row))
            admin.execute(
                "UPDATE mnemosyne.tokens SET tsv = ts_filter(tsv, '{a}') || %s::tsvector WHERE scope = %s AND row = %s",
                (f"/s{scope} /k0 {facets}", scope, row),
            )
    return world


@pytest.mark.parametrize("where", [theme("alpha"), theme("alpha", "beta"), Filter(reach=EVERYTHING)])
def test_of_a_frequent_word_the_newest_rows_are_ranked_and_of_a_rare_one_all(
    bounded: World, recorder: Recorder, where: Filter
) -> None:
    found = search.lexical(recorder, any_of("apple quince"), where)
    rows = bounded.store.load([candidate.id for candidate in found])
    themes = len(where.reach.themes or ("alpha", "beta"))
    assert sum("quince" in row.content for row in rows.values()) == 5 * themes
    assert len(found) >= 5
    assert max(recorder.matched) < 150
    ordinary = [age_of(number) for number, row in rows.items() if "quince" not in row.content]
    assert min(ordinary, default=600) > 300


@pytest.mark.parametrize("count", [1, 7, 60, 400])
@pytest.mark.parametrize("where", [theme("beta"), Filter(reach=EVERYTHING)])
def test_exactly_the_newest_are_ranked_where_they_are_asked_for(bounded: World, where: Filter, count: int) -> None:
    query = LexicalQuery(required=("appl",), newest=count, limit=1000)
    found = {age_of(candidate.id) for candidate in bounded.store.lexical(query, where)}
    listed = bounded.store.select(where, limit=None)
    assert sorted(found) == sorted(row.seq for row in listed)[-count:]


def test_a_condition_that_only_old_rows_meet_is_met(bounded: World) -> None:
    found = bounded.store.lexical(any_of("apple"), Filter(reach=EVERYTHING, contains="apple alpha 7"))
    assert {row.content for row in bounded.store.load([candidate.id for candidate in found]).values()} == {
        "apple alpha 7", *(f"apple alpha {number}" for number in range(70, 80)),
    }  # fmt: skip


# -- counts of words -------------------------------------------------------------------------------------------------------------


def test_small_places_are_never_counted_in_the_background(world: World, connections: Connections) -> None:
    fill(world, [f"apple {number}" for number in range(100)])
    assert not is_due(connections)
    assert renewed(connections)


def test_frequent_words_are_counted_in_the_background_and_no_more_by_searches(
    world: World, connections: Connections, recorder: Recorder
) -> None:
    texts = [f"apple {'pear ' * (number % 3 == 0)}{'quince ' * (number % 100 == 0)}{number}" for number in range(1200)]
    fill(world, texts)
    assert is_due(connections)
    assert renewed(connections)
    assert not is_due(connections)
    for where in (theme("alpha"), Filter(reach=EVERYTHING)):
        recorder.counted.clear()
        counts = search.TermCounts().get(recorder, ("appl", "pear", "quinc", "nowher"), where, 5000)
        assert counts == {"appl": 1200, "pear": 400, "quinc": 12, "nowher": 0}
        assert recorder.counted == ["quinc", "nowher"]
    assert search.TermCounts().get(recorder, ("appl",), theme("alpha"), 7) == {"appl": 7}


def test_counts_are_due_again_when_a_place_has_grown_by_a_fifth_and_follow_its_size_before(
    world: World, connections: Connections, recorder: Recorder
) -> None:
    fill(world, [f"apple {number}" for number in range(1000)])
    renewed(connections)
    fill(world, [f"apple {number}" for number in range(1000, 1150)])
    assert not is_due(connections)
    assert search.TermCounts().get(recorder, ("appl",), theme("alpha"), 5000) == {"appl": 1150}
    fill(world, [f"pear {number}" for number in range(100)])
    assert is_due(connections)
    renewed(connections)
    assert search.TermCounts().get(recorder, ("appl", "pear"), theme("alpha"), 5000) == {"appl": 1150, "pear": 100}


def test_counts_of_a_place_that_is_no_longer_large_are_dropped(world: World, connections: Connections) -> None:
    fill(world, [f"apple {number}" for number in range(1000)])
    renewed(connections)
    for row in world.store.select(theme("alpha"), limit=10):
        world.forget(row.uid)
    assert is_due(connections)
    renewed(connections)
    assert not is_due(connections)
    with connections.reading() as db:
        assert db.execute("SELECT count(*) FROM mnemosyne.term_counts").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM mnemosyne.places").fetchone() == (0,)


def test_of_very_large_places_a_part_is_counted(
    world: World, connections: Connections, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_SAMPLED_ROWS", 300)
    fill(world, [f"apple {'pear ' * (number % 2)}{number}" for number in range(1200)])
    renewed(connections)
    counts = search.TermCounts().get(recorder, ("appl", "pear"), theme("alpha"), 5000)
    assert not recorder.counted
    assert 900 < counts["appl"] <= 1200
    assert 400 < counts["pear"] < 800


def test_the_counts_of_a_reach_of_many_scopes_are_those_of_the_whole_store(
    world: World, connections: Connections, recorder: Recorder
) -> None:
    for number in range(20):
        fill(world, [f"apple {'pear ' * (row % 4 == 0)}{number} {row}" for row in range(100)], theme=f"t{number}")
    renewed(connections)
    names = [f"t{number}" for number in range(20)]
    for where in (Filter(reach=EVERYTHING), theme(*names), theme(*names[:15])):
        rows = 2000 if where.reach.themes is None else 100 * len(where.reach.themes)
        assert search.TermCounts().get(recorder, ("appl", "pear"), where, 5000) == {"appl": rows, "pear": rows // 4}
    assert not recorder.counted


def test_counting_stops_when_its_time_is_over_and_goes_on_later(world: World, connections: Connections) -> None:
    fill(world, [f"apple {number}" for number in range(1000)])
    assert not statistics.renew(connections, time.monotonic())
    assert is_due(connections)
    assert renewed(connections)
    assert not is_due(connections)


def test_two_hosts_may_count_at_once(world: World, new_connections: Callable[[], Connections]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    fill(world, [f"apple {number % 7} {number}" for number in range(1000)])
    hosts = [new_connections() for _ in range(3)]
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(renewed, hosts)) == [True, True, True]
    with hosts[0].reading() as db:
        assert db.execute("SELECT rows FROM mnemosyne.term_counts WHERE term = 'appl' AND place > 0").fetchall() == [(1000,)]


@pytest.fixture
def new_connections(postgres: PgDatabase) -> Iterator[Callable[[], Connections]]:
    made: list[Connections] = []

    def new() -> Connections:
        made.append(Connections(postgres.dsn, PostgresOptions()))
        return made[-1]

    yield new
    for each in made:
        each.close()
