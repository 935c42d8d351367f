"""Runs the app as a server process: the socket, connections with an end, signals, systemd, a stop that leaves nothing half done."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes_mnemosyne._errors import ConfigError, InvalidInput
from hermes_mnemosyne.sync.server.access import is_loopback
from hermes_mnemosyne.sync.server.app import SyncApp
from hermes_mnemosyne.sync.server.limits import Limits
from hermes_mnemosyne.sync.server.notify import Notifier

_log = logging.getLogger(__name__)
_BACKLOG = 512
_FILES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens, and with which certificate."""

    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def shown(self, port: int) -> str:
        """Return the URL, for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls_cert else 'http'}://{host}:{port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


def listen(address: Address) -> socket.socket:
    """Return a socket that listens. Raises InvalidInput with the remedy."""
    host, port = address.host, address.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(
            f"--host {host}: {getattr(error, 'strerror', None) or error}: name an address of this machine"
        ) from None
    family, kind, protocol, _, where = found[0]
    server = socket.socket(family, kind, protocol)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::":
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(where)
        server.listen(_BACKLOG)
    except OSError as error:
        server.close()
        raise InvalidInput(f"cannot listen on {host} port {port} ({error.strerror}): {_remedy(error)}") from None
    server.set_inheritable(False)
    return server


def _remedy(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another process does already; stop it, or name another --port"
    if error.errno == errno.EACCES:
        return "name a --port above 1023"
    return "name an address of this machine with --host"


def check_certificate(address: Address) -> None:
    """Raise ConfigError unless the certificate and its key can be used."""
    if address.tls_cert is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            address.tls_cert, address.tls_key, password=_no_password
        )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        names = f"{address.tls_cert} and {address.tls_key or 'its key'}"
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise ConfigError(f"{names} cannot be used for TLS ({reason}): correct --tls-cert and --tls-key") from None


def _no_password() -> str:
    raise ValueError("the key is locked with a password: give one without")


def serve(app: SyncApp, listener: socket.socket, address: Address, limits: Limits, environ: Mapping[str, str]) -> None:
    """Serve until SIGTERM or SIGINT; what is under way then is answered."""
    _allow_files()
    config = uvicorn.Config(
        app,
        http=connection_type(limits),
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(limits.keep_alive_seconds),
        timeout_graceful_shutdown=int(limits.stop_seconds),
        h11_max_incomplete_event_size=limits.header_bytes,
        ssl_certfile=address.tls_cert,
        ssl_keyfile=address.tls_key,
    )
    # What strangers send is no error of ours.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = Server(config, app, Notifier(environ), name=address.shown(listener.getsockname()[1]))
    server.run(sockets=[listener])


def _allow_files() -> None:
    """Let the process have as many connections as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Server(uvicorn.Server):
    """A server that tells the service manager how it is, and the app when it is to stop."""

    def __init__(self, config: uvicorn.Config, app: SyncApp, notifier: Notifier, *, name: str) -> None:
        """Take all that it runs; `name` is its URL."""
        super().__init__(config)
        self._app, self._notifier, self._name = app, notifier, name
        self._alive: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and say so."""
        await super().startup(sockets)
        self._notifier.tell("READY=1", f"STATUS=serving {self._name}", f"MAINPID={os.getpid()}")
        if self._notifier.watchdog_seconds is not None:
            self._alive = asyncio.get_running_loop().create_task(self._say_alive(self._notifier.watchdog_seconds))

    async def _say_alive(self, seconds: float) -> None:
        # From the loop itself: a loop that is stuck says nothing.
        while True:
            self._notifier.tell("WATCHDOG=1")
            await asyncio.sleep(seconds)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what is under way, and end."""
        self._notifier.tell("STOPPING=1", "STATUS=answering what is under way")
        self._app.stop()
        await super().shutdown(sockets)
        await asyncio.to_thread(self._app.close)
        if self._alive is not None:
            self._alive.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """End by SIGTERM and SIGINT, and leave it to the caller what to return; a second SIGINT does not wait."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kept = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.force_exit = self.should_exit and number == signal.SIGINT
        self.should_exit = True


def connection_type(limits: Limits) -> type[H11Protocol]:
    """Return the class of connections: none is held for nothing, and of too many without a request the oldest one goes."""
    idle: dict[Connection, None] = {}

    class Connection(H11Protocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._end: asyncio.TimerHandle | None = None
            self._is_lost = False
            app = self.app

            async def busy(scope: Any, receive: Any, send: Any) -> None:
                self._rest(None)
                try:
                    await app(scope, receive, send)
                except TimeoutError:
                    # Whoever does not take an answer would not take its end either. The loop is given the time to see that he has gone.
                    self.transport.abort()
                    await asyncio.sleep(0)
                finally:
                    self._rest(limits.keep_alive_seconds + limits.header_seconds)

            self.app = busy

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._rest(limits.header_seconds)
            if len(idle) > limits.idle_connections:
                next(iter(idle)).leave()

        def connection_lost(self, exc: Exception | None) -> None:
            self._is_lost = True
            self._rest(None)
            super().connection_lost(exc)

        def _rest(self, seconds: float | None) -> None:
            """Begin to count how long there is no request; None: there is one, or no connection."""
            idle.pop(self, None)
            if self._end is not None:
                self._end.cancel()
                self._end = None
            if seconds is not None and not self._is_lost:
                idle[self] = None
                self._end = self.loop.call_later(seconds, self.leave)

        def leave(self) -> None:
            """Close the connection; there is nothing to be said on it."""
            self._rest(None)
            self.transport.abort()

    return Connection
