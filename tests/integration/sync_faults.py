"""A way to a server on which every byte is read, that breaks at a chosen byte; and machines whose commands are processes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_mnemosyne import Memory
from hermes_mnemosyne.sync.remote import ATTEMPTS, Remote
from hermes_mnemosyne.sync.round import Options, sync_once
from hermes_mnemosyne.sync.sharing import wanted
from hermes_mnemosyne.sync.summary import Summary
from tests.integration.sync_world import EVERYTHING, KEY
from tests.postgres.proxy import Proxy

DRIVER = (sys.executable, str(Path(__file__).with_name("sync_driver.py")))
SECONDS = 60.0
_MAGIC = b"\x1f\x8b\x08"
_GZIP = 31


@dataclass
class Trap:
    """What happens when so many more bytes have passed: `spring` is called, and the connection is broken if `cut`."""

    left: int
    spring: Callable[[], None] = lambda: None
    cut: bool = False
    ways: tuple[bool, ...] = (False, True)
    """Whether bytes of requests (False) and of answers (True) count."""


class Tap(Proxy):
    """Reads all bytes that pass, leads to whichever port it is told, and holds a trap."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port))
        self.streams: list[tuple[bool, bytearray]] = []
        self.trap: Trap | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def passed(self) -> int:
        return sum(len(seen) for _, seen in self.streams)

    def lead_to(self, port: int) -> None:
        """Let connections to come lead to another server."""
        self._target = ("127.0.0.1", port)

    def read(self) -> bytes:
        """Return all that has passed both ways, with what was compressed in clear beside it."""
        return b"\n".join(part for _, seen in self.streams for part in (bytes(seen), *_unpacked(bytes(seen))))

    def requests(self, method: str) -> list[bytes]:
        """Return the requests that have passed, each as sent."""
        return [
            one
            for answer, seen in self.streams
            if not answer
            for one in _requests(bytes(seen))
            if one.startswith(method.encode())
        ]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answer: bool = False) -> None:
        seen = bytearray()
        self.streams.append((answer, seen))
        while data := await reader.read(65536):
            await self._gate.wait()
            trap = self.trap
            if trap is not None and answer in trap.ways:
                if len(data) >= trap.left:
                    self.trap, rest = None, data[trap.left :]
                    await _forward(data[: trap.left], seen, writer)
                    trap.spring()
                    if trap.cut:
                        return
                    data = rest
                else:
                    trap.left -= len(data)
            await _forward(data, seen, writer)


async def _forward(data: bytes, seen: bytearray, writer: asyncio.StreamWriter) -> None:
    seen += data
    writer.write(data)
    await writer.drain()


def _unpacked(stream: bytes) -> list[bytes]:
    """Return what every gzip member in a stream unpacks to; each that a header announces must be there."""
    found, at = [], stream.find(_MAGIC)
    while at >= 0:
        unpack = zlib.decompressobj(_GZIP)
        try:
            text = unpack.decompress(stream[at:])
        except zlib.error:  # these three bytes by chance
            text = b""
        if unpack.eof:
            found.append(text)
            at = stream.find(_MAGIC, len(stream) - len(unpack.unused_data))
        else:
            at = stream.find(_MAGIC, at + 1)
    assert len(found) == stream.lower().count(b"content-encoding: gzip"), "a body was not read"
    return found


def _requests(stream: bytes) -> list[bytes]:
    found = []
    while stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        found.append(head + b"\r\n\r\n" + rest[:length])
        stream = rest[length:]
    return found


