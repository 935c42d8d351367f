"""The end of an adoption, and the way back: dropping the old tables after a verified copy, or giving them what is newer here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from hermes_mnemosyne._errors import StoreBusy, StoreUnavailable
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.store.postgres import adopting, forwarded, old_names
from hermes_mnemosyne.store.postgres.connections import Connections
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.grants import grants
from hermes_mnemosyne.store.postgres.old_names import COPIED, JOBS
from hermes_mnemosyne.store.postgres.old_tables import OldTable
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.release import release
from hermes_mnemosyne.store.writing.transaction import Tools

_BATCH = 200
_WAIT = 60.0
_FIRST_ROW = 1 << 38
_EXTENSION = "SELECT n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"


def finish(connections: Connections, tools: Tools, *, runtime_role: str = "hermes") -> list[str]:
    """Drop the old tables, once every row of them is here, and put views in their place; return the names of what was dropped.

    `connections` are the administrator's. Raises StoreUnavailable when the copy is not complete or something of somebody else
    depends on an old table, StoreBusy when changes came in meanwhile.
    """
    adopting.adopt(connections, tools)
    _demand_nothing_waits(connections)
    adopting.verify(connections, tools)
    with connections.writing(_WAIT) as db:
        names = old_names.find(db, _schema(db))
        for name in names.tables:
            db.raw.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(names.schema, name)))
        if forwarded.waiting(db) or any(table.left(db) for name in COPIED if (table := OldTable.find(db, name))):
            raise StoreBusy("changes came in while the copy was verified: run migrate --finish again")
        dropped = _drop(db, names)
        _replace(db, names, runtime_role)
        for number in JOBS.values():
            db.execute(statements("old_names")["set_job"], (number, "finished", now_text(), release()))
    return dropped


def _schema(db: Database) -> str | None:
    found = db.execute(statements("old_names")["legacy_schema"]).fetchone()
    return found[0] if found else None


def _demand_nothing_waits(connections: Connections) -> None:
    with connections.reading() as db:
        held, failed, _ = db.execute(statements("old_names")["problems"]).fetchone()
    if held:
        raise StoreUnavailable(f"{held} changes to rows of contacts wait for the subject key: run migrate on a host that has it")
    if failed:
        raise StoreUnavailable(f"{failed} changes could not be applied: see the column problem of mnemosyne.forwarded")


def _drop(db: Database, names: old_names.OldNames) -> list[str]:
    dropped = []
    try:
        for name, state in reversed(names.states.items()):
            kind = {"table": "DROP TABLE {}", "old view": "DROP VIEW {}"}.get(state)
            if kind is not None:
                db.raw.execute(sql.SQL(kind).format(sql.Identifier(names.schema, name)))
                dropped.append(name)
    except psycopg.errors.DependentObjectsStillExist as error:
        raise StoreUnavailable(
            f"{str(error).splitlines()[0]}: drop what depends on it, then run migrate --finish again"
        ) from error
    for ours in ("entries", "turns"):
        db.raw.execute(sql.SQL("DROP TRIGGER IF EXISTS mnemosyne_mirror ON {}").format(sql.Identifier("mnemosyne", ours)))
    return dropped


def _replace(db: Database, before: old_names.OldNames, runtime_role: str) -> None:
    db.execute(statements("old_names")["number_new_rows"], (_FIRST_ROW,))
    names = old_names.find(db, before.schema)
    extension = db.execute(_EXTENSION).fetchone()[0]
    for step in old_names.steps(db.raw, names, extension):
        db.raw.execute(step.encode())
    if db.execute("SELECT 1 FROM pg_roles WHERE rolname = $1", (runtime_role,)).fetchone():
        for statement in grants(runtime_role, extension, names):
            db.raw.execute(statement)


# -- back ------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Return:
    """What was given back: rows by kind, how many did not fit the old tables, and how many of contacts were left out."""

    entries: int = 0
    turns: int = 0
    unfit: int = 0
    of_contacts: int = 0


def back(connections: Connections) -> Return:
    """Copy what is newer here into the old tables, with vectors where the dimension fits; `connections` are the administrator's.

    Rows of contacts stay here: the old package would show them to every contact. Raises StoreUnavailable without old tables.
    """
    done = Return()
    with connections.reading() as db:
        tables = {name: OldTable.find(db, name) for name in COPIED}
        done.of_contacts = db.execute(statements("old_names")["of_contacts"]).fetchone()[0]
        dimension = old_names.dimension(db, _schema(db) or "")
    if None in tables.values():
        raise StoreUnavailable("the old tables are not there: what was dropped cannot be given back; export to go elsewhere")
    for name, table in tables.items():
        assert table is not None
        last = 0
        while True:
            with connections.writing(_WAIT) as db:
                db.execute("SELECT set_config('mnemosyne.mirroring', 'on', true)")
                query = "newer_entries" if name == "memory_entries" else "newer_turns"
                rows = db.execute(statements("old_names")[query], (last, _BATCH)).fetchall()
                for row in rows:
                    fitted = _give_back(db, table, row, dimension)
                    done.unfit += fitted is False
                    done.entries += fitted is True and name == "memory_entries"
                    done.turns += fitted is True and name == "conversations"
            if not rows:
                break
            last = rows[-1][0]
    return done


def _give_back(db: Database, table: OldTable, row: tuple[Any, ...], dimension: int | None) -> bool | None:
    """Insert a row into an old table; True when it was, None when it stands there, False when it does not fit."""
    number, uid, theme, part, content, created_at, other, metadata, old_id, *parent = row
    there = table.statement(db, "SELECT 1 FROM {table} WHERE id = $1")
    if old_id is not None and db.execute(there, (old_id,)).fetchone():
        return None
    vector = db.execute(statements("old_names")["vector_of"], (number, dimension)).fetchone() if dimension else None
    values = {"agent_identity": theme, "content": content, "metadata": metadata, "embedding": vector[0] if vector else None}
    if table.name == "memory_entries":
        values |= {"target": part, "created_at": created_at, "updated_at": other}
    else:
        values |= {"role": part, "ts": created_at, "session_id": other, "parent_session_id": (parent[0] or None)}
    if old_id is not None:
        values["id"] = old_id
    known = {name: value for name, value in values.items() if name in (*table.columns, "embedding")}
    insert = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING RETURNING id").format(
        table.place,
        sql.SQL(", ").join(map(sql.Identifier, known)),
        sql.SQL(", ").join(sql.SQL(f"${place}") for place in range(1, len(known) + 1)),
    )
    db.execute("SAVEPOINT given")
    try:
        made = db.execute(insert.as_string(db.raw), list(known.values())).fetchone()
    except (psycopg.errors.ProgramLimitExceeded, psycopg.errors.DataError, psycopg.errors.IntegrityError):
        db.execute("ROLLBACK TO given")
        return False
    if made is None:
        return None
    db.execute(statements("old_names")["map_row"], (table.name, made[0], uid))
    return True
