"""Rounds again and again: after each change here or there, or at intervals, through outages, until it is told to stop."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from hermes_mnemosyne._errors import StoreBusy, StoreError
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync import state as states
from hermes_mnemosyne.sync.exchange import RemoteError, Stopped
from hermes_mnemosyne.sync.remote import Pull, Remote
from hermes_mnemosyne.sync.round import Options, sync_once
from hermes_mnemosyne.sync.summary import Summary

_LOOK_EVERY = 0.2
_LISTEN_SECONDS = 50.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_SPREAD = 0.05


def pause_after(failures: int, longest: float = _LONGEST_PAUSE) -> float:
    """Return the seconds to the next attempt after so many failures in a row: doubled each time, spread over half of it."""
    full: float = min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 16), longest)
    return full * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When rounds are done: every `interval` seconds, with None after each change. `report` is told of every round."""

    interval: float | None
    report: Callable[[Summary], None]


class Keeper:
    """Keeps a store and a server the same. `run` blocks; `stop` may come from a signal handler."""

    def __init__(
        self, memory: Memory, connect: Callable[[threading.Event], Remote], options: Options, schedule: Schedule
    ) -> None:
        """Take a memory whose reach is everything, and what makes a connection to the server."""
        self._stop = options.stop or threading.Event()
        self._memory = memory
        self._options = options
        self._schedule = schedule
        self._remote = connect(self._stop)
        self._listener = Listener(connect(self._stop), self._stop) if schedule.interval is None else None

    def stop(self) -> None:
        """End `run` soon: what is under way is cut, and the next start goes on from there."""
        self._stop.set()
        self._remote.cut()
        if self._listener is not None:
            self._listener.cut()

    def run(self) -> None:
        """Do rounds until `stop`."""
        failures = 0
        try:
            while not self._stop.is_set():
                summary = self._round()
                if self._stop.is_set():
                    return
                self._schedule.report(summary)
                if summary.errors:
                    failures += 1
                    self._stop.wait(pause_after(failures, min(self._schedule.interval or _LONGEST_PAUSE, _LONGEST_PAUSE)))
                    continue
                failures = 0
                if self._schedule.interval is not None:
                    # Not all clients of a server at the same moment for ever.
                    spread = random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - jitter, no secret
                    self._stop.wait(self._schedule.interval * spread)
                else:
                    self._await_change(summary)
        finally:
            self._remote.close()
            if self._listener is not None:
                self._listener.close()

    def _round(self) -> Summary:
        try:
            return sync_once(self._memory, self._remote, self._options)
        except StoreError as error:
            return Summary(self._options.name or self._remote.url, self._remote.url, errors=[str(error)])

    def _await_change(self, summary: Summary) -> None:
        """Return when there is something to be sent or fetched, or the store cannot be asked."""
        listener = self._listener
        if listener is None:
            return
        seen = summary.position
        try:
            state = states.load(self._memory, summary.name)
            wanted = summary.wanted or self._options.wanted
            sharing = wanted.sharing()
            listener.listen(Pull(wanted=wanted, after=state.pulled, limit=1, wait=_LISTEN_SECONDS, skip=state.theirs))
            while not self._stop.wait(_LOOK_EVERY):
                if listener.heard.is_set():
                    return
                seen, is_new = self._looked(seen, state, sharing)
                if is_new:
                    return
        except StoreError:
            # The next round says what is wrong, and waits.
            return

    def _looked(self, seen: int, state: states.State, sharing: Sharing) -> tuple[int, bool]:
        """Return how far our changes were looked through, and whether one of them is to be sent."""
        with contextlib.suppress(StoreBusy):
            if not self._memory.engine.spool.is_empty():
                return seen, True
        store = self._memory.engine.store
        now = store.position()
        if now == seen:
            return seen, False
        changes = store.changes(max(seen, state.pushed), sharing, limit=1, skip=state.skip)
        return changes.position, bool(changes.records)


class Listener:
    """Waits in a thread of its own for the server to have something new. `heard` is set when it has, or cannot be asked."""

    def __init__(self, remote: Remote, stop: threading.Event) -> None:
        """Take a connection that nobody else uses."""
        self._remote = remote
        self._stop = stop
        self._wanted = threading.Event()
        self._ask: Pull | None = None
        self._closed = False
        self.heard = threading.Event()
        self._thread: threading.Thread | None = None

    def listen(self, ask: Pull) -> None:
        """Wait for what comes after a position."""
        self._ask = ask
        self.heard.clear()
        self._wanted.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mnemosyne-sync-listener", daemon=True)
            self._thread.start()

    def cut(self) -> None:
        """End the waiting, from a signal handler too."""
        self._closed = True
        self._remote.cut()
        self._wanted.set()

    def close(self) -> None:
        """End the thread."""
        self.cut()
        if self._thread is not None:
            self._thread.join(5.0)
        self._remote.close()

    def _run(self) -> None:
        failures = 0
        while True:
            self._wanted.wait()
            ask = self._ask
            if self._closed or ask is None:
                return
            began = time.monotonic()
            try:
                page = self._remote.pull(ask)
            except Stopped:
                return
            except RemoteError:
                failures += 1
                # A round will tell what is wrong; where it finds nothing, a way that carries no long waits must not make a storm of rounds.
                if self._stop.wait(pause_after(failures)):
                    return
                self._tell(ask)
                continue
            failures = 0
            if page.records or page.set_aside:
                self._tell(ask)
            elif self._ask is ask:
                self._ask = replace(ask, after=page.head["position"])
                if time.monotonic() - began < 1.0 and self._stop.wait(1.0):
                    return  # a server that does not wait is not asked all the time

    def _tell(self, ask: Pull) -> None:
        """Say that there is something, unless somebody has asked for another position meanwhile."""
        if self._ask is ask:
            self._wanted.clear()
            self.heard.set()