def replay(port: int, request: bytes) -> int:
    """Send the bytes of a request again and return the status of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n" not in answer:
            piece = connection.recv(65536)
            assert piece, "the server hung up"
            answer += piece
    return int(answer.split()[1])


# -- machines --------------------------------------------------------------------------------------------------------------------


@dataclass
class Machine:
    """A file, and commands on it that are processes of their own, by a clock that is `ahead` (seconds)."""

    path: Path
    ahead: float = 0.0
    page: int | None = None

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environ = {
            **os.environ,
            "MNEMOSYNE_SYNC_KEY": KEY,
            "TEST_CLOCK_AHEAD": str(self.ahead),
            **({"TEST_PAGE_RECORDS": str(self.page)} if self.page else {}),
        }
        return subprocess.Popen(
            [*DRIVER, "--db", str(self.path), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
        )

    def __call__(self, *arguments: str, codes: Sequence[int] = (0,)) -> str:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=SECONDS)
        assert process.returncode in codes, (arguments, process.returncode, out, err)
        assert "Traceback" not in err, err
        return out or err

    def json(self, *arguments: str, codes: Sequence[int] = (0,)) -> Any:
        return json.loads(self("--json", *arguments, codes=codes))

    def sync(self, url: str, *arguments: str, codes: Sequence[int] = (0,)) -> Any:
        return self.json("sync", "--profile", "home", "--remote", url, *arguments, codes=codes)

    def add(self, text: str) -> str:
        uid: str = self.json("remember", "--", text)["uid"]
        return uid

    def text(self, uid: str) -> str:
        found: str = self.json("show", uid)["content"]
        return found


def sync(memory: Memory, url: str, *, attempts: int = ATTEMPTS, **options: Any) -> Summary:
    """Do a round in this process."""
    remote = Remote(url, KEY, attempts=attempts)
    try:
        return sync_once(memory, remote, Options(name="home", **options))
    finally:
        remote.close()


def well(memory: Memory, url: str, **options: Any) -> Summary:
    summary = sync(memory, url, **options)
    assert summary.complete, summary
    assert not summary.errors, summary
    return summary


def quiet(url: str, *memories: Memory) -> None:
    """Do rounds of all until nothing moves any more; it must not take long."""
    for _ in range(5):
        if not any([well(memory, url).has_moved for memory in memories]):  # noqa: C419 - a round of each, whatever the others did
            return
    raise AssertionError("rounds go on without end")


def digests(memory: Memory) -> list[tuple[str, str, int, str]]:
    return memory.engine.store.digests(wanted(None, None, turns=False).sharing())


def assert_same(*memories: Memory) -> None:
    """Prove that these hold the same versions of the same rows."""
    first = digests(memories[0])
    assert all(digests(memory) == first for memory in memories[1:])


def contents(memory: Memory) -> Counter[str]:
    """Return the text of every entry in a store, and how often it is there."""
    found: Counter[str] = Counter()
    after, more = 0, True
    while more:
        changes = memory.engine.store.changes(after, EVERYTHING)
        found.update(str(one["content"]) for one in changes.records if one["type"] == "entry" and not one.get("retired"))
        after, more = changes.position, changes.more
    return found


def dice(more: str = "") -> random.Random:
    """Return the same chances in every run."""
    return random.Random(f"20261130 {more}")  # noqa: S311 - a test that can be repeated


class Writer:
    """Somebody who writes at random, and knows what must be there in the end."""

    def __init__(self, chance: random.Random, name: str) -> None:
        self.chance, self.name = chance, name
        self.rows: dict[str, str] = {}
        self.forgotten: set[str] = set()
        self._count = 0

    def write(self, memory: Memory, times: int = 6) -> None:
        """Add, edit and forget rows of one's own, always in the same store."""
        for _ in range(times):
            self._count += 1
            text = f"{self.name} wrote fact number {self._count}"
            here, what = list(self.rows), self.chance.random()
            if what < 0.6 or not here:
                self.rows[memory.remember(text).uid] = text
            elif what < 0.85:
                uid = self.chance.choice(here)
                memory.update(uid, content=text)
                self.rows[uid] = text
            else:
                uid = self.chance.choice(here)
                self.forgotten.add(self.rows.pop(uid))
                memory.forget(uid)


def expected(writers: Sequence[Writer]) -> Counter[str]:
    return Counter(text for writer in writers for text in writer.rows.values())


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Do `work` for each number at once; what fails fails the caller."""
    problems: dict[int, BaseException] = {}
    start = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            start.wait(SECONDS)
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            problems[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in problems.values():
        raise error


def doctor(machine: Machine) -> list[str]:
    """Return what `doctor` says of sync."""
    return [str(check["detail"]) for check in machine.json("doctor")["checks"] if check["name"] == "sync"]
