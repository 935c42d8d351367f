"""One HTTP exchange with a server: a kept-alive connection, bounded in time, that can be cut from a signal handler."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_mnemosyne._errors import MnemosyneError
from hermes_mnemosyne.sync.address import Address
from hermes_mnemosyne.sync.wire import CutOff

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse
    from urllib3.connection import HTTPConnection

CONNECT_SECONDS = 10.0
SILENT_SECONDS = 60.0
"""The longest silence of a server that is to answer, beside the time it was asked to wait."""
EXCHANGE_SECONDS = 300.0
"""The longest exchange, however steadily its bytes drop in."""
_CHUNK = 64 * 1024
_LONGEST_IDLE = 20.0


class RemoteError(MnemosyneError):
    """The server could not be asked, or refused.

    `word` is the protocol's word where the server said one, `retryable` whether the same request may succeed later, `after` the
    seconds until then if the server named them. `proven` tells that the server itself said it: what nobody signed may come from
    anybody on the way.
    """

    def __init__(
        self, message: str, *, word: str = "", retryable: bool = False, after: float = 0.0, proven: bool = False
    ) -> None:
        """Take a sentence and what it means for the caller."""
        super().__init__(message)
        self.word = word
        self.retryable = retryable
        self.after = after
        self.proven = proven


class Stopped(MnemosyneError):
    """The exchange was ended from this side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent; `wait` are the seconds that the server was asked to wait before it answers."""

    method: str
    target: str
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0


class Answer:
    """An answer whose body has not been read yet."""

    def __init__(self, response: BaseHTTPResponse, until: float, name: str) -> None:
        """Take a response and the time (monotonic seconds) at which its body must have come."""
        self._response = response
        self._until = until
        self._name = name
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    def chunks(self) -> Iterator[bytes]:
        """Return the body as it is sent, piece by piece. Raises RemoteError when it takes too long, CutOff when it ends early."""
        from urllib3.exceptions import HTTPError, IncompleteRead, ProtocolError

        try:
            for chunk in self._response.stream(_CHUNK, decode_content=False):
                if time.monotonic() > self._until:
                    raise RemoteError(f"{self._name} sends too slowly", retryable=True)
                yield chunk
        except (IncompleteRead, ProtocolError, http.client.HTTPException, ConnectionError) as error:
            raise CutOff(f"the answer of {self._name} was cut off") from error
        except (HTTPError, OSError) as error:
            raise RemoteError(f"{self._name} broke off its answer", retryable=True) from error

    def read(self, limit: int) -> bytes:
        """Return the body. Raises RemoteError for one longer than `limit` bytes; else as `chunks`."""
        body = bytearray()
        for chunk in self.chunks():
            body += chunk
            if len(body) > limit:
                raise RemoteError(f"{self._name} answers with more than {limit:,} bytes")
        return bytes(body)


class Exchanger:
    """The connection to one server. For one thread; `cut` may come from any other, or from a signal handler."""

    def __init__(self, address: Address) -> None:
        """Connect to nothing yet."""
        self._address = address
        self._connection: HTTPConnection | None = None
        self._context: ssl.SSLContext | None = None
        self._socket: socket.socket | None = None
        self._used = 0.0
        self.is_cut = False

    def send(self, request: Request) -> Answer:
        """Send a request and return the beginning of the answer. Raises RemoteError, Stopped after `cut`."""
        idle = self._idle()
        if idle is not None:
            try:
                return self._send(idle, request)
            except RemoteError as error:
                # Closed by the other side while it was idle: that says nothing about the server.
                if not isinstance(error.__cause__, ConnectionError | http.client.RemoteDisconnected):
                    raise
        return self._send(self._fresh(), request)

    def done(self) -> None:
        """Keep the connection for the next request if its answer was read to the end."""
        self._used = time.monotonic()

    def drop(self) -> None:
        """Close the connection: what is still on its way there belongs to an answer that nobody reads."""
        connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.close()

    def cut(self) -> None:
        """End the exchange that is under way, and every later one."""
        self.is_cut = True
        if (open_socket := self._socket) is not None:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def _idle(self) -> HTTPConnection | None:
        connection = self._connection
        if connection is not None and time.monotonic() - self._used < _LONGEST_IDLE and connection.is_connected:
            return connection
        self.drop()
        return None

    def _fresh(self) -> HTTPConnection:
        from urllib3.connection import HTTPConnection, HTTPSConnection

        self.drop()
        host, port = self._address.host, self._address.port
        if self._address.secure:
            # Reading the certificates of the system takes longer than a handshake.
            self._context = self._context or ssl.create_default_context()
            self._connection = HTTPSConnection(host, port, timeout=CONNECT_SECONDS, ssl_context=self._context)
        else:
            self._connection = HTTPConnection(host, port, timeout=CONNECT_SECONDS)
        return self._connection

    def _send(self, connection: HTTPConnection, request: Request) -> Answer:
        from urllib3.exceptions import HTTPError

        name = self._address.url
        until = time.monotonic() + EXCHANGE_SECONDS + request.wait
        stage = "cannot be reached"
        try:
            if self.is_cut:
                raise Stopped
            if connection.sock is None:
                connection.connect()
            self._socket = connection.sock
            stage = "did not answer"
            if self._socket is not None:
                self._socket.settimeout(SILENT_SECONDS + request.wait)
            connection.request(
                request.method,
                request.target,
                request.body or None,
                {"User-Agent": "mnemosyne", "Accept-Encoding": "gzip", **request.headers},
                preload_content=False,
                decode_content=False,
            )
            return Answer(connection.getresponse(), until, name)
        except (HTTPError, http.client.HTTPException, OSError, ValueError) as error:
            self.drop()
            if self.is_cut:
                raise Stopped from error
            root = _root(error)
            if isinstance(root, ssl.SSLCertVerificationError):
                raise RemoteError(f"the certificate of {name} is not trusted ({root.verify_message})") from root
            raise RemoteError(f"{name} {stage}: {_reason(root)}", retryable=True) from root


def _root(error: BaseException) -> BaseException:
    """Return the exception behind those that wrap it, among its causes or its arguments."""
    while True:
        inner = error.__cause__ or next((part for part in error.args if isinstance(part, BaseException)), None)
        if inner is None:
            return error
        error = inner


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it was silent for too long"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "the connection was closed" if isinstance(error, ConnectionError) else type(error).__name__
