"""hermes-pgvector on a real database: what is counted, what is done, what is logged, and how it ends."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.store.operations import CaptureTurns
from tests.conformance.world import turn
from tests.integration.command import Result, mnemosyne
from tests.integration.embedding_server import EmbeddingServer, vector_of
from tests.postgres.databases import PgDatabase

pytest.importorskip("psycopg")

OLD = "2020-01-01T00:00:00.000000Z"


def run(*arguments: str) -> Result:
    from hermes_mnemosyne.cli import pgvector_main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = pgvector_main(arguments)
    assert "Traceback" not in err.getvalue()
    return Result(code, out.getvalue(), err.getvalue())


class Database:
    """Commands and questions about one database."""

    def __init__(self, database: PgDatabase) -> None:
        self.dsn = database.dsn
        self.admin_dsn = database.admin_dsn

    def __call__(self, command: str, *arguments: str) -> Result:
        return run(command, "--dsn", self.dsn, *arguments)

    def memory(self, theme: str = "alpha") -> Memory:
        return Memory.open(self.dsn, theme=theme, readable_themes="*")

    def add(self, *texts: str, theme: str = "alpha") -> None:
        with self.memory(theme) as memory:
            for text in texts:
                memory.remember(text)

    def say(self, *texts: str, theme: str = "alpha", at: str | None = None) -> None:
        with self.memory(theme) as memory:
            op = memory.make(CaptureTurns, session_id="s", turns=tuple(turn(text) for text in texts))
            [outcome] = memory.submit([replace(op, at=at or now_text())], hook=False)
            assert outcome.status == "added"

    def asked(self, statement: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.admin_dsn) as db:
            return db.execute(statement.encode()).fetchall()

    def log(self) -> list[tuple[Any, ...]]:
        return self.asked(
            "SELECT operation, target_table, identity_pattern, affected_count, dropped_dupes FROM memory_maintenance_log ORDER BY id"
        )

    def texts(self) -> set[str]:
        return {
            text for (text,) in self.asked("SELECT content FROM mnemosyne.entries UNION ALL SELECT content FROM mnemosyne.turns")
        }


@pytest.fixture
def database(postgres: PgDatabase) -> Database:
    return Database(postgres)


# -- prune -----------------------------------------------------------------------------------------------------------------------


def test_prune_counts_old_turns_and_forgets_them_only_when_told_to(database: Database) -> None:
    database.add("an old memory stays")
    database.say("said long ago", "said long ago too", at=OLD)
    database.say("said today")
    counted = database("prune", "--days", "30")
    assert counted.code == 0
    assert "dry_run=True): would forget 2 conversation rows" in counted.out
    assert database.log() == []
    done = database("prune", "--days", "30", "--execute", "--json").json
    assert (done["found"], done["forgotten"], done["left"]) == ({"conversations": 2}, {"conversations": 2}, {"conversations": 0})
    assert database.texts() == {"an old memory stays", "said today"}
    assert database.asked("SELECT count(*) FROM mnemosyne.tombstones WHERE state = 'forgotten'") == [(2,)]
    assert database.log() == [("prune", "conversations", None, 2, None)]


def test_prune_reaches_turns_that_were_retired_too(database: Database) -> None:
    database.say("said long ago", at=OLD)
    with database.memory() as memory:
        [row] = memory.list(kinds=("turn",))
        memory.retire(row.uid)
    assert database("prune", "--days", "30", "--execute", "--json").json["forgotten"] == {"conversations": 1}
    assert database.asked("SELECT count(*) FROM mnemosyne.history") == [(0,)]


@pytest.mark.parametrize("days", ["0", "-3"])
def test_prune_of_no_days_forgets_nothing(database: Database, days: str) -> None:
    database.say("said long ago", at=OLD)
    assert database("prune", f"--days={days}", "--execute").code == 0
    assert database.texts() == {"said long ago"}


def test_prune_takes_its_days_from_the_settings(database: Database, tmp_path: Path) -> None:
    database.say("said long ago", at=OLD)
    config = tmp_path / "config.yaml"
    config.write_text("plugins:\n  pgvector:\n    ttl_days: 30\n", encoding="utf-8")
    assert database("prune", "--config", str(config), "--json").json["found"] == {"conversations": 1}


# -- cleanup ---------------------------------------------------------------------------------------------------------------------


def test_cleanup_counts_what_themes_hold_and_forgets_it_only_when_told_to(database: Database) -> None:
    database.add("call 01234567890", "no number")
    database.say("a turn")
    database.add("kept", theme="beta")
    counted = database("cleanup", "--identities", "Alpha,nobody", "--json").json
    assert counted["found"] == {"memory_entries": 2, "conversations": 1}
    assert counted["personal"] == {"memory_entries": 1, "conversations": 0}
    assert database.log() == []
    done = database("cleanup", "--identities", "alpha", "--execute", "--json").json
    assert done["left"] == {"memory_entries": 0, "conversations": 0}
    assert database.texts() == {"kept"}
    assert [row[:4] for row in database.log()] == [
        ("cleanup_delete", "memory_entries", "alpha", 2), ("cleanup_delete", "conversations", "alpha", 1),
    ]  # fmt: skip


def test_cleanup_of_one_table_leaves_the_other(database: Database) -> None:
    database.add("entry")
    database.say("turn")
    assert database("cleanup", "--identities", "alpha", "--tables", "conversations", "--execute").code == 0
    assert database.texts() == {"entry"}


def test_tables_of_other_names_are_refused(database: Database) -> None:
    assert database("cleanup", "--identities", "alpha", "--tables", "secrets").code == 2
    assert database("backfill", "--tables", "secrets").code == 2


# -- remap -----------------------------------------------------------------------------------------------------------------------


def test_remap_counts_first_and_moves_only_when_told_to(database: Database) -> None:
    database.add("one apple", "two pears")
    database.add("one apple", theme="beta")
    database.say("three plums")
    figures = {"memory_entries": {"moved": 1, "dropped_duplicates": 1}, "conversations": {"moved": 1}}
    assert database("remap", "--old", "alpha", "--new", "beta", "--json").json == {"dry_run": True, **figures}
    assert database.log() == []
    assert database("remap", "--old", "alpha", "--new", "beta", "--execute", "--json").json == {"dry_run": False, **figures}
    assert database.log()[0][0] == "remap_identity"
    assert database.log()[0][2:] == ("alpha->beta", 2, 1)
    with database.memory("beta") as memory:
        assert {hit.content for hit in memory.recall("apple pears plums").hits} == {"one apple", "two pears", "three plums"}


@pytest.mark.parametrize(("old", "new"), [("alpha", "alpha"), ("alpha", " ALPHA "), ("Alpha", "alpha"), ("nothing", "Nothing")])
def test_remap_to_the_same_theme_is_refused_in_any_case(database: Database, old: str, new: str) -> None:
    database.add("one")
    done = database("remap", "--old", old, "--new", new, "--execute")
    assert done.code == 2
    assert "same theme" in done.err
    assert database.texts() == {"one"}


@pytest.mark.parametrize("new", ["", " ", "_doctor", "whatsapp-dm", "external-group"])
def test_remap_goes_only_where_a_person_may_write(database: Database, new: str) -> None:
    database.add("one")
    assert database("remap", "--old", "alpha", "--new", new, "--execute").code == 2


def test_many_equal_memories_need_force_in_a_dry_run_too(database: Database) -> None:
    texts = [f"fact number {number}" for number in range(11)]
    database.add(*texts)
    database.add(*texts, theme="beta")
    refused = database("remap", "--old", "alpha", "--new", "beta")
    assert refused.code == 1
    assert "--force" in refused.err
    assert database("remap", "--old", "alpha", "--new", "beta", "--execute").code == 1
    assert database("remap", "--old", "alpha", "--new", "beta", "--execute", "--force").code == 0


CONTACT = "agent:main:telegram:dm:4711"


def test_rows_written_under_a_contacts_raw_identity_become_that_contacts(database: Database) -> None:
    from hermes_mnemosyne.identity import subject_of

    database.add("likes tea", theme=CONTACT)
    assert database("remap", "--old", CONTACT, "--new", "whatsapp-dm", "--execute").code == 0
    with database.memory() as memory:
        subject = subject_of("whatsapp-dm", {"gateway_session_key": CONTACT}, memory.engine.key)
    [(theme, found)] = database.asked(
        "SELECT s.theme, s.subject FROM mnemosyne.entries AS e JOIN mnemosyne.scopes AS s ON s.id = e.scope"
    )
    assert (theme, found) == ("whatsapp-dm", subject)
    assert "4711" not in str(database.log())


def test_rows_of_a_bucket_without_a_contact_can_be_given_to_one_and_those_of_others_stay(database: Database) -> None:
    database.add("of one", theme=CONTACT)
    database("remap", "--old", CONTACT, "--new", "whatsapp-dm", "--execute")
    with database.memory("whatsapp-dm") as memory:
        op = memory.make(CaptureTurns, session_id="s", turns=(turn("of nobody known"),))
        memory.engine.store.apply([op])
    moved = database("remap", "--old", "whatsapp-dm", "--new", "agent:main:telegram:dm:99", "--execute", "--json").json
    assert (moved["memory_entries"]["moved"], moved["conversations"]["moved"]) == (0, 1)
    back = database("remap", "--old", CONTACT, "--new", "family", "--execute", "--json").json
    assert back["memory_entries"]["moved"] == 1


# -- backfill, reembed, maintain -------------------------------------------------------------------------------------------------


def embedder(url: str) -> tuple[str, ...]:
    return "--embed-url", url, "--embed-model", "toy", "--embed-protocol", "openai", "--embed-dim", "768"


@pytest.fixture
def with_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNEMOSYNE_EMBEDDER")


@pytest.mark.usefixtures("with_endpoint")
def test_backfill_embeds_the_rows_of_one_table_and_logs_each(database: Database, embed_url: str) -> None:
    database.add("one", "two")
    database.say("three")
    done = database("backfill", "--tables", "memory_entries", *embedder(embed_url), "--batch-size", "1", "--json")
    assert done.code == 0, done.err
    assert done.json["memory_entries"] == {"processed": 2, "succeeded": 2, "failed": 0, "remaining": 0, "unembeddable": 0}
    assert "conversations" not in done.json
    assert database.asked("SELECT count(*) FROM mnemosyne.vectors") == [(2,)]
    database("backfill", *embedder(embed_url))
    assert [row[:4] for row in database.log()] == [
        ("backfill", "memory_entries", None, 2), ("backfill", "memory_entries", None, 0), ("backfill", "conversations", None, 1),
    ]  # fmt: skip


@pytest.mark.usefixtures("with_endpoint")
def test_backfill_that_cannot_reach_the_endpoint_fails_and_logs_nothing(database: Database) -> None:
    database.add("one")
    done = database("backfill", *embedder("http://127.0.0.1:9"))
    assert done.code == 1
    assert database.log() == []


@pytest.mark.usefixtures("with_endpoint")
def test_a_dry_backfill_ends_well_without_an_endpoint(database: Database) -> None:
    database.add("one")
    assert database("backfill", "--dry-run", *embedder("http://127.0.0.1:9")).code == 0


@pytest.mark.usefixtures("with_endpoint")
def test_reembed_changes_the_dimension_of_the_store(database: Database) -> None:
    from tests.integration.embedding_server import EmbeddingServer

    database.add("one", "two")
    for dimension in (768, 384):
        with EmbeddingServer(dimension=dimension) as server:
            options = ("--embed-url", server.url, "--embed-protocol", "openai", "--embed-dim", str(dimension))
            done = database("reembed", "--admin-dsn", database.admin_dsn, "--embed-model", f"toy-{dimension}", *options)
            assert done.code == 0, done.err
    assert database.asked("SELECT value FROM mnemosyne.meta WHERE key = 'embed_dim'") == [("384",)]
    assert database.asked("SELECT dimension FROM mnemosyne.vector_models WHERE active") == [(384,)]


@pytest.mark.parametrize("command", [("migrate",), ("maintain",), ("reembed",), ("migrate", "--dry-run"), ("migrate", "--back")])
@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("", "--admin-dsn"),
        ("  ", "--admin-dsn"),
        ("memory.db", "dsn"),
        ("postgresql://a:p@s3cret@h/d", "%40"),
        ("PASSWORD=s3cret", "dsn"),
    ],
)
def test_an_administrators_dsn_that_names_nothing_is_refused_before_anything_is_done(
    database: Database, command: tuple[str, ...], named: str, told: str
) -> None:
    done = database(command[0], *command[1:], "--admin-dsn", named)
    assert done.code == 2
    assert told in done.err
    assert "s3cret" not in done.err


def test_maintain_says_what_it_does_and_that_nothing_is_left(database: Database) -> None:
    assert run("maintain", "--admin-dsn", database.admin_dsn, "--dry-run").code == 0
    assert run("maintain", "--admin-dsn", database.admin_dsn, "--json").json == {"dry_run": False, "steps": []}


def test_maintain_clears_away_what_was_forgotten(database: Database) -> None:
    database.add("The canary of the lighthouse")
    assert database("cleanup", "--identities", "alpha", "--execute").code == 0
    pending = "SELECT value FROM mnemosyne.meta WHERE key = 'erasures_pending'"
    assert database.asked(pending) == [("1",)]
    done = run("maintain", "--admin-dsn", database.admin_dsn, "--dry-run", "--json")
    assert done.code == 0, done.err
    planned = done.json["steps"]
    assert {"action": "vacuum", "index": "entries", "theme": "", "rows": 0} in planned
    assert database.asked(pending) == [("1",)]
    executed = run("maintain", "--admin-dsn", database.admin_dsn, "--json")
    assert executed.code == 0, executed.err
    assert executed.json["steps"] == planned
    assert database.asked(pending) == [("0",)]
    assert run("maintain", "--admin-dsn", database.admin_dsn, "--json").json["steps"] == []


# -- migrate ---------------------------------------------------------------------------------------------------------------------


def test_migrate_lays_down_the_schema_once(bare_postgres: PgDatabase) -> None:
    migrate = ("migrate", "--admin-dsn", bare_postgres.admin_dsn, "--json")
    first = run(*migrate)
    assert first.code == 0, first.err
    assert first.json["applied"][0] == "0001_schema.sql"
    assert run(*migrate).json["applied"] == []
    Database(bare_postgres).add("one")
    assert Database(bare_postgres).texts() == {"one"}


def test_a_dry_migration_prints_a_script_and_changes_nothing(bare_postgres: PgDatabase) -> None:
    import psycopg

    script = run("migrate", "--admin-dsn", bare_postgres.admin_dsn, "--dry-run").out
    database = Database(bare_postgres)
    assert database.asked("SELECT count(*) FROM pg_namespace WHERE nspname = 'mnemosyne'") == [(0,)]
    with psycopg.connect(bare_postgres.admin_dsn, autocommit=True) as db:
        db.execute(script.encode())
    database.add("one")
    assert run("migrate", "--admin-dsn", bare_postgres.admin_dsn, "--json").json["applied"] == []


def test_a_command_before_the_migration_names_it(bare_postgres: PgDatabase) -> None:
    done = run("prune", "--days", "3", "--dsn", bare_postgres.dsn)
    assert done.code == 1
    assert "hermes-pgvector migrate" in done.err


# -- stats -----------------------------------------------------------------------------------------------------------------------


def test_stats_tell_of_tables_and_of_everyone_who_was_seen(database: Database) -> None:
    database.add("one", "two")
    database.say("three")
    found = database("stats", "--json").json["database"]
    assert found["tables"]["memory_entries"] == {"rows": 2, "pending": 2, "unembeddable": 0}
    assert found["agents"] == [{"kind": "theme", "theme": "alpha", "memory_entries": 2, "conversations": 1}]
    said = database("stats").out
    assert "memory_entries: 2 rows, 2 wait for a vector" in said
    assert "conversations:  1 rows" in said
    assert "alpha  theme  2  1" in said


def test_stats_of_a_database_that_is_away_end_with_one_and_tell_of_the_spool(database: Database) -> None:
    away = "host=/nowhere dbname=gone connect_timeout=1"
    assert run("spool", "--dsn", away).code == 0
    done = run("stats", "--dsn", away)
    assert done.code == 1
    assert "unverified" in done.out
    assert "0 waiting" in done.out
    text = run("stats", "--prometheus", "--dsn", away)
    assert text.code == 1
    assert "mnemosyne_up 0.0" in text.out
    assert "mnemosyne_up 1.0" in database("stats", "--prometheus").out


# -- adopted databases -----------------------------------------------------------------------------------------------------------

OLD_TABLES = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE memory_entries (id bigserial PRIMARY KEY, agent_identity text NOT NULL DEFAULT 'default', target text NOT NULL,
    content text NOT NULL, embedding vector(768), created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(), metadata jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT memory_entries_unique UNIQUE (agent_identity, target, content));
CREATE TABLE conversations (id bigserial PRIMARY KEY, session_id text NOT NULL, agent_identity text NOT NULL DEFAULT 'default',
    role text NOT NULL, content text NOT NULL, ts timestamptz NOT NULL DEFAULT now(), embedding vector(768),
    metadata jsonb NOT NULL DEFAULT '{}');
INSERT INTO memory_entries (agent_identity, target, content) VALUES
    ('Sales', 'memory', 'the price is high'), ('Sales', 'memory', 'both know this'), ('trade', 'memory', 'both know this');
INSERT INTO conversations (session_id, agent_identity, role, content) VALUES ('s', 'Sales', 'user', 'how high is the price?');
"""


