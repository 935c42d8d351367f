"""An embedding endpoint on the loopback interface that speaks OpenAI and Ollama and misbehaves on request.

    with EmbeddingServer() as server:
        server.behave(status(503), times=2)   # the next two requests
        server.behave(hang)                   # all requests, until server.behave(None)
        server.poison = "arsenic"             # answers 400 when a text holds the word
        server.meanings["concise"] = "short"  # two words with one meaning

Vectors are hashed bags of words: equal texts have equal vectors, similar ones are near, texts without a common word are about
orthogonal. What was asked is in `server.requests`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

LONG = 30.0
PATHS = {"/v1/embeddings": "openai", "/api/embed": "ollama"}


def vector_of(text: str, dimension: int, meanings: Mapping[str, str] | None = None) -> list[float]:
    """Return the vector of a text: of unit length, the same in every process."""
    total = [0.0] * dimension
    words = re.findall(r"\w+", text.casefold()) or [text]
    for word in words:
        meaning = (meanings or {}).get(word, word)
        for feature, weight in ((meaning, 1.0), (f"{meaning[:4]}*", 0.5)):
            bits = int.from_bytes(hashlib.blake2b(feature.encode("utf-8", "replace")).digest())
            for _ in range(8):
                bits, position = divmod(bits, dimension)
                bits, sign = divmod(bits, 2)
                total[position] += weight if sign else -weight
    length = math.hypot(*total) or 1.0
    return [value / length for value in total]


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    connection: int

    @property
    def texts(self) -> list[str]:
        given = self.body.get("input", [])
        return [given] if isinstance(given, str) else list(given)


@dataclass
class Reply:
    """An answer in the making: behaviours change it before it is sent."""

    server: EmbeddingServer
    protocol: str
    vectors: list[Any]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    indexes: list[int] | None = None
    raw: bytes | None = None
    sending: str = "whole"  # or chunked, drip, drip headers, hang, drop

    def body(self) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.protocol == "ollama":
            return json.dumps({"embeddings": self.vectors}).encode()
        indexes = self.indexes or list(range(len(self.vectors)))
        rows = [{"object": "embedding", "index": i, "embedding": v} for i, v in zip(indexes, self.vectors, strict=True)]
        return json.dumps({"object": "list", "data": rows}).encode()


Behaviour = Callable[[Reply], None]


def status(code: int, message: str = "made to fail", **headers: str) -> Behaviour:
    """Answer an error; a header is given as `Retry_After="3"`."""

    def change(reply: Reply) -> None:
        reply.status = code
        reply.raw = json.dumps({"error": {"message": message}}).encode()
        reply.headers |= {name.replace("_", "-"): value for name, value in headers.items()}

    return change


def redirect(target: str) -> Behaviour:
    return status(307, Location=target)


def answering(body: str | bytes) -> Behaviour:
    """Answer 200 with this body, whatever it is."""

    def change(reply: Reply) -> None:
        reply.raw = body if isinstance(body, bytes) else body.encode()

    return change


html = answering("<!doctype html><title>Welcome to our hotel</title>")
huge = answering(b"[" + b"0," * 8_000_000 + b"0]")


def wrong_dimension(dimension: int) -> Behaviour:
    def change(reply: Reply) -> None:
        reply.vectors = [[1.0] * dimension for _ in reply.vectors]

    return change


def filled_with(value: float | str | None) -> Behaviour:
    """Answer vectors of the right length that hold nothing but `value`."""

    def change(reply: Reply) -> None:
        reply.vectors = [[value] * len(vector) for vector in reply.vectors]

    return change


def too_few(reply: Reply) -> None:
    reply.vectors.pop()


def too_many(reply: Reply) -> None:
    reply.vectors.append(reply.vectors[0])


def other_order(reply: Reply) -> None:
    """Answer the last first, which OpenAI's `index` tells."""
    reply.indexes = list(range(len(reply.vectors)))[::-1]
    reply.vectors.reverse()


def repeated_index(reply: Reply) -> None:
    reply.indexes = [0] * len(reply.vectors)


def chunked(reply: Reply) -> None:
    reply.sending = "chunked"


def cut_off(reply: Reply) -> None:
    """Announce more than is sent."""
    reply.headers["Content-Length"] = str(len(reply.body()) + 100)
    reply.sending = "once"


