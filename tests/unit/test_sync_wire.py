"""Pages as they travel: what is read is what was sent, and nothing that anybody sends does harm."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import struct
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from hermes_mnemosyne.sync import wire
from hermes_mnemosyne.sync.wire import (
    MAX_NESTING,
    MAX_PAGE_VALUES,
    MAX_RECORDS,
    PROTOCOL,
    CutOff,
    Page,
    WireError,
    encode_object,
    encode_page,
    read_object,
    read_page,
    vector_of,
    vector_text,
)

HEAD = {"type": "page", "protocol": PROTOCOL}
RECORD = {
    "type": "entry",
    "uid": "u1",
    "content": "Momo \u732b \U0001f408",
    "tags": ["a"],
    "importance": 0.5,
    "metadata": {"n": 1},
}


def raw_page(*lines: bytes, count: int | None = None) -> bytes:
    end = json.dumps({"type": "end", "records": len(lines) if count is None else count}).encode()
    return b"\n".join([json.dumps(HEAD).encode(), *lines, end]) + b"\n"


def plain(body: bytes, **options: Any) -> Page:
    return read_page([body], encoding="identity", **options)


def set_aside(*lines: bytes) -> list[tuple[int, str]]:
    page = plain(raw_page(*lines, b'{"uid":"after"}'))
    assert page.records[-1] == {"uid": "after"}
    return page.set_aside


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


def outcome(body: bytes) -> Page | str:
    """Return the page, or the protocol's word for why it is none."""
    try:
        return read_page([body], encoding="gzip")
    except WireError as error:
        return error.word


# -- what is read is what was sent -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_page_is_read_as_it_was_written_in_pieces_of_any_size(size: int) -> None:
    records = [RECORD, {"type": "tombstone", "uid": "u2"}, {}]
    body = encode_page({"after": 3, "more": False}, records)
    page = read_page(pieces(body, size), encoding="gzip")
    assert page == Page({**HEAD, "after": 3, "more": False}, records, [])
    assert read_page(pieces(gzip.decompress(body), size), encoding="") == page


def test_a_page_without_records_is_a_page() -> None:
    assert read_page([encode_page({}, [])], encoding="gzip") == Page(HEAD, [], [])


def test_the_same_page_is_the_same_bytes() -> None:
    assert encode_page({"a": 1}, [RECORD]) == encode_page({"a": 1}, [dict(RECORD)])


def test_any_iterable_of_records_can_be_written() -> None:
    assert read_page([encode_page({}, ({"uid": str(n)} for n in range(3)))], encoding="gzip").records[2] == {"uid": "2"}


def test_a_record_longer_than_a_page_travels() -> None:
    record = {"uid": "long", "content": "x" * (wire.MAX_PAGE_BYTES + 1)}
    assert read_page([encode_page({}, [record])], encoding="gzip").records == [record]


def test_a_text_of_commas_and_brackets_is_text() -> None:
    record = {"uid": "csv", "content": '1,2,[{"' * 200_000 + "\\"}
    assert plain(raw_page(encode_object(record))).records == [record]


def test_unpacking_a_large_body_in_one_piece_is_linear() -> None:
    record = {"uid": "r", "content": base64.b64encode(bytes(range(256)) * 40_000).decode()}
    assert read_page([encode_page({}, [record])], encoding="gzip").records == [record]


def test_line_ends_of_other_systems_and_a_missing_last_one_do_no_harm() -> None:
    assert plain(raw_page(b'{"uid":"1"}').replace(b"\n", b"\r\n").rstrip()).records == [{"uid": "1"}]


# -- cut off ---------------------------------------------------------------------------------------------------------------------


def test_a_page_that_is_cut_off_at_any_byte_counts_for_nothing() -> None:
    body = encode_page({"position": 12}, [RECORD] * 12)
    for length in range(len(body)):
        with pytest.raises(CutOff):
            read_page([body[:length]], encoding="gzip")


def test_a_page_in_clear_that_is_cut_off_at_any_byte_counts_for_nothing() -> None:
    body = gzip.decompress(encode_page({"position": 12}, [RECORD] * 12))
    for length in range(len(body) - 1):  # all but its last line end
        with pytest.raises(CutOff):
            plain(body[:length])


