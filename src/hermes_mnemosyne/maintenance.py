"""What a person does to a whole database on a server: forget old turns or whole themes, give rows another theme, keep its schema.

Like `stores` this knows the implementation. Nothing here is done by itself, and what a dry run counts it does not touch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne import identity
from hermes_mnemosyne._errors import EmbeddingError, InvalidInput, MissingExtra, MnemosyneError, NotFound, StoreError
from hermes_mnemosyne.backfill import Backfill, Report
from hermes_mnemosyne.clock import utc_text
from hermes_mnemosyne.dsn import Dsn
from hermes_mnemosyne.reaching import CONTACT_BUCKETS, theme_name
from hermes_mnemosyne.store.operations import SCRATCH_THEME, Forget
from hermes_mnemosyne.stores import place_of

if TYPE_CHECKING:
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.settings import Settings
    from hermes_mnemosyne.store.postgres.adopting import Adoption
    from hermes_mnemosyne.store.postgres.maintenance import Maintenance, Rows, Scope
    from hermes_mnemosyne.store.postgres.migrate import Report as Migrated
    from hermes_mnemosyne.store.postgres.old_vectors import OldVectors
    from hermes_mnemosyne.store.postgres.remapping import Place, Remapped
    from hermes_mnemosyne.store.postgres.store import PostgresStore
    from hermes_mnemosyne.store.postgres.vector_indexes import Step
    from hermes_mnemosyne.store.protocol import VectorCounts

Progress = Callable[[int], None]
TABLES = ("memory_entries", "conversations")


@dataclass(slots=True)
class Done:
    """What one command would do or has done: rows by table `found` before, `forgotten`, and `left` after; `stopped` says why not all.

    `personal` are rows that hold a run of 10 or 11 digits, as telephone numbers do.
    """

    executed: bool
    found: dict[str, int] = field(default_factory=dict)
    forgotten: Counter[str] = field(default_factory=Counter)
    left: dict[str, int] = field(default_factory=dict)
    personal: dict[str, int] = field(default_factory=dict)
    stopped: str = ""


def of(memory: Memory) -> Maintenance:
    """Return the maintenance of the database that a memory is on. Raises InvalidInput for a file, store errors."""
    if not memory.engine.place.is_server:
        raise InvalidInput("this is for a Postgres database: name one with --db postgresql://... or --dsn")
    from hermes_mnemosyne.store.postgres.maintenance import Maintenance

    return Maintenance.of(memory.engine.store)


def tables_of(text: str | None) -> tuple[str, ...]:
    """Return tables named in a comma-separated text, both when it is None. Raises InvalidInput for others."""
    if text is None:
        return TABLES
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names or not set(names) <= set(TABLES):
        raise InvalidInput(f"--tables takes {' and '.join(TABLES)}, separated by a comma")
    return names


# -- forgetting ------------------------------------------------------------------------------------------------------------------


def prune(memory: Memory, days: int, *, execute: bool, themes: Sequence[str] | None = None, step: Progress | None = None) -> Done:
    """Forget turns that were written more than `days` days ago, never entries; none when `days` is not positive."""
    maintenance, table = of(memory), TABLES[1]
    done = Done(execute, found={table: 0}, left={table: 0})
    if days <= 0:
        return done
    before = _days_ago(days)
    scopes = maintenance.scopes(themes)
    done.found[table] = done.left[table] = maintenance.count_old_turns(scopes, before)
    if execute:
        _forget(memory, maintenance.old_turns(scopes, before), table, done, step)
        with _ending(done):
            done.left[table] = maintenance.count_old_turns(scopes, before)
            maintenance.log("prune", table, None, done.forgotten[table], {"days": days, "stopped": done.stopped})
    return done


def cleanup(memory: Memory, themes: Sequence[str], tables: Sequence[str], *, execute: bool, step: Progress | None = None) -> Done:
    """Forget every row of some themes, retired ones too."""
    maintenance = of(memory)
    scopes = maintenance.scopes(themes)
    done = Done(
        execute, found=_only(maintenance.count_rows(scopes), tables), personal=_only(maintenance.count_personal(scopes), tables)
    )
    done.left = done.found
    if execute:
        for table in tables:
            if not done.stopped:
                _forget(memory, maintenance.rows_of(scopes, table), table, done, step)
            with _ending(done):
                maintenance.log("cleanup_delete", table, ",".join(themes), done.forgotten[table], {"stopped": done.stopped})
        with _ending(done):
            done.left = _only(maintenance.count_rows(scopes), tables)
    return done


@contextmanager
def _ending(done: Done) -> Iterator[None]:
    """Let a server that is gone by now not hide what was done: it is said that the end is missing."""
    try:
        yield
    except StoreError as error:
        done.stopped = done.stopped or str(error)
        done.left = {table: count - done.forgotten[table] for table, count in done.found.items()}


def _days_ago(days: int) -> str:
    try:
        return utc_text(datetime.now(UTC) - timedelta(days=days))
    except OverflowError:
        return utc_text(datetime.min.replace(tzinfo=UTC))


def _only(counts: dict[str, int], tables: Sequence[str]) -> dict[str, int]:
    return {table: counts[table] for table in tables}


def _forget(memory: Memory, batches: Iterable[Rows], table: str, done: Done, step: Progress | None) -> None:
    """Forget rows; what a busy or lost server leaves undone is said in `done`, what was done stays done."""
    try:
        for rows in batches:
            ops = [replace(memory.make(Forget, uid=uid), theme=rows.theme, subject=rows.subject) for uid in rows.uids]
            outcomes = memory.submit(ops, hook=False)
            done.forgotten[table] += sum(outcome.status == "forgotten" for outcome in outcomes)
            failed = next((outcome.error for outcome in outcomes if outcome.status == "failed"), "")
            if any(outcome.status == "queued" for outcome in outcomes):
                failed = "the database is away: what was begun follows when it is back"
            if failed:
                done.stopped = failed
                return
            if step is not None:
                step(len(ops))
    except StoreError as error:
        if not done.forgotten.total():
            raise
        done.stopped = str(error)


# -- remap -----------------------------------------------------------------------------------------------------------------------


def remap(memory: Memory, old: str, new: str, *, execute: bool, force: bool = False) -> Remapped:
    """Give the rows of one theme another; either may also be a contact, by the identity that the host gives it.

    A theme that contacts share stands for those of its rows whose contact is not known. Raises InvalidInput for what cannot be
    remapped, MnemosyneError when too many rows are there already.
    """
    maintenance = of(memory)
    scopes, source = _source(memory, maintenance, old)
    target = _target(memory, new, old)
    place = (target.theme.lower(), target.subject)
    others = [scope for scope in scopes if (scope.theme.lower(), scope.subject) != place]
    if not others and (scopes or place == (old.strip().lower(), "")):
        raise InvalidInput("--old and --new are the same theme: name another one")
    if not execute:
        found = maintenance.preview_remap(others, target)
        _demand_few(found, target.theme, force=force)
        return found
    return maintenance.remap(others, target, force=force, pattern=f"{source}->{_shown(target)}")


def _demand_few(found: Remapped, theme: str, *, force: bool) -> None:
    from hermes_mnemosyne.store.postgres.remapping import MOST_DUPLICATES

    if found.duplicates > MOST_DUPLICATES and not force:
        raise MnemosyneError(
            f"{found.duplicates} memories stand in theme {theme} already and would be merged: look at them, then add --force"
        )


def _source(memory: Memory, maintenance: Maintenance, old: str) -> tuple[list[Scope], str]:
    """Return the scopes that a name stands for, and what the log may say of it."""
    name = old.strip()
    if not name:
        raise InvalidInput("--old is blank: name a theme")
    scopes = maintenance.scopes([name])
    if name.lower() in CONTACT_BUCKETS:
        # The rows of known contacts are theirs.
        return [scope for scope in scopes if scope.subject == ""], name.lower()
    bucket = identity.normalise(name).theme
    if bucket not in CONTACT_BUCKETS:
        return scopes, name.lower()
    subject = _subject(memory, bucket, name)
    # Rows that were written before there were themes for contacts, and the contact's own.
    return [*scopes, *(scope for scope in maintenance.scopes([bucket]) if scope.subject == subject)], f"{bucket}/{subject[:8]}"


def _target(memory: Memory, new: str, old: str) -> Place:
    from hermes_mnemosyne.store.postgres.remapping import Place

    name = theme_name(new)
    if name == SCRATCH_THEME:
        raise InvalidInput(f"theme {name} is the doctor's own: name another one with --new")
    if name in CONTACT_BUCKETS:
        # The rows of a contact that were written before there were themes for contacts.
        if old.strip().lower() in CONTACT_BUCKETS or identity.normalise(old).theme != name:
            raise InvalidInput(f"theme {name} is shared by contacts: name one with --new, as agent:main:telegram:dm:123")
        return Place(name, _subject(memory, name, old.strip()))
    bucket = identity.normalise(new).theme
    if bucket in CONTACT_BUCKETS:
        return Place(bucket, _subject(memory, bucket, new.strip()))
    return Place(name)


def _subject(memory: Memory, bucket: str, raw: str) -> str:
    """Return the subject of a contact. Raises NotFound without the subject key."""
    memory.engine.bind_key()
    subject = identity.subject_of(bucket, {"gateway_session_key": raw}, memory.engine.key)
    if not subject:
        raise NotFound(f"the subject key of this database is not here: copy it to {memory.engine.key.path}")
    return subject


def _shown(place: Place) -> str:
    return f"{place.theme}/{place.subject[:8]}" if place.subject else place.theme


# -- vectors ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Backfilling:
    """Which rows a backfill is for: those of some tables, `batch` at a time, those left out by a setting too or not."""

    tables: Sequence[str] = TABLES
    batch: int = 100
    include_excluded: bool = False


@dataclass(slots=True)
class Backfilled:
    """By table what was processed and is left, how all rows stand (None when it was stopped), and why it was stopped, if it was."""

    tables: dict[str, dict[str, int]]
    counts: VectorCounts | None = None
    stopped: str = ""


def backfill(memory: Memory, work: Backfilling, *, report: Report | None = None) -> Backfilled:
    """Give rows their missing vectors; an embedder that fails meanwhile ends it. Raises store errors."""
    maintenance, engine = of(memory), memory.engine
    before = maintenance.vectors_by_table()
    kinds = frozenset("entry" if table == TABLES[0] else "turn" for table in work.tables)
    some: Any = _Some(engine.store, kinds, work.batch)
    done = Backfilled({})
    try:
        done.counts = Backfill(engine.embedding, lambda: some).all_pending(include_excluded=work.include_excluded, report=report)
    except EmbeddingError as error:
        done.stopped = str(error)
    after = maintenance.vectors_by_table()
    for table in work.tables:
        figures = done.tables[table] = _done(before[table], after[table])
        maintenance.log("backfill", table, None, figures["succeeded"], {**figures, "stopped": done.stopped})
    return done


def settle_dimension(memory: Memory) -> None:
    """Let the store be known as made for vectors as long as those of its model now."""
    of(memory).set_dimension()


def _done(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    failed = max(0, after["unembeddable"] - before["unembeddable"])
    succeeded = max(0, before["pending"] + before["unembeddable"] - after["pending"] - after["unembeddable"])
    return {
        "processed": succeeded + failed, "succeeded": succeeded, "failed": failed, "remaining": after["pending"],
        "unembeddable": after["unembeddable"],
    }  # fmt: skip


class _Some:
    """A store of which only the pending rows of some kinds are seen, some at a time."""

    def __init__(self, store: Any, kinds: frozenset[str], batch: int) -> None:
        self._store = store
        self._kinds = kinds
        self._batch = max(1, batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def pending_vectors(self, model: str, *, limit: int = 64, after: int = 0, now: str | None = None) -> list[Any]:
        """Return pending rows as the store does, but of these kinds."""
        while page := self._store.pending_vectors(model, limit=min(limit, self._batch), after=after, now=now):
            if found := [row for row in page if row.kind in self._kinds]:
                return found
            after = page[-1].id
        return []


def figures(memory: Memory) -> dict[str, Any]:
    """Return what `stats` adds of a database: rows and missing vectors by table, who was seen, changes under the old names."""
    maintenance = of(memory)
    vectors, agents = maintenance.vectors_by_table(), maintenance.agents()
    tables = {table: {"rows": sum(agent[table] for agent in agents), **vectors[table]} for table in TABLES}
    return {"tables": tables, "agents": agents, "forwarded": maintenance.forwarded()}


# -- the administrator -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What an administrator wants of `migrate`: the role of the agents, and of a new schema the dimension and the partitions."""

    runtime_role: str = "hermes"
    embed_dim: int | None = None
    partitions: int = 0


