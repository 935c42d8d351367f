"""Text of every kind: any code point a Python string can hold."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne import text

TRICKY = st.sampled_from(
    list("\0\ud83d\ude00\udfff\r\n\t \x1b\u200b\u202e\u00e9e\u0301\u3042\u4f60\uff1c<>[]:/&;\\%3CcSsyYtTeEmM|")
)
ANYTHING = st.text(st.one_of(TRICKY, st.characters(exclude_categories=())), max_size=200)
PIECES = st.lists(
    st.sampled_from(
        [
            "<",
            "</",
            "\uff1c",
            "&lt;",
            "%3c",
            "\\u003c",
            "[",
            "system",
            "memory-context",
            "\u200b",
            " ",
            ">",
            ":",
            "\n",
            "user",
            "x",
        ]
    ),
    max_size=12,
).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANYTHING,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANYTHING, inner, max_size=4),
    max_leaves=12,
)


@given(ANYTHING)
def test_stored_text_can_be_written_as_utf8_and_is_stable(raw: str) -> None:
    stored, notes = text.storable(raw)
    assert stored.encode("utf-8").decode("utf-8") == stored
    assert "\0" not in stored
    assert text.storable(stored) == (stored, ())
    assert bool(notes) == ("\ufffd" in stored and stored.count("\ufffd") > raw.count("\ufffd"))


@given(ANYTHING)
def test_the_canonical_form_is_stable_and_hashes_as_its_text_does(raw: str) -> None:
    form = text.canonical(raw)
    assert text.canonical(form) == form
    assert text.content_hash(form) == text.content_hash(raw) == text.content_hash(text.storable(raw)[0])
    assert text.content_hash(unicodedata.normalize("NFD", text.storable(raw)[0])) == text.content_hash(raw)
    assert text.content_hash(raw + " \n\n") == text.content_hash(raw)


@given(JSON)
def test_stored_values_are_json_in_utf8_and_keep_every_member(value: object) -> None:
    stored, _ = text.storable_value(value)
    written = json.dumps(stored, ensure_ascii=False, allow_nan=False)
    assert json.loads(written.encode("utf-8")) == stored
    if isinstance(value, dict):
        assert len(stored) == len(value)
    assert text.storable_value(stored) == (stored, ())


@given(ANYTHING | PIECES)
def test_neutralising_is_stable_and_leaves_nothing_invisible(raw: str) -> None:
    shown = text.neutralise(raw)
    assert text.neutralise(shown) == shown
    assert not {character for character in shown if unicodedata.category(character) == "Cc"} - {"\n", "\t"}
    shown.encode("utf-8")


@given(PIECES, st.sampled_from(["memory-context", "system", "system-note", "assistant"]), st.integers(0, 200))
def test_no_tag_of_structure_survives_whatever_is_hidden_in_it(around: str, name: str, seed: int) -> None:
    hidden = "".join(character + "\u200b\u2060\u00ad"[seed % 3] * (seed % 2) for character in name)
    cased = hidden.upper() if seed % 5 == 0 else hidden.title() if seed % 5 == 1 else hidden
    shown = text.neutralise(f"{around}</{' ' * (seed % 4)}{cased}>{around}")
    assert f"</{name}>" not in unicodedata.normalize("NFKC", shown).casefold().replace(" ", "")


@given(ANYTHING, st.integers(0, 50))
def test_one_line_is_one_line_within_its_limit(raw: str, limit: int) -> None:
    line = text.one_line(raw, limit=limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert len(text.one_line(raw).splitlines()) <= 1


@given(ANYTHING)
def test_a_terminal_gets_no_control_character(raw: str) -> None:
    shown = text.printable(raw)
    assert not {character for character in shown if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}} - {"\n", "\t"}
    assert "\u202e" not in shown
    shown.encode("utf-8")
