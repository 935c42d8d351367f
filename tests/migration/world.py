"""Our side of an adoption: a store, what moves old rows into it, and plain SQL beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hermes_mnemosyne.clock import HybridClock, now_text, uuid7
from hermes_mnemosyne.keys import SubjectKey
from hermes_mnemosyne.recall.analyse import TextAnalyser
from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    EditEntry,
    Forget,
    Operation,
    Outcome,
    Retire,
    TurnText,
    Undo,
)
from hermes_mnemosyne.store.postgres import adopting, finishing, forwarded, migrate, old_vectors
from hermes_mnemosyne.store.postgres.adopting import Adoption
from hermes_mnemosyne.store.postgres.store import PostgresStore
from hermes_mnemosyne.store.protocol import EVERYTHING, Filter
from hermes_mnemosyne.values import Entry, Turn
from tests.postgres.databases import PgDatabase
from tests.postgres.fixtures import RUNTIME_ROLE


@dataclass
class World:
    """One open store."""

    database: PgDatabase
    store: PostgresStore
    clock: HybridClock

    @classmethod
    @contextmanager
    def open(
        cls, database: PgDatabase, key: Path, *, keyed: bool = True, runtime: bool = False, partitions: int = 0
    ) -> Iterator[Self]:
        migrate.migrate(database.admin_dsn, runtime_role=RUNTIME_ROLE, analyser=TextAnalyser.version, partitions=partitions)
        subject_key = SubjectKey(key if keyed else key.with_name("none"), create=keyed)
        store = PostgresStore(database.dsn if runtime else database.admin_dsn, TextAnalyser(), subject_key)
        try:
            yield cls(database, store, HybridClock(store.replica))
        finally:
            store.close()

    @property
    def parts(self) -> tuple[Any, Any]:
        return self.store._connections, self.store._tools  # noqa: SLF001 - as the maintenance commands do

    def adopt(self, **options: Any) -> Adoption:
        return adopting.adopt(*self.parts, **options)

    def is_due(self) -> bool:
        connections, tools = self.parts
        with connections.reading() as db:
            return adopting.due(db, tools.key)

    def adopt_vectors(self, key: str, embed: old_vectors.Embed) -> old_vectors.OldVectors:
        return old_vectors.adopt_vectors(self.parts[0], old_vectors.Model(key, 768, embed))

    def drain(self) -> int:
        count = 0
        while done := forwarded.drain(*self.parts):
            count += done
        return count

    def verify(self) -> None:
        adopting.verify(*self.parts)

    def finish(self) -> list[str]:
        return finishing.finish(*self.parts, runtime_role=RUNTIME_ROLE)

    def back(self) -> finishing.Return:
        return finishing.back(self.parts[0])

    # -- our own doings ----------------------------------------------------------------------------------------------------------

    def rows(self) -> list[Entry | Turn]:
        return self.store.select(Filter(reach=EVERYTHING), limit=None, newest_first=False)

    def texts(self) -> list[str]:
        return sorted(row.content for row in self.rows())

    def row(self, text: str) -> Entry | Turn:
        found = [row for row in self.rows() if text in row.content]
        assert len(found) == 1, found
        return found[0]

    def apply(self, kind: type[Operation], row: Entry | Turn, **fields: Any) -> Outcome:
        op = kind(op_id="", clock=self.clock.tick(), at=now_text(), theme=row.theme, subject=row.subject, uid=row.uid, **fields)  # type: ignore[call-arg]
        return self.store.apply([op])[0]

    def edit(self, row: Entry | Turn, text: str) -> Outcome:
        return self.apply(EditEntry, row, changes={"content": text})

    def forget(self, row: Entry | Turn) -> Outcome:
        return self.apply(Forget, row)

    def retire(self, row: Entry | Turn) -> Outcome:
        return self.apply(Retire, row)

    def undo(self, row: Entry | Turn) -> Outcome:
        return self.apply(Undo, row)

    def add(self, theme: str, text: str) -> Outcome:
        head = {"op_id": "", "clock": self.clock.tick(), "at": now_text(), "theme": theme, "uid": uuid7()}
        return self.store.apply([AddEntry(**head, content=text)])[0]

    def capture(self, theme: str, session: str, texts: list[str]) -> Outcome:
        head = {"op_id": "", "clock": self.clock.tick(), "at": now_text(), "theme": theme}
        turns = tuple(TurnText(uid=uuid7(), role="user", content=text) for text in texts)
        return self.store.apply([CaptureTurns(**head, session_id=session, turns=turns)])[0]

    def sql(self, statement: str, *values: Any, runtime: bool = False) -> list[tuple[Any, ...]]:
        return sql(self.database.dsn if runtime else self.database.admin_dsn, statement, *values)


def sql(dsn: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as db:
        cursor = db.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []
