"""A sync server in this process or as one of its own, and replicas that speak the protocol to it by hand."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from starlette.testclient import TestClient

from hermes_mnemosyne import Memory
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync import wire
from hermes_mnemosyne.sync.keyring import Keyring
from hermes_mnemosyne.sync.server.access import Access
from hermes_mnemosyne.sync.server.app import Options, make_app
from hermes_mnemosyne.sync.server.limits import Limits
from tests.integration.command import COMMAND

KEY = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {KEY}"}
GZIP = {"Content-Encoding": "gzip"}
EVERYTHING = Sharing(turns=True)


def records_of(memory: Memory, after: int = 0) -> list[dict[str, Any]]:
    return list(memory.engine.store.changes(after, EVERYTHING).records)


def page(replica: str, records: Sequence[Mapping[str, Any]], **head: Any) -> bytes:
    return wire.encode_page({"replica": replica, "now": now_text(), "model": None, **head}, records)


def entry(uid: str, content: str, clock: str = "018000000000" + "0000-aaaaaaaaaaaaaaaa", **fields: Any) -> dict[str, Any]:
    times = dict.fromkeys(("created_at", "updated_at"), "2026-11-30T12:00:00.000000Z")
    return {"type": "entry", "uid": uid, "theme": "hermes", "subject": "", "content": content, "clock": clock, **times, **fields}


@dataclass
class Client:
    """A replica by hand: an id, the mark it has, and requests with a key."""

    http: TestClient
    replica: str = "0123456789abcdef"
    mark: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: BEARER)

    def with_key(self, key: str) -> Client:
        return replace(self, headers={"Authorization": f"Bearer {key}"})

    def get(self, path: str, **query: Any) -> Any:
        return self.http.get(path, params=query, headers=self.headers)

    def pull(self, after: int = 0, **query: Any) -> wire.Page:
        answer = self.get("/v1/changes", replica=self.replica, mark=self.mark, after=after, **query)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == wire.PAGE_TYPE
        found = wire.read_page([answer.content], encoding="identity")
        self.mark = found.head["mark"]
        return found

    def post(self, body: bytes, **headers: str) -> Any:
        return self.http.post(
            "/v1/changes",
            params={"replica": self.replica, "mark": self.mark},
            content=body,
            headers={**self.headers, **GZIP, **headers},
        )

    def push(self, records: Sequence[Mapping[str, Any]], **head: Any) -> dict[str, Any]:
        answer = self.post(page(self.replica, records, **head))
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        self.mark = found["mark"]
        return found


@contextlib.contextmanager
def serving(
    memory: Memory,
    *,
    keyring: Keyring | None = None,
    options: Options | None = None,
    key: str | None = KEY,
    peer: str = "127.0.0.1",
) -> Iterator[Client]:
    """Serve a memory in this process."""
    app = make_app(memory, Access(key, keyring), options or Options())
    with TestClient(app, base_url="http://127.0.0.1", client=(peer, 50000)) as http_client:
        yield Client(http_client)


@dataclass
class Server:
    """A server process."""

    process: subprocess.Popen[str]
    url: str
    log: list[str]
    reader: threading.Thread

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = self.connection()
        try:
            connection.request(method, path, body=body, headers={**BEARER, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def push(self, replica: str, records: Sequence[Mapping[str, Any]], mark: str = "") -> tuple[int, dict[str, Any]]:
        status, body = self.request("POST", f"/v1/changes?replica={replica}&mark={mark}", page(replica, records), GZIP)
        return status, json.loads(body)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self.reader.join(30)
        return code


@contextlib.contextmanager
def server(path: Path, *options: str, key: str | None = KEY, environ: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run a server process on a free port; it is stopped at the end, whatever happened."""
    secret = {} if key is None else {"MNEMOSYNE_SYNC_KEY": key}
    process = subprocess.Popen(
        [*COMMAND, "--db", str(path), "sync-serve", "--port", "0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **secret, **(environ or {})},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    log: list[str] = []
    reader = threading.Thread(target=log.extend, args=(process.stderr,), daemon=True)
    reader.start()
    first = process.stdout.readline()
    found = re.search(r"https?://[^\s\",]+", first)
    try:
        assert found is not None, (first, log)
        running = Server(process, found[0], log, reader)
        yield running
        assert running.stop() == 0, log
    finally:
        process.kill()
        process.wait()
        reader.join(30)
        process.stdout.close()
        process.stderr.close()


@contextlib.contextmanager
def in_thread(memory: Memory, limits: Limits, keyring: Keyring | None = None) -> Iterator[int]:
    """Run a server with bounds of its own on a free port, in a thread of this process, and yield the port."""
    from hermes_mnemosyne.sync.server import serving as module

    address = module.Address(host="127.0.0.1", port=0)
    listener = module.listen(address)
    port = listener.getsockname()[1]
    made: list[module.Server] = []
    make = module.Server

    def remembered(*args: Any, **kwargs: Any) -> module.Server:
        made.append(make(*args, **kwargs))
        return made[-1]

    app = make_app(memory, Access(KEY, keyring), Options(limits=limits))
    with mock.patch.object(module, "Server", remembered):
        thread = threading.Thread(target=module.serve, args=(app, listener, address, limits, {}))
        thread.start()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/healthz", headers={"Connection": "close"})
            assert connection.getresponse().status == 200
            connection.close()
            yield port
        finally:
            made[0].should_exit = True
            thread.join(60)
    assert not thread.is_alive()
