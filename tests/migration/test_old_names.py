"""The old names on a fresh install: documented SQL by hand behaves as on the tables that they once were."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from hermes_mnemosyne.store.protocol import EVERYTHING
from hermes_mnemosyne.values import Entry, Turn
from tests.migration.world import World, sql
from tests.postgres.databases import PgDatabase

Open = Callable[..., World]
ADD = "INSERT INTO memory_entries (agent_identity, target, content) VALUES (%s, 'memory', %s) RETURNING id"
ADD_TURN = "INSERT INTO conversations (session_id, agent_identity, role, content) VALUES ('s1', %s, 'user', %s) RETURNING id"


def test_a_row_added_by_hand_is_seen_at_once_and_keeps_its_id_when_it_becomes_ours(postgres: PgDatabase, world: Open) -> None:
    ((number,),) = sql(postgres.dsn, ADD, "marketing", "The launch is on Friday")
    columns = "SELECT id, agent_identity, target, content, metadata FROM memory_entries"
    seen = sql(postgres.dsn, columns)
    assert seen == [(number, "marketing", "memory", "The launch is on Friday", {})]
    ours = world(postgres)
    assert ours.drain() == 1
    assert sql(postgres.dsn, columns) == seen
    entry = ours.row("launch")
    assert isinstance(entry, Entry)
    assert (entry.theme, entry.subject, entry.target) == ("marketing", "", "memory")
    assert ours.drain() == 0


def test_changes_by_hand_arrive_with_history_and_tombstone(postgres: PgDatabase, world: Open) -> None:
    ((number,),) = sql(postgres.dsn, ADD, "marketing", "The launch is on Friday")
    ours = world(postgres)
    ours.drain()
    uid = ours.row("launch").uid
    changed = sql(
        postgres.dsn, "UPDATE memory_entries SET content = 'The launch is on Monday' WHERE id = %s RETURNING content", number
    )
    assert changed == [("The launch is on Monday",)]
    assert sql(postgres.dsn, "SELECT content FROM memory_entries") == changed
    ours.drain()
    assert ours.row("Monday").uid == uid
    assert [change.action for change in ours.store.history(uid, EVERYTHING)] == ["edited"]
    sql(postgres.dsn, "DELETE FROM memory_entries WHERE agent_identity = 'marketing'")
    assert sql(postgres.dsn, "SELECT * FROM memory_entries") == []
    ours.drain()
    assert ours.rows() == []
    assert ours.store.state(uid, EVERYTHING) == "retired"


def test_several_changes_before_any_was_applied_are_one_story(postgres: PgDatabase, world: Open) -> None:
    ((first,),) = sql(postgres.dsn, ADD, "a", "one")
    sql(postgres.dsn, ADD, "a", "two")
    sql(postgres.dsn, "UPDATE memory_entries SET content = content || '!'")
    sql(postgres.dsn, "DELETE FROM memory_entries WHERE id = %s", first)
    assert sql(postgres.dsn, "SELECT content FROM memory_entries") == [("two!",)]
    ours = world(postgres)
    assert ours.drain() == 5
    assert ours.texts() == ["two!"]


def test_adding_what_exists_adds_nothing_as_with_on_conflict_do_nothing(postgres: PgDatabase, world: Open) -> None:
    again = ADD.replace("RETURNING", "ON CONFLICT DO NOTHING RETURNING")
    sql(postgres.dsn, ADD, "a", "the same")
    assert sql(postgres.dsn, again, "a", "the same") == []
    ours = world(postgres)
    ours.drain()
    assert sql(postgres.dsn, again, "a", "the same") == []
    assert len(sql(postgres.dsn, again, "b", "the same")) == 1


@pytest.mark.parametrize("known", ["by an old id", "by a number of ours"])
@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM memory_entries", "UPDATE memory_entries SET content = 'other'", "UPDATE memory_entries SET target = 'user'"],
)
def test_what_was_just_taken_away_can_be_added_again(postgres: PgDatabase, world: Open, known: str, statement: str) -> None:
    ours = world(postgres)
    if known == "by an old id":
        sql(postgres.dsn, ADD, "a", "the same")
        ours.drain()
    else:
        ours.add("a", "the same")
    sql(postgres.dsn, statement)
    left = sql(postgres.dsn, "SELECT target, content FROM memory_entries")
    assert len(sql(postgres.dsn, ADD, "a", "the same")) == 1
    expected = sorted([*left, ("memory", "the same")])
    for _ in range(2):
        assert sorted(sql(postgres.dsn, "SELECT target, content FROM memory_entries")) == expected
        ours.drain()


@pytest.mark.parametrize("table", ["memory_entries", "conversations"])
@pytest.mark.parametrize("fate", ["forget", "retire"])
@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET content = 'a secret told twice'", "UPDATE {} SET agent_identity = 'b'", "DELETE FROM {}"]
)
@pytest.mark.parametrize("problem", [None, "it could not be applied"])
def test_a_change_that_waits_brings_nothing_back_that_has_gone_meanwhile(
    postgres: PgDatabase, world: Open, statement: str, fate: str, table: str, problem: str | None
) -> None:
    ours = world(postgres)
    outcome = ours.add("a", "a secret") if table == "memory_entries" else ours.capture("a", "s", ["a secret"])
    row = ours.rows()[0]
    sql(postgres.dsn, statement.format(table))
    # Clocks of the store and of its server may differ within a millisecond.
    sql(postgres.admin_dsn, "UPDATE mnemosyne.forwarded SET problem = %s, at = at - interval '1 second'", problem)
    getattr(ours, fate)(row)
    ours.drain()
    assert ours.rows() == []
    assert sql(postgres.dsn, "SELECT content FROM memory_entries UNION ALL SELECT content FROM conversations") == []
    assert sql(postgres.dsn, "SELECT * FROM mnemosyne.forwarded") == []
    assert ours.store.state(outcome.uid, EVERYTHING) == ("forgotten" if fate == "forget" else "retired")


def test_turns_by_hand_stand_at_the_end_of_their_session_and_may_repeat(postgres: PgDatabase, world: Open) -> None:
    sql(postgres.dsn, ADD_TURN, "a", "yes")
    sql(postgres.dsn, ADD_TURN, "a", "yes")
    ours = world(postgres)
    ours.drain()
    turns = [row for row in ours.rows() if isinstance(row, Turn)]
    assert [(turn.content, turn.position, turn.occurrence) for turn in turns] == [("yes", 1, 1), ("yes", 2, 2)]
    assert sql(postgres.dsn, "SELECT session_id, role, content FROM conversations") == [("s1", "user", "yes")] * 2
    sql(postgres.dsn, "UPDATE conversations SET agent_identity = 'b' WHERE id = 1")
    sql(postgres.dsn, "DELETE FROM conversations WHERE id = 2")
    ours.drain()
    (left,) = ours.rows()
    assert (left.theme, left.uid) == ("b", turns[0].uid)
    assert sql(postgres.dsn, "SELECT id, agent_identity FROM conversations") == [(1, "b")]


def test_rows_of_ours_stand_under_the_old_names_and_can_be_changed_there(postgres: PgDatabase, world: Open) -> None:
    ours = world(postgres)
    ours.add("sales", "Discounts end in May")
    ((number, content),) = sql(postgres.dsn, "SELECT id, content FROM memory_entries")
    assert content == "Discounts end in May"
    sql(postgres.dsn, "UPDATE memory_entries SET content = 'Discounts end in June' WHERE id = %s", number)
    assert sql(postgres.dsn, "SELECT id, content FROM memory_entries") == [(number, "Discounts end in June")]
    ours.drain()
    assert sql(postgres.dsn, "SELECT id, content FROM memory_entries") == [(number, "Discounts end in June")]
    sql(postgres.dsn, "UPDATE memory_entries SET agent_identity = 'support' WHERE id = %s", number)
    ours.drain()
    assert sql(postgres.dsn, "SELECT id, agent_identity FROM memory_entries") == [(number, "support")]


def test_secrets_are_masked_and_a_forgotten_text_comes_back_only_when_it_is_said_anew(postgres: PgDatabase, world: Open) -> None:
    ours = world(postgres)
    sql(postgres.dsn, ADD, "a", "the password=hunter2hunter2 opens it")
    sql(postgres.dsn, ADD, "a", "a text to be forgotten")
    ours.drain()
    assert "hunter2" not in ours.row("opens").content
    ours.forget(ours.row("forgotten"))
    again = "INSERT INTO memory_entries (agent_identity, target, content, metadata) VALUES ('a', 'memory', 'a text to be forgotten', %s)"
    sql(postgres.dsn, again, '{"source": "bulk_import"}')
    ours.drain()
    assert len(ours.rows()) == 1
    sql(postgres.dsn, again, "{}")
    ours.drain()
    assert len(ours.rows()) == 2


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (
            "INSERT INTO memory_entries (agent_identity, target, content) VALUES ('a', 'other', 'x')",
            psycopg.errors.CheckViolation,
        ),
        ("INSERT INTO memory_entries (agent_identity, target) VALUES ('a', 'memory')", psycopg.errors.NotNullViolation),
        ("INSERT INTO conversations (role, content) VALUES ('user', 'x')", psycopg.errors.NotNullViolation),
        ("INSERT INTO conversations (session_id, role, content) VALUES ('s', 'nobody', 'x')", psycopg.errors.CheckViolation),
    ],
)
def test_what_the_tables_refused_is_refused(postgres: PgDatabase, statement: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        sql(postgres.dsn, statement)


def test_attribution_and_maintenance_are_read_and_written_under_their_old_names(postgres: PgDatabase, world: Open) -> None:
    ours = world(postgres)
    ours.add("sales", "Discounts end in May")
    sql(postgres.dsn, "INSERT INTO memory_agents (agent_identity, kind) VALUES ('sales', 'worker')")
    sql(postgres.dsn, "INSERT INTO memory_agent_edges (parent_identity, child_identity) VALUES ('sales', 'support')")
    sql(postgres.dsn, "INSERT INTO memory_maintenance_log (operation, identity_pattern) VALUES ('prune', 'sales')")
    assert sql(postgres.dsn, "SELECT agent_identity, kind, memory_rows, conversation_rows FROM v_agent_memory") == [
        ("sales", "worker", 1, 0)
    ]
    assert sql(postgres.dsn, "SELECT parent_theme, child_theme FROM mnemosyne.agent_edges") == [("sales", "support")]
    assert sql(postgres.dsn, "UPDATE memory_agents SET kind = 'theme' RETURNING kind") == [("theme",)]
    assert sql(postgres.dsn, "DELETE FROM memory_maintenance_log RETURNING operation, dry_run") == [("prune", True)]
