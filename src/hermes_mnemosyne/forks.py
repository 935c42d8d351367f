"""What must not be carried across a fork.

SQLite keeps its file locks per process in memory that a forked child inherits. While an inherited connection to a file exists in
the child, a new connection to that file believes that the process holds the shared lock already and takes none; as soon as the
parent closes its own, the log is checkpointed and deleted under the child, and what the child commits is lost. So connections
are closed before the fork, while their locks are held, and both sides open new ones when they need them.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class ForkGuarded(Protocol):
    """A thing with connections and locks that lives in a process that may fork."""

    def before_fork(self) -> None:
        """Take the own locks, so that nothing is under way, and close what must not be inherited."""
        ...

    def after_fork(self) -> None:
        """Give the locks back, in the parent."""
        ...

    def abandon(self) -> None:
        """Replace locks and forget everything inherited without closing it, in the child."""
        ...


class _Registry:
    """The guarded things of this process, held weakly."""

    def __init__(self) -> None:
        self._forking = threading.Lock()
        self._members: weakref.WeakSet[ForkGuarded] = weakref.WeakSet()
        self._held: list[ForkGuarded] = []

    def add(self, member: ForkGuarded) -> None:
        with self._forking:
            self._members.add(member)

    def before(self) -> None:
        self._forking.acquire()
        for member in list(self._members):
            self._held.append(member)
            member.before_fork()

    def after_in_parent(self) -> None:
        held, self._held = self._held, []
        for member in held:
            member.after_fork()
        self._forking.release()

    def after_in_child(self) -> None:
        self._forking = threading.Lock()
        held, self._held = self._held, []
        for member in held:
            member.abandon()


_registry = _Registry()
os.register_at_fork(before=_registry.before, after_in_parent=_registry.after_in_parent, after_in_child=_registry.after_in_child)


def guard(member: ForkGuarded) -> None:
    """Call the hooks of `member` at every fork of this process for as long as it lives; it is held weakly."""
    _registry.add(member)
