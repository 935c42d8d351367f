"""What a store's connections do when the server is idle, stormed, restarted, frozen, refusing, or shut by a password."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from hermes_mnemosyne._errors import SchemaMismatch, SchemaNotApplied, StoreBusy, StoreError, StoreFull, StoreUnavailable
from hermes_mnemosyne.store.postgres.connections import WRITE_LOCK, Connections, PostgresOptions
from tests.postgres.databases import PgDatabase
from tests.postgres.proxy import Proxy
from tests.postgres.server import PrivateServer

QUICK = PostgresOptions(busy_timeout=2.0, connect_timeout=1.0, statement_timeout=0.5)
Connect = Callable[..., Connections]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes connections that are closed when the test ends."""
    with ExitStack() as stack:

        def new(dsn: str, options: PostgresOptions = QUICK) -> Connections:
            made = Connections(dsn, options)
            stack.callback(made.close)
            return made

        yield new


def one(connections: Connections) -> Any:
    with connections.reading() as db:
        return db.execute("SELECT 1").fetchone()[0]


def backends(database: PgDatabase) -> int:
    """Return how many connections the runtime role has to the database."""
    with psycopg.connect(database.admin_dsn, autocommit=True) as admin:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'mnemosyne'"
        return int(admin.execute(query).fetchone()[0])  # type: ignore[index]


def ends_with(expected: int, database: PgDatabase) -> bool:
    """Tell whether that many connections are left, giving the server and the pool some time."""
    with psycopg.connect(database.admin_dsn, autocommit=True) as admin:
        for _ in range(200):
            if backends(database) == expected:
                return True
            admin.execute("SELECT pg_sleep(0.05)")
    return False


def test_nothing_is_opened_before_it_is_needed(connect: Connect, postgres: PgDatabase) -> None:
    connect(postgres.dsn)
    assert backends(postgres) == 0


def test_an_idle_pool_holds_no_connection(connect: Connect, postgres: PgDatabase) -> None:
    connections = connect(postgres.dsn, PostgresOptions(pool_idle=0.2))
    one(connections)
    assert backends(postgres) == 1
    assert ends_with(0, postgres)
    assert one(connections) == 1


def test_a_closed_pool_holds_no_connection(connect: Connect, postgres: PgDatabase) -> None:
    connections = connect(postgres.dsn)
    one(connections)
    connections.close()
    assert ends_with(0, postgres)
    with pytest.raises(StoreUnavailable, match="closed"):
        one(connections)


def test_two_hundred_users_at_once_share_one_pool(connect: Connect, postgres: PgDatabase) -> None:
    users = [connect(postgres.dsn, PostgresOptions(busy_timeout=60.0)) for _ in range(200)]
    most = []

    def use(user: Connections) -> int:
        with user.reading() as db:
            most.append(backends(postgres))
            return int(db.execute("SELECT 1").fetchone()[0])

    with ThreadPoolExecutor(32) as pool:
        assert sum(pool.map(use, users)) == 200
    assert max(most) <= 4


def test_the_pool_lives_until_its_last_user_closes_it(connect: Connect, postgres: PgDatabase) -> None:
    first, second = connect(postgres.dsn), connect(postgres.dsn)
    one(first)
    first.close()
    assert one(second) == 1


