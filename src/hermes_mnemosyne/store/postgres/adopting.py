"""Adoption: the rows of the old tables are copied online, in batches that go on where the last one ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hermes_mnemosyne._errors import StoreUnavailable
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.store.postgres import forwarded
from hermes_mnemosyne.store.postgres.connections import Connections
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.old_names import COPIED, JOBS
from hermes_mnemosyne.store.postgres.old_rows import OldRow, Reader
from hermes_mnemosyne.store.postgres.old_tables import Found, OldTable
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.postgres.taking import prepare, take, take_many
from hermes_mnemosyne.store.protocol import ContentKey
from hermes_mnemosyne.store.release import release
from hermes_mnemosyne.store.writing.applying import Prepared
from hermes_mnemosyne.store.writing.transaction import REJECTIONS, Tools, Transaction
from hermes_mnemosyne.text import content_hash

_BATCH = 200
_WAIT = 60.0
_MOST_NAMED = 5


@dataclass(slots=True)
class Adoption:
    """What has become of the old rows: by table how many were `added`, `exists`, `refused`, `blank`, `held`, `failed`.

    `held` ones belong to contacts and wait for a host with the subject key; `problems` name rows that could not be taken.
    """

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    forwarded: int = 0

    @property
    def complete(self) -> bool:
        """Whether every old row has been taken."""
        return not any(counts["held"] or counts["failed"] for counts in self.counts.values())


def adopt(connections: Connections, tools: Tools, *, step: Callable[[str, int], None] | None = None) -> Adoption:
    """Copy what has not been copied of the old tables and apply what waits.

    May be stopped at any time and run again. `step` is told of every batch its table and how many rows it had.
    """
    done = Adoption()
    for name in COPIED:
        with connections.reading() as db:
            table = OldTable.find(db, name)
        if table is not None:
            done.counts[name] = _copy(connections, tools, table, done.problems, step)
    while count := forwarded.drain(connections, tools, wait=_WAIT):
        done.forwarded += count
    return done


def due(db: Database, key: ContentKey) -> bool:
    """Tell whether `adopt` has something to do for whoever has this key: a copy not begun, or rows of contacts left for lack of it."""
    pending, held = db.execute(statements("old_names")["to_be_copied"], (list(JOBS.values()), list(JOBS))).fetchone()
    return bool(pending or (held and key.digest("subject", "") is not None))


def _copy(
    connections: Connections, tools: Tools, table: OldTable, problems: list[str], step: Callable[[str, int], None] | None
) -> Counter[str]:
    sql, key = statements("old_names"), f"copied_{table.name}"
    counts: Counter[str] = Counter()
    with connections.reading() as db:
        cursor = db.execute(sql["cursor"], (key,)).fetchone()
    last = int(cursor[0]) if cursor else 0
    while True:
        with connections.reading() as db:
            found = table.after(db, last, _BATCH)
        if not found:
            break
        counts += _batch(connections, tools, table, found, problems)
        last = found[-1][0]
        if step is not None:
            step(table.name, len(found))
    held, failed = counts["held"], counts["failed"]
    state = f"held: {held}" if held else f"failed: {failed}" if failed else "done"
    with connections.writing(_WAIT) as db:
        # What was left out is looked for anew by the next run.
        db.execute(sql["save_cursor"], (key, "0" if held or failed else str(last)))
        db.execute(sql["set_job"], (JOBS[table.name], state, now_text(), release()))
    return counts


def _batch(connections: Connections, tools: Tools, table: OldTable, found: Found, problems: list[str]) -> Counter[str]:
    """Copy some rows; their texts are masked and analysed before the write lock is taken."""
    reader = Reader(tools.key, tools.clock.replica)
    ready = {number: (fields, reader.row(table.name, fields)) for number, fields in found}
    prepared = Prepared(tools.analyser, (), tools.dialect.prepared)
    for _, row in ready.values():
        prepare(prepared, row)
    try:
        return _write(connections, replace(tools, analyser=prepared), table, reader, ready, None)
    except (*REJECTIONS, *tools.dialect.rejections):
        # Rare: which rows are to blame is found out one by one.
        return _write(connections, replace(tools, analyser=prepared), table, reader, ready, problems)


_Ready = dict[int, tuple[dict[str, Any], OldRow]]


def _write(
    connections: Connections, tools: Tools, table: OldTable, reader: Reader, ready: _Ready, problems: list[str] | None
) -> Counter[str]:
    """Copy rows in one transaction; with `problems` one by one, those that cannot be copied noted there."""
    counts: Counter[str] = Counter()
    with connections.writing(_WAIT) as db:
        tx = Transaction(db, tools)
        db.execute(statements("old_names")["by_our_code"])
        rows = []
        for number, fields in table.among(db, list(ready)):
            known, row = ready[number]
            rows.append(row if known == fields else reader.row(table.name, fields))  # it may have changed since it was read
        counts["held"] = sum(row.subject is None for row in rows)
        rows = [row for row in rows if row.subject is not None]
        if problems is None:
            with tools.dialect.batched(db, len(rows)):
                counts += take_many(tx, rows)
                _conclude(tx, table, ready)
        else:
            for row in rows:
                counts[_try(tx, row, problems)] += 1
            _conclude(tx, table, ready)
    tools.scopes.update(tx.scopes)
    return counts


def _conclude(tx: Transaction, table: OldTable, ready: _Ready) -> None:
    tx.db.execute(statements("old_names")["save_cursor"], (f"copied_{table.name}", str(max(ready))))
    tx.finish()


def _try(tx: Transaction, row: OldRow, problems: list[str]) -> str:
    mark = tx.save()
    try:
        status = take(tx, row)
        tx.release()
    except (*REJECTIONS, *tx.dialect.rejections) as error:
        tx.roll_back(mark)
        problems.append(f"{row.relation} {row.id}: {error}")
        return "failed"
    return status


def verify(connections: Connections, tools: Tools) -> None:
    """Check that every row of the old tables is here, with the same text.

    Raises StoreUnavailable that names rows for which that is not so.
    """
    reader = Reader(tools.key, tools.clock.replica)
    for name in COPIED:
        with connections.reading() as db:
            table = OldTable.find(db, name)
        if table is None:
            continue
        last, wrong = 0, []
        while True:
            with connections.reading() as db:
                found = table.copied(db, last, _BATCH)
                wrong += [number for number, fields, uid in found if not _is_here(db, reader.row(name, fields), uid)]
            if not found:
                break
            last = found[-1][0]
        if wrong:
            named = ", ".join(map(str, wrong[:_MOST_NAMED])) + (" ..." if len(wrong) > _MOST_NAMED else "")
            raise StoreUnavailable(
                f"{len(wrong)} rows of {name} are not here or differ (ids {named}): run migrate where the subject key is, and again"
            )


def _is_here(db: Database, row: OldRow, uid: str | None) -> bool:
    if uid is None:
        return False
    if not row.content.strip():
        return True
    found = db.execute(statements("old_names")["hash_of"], (uid,)).fetchone()
    return found is not None and bytes(found[0]).hex() == content_hash(row.content)
