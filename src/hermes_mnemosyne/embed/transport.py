"""One POST to one endpoint: kept-alive connections, and an end at the deadline whatever the other side does.

A socket's time-out bounds each wait, not the call: a server that sends one byte now and then, an address with several hosts behind it
or a name server that does not answer can each take many times as long. So the exchange runs in a thread of its own, the caller waits
until the deadline and then cuts the connection, which also ends the thread.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_mnemosyne import forks
from hermes_mnemosyne.embed.failures import Failure

if TYPE_CHECKING:
    from urllib3.connection import HTTPConnection

_HOST = re.compile(r"[^\s\x00-\x20\x7f]+")
_ENDINGS = ("/v1/embeddings", "/api/embed", "/v1")
"""What people add to the address of an endpoint that is added to it anyway."""
_MOST_IDLE = 4
_LONGEST_IDLE = 30.0
"""Seconds: after more, something between the two sides may have forgotten the connection without telling."""


@dataclass(frozen=True)
class Place:
    """Where an endpoint is. `path` is what goes before that of a protocol; `shown` is for messages: without credentials and query."""

    secure: bool
    host: str
    port: int | None
    path: str
    shown: str
    credentials: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Request:
    """What is sent; `limit` bounds the body of the answer in bytes."""

    path: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    limit: int


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


def place_of(url: str) -> Place:
    """Return where a URL leads.

    Raises Failure for what is no http or https URL; the message does not repeat it, for it may hold a password.
    """
    try:
        from urllib3.exceptions import LocationParseError
        from urllib3.util import parse_url
    except ImportError as error:
        raise Failure("an embedding endpoint needs urllib3: pip install urllib3") from error

    try:
        parsed = parse_url(url)
    except LocationParseError:
        parsed = None
    # Older releases of urllib3 let through what no host name holds.
    if parsed is None or parsed.scheme not in ("http", "https") or not parsed.host or not _HOST.fullmatch(parsed.host):
        raise Failure("embed_url is no URL that begins with http:// or https:// and names a host")
    path = (parsed.path or "").rstrip("/")
    ending = next((ending for ending in _ENDINGS if path.endswith(ending)), "")
    path = path.removesuffix(ending)
    shown = f"{parsed.scheme}://{parsed.netloc}{path}"
    return Place(parsed.scheme == "https", parsed.host.strip("[]"), parsed.port, path, shown, parsed.auth)


class Transport:
    """The connections to one place. Safe from any thread and across forks; after `close` the next call connects anew."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Connect to nothing yet; `clock` gives seconds."""
        self._url = url
        self._found: Place | None = None
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        # Its ends are taken and given back in one step each, so that there is no lock that a forked child could inherit locked.
        self._idle: deque[tuple[HTTPConnection, float]] = deque()
        forks.guard(self)

    @property
    def place(self) -> Place:
        """Where the URL leads.

        Raises Failure for what is no URL of an endpoint.
        """
        self._found = self._found or place_of(self._url)
        return self._found

    def post(self, request: Request, *, deadline: float) -> Answer:
        """Send a request and return the answer, of whatever status.

        Raises Failure, retryable but for a certificate that cannot be trusted; of kind `silent` when the deadline came before the answer.
        """
        while connection := self._idle_connection():
            try:
                return self._call(connection, request, deadline)
            except _StaleError:
                # The other side closed it while it was idle: that is no failure of the endpoint. The others are no fresher.
                continue
        return self._call(self._new_connection(), request, deadline)

    def close(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop()[0].close()

    def _call(self, connection: HTTPConnection, request: Request, deadline: float) -> Answer:
        seconds = deadline - self._clock()
        if seconds <= 0:
            connection.close()
            raise Failure(f"{self.place.shown} could not be asked in time", retryable=True, kind="unreachable")
        call = _Call(connection, request, seconds, self._keep)
        try:
            threading.Thread(target=call.run, name="mnemosyne-embed", daemon=True).start()
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            connection.close()
            raise Failure("no thread could be started to ask the embedding endpoint", retryable=True) from error
        try:
            answered = call.done.wait(seconds)
        finally:
            if not call.done.is_set():
                call.cut()
        # After the cut a part of the answer looks like all of it.
        if answered and call.answer is not None:
            return call.answer
        if not answered or isinstance(_root(call.failure), TimeoutError):
            kind_of_wait = "did not answer" if call.sent else "could not be reached"
            message = f"{self.place.shown} {kind_of_wait} within {seconds:.3g} s"
            raise Failure(message, retryable=True, kind="silent" if call.sent else "unreachable") from call.failure
        if call.reused and call.failure is not None and not call.began:
            raise _StaleError from call.failure
        trusted = not isinstance(_root(call.failure), ssl.SSLCertVerificationError)
        message = f"{self.place.shown} {'broke off' if call.sent else 'cannot be reached'}: {_reason(call.failure)}"
        raise Failure(message, retryable=trusted, kind="trouble" if call.sent else "unreachable") from call.failure

    def _idle_connection(self) -> HTTPConnection | None:
        with contextlib.suppress(IndexError):
            while True:
                connection, since = self._idle.pop()
                if self._clock() - since < _LONGEST_IDLE and connection.is_connected:
                    return connection
                connection.close()
        return None

    def _keep(self, connection: HTTPConnection) -> None:
        if len(self._idle) < _MOST_IDLE:
            self._idle.append((connection, self._clock()))
        else:
            connection.close()

    def _new_connection(self) -> HTTPConnection:
        from urllib3.connection import HTTPConnection, HTTPSConnection

        place = self.place
        if place.secure:
            # Reading the certificates of the system takes longer than a handshake.
            self._context = self._context or ssl.create_default_context()
            return HTTPSConnection(place.host, place.port, ssl_context=self._context)
        return HTTPConnection(place.host, place.port)

    # -- forks -------------------------------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Nothing: connections may be inherited as long as only one side uses them."""

    def after_fork(self) -> None:
        """Nothing."""

    def abandon(self) -> None:
        """Close the child's handles of the connections; the parent's stay open."""
        self.close()


class _StaleError(Exception):
    """A connection that had been idle turned out to be closed."""


class _Call:
    """One exchange over one connection, which it owns until it gives it to `keep` or closes it."""

    def __init__(
        self, connection: HTTPConnection, request: Request, seconds: float, keep: Callable[[HTTPConnection], None]
    ) -> None:
        self._connection = connection
        self._request = request
        self._seconds = seconds
        self._keep = keep
        self._given_up = False
        self._socket: socket.socket | None = connection.sock
        self.reused = connection.sock is not None
        self.sent = False
        self.began = False
        self.done = threading.Event()
        self.answer: Answer | None = None
        self.failure: Exception | None = None

    def run(self) -> None:
        """Do the exchange and leave `answer` or `failure`."""
        from urllib3.exceptions import HTTPError

        whole = False
        try:
            whole = self._exchange()
        except (HTTPError, http.client.HTTPException, OSError, ValueError) as error:
            self.failure = error
        finally:
            if whole and not self._given_up:
                self._keep(self._connection)
            else:
                self._connection.close()
            self.done.set()

    def _exchange(self) -> bool:
        """Return whether the connection can carry another exchange."""
        connection, request = self._connection, self._request
        connection.timeout = self._seconds
        if self._socket is None:
            connection.connect()
            self._socket = connection.sock
        if self._given_up or self._socket is None:
            return False
        self._socket.settimeout(self._seconds)
        connection.request("POST", request.path, request.body, request.headers, preload_content=False, decode_content=False)
        self.sent = True
        response = connection.getresponse()
        self.began = True
        body = response.read(request.limit + 1, decode_content=False)
        self.answer = Answer(response.status, response.headers, body)
        return response.closed and connection.sock is not None

    def cut(self) -> None:
        """End the exchange from another thread: a shut socket wakes whoever waits for it, a closed one might be somebody else's."""
        self._given_up = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def _root(error: BaseException | None) -> BaseException | None:
    while error is not None and (cause := error.__cause__ or _carried(error)) is not None:
        error = cause
    return error


def _carried(error: BaseException) -> BaseException | None:
    """Return the exception that one of urllib3 has among its arguments."""
    return next((argument for argument in error.args if isinstance(argument, BaseException)), None)


def _reason(error: BaseException | None) -> str:
    root = _root(error)
    if isinstance(root, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({root.verify_message})"
    if isinstance(root, OSError) and root.strerror:
        return root.strerror
    if isinstance(root, ConnectionError):
        return "the connection was closed"
    return type(root).__name__ if root is not None else "the call ended unexpectedly"