def migrate(admin_dsn: str, wishes: Wishes, *, dry_run: bool = False) -> Migrated:
    """Lay down the schema, or with `dry_run` return the script that would. Raises what `store.postgres.migrate.migrate` does."""
    demand_database(admin_dsn)
    from hermes_mnemosyne.recall.analyse import TextAnalyser
    from hermes_mnemosyne.store.postgres.migrate import migrate as lay_down

    return lay_down(
        admin_dsn,
        runtime_role=wishes.runtime_role,
        embed_dim=wishes.embed_dim,
        partitions=wishes.partitions,
        analyser=TextAnalyser().version,
        dry_run=dry_run,
    )


class Administration:
    """A migrated database, as its administrator adopts old tables into it."""

    def __init__(self, store: PostgresStore, settings: Settings) -> None:
        """Work on an open store; `settings` name the embedder."""
        from hermes_mnemosyne.store.postgres.maintenance import Maintenance

        self.maintenance = Maintenance.of(store)
        self._store = store
        self._settings = settings

    def adopt(self, step: Progress | None = None) -> Adoption:
        """Copy what has not been copied of the reference's tables; `step` is told of each batch."""
        return self.maintenance.adopt(None if step is None else lambda _, count: step(count))

    def adopt_vectors(self) -> OldVectors | None:
        """Take over the vectors of adopted rows if the embedder of the settings makes the same ones; None without an embedder.

        Raises EmbeddingError when it does not answer or is another model than the store's, then all is as before; store errors.
        """
        from hermes_mnemosyne.embedding import Embedding
        from hermes_mnemosyne.store.postgres.old_vectors import Model

        embedding = Embedding(self._settings, lambda: self._store)
        try:
            embedder = embedding.choice.embedder
            if embedder is None:
                return None
            known = embedding.model()
            model = Model(
                known.key, known.dimension, lambda texts: embedder.embed(texts, "document"), sees_local=embedding.may_see_local
            )
            return self.maintenance.adopt_vectors(model)
        finally:
            embedding.close()


