"""Whether a database server can be reached, as far as this process knows: what to ask before anything that may take long."""

from __future__ import annotations

import threading
import time
from typing import Literal

from hermes_mnemosyne._errors import StoreUnavailable

State = Literal["unverified", "there", "away"]


class Contact:
    """What the attempts of one process to use a server have shown. Safe from any thread.

    `unverified` before the first attempt and after an answer that did not come in time, `there` since an attempt worked, `away`
    since one failed. A state stays until the next attempt says otherwise: an idle server has not gone away.
    """

    def __init__(self) -> None:
        """Begin without knowing."""
        self.failures = 0
        self._state: State = "unverified"
        self._error: StoreUnavailable | None = None
        self._attempted = float("-inf")
        self.renew()

    def renew(self) -> None:
        """Go on in a forked child: its parent's waiting threads are not there."""
        self._changed = threading.Condition()

    @property
    def state(self) -> State:
        """What is known."""
        return self._state

    @property
    def is_there(self) -> bool:
        """Whether the last attempt worked."""
        return self._state == "there"

    @property
    def problem(self) -> str:
        """Why the server is away, empty when that is not known to be so."""
        return str(self._error) if self._error is not None and not self.is_there else ""

    def rested(self, seconds: float) -> bool:
        """Tell whether the last attempt ended at least so long ago."""
        return time.monotonic() - self._attempted >= seconds

    def error(self) -> StoreUnavailable:
        """Return a new error that says what is wrong."""
        if self._error is None or self.is_there:
            return StoreUnavailable("the database has not answered yet: what is written is kept and follows")
        return type(self._error)(str(self._error))

    def worked(self) -> None:
        """Note that the server answered."""
        if self._state != "there":
            self._note("there", None)

    def failed(self, error: StoreUnavailable) -> None:
        """Note that the server could not be used."""
        self.failures += 1
        self._note("away", error)

    def doubt(self) -> None:
        """Note that an answer did not come in time."""
        with self._changed:
            if self._state == "there":
                self._state, self._attempted = "unverified", float("-inf")

    def _note(self, state: State, error: StoreUnavailable | None) -> None:
        with self._changed:
            self._state, self._error, self._attempted = state, error, time.monotonic()
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until an attempt that ends after this call tells, at most so long; return whether the server is there."""
        before = self._attempted
        with self._changed:
            self._changed.wait_for(lambda: self.is_there or self._attempted > before, timeout=max(seconds, 0.0))
            return self.is_there
