"""What the maintenance commands ask of a Postgres database beside the Store protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from hermes_mnemosyne.store.postgres import adopting, finishing, migrate, old_vectors, remapping, upkeep, vector_indexes
from hermes_mnemosyne.store.postgres.connections import Connections
from hermes_mnemosyne.store.postgres.errors import translated
from hermes_mnemosyne.store.postgres.remapping import Move, Place, Remapped
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.writing.transaction import Tools

ENTRIES, TURNS = "memory_entries", "conversations"
TABLES = (ENTRIES, TURNS)
"""The two kinds of rows, under the names that the reference's users know."""

# To forget so many takes about a second, for which other writers wait.
_BATCH = 100
_LIMIT = 3600.0


class Scope(NamedTuple):
    """A theme and subject, and its number."""

    id: int
    theme: str
    subject: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of one theme and subject, by their uids."""

    theme: str
    subject: str
    uids: tuple[str, ...]


class Maintenance:
    """One database, as its administrator's commands see it."""

    def __init__(self, connections: Connections, tools: Tools) -> None:
        """Take what a store works with."""
        self._connections = connections
        self._tools = tools

    @classmethod
    def of(cls, store: Any) -> Self:
        """Return the maintenance of an open PostgresStore, on its connections."""
        return cls(store._connections, store._tools)  # noqa: SLF001 - a part of the store, kept in a module of its own

    # -- scopes ------------------------------------------------------------------------------------------------------------------

    def scopes(self, themes: Sequence[str] | None) -> list[Scope]:
        """Return the scopes of some themes, whatever the case they are written in; None: all."""
        sql = statements("maintenance")
        with self._connections.reading() as db:
            if themes is None:
                return [Scope(*row) for row in db.execute(sql["all_scopes"])]
            names = [theme.strip().lower() for theme in themes]
            return [Scope(*row) for row in db.execute(sql["scopes"], (names,))]

    # -- prune -------------------------------------------------------------------------------------------------------------------

    def count_old_turns(self, scopes: Sequence[Scope], before: str) -> int:
        """Return how many turns, retired ones too, were written before a time (UTC text)."""
        with self._connections.reading(limit=_LIMIT) as db:
            live, retired = db.execute(statements("maintenance")["count_old_turns"], (_ids(scopes), before)).fetchone()
        return int(live + retired)

    def old_turns(self, scopes: Sequence[Scope], before: str) -> Iterator[Rows]:
        """Yield the turns written before a time, the oldest first, some hundred at once; they may be forgotten meanwhile."""
        for scope in scopes:
            for name in ("old_turns", "old_retired_turns"):
                last: tuple[str, str] = ("", "")
                while True:
                    with self._connections.reading(limit=_LIMIT) as db:
                        rows = db.execute(statements("maintenance")[name], (scope.id, before, *last, _BATCH)).fetchall()
                    if not rows:
                        break
                    last = rows[-1]
                    yield Rows(scope.theme, scope.subject, tuple(uid for _, uid in rows))

    # -- cleanup -----------------------------------------------------------------------------------------------------------------

    def count_rows(self, scopes: Sequence[Scope]) -> dict[str, int]:
        """Return the rows of some scopes by table, retired ones too."""
        with self._connections.reading(limit=_LIMIT) as db:
            entries, turns, *retired = db.execute(statements("maintenance")["count_rows"], (_ids(scopes),)).fetchone()
        return {ENTRIES: entries + retired[0], TURNS: turns + retired[1]}

    def count_personal(self, scopes: Sequence[Scope]) -> dict[str, int]:
        """Return by table how many rows hold a run of 10 or 11 digits, as telephone numbers do."""
        with self._connections.reading(limit=_LIMIT) as db:
            entries, turns = db.execute(statements("maintenance")["personal"], (_ids(scopes),)).fetchone()
        return {ENTRIES: entries, TURNS: turns}

    def rows_of(self, scopes: Sequence[Scope], table: str) -> Iterator[Rows]:
        """Yield the rows of some scopes in one table, retired ones too, some hundred at once; they may be forgotten meanwhile."""
        names = ("entries_of", "retired_entries_of") if table == ENTRIES else ("turns_of", "retired_turns_of")
        for scope in scopes:
            for name in names:
                last = ""
                while True:
                    with self._connections.reading(limit=_LIMIT) as db:
                        rows = db.execute(statements("maintenance")[name], (scope.id, last, _BATCH)).fetchall()
                    if not rows:
                        break
                    last = rows[-1][0]
                    yield Rows(scope.theme, scope.subject, tuple(uid for (uid,) in rows))

    # -- remap -------------------------------------------------------------------------------------------------------------------

    def preview_remap(self, scopes: Sequence[Scope], target: Place) -> Remapped:
        """Count what `remap` would do."""
        with self._connections.reading(limit=_LIMIT) as db:
            return remapping.preview(db, _ids(scopes), target)

    def remap(self, scopes: Sequence[Scope], target: Place, *, force: bool, pattern: str) -> Remapped:
        """Move every row of some scopes to another theme and subject; see `remapping.remap`."""
        move = Move(scopes=tuple(_ids(scopes)), target=target, pattern=pattern, force=force)
        return remapping.remap(self._connections, self._tools, move)

    # -- adoption ----------------------------------------------------------------------------------------------------------------

    def adopt(self, step: Callable[[str, int], None] | None = None) -> adopting.Adoption:
        """Copy what has not been copied of the reference's tables; see `adopting.adopt`."""
        return adopting.adopt(self._connections, self._tools, step=step)

    def adopt_vectors(self, model: old_vectors.Model) -> old_vectors.OldVectors:
        """Take over old vectors that `model` would make too; see `old_vectors.adopt_vectors`."""
        return old_vectors.adopt_vectors(self._connections, model)

    def finish(self, runtime_role: str) -> list[str]:
        """Drop the reference's tables after a verified copy and return their names; see `finishing.finish`."""
        return finishing.finish(self._connections, self._tools, runtime_role=runtime_role)

    def give_back(self) -> finishing.Return:
        """Copy what is newer here into the reference's tables; see `finishing.back`."""
        return finishing.back(self._connections)

    # -- figures -----------------------------------------------------------------------------------------------------------------

    def vectors_by_table(self) -> dict[str, dict[str, int]]:
        """Return by table how many rows wait for a vector (`pending`) and how many cannot be embedded (`unembeddable`)."""
        sql = statements("maintenance")
        with self._connections.reading(limit=_LIMIT) as db:
            entries, turns = db.execute(sql["unmodelled_by_table"]).fetchone()
            found = {ENTRIES: {"pending": entries, "unembeddable": 0}, TURNS: {"pending": turns, "unembeddable": 0}}
            for is_turn, pending, unembeddable in db.execute(sql["vectors_by_table"]):
                table = found[TURNS if is_turn else ENTRIES]
                table["pending"] += pending
                table["unembeddable"] += unembeddable
        return found

    def agents(self) -> list[dict[str, Any]]:
        """Return every theme that has rows or was ever seen: its kind and its rows by table."""
        with self._connections.reading(limit=_LIMIT) as db:
            return [
                {"kind": kind, "theme": theme, ENTRIES: entries, TURNS: turns}
                for kind, theme, entries, turns in db.execute(statements("maintenance")["agents"])
            ]

    def forwarded(self) -> dict[str, int]:
        """Return the changes made under the old names by state: `waiting`, `held` (for the subject key), `failed`."""
        with self._connections.reading() as db:
            waiting, held, failed = db.execute(statements("maintenance")["forwarded"]).fetchone()
        return {"waiting": waiting, "held": held, "failed": failed}

    def set_dimension(self) -> None:
        """Note the dimension of the active model as the one that this store is made for."""
        with self._connections.writing(5.0) as db:
            db.execute(statements("maintenance")["set_dimension"])

    def wanting_indexes(self) -> list[tuple[str, int]]:
        """Return the themes that need an index of vectors and have none, with their rows; an empty name is that of all together."""
        with self._connections.reading(limit=_LIMIT) as db:
            return [(one.theme, one.rows) for one in vector_indexes.wanting(db)]

    def log(self, operation: str, table: str, pattern: str | None, count: int, details: Mapping[str, Any]) -> None:
        """Note what a command has done."""
        with self._connections.writing(5.0) as db:
            db.execute(statements("maintenance")["log"], (operation, table, pattern, count, None, json.dumps(details)))


def maintained(admin_dsn: str, *, dry_run: bool) -> list[vector_indexes.Step]:
    """Make missing vector indexes and clear away what was forgotten, as the administrator."""
    with translated("the database"), migrate.connect(admin_dsn) as admin:
        admin.autocommit = True
        steps = vector_indexes.maintain(admin, dry_run=dry_run)
        return [*steps, *(vector_indexes.Step("vacuum", table, "") for table in upkeep.clear(admin, dry_run=dry_run))]


def _ids(scopes: Sequence[Scope]) -> list[int]:
    return [scope.id for scope in scopes]
