"""What the rules of writing ask of a database: named statements on one connection, and the full-text rows of a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from hermes_mnemosyne.store.protocol import ContentKey

# Neighbours lend at most this many tokens; a text of more tokens than the second figure carries its own context.
CONTEXT_TOKENS = 64
OWN_CONTEXT_TOKENS = 512


class Result(Protocol):
    """The rows of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, None when there is none."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""
        ...


class Database(Protocol):
    """One connection, inside a transaction where it writes."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Result:
        """Run a statement."""
        ...

    def executemany(self, statement: str, parameters: Iterable[Sequence[Any]], /) -> object:
        """Run a statement once per row of parameters."""
        ...


class Connections(Protocol):
    """The connections of one store."""

    def reading(self) -> AbstractContextManager[Any]:
        """Lend a reader."""
        ...

    def writing(self, wait: float) -> AbstractContextManager[Any]:
        """Hold the store's write lock, for which `wait` seconds are waited; commit at the end, roll back when the block raises."""
        ...


@dataclass(frozen=True, slots=True)
class Tokens:
    """One full-text row: encoded tokens of the text, of its neighbours, facets, and the analyser's version.

    Of the text of a stored row an index may return no more than the tokens that it lends and whether it is long.
    """

    body: str
    context: str
    facets: str
    version: int

    @property
    def is_long(self) -> bool:
        """Tell whether the text is long enough to carry its own context."""
        return self.body.count(" ") >= OWN_CONTEXT_TOKENS

    @property
    def lent(self) -> str:
        """Return the tokens that the text lends to its neighbours."""
        return lend(self.body)


def lend(body: str) -> str:
    """Return the tokens that a body lends to its neighbours."""
    return " ".join(body.split(" ", CONTEXT_TOKENS)[:CONTEXT_TOKENS])


class Index(Protocol):
    """The full-text rows as they will be at the end of the transaction."""

    def get(self, row: int) -> Tokens | None:
        """Return the full-text row of a row number."""
        ...

    def is_cheap(self, row: int) -> bool:
        """Tell whether to change a row that `get` has returned costs little."""
        ...

    def put(self, row: int, tokens: Tokens, *, fresh: bool = False) -> None:
        """Set the full-text row of a row number; `fresh` when the row is new."""
        ...

    def remove(self, row: int) -> None:
        """Take the full-text row of a row number away."""
        ...

    def copy(self) -> Self:
        """Return an independent copy, for a savepoint."""
        ...

    def write(self) -> None:
        """Write what has changed, in order of row numbers."""
        ...


class ChangedTokens:
    """The full-text rows that a transaction changes, kept back until its end; None is one that goes."""

    def __init__(self) -> None:
        """Begin with none."""
        self._changed: dict[int, Tokens | None] = {}
        self._fresh: set[int] = set()

    def put(self, row: int, tokens: Tokens, *, fresh: bool = False) -> None:
        """Set the full-text row of a row number; `fresh` when the row is new."""
        self._changed[row] = tokens
        if fresh:
            self._fresh.add(row)

    def remove(self, row: int) -> None:
        """Take the full-text row of a row number away."""
        if row in self._fresh:
            self._fresh.discard(row)
            del self._changed[row]
        else:
            self._changed[row] = None


class View(Protocol):
    """What it takes to look a row up: a transaction, or a reader before one."""

    @property
    def db(self) -> Database:
        """The connection."""
        ...

    @property
    def sql(self) -> Mapping[str, str]:
        """The named statements of writing."""
        ...

    @property
    def key(self) -> ContentKey:
        """The subject key."""
        ...

    def ask(self, name: str, parameters: tuple[Any, ...], /) -> Any:
        """Return the only row that a statement finds."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """A reader before a transaction."""

    db: Database
    sql: Mapping[str, str]
    key: ContentKey

    def ask(self, name: str, parameters: tuple[Any, ...]) -> Any:
        """Return the only row that a statement finds."""
        return self.db.execute(self.sql[name], parameters).fetchone()