@pytest.fixture
def adopted(bare_postgres: PgDatabase) -> Database:
    """A database of the older package, taken over; its tables are still there."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    role = conninfo_to_dict(bare_postgres.dsn)["user"]
    with psycopg.connect(bare_postgres.admin_dsn, autocommit=True) as db:
        db.execute(OLD_TABLES)
        db.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON memory_entries, conversations TO {role}".encode())
    done = run("migrate", "--admin-dsn", bare_postgres.admin_dsn, "--runtime-role", str(role), "--json")
    assert done.code == 0, done.err
    assert done.json["adopted"]["memory_entries"]["added"] == 3
    return Database(bare_postgres)


@pytest.mark.usefixtures("with_endpoint")
@pytest.mark.parametrize("endpoint", ["same", "other", "absent"])
def test_migrate_takes_over_old_vectors_that_the_configured_model_makes_too(
    bare_postgres: PgDatabase, home: Path, endpoint: str
) -> None:
    import psycopg

    with EmbeddingServer(dimension=768) as server, psycopg.connect(bare_postgres.admin_dsn, autocommit=True) as db:
        db.execute(OLD_TABLES)
        for table in (b"memory_entries", b"conversations"):
            for number, content in db.execute(b"SELECT id, content FROM " + table).fetchall():
                made = vector_of(content if endpoint != "other" else content[::-1], 768)
                db.execute(b"UPDATE " + table + b" SET embedding = %s::vector WHERE id = %s", (str(made), number))
        section = {"embed_url": server.url if endpoint != "absent" else "http://127.0.0.1:9", "embed_model": "toy"}
        (home / ".hermes").mkdir()
        (home / ".hermes" / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}), encoding="utf-8")
        done = run("migrate", "--admin-dsn", bare_postgres.admin_dsn, "--runtime-role", "mnemosyne_absent", "--json")
        again = run("migrate", "--admin-dsn", bare_postgres.admin_dsn, "--runtime-role", "mnemosyne_absent")
    assert done.code == again.code == 0, done.err
    taken = 4 if endpoint == "same" else 0
    assert done.json["vectors"] == taken
    assert Database(bare_postgres).asked("SELECT count(*) FROM mnemosyne.vectors") == [(taken,)]
    why = {"same": "", "other": "embedded anew", "absent": "not taken over"}[endpoint]
    assert why in " ".join(done.json["notes"])
    assert why in again.out


def test_a_remap_reaches_the_old_tables_of_an_adopted_database_too(adopted: Database) -> None:
    before = adopted.asked("SELECT count(*) FROM mnemosyne.tombstones")
    done = adopted("remap", "--old", "sales", "--new", "trade", "--execute", "--json")
    assert done.code == 0, done.err
    assert done.json["memory_entries"] == {"moved": 1, "dropped_duplicates": 1}
    old = adopted.asked("SELECT agent_identity, content FROM memory_entries ORDER BY content")
    assert old == [("trade", "both know this"), ("trade", "the price is high")]
    assert adopted.asked("SELECT agent_identity FROM conversations") == [("trade",)]
    assert adopted.asked("SELECT count(*) FROM mnemosyne.forwarded") == [(0,)]
    assert adopted.asked("SELECT count(*) FROM mnemosyne.tombstones") == before
    with adopted.memory("trade") as memory:
        assert {row.content for row in memory.list(themes=("trade",))} == {"both know this", "the price is high"}
        [row] = [row for row in memory.list(themes=("trade",)) if "price" in row.content]
        memory.forget(row.uid)
    assert [text for (_, text) in adopted.asked("SELECT agent_identity, content FROM memory_entries")] == ["both know this"]


def test_what_an_old_writer_does_after_a_remap_finds_the_moved_row(adopted: Database) -> None:
    adopted("remap", "--old", "sales", "--new", "trade", "--execute")
    import psycopg

    with psycopg.connect(adopted.admin_dsn, autocommit=True) as db:
        db.execute(
            "UPDATE memory_entries SET content = 'the price is low', updated_at = now() WHERE content = 'the price is high'"
        )
    with adopted.memory("trade") as memory:
        memory.engine.store.upkeep(seconds=5)
        assert {row.content for row in memory.list(themes=("trade",))} == {"both know this", "the price is low"}


def test_old_tables_are_dropped_and_given_back_only_when_told_to(adopted: Database) -> None:
    adopted.add("new here", theme="trade")
    back = run("migrate", "--admin-dsn", adopted.admin_dsn, "--back", "--json")
    assert back.code == 0, back.err
    assert back.json["entries"] == 1
    assert adopted.asked("SELECT count(*) FROM memory_entries") == [(4,)]
    finished = run("migrate", "--admin-dsn", adopted.admin_dsn, "--finish", "--json", "--runtime-role", "mnemosyne_absent")
    assert finished.code == 0, finished.err
    assert "memory_entries" in finished.json["dropped"]
    assert adopted.asked("SELECT relkind::text FROM pg_class WHERE relname = 'memory_entries'") == [("v",)]
    assert adopted.asked("SELECT count(*) FROM memory_entries") == [(4,)]


# -- settings and doors ----------------------------------------------------------------------------------------------------------


def test_the_database_is_read_from_the_hosts_configuration(database: Database, home: Path) -> None:
    (home / ".hermes").mkdir()
    section = {"plugins": {"pgvector": {"dsn": database.dsn}}}
    (home / ".hermes" / "config.yaml").write_text(json.dumps(section), encoding="utf-8")
    database.add("one")
    done = run("stats", "--json")
    assert done.code == 0, done.err
    assert done.json["themes"] == {"alpha": {"entries": 1, "turns": 0}}


@pytest.mark.parametrize("text", [None, "plugins: [", "- a list"])
def test_a_configuration_that_cannot_be_read_is_an_error(tmp_path: Path, text: str | None) -> None:
    config = tmp_path / "config.yaml"
    if text is not None:
        config.write_text(text, encoding="utf-8")
    done = run("stats", "--config", str(config))
    assert done.code == 2
    assert str(config) in done.err


def test_the_module_and_the_other_command_do_the_same(database: Database) -> None:
    database.say("said long ago", at=OLD)
    arguments = ["prune", "--days", "30", "--json"]
    command = [sys.executable, "-m", "hermes_mnemosyne.pgvector", *arguments, "--dsn", database.dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == mnemosyne(*arguments, "--db", database.dsn).json


@pytest.mark.parametrize(
    "command", ["prune --days 3", "cleanup --identities a", "remap --old a --new b", "backfill --tables conversations"]
)
def test_a_file_is_no_place_for_these_commands(command: str, tmp_path: Path) -> None:
    mnemosyne("--db", str(tmp_path / "m.db"), "remember", "one")
    done = mnemosyne("--db", str(tmp_path / "m.db"), *command.split())
    assert done.code == 2
    assert "Postgres" in done.err


def test_usage_errors_end_with_two_and_an_unknown_database_with_one(new_postgres: Callable[..., PgDatabase]) -> None:
    assert run().code == 2
    assert run("remap", "--old", "a").code == 2
    dsn = new_postgres().dsn
    gone = run("prune", "--days", "3", "--dsn", dsn.replace("dbname=mnemosyne_test", "dbname=gone"))
    assert gone.code == 1


# -- encodings and names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused(bare_postgres: PgDatabase, encoding: str) -> None:
    import psycopg
    from psycopg.conninfo import make_conninfo

    name = f"{bare_postgres.name}_{encoding.lower()}"
    with psycopg.connect(bare_postgres.admin_dsn, autocommit=True) as db:
        db.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0".encode()
        )
        try:
            done = run("migrate", "--admin-dsn", make_conninfo(bare_postgres.admin_dsn, dbname=name))
        finally:
            db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    assert done.code == 2
    assert f"has the encoding {encoding}" in done.err
    assert "ENCODING 'UTF8'" in done.err


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_what_a_client_is_set_to_changes_no_text(database: Database, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    database.add("emoji 🎉 日本語")
    again = run("migrate", "--admin-dsn", database.admin_dsn, "--runtime-role", "mnemosyne_absent", "--json")
    monkeypatch.delenv("PGCLIENTENCODING")
    assert database.texts() == {"emoji 🎉 日本語"}
    assert again.code == 0, again.err


@pytest.mark.parametrize("command", [("--dry-run",), ()])
def test_a_role_with_a_line_break_is_refused(bare_postgres: PgDatabase, command: tuple[str, ...]) -> None:
    role = "x\nCREATE TABLE public.evil (a int);--"
    done = run("migrate", "--admin-dsn", bare_postgres.admin_dsn, "--runtime-role", role, *command)
    assert (done.code, done.out) == (2, "")
    assert "control characters" in done.err
