"""How an engine accepts writes that the store does not take now: into the spool, and for moments in which that is locked, memory."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from hermes_mnemosyne._errors import StoreBusy, StoreFull
from hermes_mnemosyne.spool import Spool
from hermes_mnemosyne.store.operations import Operation, Outcome

_HOOK_WAIT = 0.03
# Where all that hooks write goes this way, the lock is free in a moment: to wait for it is better than memory, which a crash takes.
_SURE_WAIT = 0.25
_APPEND_WAIT = 1.0
_MOVE_WAIT = 0.25
MOST_HELD = 10_000


class Intake:
    """Takes operations into a spool, in their order. Safe from any thread."""

    def __init__(self, spool: Spool, counters: Counter[str], wake: Callable[[], None], *, bound: int = 0) -> None:
        """Take over the spool, the engine's counters, and what lets its worker run.

        `bound` operations are held in memory at most while the spool can be had at all: beyond, a hook waits for it. With 0 hooks
        have tried the store already, and wait for nothing.
        """
        self._spool = spool
        self._counters = counters
        self._wake = wake
        self._bound = bound
        self._patience = _SURE_WAIT if bound else _HOOK_WAIT
        self._held: deque[Operation] = deque()
        self._moving = threading.Lock()

    @property
    def held(self) -> tuple[Operation, ...]:
        """What is in memory only, oldest first."""
        return tuple(self._held)

    def accept(self, ops: Sequence[Operation], *, wait: float = _APPEND_WAIT) -> list[Outcome]:
        """Queue operations durably. Raises StoreFull, StoreBusy, StoreUnavailable, InvalidInput."""
        try:
            self._spool.append([replace(op, spooled=True) for op in ops], wait=wait)
        except StoreFull:
            self._counters["refused"] += len(ops)
            raise
        self._counters["spooled"] += len(ops)
        self._wake()
        return _queued(ops)

    def accept_of_hook(self, ops: Sequence[Operation]) -> list[Outcome]:
        """Queue operations of a caller who must not wait; a spool that is locked gets them from memory.

        Raises StoreFull, StoreUnavailable, InvalidInput.
        """
        try:
            # What is held was said earlier and must be queued earlier.
            return self._hold(ops) if self._held else self.accept(ops, wait=self._patience)
        except StoreBusy:
            return self._hold(ops)

    def _hold(self, ops: Sequence[Operation]) -> list[Outcome]:
        """Keep writes in memory for the worker: store and spool are both locked for longer than a hook may wait.

        Raises StoreFull when too many are held.
        """
        if 0 < self._bound <= len(self._held):
            self.move_held(wait=_APPEND_WAIT)
        if len(self._held) + len(ops) > MOST_HELD:
            self._counters["refused"] += len(ops)
            raise StoreFull(f"{self._spool.path} has been locked for long: end the program that holds it")
        self._held.extend(replace(op, spooled=True) for op in ops)
        self._counters["held"] += len(ops)
        self._wake()
        return _queued(ops)

    def move_held(self, *, wait: float = _MOVE_WAIT) -> bool:
        """Queue what is held; True when nothing is held any more. Raises StoreFull, StoreUnavailable."""
        with self._moving:
            while self._held:
                try:
                    self._spool.append([self._held[0]], wait=wait)
                except StoreBusy:
                    return False
                self._held.popleft()
                self._counters["spooled"] += 1
            return True

    def renew(self) -> None:
        """Begin anew in a forked child: what is held is the parent's to write."""
        self._held.clear()
        self._moving = threading.Lock()


def _queued(ops: Sequence[Operation]) -> list[Outcome]:
    return [Outcome(op_id=op.op_id, uid=getattr(op, "uid", ""), status="queued") for op in ops]
