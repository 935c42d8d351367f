"""The servers and databases that other tests rely on."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.postgres.databases import Databases, PgDatabase, Pool
from tests.postgres.proxy import Proxy
from tests.postgres.server import PrivateServer


def count(dsn: str, table: str = "mnemosyne.aliases") -> int:
    with psycopg.connect(dsn) as db:
        found = db.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert found
        return int(found[0])


ADD = "INSERT INTO mnemosyne.aliases VALUES (%s, 'b', 1, '', 1)"


def test_the_runtime_role_may_change_rows_and_nothing_else(postgres: PgDatabase) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as db:
        db.execute(ADD, ("a",))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("CREATE TABLE mnemosyne.more (id integer)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("DROP TABLE mnemosyne.aliases")
    assert count(postgres.admin_dsn) == 1


def test_each_database_is_empty_and_has_its_own_replica_id(new_postgres: Callable[..., PgDatabase]) -> None:
    ids = set()
    for partitions in (0, 0, 4, 4):
        made = new_postgres(partitions)
        assert count(made.dsn) == 0
        with psycopg.connect(made.dsn) as db:
            ids.add(db.execute("SELECT value FROM mnemosyne.meta WHERE key = 'replica'").fetchone())
            parts = db.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'mnemosyne.entries'::regclass").fetchone()
            assert parts == (partitions,)
    assert len(ids) == 4


@pytest.mark.parametrize("partitions", [0, 4])
def test_a_pooled_database_comes_back_as_it_was_made(postgres_server: Databases, partitions: int) -> None:
    pool = Pool(postgres_server, partitions)
    first = pool.take()
    with psycopg.connect(first.admin_dsn) as db:
        before = db.execute("SELECT seq, clock FROM mnemosyne.sequence").fetchone()
        assert before
        tables = [
            name for (name,) in db.execute("SELECT oid::regclass::text FROM pg_class WHERE relname IN ('meta', 'migrations')")
        ]
        kept = {name: db.execute(f"SELECT count(*) FROM {name}").fetchone() for name in tables}
        db.execute("UPDATE mnemosyne.sequence SET seq = 7, clock = 'x'")
        db.execute("DELETE FROM mnemosyne.meta")
        db.execute("INSERT INTO mnemosyne.scopes (theme, folded, subject) VALUES ('a', 'a', '')")
        db.execute(
            "INSERT INTO mnemosyne.history SELECT 1, i::text, repeat('a', 9), '', '', '', '' FROM generate_series(1, 9000) AS i"
        )
        db.execute("INSERT INTO mnemosyne.vector_models (key, name, dimension) VALUES ('a', 'a', 3)")
        db.execute("INSERT INTO mnemosyne.missing_vectors SELECT id, 1, NULL, NULL FROM mnemosyne.vector_models")
        db.execute(ADD, ("a",))
    pool.give_back(first)
    second = pool.take()
    assert second == first
    with psycopg.connect(second.admin_dsn) as db:
        assert db.execute("SELECT seq, clock FROM mnemosyne.sequence").fetchone() == before
        assert {name: db.execute(f"SELECT count(*) FROM {name}").fetchone() for name in tables} == kept
        for table in ("scopes", "history", "aliases", "vector_models", "missing_vectors"):
            assert db.execute(f"SELECT count(*) FROM mnemosyne.{table}").fetchone() == (0,)
        made = db.execute("INSERT INTO mnemosyne.scopes (theme, folded, subject) VALUES ('a', 'a', '') RETURNING id").fetchone()
        assert made == (1,)
    pool.close()


def test_a_pooled_database_whose_schema_was_changed_is_not_used_again(postgres_server: Databases) -> None:
    pool = Pool(postgres_server)
    first = pool.take()
    with psycopg.connect(first.admin_dsn) as db:
        db.execute("CREATE INDEX more ON mnemosyne.aliases (clock)")
    pool.give_back(first)
    assert pool.take() != first
    pool.close()


def test_what_was_committed_survives_the_kill_of_a_private_server(private_server: PrivateServer) -> None:
    with private_server.connect() as db:
        db.execute("CREATE TABLE kept (id integer)")
        db.execute("INSERT INTO kept VALUES (1)")
        private_server.kill()
        with pytest.raises(psycopg.OperationalError):
            db.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        private_server.connect()
    private_server.start()
    assert count(private_server.dsn(), "kept") == 1
    private_server.restart("immediate")
    assert count(private_server.dsn(), "kept") == 1


def test_a_frozen_server_answers_nobody_until_it_is_resumed(private_server: PrivateServer) -> None:
    private_server.freeze()
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        psycopg.connect(private_server.dsn(), connect_timeout=2)
    private_server.resume()
    assert count(private_server.dsn(), "pg_am") > 0


def test_a_role_of_a_private_server_can_be_asked_for_its_password(
    private_server: PrivateServer, private_postgres: PgDatabase
) -> None:
    assert count(private_postgres.dsn) == 0
    with private_server.connect() as db:
        db.execute("ALTER ROLE hermes PASSWORD 'right'")
    private_server.ask_password("hermes")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(private_postgres.dsn, password="wrong")
    psycopg.connect(private_postgres.dsn, password="right").close()


def test_a_proxy_forwards_hangs_cuts_and_refuses(private_server: PrivateServer, proxy: Proxy) -> None:
    through = proxy.dsn(f"{private_server.dsn()} connect_timeout=2")
    with psycopg.connect(through) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)
        assert (proxy.accepted, proxy.open) == (1, 1)
        proxy.hang()
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            psycopg.connect(through)
        proxy.flow()
        assert db.execute("SELECT 2").fetchone() == (2,)
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            db.execute("SELECT 1")
    proxy.refuse()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(through)
    proxy.accept()
    private_server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(through)
    private_server.start()
    psycopg.connect(through).close()