def drip(reply: Reply) -> None:
    """Send the body byte by byte, never to its end, until the server is released."""
    reply.sending = "drip"


def drip_headers(reply: Reply) -> None:
    """Send header after header, until the server is released."""
    reply.sending = "drip headers"


def hang(reply: Reply) -> None:
    """Take the request and say nothing, until the server is released."""
    reply.sending = "hang"


def drop(reply: Reply) -> None:
    """Close the connection without an answer."""
    reply.sending = "drop"


def drop_reused(reply: Reply) -> None:
    """Close the connection without an answer unless the request is its first."""
    seen = reply.server.requests
    if [request.connection for request in seen].count(seen[-1].connection) > 1:
        reply.sending = "drop"


class EmbeddingServer:
    """A context manager: it serves on a port of its own until it is closed."""

    def __init__(self, dimension: int = 64, *, protocols: Sequence[str] = ("openai", "ollama"), key: str | None = None) -> None:
        self.dimension = dimension
        self.protocols = set(protocols)
        self.key = key
        self.poison: str | None = None
        self.poison_status = 400
        self.meanings: dict[str, str] = {}
        self.requests: list[Seen] = []
        self.waiting = threading.Semaphore(0)  # released once for each request that begins to hang or drip
        self.released = threading.Event()
        self._behaviour: Behaviour | None = None
        self._next: deque[Behaviour] = deque()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="embedding-server", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def texts(self) -> list[str]:
        """All texts that were asked about, in order."""
        return [text for request in self.requests for text in request.texts]

    def behave(self, behaviour: Behaviour | None, *, times: int | None = None) -> None:
        """Change the answers: the next `times`, before those that were changed earlier for good; None heals."""
        if times is not None and behaviour is not None:
            self._next.extend([behaviour] * times)
            return
        self._behaviour = behaviour
        self._next.clear()

    def vector(self, text: str) -> list[float]:
        return vector_of(text, self.dimension, self.meanings)

    def reply(self, seen: Seen) -> Reply:
        reply = Reply(self, PATHS.get(seen.path, ""), [self.vector(text) for text in seen.texts])
        change = self._next.popleft() if self._next else self._behaviour
        if reply.protocol not in self.protocols:
            status(404, "no such page")(reply)
        elif self.key is not None and seen.headers.get("Authorization") != f"Bearer {self.key}":
            status(401, f"the key {seen.headers.get('Authorization')} is wrong")(reply)
        elif self.poison is not None and any(self.poison in text for text in seen.texts):
            status(self.poison_status, "a text is bad")(reply)
        if change is not None:
            change(reply)
        return reply

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving and close every connection, at once."""
        if self._thread.is_alive():
            self.released.set()
            self._server.shutdown()
            self._server.drop_connections()
            self._thread.join(LONG)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them

    def __init__(self, owner: EmbeddingServer) -> None:
        self.owner = owner
        self.connections: dict[int, socket.socket] = {}
        self.opened = 0
        super().__init__(("127.0.0.1", 0), _Handler)

    def drop_connections(self) -> None:
        for connection in list(self.connections.values()):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that give up are what is tested."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.opened += 1
        self.number = self.server.opened
        self.server.connections[self.number] = self.connection

    def finish(self) -> None:
        self.server.connections.pop(self.number, None)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
        """Say nothing."""

    def do_POST(self) -> None:
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seen = Seen(self.path, dict(self.headers), body, self.number)
        owner.requests.append(seen)
        reply = owner.reply(seen)
        if reply.sending in ("hang", "drop"):
            if reply.sending == "hang":
                self.wait(LONG)
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        content = reply.body()
        if reply.sending == "drip headers":
            self.flush_headers()
            self.drip(b"X-Wait: yes\r\n")
        elif reply.sending == "drip":
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.drip(b" ")
        elif reply.sending == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (content[:10], content[10:]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        else:
            if "Content-Length" not in reply.headers:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = reply.sending == "once"

    def wait(self, seconds: float) -> None:
        self.server.owner.waiting.release()
        self.server.owner.released.wait(seconds)

    def drip(self, piece: bytes) -> None:
        self.server.owner.waiting.release()
        while not self.server.owner.released.wait(0.02):
            self.wfile.write(piece)
        self.close_connection = True