def test_a_page_that_was_damaged_at_any_byte_is_refused_or_unchanged() -> None:
    body = encode_page({"position": 12}, [RECORD] * 3)
    page = read_page([body], encoding="gzip")
    for place in range(len(body)):
        damaged = body[:place] + bytes([body[place] ^ 0x10]) + body[place + 1 :]
        assert outcome(damaged) in (page, "malformed", "too-large")


def test_an_error_of_the_connection_is_not_taken_for_an_end() -> None:
    def broken() -> Iterator[bytes]:
        yield encode_page({}, [RECORD])[:-4]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        read_page(broken(), encoding="gzip")


@pytest.mark.parametrize("count", [0, 2, -1, 1.0, True, "1", None])
def test_an_end_that_counts_otherwise_is_refused(count: Any) -> None:
    body = raw_page(b'{"uid":"1"}').replace(b'"records": 1', f'"records": {json.dumps(count)}'.encode())
    with pytest.raises(WireError) as raised:
        plain(body)
    assert raised.value.word == "malformed"


@pytest.mark.parametrize("more", [b"x", b"{}\n", raw_page()])
def test_nothing_may_follow_the_end(more: bytes) -> None:
    with pytest.raises(WireError, match="after the end"):
        plain(raw_page() + more)
    for body in (encode_page({}, []) + more, encode_page({}, []) + encode_page({}, [])):
        with pytest.raises(WireError, match="after the end"):
            read_page([body], encoding="gzip")
        with pytest.raises(WireError, match="after the end"):
            read_page(pieces(body, 1), encoding="gzip")


# -- heads -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head", [b"", b"[]", b"null", b'"page"', b"{", b'{"type":"entry"}', b"\xff", b"\x00", b'{"type":NaN}', b"[" * 99_999]
)
def test_a_body_that_begins_with_no_head_is_refused(head: bytes) -> None:
    with pytest.raises(WireError) as raised:
        plain(head + b"\n" + raw_page())
    assert raised.value.word == "malformed"


@pytest.mark.parametrize("protocol", [0, 2, 1.0, True, "1", None, [1]])
def test_another_version_is_told_which_one_is_spoken(protocol: Any) -> None:
    with pytest.raises(WireError, match=f"version {PROTOCOL} ") as raised:
        read_page([encode_page({"protocol": protocol}, [])], encoding="gzip")
    assert raised.value.word == "protocol"


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "x-gzip", "zstd"])
def test_an_unknown_encoding_is_named_as_such(encoding: str) -> None:
    for read in (read_page, read_object):
        with pytest.raises(WireError) as raised:
            read([b"{}"], encoding=encoding)
        assert raised.value.word == "encoding"


@pytest.mark.parametrize("body", [b"", b"\x1f", b"\x1f\x8b\x08", b"plain text", zlib.compress(b"no gzip"), b"\x00" * 99])
def test_what_is_no_gzip_is_refused(body: bytes) -> None:
    with pytest.raises(WireError) as raised:
        read_page([body], encoding="gzip")
    assert raised.value.word == "malformed"


