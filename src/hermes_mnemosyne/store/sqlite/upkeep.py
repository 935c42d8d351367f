"""Due work in small transactions: erasure of forgotten words from the index and the log, repairs, checks."""

from __future__ import annotations

import sqlite3
import time

from hermes_mnemosyne._errors import StoreBusy, StoreCorrupt, StoreError
from hermes_mnemosyne.store.sqlite.connections import Connections
from hermes_mnemosyne.store.sqlite.indexing import has_recent
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.writing.reindexing import PAUSE

# Larger files are not compacted of themselves: other writers would find them busy for longer than they wait.
COMPACTED_BYTES = 512 * 1024 * 1024
_CHECKPOINT_WAIT = 0.1
# SQLite writes a file anew by way of a copy; beyond this size not in memory, which an agent needs for itself.
COPIED_IN_MEMORY = 64 * 1024 * 1024
# Merged in one transaction, which holds the write lock for about 3 ms.
_PAGES = 32
# SQLite looks for a lock again after 1, 2, 5 and 10 ms: a hook that waits as long finds this one free.
_LONG_PAUSE = 0.01
_CHECKS = (
    "rows_without_tokens", "tokens_without_rows", "rows_indexed_twice", "wrong_counters", "vectors_without_rows",
    "rows_never_embedded",
)  # fmt: skip
_REPAIRS = (
    "rebuild_tokens", "index_once", "recount", "drop_stray_vectors", "drop_stray_missing", "drop_stray_exclusions",
    "look_for_missing_vectors",
)  # fmt: skip


def erase_step(connections: Connections) -> str | None:
    """Merge a part of the full-text segments; return the round of erasure that is merged, empty when there is none, else None.

    A round is told by the number of erasures it is for and a random name. A deleted word stays in its old segment until the segment is merged. A negative page count marks all segments for merging
    (FTS5 documentation, "The merge command"), positive ones go on from there.
    """
    sql = statements("upkeep")
    with connections.writing(5.0) as db:
        begun = db.execute(sql["meta"], ("erasure_begun",)).fetchone()
        # What is forgotten from now on lies in segments that are not marked: it is another round.
        if not begun and not db.execute(sql["begin_erasure"]).rowcount:
            return ""  # another process or thread has finished it
        before: int = db.execute(sql["changes"]).fetchone()[0]
        db.execute(sql["merge"], (_PAGES if begun else -_PAGES,))
        changed = db.execute(sql["changes"]).fetchone()[0] - before
        return begun[0] if begun and changed < 2 else None  # noqa: PLR2004 - the command itself is one change


def pending(connections: Connections) -> int:
    """Return how many erasures are not finished."""
    with connections.reading() as db:
        found = db.execute(statements("upkeep")["meta"], ("erasures_pending",)).fetchone()
    return max(0, int(found[0])) if found else 0


def erase(connections: Connections, *, until: float, hurry: bool) -> bool:
    """Finish pending erasures as far as time allows (`until` is of time.monotonic()); True when none is left.

    Without `hurry` the last step, which holds the write lock for longer, is left for another time.
    """
    sql = statements("upkeep")
    while pending(connections):
        while (merged := erase_step(connections)) is None:
            if time.monotonic() > until:
                return False
            time.sleep(PAUSE if hurry else _LONG_PAUSE)
        if not merged:
            continue
        if not hurry:
            return False
        _compact_once(connections, merged)
        if not _emptied_log(connections):
            return False
        with connections.writing(5.0) as db:
            # Another process may have finished the same round and begun the next: what was begun is counted off once.
            if db.execute(sql["meta"], ("erasure_begun",)).fetchone() == (merged,):
                db.execute(sql["delete_meta"], ("erasure_begun",))
                db.execute(sql["delete_meta"], ("erasure_compacted",))
                db.execute(sql["subtract_meta"], (int(merged.split()[0]), "erasures_pending"))
        if not _emptied_log(connections) or time.monotonic() > until:
            return not pending(connections)
    return True


def _compact_once(connections: Connections, begun: str) -> None:
    """Write all pages anew: those that SQLite rearranged may hold stale copies that secure_delete does not know of.

    Once per round, whoever does it. Very large files are left to `reindex`, since they would be locked for too long.
    """
    sql = statements("upkeep")
    with connections.reading() as db:
        done = db.execute(sql["meta"], ("erasure_compacted",)).fetchone()
        size = _size(db)
    if not done or done[0] != begun:
        if size <= COMPACTED_BYTES:
            compact(connections)
        with connections.writing(5.0) as db:
            if db.execute(sql["meta"], ("erasure_begun",)).fetchone() == (begun,):
                db.execute(sql["save_meta"], ("erasure_compacted", begun))
            if size > COMPACTED_BYTES:
                db.execute(sql["save_meta"], ("compaction_due", "1"))


def compact(connections: Connections) -> None:
    """Write every page of the file anew, which locks it for about half a second per 100 MB."""
    with connections.maintaining() as db:
        is_large = _size(db) > COPIED_IN_MEMORY
        if is_large:
            db.execute("PRAGMA temp_store = FILE")
        try:
            db.execute("VACUUM")
        finally:
            if is_large:
                db.execute("PRAGMA temp_store = MEMORY")
    with connections.writing(5.0) as db:
        db.execute(statements("upkeep")["delete_meta"], ("compaction_due",))


def _size(db: sqlite3.Connection) -> int:
    """Return the size of the file in bytes."""
    pages: int = db.execute("PRAGMA page_count").fetchone()[0]
    each: int = db.execute("PRAGMA page_size").fetchone()[0]
    return pages * each


def _emptied_log(connections: Connections) -> bool:
    # While it waits for readers it keeps all writers waiting: better to come again.
    with connections.maintaining(_CHECKPOINT_WAIT) as db:
        busy: int = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return not busy


def repair(db: sqlite3.Connection) -> None:
    """Set right what `check` may find wrong, but for the tokens themselves."""
    sql = statements("upkeep")
    for name in _REPAIRS:
        db.execute(sql[name])


def has_unfinished_rows(connections: Connections) -> bool:
    """Tell whether neighbour columns lack words or the index lacks rows."""
    with connections.reading() as db:
        return has_recent(db) or db.execute(statements("upkeep")["stale"], (1,)).fetchone() is not None


def check(connections: Connections) -> list[str]:
    """Return what is wrong with the file; the checks read everything. Raises StoreBusy."""
    try:
        return [*_checked_rows(connections), *_checked_index(connections)]
    except StoreBusy:
        raise
    except StoreError as error:
        return [str(error)]


def _checked_rows(connections: Connections) -> list[str]:
    sql = statements("upkeep")
    with connections.reading() as db:
        found = [row[0] for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
        found += [f"a row of {row[0]} points nowhere" for row in db.execute("PRAGMA foreign_key_check")]
        for name in _CHECKS:
            wrong = db.execute(sql[name]).fetchone()[0]
            if wrong:
                found.append(f"{name.replace('_', ' ')}: {wrong} (run `mnemosyne reindex`)")
    return found


def _checked_index(connections: Connections) -> list[str]:
    try:
        with connections.writing(5.0) as db:
            db.execute(statements("upkeep")["check_tokens"])
    except StoreCorrupt as error:
        return [f"the full-text index is damaged ({error}): run `mnemosyne reindex`"]
    return []
