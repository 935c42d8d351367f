"""The Postgres store: the Store protocol over the modules beside this one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg

from hermes_mnemosyne._errors import StoreBusy, StoreFull, StoreUnavailable
from hermes_mnemosyne.clock import HybridClock
from hermes_mnemosyne.store.exporting import Source, records
from hermes_mnemosyne.store.operations import Operation, Outcome
from hermes_mnemosyne.store.postgres import adopting, forwarded, indexing, ledger, schema, search, statistics, upkeep
from hermes_mnemosyne.store.postgres.connections import Connections, PostgresOptions
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.errors import REJECTIONS
from hermes_mnemosyne.store.postgres.foreseeing import foresee
from hermes_mnemosyne.store.postgres.indexing import Index
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.postgres.vector_store import PostgresVectors
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
from hermes_mnemosyne.store.writing.applying import apply
from hermes_mnemosyne.store.writing.reindexing import Reindexer
from hermes_mnemosyne.store.writing.rows import entry_value, turn_value
from hermes_mnemosyne.store.writing.transaction import Dialect, Tools
from hermes_mnemosyne.values import Entry, Turn

_KEPT = timedelta(days=30)
# Changes of old writers that are applied in one transaction; a search waits no longer for the lock than a hook would.
_FORWARDED = 200
_FORWARD_WAIT = 0.05
# One round of sync at a time, whatever host it runs on.
_ROUND_LOCK = 0x4D6E5379
_LONGEST_ROUND = 24 * 3600.0


class PostgresStore(PostgresVectors, StoreSealed):
    """One Postgres database of memories. Safe from any thread, after a fork, and beside other processes and hosts."""

    def __init__(
        self, dsn: str, analyser: Analyser, key: ContentKey, options: PostgresOptions | None = None, *, wait: float = 5.0
    ) -> None:
        """Connect to the database of a libpq connection string or URI and look at its schema, which is never changed here.

        Raises SchemaNotApplied, SchemaMismatch, StoreUnavailable when the server cannot be reached, StoreBusy.
        """
        options = options or PostgresOptions()
        connections = Connections(dsn, options)
        super().__init__(connections, options.busy_timeout)
        self._counts = search.TermCounts()
        try:
            with connections.reading(wait=wait) as db:
                ledger.verify(db)
                metas = self._metas(db, "replica", "analyser")
        except BaseException:
            connections.close()
            raise
        self._replica = metas["replica"]
        self._old_index = metas["analyser"] != str(analyser.version)
        dialect = Dialect(
            statements("write"),
            Index,
            schema.newest(),
            REJECTIONS,
            list,
            Database.batched,
            foresee,
            indexing.words,
            doubtful=True,
        )
        self._tools = Tools(dialect, analyser, key, HybridClock(self._replica))
        self._reindexer = Reindexer(connections, self._tools, statements("upkeep"))

    # -- writing -----------------------------------------------------------------------------------------------------------------

    def apply(self, ops: Sequence[Operation], *, wait: float = 5.0) -> list[Outcome]:
        """Apply operations in order in one transaction; see `Store.apply`."""
        outcomes = apply(self._connections, ops, self._tools, wait=wait)
        self._take_name(ops, outcomes)
        return outcomes

    # -- reading -----------------------------------------------------------------------------------------------------------------

    def read(self, uid: str, reach: Reach) -> Entry | Turn | None:
        """Return the live row of this uid or alias within reach."""
        sql = statements("read")
        with self._connections.reading() as db:
            names = list(dict.fromkeys((uid, self._survivor(db, uid))))
            if row := db.execute(sql["entry_by_uid"], (names,)).fetchone():
                value: Entry | Turn = entry_value(row)
            elif row := db.execute(sql["turn_by_uid"], (names,)).fetchone():
                value = turn_value(row)
            else:
                return None
        return value if reach.covers(value.theme, value.subject) else None

    def select(self, where: Filter, *, limit: int | None = 50, offset: int = 0, newest_first: bool = True) -> list[Entry | Turn]:
        """Return live rows ordered by write time, then uid."""
        with self._connections.reading() as db:
            values = {
                **search.params(where),
                "scopes": search.scopes_of(db, where.reach).ids(),
                "entries": "entry" in where.kinds,
                "turns": "turn" in where.kinds,
                "target": where.target,
                "exclude": search.excluded_ids(db, where),
                "most": None if limit is None else limit + offset,
                "limit": limit,
                "offset": offset,
            }
            name = "list_newest" if newest_first else "list_oldest"
            ids = [row[0] for row in db.execute(statements("read")[name], values, prepare=False)]
            rows = self._load(db, ids)
        return [rows[number] for number in ids if number in rows]

    # -- searching ---------------------------------------------------------------------------------------------------------------

    def together(self) -> AbstractContextManager[None]:
        """Let the searches of a block share the scopes that they look up."""
        return search.sharing()

    def session_turns(self, where: Filter) -> int:
        """Return the number of turns within reach of the filter's session."""
        with self._connections.reading() as db:
            return search.session_turns(db, where)

    def unindexed(self, reach: Reach) -> list[Entry | Turn]:  # noqa: ARG002 - tokens are committed with their rows
        """Apply what old writers have done, as far as that can be done now; beyond it no row is without its tokens."""
        with suppress(StoreBusy, StoreFull, StoreUnavailable):
            with self._connections.reading() as db:
                waits = forwarded.waiting(db)
            if waits:
                forwarded.drain(self._connections, self._tools, _FORWARDED, wait=_FORWARD_WAIT)
        return []

    def term_counts(self, terms: Sequence[str], where: Filter, *, ceiling: int) -> dict[str, int]:
        """Return in how many rows each term stands, counted up to `ceiling`."""
        with self._connections.reading() as db:
            return self._counts.get(db, terms, where, ceiling)

    def lexical(self, query: LexicalQuery, where: Filter) -> list[Candidate]:
        """Return the best matching rows, best first."""
        with self._connections.reading() as db:
            return search.lexical(db, query, where, self._counts)

    def terms_in(self, ids: Sequence[int], terms: Sequence[str]) -> dict[int, frozenset[str]]:
        """Return which of the terms stand in the text of each row."""
        with self._connections.reading() as db:
            return search.terms_in(db, ids, terms)

    # -- moving ------------------------------------------------------------------------------------------------------------------

    def export(self, reach: Reach) -> Iterator[dict[str, Any]]:
        """Yield every authored record within reach, all of one moment."""
        sql = statements("read")

        def stream(name: str, values: Sequence[Any] = ()) -> Iterable[Any]:
            if values:
                return db.execute(sql[name], values).fetchall()
            return db.stream(sql[name])

        with self._connections.moment(limit=upkeep.LONG) as db:
            within = {(row[1], row[2]) for row in search.Scopes(db, reach).rows}
            yield from records(Source(stream, partial(self._load, db)), within)

    def only_round(self) -> AbstractContextManager[bool]:
        """Hold the lock of rounds of sync, unless another process or host does."""
        return self._connections.alone(_ROUND_LOCK, limit=_LONGEST_ROUND)

    def _moment(self) -> AbstractContextManager[Database]:
        return self._connections.moment(limit=upkeep.LONG)

    def _floats(self, vector: Any) -> list[float]:
        return list(vector)

    # -- upkeep ------------------------------------------------------------------------------------------------------------------

    def upkeep(self, *, seconds: float, hurry: bool = True) -> bool:
        """Do due work as far as time allows; True when nothing is left."""
        until = time.monotonic() + seconds
        done = self._take_forwarded(until)
        self._take_over()
        if hurry:
            upkeep.erase(self._connections)
        done = self._reindexer.contexts(until=until) and done
        if self._old_index:
            _, finished = self._reindexer.rows(only_old=True, until=until)
            self._old_index = not finished
            done = done and finished
        done = statistics.renew(self._connections, until) and done
        return self.remove_old_vectors(until=until) and done

    def _take_over(self) -> None:
        """Copy old rows of contacts that whoever ran migrate could not tell apart, where this host has the subject key."""
        with self._connections.reading() as db:
            due = adopting.due(db, self._tools.key)
        if due:
            adopting.adopt(self._connections, self._tools)

    def _take_forwarded(self, until: float) -> bool:
        """Apply what old writers have done; True when nothing is left that this host can apply."""
        while time.monotonic() <= until:
            if not forwarded.drain(self._connections, self._tools, _FORWARDED):
                return True
        return False

    def reindex(self) -> int:
        """Rebuild the full-text index and the counters from the rows and return how many rows there are."""
        with self._connections.writing(self._wait, limit=upkeep.LONG) as db:
            upkeep.repair(db)
        done, _ = self._reindexer.rows(only_old=False)
        return done

    @property
    def is_behind(self) -> bool:
        """False: tokens are committed with their rows."""
        return False

    def due(self) -> bool:
        """Tell whether there is work for `upkeep`."""
        with self._connections.reading() as db:
            if adopting.due(db, self._tools.key) or forwarded.waiting(db):
                return True
            if self._old_index or statistics.due(db) or db.execute(statements("upkeep")["stale"], (1,)).fetchone():
                return True
            if upkeep.pending(db) and upkeep.may_vacuum(db):
                return True
        return self.has_old_vectors()

    def check(self) -> list[str]:
        """Return what an integrity check finds wrong."""
        return upkeep.check(self._connections)

    def stats(self, reach: Reach = EVERYTHING) -> dict[str, Any]:
        """Return figures for `stats` and `doctor`; those of rows are of what lies within reach."""
        with self._connections.reading() as db:
            found = self._figures(db, reach, "erasures_pending", "refused")
            server, extension = db.execute(statements("read")["server"]).fetchone()
            size = db.execute(statements("read")["bytes"]).fetchone()[0]
        pool = self._connections.figures()
        return {
            **found,
            "bytes": size,
            "postgres": server,
            "pgvector": extension,
            "replica": self._replica,
            "connections": pool["size"],
            "pool": pool,
            "psycopg": psycopg.__version__,
        }

    def close(self) -> None:
        """Give the connections back."""
        self._connections.close()

    def abandon(self) -> None:
        """Begin anew in a forked child."""
        self._connections.abandon()
