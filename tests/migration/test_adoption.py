"""Databases that hermes-memory-pgvector made and filled are adopted, and its writers go on."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne._errors import StoreUnavailable
from hermes_mnemosyne.store.postgres.migrate import migrate
from hermes_mnemosyne.store.protocol import EVERYTHING, VectorModel
from hermes_mnemosyne.values import Entry, Turn
from tests.migration.conftest import OldPackage
from tests.migration.test_schema import psql, shape
from tests.migration.world import World, sql
from tests.postgres.fixtures import RUNTIME_ROLE

Open = Callable[..., World]
LONG_TURN = "a turn of many words " * 600
CONTACT = "agent:main:whatsapp:dm:+4912345678"


def add(text: str, theme: str = "marketing", **fields: Any) -> dict[str, Any]:
    return {"do": "add", "agent_identity": theme, "target": "memory", "content": text, **fields}


def turn(text: str, session: str = "20260101_120000", theme: str = "marketing", **fields: Any) -> dict[str, Any]:
    return {"do": "append_turn", "agent_identity": theme, "session_id": session, "role": "user", "content": text, **fields}


FILLING = (
    add("The launch is on Friday in Lisbon", metadata={"source": "x"}),
    add("The staging host is called heron"),
    add("Prefers short answers", "Marketing"),
    add("   ", "sales"),
    add("the vault: password=hunter2secretX", "sales"),
    add("Ann likes tulips", "whatsapp-dm", metadata={"raw_identity": CONTACT}),
    add("Nobody knows whose this is", "whatsapp-dm"),
    turn("We talked about the budget"),
    turn("We talked about the budget"),
    turn("And then about the weather", parent_session_id="20251231_090000"),
)


def test_every_row_is_taken_over_once_with_its_times_and_its_words(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    before = sql(
        old.database.admin_dsn,
        "SELECT content, created_at, updated_at FROM memory_entries WHERE content LIKE 'The %%' ORDER BY id",
    )
    ours = world(old.database)
    first = ours.adopt()
    assert first.counts["memory_entries"] == {"added": 6, "blank": 1}
    assert first.counts["conversations"] == {"added": 3}
    assert first.complete
    again = ours.adopt()
    assert not any(counts.total() for counts in again.counts.values())
    ours.verify()
    rows = {row.content: row for row in ours.rows()}
    for content, created, updated in before:
        entry = rows[content]
        assert isinstance(entry, Entry)
        assert (entry.created_at, entry.updated_at) == tuple(f"{at:%Y-%m-%dT%H:%M:%S.%f}Z" for at in (created, updated))
    assert rows["The launch is on Friday in Lisbon"].metadata == {"source": "x"}
    assert rows["Prefers short answers"].theme == "Marketing"
    assert "the vault: password=[masked:password]" in rows
    budget = [row for row in ours.rows() if isinstance(row, Turn) and "budget" in row.content]
    assert sorted(row.occurrence for row in budget) == [1, 2]
    weather = rows["And then about the weather"]
    assert isinstance(weather, Turn)
    assert (weather.session_id, weather.parent_session_id) == ("20260101_120000", "20251231_090000")


def test_a_contact_is_known_by_a_keyed_hash_and_its_number_is_gone(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    keyless = world(old.database, keyed=False)
    waiting = keyless.adopt()
    assert waiting.counts["memory_entries"]["held"] == 1
    assert not waiting.complete
    assert "Ann likes tulips" not in keyless.texts()
    with pytest.raises(StoreUnavailable, match="subject key"):
        keyless.finish()
    ours = world(old.database)
    assert ours.adopt().complete
    ann, nobody = ours.row("tulips"), ours.row("Nobody")
    assert len(ann.subject) == 64
    assert nobody.subject == ""
    assert CONTACT not in str(ours.sql("SELECT e.*, s.* FROM mnemosyne.entries e, mnemosyne.scopes s, mnemosyne.sessions n"))
    assert "raw_identity" not in ann.metadata


def test_the_old_writer_goes_on_under_its_own_role(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    ours = world(old.database)
    ours.adopt()
    heron, lisbon, secret = ours.row("heron"), ours.row("Lisbon"), ours.row("vault")
    who = {"agent_identity": "marketing"}
    old.does(
        {
            "do": "session", "session_id": "20260102_120000", "who": who,
            "writes": [
                ["add", "memory", "A new fact by the old writer"],
                ["replace", "memory", "The staging host is called egret", {"old_text": "heron"}],
                ["remove", "memory", "", {"old_text": "Lisbon"}],
            ],
            "turns": [[LONG_TURN, "and an answer that is long enough to be kept by its filter"]],
        },
        {"do": "command", "args": ["remap", "--old", "sales", "--new", "commerce", "--execute"]},
    )  # fmt: skip
    assert ours.drain() > 0
    texts = ours.texts()
    assert "A new fact by the old writer" in texts
    assert LONG_TURN.strip() in [text.strip() for text in texts]
    assert ours.row("egret").uid == heron.uid
    assert [change.action for change in ours.store.history(heron.uid, EVERYTHING)] == ["edited"]
    assert ours.store.state(lisbon.uid, EVERYTHING) == "retired"
    assert (ours.row("vault").theme, ours.store.state(secret.uid, EVERYTHING)) == ("commerce", "retired")
    assert sql(old.database.admin_dsn, "SELECT count(*) FROM mnemosyne.forwarded") == [(0,)]
    sql(old.database.admin_dsn, "UPDATE conversations SET ts = now() - interval '9 days' WHERE session_id = '20260101_120000'")
    old.does({"do": "command", "args": ["prune", "--days", "5", "--execute"]})
    ours.drain()
    assert not [row for row in ours.rows() if isinstance(row, Turn) and row.session_id == "20260101_120000"]
    ours.verify()


def test_rows_written_while_the_copy_is_under_way_arrive_once(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    ours = world(old.database)
    old.does(
        add("between migrate and the copy"),
        {"do": "remove", "agent_identity": "marketing", "target": "memory", "old_text": "Lisbon"},
    )
    done = ours.adopt()
    assert done.complete
    assert ours.texts().count("between migrate and the copy") == 1
    assert not [text for text in ours.texts() if "Lisbon" in text]
    ours.verify()


def test_what_we_change_retire_or_forget_is_so_in_the_old_tables_too(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    ours = world(old.database)
    ours.adopt()
    contents = "SELECT content FROM memory_entries WHERE agent_identity = 'marketing' ORDER BY id"
    ours.edit(ours.row("heron"), "The staging host is called ibis")
    assert sql(old.database.dsn, contents) == [("The launch is on Friday in Lisbon",), ("The staging host is called ibis",)]
    lisbon = ours.row("Lisbon")
    ours.retire(lisbon)
    assert sql(old.database.dsn, contents) == [("The staging host is called ibis",)]
    ours.forget(ours.row("ibis"))
    ours.forget(ours.row("weather"))
    assert sql(old.database.dsn, contents) == []
    assert sql(old.database.dsn, "SELECT count(*) FROM conversations WHERE content LIKE '%weather%'") == [(0,)]
    assert ours.drain() == 0


def test_a_text_forgotten_before_it_was_copied_is_not_taken_over_and_goes_from_the_old_table(
    old: OldPackage, world: Open
) -> None:
    old.does(add("a text that both have"))
    ours = world(old.database)
    ours.add("marketing", "a text that both have")
    ours.forget(ours.row("both"))
    assert ours.adopt().counts["memory_entries"]["refused"] == 1
    assert ours.texts() == []
    assert sql(old.database.dsn, "SELECT count(*) FROM memory_entries") == [(0,)]


def test_a_text_of_both_and_a_session_of_both_are_one(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    ours = world(old.database)
    ours.add("marketing", "The staging host is called heron")
    ours.capture("marketing", "20260101_120000", ["We talked about the budget", "Something that only we have heard"])
    uid = ours.row("heron").uid
    ours.adopt()
    assert ours.row("heron").uid == uid
    turns = [row for row in ours.rows() if isinstance(row, Turn)]
    assert sorted(row.content for row in turns).count("We talked about the budget") == 2
    ours.verify()


def test_after_finish_the_old_names_are_views_of_the_same_rows_under_the_same_ids(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    kept = "SELECT id, agent_identity, target, content FROM memory_entries WHERE agent_identity <> 'sales' ORDER BY id"
    turns = "SELECT id, session_id, role, content, ts, parent_session_id FROM conversations ORDER BY id"
    before = sql(old.database.dsn, kept), sql(old.database.dsn, turns)
    ours = world(old.database)
    dropped = ours.finish()
    assert {"memory_entries", "conversations", "v_agent_memory"} <= set(dropped)
    assert (sql(old.database.dsn, kept), sql(old.database.dsn, turns)) == before
    ((number,),) = sql(old.database.dsn, "INSERT INTO memory_entries (target, content) VALUES ('user', 'by hand') RETURNING id")
    assert number > max(row[0] for row in before[0])
    sql(old.database.dsn, "UPDATE memory_entries SET content = 'The staging host is called ibis' WHERE content LIKE '%heron%'")
    sql(old.database.dsn, "DELETE FROM conversations WHERE content LIKE '%weather%'")
    ours.drain()
    assert {"by hand", "The staging host is called ibis"} <= set(ours.texts())
    assert not [text for text in ours.texts() if "weather" in text]
    assert ours.finish() == []


def test_finish_waits_for_what_depends_on_an_old_table(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    sql(old.database.admin_dsn, "CREATE VIEW report AS SELECT content FROM memory_entries")
    ours = world(old.database)
    with pytest.raises(StoreUnavailable, match="drop what depends on it"):
        ours.finish()
    assert len(sql(old.database.dsn, "SELECT id FROM memory_entries")) == 7
    old.does(add("the old writer still goes on"))
    ours.drain()
    assert "the old writer still goes on" in ours.texts()


def test_back_gives_the_old_package_what_is_newer_here_but_no_rows_of_contacts(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    ours = world(old.database)
    ours.adopt()
    ours.add("marketing", "Written by us")
    ours.capture("marketing", "20260103_120000", ["Captured by us"])
    lisbon = ours.row("Lisbon")
    ours.retire(lisbon)
    ours.undo(lisbon)
    given = ours.back()
    assert (given.entries, given.turns, given.of_contacts) == (2, 1, 1)
    found = sql(old.database.dsn, "SELECT content FROM memory_entries WHERE agent_identity = 'marketing'")
    assert sorted(text for (text,) in found) == [
        "The launch is on Friday in Lisbon",
        "The staging host is called heron",
        "Written by us",
    ]
    assert sql(old.database.dsn, "SELECT session_id FROM conversations WHERE content = 'Captured by us'") == [
        ("20260103_120000",)
    ]
    again = ours.back()
    assert (again.entries, again.turns) == (0, 0)
    assert ours.drain() == 0
    (listed,) = old.does({"do": "list_entries", "agent_identity": "marketing", "target": "memory"})
    assert "Written by us" in str(listed)


def test_attribution_is_copied_and_goes_on(old: OldPackage, world: Open) -> None:
    edge = {
        "do": "record_delegation",
        "parent_identity": "marketing",
        "child_identity": None,
        "parent_session_id": "a",
        "attrs": {},
    }
    agent = {"do": "register_agent", "agent_identity": "marketing", "kind": "theme"}
    old.does(agent, {**edge, "child_session_id": "b"})
    ours = world(old.database)
    old.does({**agent, "agent_identity": "sales"}, {**edge, "child_session_id": "c"}, {**agent, "kind": "worker"})
    assert ours.sql("SELECT theme, kind FROM mnemosyne.agents ORDER BY theme") == [("marketing", "worker"), ("sales", "theme")]
    assert ours.sql("SELECT child_session_id FROM mnemosyne.agent_edges ORDER BY id") == [("b",), ("c",)]
    ours.finish()
    assert ours.sql("SELECT child_session_id FROM memory_agent_edges ORDER BY id", runtime=True) == [("b",), ("c",)]


def test_a_database_with_the_first_migration_only_is_adopted(first_old: OldPackage, world: Open) -> None:
    first_old.does(*FILLING[:2], turn("We talked about the budget"))
    ours = world(first_old.database)
    assert ours.adopt().complete
    first_old.does(add("The old writer goes on"))
    ours.drain()
    assert len(ours.rows()) == 4
    assert ours.back().entries == 0
    ours.finish()
    assert ours.sql("SELECT count(*), count(parent_session_id) FROM conversations", runtime=True) == [(1, 0)]


def test_old_rows_may_hold_anything(old: OldPackage, world: Open) -> None:
    admin = old.database.admin_dsn
    odd = [
        ("a", "x" * 2000), ("", "no identity"), ("a", "equal but for blanks"), ("a", "equal but for blanks  \r\n"), ("a", "\u00e9"),
        ("a", "e\u0301"), ("Th\u00e8me d'\u00c9t\u00e9", "\x01\x02 controls"), ("a", "\n\t "), ("a" * 500, "a long name"),
    ]  # fmt: skip
    for theme, text in odd:
        sql(
            admin,
            "INSERT INTO memory_entries (agent_identity, target, content, created_at) VALUES (%s, 'memory', %s, 'infinity')",
            theme,
            text,
        )
    sql(admin, "INSERT INTO memory_entries (target, content, metadata) VALUES ('user', 'a list as metadata', '[1e400, [2]]')")
    sql(admin, "INSERT INTO memory_entries (target, content, updated_at) VALUES ('user', 'from far ahead', '20000-01-01')")
    sql(admin, "INSERT INTO memory_entries (target, content, updated_at) VALUES ('user', 'from long ago', '4000-01-01 BC')")
    sql(admin, "INSERT INTO conversations (session_id, role, content, ts) VALUES ('', 'tool', 'no session', '-infinity')")
    ours = world(old.database)
    done = ours.adopt()
    assert done.complete, done.problems
    ours.verify()
    assert done.counts["memory_entries"] == {"added": 9, "exists": 2, "blank": 1}
    assert {"no identity", "from far ahead", "from long ago", "no session", "a list as metadata"} <= set(ours.texts())
    assert ours.row("no identity").theme == "default"
    # Two old rows are one of ours: it stays as long as one of them does.
    sql(admin, "DELETE FROM memory_entries WHERE content = 'equal but for blanks'")
    ours.drain()
    assert [text for text in ours.texts() if "equal" in text]
    sql(admin, "DELETE FROM memory_entries WHERE content LIKE 'equal but for blanks%%'")
    ours.drain()
    assert not [text for text in ours.texts() if "equal" in text]
    later = ours.add("a", "written after all that")
    assert later.status == "added"
    assert ours.row("written after").clock < "0200"


def test_a_killed_copy_goes_on_where_it_ended(old: OldPackage, world: Open) -> None:
    sql(
        old.database.admin_dsn,
        "INSERT INTO conversations (session_id, role, content) SELECT 's' || i % 3, 'user', 'turn number ' || i FROM generate_series(1, 450) i",
    )
    ours = world(old.database)

    class Killed(BaseException):
        pass

    def stop(_: str, __: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        ours.adopt(step=stop)
    assert len(ours.rows()) == 200
    assert ours.adopt().counts["conversations"]["added"] == 250
    ours.verify()
    positions = [
        row.position for row in sorted(ours.rows(), key=lambda row: int(row.content.split()[-1])) if isinstance(row, Turn)
    ]
    assert positions == sorted(positions)


def test_a_refused_change_is_kept_with_its_problem_and_the_rest_goes_on(old: OldPackage, world: Open) -> None:
    old.does(*FILLING[:2])
    ours = world(old.database)
    ours.adopt()
    sql(
        old.database.admin_dsn,
        "INSERT INTO mnemosyne.forwarded (relation, action, legacy_id, after) VALUES ('memory_entries', 'INSERT', 99, "
        """'{"id": 99, "agent_identity": "a", "target": "nonsense", "content": "x"}')""",
    )
    old.does(add("after the bad one"))
    assert ours.drain() == 1
    assert "after the bad one" in ours.texts()
    ((problem,),) = ours.sql("SELECT problem FROM mnemosyne.forwarded")
    assert "target" in problem


def test_an_agent_with_the_key_takes_over_what_an_administrator_without_it_left(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    keyless = world(old.database, keyed=False)
    keyless.adopt()
    assert not keyless.is_due()
    agent = world(old.database, runtime=True)
    assert agent.is_due()
    assert agent.adopt().complete
    assert not agent.is_due()
    assert "Ann likes tulips" in agent.texts()


def test_changes_to_rows_of_contacts_wait_for_a_host_with_the_key_and_hold_nobody_else_up(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    world(old.database).adopt()
    keyless = world(old.database, keyed=False)
    bob = add("Bob likes roses", "whatsapp-dm", metadata={"raw_identity": "agent:main:whatsapp:dm:+4987654321"})
    old.does(bob, {"do": "remove", "agent_identity": "whatsapp-dm", "target": "memory", "old_text": "roses"}, bob, add("A fact"))
    assert keyless.drain() == 1
    assert "A fact" in keyless.texts()
    ours = world(old.database)
    assert ours.drain() == 3
    assert ours.texts().count("Bob likes roses") == 1


def test_two_hosts_drain_at_once_and_each_change_has_one_effect(old: OldPackage, world: Open) -> None:
    ours = world(old.database)
    sql(
        old.database.admin_dsn,
        "INSERT INTO conversations (session_id, role, content) SELECT 's', 'user', 'the same words' FROM generate_series(1, 60)",
    )
    with ThreadPoolExecutor(3) as pool:
        counts = list(pool.map(lambda host: host.drain(), [ours, world(old.database), world(old.database)]))
    assert sum(counts) == 60
    assert len(ours.rows()) == 60


def vector(text: str) -> list[float]:
    draw = random.Random(text)  # noqa: S311 - as the driver of the old package draws them
    return [draw.uniform(-1, 1) for _ in range(768)]


@pytest.mark.parametrize("same", [True, False])
def test_old_vectors_are_trusted_only_if_the_model_makes_the_same_ones(old: OldPackage, world: Open, *, same: bool) -> None:
    old.does(*FILLING)
    ours = world(old.database)
    ours.adopt()
    model = VectorModel(key="nomic", name="nomic", dimension=768, probes=(), floor=0.0, active=True)
    ours.store.add_vector_model(model)
    ours.store.activate_vector_model("nomic")
    done = ours.adopt_vectors("nomic", lambda texts: [vector(text if same else text[::-1]) for text in texts])
    assert done.compared > 5
    assert done.trusted == same
    # One text was masked: its old vector is that of the secret.
    assert done.taken == (8 if same else 0)
    assert ours.store.vector_counts("nomic").stored == done.taken
    assert ours.adopt_vectors("nomic", lambda texts: [vector(text) for text in texts]).taken == (0 if same else 8)


def test_the_rules_hold_where_the_tables_are_partitioned(old: OldPackage, world: Open) -> None:
    old.does(*FILLING)
    ours = world(old.database, partitions=3)
    ours.adopt()
    ours.edit(ours.row("heron"), "The staging host is called ibis")
    ours.forget(ours.row("weather"))
    old.does({"do": "remove", "agent_identity": "marketing", "target": "memory", "old_text": "Lisbon"})
    ours.drain()
    kept = "SELECT content FROM memory_entries WHERE agent_identity = 'marketing'"
    assert sql(old.database.dsn, kept) == [("The staging host is called ibis",)]
    ours.finish()
    assert sql(old.database.dsn, kept) == [("The staging host is called ibis",)]
    assert sql(old.database.dsn, "SELECT count(*) FROM conversations") == [(2,)]


def test_a_dry_run_on_old_tables_prints_what_migrate_does_before_it_copies(old: OldPackage, world: Open, tmp_path: Path) -> None:
    old.does(*FILLING)
    report = migrate(old.database.admin_dsn, runtime_role=RUNTIME_ROLE, dry_run=True)
    (tmp_path / "all.sql").write_text(report.sql, encoding="utf-8")
    psql(old.database.admin_dsn, tmp_path / "all.sql")
    before = shape(old.database.admin_dsn)
    assert ("ledger", "9001", "copy memory_entries", "pending") in {(row[0], *row[2:4], row[5]) for row in before}
    assert migrate(old.database.admin_dsn, runtime_role=RUNTIME_ROLE).applied == ()
    assert shape(old.database.admin_dsn) == before
    agent = world(old.database, runtime=True)
    assert agent.is_due()
    agent.adopt()
    agent.verify()
    assert not agent.is_due()
