"""A server as a client asks it: the requests of the protocol, its keys, its refusals, and second attempts."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from hermes_mnemosyne.clock import parse_utc
from hermes_mnemosyne.store.records import is_time
from hermes_mnemosyne.sync import signing
from hermes_mnemosyne.sync.address import address_of
from hermes_mnemosyne.sync.exchange import Answer, Exchanger, RemoteError, Request, Stopped
from hermes_mnemosyne.sync.sharing import Wanted, from_wire
from hermes_mnemosyne.sync.wire import (
    MAX_BODY_BYTES,
    PAGE_RECORDS,
    CutOff,
    Page,
    WireError,
    check_protocol,
    compressed,
    encode_object,
    read_object,
    read_page,
)

ATTEMPTS = 4
PATIENCE = 60.0
"""The most seconds between the first attempt of a request and the beginning of the last."""
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 30.0
_MOST_REFUSAL = 64 * 1024
_MOST_MESSAGE = 300
_LATER = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_GZIP = {"Content-Encoding": "gzip"}
_JSON = {"Content-Type": "application/json", **_GZIP}
_PAGE = {"Content-Type": "application/x-ndjson", **_GZIP}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What is asked for: the server's rows after a position. Without `replica` the server remembers nothing of it."""

    wanted: Wanted
    after: int = 0
    replica: str = ""
    mark: str = ""
    limit: int = PAGE_RECORDS
    wait: float = 0.0
    skip: Sequence[tuple[int, int]] = ()
    model: str | None = None

    def query(self) -> list[tuple[str, str]]:
        """Return the parameters."""
        known = [("replica", self.replica), ("mark", self.mark)] if self.replica else []
        return [
            *known,
            ("after", str(self.after)),
            ("limit", str(self.limit)),
            *([("wait", f"{self.wait:g}")] if self.wait else []),
            *([("skip", ",".join(f"{first}-{last}" for first, last in self.skip))] if self.skip else []),
            *([("model", self.model)] if self.model else []),
            *self.wanted.query(),
        ]


