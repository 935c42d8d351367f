"""Properties of the wire format over kinds of input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.sync.wire import WireError, encode_object, encode_page, read_object, read_page, vector_of, vector_text

# With NUL, control characters, CJK, and everything else but halves of characters.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('\0\n\r\t\x1b\x7f\x85\u2028\u4e2d\u732b\U0001f408"\\[]{},:'),
    max_size=40,
)
ANY_TEXT = TEXT | st.text(st.characters(categories=["Cs"]) | st.characters(), max_size=10)
NUMBER = st.integers(-(2**4096) + 1, 2**4096 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def values(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | NUMBER | text,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5),
        max_leaves=12,
    )


def objects(text: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(text.filter(lambda key: key not in {"type", "protocol"}), values(text), max_size=6)


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are the same JSON: 1 is neither 1.0 nor true."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def is_whole(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def outcome(read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return what was read, or the protocol's word for why it cannot be."""
    try:
        return read(*arguments, **options)
    except WireError as error:
        return error.word


@given(objects(TEXT), st.lists(objects(TEXT), max_size=6), st.integers(1, 500))
def test_every_page_comes_back_as_it_went(head: dict[str, Any], records: list[dict[str, Any]], size: int) -> None:
    body = encode_page(head, records)
    page = read_page([body[start : start + size] for start in range(0, len(body), size)], encoding="gzip")
    assert same(page.head, {"type": "page", "protocol": 1, **head})
    assert same(page.records, records)
    assert page.set_aside == []


@given(st.lists(objects(ANY_TEXT), max_size=6))
def test_records_with_halves_of_characters_are_set_aside_and_all_others_come(records: list[dict[str, Any]]) -> None:
    page = read_page([encode_page({}, records)], encoding="gzip")
    assert same(page.records, [record for record in records if is_whole(record)])
    assert [line for line, _ in page.set_aside] == [line for line, record in enumerate(records, 2) if not is_whole(record)]


@given(objects(TEXT))
def test_every_object_comes_back_as_it_went(value: dict[str, Any]) -> None:
    assert same(read_object([encode_object(value)], encoding="identity"), value)


@given(
    st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            [b'{"type":"page","protocol":1}', b'{"type":"end","records":1}', b"\n", b"{}", b"[", b'"', b"\\", b"\x1f\x8b\x08"]
        ),
        max_size=12,
    ).map(b"".join),
    st.sampled_from(["gzip", "identity"]),
)
def test_any_bytes_are_a_page_or_an_error_of_the_protocol(body: bytes, encoding: str) -> None:
    page = outcome(read_page, [body], encoding=encoding)
    assert (
        page in {"malformed", "protocol", "too-large"}
        if isinstance(page, str)
        else all(isinstance(record, dict) for record in page.records)
    )


@given(st.lists(objects(TEXT), min_size=1, max_size=4), st.data())
def test_no_beginning_of_a_page_is_a_page(records: list[dict[str, Any]], data: st.DataObject) -> None:
    body = encode_page({}, records)
    cut = data.draw(st.integers(0, len(body) - 1))
    assert outcome(read_page, [body[:cut]], encoding="gzip") == "malformed"


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_vectors_come_back_to_the_last_bit(vector: list[float]) -> None:
    back = vector_of(vector_text(vector))
    assert [(value, math.copysign(1, value)) for value in back] == [(value, math.copysign(1, value)) for value in vector]


@given(TEXT | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_a_vector_or_an_error_of_the_protocol(text: str) -> None:
    vector = outcome(vector_of, text)
    assert vector == "malformed" or all(map(math.isfinite, vector))
