"""The administrator's `migrate`: lays down the schema, in one transaction under an advisory lock, each migration once.

What is run is a script, so that a dry run can print what a real run does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import conninfo, sql

from hermes_mnemosyne._errors import InvalidInput, SchemaNotApplied, StoreBusy, StoreUnavailable
from hermes_mnemosyne.store.postgres import ledger, old_names
from hermes_mnemosyne.store.postgres.errors import without_secrets
from hermes_mnemosyne.store.postgres.grants import grants
from hermes_mnemosyne.store.postgres.schema import ENCODING, migrations
from hermes_mnemosyne.store.release import release

DEFAULT_DIMENSION = 768
OLDEST_SERVER = 140000
OLDEST_VECTOR = (0, 7)
# A trigger on a table in use waits for its writers, and all others wait behind it.
_LOCK = "SET LOCAL lock_timeout = '60s'; SELECT pg_advisory_xact_lock(1298081134)"
_LEDGER = """
CREATE SCHEMA IF NOT EXISTS mnemosyne;
CREATE TABLE IF NOT EXISTS mnemosyne.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    oldest_writer integer NOT NULL,
    state text NOT NULL,
    applied_at text COLLATE "C" NOT NULL,
    release text NOT NULL
);
"""
_RECORD = """
INSERT INTO mnemosyne.migrations VALUES ({number}, {name}, {checksum}, {oldest_writer}, 'done',
    to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), {release});
"""
_META = """
INSERT INTO mnemosyne.meta VALUES
    ('replica', substr(md5(gen_random_uuid()::text), 1, 16)), ('analyser', {analyser}),
    ('embed_dim', {embed_dim}), ('partitions', {partitions})
ON CONFLICT DO NOTHING;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `migrate` has done, or of a dry run would do.

    `grants` are statements that were not run because the role is missing, `script` is what is run under the lock.
    """

    applied: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    script: str = ""

    @property
    def sql(self) -> str:
        """Return a complete script for `psql -v ON_ERROR_STOP=1 -f` that does what a real run would do."""
        return (
            f"SET client_encoding = 'UTF8';\nBEGIN;\nSET LOCAL client_min_messages = warning;\n{_LOCK};\n{self.script}COMMIT;\n"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the administrator wants: the runtime role, and of a new schema the dimension, the partitions and the analyser's version."""

    runtime_role: str = "hermes"
    embed_dim: int | None = None
    partitions: int = 0
    analyser: int = 1


def migrate(
    admin_dsn: str,
    *,
    runtime_role: str = "hermes",
    embed_dim: int | None = None,
    partitions: int = 0,
    analyser: int = 1,
    dry_run: bool = False,
) -> Report:
    """Bring the schema of a database to this release; run as often and by as many hosts at once as one likes.

    `analyser` is the version of the tokens that a new store begins with.

    Raises InvalidInput for wishes that cannot be had, SchemaMismatch when a newer release has been here, StoreBusy when a table is
    held by another session, StoreUnavailable when the database cannot be used or this login may not change it.
    """
    wishes = Wishes(runtime_role=runtime_role, embed_dim=embed_dim, partitions=partitions, analyser=analyser)
    _check(wishes)
    with connect(admin_dsn) as db:
        if dry_run:
            db.read_only = True
            return _plan(db, wishes)
        try:
            db.execute(_LOCK)
            report = _plan(db, wishes)
            db.execute(report.script.encode())
        except psycopg.errors.LockNotAvailable as error:
            raise StoreBusy("a table or the migrations were held by another session for a minute: try again") from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise StoreUnavailable(
                f"this login may not do that ({str(error).splitlines()[0]}): name an administrator with --admin-dsn"
            ) from error
    return report


