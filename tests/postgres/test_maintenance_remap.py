"""Another theme for rows: they stay what they are, and nothing seems to have been removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from hermes_mnemosyne._errors import MnemosyneError
from hermes_mnemosyne.store.operations import MarkInjected
from hermes_mnemosyne.store.protocol import EVERYTHING, Filter, Reach
from hermes_mnemosyne.values import Entry, Turn
from tests.conformance.world import ANALYSER, HOME_A, FixedKey, World, turn
from tests.postgres.databases import PgDatabase

pytest.importorskip("psycopg")

from hermes_mnemosyne.store.postgres.maintenance import Maintenance
from hermes_mnemosyne.store.postgres.remapping import Place, Remapped
from hermes_mnemosyne.store.postgres.store import PostgresStore

PARTITIONS = [pytest.param(0, id="whole"), pytest.param(4, id="partitions")]


@pytest.fixture(params=PARTITIONS)
def world(request: pytest.FixtureRequest, new_postgres: Callable[..., PgDatabase]) -> Iterator[World]:
    store = PostgresStore(new_postgres(request.param).dsn, ANALYSER, FixedKey())
    yield World(store)
    store.close()


def remap(world: World, old: str, new: str, *, subject: str = "", **options: Any) -> Remapped:
    maintenance = Maintenance.of(world.store)
    options = {"force": False, "pattern": f"{old}->{new}", **options}
    return maintenance.remap(maintenance.scopes([old]), Place(new, subject), **options)


def rows(world: World, theme: str) -> dict[str, Entry | Turn]:
    where = Filter(reach=Reach(frozenset({theme}), None), include_superseded=True)
    return {row.uid: row for row in world.store.select(where, limit=None)}


def asked(world: World, statement: str) -> Any:
    with Maintenance.of(world.store)._connections.reading() as db:  # noqa: SLF001 - what no reader shows
        return db.execute(statement).fetchall()


def moved(row: Entry | Turn, theme: str, **changes: Any) -> Entry | Turn:
    return replace(row, theme=theme, seq=0, **changes)


def test_rows_keep_all_but_their_theme_and_get_new_change_numbers(world: World) -> None:
    uid = world.add("The tram leaves at nine", tags=("travel",), importance=0.9, metadata={"a": {"b": 1.5}}, session_id="s1")
    world.edit(uid, content="The tram leaves at ten")
    world.say("When does it leave?", turn("At ten", role="assistant"))
    world.add("stays", theme="other")
    before = rows(world, "alpha")
    last = max(row.seq for row in before.values())
    assert remap(world, "alpha", "beta") == Remapped(entries=1, turns=2)
    after = rows(world, "beta")
    assert {uid: moved(row, "beta") for uid, row in before.items()} == {uid: replace(row, seq=0) for uid, row in after.items()}
    assert min(row.seq for row in after.values()) > last
    assert len({row.seq for row in after.values()}) == 3
    assert rows(world, "alpha") == {}
    assert world.store.check() == []


def test_history_undo_and_forgetting_go_on_after_it(world: World) -> None:
    uid = world.add("The tram leaves at nine")
    world.edit(uid, content="The tram leaves at ten")
    gone = world.add("The bus is late")
    world.retire(gone)
    remap(world, "alpha", "beta")
    assert {change.before["theme"] for change in world.store.history(uid, EVERYTHING)} == {"beta"}
    assert world.undo(uid).status == "restored"
    restored = world.get(uid)
    assert restored is not None
    assert (restored.theme, restored.content) == ("beta", "The tram leaves at nine")
    assert world.undo(gone).status == "restored"
    assert world.forget(uid).status == "forgotten"
    assert world.store.state(uid, EVERYTHING) == "forgotten"
    assert world.store.check() == []


def test_what_was_forgotten_under_the_old_name_does_not_come_back_by_itself_under_the_new_one(world: World) -> None:
    world.forget(world.add("The safe is behind the mirror"))
    (said,) = world.say("The code is in the drawer").uids
    world.forget(said)
    remap(world, "alpha", "beta")
    remap(world, "beta", "gamma")
    assert world.file("The safe is behind the mirror", "The tram leaves at nine", theme="gamma").counts["refused"] == 1
    assert world.transcript("The code is in the drawer", theme="gamma").status == "exists"
    assert [row.content for row in rows(world, "gamma").values()] == ["The tram leaves at nine"]
    assert world.done(world.adding("The safe is behind the mirror", theme="gamma")).status == "added"


def test_nothing_is_retired_or_forgotten_by_it(world: World) -> None:
    world.add("one")
    world.say("two")
    remap(world, "alpha", "beta")
    assert [record for record in world.store.export(EVERYTHING) if record["type"] in ("tombstone", "history")] == []


def test_the_export_of_a_remapped_theme_can_be_taken_in_elsewhere(world: World, new_postgres: Callable[..., PgDatabase]) -> None:
    uid = world.add("The tram leaves at nine")
    world.edit(uid, content="The tram leaves at ten")
    world.forget(world.add("secret"))
    world.retire(world.add("retired"))
    world.say("hello", "hello")
    remap(world, "alpha", "beta")
    records = list(world.store.export(EVERYTHING))
    other = World(PostgresStore(new_postgres().dsn, ANALYSER, FixedKey()))
    assert {outcome.status for outcome in other.merge(records)}.isdisjoint({"failed", "refused"})
    assert list(other.store.export(EVERYTHING)) == records
    other.store.close()


def test_what_both_themes_say_becomes_one_memory_under_the_smaller_id(world: World) -> None:
    first = world.add("The cat is Momo", tags=("cat",), origin=HOME_A)
    second = world.add("The cat is Momo", theme="beta", tags=("pet",))
    assert remap(world, "alpha", "beta") == Remapped(entries=1, duplicates=1)
    [row] = rows(world, "beta").values()
    assert isinstance(row, Entry)
    assert row.uid == min(first, second)
    assert row.tags == ("cat", "pet")
    assert HOME_A in row.origins
    assert world.get(first) == world.get(second) == row
    assert world.store.check() == []


def test_more_than_ten_equal_memories_are_merged_only_when_asked_for(world: World) -> None:
    for number in range(11):
        world.add(f"fact {number}")
        world.add(f"fact {number}", theme="beta")
    before = rows(world, "alpha")
    with pytest.raises(MnemosyneError, match="--force"):
        remap(world, "alpha", "beta")
    assert rows(world, "alpha") == before
    assert remap(world, "alpha", "beta", force=True).duplicates == 11
    assert len(rows(world, "beta")) == 11


def test_sessions_that_both_have_become_one_in_the_order_of_time(world: World) -> None:
    early, late = "2026-01-01T00:00:00.000000Z", "2026-01-03T00:00:00.000000Z"
    world.done(world.turns("good morning", "bye", session="s", at=early))
    world.done(world.turns("in between", session="s", theme="beta", at="2026-01-02T00:00:00.000000Z"))
    world.done(world.turns("good evening", session="s", at=late))
    remap(world, "alpha", "beta")
    found = sorted((row for row in rows(world, "beta").values() if isinstance(row, Turn)), key=lambda row: row.position)
    assert [row.content for row in found] == ["good morning", "bye", "in between", "good evening"]
    assert [row.position for row in found] == [1, 2, 3, 4]
    assert world.store.upkeep(seconds=5)
    assert world.store.check() == []


def test_the_same_turn_of_one_session_in_both_themes_is_said_twice_there(world: World) -> None:
    world.say("yes", "yes", session="s")
    world.say("yes", session="s", theme="beta")
    gone = world.say("yes", session="s", theme="beta").uid
    world.retire(gone)
    remap(world, "alpha", "beta")
    occurrences = [row.occurrence for row in rows(world, "beta").values() if isinstance(row, Turn)]
    assert sorted(occurrences) == [1, 3, 4]
    assert world.transcript("yes", "yes", "yes", "yes", session="s", theme="beta").status == "exists"


def test_facets_of_the_index_follow_the_rows(world: World) -> None:
    world.say("alpha words", session="s")
    world.say("beta words", session="s", theme="beta")
    world.add("noted", session_id="s")
    remap(world, "alpha", "beta")
    [(scope, session)] = asked(world, "SELECT n.scope, n.id FROM mnemosyne.sessions AS n")
    found = {tuple(words) for (words,) in asked(world, "SELECT tsvector_to_array(ts_filter(tsv, '{}')) FROM mnemosyne.tokens")}
    assert found <= {()}
    for number, facet in ((3, f"/s{scope}"), (2, f"/n{session}"), (1, f"/m{session}")):
        assert asked(world, f"SELECT count(*) FROM mnemosyne.tokens WHERE tsv @@ '{facet}'::tsquery") == [(number,)]


def test_counters_speakers_and_marks_follow_the_rows(world: World) -> None:
    uid = world.say(turn("hello", speaker="Ada")).uid
    world.say(turn("hi", speaker="Ada"), theme="beta")
    world.done(world.make(MarkInjected, session_id="s1", uids=(uid,)))
    remap(world, "alpha", "beta")
    assert world.store.themes(EVERYTHING)["beta"].turns == 2
    assert "alpha" not in world.store.themes(EVERYTHING)
    assert asked(world, "SELECT speaker, turns FROM mnemosyne.speakers") == [("Ada", 2)]
    assert world.store.injected("beta", "", "s1") == {uid}


def test_vectors_and_what_is_known_of_missing_ones_follow_the_rows(world: World) -> None:
    with_vector, excluded = world.add("one"), world.add("two")
    world.add("three")
    ids = {
        row.uid: number
        for number, row in world.store.load([n for (n,) in asked(world, "SELECT id FROM mnemosyne.entries")]).items()
    }
    world.store.attach_vectors("m", [(ids[with_vector], [1.0, 0.0])])
    world.store.exclude_vectors([ids[excluded]])
    before = world.store.vector_counts("m")
    remap(world, "alpha", "beta")
    assert world.store.vector_counts("m") == before
    assert world.store.check() == []
    [pending] = world.store.pending_vectors("m")
    assert pending.text == "three"


def test_mirrored_files_are_compared_anew(world: World) -> None:
    world.file("first line", "second line", stamp="1")
    remap(world, "alpha", "beta")
    assert world.store.file_stamp("beta", HOME_A.place) == ""
    world.file("first line", theme="beta", stamp="2")
    assert [row.content for row in rows(world, "beta").values()] == ["first line"]


def test_every_spelling_of_a_theme_is_moved(world: World) -> None:
    world.add("one", theme="Alpha")
    world.add("two", theme="alpha")
    assert remap(world, "ALPHA", "beta").entries == 2


def test_a_remap_is_logged_once_with_both_names(world: World) -> None:
    world.add("one")
    remap(world, "alpha", "beta")
    logged = asked(
        world, "SELECT operation, theme_pattern, affected_count, dropped_dupes, dry_run FROM mnemosyne.maintenance_log"
    )
    assert logged == [("remap_identity", "alpha->beta", 1, 0, False)]
    assert remap_preview(world, "beta", "gamma") == Remapped(entries=1)
    assert len(asked(world, "SELECT 1 FROM mnemosyne.maintenance_log")) == 1


def remap_preview(world: World, old: str, new: str) -> Remapped:
    maintenance = Maintenance.of(world.store)
    return maintenance.preview_remap(maintenance.scopes([old]), Place(new))


def test_rows_may_go_to_one_contact(world: World) -> None:
    uid = world.add("likes tea", theme="whatsapp-dm")
    remap(world, "whatsapp-dm", "whatsapp-dm", subject="c1")
    row = world.get(uid)
    assert row is not None
    assert (row.theme, row.subject) == ("whatsapp-dm", "c1")


def test_writers_that_know_the_old_theme_go_on_writing_to_it(world: World) -> None:
    world.add("before")
    remap(world, "alpha", "beta")
    world.add("after")
    assert [row.content for row in rows(world, "alpha").values()] == ["after"]
    assert remap(world, "alpha", "beta").entries == 1
    assert len(rows(world, "beta")) == 2
    assert world.store.check() == []
