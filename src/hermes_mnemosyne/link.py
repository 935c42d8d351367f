"""The way of an engine to a store on a server: only the worker connects, everybody else asks whether it is there."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from hermes_mnemosyne._errors import MnemosyneError, StoreUnavailable
from hermes_mnemosyne.contact import Contact
from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.stores import Watched
from hermes_mnemosyne.worker import Worker

_log = logging.getLogger(__name__)
# A server that is away is tried again by the worker after at most so long, and for as long as anything waits for it.
_LONGEST_PAUSE = 20.0
# Whoever asks for it again has it tried at once, unless it was tried less than so long ago.
_LEAST_REST = 2.0
_RETRY_WAIT = 0.03
# Whoever has waited in vain for so long spares the next one the wait.
_LONG_WAIT = 1.0
_MOST_TASKS = 256


class Link:
    """One server as one process knows it. Safe from any thread."""

    def __init__(self, name: str, contact: Contact, worker: Worker) -> None:
        """Take the server's name for messages, and the worker whose job calls `reach`."""
        self._name = name
        self._contact = contact
        self._worker = worker
        self._tasks: deque[Callable[[], None]] = deque(maxlen=_MOST_TASKS)
        self._store: Store | None = None
        worker.be_patient(_LONGEST_PAUSE)

    @property
    def has_tasks(self) -> bool:
        """Whether something waits for the server beside writes."""
        return bool(self._tasks)

    def watched(self, store: Store) -> Store:
        """Return a store that was opened, so that every call tells how the server is."""
        self._store = store
        return Watched.over(store, self._contact, lambda: self.ready(_RETRY_WAIT))

    def ready(self, wait: float) -> bool:
        """Tell whether the server answered the last time; else have the worker try it, and wait for that at most `wait` seconds."""
        if self._store is not None and self._contact.is_there:
            return True
        if self._contact.state == "away" and not self._contact.rested(_LEAST_REST):
            self._worker.wake()
            return False
        self._worker.hurry()
        return self._contact.wait(wait)

    def await_first(self, wait: float) -> None:
        """Wait at most so long for the first connection. Raises StoreUnavailable."""
        if self.ready(wait):
            return
        if wait >= _LONG_WAIT and self._contact.state == "unverified":
            self._contact.failed(StoreUnavailable(f"{self._name} does not answer: what is written is kept and follows"))
        raise self._contact.error()

    def when_ready(self, task: Callable[[], None]) -> None:
        """Let the worker run `task` once the server answers; only the latest are kept, and none beyond this process."""
        self._tasks.append(task)
        self._worker.wake()

    def reach(self, connect: Callable[[], object]) -> bool:
        """Try a server that is not known to be there, in the worker's thread; tell whether it is, and do what waited for it."""
        if self._store is None or not self._contact.is_there:
            try:
                if self._store is None:
                    connect()
                else:
                    self._store.meta("subject_key")
            except MnemosyneError as error:
                known = self._contact.problem
                self._contact.failed(error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error)))
                if self._contact.problem != known:
                    _log.warning("%s is away, writes are queued: %s", self._name, error)
                return False
            self._contact.worked()
        while self._tasks:
            task = self._tasks.popleft()
            try:
                task()
            except (MnemosyneError, OSError) as error:
                _log.warning("what waited for the database was not done: %s", error)
        return True

    def renew(self) -> None:
        """Go on in a forked child."""
        self._tasks.clear()
        self._contact.renew()