class Remote:
    """One server, asked by one thread. Over TLS and on this machine the key itself is shown, else requests are signed."""

    def __init__(
        self, url: str, key: str | None = None, *, attempts: int = ATTEMPTS, stop: threading.Event | None = None
    ) -> None:
        """Take a URL, the API key (None: the server asks for none), and an event that ends pauses. Raises InvalidInput."""
        self.address = address_of(url)
        self._key = key
        self._signing = signing.derive(key) if key is not None and self.address.is_readable else None
        self._attempts = attempts
        self._stop = stop or threading.Event()
        self._exchanger = Exchanger(self.address)
        self._nonce: str | None = None
        self._random = random.Random()  # noqa: S311 - jitter, no secret
        self.skew = 0.0
        """Seconds by which the clock of this machine is ahead of the server's."""

    @property
    def url(self) -> str:
        """The URL in one spelling."""
        return self.address.url

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return who the server is. Raises RemoteError, also for what is no server of ours, and Stopped."""
        began = time.time()
        found = self._call("GET", "/v1/status", [], _object)
        if found.get("product") != "mnemosyne" or not isinstance(found.get("replica"), str):
            raise RemoteError(f"{self.url} is no sync server of Mnemosyne: check the URL")
        self._check(found)
        if isinstance(now := found.get("now"), str) and is_time(now):
            self.skew = (began + time.time()) / 2 - parse_utc(now).timestamp()
        return found

    def pull(self, ask: Pull) -> Page:
        """Return a page of the server's rows. Raises RemoteError, Stopped."""
        page = self._call("GET", "/v1/changes", ask.query(), _page, wait=ask.wait)
        head = page.head
        if not all(type(head.get(name)) is int for name in ("after", "position")) or not isinstance(head.get("server"), str):
            raise RemoteError(f"{self.url} answers with a page that does not say where it ends: update the server")
        if head["after"] != ask.after or head["position"] < ask.after:
            raise RemoteError(f"{self.url} answers with another page than was asked for")
        return page

    def push(self, replica: str, mark: str, body: bytes, also: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Send a page, with more parameters if there are any, and return the answer. Raises RemoteError, Stopped."""
        query = [("replica", replica), ("mark", mark), *also]
        answer = self._call("POST", "/v1/changes", query, _object, body=(body, _PAGE))
        self._check(answer)
        if not isinstance(answer.get("mark"), str) or type(answer.get("first")) is not int or type(answer.get("last")) is not int:
            raise RemoteError(f"{self.url} does not say what became of a page: update the server")
        return answer

    def rows(self, replica: str, uids: Sequence[str], wanted: Wanted) -> Page:
        """Return every record of the server about some rows. Raises RemoteError, Stopped."""
        body = compressed(encode_object({"replica": replica, "uids": list(uids)}))
        return self._call("POST", "/v1/rows", wanted.query(), _page, body=(body, _JSON))

    def digests(self, wanted: Wanted, *place: str | int) -> list[list[Any]]:
        """Return the digests of all places, of the buckets of a theme and subject, or the rows of one bucket.

        Raises RemoteError, Stopped.
        """
        names = (("theme", place[0]), ("subject", place[1])) if place else ()
        bucket = (("bucket", place[2]),) if len(place) > 2 else ()  # noqa: PLR2004 - theme, subject, bucket
        query = [*wanted.query(), *((name, str(value)) for name, value in (*names, *bucket))]
        found = self._call("GET", "/v1/digests", query, _digests).get("rows" if bucket else "buckets" if names else "places")
        if not isinstance(found, list) or not all(isinstance(row, list) for row in found):
            raise RemoteError(f"{self.url} answers with no digests: update the server")
        return found

    def cut(self) -> None:
        """End what is under way, from another thread or a signal handler."""
        self._stop.set()
        self._exchanger.cut()

    def close(self) -> None:
        """Close the connection."""
        self._exchanger.drop()

    # -- one request -------------------------------------------------------------------------------------------------------------

    def _check(self, fields: Mapping[str, Any]) -> None:
        try:
            check_protocol(fields)
        except WireError as error:
            raise RemoteError(f"{self.url}: {error}", word="protocol") from error

    def _call(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]],
        parse: Callable[[Iterable[bytes], str], _T],
        *,
        body: tuple[bytes, Mapping[str, str]] = (b"", {}),
        wait: float = 0.0,
    ) -> _T:
        text = urlencode(list(query), quote_via=quote)
        target = f"{self.address.path}{path}{'?' if text else ''}{text}"
        request = Request(method=method, target=target, body=body[0], headers=body[1], wait=wait)
        until = time.monotonic() + PATIENCE
        for attempt in range(1, self._attempts + 1):
            try:
                return self._once(request, parse)
            except RemoteError as error:
                pause = min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE) * self._random.uniform(0.5, 1.0)
                pause = max(pause, error.after)
                if not error.retryable or attempt == self._attempts or time.monotonic() + pause > until:
                    raise
            if self._stop.wait(pause):
                raise Stopped("stopped before the server answered")
        raise AssertionError("the last attempt returns or raises")

    def _once(self, request: Request, parse: Callable[[Iterable[bytes], str], _T]) -> _T:
        if self._signing is None:
            bearer = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
            return self._settled(self._sent(replace(request, headers={**request.headers, **bearer})), parse)
        nonce = self._nonce or self._challenged()
        answer = self._signed(request, self._signing, nonce)
        if answer.status == HTTPStatus.UNAUTHORIZED and self._take_nonce(answer):
            # The nonce was used up or has grown too old; the refusal brought a new one.
            self._finish(answer)
            nonce = self._nonce or ""
            answer = self._signed(request, self._signing, nonce)
        return self._settled(answer, parse, (self._signing, nonce))

    def _signed(self, request: Request, keys: signing.SigningKeys, nonce: str) -> Answer:
        self._nonce = None
        signature = signing.authorization(keys, request.method, request.target, signing.body_digest(request.body), nonce)
        return self._sent(replace(request, headers={**request.headers, "Authorization": signature}))

    def _challenged(self) -> str:
        """Return a nonce: whoever asks without a key is given one."""
        answer = self._sent(Request(method="GET", target=f"{self.address.path}/v1/status"))
        if answer.status != HTTPStatus.UNAUTHORIZED:
            self._refuse_unless_ours(answer)
        if answer.status != HTTPStatus.UNAUTHORIZED or not self._take_nonce(answer):
            self._exchanger.drop()
            raise RemoteError(f"{self.url} does not ask for the key, so that nobody can tell whose it is: use https")
        self._finish(answer)
        return self._nonce or ""

    def _take_nonce(self, answer: Answer) -> bool:
        self._nonce = signing.nonce_of(answer.headers.get("WWW-Authenticate", ""))
        return self._nonce is not None

    def _sent(self, request: Request) -> Answer:
        if self._stop.is_set():
            raise Stopped("stopped before the server was asked")
        return self._exchanger.send(request)

    def _finish(self, answer: Answer) -> bytes:
        """Return the body of a short answer and keep the connection."""
        try:
            body = answer.read(_MOST_REFUSAL)
        except (RemoteError, CutOff):
            self._exchanger.drop()
            return b""
        self._exchanger.done()
        return body

    def _settled(
        self,
        answer: Answer,
        parse: Callable[[Iterable[bytes], str], _T],
        signed: tuple[signing.SigningKeys, str] | None = None,
    ) -> _T:
        """Return what an answer says. Raises RemoteError for a refusal, and for an answer that nobody proves to be the server's."""
        if answer.status != HTTPStatus.OK and signed is None:
            raise self._refusal(answer, self._finish(answer), proven=True)
        try:
            body = answer.chunks() if signed is None else iter([self._proven(answer, *signed)])
            found = parse(body, answer.headers.get("Content-Encoding", ""))
        except CutOff as error:
            self._exchanger.drop()
            raise self._broken(str(error)) from error
        except WireError as error:
            self._exchanger.drop()
            raise RemoteError(f"{self.url} answers with what is no answer ({error}): check the URL", word=error.word) from error
        except RemoteError:
            self._exchanger.drop()
            if self._stop.is_set():
                raise Stopped from None
            raise
        self._exchanger.done()
        return found

    def _broken(self, why: str) -> RemoteError | Stopped:
        return Stopped() if self._stop.is_set() else RemoteError(f"{self.url}: {why}", retryable=True)

    def _proven(self, answer: Answer, keys: signing.SigningKeys, nonce: str) -> bytes:
        """Return a body that is signed by a server which holds the key; of a refusal raise RemoteError, signed or not."""
        body = answer.read(MAX_BODY_BYTES)
        self._nonce = answer.headers.get(signing.NONCE_HEADER)
        signature = answer.headers.get(signing.SIGNATURE_HEADER, "")
        proven = signing.verify_answer(keys, signature, answer.status, signing.body_digest(body), nonce)
        if answer.status != HTTPStatus.OK:
            raise self._refusal(answer, body, proven=proven)
        if not proven:
            raise RemoteError(f"the answer of {self.url} is not signed with the key: somebody may answer in its place; use https")
        return body

    def _refuse_unless_ours(self, answer: Answer) -> None:
        """Raise RemoteError for a status that says all by itself."""
        if answer.status != HTTPStatus.OK:
            raise self._refusal(answer, self._finish(answer), proven=False)

    def _refusal(self, answer: Answer, body: bytes, *, proven: bool) -> RemoteError:
        """Return the error that a refusal is; of one that nobody signed the word counts only where it does no harm."""
        try:
            said = read_object([body], encoding=answer.headers.get("Content-Encoding", ""), max_bytes=_MOST_REFUSAL)
        except WireError:
            said = {}
        word, message = (str(said.get(name) or "")[:_MOST_MESSAGE] for name in ("error", "message"))
        status, retryable = answer.status, answer.status in _LATER
        if status == HTTPStatus.UNAUTHORIZED:
            what = "the server does not accept the key: check --api-key-file" if self._key else "a key is needed: --api-key-file"
            return RemoteError(f"{self.url}: {what}", word="unauthorized")
        if status == HTTPStatus.FORBIDDEN and word == "forbidden":
            return RemoteError(f"{self.url}: {message or 'the key may not do this'}", word=word, proven=proven)
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            place = answer.headers.get("Location", "another place")
            return RemoteError(f"{self.url} sends on to {place[:_MOST_MESSAGE]}: name that one if it is yours")
        if not word:
            where = " of Mnemosyne" if status == HTTPStatus.NOT_FOUND else ""
            return RemoteError(f"{self.url} answers {status}: is a sync server{where} there?", retryable=retryable)
        after = _seconds(answer.headers.get("Retry-After", "")) if retryable else 0.0
        return RemoteError(
            f"{self.url}: {message or word} ({status})", word=word, retryable=retryable, after=after, proven=proven
        )


# -- bodies ----------------------------------------------------------------------------------------------------------------------


def _object(chunks: Iterable[bytes], encoding: str) -> dict[str, Any]:
    # An answer may return every record of a page, with other clocks.
    return read_object(chunks, encoding=encoding, max_bytes=MAX_BODY_BYTES)


_digests = _object


def _page(chunks: Iterable[bytes], encoding: str) -> Page:
    page = read_page(chunks, encoding=encoding)
    return Page(page.head, [from_wire(record) for record in page.records], page.set_aside)


def _seconds(text: str) -> float:
    return min(float(text), _LONGEST_PAUSE) if text.strip().isdecimal() else 0.0
