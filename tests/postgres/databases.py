"""Databases for tests on one server: clones of a template that holds our migrations, and a pool of them for stores by the thousand."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scripts.environments import ROOT

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

    Admin = psycopg.Connection[tuple[Any, ...]]

STORE = ROOT / "src" / "hermes_mnemosyne" / "store" / "postgres"
TESTED = "mnemosyne_test_"
TEMPLATE = "mnemosyne_template_"
# TRUNCATE takes longer than DELETE but leaves no dead rows to be passed over: now and then, for the tables that have grown.
_RESETS = 25
_SHRINK = """
DO $$ DECLARE leaf regclass; BEGIN
    FOR leaf IN SELECT c.oid FROM pg_class AS c WHERE relnamespace = 'mnemosyne'::regnamespace AND relkind = 'r'
        AND pg_table_size(c.oid) + pg_indexes_size(c.oid) > 262144
        AND NOT EXISTS (SELECT FROM pg_constraint WHERE confrelid = c.oid AND contype = 'f')
    LOOP EXECUTE format('TRUNCATE %s', leaf); END LOOP;
END $$
"""


@dataclass(frozen=True, slots=True)
class PgDatabase:
    """One database: `dsn` is for the runtime role, which may read and write rows and no more; `admin_dsn` for the superuser."""

    name: str
    dsn: str
    admin_dsn: str


class Databases:
    """Makes and removes databases on the server that `admin_dsn` leads to."""

    def __init__(self, admin_dsn: str, role: str) -> None:
        import psycopg

        self.admin_dsn = admin_dsn
        self.role = role
        self._admin = psycopg.connect(admin_dsn, autocommit=True)
        self._templates: dict[int, str] = {}
        self._made: set[str] = set()

    def named(self, name: str) -> PgDatabase:
        from psycopg.conninfo import make_conninfo

        return PgDatabase(
            name, make_conninfo(self.admin_dsn, dbname=name, user=self.role), make_conninfo(self.admin_dsn, dbname=name)
        )

    def empty(self) -> PgDatabase:
        """Make a database without our schema; the extension is there to be created."""
        name = self._new_name()
        self._run("CREATE DATABASE {} STRATEGY file_copy", name)
        return self.named(name)

    def clone(self, partitions: int = 0) -> PgDatabase:
        """Make a database with our schema, empty, with a replica id of its own."""
        name = self._new_name()
        self._run("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, self.template(partitions))
        made = self.named(name)
        with _connect(made.admin_dsn) as db:
            db.execute(_NEW_REPLICA)
        return made

    def drop(self, name: str) -> None:
        self._run("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)
        self._made.discard(name)

    def template(self, partitions: int = 0) -> str:
        """Return the name of the template, made once on this server whoever asks first."""
        if partitions not in self._templates:
            name = f"{TEMPLATE}{digest()}_{partitions}"
            self._admin.execute("SELECT pg_advisory_lock(hashtext(%s))", (name,))
            try:
                if name not in self._existing(TEMPLATE):
                    self._make_template(name, partitions)
            finally:
                self._admin.execute("SELECT pg_advisory_unlock(hashtext(%s))", (name,))
            self._templates[partitions] = name
        return self._templates[partitions]

    def _make_template(self, name: str, partitions: int) -> None:
        half = f"{name}_half"
        self._run("DROP DATABASE IF EXISTS {} WITH (FORCE)", half)
        self._run("CREATE DATABASE {}", half)
        migrate(self.named(half).admin_dsn, self.role, partitions)
        self._run("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false", half)
        self._run("ALTER DATABASE {} RENAME TO {}", half, name)

    def prepare(self, *, alone: bool) -> None:
        """Make the runtime role; remove what killed sessions have left when nobody else is at work."""
        self._admin.execute("SELECT pg_advisory_lock(hashtext('mnemosyne test role'))")
        if not self._admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (self.role,)).fetchone():
            password = self._admin.info.password
            self._run("CREATE ROLE {} LOGIN", self.role)
            if password:
                self._admin.execute(_composed("ALTER ROLE {} PASSWORD ", self.role) + _literal(password))
        self._admin.execute("SELECT pg_advisory_unlock(hashtext('mnemosyne test role'))")
        if alone:
            kept = f"{TEMPLATE}{digest()}_"
            for name in self._existing(TESTED) + [name for name in self._existing(TEMPLATE) if not name.startswith(kept)]:
                self.drop(name)

    def close(self) -> None:
        for name in list(self._made):
            self.drop(name)
        self._admin.close()

    def _new_name(self) -> str:
        name = f"{TESTED}{os.getpid()}_{secrets.token_hex(6)}"
        self._made.add(name)
        return name

    def _existing(self, prefix: str) -> list[str]:
        found = self._admin.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (prefix,))
        return [name for (name,) in found]

    def _run(self, statement: str, *names: str) -> None:
        self._admin.execute(_composed(statement, *names))


_NEW_REPLICA = "UPDATE mnemosyne.meta SET value = substr(md5(gen_random_uuid()::text), 1, 16) WHERE key = 'replica'"


def _connect(dsn: str) -> Admin:
    import psycopg

    return psycopg.connect(dsn, autocommit=True)


def _composed(statement: str, *names: str) -> Composed:
    from psycopg import sql

    return sql.SQL(statement).format(*map(sql.Identifier, names))


def _literal(value: str) -> Composed:
    from psycopg import sql

    return sql.Composed([sql.Literal(value)])


def digest() -> str:
    """Return what decides whether a template is up to date: more than the migrations, since one is made in no time."""
    files = [*STORE.glob("*.py"), *STORE.glob("*/*.sql"), ROOT / "tests" / "postgres" / "databases.py"]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in sorted(files))).hexdigest()[:12]


def migrate(admin_dsn: str, role: str, partitions: int = 0) -> None:
    """Apply our migrations to an empty database and grant the runtime role what it may do."""
    from hermes_mnemosyne.recall.analyse import TextAnalyser
    from hermes_mnemosyne.store.postgres import migrate as migrating

    migrating.migrate(admin_dsn, runtime_role=role, partitions=partitions, analyser=TextAnalyser().version)


def prepare(admin_dsn: str, role: str, name: str = "memory") -> PgDatabase:
    """Make a role and a database with our schema on a server that keeps no template."""
    databases = Databases(admin_dsn, role)
    try:
        databases.prepare(alone=False)
        with _connect(admin_dsn) as db:
            db.execute(_composed("CREATE DATABASE {}", name))
        made = databases.named(name)
        migrate(made.admin_dsn, role)
    finally:
        databases.close()
    return made


class Pool:
    """Databases to be used again: each is emptied in a few milliseconds, where a clone takes many."""

    def __init__(self, databases: Databases, partitions: int = 0) -> None:
        self._databases = databases
        self._partitions = partitions
        self._free: list[_Pooled] = []
        self._used: dict[str, _Pooled] = {}

    def take(self) -> PgDatabase:
        """Return an empty database. It is this caller's until it is given back."""
        while self._free:
            pooled = self._free.pop()
            if pooled.reset():
                break
            pooled.close()
            self._databases.drop(pooled.database.name)
        else:
            pooled = _Pooled(self._databases.clone(self._partitions))
        self._used[pooled.database.name] = pooled
        return pooled.database

    def give_back(self, database: PgDatabase) -> None:
        """Give a database back that no store has open any more."""
        self._free.append(self._used.pop(database.name))

    def close(self) -> None:
        for pooled in (*self._free, *self._used.values()):
            pooled.close()


