"""Another theme for rows: one transaction in which every row keeps its id, edit clock, times, metadata and vectors.

To remap is no edit and no removal: nothing is retired, no tombstone is left. Each row gets a new change number, so that whoever
follows them sees it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermes_mnemosyne._errors import MnemosyneError
from hermes_mnemosyne.clock import now_text, uuid7
from hermes_mnemosyne.store.operations import Operation
from hermes_mnemosyne.store.postgres import forwarded
from hermes_mnemosyne.store.postgres.connections import Connections
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.old_tables import OldTable
from hermes_mnemosyne.store.postgres.sql import statements
from hermes_mnemosyne.store.writing.entries import link, save
from hermes_mnemosyne.store.writing.transaction import Tools, Transaction
from hermes_mnemosyne.values import Entry

MOST_DUPLICATES = 10
"""More entries that the new theme has already are not merged unless that is asked for."""

_LIMIT = 3600.0
_FORMER = "former_names:{}"


@dataclass(frozen=True, slots=True)
class Place:
    """A theme and a subject in it."""

    theme: str
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remapped:
    """What was, or would be, moved: entries, of these merged with equal ones, turns, and tombstones."""

    entries: int = 0
    duplicates: int = 0
    turns: int = 0
    gone: int = 0

    def __add__(self, other: Remapped) -> Remapped:
        """Return the figures of two scopes together."""
        return Remapped(
            entries=self.entries + other.entries,
            duplicates=self.duplicates + other.duplicates,
            turns=self.turns + other.turns,
            gone=self.gone + other.gone,
        )


def preview(db: Database, scopes: Sequence[int], target: Place) -> Remapped:
    """Count what `remap` would do."""
    found = db.execute(statements("remap")["scope"], (target.theme, target.subject)).fetchone()
    total = Remapped()
    for scope in scopes:
        total += _counts(db, scope, found[0] if found else -1)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What is to be moved where: scopes, a theme and subject, how that reads in the log, and whether many equal entries may be merged."""

    scopes: tuple[int, ...]
    target: Place
    pattern: str
    force: bool = False


def remap(connections: Connections, tools: Tools, move: Move, *, wait: float = 5.0) -> Remapped:
    """Move every row of some scopes to a theme and subject, and note that in the log; all of it or nothing.

    Raises MnemosyneError when more than ten entries stand there already and that was not forced, or while rows of old tables are
    still being copied; StoreBusy and other store errors.
    """
    while forwarded.drain(connections, tools, wait=wait):
        pass
    with connections.writing(wait, limit=_LIMIT) as db:
        sql = statements("remap")
        if db.execute(sql["copying"]).fetchone()[0]:
            raise MnemosyneError("rows of the old tables are still being copied: run hermes-pgvector migrate to its end first")
        db.execute(sql["lock_old_tables"])
        new = Transaction(db, tools).scope(move.target.theme, move.target.subject)
        scopes = [scope for scope in move.scopes if scope != new]
        total = Remapped()
        for scope in scopes:
            total += _counts(db, scope, new)
            if total.duplicates > MOST_DUPLICATES and not move.force:
                raise MnemosyneError(
                    f"more than {MOST_DUPLICATES} memories stand in theme {move.target.theme} already and would be merged: "
                    "look at them, then add --force"
                )
            _move(db, tools, scope, (new, move.target))
        figures = {"moved": total.entries - total.duplicates, "turns": total.turns, "gone": total.gone}
        log = (
            "remap_identity",
            "memory_entries,conversations",
            move.pattern,
            total.entries - total.duplicates + total.turns,
            total.duplicates,
        )
        db.execute(statements("maintenance")["log"], (*log, json.dumps(figures)))
    return total


def _counts(db: Database, old: int, new: int) -> Remapped:
    entries, duplicates, turns, gone = db.execute(statements("remap")["counts"], (old, new)).fetchone()
    return Remapped(entries=entries, duplicates=duplicates, turns=turns, gone=gone)


def _move(db: Database, tools: Tools, old: int, to: tuple[int, Place]) -> None:
    new, target = to
    sql = statements("remap")
    db.execute(sql["by_the_rules"])
    _merge_twins(db, tools, old, to)
    same = db.execute(sql["same_sessions"], (old, new)).fetchall()
    gone, kept = [pair[0] for pair in same], [pair[1] for pair in same]
    start, clock, _ = db.execute(statements("write")["sequence"]).fetchone()
    # What the triggers on our tables pass on to old ones follows in one piece; where tables are partitioned a moved row is a deleted one.
    db.execute(statements("old_names")["by_our_code"])
    db.execute(sql["keep_numbers"], (old,))
    seq = start
    for name, more in (("move_graves", (gone, kept)), ("move_entries", ()), ("move_turns", (gone, kept)), ("move_aliases", ())):
        seq += db.execute(sql[name], (old, new, seq, *more)).rowcount
    if kept:
        seq += db.execute(sql["place_turns"], (start, new, seq, kept)).rowcount
    for name in (
        "move_mirrored", "move_stale", "move_forgotten", "move_vectors", "move_missing", "move_exclusions", "move_tokens", "drop_stamps",
        "move_injected", "move_speakers", "move_counters",
    ):  # fmt: skip
        db.execute(sql[name], (old, new))
    db.execute(sql["move_history"], (old, new, target.theme, target.subject))
    if kept:
        db.execute(sql["join_session_tokens"], (new, gone, kept))
        db.execute(sql["join_session_facets"], (new, gone, kept))
        db.execute(sql["renew_contexts"], (new, kept))
    db.execute(sql["move_sessions"], (old, new, gone))
    db.execute(sql["drop_sessions"], (gone,))
    db.execute(sql["clear_counters"], (old,))
    db.execute(sql["forget_statistics"], ([old, new],))
    db.execute(statements("write")["save_sequence"], (seq, clock))
    _keep_names(db, old, new)
    _move_old_rows(db, new, start, target.theme)


