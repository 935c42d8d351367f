"""The SQLite store: opening a file safely, and the Store protocol over the modules beside this one."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from hermes_mnemosyne._errors import StoreBusy, StoreFull, StoreUnavailable
from hermes_mnemosyne.clock import HybridClock, now_text, parse_utc, utc_text
from hermes_mnemosyne.store.exporting import Source, records
from hermes_mnemosyne.store.operations import Operation, Outcome
from hermes_mnemosyne.store.protocol import (
    EVERYTHING,
    Analyser,
    Candidate,
    ContentKey,
    Counts,
    Filter,
    LexicalQuery,
    Neighbours,
    Preview,
    Reach,
)
from hermes_mnemosyne.store.sqlite import indexing, migrate, opening, search, upkeep
from hermes_mnemosyne.store.sqlite.connections import Connections, Options
from hermes_mnemosyne.store.sqlite.figures import figures
from hermes_mnemosyne.store.sqlite.loading import load
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.sqlite.vector_store import SqliteVectors
from hermes_mnemosyne.store.writing.applying import apply
from hermes_mnemosyne.store.writing.database import Reading
from hermes_mnemosyne.store.writing.previewing import preview
from hermes_mnemosyne.store.writing.reindexing import PAUSE, Reindexer
from hermes_mnemosyne.store.writing.rows import TURN, entry_value, shelf_of, turn_value
from hermes_mnemosyne.store.writing.transaction import Dialect, Tools
from hermes_mnemosyne.values import Change, Entry, Turn

_KEPT = timedelta(days=30)
_QUIET = 1.0
# As long as a hook waits: a search waits no longer for rows of the last moment, see `unindexed`.
_INDEX_WAIT = 0.01
_RECENT_CHARS = 32_768
_MUCH_RECENT_CHARS = 262_144
_MOST_UNINDEXED = 2000


class SqliteStore(SqliteVectors):
    """One SQLite file of memories. Safe from any thread, after a fork, and beside other processes."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        analyser: Analyser,
        key: ContentKey,
        options: Options | None = None,
        *,
        wait: float = 5.0,
    ) -> None:
        """Open the file, made with its directory (modes 0600 and 0700) when it is missing, and apply missing migrations.

        Raises ForeignFile for a file of another program, SchemaMismatch for one of a newer release, StoreUnavailable for a
        network file system or a file that cannot be written, StoreBusy when a lock is not free within `wait` seconds.
        """
        options = options or Options()
        self.path = Path(path).absolute()
        self._analyser = analyser
        super().__init__(Connections(self.path, options), options.busy_timeout)
        self._forgotten_at = 0.0
        self._counts = search.TermCounts()
        opening.prepare(self._connections, analyser.version, wait)
        with self._connections.reading() as db:
            self._replica: str = db.execute(statements("read")["meta"], ("replica",)).fetchone()[0]
            self._old_index = db.execute(statements("read")["meta"], ("analyser",)).fetchone()[0] != str(analyser.version)
        self._backlog = indexing.Backlog()
        dialect = Dialect(
            statements("write"),
            partial(indexing.Index, backlog=self._backlog),
            migrate.known(),
            (sqlite3.IntegrityError,),
            json.dumps,
        )
        self._tools = Tools(dialect, analyser, key, HybridClock(self._replica))
        self._reindexer = Reindexer(self._connections, self._tools, statements("upkeep"))

    @property
    def replica(self) -> str:
        """The random id of this store."""
        return self._replica

    # -- writing -----------------------------------------------------------------------------------------------------------------

    def apply(self, ops: Sequence[Operation], *, wait: float = 5.0) -> list[Outcome]:
        """Apply operations in order in one transaction; see `Store.apply`."""
        outcomes = apply(self._connections, ops, self._tools, wait=wait)
        if any(outcome.status == "forgotten" for outcome in outcomes):
            self._forgotten_at = time.monotonic()
        if wait > _INDEX_WAIT and self._backlog.chars > _RECENT_CHARS:
            self._index_recent()
        return outcomes

    def preview(self, op: Operation) -> Preview:
        """Tell what a waiting operation would do, without doing it."""
        with self._connections.reading() as db:
            return preview(Reading(db, statements("write"), self._tools.key), op)

    def last_clock(self) -> str:
        """Return the greatest edit clock that the store holds."""
        with self._connections.reading() as db:
            clock: str = db.execute(statements("read")["sequence"]).fetchone()[1]
        return clock

    # -- reading -----------------------------------------------------------------------------------------------------------------

    def read(self, uid: str, reach: Reach) -> Entry | Turn | None:
        """Return the live row of this uid or alias within reach."""
        sql = statements("read")
        with self._connections.reading() as db:
            alias = db.execute(sql["alias"], (uid,)).fetchone()
            for name in dict.fromkeys((uid, alias[0] if alias else uid)):
                if row := db.execute(sql["entry_by_uid"], (name,)).fetchone():
                    value: Entry | Turn = entry_value(row)
                elif row := db.execute(sql["turn_by_uid"], (name,)).fetchone():
                    value = turn_value(row)
                else:
                    continue
                return value if reach.covers(value.theme, value.subject) else None
        return None

    def state(self, uid: str, reach: Reach) -> str:
        """Return `live`, `retired`, `forgotten` or `unknown`."""
        if self.read(uid, reach) is not None:
            return "live"
        with self._connections.reading() as db:
            alias = db.execute(statements("read")["alias"], (uid,)).fetchone()
            row = db.execute(statements("read")["grave"], (alias[0] if alias else uid,)).fetchone()
        return row[2] if row and reach.covers(row[0], row[1]) else "unknown"

    def load(self, ids: Sequence[int]) -> dict[int, Entry | Turn]:
        """Return live rows by row number."""
        with self._connections.reading() as db:
            return load(db, ids)

    def select(self, where: Filter, *, limit: int | None = 50, offset: int = 0, newest_first: bool = True) -> list[Entry | Turn]:
        """Return live rows ordered by write time, then uid."""
        with self._connections.reading() as db:
            values = {
                **search.params(where),
                "places": search.scopes_of(db, where.reach).places(where),
                "entries": "entry" in where.kinds,
                "turns": "turn" in where.kinds,
                "exclude": json.dumps(sorted(search.excluded_ids(db, where))) if where.exclude else None,
                "limit": -1 if limit is None else limit,
                "offset": offset,
            }
            name = "list_newest" if newest_first else "list_oldest"
            ids = [row[0] for row in db.execute(statements("read")[name], values)]
            rows = load(db, ids)
        return [rows[number] for number in ids]

    def history(self, uid: str, reach: Reach) -> list[Change]:
        """Return the changes of a row, oldest first."""
        sql = statements("read")
        with self._connections.reading() as db:
            alias = db.execute(sql["alias"], (uid,)).fetchone()
            rows = db.execute(sql["history"], (alias[0] if alias else uid,)).fetchall()
        changes = []
        for name, action, at, clock, text in rows:
            before = json.loads(text)
            if reach.covers(before.get("theme", ""), before.get("subject", "")):
                changes.append(Change(uid=name, action=action, at=at, clock=clock, before=before))
        return changes

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
            rows = search.scopes_of(db, reach).rows
        return [
            (theme, Counts(entries=memory + user, turns=turns, by_target={"memory": memory, "user": user}))
            for _, theme, _, memory, user, turns in rows
        ]

    def injected(self, theme: str, subject: str, session_id: str) -> frozenset[str]:
        """Return the uids marked as standing in the prompt of a session."""
        with self._connections.reading() as db:
            return frozenset(row[0] for row in db.execute(statements("read")["injected"], (theme, subject, session_id)))

    def file_stamp(self, theme: str, place: str) -> str:
        """Return the stamp kept for a mirrored file."""
        with self._connections.reading() as db:
            row = db.execute(statements("read")["stamp"], (theme, place)).fetchone()
        return row[0] if row else ""

    # -- searching ---------------------------------------------------------------------------------------------------------------

    def together(self) -> AbstractContextManager[None]:
        """Do nothing: what is looked up is remembered by each connection."""
        return nullcontext()

    def size(self, where: Filter) -> int:
        """Return the number of rows within the reach, kinds and target of a filter."""
        with self._connections.reading() as db:
            return search.scopes_of(db, where.reach).size(where)

    def session_turns(self, where: Filter) -> int:
        """Return the number of turns within reach of the filter's session."""
        with self._connections.reading() as db:
            ids = json.dumps(search.scopes_of(db, where.reach).ids())
            count: int = db.execute(statements("search")["session_turns"], (where.session_id, ids)).fetchone()[0]
        return count

    def unindexed(self, reach: Reach) -> list[Entry | Turn]:
        """Return rows that no search finds, because another process keeps them from being indexed just now."""
        if self._index_recent():
            return []
        with self._connections.reading() as db:
            scopes = json.dumps(search.scopes_of(db, reach).ids())
            ids = [row[0] for row in db.execute(statements("upkeep")["recent_within"], (scopes, _MOST_UNINDEXED))]
            rows = load(db, ids)
        return [row for row in rows.values() if reach.covers(row.theme, row.subject)]

    def _index_recent(self, *, pause: float = 0.0) -> bool:
        """Move the rows of the latest writes into the index; False when the file cannot be written now."""
        with self._connections.reading() as db:
            if not indexing.has_recent(db):
                return True
        try:
            self._backlog.chars = 0
            indexing.index_recent(self._connections, wait=_INDEX_WAIT, pause=pause)
        except (StoreBusy, StoreFull, StoreUnavailable):
            return False
        return True

    @contextmanager
    def _searching(self) -> Iterator[sqlite3.Connection]:
        """Lend a reader whose index lacks nothing, as far as that can be had."""
        with self._connections.reading() as db:
            if not indexing.has_recent(db):
                yield db
                return
        self._index_recent()
        with self._connections.reading() as db:
            yield db

    def term_counts(self, terms: Sequence[str], where: Filter, *, ceiling: int) -> dict[str, int]:
        """Return in how many rows each term stands, counted up to `ceiling`."""
        with self._searching() as db:
            return self._counts.get(db, terms, where, ceiling)

    def lexical(self, query: LexicalQuery, where: Filter) -> list[Candidate]:
        """Return the best matching rows, best first."""
        with self._searching() as db:
            return search.lexical(db, query, where)

    def terms_in(self, ids: Sequence[int], terms: Sequence[str]) -> dict[int, frozenset[str]]:
        """Return which of the terms stand in the text of each row."""
        with self._connections.reading() as db:
            return search.terms_in(db, ids, terms)

    def is_turn(self, number: int) -> bool:
        """Tell whether a row number is that of a turn."""
        return shelf_of(number) == TURN

    def speakers(self, reach: Reach) -> frozenset[str]:
        """Return the known speakers within reach."""
        with self._connections.reading() as db:
            scopes = search.scopes_of(db, reach)
            if not any(turns for *_, turns in scopes.rows):
                return frozenset()
            return frozenset(row[0] for row in db.execute(statements("search")["speakers"], (json.dumps(scopes.ids()),)))

    def neighbours(self, ids: Sequence[int]) -> dict[int, Neighbours]:
        """Return the neighbours of turns within their sessions."""
        turns = [number for number in ids if self.is_turn(number)]
        if not turns:
            return {}
        with self._connections.reading() as db:
            rows = db.execute(statements("search")["beside"], (json.dumps(turns),)).fetchall()
        return {row: Neighbours(before, after) for row, before, after in rows}

    # -- moving ------------------------------------------------------------------------------------------------------------------

    def export(self, reach: Reach) -> Iterator[dict[str, Any]]:
        """Yield every authored record within reach, all of one moment."""
        with self._connections.reading() as db:
            db.execute("BEGIN")
            try:
                within = {(row[1], row[2]) for row in search.Scopes(db, reach).rows}
                sql = statements("read")
                source = Source(lambda name, values=(): db.execute(sql[name], values), partial(load, db))
                yield from records(source, within)
            finally:
                db.execute("ROLLBACK")

    # -- upkeep ------------------------------------------------------------------------------------------------------------------

    def upkeep(self, *, seconds: float, hurry: bool = True) -> bool:
        """Do due work as far as time allows; True when nothing is left."""
        now = time.monotonic()
        until = now + seconds
        done = upkeep.erase(self._connections, until=until, hurry=hurry or now > self._forgotten_at + _QUIET)
        done = self._reindexer.contexts(until=until) and done
        if self._old_index:
            _, finished = self._reindexer.rows(only_old=True, until=until)
            self._old_index = not finished
            done = done and finished
        done = self._index_recent(pause=PAUSE) and done
        return self.remove_old_vectors(until=until) and done

    def prune(self) -> None:
        """Drop book-keeping that has served: ids of spooled operations and prompt marks after thirty days."""
        before = utc_text(parse_utc(now_text()) - _KEPT)
        with self._connections.writing(self._wait) as db:
            db.execute(statements("upkeep")["prune_ops"], (before,))
            db.execute(statements("upkeep")["prune_injected"], (before,))

    def reindex(self) -> int:
        """Rebuild the full-text index and the counters from the rows and return how many rows there are.

        What is noted of vectors is set right too. A file that was too large to be compacted after an erasure is compacted now.
        """
        with self._connections.writing(self._wait) as db:
            upkeep.repair(db)
        done, _ = self._reindexer.rows(only_old=False)
        self._index_recent()
        if self.meta("compaction_due"):
            upkeep.compact(self._connections)
        return done

    @property
    def is_behind(self) -> bool:
        """Whether this process has written so much since the last upkeep or search that the next one would take long."""
        return self._backlog.chars > _MUCH_RECENT_CHARS

    def due(self) -> bool:
        """Tell whether there is work for `upkeep`."""
        return (
            self._old_index
            or upkeep.pending(self._connections) > 0
            or upkeep.has_unfinished_rows(self._connections)
            or self.has_old_vectors()
        )

    def check(self) -> list[str]:
        """Return what an integrity check finds wrong."""
        return upkeep.check(self._connections)

    def meta(self, key: str) -> str | None:
        """Return a value that all processes on this store share."""
        with self._connections.reading() as db:
            row = db.execute(statements("read")["meta"], (key,)).fetchone()
        return row[0] if row else None

    def set_meta_once(self, key: str, value: str) -> None:
        """Record a shared value unless there is one already."""
        with self._connections.writing(self._wait) as db:
            db.execute(statements("upkeep")["save_meta_once"], (key, value))

    def stats(self, reach: Reach = EVERYTHING) -> dict[str, Any]:
        """Return figures for `stats` and `doctor`; those of rows are of what lies within reach."""
        with self._connections.reading() as db:
            found = figures(db, reach)
        return {
            **found,
            "replica": self._replica,
            "bytes": sum(file.stat().st_size for file in self.files() if file.exists()),
            "connections": self._connections.open_count(),
            "sqlite": sqlite3.sqlite_version,
        }

    def files(self) -> list[Path]:
        """Return the database file and its companions."""
        return opening.files(self.path)

    def close(self) -> None:
        """Close every connection."""
        self._connections.close()

    def abandon(self) -> None:
        """Begin anew in a forked child."""
        self._connections.abandon()


def _total(parts: list[Counts]) -> Counts:
    targets = {name: sum(part.by_target[name] for part in parts) for name in ("memory", "user")}
    return Counts(entries=sum(targets.values()), turns=sum(part.turns for part in parts), by_target=targets)
