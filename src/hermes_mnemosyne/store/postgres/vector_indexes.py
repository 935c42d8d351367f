"""HNSW indexes: which there are, which there should be, and the administrator's `maintain`, which sees to it.

A theme with many rows has an index of its own, all rows together have a shared one: for searches through more than one theme. An
index holds vectors with half of their digits, which is half the size and finds the same; what it finds is compared exactly.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
from psycopg import sql

from hermes_mnemosyne._errors import StoreBusy
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.postgres.vectors import column_of

MOST_OWN = 8
"""A search goes through no more indexes of themes than this, else through the shared one."""

LONGEST_INDEXED = 4_000
"""More dimensions an index cannot hold."""

# So many numbers are compared exactly within 15 ms; rows have a cost of their own, since each lies on another page.
_EXACT_NUMBERS = 2_000_000
_FEWEST, _MOST = 1_000, 5_000
_REMEMBERED = 10.0
_NAME = re.compile(r"hnsw_(\d+)(?:_(\d+)|_p(\d+))?")
_ITERATES = (0, 8)
_LOCK = 0x6D61696E
# What an index takes while it is built, per row beside its numbers; and the most that is asked for, in kB.
_ROW_BYTES = 600
_MOST_MEMORY = 2_000_000


class Executes(Protocol):
    """A connection, whether it is wrapped or not."""

    def execute(self, statement: Any, /) -> Any:
        """Run a statement."""
        ...


def threshold(dimension: int) -> int:
    """Return how many rows are searched exactly at most, where there is an index."""
    return max(_FEWEST, min(_MOST, _EXACT_NUMBERS // dimension))


@dataclass(frozen=True, slots=True)
class Indexes:
    """The indexes that can be used: models with a shared one, (model, scope) with one of its own; whether a scan can go on."""

    shared: frozenset[int] = frozenset()
    own: frozenset[tuple[int, int]] = frozenset()
    iterates: bool = False


def _existing(db: Executes) -> dict[str, bool]:
    """Return the names of our indexes, and whether each is complete."""
    return {name: valid for name, valid in db.execute(statements("vectors")["indexes"]).fetchall() if _NAME.fullmatch(name)}


def _leaves(db: Executes) -> dict[str, str]:
    """Return the tables that hold vectors by their number, empty where there is one."""
    return {number: name for name, number in db.execute(statements("vectors")["leaves"]).fetchall()}


def usable(db: Executes) -> Indexes:
    """Look up which indexes there are."""
    leaves = len(_leaves(db))
    _, version = db.execute(statements("vectors")["extension"]).fetchone()
    parts: dict[int, int] = {}
    own = set()
    for name, valid in _existing(db).items():
        found = _NAME.fullmatch(name)
        if found is None or not valid:
            continue
        if found[2]:
            own.add((int(found[1]), int(found[2])))
        else:
            parts[int(found[1])] = parts.get(int(found[1]), 0) + 1
    numbers = tuple(int(part) for part in version.split(".") if part.isdecimal())
    shared = frozenset(model for model, count in parts.items() if count == leaves)
    return Indexes(shared, frozenset(own), numbers >= _ITERATES)


class Catalogue:
    """The indexes of a database as they were some seconds ago; one that has gone since makes a search slow, not wrong."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._lock = threading.Lock()
        self._known: Indexes | None = None
        self._until = 0.0

    def get(self, db: Executes) -> Indexes:
        """Return the indexes."""
        with self._lock:
            if self._known is not None and time.monotonic() < self._until:
                return self._known
        found = usable(db)
        with self._lock:
            self._known = found
            self._until = time.monotonic() + _REMEMBERED
        return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """An index that there should be: of the rows of `theme` (of one subject in it), or of all rows where it is empty."""

    name: str
    model: int
    key: str
    dimension: int
    scope: int | None
    theme: str
    leaf: str | None
    rows: int


def _wanted(sizes: Sequence[tuple[Any, ...]], leaves: Iterable[str], share: int) -> Iterator[Wanted]:
    """Yield the indexes for scopes of these sizes; `share` divides the threshold."""
    by_model: dict[int, list[tuple[Any, ...]]] = {}
    for row in sizes:
        by_model.setdefault(row[0], []).append(row)
    for model, rows in by_model.items():
        _, key, dimension, *_ = rows[0]
        if dimension > LONGEST_INDEXED:
            continue
        most = threshold(dimension) // share
        own = [row for row in rows if row[5] > most]
        for _, _, _, scope, theme, count in own:
            yield Wanted(f"hnsw_{model}_{scope}", model, key, dimension, scope, theme, None, count)
        total = sum(row[5] for row in rows)
        if total - sum(row[5] for row in own) > most or len(own) > MOST_OWN:
            for leaf in leaves:
                name = f"hnsw_{model}_p{leaf}" if leaf else f"hnsw_{model}"
                yield Wanted(name, model, key, dimension, None, "", leaf, total)


