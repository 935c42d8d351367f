"""The engine of one store in one process: what all memories on it share, and the write path.

Everything that is expensive lives here once per process and store: connections, caches, the spool, the worker. Providers and
commands hold a `Memory`, a cheap view.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes_mnemosyne import forks
from hermes_mnemosyne._errors import ForeignFile, StoreBusy, StoreCorrupt, StoreFull, StoreUnavailable
from hermes_mnemosyne.backfill import Backfill
from hermes_mnemosyne.cancelling import eraser, forgotten
from hermes_mnemosyne.clock import HybridClock
from hermes_mnemosyne.embedding import Embedding
from hermes_mnemosyne.keys import SubjectKey
from hermes_mnemosyne.pending import overlay_of
from hermes_mnemosyne.recall.analyse import TextAnalyser
from hermes_mnemosyne.recall.boosts import Boosts
from hermes_mnemosyne.recall.overlay import Overlay
from hermes_mnemosyne.recall.pipeline import Recaller, RecallOptions
from hermes_mnemosyne.settings import Settings
from hermes_mnemosyne.spool import DrainReport, Spool
from hermes_mnemosyne.store.operations import Forget, Operation, Outcome
from hermes_mnemosyne.store.protocol import Reach
from hermes_mnemosyne.store.sqlite.connections import Options
from hermes_mnemosyne.store.sqlite.store import SqliteStore
from hermes_mnemosyne.worker import Worker

_log = logging.getLogger(__name__)
HOOK_WAIT = 0.01
_HOOK_APPEND_WAIT = 0.03
_APPEND_WAIT = 1.0
_DRAIN_WAIT = 0.25
_UPKEEP_STEP = 1.0
_OVERLAID = 2000
_DRAIN_PAUSE = 0.002
_PAUSE = 0.02
_QUIET = 0.3
_MOST_HELD = 10_000
_PRUNE_EVERY = 6 * 3600.0


class Engine:
    """One store in one process. Safe from any thread, after a fork, and beside other processes."""

    def __init__(self, path: Path, settings: Settings, *, create: bool = True) -> None:
        """Name the file; nothing is opened before it is needed. With `create` false a missing file is an error then."""
        self.path = path
        self.settings = settings
        self.key = SubjectKey(path.with_name(f"{path.stem}.key"))
        self.spool = Spool(
            path.with_name(f"{path.stem}.spool.db"), max_bytes=settings.spool_max_bytes, durability=settings.durability
        )
        # Writes of contacts who cannot be told apart without the key; see hermes/provider/waiting.
        self.waiting = Spool(path.with_name(f"{path.stem}.waiting.db"), max_bytes=settings.spool_max_bytes)
        self.analyser = TextAnalyser()
        self.counters: Counter[str] = Counter()
        self._create = create
        self._opening = threading.Lock()
        self._store: SqliteStore | None = None
        self._recaller: Recaller | None = None
        # Before the store is known its clock has a name of its own, so that stamps of two processes never tie.
        self.clock = HybridClock(secrets.token_hex(8))
        self._pruned = time.monotonic()
        # Of a command that ends soon: it starts no work in the background.
        self.one_shot = False
        self._brief = 0
        self._held: deque[Operation] = deque()
        self.embedding = Embedding(settings, lambda: self.store)
        self.backfill = Backfill(self.embedding, lambda: self.store)
        self._written = 0.0
        self._worker = Worker(lambda: self._work(hurry=False), name="mnemosyne-worker")
        forks.guard(self)

    # -- opening -----------------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> SqliteStore:
        """The store, opened now if it was not.

        Raises ForeignFile, SchemaMismatch, StoreUnavailable, StoreBusy.
        """
        return self._store or self._open(self.settings.busy_timeout)

    def _open(self, wait: float) -> SqliteStore:
        if not self._opening.acquire(timeout=wait):
            raise StoreBusy(f"{self.path} is being opened; try again")
        try:
            if self._store is None:
                if not self._create and not self.path.exists():
                    raise StoreUnavailable(f"there is no database {self.path}: name one with --db, or store something first")
                options = Options(
                    durability=self.settings.durability,
                    readers=self.settings.reader_connections,
                    busy_timeout=self.settings.busy_timeout,
                )
                store = SqliteStore(self.path, self.analyser, self.key, options, wait=wait)
                expected = store.meta("subject_key")
                if expected:
                    self.key.expect(expected)
                self.clock.adopt(store.replica, store.last_clock())
                self._store = store
                if store.due() or (self.embedding.is_on and not self.one_shot):
                    self.wake()
            return self._store
        finally:
            self._opening.release()

    @property
    def recaller(self) -> Recaller:
        """The read path over the store."""
        if self._recaller is None:
            boosts = Boosts(half_life_days=self.settings.recency_half_life_days)
            self._recaller = Recaller(self.store, self.analyser, RecallOptions(boosts=boosts))
        return self._recaller

    def bind_key(self) -> bool:
        """Make the subject key if the store has none yet and record its check value; tell whether there is a usable key."""
        store = self.store
        if store.meta("subject_key") is None:
            value = self.key.check_value()
            if value is None:
                return False
            store.set_meta_once("subject_key", value)
        expected = store.meta("subject_key")
        self.key.expect(expected)
        return self.key.load(create=False)

    # -- writing -----------------------------------------------------------------------------------------------------------------

    def submit(self, ops: Sequence[Operation], *, hook: bool) -> list[Outcome]:
        """Write operations: hooks at once or into the spool, others directly after what waits in the spool of their theme.

        Raises StoreBusy after `busy_timeout` (not for hooks), StoreFull when the spool has no room, StoreCorrupt, ForeignFile.
        """
        if not ops:
            return []
        if hook:
            return self._submit_hook(ops)
        until = time.monotonic() + self.settings.busy_timeout
        if not self.spool.is_empty():
            self.drain(wait=self.settings.busy_timeout, theme=ops[0].theme)
        try:
            store = self.store
            if any(isinstance(op, Forget) for op in ops):
                self.bind_key()
            self._cancel_queued(ops)
            outcomes = store.apply(ops, wait=max(HOOK_WAIT, until - time.monotonic()))
        except ForeignFile:
            raise
        except StoreUnavailable as error:
            if not self._create or not self.path.exists():
                raise
            _log.warning("the store is away, writes are queued: %s", error)
            return self._enqueue(ops)
        self._count(outcomes)
        return outcomes

    def _submit_hook(self, ops: Sequence[Operation]) -> list[Outcome]:
        until = time.monotonic() + HOOK_WAIT
        if self._spool_is_empty(HOOK_WAIT):
            try:
                store = self._store or self._open(HOOK_WAIT)
                outcomes = store.apply(ops, wait=max(0.0, until - time.monotonic()))
            except StoreBusy:
                self.counters["hook_spooled"] += 1
            except (StoreUnavailable, StoreFull, StoreCorrupt) as error:
                if isinstance(error, ForeignFile):
                    raise
                self.counters["store_away"] += 1
                _log.warning("the store cannot be written, the write is queued: %s", error)
            else:
                self._count(outcomes)
                self._note_brief(ops)
                return outcomes
        try:
            # What is held was said earlier and must be queued earlier.
            return self._hold(ops) if self._held else self._enqueue(ops, wait=_HOOK_APPEND_WAIT)
        except StoreBusy:
            return self._hold(ops)

    def _hold(self, ops: Sequence[Operation]) -> list[Outcome]:
        """Keep writes in memory for the worker: store and spool are both locked for longer than a hook may wait.

        Raises StoreFull when too many are held.
        """
        if len(self._held) + len(ops) > _MOST_HELD:
            self.counters["refused"] += len(ops)
            raise StoreFull(f"{self.spool.path} has been locked for long: end the program that holds it")
        self._held.extend(replace(op, spooled=True) for op in ops)
        self.counters["held"] += len(ops)
        self.wake()
        return [Outcome(op_id=op.op_id, uid=getattr(op, "uid", ""), status="queued") for op in ops]

    def _queue_held(self) -> bool:
        """Queue what is held; True when nothing is held any more."""
        while self._held:
            op = self._held[0]
            try:
                self.spool.append([op], wait=_DRAIN_WAIT)
            except StoreBusy:
                return False
            self._held.popleft()
            self.counters["spooled"] += 1
        return True

    def _note_brief(self, ops: Sequence[Operation]) -> None:
        """Let the worker complete hooks' writes now and then: to start it each time would cost a hook more than it saved."""
        self._brief += len(ops)
        if self.store.is_behind:
            self._complete_brief()

    def _complete_brief(self) -> None:
        if self._brief:
            self._brief = 0
            self.wake()

    def _spool_is_empty(self, wait: float) -> bool:
        """Tell whether nothing waits; a spool that is busy is being written."""
        try:
            return self.spool.is_empty(wait=wait)
        except StoreBusy:
            return False

    def _enqueue(self, ops: Sequence[Operation], *, wait: float = _APPEND_WAIT) -> list[Outcome]:
        try:
            self.spool.append([replace(op, spooled=True) for op in ops], wait=wait)
        except StoreFull:
            self.counters["refused"] += len(ops)
            raise
        self.counters["spooled"] += len(ops)
        self.wake()
        return [Outcome(op_id=op.op_id, uid=getattr(op, "uid", ""), status="queued") for op in ops]

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        self._written = time.monotonic()
        for outcome in outcomes:
            self.counters[outcome.status] += 1
        if (self.embedding.is_on and not self.one_shot) or any(outcome.status == "forgotten" for outcome in outcomes):
            self.wake()

    def _cancel_queued(self, ops: Sequence[Operation]) -> None:
        """Take forgotten texts out of the spool before the store forgets them, so that no drain can bring them back."""
        if not any(isinstance(op, Forget) for op in ops):
            return
        spools = [spool for spool in (self.spool, self.waiting) if not spool.is_empty() or spool.quarantined()]
        if not spools:
            return
        everything = Reach(None, None)
        for op in ops:
            if isinstance(op, Forget):
                row, changes = self.store.read(op.uid, everything), self.store.history(op.uid, everything)
                if gone := forgotten(op.uid, row, changes):
                    for spool in spools:
                        # Whose the waiting writes are nobody knows yet.
                        spool.cancel(eraser(gone, every_subject=spool is self.waiting))

    # -- draining ----------------------------------------------------------------------------------------------------------------

    def drain(self, *, wait: float = _DRAIN_WAIT, theme: str | None = None, until: float | None = None) -> DrainReport:
        """Write what waits in the spool (of `theme`); `wait` bounds the wait for the write lock."""
        deadline = time.monotonic() + wait
        report = self.spool.drain(lambda ops: self._open(wait).apply(ops, wait=wait), theme=theme, until=until)
        while report.skipped_locked and time.monotonic() < deadline:
            # Another drain is at work: what it applies is what the caller wants to see.
            time.sleep(_DRAIN_PAUSE)
            report = self.spool.drain(lambda ops: self._open(wait).apply(ops, wait=wait), theme=theme, until=until)
        self.counters["drained"] += report.applied
        self.counters["quarantined"] += report.quarantined
        if report.applied:
            self.wake()  # a forget among them has left work
        return report

    def overlay(self, reach: Reach) -> tuple[Overlay, bool]:
        """Return what a recall must see of the spool, after an attempt to drain it, and whether that is all of it."""
        self._complete_brief()
        recent = self.store.unindexed(reach)
        try:
            if not self._held and self.spool.is_empty(wait=_DRAIN_WAIT):
                return Overlay(rows=tuple(recent)), True
            with contextlib.suppress(StoreBusy, StoreFull, StoreUnavailable):
                self.drain(wait=HOOK_WAIT, until=time.monotonic() + 5 * HOOK_WAIT)
            ops = [*self.spool.pending(limit=_OVERLAID, wait=_DRAIN_WAIT), *self._held]
        except StoreBusy:
            return Overlay(rows=tuple(recent)), False
        overlay = overlay_of(ops, self.store, reach) if ops else Overlay()
        known = overlay.uids
        rows = (*overlay.rows, *(row for row in recent if row.uid not in known))
        return replace(overlay, rows=rows), len(ops) < _OVERLAID

    # -- background --------------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the worker see what is due."""
        self._worker.wake()

    def _work(self, *, hurry: bool = True) -> bool:
        """Do due work; True when nothing is left."""
        done = True
        if not self._queue_held():
            return False
        if not self.spool.is_empty():
            try:
                report = self.drain(wait=_DRAIN_WAIT)
            except StoreUnavailable as error:
                _log.warning("the spool waits: %s", error)
                return False
            done = not report.left
        self.spool.scrub()
        try:
            self._prune()
            done = self.store.upkeep(seconds=_UPKEEP_STEP, hurry=hurry) and done
            return self._embed(hurry=hurry) and done
        except (StoreBusy, StoreUnavailable, StoreFull):
            return False

    def _embed(self, *, hurry: bool) -> bool:
        """Give pending rows their vectors; True when none is left that may be tried now."""
        # A command embeds what it has written, after its answer; a backlog is the business of those that stay.
        if not self.embedding.is_on or (self.one_shot and not (hurry and self._written)):
            return True
        if hurry and self._worker.is_running:
            return True  # it is at it, or waits for an embedder that hangs
        if not hurry and time.monotonic() - self._written < _QUIET:
            return not self.backfill.has_work()  # an agent is at work: it goes first
        return self.backfill.work(last=hurry)

    def _prune(self) -> None:
        if time.monotonic() - self._pruned > _PRUNE_EVERY:
            self._pruned = time.monotonic()
            self.store.prune()

    def finish(self, seconds: float) -> bool:
        """Do due work now, as a one-shot command does before it exits; True when nothing is left."""
        until = time.monotonic() + seconds
        while not self._work_quietly():
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE)
        return True

    def _work_quietly(self) -> bool:
        if self._store is None and not self._held and self.spool.is_empty():
            return True
        try:
            return self._work()
        except StoreUnavailable:
            return True

    def figures(self) -> dict[str, Any]:
        """Return what this process has counted, for stats and metrics."""
        return {**self.counters, **self.backfill.counters, "worker_failures": self._worker.failures}

    def embedding_figures(self) -> dict[str, Any]:
        """Return the embedder, the store's model and how the rows stand. Raises StoreError."""
        figures = self.embedding.figures()
        return {**figures, "problem": figures["problem"] or self.backfill.error}

    def before_fork(self) -> None:
        """Nothing: the connections guard themselves."""

    def after_fork(self) -> None:
        """Nothing: the connections guard themselves."""

    def abandon(self) -> None:
        """Renew what a forked child cannot use: locks whose holders are not there, and the worker."""
        self._opening = threading.Lock()
        self._held.clear()  # the parent's to write
        self.clock.renew_lock()
        self.embedding.renew()
        self._worker.renew()

    def close(self, *, seconds: float = 2.0) -> None:
        """Stop the worker, finish what fits into `seconds`, close every connection."""
        self._worker.stop(timeout=seconds)
        if self._store is not None:
            try:
                self.finish(seconds)
            except (StoreBusy, StoreCorrupt, StoreFull) as error:
                _log.warning("left for the next start: %s", error)
            self._store.close()
        self.embedding.close()
        self.spool.close()
        self.waiting.close()
