"""The server's paths as a starlette app: who asks is settled here, what is asked is done by `exchange` in threads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from weakref import WeakValueDictionary

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hermes_mnemosyne._errors import InvalidInput, MissingExtra, StoreError
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.sync.keyring import Grant
from hermes_mnemosyne.sync.server import figures
from hermes_mnemosyne.sync.server.access import Access, Claim, Hosts
from hermes_mnemosyne.sync.server.answers import Answer, Refused, internal, malformed, of_error, unavailable
from hermes_mnemosyne.sync.server.asking import Filters, Place, Pull, demand, is_sealed, mark_of, replica_of, seen_of, uids_of
from hermes_mnemosyne.sync.server.boundary import HEALTH, VISITOR, Boundary
from hermes_mnemosyne.sync.server.exchange import MOST_UIDS, Exchange, Pushed
from hermes_mnemosyne.sync.server.limits import Bodies, Limits, Rates, Threads
from hermes_mnemosyne.sync.server.openapi import description
from hermes_mnemosyne.sync.server.waiting import Watcher
from hermes_mnemosyne.sync.signing import NONCE_HEADER, SIGNATURE_HEADER, body_digest, sign_answer
from hermes_mnemosyne.sync.wire import WireError, read_object

_log = logging.getLogger(__name__)
_OLD_PATHS = "/sync/{rest:path}"
_CLAIM = "mnemosyne.claim"
_READER = Grant("", read=True, write=False, themes=None)
_LONG_BODY = 256 * 1024
# A thousand ids with room to spare.
_LONGEST_LIST = 2 * 1024 * 1024
METRICS = "/metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a server is to be: the address it listens on, further names it is known by, whether figures need no key, its bounds."""

    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    open_metrics: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Visit:
    """A request whose sender is known: what its key allows, and its body as sent."""

    request: Request
    grant: Grant
    body: bytes
    came: float


_Handler = Callable[[Visit], Awaitable[Answer]]


