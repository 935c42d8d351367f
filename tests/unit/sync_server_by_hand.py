"""A small HTTP server whose every answer a test decides."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Asked:
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Told:
    """An answer; with `cut` fewer bytes are sent than its length says."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass
class HandServer:
    """The port it listens on and the requests there were."""

    port: int
    asked: list[Asked]
    connections: list[object]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def hand_server(answer: Callable[[Asked], Told]) -> Iterator[HandServer]:
    """Answer each request by a function."""
    asked: list[Asked] = []
    connections: list[object] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            connections.append(self)

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(Asked(self.command, self.path, dict(self.headers), body))
            told = answer(asked[-1])
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body[: len(told.body) // 2] if told.cut else told.body)
            if told.cut:
                self.close_connection = True

        do_GET = do_POST = handle_any  # noqa: N815 - http.server looks for these names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield HandServer(server.server_address[1], asked, connections)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