def _merge_twins(db: Database, tools: Tools, old: int, to: tuple[int, Place]) -> None:
    """Make one entry of two that say the same: the smaller id survives, the later edit counts, tags and origins are joined."""
    new, target = to
    twins = db.execute(statements("remap")["twins"], (old, new)).fetchall()
    if not twins:
        return
    tx = Transaction(db, tools)
    at = now_text()
    for uid, other in twins:
        op = Operation(op_id=uuid7(), clock=tx.clock.tick(), at=at, theme=target.theme, subject=target.subject)
        clock = tx.stamp(op)
        leaving, standing = tx.live_entry(uid), tx.live_entry(other)
        assert leaving is not None
        assert standing is not None
        tx.record("merged", leaving[1], clock=clock, at=at)
        tx.remove_live(leaving[0])
        # Its trigger has taken the old row away; the id may go on as that of the survivor.
        db.execute(statements("remap")["unmap_old_row"], (uid,))
        survivor = min(uid, other)
        save(tx, standing[0], _joined(leaving[1], standing[1], survivor))
        link(tx, max(uid, other), survivor, op, clock)
    tx.finish()


def _joined(leaving: Entry, standing: Entry, uid: str) -> Entry:
    later, earlier = (leaving, standing) if leaving.clock > standing.clock else (standing, leaving)
    return replace(
        later,
        uid=uid,
        theme=standing.theme,
        subject=standing.subject,
        tags=tuple(sorted({*later.tags, *earlier.tags})),
        origins=tuple(sorted({*later.origins, *earlier.origins})),
        pinned=later.pinned or earlier.pinned,
        created_at=min(later.created_at, earlier.created_at),
    )


def _keep_names(db: Database, old: int, new: int) -> None:
    """Note under which names rows of a scope were known: what was forgotten there is known by keyed hashes over the name."""
    keys = [_FORMER.format(old), _FORMER.format(new)]
    known = dict(db.execute(statements("read")["metas"], (keys,)).fetchall())
    name = db.execute("SELECT theme, subject FROM mnemosyne.scopes WHERE id = $1", (old,)).fetchone()
    names: list[Any] = [*json.loads(known.get(keys[1], "[]")), *json.loads(known.get(keys[0], "[]")), list(name)]
    merged = [pair for place, pair in enumerate(names) if pair not in names[:place]]
    db.execute(statements("write")["save_meta"], (keys[1], json.dumps(merged)))


def _move_old_rows(db: Database, new: int, start: int, theme: str) -> None:
    """Let the old tables of an adopted database follow; a row that stands there already under the new name is one too many."""
    db.execute(statements("remap")["silence_old_tables"])
    for name, texts in _FOLLOW.items():
        table = OldTable.find(db, name)
        for text in texts if table is not None else ():
            assert table is not None
            db.execute(table.statement(db, text), (theme, new, start))


_FOLLOW = {
    "memory_entries": (
        """
DELETE FROM {table} AS o USING mnemosyne.legacy_rows AS l JOIN mnemosyne.entries AS e ON e.uid = l.uid
WHERE l.relation = {name} AND l.legacy_id = o.id AND e.scope = $2 AND e.seq > $3 AND EXISTS (
    SELECT 1 FROM {table} AS n WHERE n.agent_identity = $1 AND n.target = o.target AND n.content = o.content AND n.id <> o.id)
""",
        """
UPDATE {table} AS o SET agent_identity = $1 FROM mnemosyne.legacy_rows AS l JOIN mnemosyne.entries AS e ON e.uid = l.uid
WHERE l.relation = {name} AND l.legacy_id = o.id AND e.scope = $2 AND e.seq > $3
""",
    ),
    "conversations": (
        """
UPDATE {table} AS o SET agent_identity = $1 FROM mnemosyne.legacy_rows AS l JOIN mnemosyne.turns AS t ON t.uid = l.uid
WHERE l.relation = {name} AND l.legacy_id = o.id AND t.scope = $2 AND t.seq > $3
""",
    ),
}
