"""Live rows by row number."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.writing.rows import entry_value, turn_value
from hermes_mnemosyne.values import Entry, Turn


def load(db: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Entry | Turn]:
    """Return live rows by row number."""
    wanted = json.dumps(list(ids))
    found: dict[int, Entry | Turn] = {}
    for row in db.execute(statements("read")["entries_by_id"], (wanted,)):
        found[row[0]] = entry_value(row)
    for row in db.execute(statements("read")["turns_by_id"], (wanted,)):
        found[row[0]] = turn_value(row)
    return found
