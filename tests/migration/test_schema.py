"""`migrate` lays the schema down once, by whom it may, and says what it would do."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_mnemosyne._errors import InvalidInput, SchemaMismatch, SchemaNotApplied, StoreUnavailable
from hermes_mnemosyne.store.postgres import ledger, schema
from hermes_mnemosyne.store.postgres.migrate import Report, migrate
from tests.migration.world import sql
from tests.postgres.databases import Databases, PgDatabase
from tests.postgres.fixtures import RUNTIME_ROLE
from tests.postgres.server import binaries

ALL = tuple(migration.name for migration in schema.migrations())
_SHAPE = """
SELECT 'column', table_schema, table_name, column_name, ordinal_position::text, udt_name, collation_name, is_nullable, column_default
FROM information_schema.columns WHERE table_schema IN ('mnemosyne', 'public')
UNION ALL SELECT 'index', schemaname, tablename, indexname, indexdef, '', '', '', '' FROM pg_indexes WHERE schemaname = 'mnemosyne'
UNION ALL SELECT 'function', '', p.proname, pg_get_functiondef(p.oid), '', '', '', coalesce(p.proacl::text, ''), ''
    FROM pg_proc AS p WHERE p.pronamespace = 'mnemosyne'::regnamespace
UNION ALL SELECT 'view', schemaname, viewname, definition, '', '', '', '', '' FROM pg_views WHERE schemaname = 'public'
UNION ALL SELECT 'relation', n.nspname, c.relname, c.relkind::text, coalesce(c.relacl::text, ''), coalesce(c.reloptions::text, ''), '', '', ''
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname IN ('mnemosyne', 'public')
UNION ALL SELECT 'constraint', '', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', '', '', '' FROM pg_constraint
    WHERE connamespace = 'mnemosyne'::regnamespace
UNION ALL SELECT 'trigger', '', tgrelid::regclass::text, pg_get_triggerdef(oid), '', '', '', '', '' FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'defaults', '', defaclobjtype::text, defaclacl::text, '', '', '', '', '' FROM pg_default_acl
UNION ALL SELECT 'meta', '', key, CASE WHEN key = 'replica' THEN length(value)::text ELSE value END, '', '', '', '', '' FROM mnemosyne.meta
UNION ALL SELECT 'ledger', '', number::text, name, checksum, state, release, '', '' FROM mnemosyne.migrations
"""


def shape(dsn: str) -> list[tuple[Any, ...]]:
    """Return all that makes a database what it is, but for times and the replica's id."""
    return sorted(sql(dsn, _SHAPE), key=str)


