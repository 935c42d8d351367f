"""Rows by uid and by number, lists, and figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.store.postgres import search
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.protocol import Filter, Reach
from hermes_mnemosyne.store.writing.rows import TURN, entry_value, shelf_of, turn_value
from hermes_mnemosyne.values import Change, Entry, Turn

_ROWS = ("history", "retired", "forgotten", "aliases", "superseded", "expired", "memory", "user", "turns", "themes")
_COUNTED = ("erasures_pending", "refused")


def load(db: Database, ids: Sequence[int]) -> dict[int, Entry | Turn]:
    """Return live rows by row number."""
    sql = statements("read")
    found: dict[int, Entry | Turn] = {}
    entries = [row for row in ids if shelf_of(row) != TURN]
    turns = [row for row in ids if shelf_of(row) == TURN]
    if entries:
        found.update((row[0], entry_value(row)) for row in db.execute(sql["entries_by_id"], (entries,)))
    if turns:
        found.update((row[0], turn_value(row)) for row in db.execute(sql["turns_by_id"], (turns,)))
    return found


def read(db: Database, uid: str) -> Entry | Turn | None:
    """Return the live row of a uid or alias."""
    sql = statements("read")
    alias = db.execute(sql["alias"], (uid,)).fetchone()
    names = list(dict.fromkeys((uid, alias[0] if alias else uid)))
    if row := db.execute(sql["entry_by_uid"], (names,)).fetchone():
        return entry_value(row)
    row = db.execute(sql["turn_by_uid"], (names,)).fetchone()
    return turn_value(row) if row else None


def select(db: Database, where: Filter, *, limit: int | None, offset: int, newest_first: bool) -> list[Entry | Turn]:
    """Return live rows ordered by write time, then uid."""
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
    rows = load(db, ids)
    return [rows[number] for number in ids if number in rows]


def history(db: Database, uid: str, reach: Reach) -> list[Change]:
    """Return the changes of a row within reach, oldest first."""
    sql = statements("read")
    alias = db.execute(sql["alias"], (uid,)).fetchone()
    changes = []
    for name, action, at, clock, text in db.execute(sql["history"], (alias[0] if alias else uid,)):
        before = json.loads(text)
        if reach.covers(before.get("theme", ""), before.get("subject", "")):
            changes.append(Change(uid=name, action=action, at=at, clock=clock, before=before))
    return changes


def figures(db: Database, reach: Reach) -> dict[str, Any]:
    """Return the rows within reach, pending work, the schema, the vectors per model, and the server."""
    sql = statements("read")
    asked = {"scopes": search.scopes_of(db, reach).ids(), "now": now_text()}
    rows = dict(zip(_ROWS, db.execute(sql["figures"], asked).fetchone(), strict=True))
    metas = dict(db.execute(sql["metas"], (list(_COUNTED),)).fetchall())
    schema = [row[0] for row in db.execute(sql["applied"])]
    server, extension = db.execute(sql["server"]).fetchone()
    return {
        **rows,
        **{key: int(metas.get(key, 0)) for key in _COUNTED},
        "schema": schema[-1] if schema else "",
        "models": [
            {"model": name, "dimension": dimension, "vectors": count}
            for name, dimension, count in db.execute(sql["vector_figures"])
        ],
        "bytes": db.execute(sql["bytes"]).fetchone()[0],
        "postgres": server,
        "pgvector": extension,
    }
