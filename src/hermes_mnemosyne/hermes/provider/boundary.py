"""The boundary to the host: no exception and no wait leaves a hook.

The host swallows what a provider raises, at best with a debug line, and waits without a limit for most hooks. So failures are
logged and counted here, and work that may hang runs on a helper thread that is left behind when it is late.
"""

from __future__ import annotations

import atexit
import contextvars
import functools
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

from hermes_mnemosyne._errors import MnemosyneError, StoreUnavailable

P = ParamSpec("P")
R = TypeVar("R")

HELPERS = 8
FINISH_SECONDS = 2.0
# What goes wrong with every hook, as on a full disk, is told once in so many seconds: a log lies on a disk too.
TOLD_SECONDS = 60.0

log = logging.getLogger("hermes_mnemosyne.hermes")


class Overdue(StoreUnavailable):
    """There was no answer in time."""


class _Process:
    """What the providers of one process share: failure counts and the places for helper threads."""

    def __init__(self) -> None:
        self.id = os.getpid()
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.places = threading.BoundedSemaphore(HELPERS)
        self.late: set[threading.Thread] = set()
        self.told: dict[str, float] = {}
        self.registered = False


_process = _Process()


def _current() -> _Process:
    # A forked child has none of its parent's threads, so places that they held would never come back.
    global _process  # noqa: PLW0603
    if _process.id != os.getpid():
        _process = _Process()
    return _process


def count(what: str) -> None:
    """Count one failure of this process under a name such as `prefetch` or `prefetch-late`."""
    process = _current()
    with process.lock:
        process.counts[what] += 1


def failures() -> dict[str, int]:
    """Return how often each hook of this process failed or was late."""
    process = _current()
    with process.lock:
        return dict(process.counts)


def hook(default: Callable[[Exception], R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a method a hook: an exception is logged and counted, and `default` of it is returned."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except MnemosyneError as error:
                count(function.__name__)
                _tell(function.__name__, error)
                return default(error)
            except Exception as error:
                count(function.__name__)
                log.exception("%s failed", function.__name__)
                return default(error)

        return guarded

    return decorate


def _tell(name: str, error: MnemosyneError) -> None:
    """Log a failure whose message says what is wrong: in one line, and that not again and again."""
    process, now = _current(), time.monotonic()
    with process.lock:
        is_new = now - process.told.get(name, float("-inf")) >= TOLD_SECONDS
        if is_new:
            process.told[name] = now
    log.log(logging.WARNING if is_new else logging.DEBUG, "%s failed: %s", name, error)


def within(seconds: float, work: Callable[[], R], *, to_the_end: bool = False) -> R:
    """Return what `work` returns, run in the caller's context on a helper thread, if it does so in time.

    With `to_the_end` it is given some time to finish before the process ends, although nobody waits for its answer.

    Raises Overdue when it does not, or when too many helpers still hang; what `work` raises is raised here.
    """
    deadline = time.monotonic() + seconds
    places = _current().places
    if not places.acquire(timeout=seconds):
        raise Overdue(f"{HELPERS} calls still wait for an answer")
    answer: Future[R] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            answer.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            answer.set_exception(error)
        finally:
            places.release()

    helper = threading.Thread(target=run, name="mnemosyne-helper", daemon=True)
    try:
        helper.start()
    except RuntimeError as error:
        places.release()
        raise Overdue("no thread could be started") from error
    # Not waiting for the answer alone: a caller that has its answer finds no thread left over.
    helper.join(max(deadline - time.monotonic(), 0.0))
    if not answer.done():
        if to_the_end:
            _see_through(helper)
        raise Overdue(f"there was no answer within {seconds:g} s")
    return answer.result()


def _see_through(helper: threading.Thread) -> None:
    process = _current()
    with process.lock:
        process.late = {one for one in process.late if one.is_alive()} | {helper}
        if not process.registered:
            # Registered as late as this, it runs before the engines close.
            process.registered = True
            atexit.register(finish, FINISH_SECONDS)


def finish(seconds: float) -> bool:
    """Wait for late work that is to be done to the end, for each of it once; tell whether it was done."""
    deadline = time.monotonic() + seconds
    process = _current()
    with process.lock:
        # A host that ends many providers must not wait for the same hanging disk with every one of them.
        late, process.late = process.late, set()
    for helper in late:
        helper.join(max(deadline - time.monotonic(), 0.0))
    return not any(helper.is_alive() for helper in late)
