"""What every store answers in the same way, over the named statements of each."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from hermes_mnemosyne.clock import now_text, parse_utc, utc_text
from hermes_mnemosyne.store.operations import Operation
from hermes_mnemosyne.store.protocol import Counts, Filter, Neighbours, Preview, Reach
from hermes_mnemosyne.store.scopes import ScopeRows
from hermes_mnemosyne.store.writing.database import Connections, Reading
from hermes_mnemosyne.store.writing.previewing import preview
from hermes_mnemosyne.store.writing.rows import TURN, entry_value, shelf_of, turn_value
from hermes_mnemosyne.store.writing.transaction import Tools
from hermes_mnemosyne.values import Change, Entry, Turn

_KEPT = timedelta(days=30)
_FIGURES = ("history", "retired", "forgotten", "aliases", "superseded", "expired", "memory", "user", "turns", "themes")


class StoreReads(ABC):
    """The methods of the Store protocol that are the same for every store."""

    _replica: str
    _tools: Tools

    def __init__(
        self,
        connections: Connections,
        wait: float,
        statements: Callable[[str], Mapping[str, str]],
        many: Callable[[Sequence[Any]], Any],
    ) -> None:
        """Read by these connections; a write waits `wait` seconds for the lock.

        `statements` returns those of a file by name, `many` makes one parameter of a list.
        """
        self._connections = connections
        self._wait = wait
        self._statements = statements
        self._many = many

    @abstractmethod
    def read(self, uid: str, reach: Reach) -> Entry | Turn | None:
        """Return the live row of this uid or alias within reach."""

    @abstractmethod
    def _scopes(self, db: Any, reach: Reach) -> ScopeRows:
        """Return the scopes within reach."""

    @property
    def replica(self) -> str:
        """The random id of this store."""
        return self._replica

    def preview(self, op: Operation) -> Preview:
        """Tell what a waiting operation would do, without doing it."""
        with self._connections.reading() as db:
            return preview(Reading(db, self._statements("write"), self._tools.key), op)

    def last_clock(self) -> str:
        """Return the greatest edit clock that the store holds."""
        clock: str = self._rows("read", "sequence")[0][1]
        return clock

    # -- rows --------------------------------------------------------------------------------------------------------------------

    def state(self, uid: str, reach: Reach) -> str:
        """Return `live`, `retired`, `forgotten` or `unknown`."""
        if self.read(uid, reach) is not None:
            return "live"
        with self._connections.reading() as db:
            row = db.execute(self._statements("read")["grave"], (self._survivor(db, uid),)).fetchone()
        return row[2] if row and reach.covers(row[0], row[1]) else "unknown"

    def load(self, ids: Sequence[int]) -> dict[int, Entry | Turn]:
        """Return live rows by row number."""
        with self._connections.reading() as db:
            return self._load(db, ids)

    def history(self, uid: str, reach: Reach) -> list[Change]:
        """Return the changes of a row, oldest first."""
        with self._connections.reading() as db:
            rows = db.execute(self._statements("read")["history"], (self._survivor(db, uid),)).fetchall()
        changes = []
        for name, action, at, clock, text in rows:
            before = json.loads(text)
            if reach.covers(before.get("theme", ""), before.get("subject", "")):
                changes.append(Change(uid=name, action=action, at=at, clock=clock, before=before))
        return changes

    def is_turn(self, number: int) -> bool:
        """Tell whether a row number is that of a turn."""
        return shelf_of(number) == TURN

    def neighbours(self, ids: Sequence[int]) -> dict[int, Neighbours]:
        """Return the neighbours of turns within their sessions."""
        turns = [number for number in ids if self.is_turn(number)]
        rows = self._rows("search", "beside", self._many(turns)) if turns else []
        return {row: Neighbours(before, after) for row, before, after in rows}

    # -- within reach ------------------------------------------------------------------------------------------------------------

    def size(self, where: Filter) -> int:
        """Return the number of rows within the reach, kinds and target of a filter."""
        with self._connections.reading() as db:
            return self._scopes(db, where.reach).size(where)

    def counts(self, reach: Reach) -> Counts:
        """Return the number of live rows within reach."""
        return _total([counts for _, counts in self._by_scope(reach)])

    def themes(self, reach: Reach) -> dict[str, Counts]:
        """Return the counts of every theme within reach."""
        found: dict[str, list[Counts]] = {}
        for theme, counts in self._by_scope(reach):
            if counts.entries or counts.turns:
                found.setdefault(theme, []).append(counts)
        return {theme: _total(parts) for theme, parts in sorted(found.items())}

    def _by_scope(self, reach: Reach) -> list[tuple[str, Counts]]:
        with self._connections.reading() as db:
            rows = self._scopes(db, reach).rows
        return [
            (theme, Counts(entries=memory + user, turns=turns, by_target={"memory": memory, "user": user}))
            for _, theme, _, memory, user, turns in rows
        ]

    def speakers(self, reach: Reach) -> frozenset[str]:
        """Return the known speakers within reach; of very many those who have spoken most."""
        with self._connections.reading() as db:
            scopes = self._scopes(db, reach)
            if not any(turns for *_, turns in scopes.rows):
                return frozenset()
            rows = db.execute(self._statements("search")["speakers"], (self._many(scopes.ids()),)).fetchall()
        return frozenset(row[0] for row in rows)

    # -- what stands beside the rows ---------------------------------------------------------------------------------------------

    def injected(self, theme: str, subject: str, session_id: str) -> frozenset[str]:
        """Return the uids marked as standing in the prompt of a session."""
        return frozenset(row[0] for row in self._rows("read", "injected", theme, subject, session_id))

    def file_stamp(self, theme: str, place: str) -> str:
        """Return the stamp kept for a mirrored file."""
        rows = self._rows("read", "stamp", theme, place)
        return rows[0][0] if rows else ""

    def meta(self, key: str) -> str | None:
        """Return a value that all processes on this store share."""
        rows = self._rows("read", "meta", key)
        return rows[0][0] if rows else None

    def set_meta_once(self, key: str, value: str) -> None:
        """Record a shared value unless there is one already."""
        with self._connections.writing(self._wait) as db:
            db.execute(self._statements("upkeep")["save_meta_once"], (key, value))

    def prune(self) -> None:
        """Drop book-keeping that has served: ids of spooled operations and prompt marks after thirty days."""
        before = utc_text(parse_utc(now_text()) - _KEPT)
        with self._connections.writing(self._wait) as db:
            db.execute(self._statements("upkeep")["prune_ops"], (before,))
            db.execute(self._statements("upkeep")["prune_injected"], (before,))

    # -- for the methods that each store has of its own --------------------------------------------------------------------------

    def _rows(self, file: str, name: str, *values: Any) -> list[Any]:
        """Return the rows of a named statement."""
        with self._connections.reading() as db:
            rows: list[Any] = db.execute(self._statements(file)[name], values).fetchall()
        return rows

    def _survivor(self, db: Any, uid: str) -> str:
        """Return the uid that a row goes by now."""
        alias = db.execute(self._statements("read")["alias"], (uid,)).fetchone()
        return alias[0] if alias else uid

    def _load(self, db: Any, ids: Sequence[int]) -> dict[int, Entry | Turn]:
        """Return live rows by row number."""
        sql = self._statements("read")
        found: dict[int, Entry | Turn] = {}
        entries = [number for number in ids if not self.is_turn(number)]
        turns = [number for number in ids if self.is_turn(number)]
        if entries:
            found.update((row[0], entry_value(row)) for row in db.execute(sql["entries_by_id"], (self._many(entries),)))
        if turns:
            found.update((row[0], turn_value(row)) for row in db.execute(sql["turns_by_id"], (self._many(turns),)))
        return found

    def _metas(self, db: Any, *keys: str) -> dict[str, str]:
        """Return those of these shared values that there are."""
        return dict(db.execute(self._statements("read")["metas"], (self._many(keys),)).fetchall())

    def _figures(self, db: Any, reach: Reach, *counted: str) -> dict[str, Any]:
        """Return the rows within reach, these counts of pending work, the schema, and the vectors per model."""
        sql = self._statements("read")
        asked = {"scopes": self._many(self._scopes(db, reach).ids()), "now": now_text()}
        rows = dict(zip(_FIGURES, db.execute(sql["figures"], asked).fetchone(), strict=True))
        metas = self._metas(db, *counted)
        schema = [row[0] for row in db.execute(sql["applied"])]
        return {
            **rows,
            **{key: int(metas.get(key, 0)) for key in counted},
            "schema": schema[-1] if schema else "",
            "models": [
                {"model": name, "dimension": dimension, "vectors": count}
                for name, dimension, count in db.execute(sql["vector_figures"])
            ],
        }


def _total(parts: list[Counts]) -> Counts:
    targets = {name: sum(part.by_target[name] for part in parts) for name in ("memory", "user")}
    return Counts(entries=sum(targets.values()), turns=sum(part.turns for part in parts), by_target=targets)
