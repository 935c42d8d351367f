"""The names that hermes-memory-pgvector gave its tables: views of this store, or that package's own tables with triggers.

What exists is left as it is: an old table gets triggers and nothing else, and a relation of somebody else that happens to have the
name keeps it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql

_HERE = Path(__file__).parent / "views"
COPIED = ("memory_entries", "conversations")
"""The old tables whose rows are taken over by our own rules, in batches."""
JOBS = {"memory_entries": 9001, "conversations": 9002}
"""The numbers under which that work stands in the ledger: no migration will ever have them."""

# By name: the columns by which an old table is recognised, and the function that tells of its rows.
_TABLES = {
    "memory_entries": ({"id", "agent_identity", "target", "content", "created_at", "updated_at", "metadata"}, "forward"),
    "conversations": ({"id", "session_id", "agent_identity", "role", "content", "ts", "metadata"}, "forward"),
    "memory_agents": ({"id", "agent_identity", "kind", "first_seen", "last_seen", "attrs"}, "forward_agent"),
    "memory_agent_edges": (
        {"id", "parent_identity", "child_identity", "parent_session_id", "child_session_id", "kind", "ts"},
        "forward_edge",
    ),
    "memory_maintenance_log": ({"id", "ts", "operation", "target_table", "identity_pattern", "details"}, "forward_log"),
}
_AGENT_VIEW = "v_agent_memory"
RELATIONS = (*_TABLES, _AGENT_VIEW)

_FIND_SCHEMA = """
SELECT coalesce(
    (SELECT n.nspname FROM unnest(current_schemas(false)) WITH ORDINALITY AS p (name, place)
        JOIN pg_namespace AS n ON n.nspname = p.name JOIN pg_class AS c ON c.relnamespace = n.oid
        WHERE c.relname = 'memory_entries' AND c.relkind IN ('r', 'p') ORDER BY p.place LIMIT 1),
    current_schema())
"""
_FIND = """
SELECT c.relname, c.relkind::text, coalesce(pg_get_viewdef(CASE WHEN c.relkind = 'v' THEN c.oid END), ''),
    array(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
    EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND tgname = 'mnemosyne_forward')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = ANY ($2)
"""
_DIMENSION = """
SELECT atttypmod FROM pg_attribute
WHERE attrelid = to_regclass(format('%I.memory_entries', $1::text)) AND attname = 'embedding' AND atttypmod > 0
"""

State = Literal["absent", "view", "table", "old view", "foreign"]


@dataclass(frozen=True, slots=True)
class OldNames:
    """What stands under the old names: `view` is ours, `table` and `old view` are the old package's, `foreign` somebody else's.

    `watched` are the old tables that have our triggers already.
    """

    schema: str
    states: dict[str, State]
    watched: frozenset[str]

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the old tables, in the order in which they are copied."""
        return tuple(name for name in _TABLES if self.states[name] == "table")


def find(db: Any, schema: str | None) -> OldNames:
    """Look at what stands under the old names; `schema` is where it was found before, if it was."""
    if schema is None:
        schema = str(db.execute(_FIND_SCHEMA).fetchone()[0])
    states: dict[str, State] = dict.fromkeys(RELATIONS, "absent")
    watched = set()
    for name, kind, definition, columns, has_trigger in db.execute(_FIND, (schema, list(RELATIONS))).fetchall():
        states[name] = _state(name, kind, definition, set(columns))
        if has_trigger and states[name] == "table":
            watched.add(name)
    return OldNames(schema, states, frozenset(watched))


def _state(name: str, kind: str, definition: str, columns: set[str]) -> State:
    if kind == "v":
        return "view" if "mnemosyne." in definition else "old view" if name == _AGENT_VIEW else "foreign"
    return "table" if kind in ("r", "p") and name in _TABLES and columns >= _TABLES[name][0] else "foreign"