def test_a_write_is_committed_or_leaves_no_trace(connect: Connect, postgres: PgDatabase) -> None:
    connections = connect(postgres.dsn)
    with connections.writing(1.0) as db:
        db.execute("INSERT INTO mnemosyne.meta VALUES ('kept', '1')")

    def fail() -> None:
        with connections.writing(1.0) as db:
            db.execute("INSERT INTO mnemosyne.meta VALUES ('dropped', '1')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with connections.reading() as db:
        assert db.execute("SELECT key FROM mnemosyne.meta WHERE key IN ('kept', 'dropped')").fetchall() == [("kept",)]


def test_there_is_one_writer_at_a_time_whatever_the_process(connect: Connect, postgres: PgDatabase) -> None:
    connections, others = connect(postgres.dsn), connect(postgres.dsn, PostgresOptions(busy_timeout=2.5))
    with connections.writing(1.0), pytest.raises(StoreBusy, match="another agent is writing"), others.writing(0.2):
        pass
    with connections.writing(1.0), pytest.raises(StoreBusy, match="another thread is writing"), connections.writing(0.05):
        pass


def test_a_statement_that_takes_too_long_is_busy(connect: Connect, postgres: PgDatabase) -> None:
    connections = connect(postgres.dsn)
    with pytest.raises(StoreBusy, match="statement_timeout"), connections.reading() as db:
        db.execute("SELECT pg_sleep(30)")
    assert one(connections) == 1


def test_a_database_without_the_schema_names_the_command(connect: Connect, bare_postgres: PgDatabase) -> None:
    with pytest.raises(SchemaNotApplied, match="hermes-pgvector migrate --admin-dsn"), connect(bare_postgres.dsn).reading():
        pass


def test_a_restarted_server_is_used_again_at_once(
    connect: Connect, private_server: PrivateServer, private_postgres: PgDatabase
) -> None:
    connections = connect(private_postgres.dsn)
    one(connections)
    private_server.stop()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            one(connections)
    private_server.start()
    recovered = connect(private_postgres.dsn, PostgresOptions(connect_timeout=1.5))
    assert one(recovered) == 1


def test_a_killed_server_is_unavailable_and_a_write_under_way_leaves_no_trace(
    connect: Connect, private_server: PrivateServer, private_postgres: PgDatabase
) -> None:
    connections = connect(private_postgres.dsn)

    def write() -> None:
        with connections.writing(1.0) as db:
            db.execute("INSERT INTO mnemosyne.meta VALUES ('lost', '1')")
            private_server.kill()
            db.execute("SELECT 1").fetchone()

    with pytest.raises(StoreUnavailable):
        write()
    private_server.start()
    with connect(private_postgres.dsn, PostgresOptions(connect_timeout=1.5)).reading() as db:
        assert db.execute("SELECT count(*) FROM mnemosyne.meta WHERE key = 'lost'").fetchone() == (0,)


def test_a_server_that_stops_answering_is_left_after_the_time_limit(
    connect: Connect, private_server: PrivateServer, private_postgres: PgDatabase
) -> None:
    connections = connect(private_postgres.dsn)
    one(connections)
    private_server.freeze()
    try:
        with pytest.raises(StoreUnavailable), connections.reading(limit=0.1) as db:
            db.execute("SELECT 1").fetchone()
        with pytest.raises(StoreUnavailable), connections.reading(limit=0.1):
            pass
    finally:
        private_server.resume()


def test_a_port_that_accepts_and_never_answers_is_unavailable(
    connect: Connect, proxy: Proxy, private_postgres: PgDatabase
) -> None:
    proxy.hang()
    with pytest.raises(StoreUnavailable):
        one(connect(proxy.dsn(private_postgres.dsn)))


def test_a_cut_connection_is_unavailable_and_the_next_one_is_made_anew(
    connect: Connect, proxy: Proxy, private_postgres: PgDatabase
) -> None:
    connections = connect(proxy.dsn(private_postgres.dsn))

    def read() -> None:
        with connections.reading() as db:
            proxy.cut()
            db.execute("SELECT 1").fetchone()

    with pytest.raises(StoreUnavailable):
        read()
    again = connect(proxy.dsn(private_postgres.dsn), PostgresOptions(connect_timeout=1.5))
    assert one(again) == 1


def test_while_a_server_is_away_it_is_not_asked_again_at_once(
    connect: Connect, proxy: Proxy, private_postgres: PgDatabase
) -> None:
    proxy.refuse()
    connections = connect(proxy.dsn(private_postgres.dsn))
    for _ in range(50):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            one(connections)
    assert connections.figures()["errors"] < 25
    assert "cannot be reached" in connections.problem


def test_no_error_shows_a_password(connect: Connect, private_server: PrivateServer, private_postgres: PgDatabase) -> None:
    private_server.ask_password("hermes")
    secret = "correct-horse-7731"
    connections = connect(psycopg.conninfo.make_conninfo(private_postgres.dsn, password=secret))
    with pytest.raises(StoreError) as caught:
        one(connections)
    shown = f"{caught.value} {caught.value.__cause__} {connections.name} {connections.problem}"
    assert secret not in shown


def test_a_server_that_is_read_only_is_unavailable(connect: Connect, postgres: PgDatabase) -> None:
    connections = connect(f"{postgres.dsn} options='-c default_transaction_read_only=on'")
    with pytest.raises(StoreUnavailable, match="read-only"), connections.writing(1.0) as db:
        db.execute("INSERT INTO mnemosyne.meta VALUES ('refused', '1')")
    assert one(connections) == 1


def test_a_server_that_may_be_written_again_is_written_at_once(connect: Connect, postgres: PgDatabase) -> None:
    connections = connect(postgres.dsn)
    one(connections)
    with psycopg.connect(postgres.admin_dsn, autocommit=True) as admin:
        setting = psycopg.sql.SQL("ALTER DATABASE {} SET default_transaction_read_only TO {}")
        admin.execute(setting.format(psycopg.sql.Identifier(postgres.name), psycopg.sql.Literal("on")))
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mnemosyne' AND datname = current_database()"
        )
    failing = connect(postgres.dsn, PostgresOptions(connect_timeout=1.5))
    with pytest.raises(StoreUnavailable, match="read-only"), failing.writing(1.0) as db:
        db.execute("INSERT INTO mnemosyne.meta VALUES ('refused', '1')")
    with psycopg.connect(f"{postgres.admin_dsn} options='-c default_transaction_read_only=off'", autocommit=True) as admin:
        admin.execute(
            psycopg.sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(psycopg.sql.Identifier(postgres.name))
        )

    def write() -> bool:
        try:
            with failing.writing(1.0) as db:
                db.execute("INSERT INTO mnemosyne.meta VALUES ('kept', '1')")
        except StoreUnavailable:
            return False
        return True

    # A session that the pool had opened before may still be read-only: each is left behind once it is met.
    assert any(write() for _ in range(5))