def wanting(db: Executes) -> list[Wanted]:
    """Return the indexes that `maintain` would make, the largest first."""
    existing = _existing(db)
    found = _wanted(db.execute(statements("vectors")["sizes"]).fetchall(), _leaves(db), 1)
    return sorted((one for one in found if not existing.get(one.name)), key=lambda one: -one.rows)


@dataclass(frozen=True, slots=True)
class Step:
    """Something that `maintain` does or has done; `rows` is the size of an index that is made."""

    action: str
    name: str
    statement: str
    theme: str = ""
    rows: int = 0
    memory: int = 0


def plan(db: Executes) -> list[Step]:
    """Return what there is to do: indexes of models that are gone, of shrunken themes and of interrupted runs go, missing ones come."""
    existing = _existing(db)
    sizes = db.execute(statements("vectors")["sizes"]).fetchall()
    leaves = _leaves(db)
    # One that is there already stays until its rows are half as many.
    kept = {one.name for share in (1, 2) for one in _wanted(sizes, leaves, share)}
    drop = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}")
    steps = [
        Step("drop", name, drop.format(sql.Identifier("mnemosyne", name)).as_string(None))
        for name, valid in sorted(existing.items())
        if not valid or name not in kept
    ]
    schema, _ = db.execute(statements("vectors")["extension"]).fetchone()
    for one in wanting(db):
        table = _leaf_of(db, one) if one.leaf is None else leaves[one.leaf]
        if table is not None:
            kilobytes = one.rows * (2 * one.dimension + _ROW_BYTES) // 1024 + 65_536
            steps.append(Step("create", one.name, _creating(one, table, schema), one.theme, one.rows, kilobytes))
    return steps


def _leaf_of(db: Executes, one: Wanted) -> str | None:
    text = sql.SQL(statements("vectors")["leaf_of_scope"])
    found = db.execute(text.format(model=sql.Literal(one.model), scope=sql.Literal(one.scope))).fetchone()
    return found[0] if found else None


def in_scope(scope: int | None, column: Sequence[str] = ("scope",)) -> sql.Composable:
    """Return the condition of an index's predicate, spelled alike where it is made and where it is used."""
    return sql.SQL("true") if scope is None else sql.SQL("{} = {}").format(sql.Identifier(*column), sql.Literal(scope))


def _creating(one: Wanted, table: str, schema: str) -> str:
    text = sql.SQL(statements("vectors")["create_index"])
    return text.format(
        name=sql.Identifier(one.name),
        table=sql.Identifier("mnemosyne", table),
        column=sql.Identifier(column_of(one.dimension)),
        extension=sql.Identifier(schema),
        dimension=sql.Literal(one.dimension),
        model=sql.Literal(one.model),
        in_scope=in_scope(one.scope),
    ).as_string(None)


def maintain(admin: psycopg.Connection[Any], *, dry_run: bool = False) -> list[Step]:
    """Make the indexes that are missing, drop those that are not needed, and return what was or would be done.

    `admin` is a connection of the owner of our tables in autocommit mode; no writer waits. To be run as often as one likes.
    Raises StoreBusy when it runs elsewhere.
    """
    if dry_run:
        return plan(admin)
    with _alone(admin):
        steps = plan(admin)
        for step in steps:
            run(admin, step)
    return steps


@contextmanager
def _alone(admin: psycopg.Connection[Any]) -> Iterator[None]:
    lock = sql.Literal(_LOCK)
    (free,) = admin.execute(sql.SQL("SELECT pg_try_advisory_lock({})").format(lock)).fetchone() or (False,)
    if not free:
        raise StoreBusy("maintain runs already on this database: wait until it has finished")
    try:
        yield
    finally:
        admin.execute(sql.SQL("SELECT pg_advisory_unlock({})").format(lock))


def run(admin: psycopg.Connection[Any], step: Step) -> None:
    """Take one step of a plan, however long it takes."""
    admin.execute("SET statement_timeout = 0")
    statement = step.statement.encode()
    if step.action == "create":
        # In memory a build takes a tenth of the time; it takes no more than it needs.
        memory = sql.Literal(f"{min(step.memory, _MOST_MEMORY)}kB")
        admin.execute(sql.SQL("SET maintenance_work_mem = {}").format(memory))
    try:
        admin.execute(statement)
    except psycopg.errors.DiskFull:
        # Workers share memory through a file system that may be too small for it, as in a container.
        admin.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier("mnemosyne", step.name)))
        admin.execute("SET max_parallel_maintenance_workers = 0")
        admin.execute(statement)