def psql(dsn: str, script: Path) -> None:
    program = shutil.which("psql") or str(binaries() / "psql")
    done = subprocess.run(
        [program, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script, dsn], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_empty_database_gets_every_migration_and_the_second_run_finds_nothing_to_do(bare_postgres: PgDatabase) -> None:
    assert migrate(bare_postgres.admin_dsn, runtime_role=RUNTIME_ROLE).applied == ALL
    before = shape(bare_postgres.admin_dsn)
    assert migrate(bare_postgres.admin_dsn, runtime_role=RUNTIME_ROLE).applied == ()
    assert shape(bare_postgres.admin_dsn) == before
    with psycopg.connect(bare_postgres.dsn) as db:
        ledger.verify(db)


@pytest.mark.parametrize("partitions", [0, 3])
def test_a_dry_run_prints_sql_that_leaves_the_database_as_the_real_run_does(
    postgres_server: Databases, tmp_path: Path, partitions: int
) -> None:
    real, printed = postgres_server.empty(), postgres_server.empty()
    report = migrate(printed.admin_dsn, runtime_role=RUNTIME_ROLE, partitions=partitions, dry_run=True)
    assert sql(printed.admin_dsn, "SELECT to_regnamespace('mnemosyne')") == [(None,)]
    (tmp_path / "all.sql").write_text(report.sql, encoding="utf-8")
    psql(printed.admin_dsn, tmp_path / "all.sql")
    migrate(real.admin_dsn, runtime_role=RUNTIME_ROLE, partitions=partitions)
    assert shape(printed.admin_dsn) == shape(real.admin_dsn)
    with psycopg.connect(printed.dsn) as db:
        ledger.verify(db)
    assert migrate(printed.admin_dsn, runtime_role=RUNTIME_ROLE).applied == ()
    for database in (real, printed):
        postgres_server.drop(database.name)


def _migrate(dsn: str) -> Report:
    return migrate(dsn, runtime_role=RUNTIME_ROLE)


def test_hosts_that_migrate_at_once_apply_each_migration_once(bare_postgres: PgDatabase) -> None:
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        reports = list(pool.map(_migrate, [bare_postgres.admin_dsn] * 6))
    assert sorted(report.applied for report in reports) == [()] * 5 + [ALL]


def test_a_missing_role_leaves_out_the_grants_only_and_they_can_be_run_later(bare_postgres: PgDatabase) -> None:
    report = migrate(bare_postgres.admin_dsn, runtime_role="no one yet")
    assert report.applied == ALL
    assert any("does not exist" in note for note in report.notes)
    assert all('"no one yet"' in statement for statement in report.grants)
    with psycopg.connect(bare_postgres.dsn) as db, pytest.raises(SchemaNotApplied, match=f"--runtime-role {RUNTIME_ROLE}"):
        ledger.verify(db)
    for statement in report.grants:
        sql(bare_postgres.admin_dsn, statement.replace('"no one yet"', RUNTIME_ROLE))
    with psycopg.connect(bare_postgres.dsn) as db:
        ledger.verify(db)


def test_the_runtime_role_reads_and_writes_rows_and_changes_no_schema(postgres: PgDatabase) -> None:
    sql(postgres.dsn, "INSERT INTO mnemosyne.meta VALUES ('a', 'b')")
    for statement in (
        "CREATE TABLE mnemosyne.mine (id int)",
        "ALTER TABLE mnemosyne.entries ADD COLUMN mine int",
        "DROP TABLE mnemosyne.entries",
        "UPDATE mnemosyne.migrations SET checksum = ''",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            sql(postgres.dsn, statement)
    with pytest.raises(InvalidInput, match="both hermes"):
        migrate(postgres.dsn, runtime_role=RUNTIME_ROLE)


def test_tables_of_later_migrations_are_the_runtime_roles_too(postgres: PgDatabase) -> None:
    sql(postgres.admin_dsn, "CREATE TABLE mnemosyne.later (id bigint GENERATED ALWAYS AS IDENTITY)")
    sql(postgres.dsn, "INSERT INTO mnemosyne.later DEFAULT VALUES")
    assert sql(postgres.dsn, "SELECT id FROM mnemosyne.later") == [(1,)]


def test_run_time_names_the_command_when_the_schema_is_missing_or_old(bare_postgres: PgDatabase) -> None:
    with (
        psycopg.connect(bare_postgres.dsn) as db,
        pytest.raises(SchemaNotApplied, match="hermes-pgvector migrate --admin-dsn DSN"),
    ):
        ledger.verify(db)
    migrate(bare_postgres.admin_dsn, runtime_role=RUNTIME_ROLE)
    sql(bare_postgres.admin_dsn, "DELETE FROM mnemosyne.migrations WHERE number = %s", schema.newest())
    with psycopg.connect(bare_postgres.dsn) as db, pytest.raises(SchemaNotApplied, match=ALL[-1]):
        ledger.verify(db)


def test_a_schema_that_only_a_newer_release_may_write_is_refused(postgres: PgDatabase) -> None:
    newer = schema.newest() + 1
    sql(postgres.admin_dsn, "INSERT INTO mnemosyne.migrations VALUES (%s, '0009_new.sql', 'x', %s, 'done', '', '9.9')", newer, 1)
    with psycopg.connect(postgres.dsn) as db:
        ledger.verify(db)
    sql(postgres.admin_dsn, "UPDATE mnemosyne.migrations SET oldest_writer = %s WHERE number = %s", newer, newer)
    with psycopg.connect(postgres.dsn) as db, pytest.raises(SchemaMismatch, match=r"release 9\.9"):
        ledger.verify(db)
    with pytest.raises(SchemaMismatch):
        migrate(postgres.admin_dsn, runtime_role=RUNTIME_ROLE)


def test_a_migration_that_was_changed_after_it_was_applied_is_refused(postgres: PgDatabase) -> None:
    sql(postgres.admin_dsn, "UPDATE mnemosyne.migrations SET checksum = 'other' WHERE number = 1")
    with psycopg.connect(postgres.dsn) as db, pytest.raises(SchemaMismatch, match=ALL[0]):
        ledger.verify(db)
    with pytest.raises(SchemaMismatch, match=ALL[0]):
        migrate(postgres.admin_dsn, runtime_role=RUNTIME_ROLE)


@pytest.mark.parametrize(("wishes", "remedy"), [({"embed_dim": 5}, "reembed"), ({"partitions": 4}, "partitions")])
def test_what_a_store_was_made_with_is_not_changed_by_a_second_migrate(
    postgres: PgDatabase, wishes: dict[str, int], remedy: str
) -> None:
    with pytest.raises(InvalidInput, match=remedy):
        migrate(postgres.admin_dsn, runtime_role=RUNTIME_ROLE, **wishes)  # type: ignore[arg-type]


@pytest.mark.parametrize("wishes", [{"embed_dim": 0}, {"embed_dim": 16_001}, {"partitions": -1}, {"runtime_role": " "}])
def test_impossible_wishes_are_refused_before_anything_is_done(bare_postgres: PgDatabase, wishes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        migrate(bare_postgres.admin_dsn, **wishes)
    assert sql(bare_postgres.admin_dsn, "SELECT to_regnamespace('mnemosyne')") == [(None,)]


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with pytest.raises(StoreUnavailable) as raised:
        migrate("host=127.0.0.1 port=1 user=u password=hunter2 connect_timeout=2")
    assert "hunter2" not in str(raised.value)


def test_whoever_may_not_change_the_schema_is_told_so(bare_postgres: PgDatabase) -> None:
    with pytest.raises(StoreUnavailable, match="--admin-dsn"):
        migrate(bare_postgres.dsn, runtime_role="another")
    assert sql(bare_postgres.admin_dsn, "SELECT to_regnamespace('mnemosyne')") == [(None,)]


def test_a_relation_of_somebody_else_keeps_its_name(bare_postgres: PgDatabase) -> None:
    sql(bare_postgres.admin_dsn, "CREATE TABLE conversations (id int, topic text)")
    report = migrate(bare_postgres.admin_dsn, runtime_role=RUNTIME_ROLE)
    assert any("conversations" in note for note in report.notes)
    assert sql(bare_postgres.admin_dsn, "SELECT count(*) FROM conversations") == [(0,)]
    assert sql(bare_postgres.dsn, "SELECT count(*) FROM memory_entries") == [(0,)]
