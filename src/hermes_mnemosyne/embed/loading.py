"""What every model on this machine needs: files that are what they should be, and loading at the first use, once."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from hermes_mnemosyne import forks
from hermes_mnemosyne._errors import EmbeddingError

Loaded = TypeVar("Loaded")

_INHERITED: list[object] = []
"""What a forked child must keep but never use: the native part would wait for threads that exist in the parent only."""


@dataclass(frozen=True)
class ModelFile:
    """A file of a model; with `sums`, only these SHA-256 sums (hexadecimal) are accepted, without any it is the user's own file."""

    path: Path
    sums: frozenset[str] = frozenset()

    def verified(self) -> Path:
        """Return the path of the file when it is what it should be.

        Raises EmbeddingError: the file cannot be read or its sum is not listed.
        """
        try:
            with self.path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest() if self.sums else ""
        except OSError as error:
            raise EmbeddingError(f"{self.path} cannot be read: {error.strerror}") from error
        if self.sums and found not in self.sums:
            raise EmbeddingError(
                f"{self.path} is not a file that this release knows (SHA-256 {found}) and is not loaded: "
                "reinstall its package, or name the directory of a model of your own"
            )
        return self.path


class Lazy(Generic[Loaded]):
    """A model in memory, loaded at the first use by a thread of its own, so that nobody waits longer than they said."""

    def __init__(self, name: str, load: Callable[[], Loaded]) -> None:
        """Take the `name` for messages and the function that loads; it runs when the model is first needed."""
        self._name = name
        self._load = load
        self._lock = threading.Lock()
        self._loading: Future[Loaded] | None = None
        forks.guard(self)

    def get(self, deadline: float | None) -> Loaded:
        """Return the model, loading it unless it is there; wait until `deadline` (of `time.monotonic`) at most.

        Raises EmbeddingError: it cannot be loaded, also for want of a package, or (`retryable`) not in time, and loading goes on.
        """
        future = self._future()
        try:
            error = future.exception(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except TimeoutError as late:
            raise EmbeddingError(f"{self._name} is still being loaded", retryable=True) from late
        if error is None:
            return future.result()
        with self._lock:
            if self._loading is future:  # the next call tries again
                self._loading = None
        if isinstance(error, EmbeddingError):
            raise error
        raise EmbeddingError(f"{self._name} cannot be loaded: {error}") from error

    def _future(self) -> Future[Loaded]:
        with self._lock:
            if self._loading is None:
                pool = ThreadPoolExecutor(1, thread_name_prefix="mnemosyne-load")
                try:
                    self._loading = pool.submit(self._load)
                except RuntimeError as error:  # the interpreter is shutting down
                    raise EmbeddingError(f"{self._name} cannot be loaded now: {error}", retryable=True) from error
                finally:
                    pool.shutdown(wait=False)
            return self._loading

    def drop(self) -> None:
        """Let go of the model; its memory is free once no call uses it any more."""
        with self._lock:
            self._loading = None

    def before_fork(self) -> None:
        """Take the lock, so that no child inherits it taken."""
        self._lock.acquire()

    def after_fork(self) -> None:
        """Give the lock back, in the parent."""
        self._lock.release()

    def abandon(self) -> None:
        """Forget the inherited model without ending it, in the child; the next use loads anew."""
        self._lock = threading.Lock()
        if self._loading is not None:
            _INHERITED.append(self._loading)
            self._loading = None


def deadline_of(timeout: float | None) -> float | None:
    """Return the moment (of `time.monotonic`) at which a call that may take `timeout` seconds must be over."""
    return None if timeout is None else time.monotonic() + timeout


def check_time(deadline: float | None, name: str) -> None:
    """Raise EmbeddingError (`retryable`) once the deadline is over."""
    if deadline is not None and time.monotonic() > deadline:
        raise EmbeddingError(f"{name} did not finish in time", retryable=True)
