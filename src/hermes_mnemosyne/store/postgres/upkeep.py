"""Due work in small transactions: what erasures leave behind, repairs, checks."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql as composed

from hermes_mnemosyne._errors import StoreBusy, StoreError
from hermes_mnemosyne.store.postgres.connections import Connections
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.schema import PARTITIONED
from hermes_mnemosyne.store.postgres.sql import statements

# Checks and repairs read everything.
LONG = 3600.0
_HOLD_TEXT = (*PARTITIONED, "sessions", "agent_edges", "forwarded")
_CHECKS = (
    "rows_without_tokens",
    "tokens_without_rows",
    "wrong_counters",
    "vectors_without_rows",
    "rows_never_embedded",
    "strays",
)
_REPAIRS = ("recount", "drop_stray_vectors", "drop_stray_missing", "drop_stray_exclusions", "look_for_missing_vectors")
_MAINTAINS = """
SELECT CASE WHEN current_setting('server_version_num')::integer >= 170000
    THEN has_table_privilege('mnemosyne.entries', 'MAINTAIN')
    ELSE pg_has_role((SELECT relowner FROM pg_class WHERE oid = 'mnemosyne.entries'::regclass), 'USAGE') END
"""


def pending(db: Database) -> int:
    """Return how many erasures have left dead rows that no vacuum has cleared away since."""
    found = db.execute(statements("read")["meta"], ("erasures_pending",)).fetchone()
    return max(0, int(found[0])) if found else 0


def may_vacuum(db: Database) -> bool:
    """Tell whether this role may clear dead rows away: the owner of the tables, or whom the administrator has let (MAINTAIN)."""
    return bool(db.execute(_MAINTAINS).fetchone()[0])


def erase(connections: Connections) -> bool:
    """Clear dead rows of forgotten texts out of tables and indexes where the role may; True when nothing is left to be done by it."""
    with connections.reading() as db:
        count = pending(db)
        if not count or not may_vacuum(db):
            return True
    with connections.reading(limit=LONG) as db:
        usual = db.execute("SELECT current_setting('statement_timeout'), set_config('statement_timeout', '0', false)").fetchone()[
            0
        ]
        try:
            for table in _HOLD_TEXT:
                db.raw.execute(_vacuum(table), prepare=False)
        finally:
            # The server's own default, to which RESET would lead, is another one.
            db.execute("SELECT set_config('statement_timeout', $1, false)", (usual,))
    with connections.writing(5.0) as db:
        db.execute(statements("upkeep")["subtract_meta"], (count, "erasures_pending"))
    return True


def clear(admin: psycopg.Connection[Any], *, dry_run: bool) -> list[str]:
    """Clear dead rows of forgotten texts away as the owner of the tables, outside a transaction; return the tables, if any waits."""
    found = admin.execute("SELECT value FROM mnemosyne.meta WHERE key = 'erasures_pending' AND value::bigint > 0").fetchone()
    if found is None:
        return []
    if not dry_run:
        for table in _HOLD_TEXT:
            admin.execute(_vacuum(table))
        admin.execute(statements("upkeep")["subtract_meta"], (int(found[0]), "erasures_pending"))
    return list(_HOLD_TEXT)


def _vacuum(table: str) -> composed.Composed:
    return composed.SQL("VACUUM (INDEX_CLEANUP ON) {}").format(composed.Identifier("mnemosyne", table))


def repair(db: Database) -> None:
    """Set right what `check` may find wrong, but for the tokens themselves."""
    sql = statements("upkeep")
    for name in _REPAIRS:
        db.execute(sql[name])


def check(connections: Connections) -> list[str]:
    """Return what is wrong with the rows; the checks read everything. Raises StoreBusy."""
    sql = statements("upkeep")
    found = []
    try:
        with connections.moment(limit=LONG) as db:
            for name in _CHECKS:
                wrong = db.execute(sql[name]).fetchone()[0]
                if wrong:
                    found.append(f"{name.replace('_', ' ')}: {wrong} (run `mnemosyne reindex`)")
    except StoreBusy:
        raise
    except StoreError as error:
        found.append(str(error))
    return found
