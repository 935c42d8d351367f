"""Connections of one database: one pool per process and DSN, opened lazily, holding nothing while idle."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from pgvector.psycopg import register_vector
from psycopg import conninfo, sql
from psycopg_pool import ConnectionPool, PoolTimeout

from hermes_mnemosyne import forks
from hermes_mnemosyne._errors import ConfigError, MnemosyneError, SchemaMismatch, StoreBusy, StoreUnavailable
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.deadlines import DEADLINES
from hermes_mnemosyne.store.postgres.errors import mnemosyne_error, translated, without_secrets
from hermes_mnemosyne.store.postgres.schema import ENCODING, newest

WRITE_LOCK = 0x4D6E656D
"""The advisory lock that every write transaction holds, so that change numbers are in the order of commits."""

# What the warnings about our pools tell stands in our own errors, once and not at every attempt.
logging.getLogger("psycopg.pool").addFilter(lambda record: not (record.args and _POOL in record.args))

# At last, what a release must know to write here: a newer one may have changed the schema since the store was opened.
_POOL = "mnemosyne"
_BESIDE = sql.SQL(
    "BEGIN; SET LOCAL lock_timeout = {wait}; SET LOCAL synchronous_commit = off; SELECT max(oldest_writer) FROM mnemosyne.migrations"
)
_ALONE = sql.SQL(
    "BEGIN; SET LOCAL lock_timeout = {wait}; SELECT pg_advisory_xact_lock({lock}); SELECT max(oldest_writer) FROM mnemosyne.migrations"
)
# A server keeps its own time limit; one that hangs does not, so the client waits this much longer for it.
_GRACE = 1.0
_SLICE = 0.05
# A connection that has lain idle for longer than this is tried before it is used: the server may have been restarted.
_FRESH = 1.0
_FIRST_REST, _LONGEST_REST = 0.1, 5.0
_DEFAULTS = {
    "application_name": "mnemosyne",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions:
    """How a database is used. Times are in seconds.

    `pool_*` bound the pool of the process, `busy_timeout` the wait for a connection or the write lock, `connect_timeout` that for a
    connection to be made (a DSN may say otherwise), `statement_timeout` one statement of a search or write. Without `prepared`
    statements a pooler may hand each transaction to another connection of its own.
    """

    pool_min: int = 0
    pool_max: int = 4
    pool_idle: float = 30.0
    pool_lifetime: float = 300.0
    busy_timeout: float = 5.0
    connect_timeout: float = 5.0
    statement_timeout: float = 30.0
    prepared: bool = True


def shown(dsn: str) -> str:
    """Return what may be shown of a DSN: database, user, host and port. Raises psycopg.ProgrammingError for what is no DSN."""
    parts = conninfo.conninfo_to_dict(dsn)
    fields = [f"{name}={parts[name]}" for name in ("dbname", "user", "host", "port") if parts.get(name)]
    return f"Postgres ({' '.join(fields)})" if fields else "Postgres"


class _Connection(psycopg.Connection[Any]):
    """A pooled connection that knows when it was used last."""

    used_at = 0.0


class _Pool:
    """The pool of one DSN in this process, shared by all stores on it."""

    def __init__(self, dsn: str, options: PostgresOptions) -> None:
        self.name = shown(dsn)
        # One writer of the process waits for the server's lock at a time: those who wait would hold the connections that readers need.
        self.write_lock = threading.Lock()
        self.users = 0
        self.failures = 0
        self.error: MnemosyneError | None = None
        self._options = options
        self._counting = threading.Lock()
        self._lent = 0
        self._rest_until = 0.0
        self._rest = _FIRST_REST
        self._random = random.Random()  # noqa: S311 - jitter, no secret
        given = conninfo.conninfo_to_dict(dsn)
        limit = {"connect_timeout": str(max(1, round(options.connect_timeout)))}
        parts: dict[str, Any] = {**_DEFAULTS, **limit, **given, "client_encoding": ENCODING}
        pool = self

        class Connection(_Connection):
            @classmethod
            def connect(cls, *args: Any, **kwargs: Any) -> Any:
                return pool.connected(super().connect, *args, **kwargs)

        self.pool = ConnectionPool(
            conninfo.make_conninfo(**parts), connection_class=Connection, min_size=options.pool_min, max_size=options.pool_max,
            max_idle=options.pool_idle, max_lifetime=options.pool_lifetime, reconnect_timeout=0.0, open=False, num_workers=1,
            kwargs={"autocommit": True, "cursor_factory": psycopg.RawCursor, "prepare_threshold": 5 if options.prepared else None},
            name=_POOL,
        )  # fmt: skip

    def connected(self, connect: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a connection for the pool and prepare it, or note why it cannot be had."""
        try:
            made = connect(*args, **kwargs)
            try:
                with DEADLINES.watching(made.fileno(), self._options.connect_timeout + _GRACE):
                    self._prepare(made)
            except psycopg.Error:
                made.close()
                raise
        except psycopg.Error as error:
            self.failed(mnemosyne_error(error, self.name))
            raise
        self.worked()
        return made

    def _prepare(self, made: psycopg.Connection[Any]) -> None:
        if (encoding := made.info.parameter_status("server_encoding")) != ENCODING:
            raise psycopg.OperationalError(f"the database has the encoding {encoding}: make one with ENCODING '{ENCODING}'")
        millis = int(self._options.statement_timeout * 1000)
        # Compiling a statement takes longer than any of ours runs.
        made.execute(
            "SELECT set_config('statement_timeout', $1, false), set_config('jit', 'off', false), set_config('TimeZone', 'UTC', false), "
            "set_config('idle_in_transaction_session_timeout', '60s', false)",
            [f"{millis}ms"],
        )
        found = made.execute(
            "SELECT n.nspname, n.nspname = ANY (current_schemas(true)) FROM pg_extension AS x JOIN pg_namespace AS n "
            "ON n.oid = x.extnamespace WHERE x.extname = 'vector'"
        ).fetchone()
        if found is None:
            raise psycopg.errors.UndefinedTable("the extension pgvector is missing")
        if not found[1]:
            path = sql.SQL("SET search_path TO {}, pg_catalog").format(sql.Identifier(found[0]))
            made.execute(path)
        register_vector(made)

    def failed(self, error: MnemosyneError) -> None:
        """Note that the server cannot be used, and leave it alone for a growing while."""
        self.error = error
        self._rest_until = time.monotonic() + self._rest * self._random.uniform(0.8, 1.2)
        self._rest = min(self._rest * 2, _LONGEST_REST)
        self.failures += 1

    def worked(self) -> None:
        """Note that the server answers."""
        self.error = None
        self._rest = _FIRST_REST

    def take(self, wait: float) -> Any:
        """Return a connection. Raises StoreUnavailable as soon as none can be made, StoreBusy after `wait` seconds."""
        if self.error is not None and time.monotonic() < self._rest_until:
            raise type(self.error)(str(self.error))
        until = time.monotonic() + wait
        failures = self.failures
        self.pool.open()
        while True:
            left = until - time.monotonic()
            try:
                made = self.pool.getconn(timeout=max(0.001, min(_SLICE, left)))
            except PoolTimeout as timeout:
                if self.failures != failures and self.error is not None:
                    raise type(self.error)(str(self.error)) from timeout
                if left <= _SLICE:
                    if self._lent >= self.pool.max_size:
                        raise StoreBusy(f"{self.name}: all connections are busy; try again, or raise pool_max") from timeout
                    self.failed(StoreUnavailable(f"{self.name}: the server does not answer"))
                    raise StoreUnavailable(f"{self.name}: the server does not answer") from timeout
                continue
            if time.monotonic() - made.used_at < _FRESH or self._answers(made):
                with self._counting:
                    self._lent += 1
                return made
            self.pool.putconn(made)

    def _answers(self, made: Any) -> bool:
        if made.used_at == 0.0:
            return True
        try:
            with DEADLINES.watching(made.fileno(), _GRACE):
                made.execute("")
        except psycopg.OperationalError:
            return False
        return True

    def give_back(self, made: Any) -> None:
        """Take a connection back."""
        with self._counting:
            self._lent -= 1
        made.used_at = time.monotonic()
        self.pool.putconn(made)


