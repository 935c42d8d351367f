"""Memory: the public interface. A cheap view of a store through a theme, a subject and a reach."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from hermes_mnemosyne import identity, paths, registry
from hermes_mnemosyne import settings as settings_module
from hermes_mnemosyne._errors import InvalidInput, NotFound, StoreBusy, StoreFull, StoreUnavailable
from hermes_mnemosyne.asking import ListOptions, RecallOptions, checked_query, count_of, filter_of, id_of
from hermes_mnemosyne.backfill import Report
from hermes_mnemosyne.clock import now_text, uuid7
from hermes_mnemosyne.core import Engine
from hermes_mnemosyne.drafts import (
    EntryChanges,
    EntryFields,
    TurnFields,
    cleaned,
    draft_of,
    entry_changes,
    turn_of,
)
from hermes_mnemosyne.dsn import is_dsn
from hermes_mnemosyne.figures import figures_of
from hermes_mnemosyne.reaching import CONTACT_BUCKETS, reach_of, theme_name
from hermes_mnemosyne.recall.analyse import MAX_QUERY_CHARS
from hermes_mnemosyne.recall.meaning import Meaning
from hermes_mnemosyne.settings import Settings
from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    EditEntry,
    Forget,
    MergeRecord,
    Operation,
    Outcome,
    Retire,
    Undo,
)
from hermes_mnemosyne.store.protocol import Counts, Reach, VectorCounts
from hermes_mnemosyne.stores import Place, place_of
from hermes_mnemosyne.text import storable, storable_value
from hermes_mnemosyne.values import (
    DEFAULT_THEME,
    Change,
    Entry,
    Origin,
    RecallQuery,
    RecallResult,
    Receipt,
    Turn,
)

_MERGED_AT_ONCE = 200
_LONGEST_ID = 80
# The most seconds that a recall waits for the vector of its query unless told otherwise.
EMBED_WAIT = 3.0
_Op = TypeVar("_Op", bound=Operation)


class Memory:
    """A memory, opened with `Memory.open`. Every method is safe from any thread; use it as a context manager or `close` it."""

    def __init__(self, engine: Engine, *, theme: str, subject: str, reach: Reach) -> None:
        """Take an engine and a reach; callers use `open`."""
        self.engine = engine
        self.theme = theme
        self.subject = subject
        self.reach = reach
        self._closed = False

    @classmethod
    def open(
        cls,
        url_or_path: str | Path | None = None,
        *,
        theme: str | None = None,
        subject: str | None = None,
        readable_themes: str | Iterable[str] | None = None,
        settings: Settings | None = None,
        create: bool = True,
    ) -> Self:
        """Return a view of the store at `url_or_path` (None: the default file) for one theme (None: the setting) and subject.

        A Postgres database is named by a `postgresql://` URL or libpq's `key=value` form; its settings are those of the provider
        `pgvector`.

        Reads reach the own theme and `readable_themes`; among several names `*` stands for every ordinary theme. The single
        text `"*"` is the operator's reach: every theme and every subject. `subject` is the keyed hash of a contact inside a
        bucket theme; without one no rows of bucket themes are seen. Nothing is opened before it is needed.

        Raises InvalidInput for a theme without a name, ConfigError for settings that cannot be read, MissingExtra.
        """
        named = None if url_or_path is None else paths.named_file(url_or_path)
        is_server = isinstance(url_or_path, str) and is_dsn(url_or_path)
        if settings is None:
            flags, provider = ({"dsn": named}, "pgvector") if is_server else ({"db": named}, "mnemosyne")
            settings = settings_module.resolve(flags=flags, provider=provider).settings
        elif named:
            settings = replace(settings, db=None if is_server else named, dsn=named if is_server else None)
        return cls.at(
            place_of(settings), theme=theme, subject=subject, readable_themes=readable_themes, settings=settings, create=create
        )

    @classmethod
    def at(
        cls,
        place: Place,
        *,
        theme: str | None = None,
        subject: str | None = None,
        readable_themes: str | Iterable[str] | None = None,
        settings: Settings,
        create: bool = True,
    ) -> Self:
        """Return a view of the store at a place; what names a place in `settings` does not count. Else as `open`."""
        name = theme_name(settings.theme if theme is None else theme)
        if not isinstance(subject, str | None):
            raise InvalidInput(f"a subject is text, not {type(subject).__name__}")
        shared = replace(settings, db=None, data_dir=None, dsn=None, theme=DEFAULT_THEME)
        engine = registry.borrow(place, shared, create=create)
        return cls(engine, theme=name, subject=subject or "", reach=reach_of(name, subject, readable_themes))

    def within(self, themes: Iterable[str]) -> Memory:
        """Return the same memory with its reach narrowed to some themes; closing it closes nothing."""
        narrow = Memory(self.engine, theme=self.theme, subject=self.subject, reach=self._narrowed(tuple(themes)))
        narrow._closed = True
        return narrow

    def of_contact(self, subject: str) -> Memory:
        """Return the same memory for one contact of its theme; closing it closes nothing."""
        view = Memory(self.engine, theme=self.theme, subject=subject, reach=reach_of(self.theme, subject, None))
        view._closed = True
        return view

    @property
    def path(self) -> Path | None:
        """The database file, None for a database on a server."""
        return self.engine.path

    @property
    def place(self) -> str:
        """Where the store lies, as it may be shown: a file, or a URL without secrets."""
        return str(self.engine.place)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.engine.settings

    # -- writing -----------------------------------------------------------------------------------------------------------------

    def remember(self, content: str, *, origin: Origin | None = None, **fields: Unpack[EntryFields]) -> Receipt:
        """Store a durable memory and return its uid; a text that is already there is found and said to exist.

        Raises InvalidInput for a blank or too long text or a wrong field, NotFound for an unknown row to supersede, StoreBusy,
        StoreFull and other store errors.
        """
        self._demand_subject()
        draft = draft_of(content, fields, self.clean, self.clean_value)
        if "supersedes" in draft.values:
            self.get(draft.values["supersedes"])
        visibility = fields.get("visibility") or identity.default_visibility(self.theme, self.settings.visibility)
        source = Origin(self.clean(origin.kind)[0], self.clean(origin.place)[0]) if origin else Origin("api")
        op = self.make(AddEntry, uid=uuid7(), origin=source, visibility=visibility, **draft.values)
        outcome = self._submitted(op)
        return Receipt(uid=outcome.uid, status=outcome.status, notes=(*draft.notes, *outcome.notes))

    def update(self, uid: str, **changes: Unpack[EntryChanges]) -> Receipt:
        """Change fields of an entry; the earlier version stays in its history.

        Raises NotFound, InvalidInput, StoreBusy and other store errors.
        """
        row = self.get(uid)
        if not isinstance(row, Entry):
            raise InvalidInput("a turn is a record of what was said: forget it, or retire it; it cannot be edited")
        draft = entry_changes(changes, self.clean, self.clean_value)
        return self._receipt(self._for(row, EditEntry, uid=row.uid, changes=draft.values), uid, draft.notes)

    def retire(self, uid: str) -> Receipt:
        """Take a row out of recall and lists; `undo` brings it back. Raises NotFound, StoreBusy and other store errors."""
        row = self.get(uid)
        return self._receipt(self._for(row, Retire, uid=row.uid), uid)

    def forget(self, uid: str) -> Receipt:
        """Erase a row, live or retired, and every copy of its text for good; this cannot be undone.

        Notes name mirrored files that may still hold the text. Raises NotFound, StoreBusy and other store errors.
        """
        self._drained()
        uid = id_of(uid)
        row = self.engine.store.read(uid, self.reach)
        if row is None and self.engine.store.state(uid, self.reach) != "retired":
            raise _not_found(uid)
        theme, subject = (row.theme, row.subject) if row else self._grave(uid)
        op = replace(self.make(Forget, uid=row.uid if row else uid), theme=theme, subject=subject)
        files = sorted({o.place.rsplit("/", 1)[-1] for o in row.origins if o.kind == "file"}) if isinstance(row, Entry) else []
        return self._receipt(op, uid, tuple(f"still-in:{name}" for name in files))

    def undo(self, uid: str) -> Receipt:
        """Take back the last change of a row: an edit, a retirement, or its addition.

        Raises NotFound for an unknown or forgotten row, InvalidInput where there is no earlier version.
        """
        self._drained()
        uid = id_of(uid)
        row = self.engine.store.read(uid, self.reach)
        theme, subject = (row.theme, row.subject) if row else self._grave(uid)
        op = replace(self.make(Undo, uid=row.uid if row else uid), theme=theme, subject=subject)
        return self._receipt(op, uid)

    def capture_turn(self, content: str, **fields: Unpack[TurnFields]) -> Receipt:
        """Store one message of a conversation as a new turn of its session.

        Raises InvalidInput for a blank text or a wrong field, StoreBusy and other store errors.
        """
        self._demand_subject()
        turn, rest, notes = turn_of(content, fields, self.clean, self.clean_value)
        visibility = fields.get("visibility") or identity.default_visibility(self.theme, self.settings.visibility)
        outcome = self._submitted(self.make(CaptureTurns, turns=(turn,), visibility=visibility, **rest))
        return Receipt(uid=outcome.uid or turn.uid, status=outcome.status, notes=(*notes, *outcome.notes))

    # -- reading -----------------------------------------------------------------------------------------------------------------

    def recall(self, query: str | RecallQuery, **options: Unpack[RecallOptions]) -> RecallResult:
        """Return what is relevant to a query, best first; no hits mean that nothing relevant is stored.

        While a server is away, what this machine has accepted for it is searched, and `degraded` holds `store`.

        Raises InvalidInput for a wrong option, StoreUnavailable and other store errors when the search cannot be done.
        """
        asked = checked_query(
            RecallQuery(text=query, **options) if not isinstance(query, RecallQuery) else replace(query, **options)
        )
        text, _ = storable(asked.text)
        where = filter_of(asked, self._narrowed(asked.themes))
        try:
            overlay, complete = self.engine.overlay(self.reach)
        except StoreUnavailable as error:
            if not self.engine.place.is_server:
                raise  # a file that cannot be opened may be another program's
            result = self.engine.recall_undrained(self.reach, replace(asked, text=text), where)
            if not result.hits:
                raise error from None
            self.engine.counters["recalls_degraded"] += 1
            return replace(result, degraded=(*result.degraded, "store"))
        meaning, is_missing = self._meaning(text, asked)
        asked = asked if text == asked.text else replace(asked, text=text)
        with self.engine.latencies.timing("recall"):
            result = self.engine.recaller.recall(asked, where, now=now_text(), overlay=overlay, meaning=meaning)
        self.engine.counters["recalls"] += 1
        self.engine.counters["recalls_without_vector"] += is_missing
        degraded = [name for name, is_lacking in (("vector", is_missing), ("spool", not complete)) if is_lacking]
        self.engine.counters["recalls_degraded"] += bool(degraded)
        return replace(result, degraded=(*result.degraded, *degraded)) if degraded else result

    def get(self, uid: str) -> Entry | Turn:
        """Return a live row by its uid or an alias of it. Raises NotFound, also for rows out of reach."""
        self._drained()
        uid = id_of(uid)
        row = self.engine.store.read(uid, self.reach)
        if row is None:
            raise _not_found(uid)
        return row

    def list(self, **options: Unpack[ListOptions]) -> builtins.list[Entry | Turn]:
        """Return rows, newest first unless told otherwise, entries only unless `kinds` says more.

        Raises InvalidInput for a wrong option and store errors.
        """
        self._drained()
        given: dict[str, Any] = {"kinds": ("entry",), **options}
        limit, offset = count_of("limit", given.pop("limit", 50)), count_of("offset", given.pop("offset", 0)) or 0
        newest_first = given.pop("newest_first", True)
        asked = checked_query(RecallQuery(text="", **given))
        where = filter_of(asked, self._narrowed(asked.themes))
        return self.engine.store.select(where, limit=limit, offset=offset, newest_first=newest_first)

    def history(self, uid: str) -> builtins.list[Change]:
        """Return the changes of a row, oldest first. Raises NotFound for an unknown or forgotten row."""
        self._drained()
        uid = id_of(uid)
        if self.engine.store.state(uid, self.reach) not in {"live", "retired"}:
            raise _not_found(uid)
        return self.engine.store.history(uid, self.reach)

    def stats(self) -> dict[str, Any]:
        """Return counts and the state of every part; `ok` is false for what needs repair only.

        Of a server that does not answer, what this machine knows is returned, and `store` says `unverified`.
        """
        return figures_of(self.engine, self.theme, self.reach)

    def embed_pending(self, *, include_excluded: bool = False, report: Report | None = None) -> VectorCounts:
        """Give every row its vector now that waits for one, whatever kept it, and return how the rows stand then.

        Raises EmbeddingError when the embedder does not answer or is another model than the store's; store errors.
        """
        self._drained()
        return self.engine.backfill.all_pending(include_excluded=include_excluded, report=report)

    def reembed(self, *, report: Report | None = None) -> VectorCounts:
        """Change the store's model to this process's: give every row a new vector, then search these; an interrupted run goes on.

        Raises EmbeddingError when the embedder does not answer; store errors.
        """
        self._drained()
        return self.engine.backfill.reembed(report=report)

    def counts(self) -> Counts:
        """Return the number of live rows of the own theme and subject."""
        return self.engine.store.counts(Reach(frozenset({self.theme}), self.subject))

    # -- moving ------------------------------------------------------------------------------------------------------------------

    def export_records(self) -> Iterator[dict[str, Any]]:
        """Yield every record within reach as JSON objects, in a stable order; `import_records` takes them back."""
        self._drained()
        return self.engine.store.export(self.reach)

    def import_records(self, records: Iterable[Any]) -> Iterator[Outcome]:
        """Merge exported records and yield one outcome each, `failed` with a reason for a wrong one; repeating adds nothing."""
        batch: builtins.list[Operation] = []
        for record in records:
            fields = record if isinstance(record, Mapping) else {}
            theme, subject = str(fields.get("theme", "") or self.theme), str(fields.get("subject", "") or "")
            op = replace(self.make(MergeRecord, record=fields), theme=theme, subject=subject)
            if not self.reach.covers(theme, subject):
                yield from self.submit(batch, hook=False)
                batch = []
                yield Outcome(op_id=op.op_id, status="failed", error=f"theme {theme} is out of reach of this memory")
                continue
            batch.append(op)
            if len(batch) >= _MERGED_AT_ONCE:
                yield from self.submit(batch, hook=False)
                batch = []
        yield from self.submit(batch, hook=False)

    # -- the door of adapters ----------------------------------------------------------------------------------------------------

    def make(self, kind: type[_Op], **fields: Any) -> _Op:
        """Return an operation of this theme and subject, made now."""
        stamp, theme, subject = self.engine.clock.tick(), self.theme, self.subject
        return kind(op_id=uuid7(), clock=stamp, at=now_text(), theme=theme, subject=subject, **fields)

    def submit(self, ops: Sequence[Operation], *, hook: bool) -> builtins.list[Outcome]:
        """Write operations; with `hook` without waiting, through the spool where need be. See `Engine.submit`."""
        return self.engine.submit(ops, hook=hook)

    def clean(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return a text as it may be stored, secrets masked unless the setting says otherwise, and notes on what was changed."""
        from hermes_mnemosyne.masking import mask  # its patterns are compiled only where something is written

        return cleaned(text, storable, mask if self.settings.mask_secrets else None)

    def clean_value(self, value: Any) -> tuple[Any, tuple[str, ...]]:
        """Return a JSON value as it may be stored, and notes on what was changed. Raises InvalidInput for no JSON value."""
        from hermes_mnemosyne.masking import mask_value

        return cleaned(value, storable_value, mask_value if self.settings.mask_secrets else None)

    def injected(self, session_id: str) -> frozenset[str]:
        """Return the uids that stand in the prompt of a session."""
        return self.engine.store.injected(self.theme, self.subject, storable(session_id)[0])

    def file_stamp(self, place: str) -> str:
        """Return the stamp kept for a mirrored file, empty when none."""
        return self.engine.store.file_stamp(self.theme, place)

    # -- lifetime ----------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the engine back; the last one closes its connections after due work."""
        if not self._closed:
            self._closed = True
            registry.give_back(self.engine)

    def __enter__(self) -> Self:
        """Return this memory."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close this memory."""
        self.close()

    # -- inside ------------------------------------------------------------------------------------------------------------------

    def _meaning(self, text: str, asked: RecallQuery) -> tuple[Meaning | None, bool]:
        """Return a query's meaning, and whether it is missing: no embedder and no question to be asked are no lack."""
        embedding = self.engine.embedding
        if not embedding.is_wanted or not text.strip() or asked.limit < 1:
            return None, False
        if identity.is_bucket(self.theme) and not embedding.may_see_local:
            return None, False
        wait = min(self.settings.embed_timeout, EMBED_WAIT) if asked.embed_timeout is None else asked.embed_timeout
        # A secret in a question is masked like one in a text: it would stand in the log of an endpoint. Of a text that somebody
        # pasted the beginning is asked for, as by words: to mask all of it would take seconds.
        with self.engine.latencies.timing("embed"):
            meaning, problem = embedding.ask(self.clean(text[:MAX_QUERY_CHARS])[0], wait=wait)
        if meaning is not None and self.engine.backfill.error and not self.engine.one_shot:
            self.engine.wake()  # the embedder is back; a worker that has tried for long has ended
        return meaning, bool(problem)

    def _drained(self) -> None:
        """Let reads by id see what this machine has accepted; a store that cannot be written now is read as it is."""
        with contextlib.suppress(StoreBusy, StoreFull, StoreUnavailable):
            if not self.engine.spool.is_empty():
                self.engine.drain()

    def _demand_subject(self) -> None:
        if self.theme in CONTACT_BUCKETS and not self.subject:
            raise InvalidInput(f"theme {self.theme} is shared by contacts: a write there needs the subject of one")

    def _for(self, row: Entry | Turn, kind: type[_Op], **fields: Any) -> _Op:
        return replace(self.make(kind, **fields), theme=row.theme, subject=row.subject)

    def _grave(self, uid: str) -> tuple[str, str]:
        changes = self.engine.store.history(uid, self.reach)
        if not changes:
            raise _not_found(uid)
        return str(changes[-1].before["theme"]), str(changes[-1].before["subject"])

    def _submitted(self, op: Operation) -> Outcome:
        outcome = self.engine.submit([op], hook=False)[0]
        if outcome.status == "failed":
            raise InvalidInput(outcome.error)
        return outcome

    def _receipt(self, op: Operation, uid: str, notes: tuple[str, ...] = ()) -> Receipt:
        outcome = self._submitted(op)
        if outcome.status == "unknown":
            raise _not_found(uid)
        return Receipt(uid=outcome.uid, status=outcome.status, notes=(*notes, *outcome.notes))

    def _narrowed(self, themes: tuple[str, ...] | None) -> Reach:
        if themes is None:
            return self.reach
        return Reach(frozenset(name for name in themes if self.reach.admits(name)), self.reach.subject, self.reach.hidden)


def _not_found(uid: str) -> NotFound:
    shown = uid if len(uid) <= _LONGEST_ID else f"{uid[:_LONGEST_ID]}..."
    return NotFound(f"no memory {shown}: `mnemosyne list` shows ids")
