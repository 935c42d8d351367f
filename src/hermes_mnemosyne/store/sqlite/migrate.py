"""The migration ledger of a SQLite file: each file once, under the write lock, with its checksum."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from functools import cache

from hermes_mnemosyne._errors import SchemaMismatch
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.store.release import release
from hermes_mnemosyne.store.sqlite.sql import migrations

_LEDGER = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    oldest_writer INTEGER NOT NULL,
    state TEXT NOT NULL,
    applied_at TEXT NOT NULL,
    release TEXT NOT NULL
)
"""


def _parse(name: str, text: str) -> tuple[int, str, int]:
    oldest = re.search(r"^-- oldest-writer: (\d+)$", text, flags=re.MULTILINE)
    return int(name[:4]), hashlib.sha256(text.encode()).hexdigest(), int(oldest[1]) if oldest else 1


@cache
def known() -> int:
    """Return the number of the newest migration that this release knows."""
    return _parse(*migrations()[-1])[0]


def pending(db: sqlite3.Connection) -> bool:
    """Tell whether a migration is missing, without taking the write lock."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").fetchone():
        return True
    top: int = db.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()[0]
    return top < known()


def verify(db: sqlite3.Connection) -> None:
    """Check that this release may write the schema found.

    Raises SchemaMismatch when a newer schema forbids it or an applied file differs from ours.
    """
    ours = {number: (name, checksum) for name, text in migrations() for number, checksum, _ in [_parse(name, text)]}
    newest = max(ours)
    for number, name, checksum, oldest, written_by in db.execute(
        "SELECT number, name, checksum, oldest_writer, release FROM migrations ORDER BY number"
    ):
        if oldest > newest:
            raise SchemaMismatch(
                f"the file has schema {number} ({name}, written by release {written_by}), this release writes schema {newest}: "
                "upgrade hermes-mnemosyne"
            )
        if number in ours and ours[number][1] != checksum:
            raise SchemaMismatch(
                f"migration {name} of the file differs from the one of this release: install an official release"
            )


def migrate(db: sqlite3.Connection) -> list[str]:
    """Apply missing migrations inside the caller's write transaction and return their names."""
    db.execute(_LEDGER)
    applied = {row[0] for row in db.execute("SELECT number FROM migrations")}
    done = []
    for name, text in migrations():
        number, checksum, oldest = _parse(name, text)
        if number in applied:
            continue
        for statement in _split(text):
            db.execute(statement)
        db.execute(
            "INSERT INTO migrations VALUES (?, ?, ?, ?, 'done', ?, ?)", (number, name, checksum, oldest, now_text(), release())
        )
        done.append(name)
    verify(db)
    return done


def _split(text: str) -> list[str]:
    """Return the statements of a script; `executescript` would commit the transaction that the ledger needs."""
    statements, current = [], ""
    for line in text.splitlines():
        if line.lstrip().startswith("--"):
            continue
        current += line + "\n"
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