class _Pooled:
    """A database with a connection that empties it, and a pool that stays open for the stores to come: to connect takes longest."""

    def __init__(self, database: PgDatabase) -> None:
        from hermes_mnemosyne.store.postgres.connections import Connections, PostgresOptions

        self.database = database
        self._warm = Connections(database.dsn, PostgresOptions())
        self._db = _connect(database.admin_dsn)
        self._db.execute("SET lock_timeout = '3s'")
        self._objects = self._shape()
        self._reset = self._script()
        self._resets = 0

    def reset(self) -> bool:
        """Bring the database back to how it was made; False when a test has changed more than rows."""
        import psycopg

        self._resets += 1
        try:
            if self._shape() != self._objects:
                return False
            if self._resets % _RESETS == 0:
                self._db.execute(_SHRINK)
            self._db.execute(self._reset)
        except psycopg.Error:
            return False
        return True

    def close(self) -> None:
        self._warm.close()
        self._db.close()

    def _shape(self) -> tuple[Any, ...] | None:
        query = "SELECT count(*), max(oid::bigint), (SELECT count(*) FROM pg_trigger) FROM pg_class"
        return self._db.execute(query).fetchone()

    def _script(self) -> str:
        """Return one script that empties every table and puts the first rows back."""
        found = self._db.execute(
            "SELECT c.oid::regclass::text FROM pg_class AS c WHERE relnamespace = 'mnemosyne'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition ORDER BY EXISTS (SELECT FROM pg_constraint WHERE confrelid = c.oid AND contype = 'f')"
        )
        tables = [name for (name,) in found]
        rows = {name: [one for (one,) in self._db.execute(f"SELECT to_jsonb(t) FROM {name} AS t")] for name in tables}
        sequences = [
            name
            for (name,) in self._db.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'mnemosyne'::regnamespace AND relkind = 'S'"
            )
        ]
        return ";\n".join([*_emptying(tables), *_restarting(sequences), *_filling(rows), _NEW_REPLICA])


def _emptying(tables: Iterable[str]) -> list[str]:
    return [f"DELETE FROM {name}" for name in tables]


def _restarting(sequences: Iterable[str]) -> list[str]:
    return [f"SELECT setval('{name}', 1, false)" for name in sequences]


def _filling(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    statements = []
    for name, kept in rows.items():
        if kept:
            text = json.dumps(kept).replace("'", "''")
            statements.append(
                f"INSERT INTO {name} OVERRIDING SYSTEM VALUE SELECT * FROM jsonb_populate_recordset(NULL::{name}, '{text}')"
            )
    return statements