def test_a_disk_without_room_is_full(connect: Connect, postgres: PgDatabase) -> None:
    with pytest.raises(StoreFull, match="no room left"), connect(postgres.dsn).writing(1.0) as db:
        db.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'could not extend file'; END $$")


def test_a_forked_child_and_its_parent_each_go_on(connect: Connect, postgres: PgDatabase) -> None:
    connections = connect(postgres.dsn)
    one(connections)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if one(connections) == 1 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert one(connections) == 1


def test_readers_have_connections_while_many_stores_of_a_process_wait_to_write(connect: Connect, postgres: PgDatabase) -> None:
    stores = [connect(postgres.dsn) for _ in range(12)]

    def write(store: Connections) -> bool:
        try:
            with store.writing(0.7):
                return True
        except StoreBusy:
            return False

    with psycopg.connect(postgres.dsn) as other, ThreadPoolExecutor(len(stores)) as threads:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (WRITE_LOCK,))
        writes = [threads.submit(write, store) for store in stores]
        for _ in range(20):
            with stores[0].reading(wait=0.2) as db:
                assert db.execute("SELECT 1").fetchone() == (1,)
        assert not any(done.result() for done in writes)
    assert write(stores[0])


@pytest.mark.parametrize("way", ["writing", "changing"])
def test_whoever_writes_notices_that_a_newer_release_has_changed_the_schema(
    connect: Connect, postgres: PgDatabase, way: str
) -> None:
    connections = connect(postgres.dsn)
    with getattr(connections, way)(1.0) as db:
        db.execute("INSERT INTO mnemosyne.meta VALUES ('one', '1')")
    with psycopg.connect(postgres.admin_dsn) as admin:
        admin.execute("INSERT INTO mnemosyne.migrations VALUES (8000, 'new', '', 8000, 'done', '', 'newer')")
    with pytest.raises(SchemaMismatch), getattr(connections, way)(1.0) as db:
        db.execute("INSERT INTO mnemosyne.meta VALUES ('two', '2')")
    assert one(connections) == 1
