"""Figures of a file for `stats` and `doctor`."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.store.protocol import Reach
from hermes_mnemosyne.store.sqlite import search
from hermes_mnemosyne.store.sqlite.sql import statements

_ROWS = ("history", "retired", "forgotten", "aliases", "superseded", "expired", "memory", "user", "turns", "themes")
_COUNTED = ("erasures_pending", "refused", "compaction_due")


def figures(db: sqlite3.Connection, reach: Reach) -> dict[str, Any]:
    """Return the rows within reach, pending work, the schema and the vectors per model."""
    sql = statements("read")
    asked = {"scopes": json.dumps(search.scopes_of(db, reach).ids()), "now": now_text()}
    rows = dict(zip(_ROWS, db.execute(sql["figures"], asked).fetchone(), strict=True))
    metas = {key: db.execute(sql["meta"], (key,)).fetchone() for key in _COUNTED}
    schema = [row[0] for row in db.execute("SELECT name FROM migrations ORDER BY number")]
    return {
        **rows,
        **{key: int(row[0]) if row else 0 for key, row in metas.items()},
        "schema": schema[-1] if schema else "",
        "models": [
            {"model": name, "dimension": dimension, "vectors": count}
            for name, dimension, count in db.execute(sql["vector_figures"])
        ],
    }
