"""One Postgres connection as the modules beside this one use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from hermes_mnemosyne.store.postgres.sql import Statement

_STREAMED = 2000
_MANY = 8

Parameters = Sequence[Any] | Mapping[str, Any]


class Result:
    """The rows of a statement; in a batch they are waited for when they are asked for."""

    __slots__ = ("_cursor", "_database")

    def __init__(self, database: Database, cursor: psycopg.Cursor[Any]) -> None:
        """Take a cursor that has run, or is on its way."""
        self._database = database
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        """The number of rows changed."""
        self._database.settle()
        return self._cursor.rowcount

    def fetchone(self) -> Any:
        """Return the next row, None when there is none."""
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""
        return iter(self._cursor.fetchall())


class _Nothing:
    """What is known of rows that are held back: nothing."""

    rowcount = -1

    def fetchone(self) -> Any:
        """Return no row."""
        return None

    def fetchall(self) -> list[Any]:
        """Return no row."""
        return []

    def __iter__(self) -> Iterator[Any]:
        """Yield no row."""
        return iter(())


_NOTHING = _Nothing()


class Database:
    """A connection; `raw` is that of psycopg, with `$n` placeholders and in autocommit mode outside `Connections.writing`."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        """Wrap a connection."""
        self.raw = raw
        self._pipeline: psycopg.Pipeline | None = None
        self._copied: dict[str, list[Sequence[Any]]] | None = None

    def execute(self, statement: str, parameters: Parameters = (), *, prepare: bool | None = None) -> Result | _Nothing:
        """Run a statement; a mapping is for one with named parameters.

        A statement that is run often is prepared, and its plan then no longer knows the values: `prepare` False keeps that away
        where the right plan depends on them.
        """
        if isinstance(parameters, Mapping):
            assert isinstance(statement, Statement)
            parameters = [parameters[name] for name in statement.names]
        if self._copied is not None:
            if isinstance(statement, Statement) and statement.copy:
                self._copied.setdefault(statement.copy, []).append(parameters)
                return _NOTHING
            self._copy()
        return Result(self, self.raw.execute(statement, parameters or None, prepare=prepare))

    def executemany(self, statement: str, parameters: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters."""
        rows = list(parameters)
        if self._copied is not None:
            self._copy()
        if rows:
            with self.raw.cursor() as cursor:
                cursor.executemany(statement, rows)

    def stream(self, statement: str) -> Iterator[Any]:
        """Yield the rows of a statement without parameters, some thousand at a time; needs a transaction."""
        with psycopg.RawServerCursor(self.raw, "stream") as cursor:
            cursor.itersize = _STREAMED
            cursor.execute(statement)
            yield from cursor

    @contextmanager
    def batched(self, operations: int) -> Iterator[None]:
        """Do what a number of operations need with few ways to the server; errors come later than they are made, within the block.

        Of few operations, statements are sent without waiting for each. Of many, new rows are held back until something else is
        asked, and then copied all at once.
        """
        if operations < _MANY:
            with self.raw.pipeline() as pipeline:
                self._pipeline = pipeline
                try:
                    yield
                finally:
                    self._pipeline = None
            return
        self._copied = {}
        try:
            yield
            self._copy()
        finally:
            self._copied = None

    def _copy(self) -> None:
        held, self._copied = self._copied, {}
        for statement, rows in (held or {}).items():
            with self.raw.cursor() as cursor, cursor.copy(statement) as copy:
                for row in rows:
                    copy.write_row(row)

    def settle(self) -> None:
        """Wait for what a batch has sent so far. Raises its errors."""
        if self._pipeline is not None:
            self._pipeline.sync()
