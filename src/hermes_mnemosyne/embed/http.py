"""Embeddings from an endpoint: any OpenAI-compatible `/v1/embeddings`, or Ollama's `/api/embed`."""

from __future__ import annotations

import base64
import ipaddress
import logging
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from hermes_mnemosyne._errors import EmbeddingError
from hermes_mnemosyne.embed.breaker import Breaker, Limits
from hermes_mnemosyne.embed.failures import Failure
from hermes_mnemosyne.embed.protocol import Family, Purpose, Vector
from hermes_mnemosyne.embed.protocols import PATHS, Reader, Spoken, body_of, largest_answer
from hermes_mnemosyne.embed.transport import Place, Request, Transport
from hermes_mnemosyne.text import storable

_log = logging.getLogger(__name__)

_LONGEST_TEXT = 6000
"""Characters; the models in use see no more than about that."""
_BATCH_TEXTS = 32
"""What every known server takes in one request."""
_BATCH_BYTES = 0x40000

_BREAKERS: dict[Purpose, Limits] = {"query": Limits(failures=3), "document": Limits(failures=8)}
"""An agent waits for each failed query. For documents nobody waits, and halving a batch that takes too long down to one text must fit."""
_LONGEST_CALL = 3600.0

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


@dataclass(frozen=True)
class Endpoint:
    """How to reach a model: the settings `embed_*`. Times in seconds; `api_key_env` is the name of an environment variable.

    `protocol` is openai, ollama, or auto, which finds out. `timeout` bounds the call for a query, `write_timeout` that for documents with its `write_retries`, between which it waits
    `write_backoff`, doubled each time.
    """

    url: str = field(repr=False)
    model: str
    dimension: int
    api_key_env: str | None = None
    protocol: str = "auto"
    timeout: float = 10.0
    write_timeout: float = 30.0
    write_retries: int = 2
    write_backoff: float = 0.1


