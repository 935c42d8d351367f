"""Every authored record in a stable order: the same rows give the same lines, whatever their row numbers here."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from hermes_mnemosyne.store.protocol import Reach
from hermes_mnemosyne.store.sqlite.loading import load
from hermes_mnemosyne.store.sqlite.search import Scopes
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.writing.rows import snapshot

_BATCH = 500


def records(db: sqlite3.Connection, reach: Reach) -> Iterator[dict[str, Any]]:
    """Yield entries, turns, aliases, history and tombstones within reach."""
    sql = statements("read")
    within = {(row[1], row[2]) for row in Scopes(db, reach).rows}
    for name, kind in (("export_entries", "entry"), ("export_turns", "turn")):
        cursor = db.execute(sql[name])
        while ids := [row[0] for row in cursor.fetchmany(_BATCH)]:
            rows = load(db, ids)
            for number in ids:
                value = rows[number]
                if (value.theme, value.subject) in within:
                    yield {"type": kind, **snapshot(value)}
    for uid, survivor, clock, theme, subject in db.execute(sql["export_aliases"]):
        if (theme, subject) in within:
            yield {"type": "alias", "uid": uid, "survivor": survivor, "clock": clock, "theme": theme, "subject": subject}
    for uid, action, at, clock, text, theme, subject in db.execute(sql["export_history"]):
        if (theme, subject) in within:
            yield {
                "type": "history", "uid": uid, "action": action, "at": at, "clock": clock, "theme": theme, "subject": subject,
                "before": json.loads(text),
            }  # fmt: skip
    for row in db.execute(sql["export_tombstones"]):
        uid, theme, subject, kind, state, visibility, at, clock, session_id, role, digest, occurrence = row
        if (theme, subject) not in within:
            continue
        record = {
            "type": "tombstone", "uid": uid, "theme": theme, "subject": subject, "kind": kind, "state": state,
            "visibility": visibility, "at": at, "clock": clock,
        }  # fmt: skip
        if session_id is not None:
            record |= {"session_id": session_id, "role": role, "content_hash": digest.lower(), "occurrence": occurrence}
        macs = [list(found) for found in db.execute(sql["export_forgotten"], (uid,))]
        yield record | ({"keeps_out": macs} if macs else {})
