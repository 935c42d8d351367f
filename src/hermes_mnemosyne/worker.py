"""The background worker of an engine: one thread while there is work, none while there is not."""

from __future__ import annotations

import logging
import math
import os
import random
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 5.0
_GIVE_UP = 600.0


class Worker:
    """Runs `job` until it says that nothing is left, with growing pauses while something is in the way.

    A worker that died is started again by the next `wake`. Safe from any thread and after a fork.
    """

    def __init__(self, job: Callable[[], bool], *, name: str, progress: Callable[[], object] | None = None) -> None:
        """Take a job that does some due work and tells whether all is done.

        While `progress` changes from one run to the next, nothing is in the way: the next run follows soon.
        """
        self._job = job
        self._progress = progress or (lambda: None)
        self._name = name
        # Not the shared generator, which a program may have seeded for its own ends.
        self._random = random.Random()  # noqa: S311 - jitter, no secret
        self.failures = 0
        self._longest = _LONGEST_PAUSE
        self._give_up = _GIVE_UP
        self.renew()

    def be_patient(self, longest: float) -> None:
        """Pause up to `longest` seconds between attempts, and never give up."""
        self._longest, self._give_up = longest, math.inf

    def renew(self) -> None:
        """Begin without a thread, as in a forked child."""
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._stop = threading.Event()
        # Ends a pause, as an end of all does.
        self._disturbed = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether its thread is there, at work or waiting."""
        thread = self._thread
        return self._pid == os.getpid() and thread is not None and thread.is_alive()

    @property
    def is_ending(self) -> bool:
        """Whether its job is to come to an end."""
        return self._stop.is_set()

    def wake(self) -> None:
        """See to it that the job runs soon."""
        if self._pid != os.getpid():
            self.renew()
        self._wanted.set()
        with self._lock:
            if not self._stop.is_set() and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def hurry(self) -> None:
        """See to it that the job runs now, also in the middle of a pause."""
        self.wake()
        self._disturbed.set()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        waited = 0.0
        before = self._progress()
        while not self._stop.is_set():
            self._wanted.clear()
            self._disturbed.clear()
            try:
                done = self._job()
            except Exception:  # noqa: BLE001 - the worker's loop must outlive any fault of one job
                self.failures += 1
                done = False
                _log.exception("%s: a job failed; it is tried again", self._name)
            if done:
                pause, waited = _FIRST_PAUSE, 0.0
                with self._lock:
                    if not self._wanted.is_set():
                        self._thread = None
                        return
                continue
            reached, before = before, self._progress()
            if before != reached:
                pause, waited = _FIRST_PAUSE, 0.0
            if waited > self._give_up:
                with self._lock:
                    self._thread = None
                    return
            length = pause * self._random.uniform(0.5, 1.5)
            self._disturbed.wait(length)
            waited += length
            pause = min(pause * 2, self._longest)

    def stop(self, *, timeout: float) -> bool:
        """End the thread and wait for it up to `timeout` seconds; tell whether it has ended."""
        if self._pid != os.getpid():
            self.renew()
        self._stop.set()
        self._disturbed.set()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        if thread.is_alive():
            _log.warning("%s did not stop within %.1f s", self._name, timeout)
        return not thread.is_alive()
