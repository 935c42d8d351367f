"""What crosses the wire: pages of records and JSON objects, strictly and within bounds.

A page is lines of JSON: a head, records, an end that counts them. Whoever sends may be anybody, so a reader never holds more than it
was told to, however much a few bytes unpack to; a record that cannot be read is set aside with its line, and the rest flows.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

from hermes_mnemosyne._errors import MnemosyneError
from hermes_mnemosyne.text import MAX_DEPTH, MAX_INTEGER_BITS, MAX_VALUES

PROTOCOL = 1
PAGE_TYPE = "application/x-ndjson"
ENCODINGS = ("gzip", "identity")

PAGE_RECORDS = 1_000
"""Records of a page when nobody asks for another number."""
MAX_RECORDS = 5_000
"""The most records of one page."""
MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of records after which a page ends, before compression."""
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""The longest record, which travels alone."""
MAX_BODY_BYTES = MAX_RECORD_BYTES + 1024 * 1024
"""The longest body, unpacked: the longest record with its head and end."""
MAX_OBJECT_BYTES = MAX_PAGE_BYTES
"""The longest body that is one JSON object."""
MAX_PAGE_VALUES = 1_000_000
"""JSON values of one page: each takes more memory than a byte."""

# An object of metadata may be as deep as the engine lets it be, inside a record, inside the state before a change.
MAX_NESTING = MAX_DEPTH + 8
_BLOCK = 256 * 1024
_SLICE = 64 * 1024
_LEVEL = 1
_GZIP = 31
_ORDINARY = 200
_LONG_NUMBER = 18
_MAX_DIGITS = math.ceil(MAX_INTEGER_BITS * math.log10(2)) + 1
_MAX_DIMENSIONS = 16_384
# Also what runs to the end unterminated: so there is a match at every quotation mark, and one pass over the text.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class WireError(MnemosyneError):
    """A body is not what the protocol says. `word` is one of the protocol's words for errors, such as `malformed` or `too-large`."""

    def __init__(self, word: str, message: str) -> None:
        """Take the protocol's word and a sentence."""
        super().__init__(message)
        self.word = word


class CutOff(WireError):
    """A body ended before its end: the connection was lost, nothing of it counts, the same request may succeed."""

    def __init__(self, message: str = "the body ends before its end: it was cut off") -> None:
        """Take a sentence."""
        super().__init__("malformed", message)


@dataclass(frozen=True, slots=True)
class Page:
    """One page as it was read: `set_aside` holds the number of each line that is no record (the head is line 1), and why."""

    head: dict[str, Any]
    records: list[dict[str, Any]]
    set_aside: list[tuple[int, str]]


