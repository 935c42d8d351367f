"""Errors of psycopg become errors of Mnemosyne here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from hermes_mnemosyne._errors import (
    InvalidInput,
    MnemosyneError,
    SchemaNotApplied,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)

# What an operation with wrong values raises; the transaction goes on without that operation.
REJECTIONS: tuple[type[Exception], ...] = (
    errors.IntegrityError,
    errors.DataError,
    errors.ProgramLimitExceeded,
    errors.DatatypeMismatch,
)

_LONGEST = 300
_SECRET = re.compile(
    r"((?:password|passfile|sslkey|sslpassword)\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)|(://[^:/@\s]*:)[^@\s]*(@)", re.IGNORECASE
)

# The first class that fits counts.
_KINDS: tuple[tuple[type[psycopg.Error], type[MnemosyneError], str], ...] = (
    (errors.UndefinedTable, SchemaNotApplied, ""),
    (errors.InvalidSchemaName, SchemaNotApplied, ""),
    (errors.UndefinedColumn, SchemaNotApplied, ""),
    (
        errors.InsufficientPrivilege,
        StoreUnavailable,
        "the role may not do this; run `hermes-pgvector migrate --admin-dsn DSN` to grant it",
    ),
    (errors.ReadOnlySqlTransaction, StoreUnavailable, "the server is read-only now; name the primary, or wait until it is one"),
    (errors.DiskFull, StoreFull, "there is no room left on the server's disk"),
    (errors.OutOfMemory, StoreBusy, "the server is out of memory; try again"),
    (errors.TooManyConnections, StoreBusy, "the server takes no more connections; try again, or lower pool_max"),
    (errors.LockNotAvailable, StoreBusy, "another agent is writing; try again"),
    (errors.QueryCanceled, StoreBusy, "the statement took longer than statement_timeout; try again"),
    (errors.TransactionRollback, StoreBusy, "the transaction collided with another one; try again"),
    (
        errors.InvalidSqlStatementName,
        StoreBusy,
        "the server has lost a prepared statement; try again, and behind a pooler in transaction mode set prepared_statements: false",
    ),
    (errors.DataCorrupted, StoreCorrupt, "its data is damaged: restore a backup"),
    (errors.IndexCorrupted, StoreCorrupt, "an index is damaged: REINDEX it"),
    (errors.InvalidPassword, StoreUnavailable, "the password is not right"),
    (errors.InvalidAuthorizationSpecification, StoreUnavailable, "the role may not log in"),
    (errors.InvalidCatalogName, StoreUnavailable, "there is no such database"),
    (errors.ProgramLimitExceeded, InvalidInput, "a value is longer than Postgres can store; shorten it"),
    (errors.DataError, InvalidInput, "a value is not acceptable to Postgres"),
    (PoolTimeout, StoreBusy, "all connections of the pool are busy; try again, or raise pool_max"),
    (TooManyRequests, StoreBusy, "all connections of the pool are busy; try again, or raise pool_max"),
    (PoolClosed, StoreError, "this memory was closed; open it again"),
    (psycopg.OperationalError, StoreUnavailable, "the server cannot be reached"),
    (psycopg.InterfaceError, StoreUnavailable, "the connection was lost"),
)


def without_secrets(text: str) -> str:
    """Return a message with what follows `password=` and the like left out, cut to a readable length."""
    shown = _SECRET.sub(lambda found: f"{found[1] or found[3]}[redacted]{found[4] or ''}", text)
    shown = " ".join(shown.split())
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def mnemosyne_error(error: psycopg.Error, what: str) -> MnemosyneError:
    """Return the error of Mnemosyne that says what `error` means for the caller; `what` names the database without secrets."""
    for kind, ours, remedy in _KINDS:
        if isinstance(error, kind):
            if not remedy:
                return ours()
            return ours(f"{what}: {remedy} (Postgres: {without_secrets(str(error))})")
    return StoreError(f"{what}: the statement failed (Postgres: {without_secrets(str(error))})")


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise errors of psycopg within the block as errors of Mnemosyne, the cause attached.

    Raises SchemaNotApplied, StoreBusy, StoreFull, StoreCorrupt, StoreUnavailable, InvalidInput, else StoreError.
    """
    try:
        yield
    except psycopg.Error as error:
        raise mnemosyne_error(error, what) from error
