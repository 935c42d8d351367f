"""What OpenAI-compatible and Ollama endpoints are asked, and what their answers mean."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

from hermes_mnemosyne._errors import EmbeddingError
from hermes_mnemosyne.embed.checked import checked
from hermes_mnemosyne.embed.failures import Failure
from hermes_mnemosyne.embed.protocol import Vector
from hermes_mnemosyne.embed.transport import Answer
from hermes_mnemosyne.masking import mask
from hermes_mnemosyne.text import one_line, printable

Spoken = Literal["openai", "ollama"]

PATHS: dict[Spoken, str] = {"openai": "/v1/embeddings", "ollama": "/api/embed"}

_DENIED = frozenset({401, 403})
_ABOUT_TEXT = frozenset({400, 413, 422})
_NO_SUCH_PATH = frozenset({404, 405, 501})
_LATER = frozenset({408, 425, 429})
_OK, _REDIRECT, _REFUSED, _BROKEN = 200, 300, 400, 500

_LARGEST_NUMBER = 32
"""Bytes that a number takes in an answer, generously."""
_LONGEST_VECTOR = 8192
"""An answer with vectors up to here is read whole, so that the message about a wrong dimension can name it."""
_LONGEST_REASON = 200


def body_of(model: str, texts: Sequence[str]) -> bytes:
    """Return the body of a request, the same in both protocols."""
    return json.dumps({"model": model, "input": list(texts)}).encode("ascii")


def largest_answer(count: int, dimension: int) -> int:
    """Return how many bytes the answer for `count` texts may have."""
    return 0x10000 + count * max(dimension, _LONGEST_VECTOR) * _LARGEST_NUMBER


class Reader:
    """Reads the answers of one endpoint."""

    def __init__(self, shown: str, *, several: bool, secret: str | None = None) -> None:
        """Take its address for messages, whether the caller asked about several texts, and what no message may repeat."""
        self._shown = shown
        self._several = several
        self._secret = secret

    def vectors(self, answer: Answer, *, spoken: Spoken, count: int, dimension: int) -> list[Vector]:
        """Return the vectors of an answer in the order of the texts, `count` of them.

        Raises EmbeddingError, as a Failure except for a vector that cannot be used.
        """
        if not _OK <= answer.status < _REDIRECT:
            raise self._refusal(answer, PATHS[spoken])
        if len(answer.body) > largest_answer(count, dimension):
            raise self._garbage("more than embeddings can be")
        try:
            content = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise self._garbage("no JSON") from None
        rows = _openai_rows(content) if spoken == "openai" else _ollama_rows(content)
        if rows is None:
            raise self._garbage(f"JSON without embeddings{self._said(answer)}")
        if len(rows) != count:
            # Some endpoints take one text only: asked for one at a time they can still be used.
            raise Failure(f"{self._shown} answered {len(rows)} vectors for {count} texts", about_text=self._several)
        return [self._vector(row, dimension) for row in rows]

    def _vector(self, row: Any, dimension: int) -> Vector:
        if not isinstance(row, list):
            raise self._garbage("vectors that are no lists of numbers")
        # JSON has no NaN: what some servers write in its place is null.
        numbers = row if None not in row else [math.nan if number is None else number for number in row]
        try:
            return checked(numbers, dimension, name=self._shown)
        except EmbeddingError as error:
            if error.about_text:
                raise
            raise Failure(str(error), kind="final") from None

    def _garbage(self, what: str) -> Failure:
        # A hotel's login page looks like this, and goes away.
        return Failure(f"{self._shown} answered {what}", retryable=True, kind="elsewhere")

    def _refusal(self, answer: Answer, path: str) -> Failure:
        status = answer.status
        if _REDIRECT <= status < _REFUSED:
            target = _bare(f"{self._shown}{path}", answer.headers.get("Location", ""))
            message = f"{self._shown} answered {status} and pointed to {self._clean(target)}, which is not followed: set embed_url to where it really is"
            return Failure(message, kind="elsewhere")
        message = f"{self._shown} answered {status}{self._said(answer)}"
        if status in _DENIED:
            return Failure(f"{message}; look at the variable that embed_api_key_env names", kind="final")
        if status in _ABOUT_TEXT:
            return Failure(message, about_text=True)
        if status in _NO_SUCH_PATH:
            return Failure(f"{message} to {path}; look at embed_url, embed_model and embed_protocol", kind="elsewhere")
        return Failure(
            message,
            retryable=status in _LATER or status >= _BROKEN,
            about_text=status == _BROKEN and self._several,
            pause=_pause(answer.headers.get("Retry-After")),
        )

    def _said(self, answer: Answer) -> str:
        """Return what the endpoint gave as its reason, as a clause; nothing when it is a page for people."""
        try:
            content = json.loads(answer.body)
        except (ValueError, RecursionError):
            return ""
        found = content.get("error", content) if isinstance(content, dict) else None
        if isinstance(found, dict):
            found = next((found[key] for key in ("message", "error", "detail") if isinstance(found.get(key), str)), None)
        if not isinstance(found, str) or not found:
            return ""
        return f" ({self._clean(found)})"

    def _clean(self, text: str) -> str:
        """Return what the endpoint said as a message may repeat it."""
        if self._secret:
            text = text.replace(self._secret, "[masked]")
        return printable(one_line(mask(text)[0], limit=_LONGEST_REASON))


def _openai_rows(content: Any) -> list[Any] | None:
    items = content.get("data") if isinstance(content, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) and "embedding" in item for item in items):
        return None
    if any("index" in item for item in items):
        by_index = {item["index"]: item["embedding"] for item in items if isinstance(item.get("index"), int)}
        if len(by_index) != len(items) or set(by_index) != set(range(len(items))):
            return None
        return [by_index[index] for index in range(len(items))]
    return [item["embedding"] for item in items]


def _ollama_rows(content: Any) -> list[Any] | None:
    if not isinstance(content, dict):
        return None
    rows = content.get("embeddings")
    if rows is None and "embedding" in content:
        rows = [content["embedding"]]
    return rows if isinstance(rows, list) else None


def _bare(base: str, location: str) -> str:
    """Return where a redirect leads, without credentials and query."""
    try:
        parts = urlsplit(urljoin(base, location))
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "somewhere else"
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _pause(value: str | None) -> float:
    """Return the seconds of a Retry-After header, given as a number or as a date."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    try:
        return max(Retry().parse_retry_after(value), 0.0) if value else 0.0
    except (InvalidHeader, OverflowError):
        return 0.0