def connect(dsn: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect as the administrator.

    Raises StoreUnavailable without the password in its message.
    """
    try:
        parts: dict[str, Any] = {"connect_timeout": "10", **conninfo.conninfo_to_dict(dsn), "client_encoding": "UTF8"}
        return psycopg.connect(conninfo.make_conninfo(**parts), prepare_threshold=None, cursor_factory=psycopg.RawCursor)
    except psycopg.Error as error:
        raise StoreUnavailable(f"the database cannot be reached: {without_secrets(str(error))}") from None


def _check(wishes: Wishes) -> None:
    if not wishes.runtime_role.strip():
        raise InvalidInput("--runtime-role must name a role")
    if any(ord(character) < ord(" ") for character in wishes.runtime_role):
        raise InvalidInput("--runtime-role holds control characters: name the role as it is")
    if wishes.embed_dim is not None and not 0 < wishes.embed_dim <= 16000:  # noqa: PLR2004 - as many as a vector can have
        raise InvalidInput("--embed-dim must lie between 1 and 16000")
    if not 0 <= wishes.partitions <= 1024:  # noqa: PLR2004 - every one is five tables
        raise InvalidInput("--partitions must lie between 0 (none) and 1024")


def _plan(db: psycopg.Connection[Any], wishes: Wishes) -> Report:
    """Return what there is to do, with the script that does it."""
    _check_server(db, wishes)
    found = ledger.applied(db)
    ledger.check(found)
    partitions = _settled(db, wishes, fresh=not found)
    extension, steps = _extension(db)
    names = old_names.find(db, _legacy_schema(db) if found else None)
    steps.append(_LEDGER)
    missing = [migration for migration in migrations() if migration.number not in found]
    for migration in missing:
        values = {
            "number": migration.number, "name": migration.name, "checksum": migration.checksum,
            "oldest_writer": migration.oldest_writer, "release": release(),
        }  # fmt: skip
        steps.append(migration.sql(partitions=partitions, extension=sql.Identifier(extension).as_string(db)))
        steps.append(_filled(db, _RECORD, **values))
    dimension = wishes.embed_dim or old_names.dimension(db, names.schema) or DEFAULT_DIMENSION
    meta = {"analyser": str(wishes.analyser), "embed_dim": str(dimension), "partitions": str(partitions)}
    steps.append(_filled(db, _META, **meta))
    steps += old_names.steps(db, names, extension)
    allowed = [f"{statement.as_string(db)};" for statement in grants(wishes.runtime_role, extension, names)]
    notes = [
        f"{name} in schema {names.schema} is not ours and stays as it is"
        for name, state in names.states.items()
        if state == "foreign"
    ]
    if set(names.tables) & set(old_names.COPIED):
        notes.append(
            "the rows of the old tables are copied after this, by `migrate` without --dry-run or by an agent with the subject key"
        )
    kept: tuple[str, ...] = ()
    if db.execute("SELECT 1 FROM pg_roles WHERE rolname = $1", (wishes.runtime_role,)).fetchone():
        steps += allowed
    else:
        kept = tuple(allowed)
        notes.append(f"the role {wishes.runtime_role} does not exist: create it and run the GRANT statements, or migrate again")
        steps += ["\n".join(f"-- {line}" for line in statement.splitlines()) for statement in allowed]
    script = "".join(f"{step.strip()}\n" for step in steps)
    return Report(applied=tuple(migration.name for migration in missing), grants=kept, notes=tuple(notes), script=script)


def _legacy_schema(db: psycopg.Connection[Any]) -> str | None:
    """Return the schema in which the old names were found or made before, None when they were not."""
    found = db.execute("SELECT value FROM mnemosyne.meta WHERE key = 'legacy_schema'").fetchone()
    return found[0] if found else None


def _check_server(db: psycopg.Connection[Any], wishes: Wishes) -> None:
    if db.info.server_version < OLDEST_SERVER:
        raise StoreUnavailable(f"the server is too old: PostgreSQL {OLDEST_SERVER // 10000} or newer is needed")
    if (encoding := db.info.parameter_status("server_encoding")) != ENCODING:
        raise InvalidInput(f"the database has the encoding {encoding}: make one with ENCODING '{ENCODING}' TEMPLATE template0")
    if db.execute("SELECT current_user").fetchone() == (wishes.runtime_role,):
        raise InvalidInput(
            f"the administrator and the runtime role are both {wishes.runtime_role}: name another login with --admin-dsn, "
            "or the role that agents use with --runtime-role"
        )


def _settled(db: psycopg.Connection[Any], wishes: Wishes, *, fresh: bool) -> int:
    """Return the number of partitions.

    Raises InvalidInput when a store that exists has been made with other figures.
    """
    if fresh:
        return wishes.partitions
    made = dict(db.execute("SELECT key, value FROM mnemosyne.meta WHERE key IN ('embed_dim', 'partitions')").fetchall())
    partitions = int(made.get("partitions", 0))
    if wishes.partitions not in (0, partitions):
        raise InvalidInput(
            f"the store has {partitions or 'no'} partitions, which cannot change: export it, migrate an empty database, import it"
        )
    if wishes.embed_dim is not None and str(wishes.embed_dim) != made.get("embed_dim", str(DEFAULT_DIMENSION)):
        raise InvalidInput(f"the store was made for {made['embed_dim']} dimensions: `hermes-pgvector reembed` changes that")
    return partitions


def _extension(db: psycopg.Connection[Any]) -> tuple[str, list[str]]:
    """Return the schema of pgvector, and what there is to do to have it.

    Raises SchemaNotApplied when the server has no package of it, or an old one.
    """
    oldest = ".".join(map(str, OLDEST_VECTOR))
    available = db.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    found = db.execute(
        "SELECT n.nspname, e.extversion FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE extname = 'vector'"
    ).fetchone()
    remedy = (
        f"install pgvector {oldest} or newer on the database server (Debian and Ubuntu: postgresql-{db.info.server_version // 10000}-"
        "pgvector; Fedora: pgvector; others: https://github.com/pgvector/pgvector), then run migrate again"
    )
    if found and _version(found[1]) >= OLDEST_VECTOR:
        return found[0], []
    if available is None:
        raise SchemaNotApplied(f"the server has no extension vector: {remedy}")
    if _version(available[0]) < OLDEST_VECTOR:
        raise SchemaNotApplied(f"the server's extension vector {available[0]} is too old: {remedy}")
    if found:
        return found[0], ["ALTER EXTENSION vector UPDATE;"]
    schema = db.execute("SELECT current_schema()").fetchone()
    if not schema or not schema[0]:
        raise InvalidInput("the administrator's search_path names no schema that exists: create one, such as public")
    return schema[0], [
        _filled(db, "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA {schema};", schema=sql.Identifier(schema[0]))
    ]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def _filled(db: psycopg.Connection[Any], text: LiteralString, **values: object) -> str:
    """Return a statement with literals, or identifiers where given as such, in its places."""
    made = {name: value if isinstance(value, sql.Composable) else sql.Literal(value) for name, value in values.items()}
    return sql.SQL(text).format(**made).as_string(db)
