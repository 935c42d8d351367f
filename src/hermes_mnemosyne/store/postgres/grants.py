"""What the runtime role may do: read and write rows, never change the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psycopg import sql

_IN_SCHEMA = (
    "GRANT USAGE ON SCHEMA mnemosyne TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mnemosyne TO {role}",
    "REVOKE INSERT, UPDATE, DELETE ON mnemosyne.migrations FROM {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA mnemosyne TO {role}",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA mnemosyne TO {role}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA mnemosyne GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA mnemosyne GRANT USAGE, SELECT ON SEQUENCES TO {role}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA mnemosyne GRANT EXECUTE ON FUNCTIONS TO {role}",
)


def grants(role: str, extension: str) -> list[sql.Composable]:
    """Return the statements that let a role use the store; `extension` is the schema of pgvector."""
    from psycopg import sql

    names = {"role": sql.Identifier(role), "extension": sql.Identifier(extension)}
    statements = ("GRANT USAGE ON SCHEMA {extension} TO {role}", *_IN_SCHEMA)
    return [sql.SQL(statement).format(**names) for statement in statements]
