"""A circuit breaker: what failed again and again is left alone for a while, then tried by one call."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hermes_mnemosyne import forks


@dataclass(frozen=True, slots=True)
class Limits:
    """When a breaker opens, and for how long: `failures` in a row, seconds of the first pause and of the longest."""

    failures: int = 5
    first_pause: float = 1.0
    longest_pause: float = 60.0


class Breaker:
    """Closed, it lets every call through. Open, none but one probe after each pause; pauses double until a call succeeds.

    A probe holds no flag that would have to be taken back, only a time until which nobody else may try: one that is lost with its
    thread or its process delays the next and blocks nothing. Safe from any thread and across forks.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Begin closed; `clock` gives seconds, `jitter` a number from 0 to 1 that spreads the pauses over half to all of their length."""
        self._limits = limits or Limits()
        self._clock = clock
        self._jitter = jitter
        self._lock = threading.Lock()
        self._failures = 0
        self._pauses = 0  # since it opened; 0 while closed
        self._closed_until = 0.0
        self._round = 0  # grows with every opening: what was admitted before says nothing about the state now
        self._reason = ""
        forks.guard(self)

    @property
    def is_open(self) -> bool:
        """Whether calls are held back, but for probes."""
        return self._pauses > 0

    @property
    def failures(self) -> int:
        """How many calls failed since the last one that succeeded."""
        return self._failures

    @property
    def reason(self) -> str:
        """What the last failure said."""
        return self._reason

    def wait(self) -> float:
        """Return the seconds until the next call is let through, 0 when it would be now."""
        return max(self._closed_until - self._clock(), 0.0) if self._pauses else 0.0

    def admit(self, lease: float) -> int | None:
        """Return a ticket for a call that takes at most `lease` seconds, None when it is not let through now."""
        with self._lock:
            if self._pauses:
                now = self._clock()
                if now < self._closed_until:
                    return None
                self._closed_until = now + max(lease, self._limits.first_pause)
            return self._round

    def succeeded(self) -> None:
        """Close: the other side answered."""
        with self._lock:
            self._failures = self._pauses = 0
            self._reason = ""

    def undecided(self, ticket: int) -> None:
        """Learn nothing from the call that holds `ticket`; if it was the probe, the next call is one."""
        with self._lock:
            if self._pauses and ticket == self._round:
                self._closed_until = self._clock()

    def failed(self, ticket: int, reason: str) -> None:
        """Count the failure of the call that holds `ticket`; open, or pause for longer, when it is one too many."""
        with self._lock:
            if ticket != self._round:
                return
            self._failures += 1
            self._reason = reason
            if not self._pauses and self._failures < self._limits.failures:
                return
            pause = min(self._limits.first_pause * 2.0**self._pauses, self._limits.longest_pause)
            self._closed_until = self._clock() + pause * (0.5 + self._jitter() / 2)
            self._pauses = min(self._pauses + 1, 64)  # the power must stay a number
            self._round += 1

    # -- forks -------------------------------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Take the lock, so that the child inherits a state that is whole."""
        self._lock.acquire()

    def after_fork(self) -> None:
        """Go on in the parent."""
        self._lock.release()

    def abandon(self) -> None:
        """Go on in the child, with a lock of its own."""
        self._lock = threading.Lock()