def dimension(db: Any, schema: str) -> int | None:
    """Return the dimension of the vectors of an old table, None where there is none."""
    found = db.execute(_DIMENSION, (schema,)).fetchone()
    return int(found[0]) if found else None


@cache
def _file(name: str) -> str:
    return re.sub(r"^ *--.*\n", "", (_HERE / f"{name}.sql").read_text(encoding="utf-8"), flags=re.MULTILINE)


def view(db: psycopg.Connection[Any], name: str, schema: str, extension: str) -> str:
    """Return the script that makes one of our views."""
    pieces = {"schema": sql.Identifier(schema).as_string(db), "extension": sql.Identifier(extension).as_string(db)}
    return re.sub(r"@(schema|extension)\b", lambda found: pieces[found[1]], _file(name))


def steps(db: psycopg.Connection[Any], names: OldNames, extension: str) -> list[str]:
    """Return the script that makes missing views and triggers and notes what is to be copied; empty where nothing is missing."""
    made = []
    if names.tables or any(state == "absent" for state in names.states.values()):
        made.append(_filled(db, "INSERT INTO mnemosyne.meta VALUES ('legacy_schema', {schema}) ON CONFLICT DO NOTHING;", names))
    for name in names.tables:
        if name in names.watched:
            continue
        made.append(
            _filled(
                db,
                "CREATE TRIGGER mnemosyne_forward AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW "
                "EXECUTE FUNCTION mnemosyne.{function}();",
                names,
                name,
            )
        )
        made.append(_filled(db, _COPY[name], names, name) if name not in COPIED else _filled(db, _JOB, names, name))
    made += [view(db, name, names.schema, extension) for name in RELATIONS if names.states[name] == "absent"]
    return made


def _filled(db: psycopg.Connection[Any], text: str, names: OldNames, name: str = "") -> str:
    values: dict[str, sql.Composable] = {"schema": sql.Literal(names.schema)}
    if name:
        values |= {
            "table": sql.Identifier(names.schema, name), "function": sql.Identifier(_TABLES[name][1]), "name": sql.Literal(f"copy {name}"),
            "mirror": sql.Literal(name), "job": sql.Literal(JOBS.get(name)), "ours": sql.Identifier("mnemosyne", _OURS.get(name, "")),
        }  # fmt: skip
    return sql.SQL(text).format(**values).as_string(db)


_OURS = {"memory_entries": "entries", "conversations": "turns"}
_JOB = """
CREATE OR REPLACE TRIGGER mnemosyne_mirror AFTER UPDATE OR DELETE ON {ours} FOR EACH ROW EXECUTE FUNCTION mnemosyne.mirror({mirror});
INSERT INTO mnemosyne.migrations VALUES ({job}, {name}, '', 1, 'pending', '', '')
ON CONFLICT (number) DO UPDATE SET state = 'pending';
"""
_COPY = {
    "memory_agents": """
INSERT INTO mnemosyne.agents AS a (id, theme, kind, first_seen, last_seen, attrs)
SELECT id, agent_identity, kind, first_seen, last_seen, attrs FROM {table}
ON CONFLICT (md5(theme)) DO UPDATE SET first_seen = least(a.first_seen, excluded.first_seen),
    last_seen = greatest(a.last_seen, excluded.last_seen), attrs = excluded.attrs || a.attrs;
""",
    "memory_agent_edges": """
INSERT INTO mnemosyne.agent_edges (id, parent_theme, child_theme, parent_session_id, child_session_id, kind, ts, attrs)
SELECT id, parent_identity, child_identity, parent_session_id, child_session_id, kind, ts, attrs FROM {table} ON CONFLICT DO NOTHING;
""",
    "memory_maintenance_log": """
INSERT INTO mnemosyne.maintenance_log (id, ts, operation, target_table, theme_pattern, affected_count, dropped_dupes, dry_run, details)
SELECT id, ts, operation, target_table, identity_pattern, affected_count, dropped_dupes, dry_run, details FROM {table}
ON CONFLICT DO NOTHING;
""",
}
