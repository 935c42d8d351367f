"""Postgres for tests: a server per machine, a database per test. Without a server such tests are skipped, and the reason is shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.postgres.databases import Databases, PgDatabase, Pool, prepare
from tests.postgres.proxy import Proxy
from tests.postgres.server import PrivateServer, SharedServer, Unavailable

RUNTIME_ROLE = "hermes"
_POOLS: dict[int, Pool] = {}


def _missing(reason: str) -> None:
    """Skip the test, or let it fail where a run must not leave anything out."""
    if os.environ.get("PG_TEST_REQUIRED"):
        pytest.fail(f"Postgres is required here: {reason}")
    pytest.skip(f"no Postgres: {reason}")


def _start() -> tuple[Databases, SharedServer | None]:
    given = os.environ.get("PG_TEST_DSN")
    try:
        import psycopg  # noqa: F401
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise Unavailable(str(error)) from error
    if given:
        # The roles of a server that is not ours are left alone.
        databases = Databases(given, "mnemosyne_test")
        databases.prepare(alone=False)
        return databases, None
    server = SharedServer()
    alone = server.join()
    databases = Databases(server.cluster.dsn(), RUNTIME_ROLE)
    databases.prepare(alone=alone)
    return databases, server


@pytest.fixture(scope="session")
def _postgres() -> Iterator[Databases | str]:
    """The databases of the server, or why there are none: a session's fixture that skips would be tried again by every test."""
    try:
        databases, server = _start()
    except Unavailable as error:
        yield str(error)
        return
    yield databases
    for pool in _POOLS.values():
        pool.close()
    _POOLS.clear()
    databases.close()
    if server is not None:
        server.leave()


@pytest.fixture
def postgres_server(_postgres: Databases | str) -> Databases:
    """The server, as one who makes databases on it."""
    if isinstance(_postgres, str):
        _missing(_postgres)
    assert isinstance(_postgres, Databases)
    return _postgres


@pytest.fixture
def postgres_pool(postgres_server: Databases) -> Callable[[int], Pool]:
    """Returns this worker's pool of databases with so many partitions."""

    def pool(partitions: int = 0) -> Pool:
        if partitions not in _POOLS:
            _POOLS[partitions] = Pool(postgres_server, partitions)
        return _POOLS[partitions]

    return pool


@pytest.fixture
def new_postgres(postgres_server: Databases) -> Iterator[Callable[..., PgDatabase]]:
    """Makes databases with our schema, for the length of the test; `partitions=4` for one that is partitioned."""
    made: list[PgDatabase] = []

    def new(partitions: int = 0) -> PgDatabase:
        made.append(postgres_server.clone(partitions))
        return made[-1]

    yield new
    for database in made:
        postgres_server.drop(database.name)


@pytest.fixture
def postgres(new_postgres: Callable[..., PgDatabase]) -> PgDatabase:
    """A database with our schema: `postgres.dsn` for the runtime role, `postgres.admin_dsn` for the administrator."""
    return new_postgres()


@pytest.fixture
def new_database(new_postgres: Callable[..., PgDatabase]) -> Callable[..., str]:
    """Makes databases with our schema and returns the DSN of the runtime role."""
    return lambda partitions=0: new_postgres(partitions).dsn


@pytest.fixture
def bare_postgres(postgres_server: Databases) -> Iterator[PgDatabase]:
    """A database without our schema, as an administrator finds it before the first migration."""
    made = postgres_server.empty()
    yield made
    postgres_server.drop(made.name)


@pytest.fixture
def private_server() -> Iterator[PrivateServer]:
    """A server of the test alone, to be stopped and killed."""
    try:
        with PrivateServer() as server:
            yield server
    except Unavailable as error:
        _missing(str(error))


@pytest.fixture
def private_postgres(private_server: PrivateServer) -> PgDatabase:
    """A database with our schema on the private server."""
    return prepare(private_server.dsn(), RUNTIME_ROLE)


@pytest.fixture
def proxy(private_server: PrivateServer) -> Iterator[Proxy]:
    """A way to the private server that can hang and be cut."""
    with Proxy(private_server.directory / ".s.PGSQL.5432") as made:
        yield made


@pytest.fixture
def embed_url() -> Iterator[str]:
    """An embedding endpoint: that of PG_TEST_EMBED_URL, else one of our own whose vectors are bags of words."""
    given = os.environ.get("PG_TEST_EMBED_URL")
    if given:
        yield given
        return
    from tests.integration.embedding_server import EmbeddingServer

    with EmbeddingServer(dimension=768) as server:
        yield server.url
