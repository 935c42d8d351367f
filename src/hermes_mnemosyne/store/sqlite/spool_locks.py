"""The locks by which processes that use one spool keep out of each other's way; all are gone with the process that holds them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from hermes_mnemosyne._errors import StoreBusy, StoreFull, StoreUnavailable
from hermes_mnemosyne.paths import secure_file

_PAUSE = 0.005


def unusable(error: OSError, path: Path) -> StoreFull | StoreUnavailable:
    """Return the error of Mnemosyne for one that the system reports of a file or directory."""
    kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreUnavailable
    return kind(f"{path}: {error.strerror or error}; check its directory and disk")


class SpoolLocks:
    """The locks beside the spool's file at `path`."""

    def __init__(self, path: Path) -> None:
        """Hold none."""
        self._path = path
        self._handles: set[int] = set()
        self._holds_directory = False

    def abandon(self) -> None:
        """Close what a forked child inherited: a copy of a handle would keep the parent's lock alive after the parent."""
        self._holds_directory = False
        for handle in self._handles:
            os.close(handle)
        self._handles = set()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[bool]:
        """Hold the lock file `<path>.lock` during the block, if no other process or thread does: then yield True.

        Raises StoreUnavailable and StoreFull when the lock file cannot be used.
        """
        lock = self._path.with_name(self._path.name + ".lock")
        try:
            secure_file(lock)
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise unusable(error, lock) from error
        with self._locked(handle, 0.0) as held:
            yield held

    @contextlib.contextmanager
    def directory(self, deadline: float, *, shared: bool = False) -> Iterator[None]:
        """Hold the directory, alone in all processes or `shared`, for which is waited until the monotonic time `deadline`.

        One thread of a process at a time. Within a block that holds it alone, it is held already.
        Raises StoreBusy, StoreUnavailable and StoreFull.
        """
        if self._holds_directory:
            yield
            return
        try:
            handle = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise unusable(error, self._path) from error
        with self._locked(handle, deadline, shared=shared) as held:
            if not held:
                raise StoreBusy(f"{self._path}: another process is setting it up; try again")
            self._holds_directory = not shared
            try:
                yield
            finally:
                self._holds_directory = False

    @contextlib.contextmanager
    def _locked(self, handle: int, deadline: float, *, shared: bool = False) -> Iterator[bool]:
        owner = os.getpid()
        self._handles.add(handle)
        try:
            yield self._flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, deadline)
        finally:
            if os.getpid() == owner:
                self._handles.discard(handle)
                # A child forked in between may not have closed its copy yet.
                fcntl.flock(handle, fcntl.LOCK_UN)
                os.close(handle)

    def _flock(self, handle: int, kind: int, deadline: float) -> bool:
        while True:
            try:
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_PAUSE)
            except OSError as error:
                raise unusable(error, self._path) from error
            else:
                return True