# -- records that are none -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"nonsense", "no JSON"),
        (b'{"a":1}{"b":2}', "no JSON"),
        (b"{'a':1}", "no JSON"),
        (b'{"a":1,}', "no JSON"),
        (b'{"a":"\t"}', "no JSON"),
        (b'{"a":01}', "no JSON"),
        (b"\xef\xbb\xbf{}", "no JSON"),
        (b"\x00", "no JSON"),
        ('{"a":1}'.encode("utf-16"), "no UTF-8"),
        (b'{"a":"\xff"}', "no UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "no UTF-8"),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b"1", "no JSON object"),
        (b'"text"', "no JSON object"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":[-Infinity]}', "-Infinity"),
        (b'{"a":1e999}', "too large"),
        (b'{"a":-1e999}', "too large"),
        (b'{"a":%s}' % (b"9" * 1300), "too large"),
        (b'{"a":%s}' % (b"9" * 1_000_000), "too large"),
        (b'{"a":1,"a":2}', "twice"),
        (b'{"a":{"b":1,"\\u0062":2}}', "twice"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b'{"a":["\\uDC00\\uD800"]}', "surrogate"),
        (b'{"\\udfff":1}', "surrogate"),
        (b'{"a":%s1%s}' % (b"[" * MAX_NESTING, b"]" * MAX_NESTING), "deep"),
        (b'{"a":' * 100_000, "deep"),
        (b"[" * 1_000_000, "values"),
        (b'{"a":["%s"]}' % (b'","' * 100_001), "values"),
        (b'{"a":["%s"]}' % (b'","' * 1_000_000), "values"),
        (b"[" * 100 + b"]" * 1_000_000, "deep"),
        (b'{"a":[' + b"]" * 1_000_000, "no JSON"),
        (b'{"a":[%s1]}' % (b"1," * 100_001), "values"),
        (b'{"a":[%s1]}' % (b"1," * 1_100_000), "values"),
    ],
)
def test_a_line_that_is_no_record_is_set_aside_and_the_rest_flows(line: bytes, reason: str) -> None:
    [(number, why)] = set_aside(line)
    assert number == 2
    assert reason in why


def test_what_is_set_aside_is_told_by_its_line() -> None:
    page = plain(raw_page(b'{"uid":"1"}', b"x", b'{"uid":"2"}', b"y"))
    assert [record["uid"] for record in page.records] == ["1", "2"]
    assert [number for number, _ in page.set_aside] == [3, 5]


def test_as_many_values_as_the_engine_stores_pass() -> None:
    record = {"a": [{"k": "v"}] * 33_000, "b": ["text"] * 30_000}
    assert plain(raw_page(encode_object(record))).records == [record]


def test_numbers_and_nesting_that_the_engine_stores_pass() -> None:
    for value in (2**4096 - 1, -(2**4096) + 1, 10**18, -0.0, 1e308, 5e-324):
        assert plain(raw_page(encode_object({"a": value}))).records == [{"a": value}]
    deep: Any = 1
    for _ in range(MAX_NESTING - 1):
        deep = [deep]
    assert plain(raw_page(encode_object({"a": deep}))).records == [{"a": deep}]


def test_pairs_of_surrogates_are_one_character_and_a_backslash_is_a_backslash() -> None:
    page = plain(raw_page(b'{"a":"\\ud83d\\ude00"}', b'{"a":"\\\\ud800"}'))
    assert [record["a"] for record in page.records] == ["\U0001f600", "\\ud800"]


def test_a_row_with_half_a_character_is_sent_and_set_aside_there() -> None:
    page = read_page([encode_page({}, [{"a": "\ud800"}, {"a": "whole"}])], encoding="gzip")
    assert page.records == [{"a": "whole"}]
    assert "surrogate" in page.set_aside[0][1]


def test_what_is_no_json_is_never_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_page({}, [{"a": float("nan")}])
    with pytest.raises(TypeError):
        encode_page({}, [{"a": b"bytes"}])


# -- bounds ----------------------------------------------------------------------------------------------------------------------


def endless(packed: bytes) -> Iterator[bytes]:
    """Give a bomb piece by piece, without an end."""
    return itertools.repeat(packed)


def refused_as_too_large(chunks: Iterable[bytes], *, encoding: str = "gzip", max_bytes: int = 1_000_000) -> None:
    with pytest.raises(WireError) as raised:
        read_page(chunks, encoding=encoding, max_bytes=max_bytes)
    assert raised.value.word == "too-large"


def peak_of_refusing(body: bytes, max_bytes: int) -> int:
    tracemalloc.start()
    try:
        refused_as_too_large([body], max_bytes=max_bytes)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("filling", [b"\n", b" ", b"a", b"{}\n"])
