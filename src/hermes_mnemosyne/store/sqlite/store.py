"""The SQLite store: opening a file safely, and the Store protocol over the modules beside this one."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from hermes_mnemosyne._errors import StoreBusy, StoreFull, StoreUnavailable
from hermes_mnemosyne.clock import HybridClock
from hermes_mnemosyne.store.exporting import Source, records
from hermes_mnemosyne.store.operations import Operation, Outcome
from hermes_mnemosyne.store.protocol import (
    EVERYTHING,
    Analyser,
    Candidate,
    ContentKey,
    Filter,
    LexicalQuery,
    Reach,
)
from hermes_mnemosyne.store.sealed import StoreSealed
from hermes_mnemosyne.store.sqlite import indexing, migrate, opening, search, upkeep
from hermes_mnemosyne.store.sqlite.connections import Connections, Options
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.sqlite.vector_store import SqliteVectors
from hermes_mnemosyne.store.writing.applying import apply
from hermes_mnemosyne.store.writing.reindexing import PAUSE, Reindexer
from hermes_mnemosyne.store.writing.rows import entry_value, turn_value
from hermes_mnemosyne.store.writing.transaction import Dialect, Tools
from hermes_mnemosyne.values import Entry, Turn

_KEPT = timedelta(days=30)
_QUIET = 1.0
# As long as a hook waits: a search waits no longer for rows of the last moment, see `unindexed`.
_INDEX_WAIT = 0.01
_RECENT_CHARS = 32_768
_MUCH_RECENT_CHARS = 262_144
_MOST_UNINDEXED = 2000


class SqliteStore(SqliteVectors, StoreSealed):
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
            metas = self._metas(db, "replica", "analyser")
        self._replica = metas["replica"]
        self._old_index = metas["analyser"] != str(analyser.version)
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

    # -- writing -----------------------------------------------------------------------------------------------------------------

    def apply(self, ops: Sequence[Operation], *, wait: float = 5.0) -> list[Outcome]:
        """Apply operations in order in one transaction; see `Store.apply`."""
        outcomes = apply(self._connections, ops, self._tools, wait=wait)
        self._take_name(ops, outcomes)
        if any(outcome.status == "forgotten" for outcome in outcomes):
            self._forgotten_at = time.monotonic()
        if wait > _INDEX_WAIT and self._backlog.chars > _RECENT_CHARS:
            self._index_recent()
        return outcomes

    # -- reading -----------------------------------------------------------------------------------------------------------------

    def read(self, uid: str, reach: Reach) -> Entry | Turn | None:
        """Return the live row of this uid or alias within reach."""
        sql = statements("read")
        with self._connections.reading() as db:
            for name in dict.fromkeys((uid, self._survivor(db, uid))):
                if row := db.execute(sql["entry_by_uid"], (name,)).fetchone():
                    value: Entry | Turn = entry_value(row)
                elif row := db.execute(sql["turn_by_uid"], (name,)).fetchone():
                    value = turn_value(row)
                else:
                    continue
                return value if reach.covers(value.theme, value.subject) else None
        return None

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
            rows = self._load(db, ids)
        return [rows[number] for number in ids]

    # -- searching ---------------------------------------------------------------------------------------------------------------

    def together(self) -> AbstractContextManager[None]:
        """Do nothing: what is looked up is remembered by each connection."""
        return nullcontext()

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
            rows = self._load(db, ids)
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

    # -- moving ------------------------------------------------------------------------------------------------------------------

    def export(self, reach: Reach) -> Iterator[dict[str, Any]]:
        """Yield every authored record within reach, all of one moment."""
        with self._moment() as db:
            within = {(row[1], row[2]) for row in search.Scopes(db, reach).rows}
            sql = statements("read")
            source = Source(lambda name, values=(): db.execute(sql[name], values), partial(self._load, db))
            yield from records(source, within)

    def only_round(self) -> AbstractContextManager[bool]:
        """Yield True: who may sync a file is settled by a lock file beside it."""
        return nullcontext(enter_result=True)

    @contextmanager
    def _moment(self) -> Iterator[sqlite3.Connection]:
        with self._connections.reading() as db:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("ROLLBACK")

    def _floats(self, vector: Any) -> list[float]:
        return list(struct.unpack(f"<{len(vector) // 4}f", vector))

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

    def stats(self, reach: Reach = EVERYTHING) -> dict[str, Any]:
        """Return figures for `stats` and `doctor`; those of rows are of what lies within reach."""
        with self._connections.reading() as db:
            found = self._figures(db, reach, "erasures_pending", "refused", "compaction_due")
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
