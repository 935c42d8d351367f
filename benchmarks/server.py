"""A Postgres server of a benchmark's own, with ordinary settings on a disk, and databases of both systems on it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.environments import ensure, host_environment
from tests.postgres.server import PrivateServer, binaries

# Tests keep their servers in memory and without fsync: neither would be a figure.
_DISK = "/var/tmp"  # noqa: S108 - a directory of our own is made in it
ORDINARY = {
    "fsync": "on",
    "full_page_writes": "on",
    "wal_level": "replica",
    "max_wal_senders": "10",
    "min_wal_size": "80MB",
    "max_wal_size": "4GB",
    "shared_buffers": "1GB",
    "max_connections": "100",
}
ROLE = "hermes"
REFERENCE = "legacy-0.5.4"
_REFERENCE_TABLES = ("memory_entries", "conversations")


class Server(PrivateServer):
    """A server that keeps what it was told: with fsync, full pages and log segments of the usual size."""

    def __init__(self, **settings: str) -> None:
        """Name a directory on a disk; the `with` block makes it and removes it."""
        os.environ["TMPDIR"] = _DISK
        super().__init__(**{**ORDINARY, **settings})

    def _plant(self) -> None:
        super()._plant()
        owner = self.data.stat()
        who = {} if owner.st_uid == os.geteuid() else {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        command = [str(binaries() / "pg_resetwal"), "--wal-segsize=16", "-D", str(self.data)]
        subprocess.run(command, cwd="/", check=True, capture_output=True, **who)  # type: ignore[call-overload]  # who it runs as

    def version(self) -> dict[str, Any]:
        """Return the versions of the server and of pgvector, and the settings."""
        with self.connect() as db:
            found = db.execute(
                "SELECT current_setting('server_version'), default_version FROM pg_available_extensions WHERE name = 'vector'"
            )
            server, extension = found.fetchone() or ("", "")
        return {"postgres": server, "pgvector": extension, "settings": {**self.settings}}


@dataclass(frozen=True, slots=True)
class Database:
    """One database: `dsn` is the agents' login, `admin_dsn` the administrator's."""

    server: Server
    name: str

    @property
    def dsn(self) -> str:
        """Return the DSN of the runtime role."""
        return self.server.dsn(self.name, ROLE)

    @property
    def admin_dsn(self) -> str:
        """Return the DSN of the administrator."""
        return self.server.dsn(self.name)

    def ask(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Return the only value of a query."""
        with self.server.connect(self.name) as db:
            row = db.execute(query, values).fetchone()  # type: ignore[arg-type]  # queries of ours
        return row[0] if row else None

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.server.connect(self.name) as db:
            return db.execute(query, values).fetchall()  # type: ignore[arg-type]  # queries of ours

    def run(self, statement: str) -> None:
        """Run a statement outside a transaction."""
        with self.server.connect(self.name) as db:
            db.execute(statement)  # type: ignore[arg-type]  # statements of ours

    def drop(self) -> None:
        """Remove the database."""
        with self.server.connect() as db:
            db.execute(f"DROP DATABASE {self.name} WITH (FORCE)")  # type: ignore[arg-type]  # a name of ours


def ours(server: Server, name: str, *, dimension: int | None = None) -> Database:
    """Make a database with our schema, for vectors of a dimension (None: the usual one)."""
    from hermes_mnemosyne import maintenance

    database = _made(server, name)
    maintenance.migrate(database.admin_dsn, maintenance.Wishes(runtime_role=ROLE, embed_dim=dimension))
    return database


def theirs(server: Server, name: str) -> Database:
    """Make a database as the reference does."""
    database = _made(server, name)
    subprocess.run(
        [reference_python(), "-m", "hermes_pgvector", "migrate", "--admin-dsn", database.admin_dsn],
        check=True,
        capture_output=True,
    )
    return database


def _made(server: Server, name: str) -> Database:
    with server.connect() as db:
        if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
            db.execute(f"CREATE ROLE {ROLE} LOGIN")  # type: ignore[arg-type]  # a name of ours
        db.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]  # a name of ours
    return Database(server, name)


def reference_python() -> Path:
    """Return the interpreter of the reference's environment, which is made at first."""
    found = host_environment(REFERENCE)
    if found is None:
        raise SystemExit(f"no interpreter here suits {REFERENCE}")
    return ensure(found).python


@contextmanager
def without_vector_indexes(database: Database) -> Iterator[None]:
    """Take the reference's HNSW indexes away and make them again at the end, as whoever loads many rows does."""
    definitions = database.rows(
        "SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%%USING hnsw%%' AND schemaname = 'public'"
    )
    for name, _ in definitions:
        database.run(f"DROP INDEX {name}")
    yield
    for _, definition in definitions:
        with database.server.connect(database.name) as db:
            db.execute("SET maintenance_work_mem = '1GB'")
            db.execute(definition)


def copy_reference(database: Database, table: str, rows: Iterator[tuple[Any, ...]]) -> None:
    """Load rows of the reference: (identity, target, text, vector) or (session, identity, role, text, vector)."""
    from pgvector.psycopg import register_vector

    columns = {
        "memory_entries": ("agent_identity, target, content, embedding", ["text", "text", "text", "vector"]),
        "conversations": ("session_id, agent_identity, role, content, embedding", ["text", "text", "text", "text", "vector"]),
    }
    names, types = columns[table]
    with database.server.connect(database.name) as db:
        register_vector(db)
        with db.cursor().copy(f"COPY {table} ({names}) FROM STDIN (FORMAT BINARY)") as copy:  # type: ignore[arg-type]  # names of ours
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)


def sizes(database: Database) -> dict[str, Any]:
    """Return the megabytes of our tables without indexes and of each kind of index, and of the reference's."""
    found = database.rows(
        "SELECT n.nspname || '.' || t.relname, pg_table_size(t.oid) FROM pg_class AS t JOIN pg_namespace AS n ON n.oid = t.relnamespace "
        "WHERE n.nspname IN ('mnemosyne', 'public') AND t.relkind = 'r' ORDER BY 2 DESC"
    )
    indexes = database.rows(
        "SELECT a.amname, sum(pg_relation_size(c.oid)) FROM pg_class AS c JOIN pg_am AS a ON a.oid = c.relam JOIN pg_namespace AS n "
        "ON n.oid = c.relnamespace WHERE n.nspname IN ('mnemosyne', 'public') AND c.relkind = 'i' GROUP BY 1"
    )
    return {
        "tables_mb": {name: _megabytes(size) for name, size in found if size > 1 << 20},
        "indexes_mb": {kind: _megabytes(int(size)) for kind, size in indexes},
        "database_mb": _megabytes(database.ask("SELECT pg_database_size(current_database())")),
    }


def _megabytes(size: int) -> float:
    return round(size / 1e6, 1)
