"""One round at a time on one store."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator

from hermes_mnemosyne._errors import StoreBusy, StoreUnavailable
from hermes_mnemosyne.core import Engine
from hermes_mnemosyne.paths import secure_directory

_PAUSE = 0.05


@contextlib.contextmanager
def alone(engine: Engine, *, wait: float, stop: threading.Event | None = None) -> Iterator[None]:
    """Hold the lock of a store's rounds; the system gives it back when the process dies.

    Raises StoreBusy when another round holds it for `wait` seconds, or until `stop` is set; StoreUnavailable when there can be no lock.
    """
    path = engine.place.beside("sync.lock")
    stop = stop or threading.Event()
    try:
        secure_directory(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be made ({error.strerror}): correct the directory's owner or mode") from error
    owner = os.getpid()
    until = time.monotonic() + wait

    def pause() -> None:
        if time.monotonic() >= until or stop.wait(_PAUSE):
            raise StoreBusy("another round of sync is under way on this store: run again when it is done")

    try:
        while not _locked(handle):
            pause()
        with contextlib.ExitStack() as stack:
            # On a server another host may be at it.
            while not stack.enter_context(engine.store.only_round()):
                stack.close()
                pause()
            yield
    finally:
        if os.getpid() == owner:
            # A child forked in between holds a copy, which would keep the lock.
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