# -- writing ---------------------------------------------------------------------------------------------------------------------


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def encode_page(head: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a page, compressed; `type` and `protocol` are put into the head. Raises ValueError for NaN, TypeError for what is no JSON."""
    lines = [encode_object({"type": "page", "protocol": PROTOCOL, **head})]
    lines += map(encode_object, records)
    lines += (encode_object({"type": "end", "records": len(lines) - 1}), b"")
    return compressed(b"\n".join(lines))


def encode_object(value: Mapping[str, Any]) -> bytes:
    """Return a JSON object on one line, as it is. Raises ValueError for NaN, TypeError for what is no JSON."""
    plain = value if isinstance(value, dict) else dict(value)
    try:
        return _encode(plain).encode()
    except UnicodeEncodeError:  # a lone surrogate: written as an escape, so that the reader can say which record has it
        return _encode_ascii(plain).encode()


def compressed(body: bytes) -> bytes:
    """Return a body in gzip, the same bytes for the same body."""
    return zlib.compress(body, _LEVEL, wbits=_GZIP)


# -- reading ---------------------------------------------------------------------------------------------------------------------


def read_page(chunks: Iterable[bytes], *, encoding: str, max_bytes: int = MAX_BODY_BYTES) -> Page:
    """Return the page that `chunks` of a body are.

    `encoding` is what the header says (`gzip`, or `identity` or nothing), `max_bytes` how much it may unpack to. Raises WireError
    (`malformed`, `encoding`, `too-large`, `protocol`), and CutOff when the end is missing.
    """
    lines = _split(_unpacked(chunks, encoding, max_bytes))
    first, second = next(lines, None), next(lines, None)
    if first is None or second is None:
        raise CutOff
    head = _object(first, _weight(first))
    if head.get("type") != "page":
        raise WireError("malformed", "the first line is no head of a page")
    check_protocol(head)
    page = Page(head, [], [])
    _read_records(chain((second,), lines), page)
    return page


def check_protocol(head: Mapping[str, Any]) -> None:
    """Raise WireError (`protocol`) unless a head or an answer speaks the protocol of this release."""
    spoken = head.get("protocol")
    if type(spoken) is not int or spoken != PROTOCOL:
        raise WireError("protocol", f"this side speaks version {PROTOCOL} of the protocol: update the other one, or this one")


def _read_records(lines: Iterator[bytes], page: Page) -> None:
    """Read records up to the end of a page, which must be the end of the body too."""
    values = 0
    for number, line in enumerate(lines, 2):
        weight = _weight(line)
        values += weight if weight <= MAX_VALUES else 0  # that is set aside unread
        if values > MAX_PAGE_VALUES:
            raise WireError("too-large", f"a page may hold at most {MAX_PAGE_VALUES:,} values: send fewer records")
        try:
            record = _object(line, weight)
        except WireError as error:
            page.set_aside.append((number, str(error)))
        else:
            if record.get("type") == "end":
                return _check_end(record, number - 2, lines)
            page.records.append(record)
        if number - 1 > MAX_RECORDS:
            raise WireError("too-large", f"a page may hold at most {MAX_RECORDS:,} records: send fewer")
    raise CutOff


def _check_end(end: Mapping[str, Any], counted: int, lines: Iterator[bytes]) -> None:
    if type(end.get("records")) is not int or end["records"] != counted:
        raise WireError("malformed", f"the end of the page counts other records than the {counted} before it")
    for line in lines:
        if line:
            raise WireError("malformed", "there is something after the end of the page")


def read_object(chunks: Iterable[bytes], *, encoding: str, max_bytes: int = MAX_OBJECT_BYTES) -> dict[str, Any]:
    """Return the JSON object that `chunks` of a body are. Raises WireError (`malformed`, `encoding`, `too-large`), CutOff."""
    body = b"".join(_unpacked(chunks, encoding, max_bytes))
    if not body:
        raise CutOff
    if _weight(body, MAX_PAGE_VALUES) > MAX_PAGE_VALUES:
        raise WireError("too-large", f"a body may hold at most {MAX_PAGE_VALUES:,} values")
    return _object(body, 0)


def _unpacked(chunks: Iterable[bytes], encoding: str, max_bytes: int) -> Iterator[bytes]:
    """Return a body piece by piece as it was before compression."""
    encoding = encoding.strip().lower() or "identity"
    if encoding not in ENCODINGS:
        raise WireError("encoding", f"a body may be sent as {' or '.join(ENCODINGS)} only")
    pieces = _inflated(chunks, max_bytes) if encoding == "gzip" else chunks
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > max_bytes:
            _refuse_size(max_bytes)
        yield piece


def _refuse_size(max_bytes: int) -> NoReturn:
    raise WireError("too-large", f"a body may unpack to at most {max_bytes:,} bytes: send fewer records at a time")


def _inflated(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    inflater = zlib.decompressobj(wbits=_GZIP)

    def piece_of(compressed_bytes: bytes) -> bytes:
        try:
            return inflater.decompress(compressed_bytes, _BLOCK)
        except zlib.error:
            raise WireError("malformed", "the body is no gzip, or was damaged on its way") from None

    received = 0
    for chunk in chunks:
        received += len(chunk)
        # What never unpacks to anything (endless headers, empty blocks) has a length all the same.
        if received > max_bytes + _BLOCK:
            _refuse_size(max_bytes)
        # In slices: what does not fit into a block is copied for each block.
        for start in range(0, len(chunk), _SLICE):
            rest = bytes(chunk[start : start + _SLICE])
            while rest and not inflater.eof:
                yield piece_of(rest)
                rest = inflater.unconsumed_tail
            if inflater.unused_data or rest:
                raise WireError("malformed", "there is something after the end of the gzip")
    # All input is taken, and what it unpacks to is perhaps more than the last block had room for.
    while not inflater.eof and (piece := piece_of(b"")):
        yield piece
    if not inflater.eof:
        raise CutOff


def _split(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Return lines without their ends; a last one without an end is a line too."""
    open_line: list[bytes] = []
    for piece in pieces:
        head, *lines = piece.split(b"\n")
        open_line.append(head)
        if lines:
            yield b"".join(open_line)
            yield from lines[:-1]
            open_line = [lines[-1]]
    if rest := b"".join(open_line):
        yield rest


# -- one value -------------------------------------------------------------------------------------------------------------------


def _malformed(reason: str) -> NoReturn:
    raise WireError("malformed", reason)


def _weight(line: bytes, most: int = MAX_VALUES) -> int:
    """Return about how many values a line holds, before anything is made of it: exactly, where it could be many.

    Above `most` the number only says so: no more time is spent on it.
    """
    rough = line.count(b",") + line.count(b"[") + line.count(b"{")
    if rough <= _ORDINARY:
        return rough
    # A value has one text, and one more as its key.
    limit = 2 * (most + 1)
    bare, texts = _STRING.subn(b"", line, count=limit)
    return most + 1 if texts == limit else bare.count(b",") + bare.count(b"[") + bare.count(b"{")


def _depth(line: bytes) -> int:
    """Return how deep a line is nested, before anything is made of it: up to where it is no JSON any more."""
    if line.count(b"[") + line.count(b"{") <= MAX_NESTING:
        return 0
    depth = deepest = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", line)):
        depth += 1 if bracket.group() in b"[{" else -1
        deepest = max(deepest, depth)
        if depth < 0 or depth > MAX_NESTING:
            break
    return deepest


def _object(line: bytes, weight: int = 0) -> dict[str, Any]:
    """Return the JSON object that a line is. Raises WireError (`malformed`) with the reason."""
    if len(line) > MAX_RECORD_BYTES:
        _malformed(f"longer than {MAX_RECORD_BYTES:,} bytes")
    if weight > MAX_VALUES:
        _malformed(f"more than {MAX_VALUES:,} values")
    if _depth(line) > MAX_NESTING:
        _malformed(f"nested more than {MAX_NESTING} levels deep")
    try:
        value = _decode(line.decode())
    except UnicodeDecodeError:
        _malformed("no UTF-8")
    except _Unfit as error:
        _malformed(str(error))
    except (ValueError, RecursionError):
        _malformed("no JSON")
    if not isinstance(value, dict):
        _malformed("no JSON object")
    if _SURROGATE.search(line) and not _is_whole(value):
        _malformed("half a character (a lone surrogate)")
    return value


class _Unfit(ValueError):
    """JSON that not every reader understands in the same way, with the reason."""


def _is_whole(value: Any) -> bool:
    try:
        _encode(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Unfit("a key stands twice in one object")
    return found


def _real(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _Unfit("a number too large")
    return number


def _whole(digits: str) -> int:
    if len(digits) <= _LONG_NUMBER:
        return int(digits)
    if len(digits) > _MAX_DIGITS or (number := int(digits)).bit_length() > MAX_INTEGER_BITS:
        raise _Unfit("a number too large")
    return number


def _no_number(name: str) -> NoReturn:
    raise _Unfit(f"{name} is no number")


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_real, parse_int=_whole, parse_constant=_no_number).decode


# -- vectors ---------------------------------------------------------------------------------------------------------------------


def vector_text(vector: Sequence[float]) -> str:
    """Return a vector of finite numbers as text: base64 of little-endian float32."""
    values = array("f", vector)
    if sys.byteorder == "big":
        values.byteswap()
    return base64.b64encode(values.tobytes()).decode()


def vector_of(text: object) -> tuple[float, ...]:
    """Return the vector that a record's `vector` is. Raises WireError (`malformed`) for what is none."""
    if not isinstance(text, str) or len(text) > _MAX_DIMENSIONS * 6:
        _malformed("a vector is base64 of float32")
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        _malformed("a vector is base64 of float32")
    if not raw or len(raw) % 4 or len(raw) > _MAX_DIMENSIONS * 4:
        _malformed(f"a vector has 1 to {_MAX_DIMENSIONS:,} numbers of 4 bytes")
    values = array("f")
    values.frombytes(raw)
    if sys.byteorder == "big":
        values.byteswap()
    # A sum is finite only if all its terms are; those of float32 are too small to overflow it.
    if not math.isfinite(sum(values)):
        _malformed("a vector has finite numbers only")
    return tuple(values)
