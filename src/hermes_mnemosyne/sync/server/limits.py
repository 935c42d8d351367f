"""What one connection, one client and all of them together may ask of a server, so that none delays another."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from hermes_mnemosyne.sync.server.answers import Refused, malformed, unavailable
from hermes_mnemosyne.sync.wire import MAX_BODY_BYTES

_P = ParamSpec("_P")
_T = TypeVar("_T")
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a server; times in seconds, rates per second."""

    header_bytes: int = 32 * 1024
    header_seconds: float = 10.0
    """How long a request's head may take, from the connection or from the end of the keep-alive."""
    keep_alive_seconds: float = 30.0
    pause_seconds: float = 15.0
    """The longest pause within a body, or in taking an answer."""
    body_bytes: int = MAX_BODY_BYTES
    body_rate: int = 16 * 1024
    """Bytes that a body must bring, after its first `pause_seconds`."""
    bodies_bytes: int = 256 * _MIB
    """All bodies that are held at once; one address may have half of them."""
    idle_connections: int = 512
    """Connections without a request; the oldest one goes for the next."""
    rate: float = 500.0
    burst: int = 5000
    """Requests of one address with one key."""
    failure_rate: float = 5.0
    failure_burst: int = 200
    """Requests of one address without a valid key."""
    workers: int = 8
    queue: int = 256
    """Requests in the store at once, and those that wait for a place."""
    waiters: int = 512
    """Requests that wait for news at once."""
    stop_seconds: float = 20.0
    """How long requests under way are waited for when the server stops."""


class Rates:
    """Token buckets by name: `rate` a second, `burst` at once. What has been full for long is not kept."""

    _KEPT = 4096

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with full buckets."""
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def demand(self, who: str) -> None:
        """Take one from the bucket of `who`. Raises Refused (429) while it is empty."""
        now = self._clock()
        left, since = self._buckets.get(who, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[who] = (left - 1 if allowed else left, now)
        self._buckets.move_to_end(who)
        if len(self._buckets) > self._KEPT:
            self._buckets.popitem(last=False)
        if not allowed:
            wait = max(1, round((1 - left) / self._rate))
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS, "slow-down", "too many requests: wait a little", {"Retry-After": str(wait)}
            )


class Bodies:
    """The bodies that are held in memory, all together and of each address bounded."""

    def __init__(self, limits: Limits) -> None:
        """Begin with none."""
        self._limits = limits
        self._held: dict[str, int] = {}

    @contextmanager
    def room(self, who: str) -> Iterator[Callable[[int], None]]:
        """Give the means to take room for `who`, given back at the end. It raises Refused (503) when there is none."""
        mine = 0

        def take(size: int) -> None:
            nonlocal mine
            held = self._held.get(who, 0)
            most = self._limits.bodies_bytes
            if sum(self._held.values()) + size > most or held + size > most // 2:
                raise unavailable("busy", "too many bodies are under way")
            self._held[who] = held + size
            mine += size

        try:
            yield take
        finally:
            left = self._held.get(who, 0) - mine
            if left > 0:
                self._held[who] = left
            else:
                self._held.pop(who, None)

    async def read(self, request: Request, take: Callable[[int], None]) -> bytes:
        """Return the body of a request, as sent. Raises Refused for one that is too long or too slow, or whose sender went away."""
        limits = self._limits
        declared = request.headers.get("content-length", "0")
        if not declared.isdigit() or int(declared[:20]) > limits.body_bytes:
            raise too_large(limits.body_bytes)
        body, began = bytearray(), time.monotonic()
        while True:
            try:
                async with asyncio.timeout(limits.pause_seconds):
                    message = await request.receive()
            except TimeoutError:
                raise _too_slow() from None
            if message["type"] == "http.disconnect":
                raise malformed("the body ends before its end: it was cut off")
            piece = message.get("body", b"")
            if len(body) + len(piece) > limits.body_bytes:
                raise too_large(limits.body_bytes)
            if piece:
                take(len(piece))
                body += piece
            if not message.get("more_body", False):
                return bytes(body)
            took = time.monotonic() - began - limits.pause_seconds
            if took > 0 and len(body) < took * limits.body_rate:
                raise _too_slow()


def too_large(most: int) -> Refused:
    """Return the refusal of a body that is too long."""
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", f"a body may have at most {most:,} bytes: send fewer records"
    )


def _too_slow() -> Refused:
    return Refused(
        HTTPStatus.REQUEST_TIMEOUT, "too-slow", "the body came too slowly: send smaller pages", {"Connection": "close"}
    )


class Threads:
    """The threads in which the store is asked: a bounded number, and a bounded number of calls that wait for one."""

    def __init__(self, limits: Limits) -> None:
        """Start none yet."""
        self._most = limits.workers + limits.queue
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="mnemosyne-sync")
        self.under_way = 0

    async def run(self, task: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return what `task` returns in a thread. Raises Refused (503) when too much waits already."""
        if self.under_way >= self._most:
            raise unavailable("busy", "too many requests are under way")
        self.under_way += 1
        try:
            # Through to its end, also when whoever asked has gone: a thread cannot be interrupted.
            return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._pool, lambda: task(*args, **kwargs)))
        finally:
            self.under_way -= 1

    def close(self) -> None:
        """Wait for the calls under way."""
        self._pool.shutdown(wait=True, cancel_futures=True)
