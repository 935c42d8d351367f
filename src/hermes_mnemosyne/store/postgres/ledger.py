"""The ledger of migrations of one database: what has been applied, by which release, and whether this release may write."""

from __future__ import annotations

from typing import Any

from hermes_mnemosyne._errors import SchemaMismatch, SchemaNotApplied
from hermes_mnemosyne.store.postgres.schema import migrations, newest

COMMAND = "hermes-pgvector migrate --admin-dsn DSN"

# Asked of the catalogue: to name a table in a schema that one may not use is an error of its own.
_FIND = """
SELECT has_schema_privilege(n.oid, 'USAGE'), c.oid IS NOT NULL, coalesce(has_table_privilege(c.oid, 'SELECT'), false), current_user
FROM pg_catalog.pg_namespace AS n
LEFT JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'migrations' AND c.relkind = 'r'
WHERE n.nspname = 'mnemosyne'
"""
_APPLIED = "SELECT number, name, checksum, oldest_writer, state, release FROM mnemosyne.migrations ORDER BY number"

Applied = dict[int, tuple[str, str, int, str, str]]


def applied(db: Any) -> Applied:
    """Return what the ledger holds by number: name, checksum, oldest writer, state, release; nothing where there is none.

    Raises SchemaNotApplied when this role may not read it.
    """
    found = db.execute(_FIND).fetchone()
    if found is None or not (found[1] or not found[0]):
        return {}
    if not (found[0] and found[2]):
        raise SchemaNotApplied(
            f"the role {found[3]} has no rights on the schema mnemosyne: as the administrator, run {COMMAND} --runtime-role {found[3]}"
        )
    return {number: (name, *rest) for number, name, *rest in db.execute(_APPLIED).fetchall()}


def check(found: Applied) -> None:
    """Check that this release may write a schema to which these migrations were applied.

    Raises SchemaMismatch when a newer schema forbids it or an applied file differs from ours.
    """
    ours = {migration.number: migration for migration in migrations()}
    for number, (name, checksum, oldest_writer, _, release) in sorted(found.items()):
        if oldest_writer > newest():
            raise SchemaMismatch(
                f"the database has schema {number} ({name}, applied by release {release}), this release writes schema {newest()}: "
                "upgrade hermes-mnemosyne"
            )
        if number in ours and ours[number].checksum != checksum:
            raise SchemaMismatch(
                f"migration {name} of the database differs from the one of this release: install an official release"
            )


def verify(db: Any) -> None:
    """Check at run time that the database has the schema that this release needs; never changes anything.

    Raises SchemaNotApplied when it is missing, older, or out of this role's reach, SchemaMismatch when only another release may
    write it.
    """
    found = applied(db)
    if not found:
        raise SchemaNotApplied(f"the database has no schema of Mnemosyne: as its administrator, run {COMMAND}")
    check(found)
    missing = [migration.name for migration in migrations() if migration.number not in found]
    if missing:
        raise SchemaNotApplied(f"the database lacks {', '.join(missing)}: as its administrator, run {COMMAND}")