class HttpEmbedder:
    """A model behind an endpoint. Safe from any thread and across forks; nothing is connected before the first call."""

    family: Family = "endpoint"

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Take the settings; `clock` and `sleep` count seconds, `jitter` gives a number from 0 to 1."""
        self._endpoint = endpoint
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        # One for each purpose: an endpoint that answers in ten seconds is of no use to a query and good enough for documents.
        self._breakers = {purpose: Breaker(limits, clock=clock, jitter=jitter) for purpose, limits in _BREAKERS.items()}
        self._transport = Transport(endpoint.url, clock=clock)
        self._spoken: Spoken | None = None
        self._warned = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint!r})"

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._endpoint.model

    @property
    def dimension(self) -> int:
        """The length of its vectors."""
        return self._endpoint.dimension

    @property
    def is_remote(self) -> bool:
        """Whether the endpoint is anywhere but on this machine."""
        try:
            host = self._transport.place.host
        except Failure:
            return True
        try:
            return not ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host != "localhost" and not host.endswith(".localhost")

    def embed(self, texts: Sequence[str], purpose: Purpose, *, timeout: float | None = None) -> list[Vector]:
        """Return one vector of unit length per text, in order; an empty list for no texts.

        `timeout` bounds the whole call in seconds; None is `timeout` of the endpoint for a query, `write_timeout` for documents.

        Raises EmbeddingError: `about_text` also when several texts took too long together or the endpoint broke at them, so that
        fewer at a time may pass. After failures in a row calls fail at once, until a pause is over.
        """
        if not texts:
            return []
        if any(not text or text.isspace() for text in texts):
            raise Failure("an empty text has no vector", about_text=True)
        if timeout is None:
            timeout = self._endpoint.timeout if purpose == "query" else self._endpoint.write_timeout
        asked = _Asked(purpose, self._clock() + min(timeout, _LONGEST_CALL), several=len(texts) > 1)
        vectors: list[Vector] = []
        for batch in _batches([storable(text[:_LONGEST_TEXT])[0] for text in texts]):
            vectors += self._persistently(batch, asked)
        return vectors

    def cuts(self, text: str) -> bool:
        """Tell whether only the first 6000 characters of a text are sent."""
        return len(text) > _LONGEST_TEXT

    def close(self) -> None:
        """Close the idle connections; the next call connects anew."""
        self._transport.close()

    # -- attempts ----------------------------------------------------------------------------------------------------------------

    def _persistently(self, texts: list[str], asked: _Asked) -> list[Vector]:
        """Try as often as the purpose allows, only what may succeed when it is asked again, and only until the deadline."""
        retries = 0 if asked.purpose == "query" else max(self._endpoint.write_retries, 0)
        for retry in range(retries):
            try:
                return self._guarded(texts, asked)
            except Failure as failure:
                wait = max(self._endpoint.write_backoff * 2.0**retry * (0.5 + self._jitter()), failure.pause)
                # What fails at several texts is better asked again with fewer of them; a page for people stays for more than a moment.
                if not failure.retryable or failure.about_text or failure.kind == "elsewhere":
                    raise
                if wait + self._clock() >= asked.deadline or self._breakers[asked.purpose].wait() > wait:
                    raise
            self._sleep(wait)
        return self._guarded(texts, asked)

    def _guarded(self, texts: list[str], asked: _Asked) -> list[Vector]:
        """Ask once, unless the endpoint has failed so often that it is left alone."""
        place = self._transport.place
        headers, secret = self._headers(place)
        if (seconds := asked.deadline - self._clock()) <= 0:
            raise Failure(f"there was no time left to ask {place.shown}", retryable=True, about_text=asked.several)
        breaker = self._breakers[asked.purpose]
        ticket = breaker.admit(seconds)
        if ticket is None:
            message = f"{place.shown} failed {breaker.failures} times in a row and is asked again in {breaker.wait():.1f} s"
            raise Failure(f"{message}; the last time: {breaker.reason}", retryable=True)
        reader = Reader(place.shown, several=asked.several, secret=secret)

        def ask(spoken: Spoken) -> list[Vector]:
            limit = largest_answer(len(texts), self.dimension)
            request = Request(f"{place.path}{PATHS[spoken]}", body_of(self.name, texts), headers, limit)
            answer = self._transport.post(request, deadline=asked.deadline)
            return reader.vectors(answer, spoken=spoken, count=len(texts), dimension=self.dimension)

        try:
            vectors = self._in_either_protocol(ask)
        except EmbeddingError as error:
            _learn(breaker, ticket, error, several=asked.several)
            if asked.several and isinstance(error, Failure) and error.kind == "silent":
                raise Failure(str(error), retryable=True, about_text=True, kind="silent") from error
            raise
        breaker.succeeded()
        return vectors

    def _in_either_protocol(self, ask: Callable[[Spoken], list[Vector]]) -> list[Vector]:
        first, second = self._protocols()
        try:
            vectors = ask(first)
        except Failure as failure:
            known = self._spoken is not None and failure.kind != "elsewhere"
            if second is None or failure.kind in {"unreachable", "silent", "final"} or known:
                raise
            try:
                vectors = ask(second)
            except Failure as other:
                # The one that speaks the protocol knows what is wrong; the other only that it does not speak it.
                raise (failure if other.kind == "elsewhere" else other) from None
            first = second
        self._spoken = first
        return vectors

    def _protocols(self) -> tuple[Spoken, Spoken | None]:
        if self._endpoint.protocol == "openai":
            return "openai", None
        if self._endpoint.protocol == "ollama":
            return "ollama", None
        return ("ollama", "openai") if self._spoken == "ollama" else ("openai", "ollama")

    # -- what a call needs -------------------------------------------------------------------------------------------------------

    def _headers(self, place: Place) -> tuple[dict[str, str], str | None]:
        """Return the headers of a request, and the secret in them."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        secret = self._key()
        if secret is not None:
            headers["Authorization"] = f"Bearer {secret}"
        elif place.credentials is not None:
            encoded = base64.b64encode(unquote(place.credentials).encode("utf-8", "replace")).decode("ascii")
            headers["Authorization"] = f"Basic {encoded}"
            secret = encoded
        return headers, secret

    def _key(self) -> str | None:
        """Return the bearer token, read now: whoever renews it need not start us again."""
        variable = self._endpoint.api_key_env
        if not variable:
            return None
        if not _VARIABLE.fullmatch(variable):
            # It may be the key itself, put into the wrong place.
            raise Failure("embed_api_key_env is no name of an environment variable")
        key = os.environ.get(variable)
        if not key:
            if not self._warned:
                self._warned = True
                _log.warning("the environment variable %s is not set: the embedding endpoint is asked without a key", variable)
            return None
        if not _TOKEN.fullmatch(key):
            raise Failure(f"the environment variable {variable} holds characters that a header cannot carry")
        return key


@dataclass(frozen=True)
class _Asked:
    """What the caller wants: the purpose, when it ends on the clock, and whether there is more than one text."""

    purpose: Purpose
    deadline: float
    several: bool


def _learn(breaker: Breaker, ticket: int, error: EmbeddingError, *, several: bool) -> None:
    """Tell the breaker what a failure says about the endpoint, as opposed to the texts."""
    silent = isinstance(error, Failure) and error.kind == "silent"
    if silent and several and breaker.is_open:
        # Fewer texts may be answered in time: this was no fair probe.
        breaker.undecided(ticket)
    elif silent or not error.about_text:
        breaker.failed(ticket, str(error))
    elif error.retryable:
        breaker.undecided(ticket)
    else:
        breaker.succeeded()


def _batches(texts: list[str]) -> Iterator[list[str]]:
    """Cut the texts into requests of bounded number and size."""
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if batch and (len(batch) == _BATCH_TEXTS or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch
