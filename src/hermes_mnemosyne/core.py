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
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes_mnemosyne import forks
from hermes_mnemosyne._errors import ForeignFile, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from hermes_mnemosyne.backfill import Backfill
from hermes_mnemosyne.cancelling import cancel_queued
from hermes_mnemosyne.clock import HybridClock
from hermes_mnemosyne.companions import Companions
from hermes_mnemosyne.contact import Contact
from hermes_mnemosyne.embedding import Embedding
from hermes_mnemosyne.intake import MOST_HELD, Intake
from hermes_mnemosyne.keys import SubjectKey
from hermes_mnemosyne.latency import Latencies, Timed
from hermes_mnemosyne.link import Link
from hermes_mnemosyne.pending import overlay_of, recall_waiting
from hermes_mnemosyne.recall.analyse import TextAnalyser
from hermes_mnemosyne.recall.boosts import Boosts
from hermes_mnemosyne.recall.overlay import Overlay
from hermes_mnemosyne.recall.pipeline import Recaller, RecallOptions
from hermes_mnemosyne.settings import Settings
from hermes_mnemosyne.spool import DrainReport, Spool
from hermes_mnemosyne.store.operations import Forget, Operation, Outcome, of_replica
from hermes_mnemosyne.store.protocol import Filter, Reach, Store
from hermes_mnemosyne.stores import FilePlace, Place
from hermes_mnemosyne.values import RecallQuery, RecallResult
from hermes_mnemosyne.worker import Worker

_log = logging.getLogger(__name__)
HOOK_WAIT = 0.01
_DRAIN_WAIT = 0.25
_UPKEEP_STEP = 1.0
_OVERLAID = 2000
_DRAIN_PAUSE = 0.002
_PAUSE = 0.02
_QUIET = 0.3
# Hooks go before the drain of their process, which would take the interpreter from them: it begins so long after the last one, but
# does its part of a second after each second.
_CALM, _MOST_CALM, _SHARE = 0.05, 1.0, 0.2
_PRUNE_EVERY = 6 * 3600.0
# A recall looks at no more of what waits for a server: each operation asks the server.
_OVERLAID_OF_SERVER = 200
_RECALL_BATCH = 64


