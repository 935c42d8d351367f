"""Due work in small transactions: erasure of forgotten words from the index and the log, indexing anew, checks."""

from __future__ import annotations

import sqlite3
import time

from hermes_mnemosyne.store.protocol import Analyser, ContentKey
from hermes_mnemosyne.clock import HybridClock
from hermes_mnemosyne.store.sqlite.connections import Connections
from hermes_mnemosyne.store.sqlite.rows import TURN, shelf_of
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.sqlite.transaction import Transaction

_PAGES = 200
_BATCH = 200


def erase_step(connections: Connections) -> bool:
    """Merge a part of the full-text segments; True when nothing is left to be merged.

    A deleted word stays in its old segment until the segment is merged. A negative page count marks all segments for merging
    (FTS5 documentation, "The merge command"), positive ones go on from there.
    """
    sql = statements("upkeep")
    with connections.writing(5.0) as db:
        begun = db.execute(sql["meta"], ("erasure_begun",)).fetchone()
        before: int = db.execute(sql["changes"]).fetchone()[0]
        db.execute(sql["merge"], (_PAGES if begun else -_PAGES,))
        changed = db.execute(sql["changes"]).fetchone()[0] - before
        if not begun:
            db.execute(sql["save_meta"], ("erasure_begun", "1"))
        return bool(begun) and changed < 2  # noqa: PLR2004 - the command itself is one change


def erase(connections: Connections, *, until: float) -> bool:
    """Finish pending erasures as far as time allows (`until` is of time.monotonic); True when none is left."""
    sql = statements("upkeep")
    with connections.reading() as db:
        found = db.execute(sql["meta"], ("erasures_pending",)).fetchone()
    count = int(found[0]) if found else 0
    if not count:
        return True
    while not erase_step(connections):
        if time.monotonic() > until:
            return False
    with connections.maintaining() as db:
        busy: int = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if busy:
        return False
    with connections.writing(5.0) as db:
        db.execute(sql["delete_meta"], ("erasure_begun",))
        db.execute(sql["subtract_meta"], (count, "erasures_pending"))
    with connections.maintaining() as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return True


def reindex(
    connections: Connections, analyser: Analyser, key: ContentKey, clock: HybridClock, *, only_old: bool, until: float | None = None
) -> tuple[int, bool]:
    """Write the tokens of rows anew, those of older analysers or all; return how many and whether all are done."""
    sql = statements("upkeep")
    done, after = 0, -(2**63)
    while until is None or time.monotonic() <= until:
        with connections.reading() as db:
            name = "old_rows" if only_old else "all_rows"
            rows = [row[0] for row in db.execute(sql[name], {"after": after, "version": analyser.version, "limit": _BATCH})]
        if not rows:
            _settle(connections, analyser)
            return done, True
        with connections.writing(5.0) as db:
            tx = Transaction(db, analyser, key, clock)
            for row in rows:
                _index_row(tx, row)
            for row in rows:
                if shelf_of(row) == TURN:
                    tx.renew_context(row)
            tx.finish()
        done, after = done + len(rows), rows[-1]
    return done, False


def _index_row(tx: Transaction, row: int) -> None:
    uid = tx.db.execute(statements("upkeep")["uid"], {"row": row}).fetchone()
    live = tx.live(uid[0]) if uid else None
    if live is None:
        tx.db.execute(tx.sql["delete_tokens"], (row,))
    elif live.value.kind == "entry":
        tx.index_entry(row, live.value, fresh=False)
    else:
        turn = live.value
        tx.db.execute(tx.sql["delete_tokens"], (row,))
        tx.index_turn(row, live.session, tx.analyser.turn_tokens(turn.content, turn.speaker, turn.occurred_at), "")


def _settle(connections: Connections, analyser: Analyser) -> None:
    with connections.writing(5.0) as db:
        db.execute(statements("upkeep")["save_meta"], ("analyser", str(analyser.version)))


def check(connections: Connections) -> list[str]:
    """Return what is wrong with the file; the checks read everything."""
    sql = statements("upkeep")
    found: list[str] = []
    with connections.reading() as db:
        found += [row[0] for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
        found += [f"a row of {row[0]} points nowhere" for row in db.execute("PRAGMA foreign_key_check")]
        for name in ("rows_without_tokens", "tokens_without_rows", "wrong_counters"):
            wrong = db.execute(sql[name]).fetchone()[0]
            if wrong:
                found.append(f"{name.replace('_', ' ')}: {wrong} (run `mnemosyne reindex`)")
    try:
        with connections.writing(5.0) as db:
            db.execute(sql["check_tokens"])
    except sqlite3.DatabaseError as error:
        found.append(f"the full-text index is damaged ({error}): run `mnemosyne reindex`")
    return found
