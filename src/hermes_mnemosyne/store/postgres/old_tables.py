"""The old tables of one database, read in batches in the order of their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from psycopg import sql

from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.sql import statements

Found = list[tuple[int, dict[str, Any]]]

_AFTER = """
SELECT r.id, to_jsonb(r) FROM (SELECT {columns} FROM {table}) AS r
WHERE r.id > $1 AND NOT EXISTS (SELECT FROM mnemosyne.legacy_rows AS l WHERE l.relation = {name} AND l.legacy_id = r.id)
ORDER BY r.id LIMIT $2
"""
_AMONG = """
SELECT r.id, to_jsonb(r) FROM (SELECT {columns} FROM {table}) AS r
WHERE r.id = ANY($1::bigint[]) AND NOT EXISTS (SELECT FROM mnemosyne.legacy_rows AS l WHERE l.relation = {name} AND l.legacy_id = r.id)
ORDER BY r.id
"""
_COPIED = """
SELECT r.id, to_jsonb(r), l.uid FROM (SELECT {columns} FROM {table}) AS r
LEFT JOIN mnemosyne.legacy_rows AS l ON l.relation = {name} AND l.legacy_id = r.id
WHERE r.id > $1 ORDER BY r.id LIMIT $2
"""
_LEFT = """
SELECT count(*) FROM {table} AS r
WHERE NOT EXISTS (SELECT FROM mnemosyne.legacy_rows AS l WHERE l.relation = {name} AND l.legacy_id = r.id)
"""


@dataclass(frozen=True, slots=True)
class OldTable:
    """One old table; `columns` are all but the vector."""

    name: str
    place: sql.Identifier
    columns: tuple[str, ...]

    @classmethod
    def find(cls, db: Database, name: str) -> Self | None:
        """Return the old table of this name, None where there is none."""
        found = db.execute(statements("old_names")["legacy_schema"]).fetchone()
        if found is None or db.execute("SELECT mnemosyne.old_table($1)", (name,)).fetchone()[0] is None:
            return None
        place = sql.Identifier(found[0], name)
        columns = db.execute(statements("old_names")["columns"], (place.as_string(db.raw),)).fetchall()
        return cls(name, place, tuple(column for (column,) in columns))

    def statement(self, db: Database, text: str) -> str:
        """Return a statement with this table in its places."""
        columns = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        return sql.SQL(text).format(table=self.place, name=sql.Literal(self.name), columns=columns).as_string(db.raw)

    def after(self, db: Database, number: int, limit: int) -> Found:
        """Return the next rows that have not been copied, those with a greater id than `number`."""
        return db.execute(self.statement(db, _AFTER), (number, limit)).fetchall()

    def among(self, db: Database, numbers: list[int]) -> Found:
        """Return those of some rows that are there and have not been copied."""
        return db.execute(self.statement(db, _AMONG), (numbers,)).fetchall()

    def copied(self, db: Database, number: int, limit: int) -> list[tuple[int, dict[str, Any], str | None]]:
        """Return the next rows with the uid that each stands for, None for one that has not been copied."""
        return db.execute(self.statement(db, _COPIED), (number, limit)).fetchall()

    def left(self, db: Database) -> int:
        """Return how many rows have not been copied."""
        count: int = db.execute(self.statement(db, _LEFT)).fetchone()[0]
        return count
