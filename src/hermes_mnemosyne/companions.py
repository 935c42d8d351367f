"""What goes on beside an engine's own work, in threads of its own: put there by a layer above, ended with the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol


class Companion(Protocol):
    """Something at work beside an engine, of which there is one per engine."""

    def wake(self) -> None:
        """See to it that it is at work."""
        ...

    def renew(self) -> None:
        """Go on in a forked child, where its threads are not."""
        ...

    def stop(self, *, timeout: float) -> object:
        """End, and wait for that up to `timeout` seconds."""
        ...

    def figures(self) -> dict[str, Any]:
        """Return what it has counted."""
        ...


class Companions:
    """The companions of one engine by name. Safe from any thread."""

    def __init__(self) -> None:
        """Begin without any."""
        self._lock = threading.Lock()
        self._found: dict[str, Companion] = {}
        self._ended = False

    def carry(self, name: str, make: Callable[[], Companion]) -> None:
        """See to it that the companion of this name is there and at work, made now if there is none."""
        with self._lock:
            if self._ended:
                return
            companion = self._found.get(name) or self._found.setdefault(name, make())
        companion.wake()

    def figures(self) -> dict[str, Any]:
        """Return the figures of each by its name."""
        return {name: companion.figures() for name, companion in list(self._found.items())}

    def renew(self) -> None:
        """Go on in a forked child; each starts with the next `carry`."""
        self._lock = threading.Lock()
        for companion in self._found.values():
            companion.renew()

    def stop(self, *, timeout: float) -> None:
        """End all of them."""
        with self._lock:
            self._ended = True
            found = list(self._found.values())
        for companion in found:
            companion.stop(timeout=timeout)
