"""Tells systemd how the server is: READY, WATCHDOG, STOPPING, as datagrams to the socket that it names."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

_MICROSECONDS = 1_000_000


class Notifier:
    """The way to the service manager; without one every call does nothing, and none ever fails."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Take the socket from `$NOTIFY_SOCKET`; a leading @ means an abstract one."""
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self.watchdog_seconds = _watchdog(environ)

    def tell(self, *words: str) -> None:
        """Send words such as `READY=1`."""
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as way:
            way.settimeout(0)
            way.sendto("\n".join(words).encode(), self._address)


def _watchdog(environ: Mapping[str, str]) -> float | None:
    """Return how often the watchdog wants a sign of life, in seconds; None where it wants none of this process."""
    microseconds, process = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or not int(microseconds) or (process and process != str(os.getpid())):
        return None
    return int(microseconds) / _MICROSECONDS / 2