class Engine:
    """One store in one process. Safe from any thread, after a fork, and beside other processes."""

    def __init__(self, place: Place | Path, settings: Settings, *, create: bool = True) -> None:
        """Name the store; nothing is opened before it is needed. With `create` false a missing file is an error then."""
        self.place = place = FilePlace(place) if isinstance(place, Path) else place
        self.settings = settings
        named = settings.subject_key_file
        self.key = SubjectKey(Path(named).expanduser() if named else place.beside("key"))
        self.spool = Spool(place.beside("spool.db"), max_bytes=settings.spool_max_bytes, durability=settings.durability)
        # Writes of contacts who cannot be told apart without the key; see hermes/provider/waiting.
        self.waiting = Spool(place.beside("waiting.db"), max_bytes=settings.spool_max_bytes)
        self.contact = Contact()
        self._bound = False
        # When an agent of a theme was noted last (monotonic seconds), see hermes/provider/attributing.
        self.seen: dict[str, float] = {}
        self.analyser = TextAnalyser()
        self.counters: Counter[str] = Counter()
        self.companions = Companions()
        self._create = create
        self._opening = threading.Lock()
        self._store: Store | None = None
        self._recaller: Recaller | None = None
        self.latencies = Latencies()
        # Before the store is known its clock has a name of its own, so that stamps of two processes never tie.
        self._nameless = secrets.token_hex(8)
        self.clock = HybridClock(self._nameless)
        self._pruned = time.monotonic()
        # Of a command that ends soon: it starts no work in the background.
        self.one_shot = False
        self._brief = 0
        bound = (max(settings.write_queue_maxsize, 0) or MOST_HELD) if place.is_server else 0
        self._intake = Intake(self.spool, self.counters, self.wake, bound=bound)
        self.embedding = Embedding(settings, lambda: self.store)
        self.backfill = Backfill(self.embedding, lambda: self.store)
        self._written = 0.0
        self._hooked = float("-inf")
        self._worker = Worker(lambda: self._work(hurry=False), name="mnemosyne-worker", progress=self._progress)
        self._link = Link(str(place), self.contact, self._worker) if place.is_server else None
        forks.guard(self)

    # -- opening -----------------------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """The database file, None where the store is a server."""
        return self.place.file

    @property
    def store(self) -> Store:
        """The store, opened now if it was not; a server is waited for, for as long as for a lock.

        Raises ForeignFile, SchemaMismatch, StoreUnavailable, StoreBusy.
        """
        return self._store or self._open(self.settings.busy_timeout)

    def _open(self, wait: float) -> Store:
        if self._link is None:
            return self._opened(wait)
        # Only the worker connects for the first time: it may wait for a server that hangs, a caller may not.
        self._link.await_first(wait)
        return self._opened(wait)

    def _opened(self, wait: float) -> Store:
        if not self._opening.acquire(timeout=wait):
            raise StoreBusy(f"{self.place} is being opened; try again")
        try:
            if self._store is None:
                if not self._create and not self.place.exists():
                    raise StoreUnavailable(f"there is no database {self.place}: name one with --db, or store something first")
                store = self.place.open(self.analyser, self.key, self.settings, wait=wait)
                expected = store.meta("subject_key")
                if expected:
                    self.key.expect(expected)
                self.clock.adopt(store.replica, store.last_clock())
                if self._link is not None:
                    # Not before: its first answer tells those who wait that the store is here.
                    store = self._link.watched(store)
                self._store = store
                if store.due() or (self.embedding.is_on and not self.one_shot):
                    self.wake()
            return self._store
        finally:
            self._opening.release()

    def ready(self, wait: float) -> bool:
        """Tell whether the store may be asked without waiting for long; a file always may.

        A server may when it answered the last time. Else the worker tries it, and this waits for that for at most `wait` seconds.
        """
        return self._link is None or self._link.ready(wait)

    def when_ready(self, task: Callable[[], None]) -> None:
        """Let the worker run `task` once the server answers; of a file, do nothing."""
        if self._link is not None:
            self._link.when_ready(task)

    @property
    def recaller(self) -> Recaller:
        """The read path over the store."""
        if self._recaller is None:
            boosts = Boosts(half_life_days=self.settings.recency_half_life_days)
            self._recaller = Recaller(Timed.over(self.store, self.latencies), self.analyser, RecallOptions(boosts=boosts))
        return self._recaller

    def bind_key(self) -> bool:
        """Make the subject key if the store has none yet and record its check value; tell whether there is a usable key."""
        if self._bound:
            return self.key.load(create=False)
        store = self.store
        if store.meta("subject_key") is None:
            value = self.key.check_value()
            if value is None:
                return False
            store.set_meta_once("subject_key", value)
        expected = store.meta("subject_key")
        self.key.expect(expected)
        # What was recorded once stays; a server need not be asked again.
        self._bound = self.place.is_server and expected is not None
        return self.key.load(create=False)

    # -- writing -----------------------------------------------------------------------------------------------------------------

    def submit(self, ops: Sequence[Operation], *, hook: bool) -> list[Outcome]:
        """Write operations: hooks at once or into the spool, others directly after what waits in the spool of their theme.

        Raises StoreBusy after `busy_timeout` (not for hooks), StoreFull when the spool has no room, StoreCorrupt, ForeignFile.
        """
        if not ops:
            return []
        if hook:
            if not self.place.is_server:
                return self._submit_hook(ops)
            self._hooked = time.monotonic()
            return self._intake.accept_of_hook(ops)
        until = time.monotonic() + self.settings.busy_timeout
        if not self.spool.is_empty():
            self.drain(wait=self.settings.busy_timeout, theme=ops[0].theme)
        try:
            store = self.store
            ops = of_replica(ops, self._nameless, store.replica)
            if any(isinstance(op, Forget) for op in ops):
                self.bind_key()
            cancel_queued(ops, store, self.spool, self.waiting)
            outcomes = store.apply(ops, wait=max(HOOK_WAIT, until - time.monotonic()))
        except ForeignFile:
            raise
        except StoreUnavailable as error:
            if not self.place.is_server and (not self._create or not self.place.exists()):
                raise
            _log.warning("the store is away, writes are queued: %s", error)
            return self._intake.accept(ops)
        self._count(outcomes)
        return outcomes

    def _submit_hook(self, ops: Sequence[Operation]) -> list[Outcome]:
        until = time.monotonic() + HOOK_WAIT
        if self._spool_is_empty(HOOK_WAIT):
            try:
                store = self._store or self._open(HOOK_WAIT)
                ops = of_replica(ops, self._nameless, store.replica)
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
        return self._intake.accept_of_hook(ops)

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

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        self._written = time.monotonic()
        for outcome in outcomes:
            self.counters[outcome.status] += 1
        if (self.embedding.is_on and not self.one_shot) or any(outcome.status == "forgotten" for outcome in outcomes):
            self.wake()

    # -- draining ----------------------------------------------------------------------------------------------------------------

    def drain(self, *, wait: float = _DRAIN_WAIT, theme: str | None = None, until: float | None = None) -> DrainReport:
        """Write what waits in the spool (of `theme`); `wait` bounds the wait for the write lock."""
        deadline = time.monotonic() + wait
        # Where somebody waits for the end, a batch is a short one.
        batch = self.place.batch if until is None else min(self.place.batch, _RECALL_BATCH)

        def drained() -> DrainReport:
            return self.spool.drain(
                lambda ops: (self._store or self._open(wait)).apply(ops, wait=wait), theme=theme, until=until, batch=batch
            )

        report = drained()
        while report.skipped_locked and time.monotonic() < deadline:
            # Another drain is at work: what it applies is what the caller wants to see.
            time.sleep(_DRAIN_PAUSE)
            report = drained()
        self.counters["drained"] += report.applied
        self.counters["retried"] += bool(report.stopped)
        self.counters["quarantined"] += report.quarantined
        if report.applied:
            self.wake()  # a forget among them has left work
        return report

    def _drain_beside_hooks(self) -> DrainReport:
        """Drain all that waits, in parts while hooks are at work."""
        while True:
            began = time.monotonic()
            while (left := self._hooked + _CALM - time.monotonic()) > 0 and time.monotonic() - began < _MOST_CALM:
                time.sleep(left)
            is_calm = time.monotonic() - self._hooked >= _CALM
            report = self.drain(wait=_DRAIN_WAIT, until=None if is_calm else time.monotonic() + _SHARE)
            if not report.left or report.stopped or not report.applied + report.quarantined or self._worker.is_ending:
                return report

    def overlay(self, reach: Reach) -> tuple[Overlay, bool]:
        """Return what a recall must see of the spool, after an attempt to drain it, and whether that is all of it."""
        self._complete_brief()
        recent = self.store.unindexed(reach)
        most = _OVERLAID_OF_SERVER if self.place.is_server else _OVERLAID
        try:
            if not self._intake.held and self.spool.is_empty(wait=_DRAIN_WAIT):
                return Overlay(rows=tuple(recent)), True
            ops = self.spool.pending(limit=most, wait=_DRAIN_WAIT) if self.place.is_server else []
            if not self.place.is_server or len(ops) >= most:
                # A server's commit takes longer than to look at what waits for it, which the worker is about to write.
                with contextlib.suppress(StoreBusy, StoreFull, StoreUnavailable):
                    self.drain(wait=HOOK_WAIT, until=time.monotonic() + 5 * HOOK_WAIT)
                ops = self.spool.pending(limit=most, wait=_DRAIN_WAIT)
            ops += self._intake.held
        except StoreBusy:
            return Overlay(rows=tuple(recent)), False
        overlay = overlay_of(ops, self.store, reach) if ops else Overlay()
        known = overlay.uids
        rows = (*overlay.rows, *(row for row in recent if row.uid not in known))
        return replace(overlay, rows=rows), len(ops) < most

    def recall_undrained(self, reach: Reach, asked: RecallQuery, where: Filter) -> RecallResult:
        """Return what is found among the writes that wait in the spool, while the store is away. Raises StoreBusy."""
        ops = [*self.spool.pending(limit=_OVERLAID_OF_SERVER, wait=_DRAIN_WAIT), *self._intake.held]
        return recall_waiting(ops, self.analyser, reach, asked, where)

    # -- background --------------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the worker see what is due."""
        self._worker.wake()

    def _work(self, *, hurry: bool = True) -> bool:
        """Do due work; True when nothing is left."""
        done = True
        if not self._intake.move_held():
            return False
        if self._link is not None and not self._link.reach(lambda: self._opened(self.settings.busy_timeout)):
            # Where nothing waits for it, the next one who asks has it tried again.
            return self.spool.is_empty() and not self._link.has_tasks
        if not self.spool.is_empty():
            try:
                report = self._drain_beside_hooks() if self.place.is_server and not hurry else self.drain(wait=_DRAIN_WAIT)
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

    def _progress(self) -> tuple[int, int]:
        """Return what the worker has achieved so far."""
        return self.counters["drained"], self.backfill.counters["embedded"]

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
        if not self.ready(seconds):
            return not self._intake.held and self.spool.is_empty()
        until = time.monotonic() + seconds
        while not self._work_quietly():
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE)
        return True

    def _work_quietly(self) -> bool:
        if self._store is None and not self._intake.held and self.spool.is_empty():
            return True
        try:
            return self._work()
        except StoreUnavailable:
            return True

    def figures(self) -> dict[str, Any]:
        """Return what this process has counted, for stats and metrics."""
        counted: dict[str, Any] = {**self.counters, **self.backfill.counters, "worker_failures": self._worker.failures}
        counted |= {"recall": self.latencies.figures(), **self.companions.figures()}
        if self.place.is_server:
            counted |= {
                "database": self.contact.state,
                "database_problem": self.contact.problem,
                "failures": self.contact.failures,
            }
        return counted

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
        self._intake.renew()
        if self._link is not None:
            self._link.renew()
        self.clock.renew_lock()
        self.embedding.renew()
        self.latencies.renew()
        self._worker.renew()
        self.companions.renew()

    def close(self, *, seconds: float = 2.0) -> None:
        """Stop the worker, finish what fits into `seconds`, close every connection."""
        if self.place.is_server:
            seconds = min(seconds, self.settings.shutdown_drain_timeout)
        self.companions.stop(timeout=seconds)
        self._worker.stop(timeout=seconds)
        if self.place.is_server and not self.contact.is_there:
            with contextlib.suppress(StoreError):
                self._intake.move_held()
        elif self._store is not None:
            try:
                self.finish(seconds)
            except (StoreBusy, StoreCorrupt, StoreFull, StoreUnavailable) as error:
                _log.warning("left for the next start: %s", error)
        if self._store is not None:
            self._store.close()
        self.embedding.close()
        self.spool.close()
        self.waiting.close()
