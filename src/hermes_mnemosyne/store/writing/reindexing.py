"""Index rows anew: all of them, those of older analysers, and turns whose neighbours have changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from hermes_mnemosyne.store.writing.database import Connections
from hermes_mnemosyne.store.writing.rows import TURN, shelf_of
from hermes_mnemosyne.store.writing.transaction import Tools, Transaction

_BATCH = 100
# Work that is due after each turn is done in transactions of about a millisecond, with pauses in which others get the lock.
_FEW = 16
PAUSE = 0.002


@dataclass(frozen=True, slots=True)
class Reindexer:
    """Indexes the rows of one store; `sql` are its statements of upkeep."""

    connections: Connections
    tools: Tools
    sql: Mapping[str, str]

    def rows(self, *, only_old: bool, until: float | None = None) -> tuple[int, bool]:
        """Write the tokens of rows anew, all or those of older analysers; return how many and whether all are done.

        The latter is done while agents are at work.
        """
        analyser = self.tools.analyser
        done, after = 0, -(2**63)
        while until is None or time.monotonic() <= until:
            with self.connections.reading() as db:
                name, limit = ("old_rows", _FEW) if only_old else ("all_rows", _BATCH)
                rows = [
                    row[0] for row in db.execute(self.sql[name], {"after": after, "version": analyser.version, "limit": limit})
                ]
            if not rows:
                self._settle()
                return done, True
            with self.connections.writing(5.0) as db:
                tx = Transaction(db, self.tools)
                for row in rows:
                    self._index_row(tx, row)
                for row in _with_neighbours(tx, rows):
                    tx.renew_context(row)
                tx.finish()
            done, after = done + len(rows), rows[-1]
            if only_old:
                time.sleep(PAUSE)
        return done, False

    def contexts(self, *, until: float) -> bool:
        """Add the words that hooks left to be added to the neighbour columns; True when none is left."""
        while time.monotonic() <= until:
            with self.connections.reading() as db:
                rows = [row[0] for row in db.execute(self.sql["stale"], (_FEW,))]
            if not rows:
                return True
            with self.connections.writing(5.0) as db:
                tx = Transaction(db, self.tools)
                for row in rows:
                    tx.renew_context(row)
                db.executemany(self.sql["delete_stale"], [(row,) for row in rows])
                tx.finish()
            time.sleep(PAUSE)
        return False

    def _index_row(self, tx: Transaction, row: int) -> None:
        uid = tx.db.execute(self.sql["uid"], (row,)).fetchone()
        live = tx.live(uid[0]) if uid else None
        if live is None:
            tx.index.remove(row)
        elif live.value.kind == "entry":
            tx.index_entry(row, live.value, fresh=False)
        else:
            turn = live.value
            tx.index_turn(
                row, live.session, tx.analyser.turn_tokens(turn.content, turn.speaker, turn.occurred_at), "", fresh=False
            )

    def _settle(self) -> None:
        with self.connections.writing(5.0) as db:
            db.execute(self.sql["save_meta"], ("analyser", str(self.tools.analyser.version)))


def _with_neighbours(tx: Transaction, rows: list[int]) -> list[int]:
    """Return the turns among `rows` and those beside them, which hold words of theirs."""
    turns = [row for row in rows if shelf_of(row) == TURN]
    beside = {number for row in turns for number in tx.db.execute(tx.sql["beside"], (row,)).fetchone() or () if number}
    return sorted(beside.union(turns))