def test_a_bomb_is_refused_within_the_bound(filling: bytes) -> None:
    bomb = zlib.compress(json.dumps(HEAD).encode() + b"\n" + filling * (32_000_000 // len(filling)), 9, wbits=31)
    assert len(bomb) < 100_000
    assert peak_of_refusing(bomb, 1_000_000) < 8_000_000


def test_what_unpacks_to_nothing_for_ever_is_refused() -> None:
    empty_block = b"\x00\x00\x00\xff\xff"
    start = zlib.compressobj(wbits=31)
    refused_as_too_large(itertools.chain([start.compress(b"") + start.flush(zlib.Z_SYNC_FLUSH)], endless(empty_block * 1000)))
    long_name = b"\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03"
    refused_as_too_large(itertools.chain([long_name], endless(b"n" * 1000)))


def test_a_body_in_clear_without_an_end_is_refused() -> None:
    refused_as_too_large(itertools.chain([json.dumps(HEAD).encode() + b"\n"], endless(b"a" * 1000)), encoding="identity")


def test_a_page_has_a_bounded_number_of_records() -> None:
    assert len(plain(raw_page(*[b"{}"] * MAX_RECORDS)).records) == MAX_RECORDS
    refused_as_too_large([raw_page(*[b"{}"] * (MAX_RECORDS + 1))], encoding="identity")
    refused_as_too_large([raw_page(*[b"x"] * (MAX_RECORDS + 1))], encoding="identity")


def test_a_page_has_a_bounded_number_of_values() -> None:
    line = b'{"a":[%s0]}' % (b"[]," * 45_000)
    assert len(plain(raw_page(line)).records) == 1
    refused_as_too_large([raw_page(*[line] * (MAX_PAGE_VALUES // 45_000))], encoding="identity", max_bytes=1 << 30)


def test_a_head_of_many_values_is_refused_before_they_are_made() -> None:
    body = b'{"type":"page","protocol":1,"a":[%s0]}\n' % (b"[]," * 1_000_000) + raw_page()
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            plain(body)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("ending", [b"", b"\\", b'"', b'\\"', b'"\\'])
def test_unterminated_texts_of_any_length_are_refused_in_one_pass(ending: bytes) -> None:
    for filling in (b'\\"', b'"', b"\\", b'["', b',"\\\\'):
        line = b'{"a":"' + filling * 300_000 + ending
        page = plain(raw_page(line))
        assert len(page.set_aside) == 1


# -- objects ---------------------------------------------------------------------------------------------------------------------


def test_an_object_is_read_as_it_was_written() -> None:
    value = {"error": "cloned", "message": "caf\u00e9", "records": [1, {"a": None}]}
    assert read_object(pieces(encode_object(value), 3), encoding="") == value
    assert read_object([gzip.compress(encode_object(value) + b"\n")], encoding="GZIP") == value


@pytest.mark.parametrize(
    "body", [b"[]", b"1", b"", b"{", b'{"a":NaN}', b'{"a":1,"a":1}', b'{"a":"\\ud800"}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_object_is_malformed(body: bytes) -> None:
    with pytest.raises(WireError) as raised:
        read_object([body], encoding="identity")
    assert raised.value.word == "malformed"


def test_an_object_has_bounds() -> None:
    for body, bound in ((b'{"a":"' + b"x" * 2000 + b'"}', 1000), (b'{"a":[%s0]}' % (b"0," * MAX_PAGE_VALUES), 1 << 30)):
        with pytest.raises(WireError) as raised:
            read_object([body], encoding="identity", max_bytes=bound)
        assert raised.value.word == "too-large"


# -- vectors ---------------------------------------------------------------------------------------------------------------------


def test_vectors_are_frozen() -> None:
    assert vector_text([1.0, -0.5]) == "AACAPwAAAL8="
    assert vector_of("AACAPwAAAL8=") == (1.0, -0.5)


@pytest.mark.parametrize(
    "text",
    [None, 1, [], "", "AAAA", "AACAPw", "AACAPw==\n", "AACA Pw==", "\u00e9" * 8, "*" * 8, "A" * 10_000_000]
    + [base64.b64encode(struct.pack("<2f", 1.0, bad)).decode() for bad in (float("nan"), float("inf"), float("-inf"))],
    ids=lambda text: repr(text)[:20],
)
def test_what_is_no_vector_is_malformed(text: Any) -> None:
    with pytest.raises(WireError) as raised:
        vector_of(text)
    assert raised.value.word == "malformed"
