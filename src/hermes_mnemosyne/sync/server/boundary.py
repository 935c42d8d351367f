"""The outermost layer of the server: for whom a request is meant, how slowly an answer may be taken; each one is counted and logged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes_mnemosyne.sync.server.access import Hosts
from hermes_mnemosyne.sync.server.answers import Answer, Refused
from hermes_mnemosyne.sync.server.limits import Limits

_log = logging.getLogger(__name__)
_access = logging.getLogger("hermes_mnemosyne.sync.access")
HEALTH = "/healthz"
VISITOR = "mnemosyne.visitor"
"""Where a scope says by which key it was let in."""


class Boundary:
    """Wraps the app: checks for whom a request is meant, and bounds how long an answer may be taken."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts, limits: Limits, paths: Collection[str]) -> None:
        """Take the app and the paths that are counted by name; all others are counted together."""
        self._app = app
        self._hosts = hosts
        self._limits = limits
        self._paths = frozenset(paths)
        self.answers: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, size = time.monotonic(), 0, 0

        async def sending(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            size += len(message.get("body", b""))
            async with asyncio.timeout(self._limits.pause_seconds):
                await send(message)

        try:
            if scope["path"] != HEALTH:
                self._hosts.check(Headers(scope=scope))
            await self._app(scope, receive, sending)
        except Refused as refused:
            await answer_with(refused.answer(), sending)
        except TimeoutError:
            _log.info("an answer was not taken in time")
            raise
        finally:
            self._note(scope, status, size, time.monotonic() - began)

    def _note(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._paths else "other"
        self.answers[path, str(status)] += 1
        if path == HEALTH:
            return
        peer = (scope.get("client") or ("-",))[0]
        # No query: it holds marks. A path that is not ours may hold anything.
        _access.info(
            "%s %s %s %s %d %d bytes %.0f ms",
            peer, scope.get(VISITOR) or "-", scope["method"] if scope["method"].isalpha() else "?", path, status, size, seconds * 1000,
        )  # fmt: skip


async def answer_with(answer: Answer, send: Send) -> None:
    """Send an answer outside of any route."""
    headers = {**answer.headers, "Content-Length": str(len(answer.body))}
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": answer.body})