def _check_schema(begun: psycopg.Cursor[Any]) -> None:
    """Raise SchemaMismatch when the last result is a schema that this release does not know."""
    while begun.nextset():
        pass
    for (oldest_writer,) in begun:
        if oldest_writer > newest():
            raise SchemaMismatch("a newer release has changed the schema: restart this process with it")


@contextmanager
def _held(lock: threading.Lock, until: float, name: str) -> Iterator[None]:
    if not lock.acquire(timeout=max(until - time.monotonic(), 0.0)):
        raise StoreBusy(f"{name}: another thread is writing; try again")
    try:
        yield
    finally:
        lock.release()


_pools: dict[tuple[str, PostgresOptions], _Pool] = {}
_pools_lock = threading.Lock()


class Connections:
    """What a store on a database asks for. Every method is safe from any thread."""

    def __init__(self, dsn: str, options: PostgresOptions) -> None:
        """Open nothing yet."""
        self.dsn = dsn
        try:
            self.name = shown(dsn)
        except psycopg.ProgrammingError as error:
            raise ConfigError(f"this is no connection string of Postgres: {without_secrets(str(error))}") from error
        self._options = options
        self._write_lock = threading.Lock()
        self._closed = False
        self._pool = self._borrow()
        forks.guard(self)

    def _borrow(self) -> _Pool:
        key = self.dsn, self._options
        with _pools_lock:
            pool = _pools.get(key)
            if pool is None:
                pool = _pools[key] = _Pool(self.dsn, self._options)
            pool.users += 1
        return pool

    @property
    def problem(self) -> str:
        """Why the server could not be used lately, empty when it could."""
        return str(self._pool.error or "")

    @contextmanager
    def _lent(self, wait: float, limit: float) -> Iterator[Database]:
        """Lend a connection for at most `limit` seconds."""
        if self._closed:
            raise StoreUnavailable(f"{self.name}: this memory was closed; open it again")
        with translated(self.name):
            made = self._pool.take(wait)
            try:
                with DEADLINES.watching(made.fileno(), limit):
                    yield Database(made)
            except (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InvalidSqlStatementName):
                # Its sessions stay read-only when the server is a primary again; what driver and server know of statements
                # stays different.
                made.close()
                raise
            except psycopg.OperationalError as error:
                if made.closed or made.broken:
                    self._pool.failed(mnemosyne_error(error, self.name))
                raise
            finally:
                self._pool.give_back(made)

    @contextmanager
    def reading(self, *, wait: float | None = None, limit: float | None = None) -> Iterator[Database]:
        """Lend a connection for reading, outside a transaction.

        In seconds: `wait` for a connection, `busy_timeout` by default, and `limit` for its use, `statement_timeout` by default.
        """
        with self._lent(
            self._options.busy_timeout if wait is None else wait, (limit or self._options.statement_timeout) + _GRACE
        ) as db:
            yield db

    @contextmanager
    def moment(self, *, limit: float) -> Iterator[Database]:
        """Lend a connection in a read-only transaction that sees one moment; statements may take all of `limit` seconds."""
        with self._lent(self._options.busy_timeout, limit + _GRACE) as db:
            db.raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                db.raw.execute("SELECT set_config('statement_timeout', $1, true)", [f"{int(limit * 1000)}ms"])
                yield db
            finally:
                with suppress(psycopg.Error):
                    db.raw.execute("COMMIT")

    @contextmanager
    def alone(self, lock: int, *, limit: float) -> Iterator[bool]:
        """Hold an advisory lock of the database for at most `limit` seconds, if nobody else does: then yield True."""
        with self._lent(self._options.busy_timeout, limit) as db:
            found = db.raw.execute("SELECT pg_try_advisory_lock($1)", [lock]).fetchone()
            held = found is not None and bool(found[0])
            try:
                yield held
            finally:
                if held:
                    with suppress(psycopg.Error):
                        db.raw.execute("SELECT pg_advisory_unlock($1)", [lock])

    @contextmanager
    def writing(self, wait: float, *, limit: float | None = None) -> Iterator[Database]:
        """Hold the write lock of the database in a transaction: commit at the end, roll back when the block raises.

        `wait` is in seconds, for this process and others together. Raises SchemaMismatch when a newer release has changed the schema
        meanwhile, StoreBusy and the other store errors.
        """
        until = time.monotonic() + wait
        mine, everybodys = self._write_lock, self._pool.write_lock
        with _held(mine, until, self.name), _held(everybodys, until, self.name), self._changing(_ALONE, until, limit) as db:
            yield db

    @contextmanager
    def changing(self, wait: float, *, limit: float | None = None) -> Iterator[Database]:
        """As `writing`, but beside other writers, for what has no change number and locks the rows that it depends on.

        The disk is not waited for: what a crash of the server takes back is done again.
        """
        with self._changing(_BESIDE, time.monotonic() + wait, limit) as db:
            yield db

    @contextmanager
    def _changing(self, begin: sql.SQL, until: float, limit: float | None) -> Iterator[Database]:
        left = max(0.001, until - time.monotonic())
        with self._lent(left, left + (limit or self._options.statement_timeout) + _GRACE) as db:
            # SQL has no parameters for SET; both are numbers of ours. In one message, which saves two ways to the server.
            millis = max(1, int((until - time.monotonic()) * 1000))
            try:
                begun = db.raw.execute(begin.format(wait=sql.Literal(f"{millis}ms"), lock=sql.Literal(WRITE_LOCK)), prepare=False)
                _check_schema(begun)
                if limit is not None:
                    db.raw.execute("SELECT set_config('statement_timeout', $1, true)", [f"{int(limit * 1000)}ms"])
                yield db
                db.raw.execute("COMMIT")
            except BaseException:
                with suppress(psycopg.Error):
                    # The driver's own way: it forgets the statements that a batch which failed was to prepare.
                    db.raw.rollback()
                raise

    def figures(self) -> dict[str, int]:
        """Return the pool's figures: `size`, `available`, `waiting`, `errors`."""
        stats = self._pool.pool.get_stats()
        return {
            "size": stats.get("pool_size", 0),
            "available": stats.get("pool_available", 0),
            "waiting": stats.get("requests_waiting", 0),
            "errors": stats.get("connections_errors", 0),
        }

    def close(self) -> None:
        """Give the pool back; the last store on it closes it."""
        if self._closed:
            return
        self._closed = True
        with _pools_lock:
            self._pool.users -= 1
            last = self._pool.users <= 0 and _pools.get((self.dsn, self._options)) is self._pool
            if last:
                del _pools[self.dsn, self._options]
        if last:
            self._pool.pool.close(timeout=2.0)

    def before_fork(self) -> None:
        """Wait until no write is under way."""
        self._write_lock.acquire()

    def after_fork(self) -> None:
        """Go on in the parent."""
        self._write_lock.release()

    def abandon(self) -> None:
        """Begin anew in the child; the connections inherited belong to the parent and are left alone."""
        global _pools_lock  # noqa: PLW0603 - the lock may be held by a thread that is not there
        _inherited.append(self._pool)
        if any(pool is self._pool for pool in _pools.values()):
            _pools.clear()
            _pools_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._pool = self._borrow()


# Kept for ever: to collect them would tell the server that the parent's connections end.
_inherited: list[_Pool] = []
