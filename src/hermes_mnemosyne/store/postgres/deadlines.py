"""An end to waiting for a server that has stopped answering.

A server that hangs keeps its socket open, so neither the driver nor a statement's own time-out, which the server would have to
keep, ever ends the wait. Here a thread shuts the socket down at the deadline; the driver then reports a lost connection.
"""

from __future__ import annotations

import heapq
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_IDLE = 30.0


@dataclass(slots=True)
class _Watched:
    fileno: int
    over: bool = False


class Deadlines:
    """The deadlines of one process. Its thread ends when nothing has been watched for a while."""

    def __init__(self) -> None:
        """Begin without a thread."""
        self.renew()

    def renew(self) -> None:
        """Begin anew, as in a forked child."""
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, _Watched]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, fileno: int, seconds: float) -> Iterator[None]:
        """Shut the socket `fileno` down when the block takes longer than `seconds`."""
        watched = _Watched(fileno)
        until = time.monotonic() + seconds
        with self._changed:
            is_first = not self._heap or until < self._heap[0][0]
            heapq.heappush(self._heap, (until, next(self._numbers), watched))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mnemosyne-deadlines", daemon=True)
                self._thread.start()
            elif is_first:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                watched.over = True

    def _run(self) -> None:
        with self._changed:
            while True:
                while self._heap and self._heap[0][2].over:
                    heapq.heappop(self._heap)
                if not self._heap:
                    if not self._changed.wait(_IDLE) and not self._heap:
                        self._thread = None
                        return
                    continue
                until, _, watched = self._heap[0]
                left = until - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                heapq.heappop(self._heap)
                watched.over = True
                # Under the lock: the block is still there, so the number still means this socket.
                with suppress(OSError), socket.socket(fileno=os.dup(watched.fileno)) as same:
                    same.shutdown(socket.SHUT_RDWR)


DEADLINES = Deadlines()
os.register_at_fork(after_in_child=DEADLINES.renew)