class SyncApp:
    """The server on one memory. `app` is what a web server runs; `stop` is called when it is to come to an end."""

    def __init__(self, memory: Memory, access: Access, options: Options) -> None:
        """Take a memory whose reach is everything."""
        self._memory, self._access, self._options = memory, access, options
        self._exchange = Exchange(memory)
        self._threads = Threads(options.limits)
        self._watcher = Watcher(lambda: self._threads.run(self._exchange.position))
        self._bodies = Bodies(options.limits)
        self._rates = Rates(options.limits.rate, options.limits.burst)
        self._failures = Rates(options.limits.failure_rate, options.limits.failure_burst)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._is_stopping = False
        routes = [
            Route(HEALTH, self._health, methods=["GET"]),
            self._route("/v1/status", GET=self._status),
            self._route("/v1/changes", GET=self._pull, POST=self._push),
            self._route("/v1/rows", POST=self._rows),
            self._route("/v1/digests", GET=self._digests),
            self._route("/v1/openapi.json", GET=self._openapi),
            self._route(METRICS, GET=self._metrics),
            Route(_OLD_PATHS, self._gone, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
        ]
        inner = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers={HTTPException: _unknown})
        inner.router.redirect_slashes = False
        hosts = Hosts(options.allowed_hosts, host=options.host)
        paths = [route.path for route in routes if route.path != _OLD_PATHS]
        self._boundary = Boundary(inner, hosts=hosts, limits=options.limits, paths=paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._boundary(scope, receive, send)

    def stop(self) -> None:
        """Answer those who wait for news, and take no new requests; what is under way is finished."""
        self._is_stopping = True
        self._watcher.stop()

    def close(self) -> None:
        """Wait for what is under way in the store; nothing is asked of it after that."""
        self._threads.close()

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self.stop()
        await asyncio.to_thread(self.close)

    # -- who asks ----------------------------------------------------------------------------------------------------------------

    def _route(self, path: str, **handlers: _Handler) -> Route:
        async def serve(request: Request) -> Response:
            return await self._serve(handlers["GET" if request.method == "HEAD" else request.method], request)

        return Route(path, serve, methods=list(handlers))

    async def _serve(self, handler: _Handler, request: Request) -> Response:
        peer = request.client.host if request.client else ""
        with self._bodies.room(peer) as take:
            try:
                answer = await handler(await self._admitted(request, peer, take))
            except Refused as refused:
                answer = refused.answer()
            except (WireError, StoreError, InvalidInput) as error:
                if isinstance(error, StoreError):
                    _log.warning("%s: %s", request.scope["path"], error)
                answer = of_error(error).answer()
            except Exception:  # noqa: BLE001 - the boundary of the server
                # Nothing of it is for strangers; the next request is another one.
                _log.exception("%s failed unexpectedly", request.scope["path"])
                answer = internal()
        return self._response(request, answer)

    async def _admitted(self, request: Request, peer: str, take: Callable[[int], None]) -> Visit:
        """Return a request with what its key allows. Raises Refused."""
        came = time.time()
        if self._is_stopping:
            raise unavailable("stopping", "the server is about to stop")
        try:
            claim = self._claim(request, peer)
            body = await self._bodies.read(request, take)
            digest = "" if claim.signed is None else await self._digest(body)
            grant = self._access.settle(claim, request.method, _target(request), digest)
        except Refused as refused:
            if refused.status == HTTPStatus.UNAUTHORIZED:
                self._failures.demand(peer)
            raise
        request.scope[_CLAIM] = claim
        request.scope[VISITOR] = grant.name
        self._rates.demand(f"{peer} {grant.name}")
        return Visit(request, grant, body, came)

    def _claim(self, request: Request, peer: str) -> Claim:
        if self._options.open_metrics and request.scope["path"] == METRICS and "authorization" not in request.headers:
            return Claim(_READER)
        return self._access.claim(request.headers, peer=peer, is_secure=request.scope["scheme"] == "https")

    async def _digest(self, body: bytes) -> str:
        # A long one would keep everybody else waiting.
        return body_digest(body) if len(body) < _LONG_BODY else await self._threads.run(body_digest, body)

    def _response(self, request: Request, answer: Answer) -> Response:
        answer = answer.packed(request.headers.get("accept-encoding", ""))
        headers = {**answer.headers, "Cache-Control": "no-store"}
        claim: Claim | None = request.scope.get(_CLAIM)
        if claim is not None and claim.signed is not None and claim.keys is not None:
            headers[NONCE_HEADER] = self._access.nonces.issue()
            headers[SIGNATURE_HEADER] = sign_answer(claim.keys, answer.status, body_digest(answer.body), claim.signed.nonce)
        return Response(answer.body, answer.status, headers)

    # -- what is asked -----------------------------------------------------------------------------------------------------------

    async def _health(self, _: Request) -> Response:
        # No thread and no store: it says that the server answers, whatever else is under way.
        return Response(b'{"status":"ok"}', media_type="application/json", headers={"Cache-Control": "no-store"})

    async def _status(self, visit: Visit) -> Answer:
        return Answer.of(await self._threads.run(self._exchange.status, visit.grant))

    async def _pull(self, visit: Visit) -> Answer:
        demand(visit.grant.read)
        ask = Pull.of(visit.request.query_params)
        until = time.monotonic() + ask.wait
        start = ask.after
        if ask.wait:
            # Who is to be refused need not wait for it.
            await self._threads.run(self._exchange.present, ask)
        while (
            (left := until - time.monotonic()) > 0
            and not self._is_stopping
            and self._watcher.waiters < self._options.limits.waiters
        ):
            found = await self._threads.run(self._exchange.pull, ask, visit.grant, start=start, is_patient=True)
            if isinstance(found, bytes):
                return Answer.page(found)
            start = max(start, found)
            await self._watcher.beyond(start, left, visit.request.receive())
            if await visit.request.is_disconnected():
                raise malformed("the one who asked has gone")
        async with self._turn(ask.replica):
            found = await self._threads.run(self._exchange.pull, ask, visit.grant, start=start, is_patient=False)
        return Answer.page(found if isinstance(found, bytes) else b"")

    async def _push(self, visit: Visit) -> Answer:
        demand(visit.grant.write)
        query = visit.request.query_params
        pushed = Pushed(
            replica=replica_of(query, is_needed=True),
            mark=mark_of(query),
            grant=visit.grant,
            encoding=_encoding(visit),
            body=visit.body,
            came=visit.came,
            sealed=is_sealed(query),
            seen=seen_of(query),
        )
        async with self._turn(pushed.replica):
            answer = await self._threads.run(self._exchange.push, pushed)
        if answer["first"] <= answer["last"]:
            self._watcher.tell(answer["last"])
        return Answer.of(answer)

    async def _rows(self, visit: Visit) -> Answer:
        demand(visit.grant.read)
        filters = Filters.of(visit.request.query_params)
        uids = uids_of(read_object([visit.body], encoding=_encoding(visit), max_bytes=_LONGEST_LIST), MOST_UIDS)
        return Answer.page(await self._threads.run(self._exchange.rows, visit.grant, filters, uids))

    async def _digests(self, visit: Visit) -> Answer:
        demand(visit.grant.read)
        query = visit.request.query_params
        return Answer.of(await self._threads.run(self._exchange.digests, visit.grant, Filters.of(query), Place.of(query)))

    async def _openapi(self, _: Visit) -> Answer:
        return Answer.of(description())

    async def _metrics(self, visit: Visit) -> Answer:
        demand(visit.grant.read)
        themes = visit.grant.themes
        memory = self._memory if themes is None else self._memory.within(themes)
        now = {"requests_in_store": self._threads.under_way, "requests_waiting": self._watcher.waiters}
        try:
            text = await self._threads.run(
                figures.text_of, memory, self._exchange, self._boundary.answers, now, with_replicas=themes is None
            )
        except MissingExtra as error:
            raise Refused(HTTPStatus.NOT_FOUND, "not-found", f"figures: {error}") from None
        return Answer(int(HTTPStatus.OK), text.encode(), {"Content-Type": figures.TYPE})

    async def _gone(self, _: Request) -> Response:
        refused = Refused(
            HTTPStatus.GONE,
            "gone",
            "these were the paths of mnemosyne-memory; this server speaks protocol 1 of hermes-mnemosyne under /v1: use its 'mnemosyne sync'",
        )
        return self._plain(refused)

    def _turn(self, replica: str) -> asyncio.Lock:
        """Return what lets the requests of one replica go one after the other."""
        lock = self._turns.get(replica) if replica else None
        if lock is None:
            lock = asyncio.Lock()
            if replica:
                self._turns[replica] = lock
        return lock

    @staticmethod
    def _plain(refused: Refused) -> Response:
        answer = refused.answer()
        return Response(answer.body, answer.status, dict(answer.headers))


def make_app(memory: Memory, access: Access, options: Options | None = None) -> SyncApp:
    """Return the server on a memory, as an ASGI app. The memory's reach must be everything; who asks is narrowed by the key."""
    return SyncApp(memory, access, options or Options())


async def _unknown(_: Request, error: Exception) -> Response:
    """Answer what no path or no method of a path is for."""
    status = error.status_code if isinstance(error, HTTPException) else int(HTTPStatus.NOT_FOUND)
    word = "not-found" if status == HTTPStatus.NOT_FOUND else "malformed"
    answer = Refused(status, word, HTTPStatus(status).phrase, getattr(error, "headers", None)).answer()
    return Response(answer.body, answer.status, dict(answer.headers))


def _target(request: Request) -> str:
    """Return the path with the query, as sent."""
    path = request.scope.get("raw_path") or request.scope["path"].encode()
    query = request.scope["query_string"]
    return bytes(path + (b"?" + query if query else b"")).decode("latin-1")


def _encoding(visit: Visit) -> str:
    return ", ".join(visit.request.headers.getlist("content-encoding"))