@contextmanager
def administered(admin_dsn: str, settings: Settings) -> Iterator[Administration]:
    """Open a migrated database as its administrator; `settings` say where the agents' subject key lies.

    No key is made here: it has to be the same on all hosts, and this may be one without an agent.
    """
    demand_database(admin_dsn)
    from hermes_mnemosyne.keys import SubjectKey
    from hermes_mnemosyne.recall.analyse import TextAnalyser
    from hermes_mnemosyne.store.postgres.store import PostgresStore

    named = settings.subject_key_file
    key = SubjectKey(Path(named).expanduser() if named else place_of(settings).beside("key"), create=False)
    store = PostgresStore(admin_dsn, TextAnalyser(), key)
    try:
        key.expect(store.meta("subject_key"))
        yield Administration(store, settings)
    finally:
        store.close()


def maintain(admin_dsn: str, *, dry_run: bool = False) -> list[Step]:
    """Make the indexes that large themes need, drop those of no use, and return the steps; no writer waits.

    Raises StoreUnavailable when the database cannot be used or this login may not change it, StoreBusy.
    """
    demand_database(admin_dsn)
    from hermes_mnemosyne.store.postgres.maintenance import maintained

    return maintained(admin_dsn, dry_run=dry_run)


def demand_database(admin_dsn: str) -> None:
    """Raise InvalidInput for a name of no database, which libpq would complete or quote with its password, MissingExtra."""
    if not admin_dsn.strip():
        raise InvalidInput("the administrator's dsn is empty: name the database with --admin-dsn")
    Dsn(admin_dsn)
    if any(find_spec(name) is None for name in ("psycopg", "psycopg_pool", "pgvector")):
        raise MissingExtra("postgres")
