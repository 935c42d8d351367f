"""What a request is answered with: JSON, a page, or a refusal in the protocol's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from hermes_mnemosyne._errors import InvalidInput, StoreBusy, StoreError, StoreFull
from hermes_mnemosyne.sync.wire import PAGE_TYPE, PROTOCOL, WireError, compressed, encode_object

_SOON, _LATER = "1", "30"
# The status of each word of the wire's errors.
_OF_WORDS = {
    "malformed": HTTPStatus.BAD_REQUEST,
    "too-large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "encoding": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "protocol": HTTPStatus.UNPROCESSABLE_ENTITY,
}
_WORTH_PACKING = 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer before it is signed and sent."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Mapping[str, Any], *, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Answer:
        """Return a JSON answer."""
        return cls(int(status), encode_object(value), {"Content-Type": "application/json", **(headers or {})})

    @classmethod
    def page(cls, body: bytes) -> Answer:
        """Return a page, which is compressed already."""
        return cls(int(HTTPStatus.OK), body, {"Content-Type": PAGE_TYPE, "Content-Encoding": "gzip"})

    def packed(self, accepted: str) -> Answer:
        """Return the answer compressed, where that is worth it and the other side takes it (`Accept-Encoding`)."""
        if "Content-Encoding" in self.headers or len(self.body) < _WORTH_PACKING or not _takes_gzip(accepted):
            return self
        return Answer(self.status, compressed(self.body), {**self.headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"})


def _takes_gzip(accepted: str) -> bool:
    for part in accepted.split(","):
        name, _, quality = part.partition(";")
        if name.strip().lower() == "gzip":
            return quality.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


class Refused(Exception):
    """A request is not served: the status, the protocol's word and a sentence that may be shown to anybody."""

    def __init__(self, status: int, word: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        """Take what is answered."""
        super().__init__(message)
        self.status = int(status)
        self.word = word
        self.headers = dict(headers or {})

    def answer(self) -> Answer:
        """Return the answer."""
        fields: dict[str, Any] = {"error": self.word, "message": str(self)}
        if self.word == "protocol":
            fields["spoken"] = [PROTOCOL]
        return Answer.of(fields, status=self.status, headers=self.headers)


def forbidden() -> Refused:
    """Return the refusal of a valid key that may not do this."""
    return Refused(HTTPStatus.FORBIDDEN, "forbidden", "this key may not do this")


def malformed(message: str) -> Refused:
    """Return the refusal of a request that is not what the protocol says."""
    return Refused(HTTPStatus.BAD_REQUEST, "malformed", message)


def conflict(word: str, message: str) -> Refused:
    """Return the refusal of a replica that is not who its mark says."""
    return Refused(HTTPStatus.CONFLICT, word, message)


def unavailable(reason: str, message: str) -> Refused:
    """Return the refusal of what may succeed later; `reason` is `busy`, `full`, `stopping` or `store`."""
    wait = _SOON if reason == "busy" else _LATER
    return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", f"{reason}: {message}", {"Retry-After": wait})


def internal() -> Answer:
    """Return the answer to what was not foreseen; the log has the rest."""
    fields = {"error": "internal", "message": "the server failed at this request; its log says how"}
    return Answer.of(fields, status=HTTPStatus.INTERNAL_SERVER_ERROR)


def of_error(error: WireError | StoreError | InvalidInput) -> Refused:
    """Return the refusal that an expected error is; what the store says of its place stays here."""
    if isinstance(error, WireError):
        return Refused(_OF_WORDS.get(error.word, HTTPStatus.BAD_REQUEST), error.word, str(error))
    if isinstance(error, InvalidInput):
        return malformed(str(error))
    if isinstance(error, StoreBusy):
        return unavailable("busy", "the store is being written by another process")
    if isinstance(error, StoreFull):
        return Refused(
            HTTPStatus.INSUFFICIENT_STORAGE,
            "full",
            "there is no room left on the server; nothing was stored",
            {"Retry-After": _LATER},
        )
    return unavailable("store", "the store cannot be used now; the server's log says why")
