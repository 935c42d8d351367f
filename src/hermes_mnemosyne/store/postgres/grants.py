"""What the runtime role may do: read and write rows, never change the schema."""

from __future__ import annotations

from psycopg import sql

from hermes_mnemosyne.store.postgres.old_names import OldNames

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


_OF_VIEWS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON {views} TO {role}",
)


def grants(role: str, extension: str, names: OldNames) -> list[sql.Composed]:
    """Return the statements that let a role use the store; `extension` is the schema of pgvector.

    `names` tells which views of ours stand, or are to be made, under old names.
    """
    views = [sql.Identifier(names.schema, name) for name, state in names.states.items() if state in ("absent", "view")]
    parts = {
        "role": sql.Identifier(role), "extension": sql.Identifier(extension), "schema": sql.Identifier(names.schema),
        "views": sql.SQL(", ").join(views),
    }  # fmt: skip
    statements = ("GRANT USAGE ON SCHEMA {extension} TO {role}", *_IN_SCHEMA, *(_OF_VIEWS if views else ()))
    return [sql.SQL(statement).format(**parts) for statement in statements]
