"""What callers give to be stored: limits, wrong types, texts that no store can hold."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne import InvalidInput
from hermes_mnemosyne.drafts import MAX_CONTENT, MAX_SESSION, MAX_TAG, MAX_TAGS, cleaned, draft_of, entry_changes, turn_of
from hermes_mnemosyne.text import storable, storable_value


def clean(text: str) -> tuple[str, tuple[str, ...]]:
    return cleaned(text, storable, None)


def clean_value(value: Any) -> tuple[Any, tuple[str, ...]]:
    return cleaned(value, storable_value, None)


def draft(content: Any = "fact", **fields: Any) -> dict[str, Any]:
    return draft_of(content, fields, clean, clean_value).values


def changes(**fields: Any) -> dict[str, Any]:
    return entry_changes(fields, clean, clean_value).values


def spoken(content: Any = "hello", **fields: Any) -> Any:
    return turn_of(content, fields, clean, clean_value)


def test_a_plain_text_takes_the_defaults() -> None:
    assert draft() == {"content": "fact", "target": "memory", "metadata": {}}


def test_every_field_is_taken_over() -> None:
    moment = datetime(2026, 11, 30, 12, tzinfo=UTC)
    values = draft(
        target="user", tags=["b", " a ", "b", ""], importance=1, pinned=True, valid_until=moment, occurred_at="2026-11-30T12:00+02:00",
        supersedes="u", metadata={"a": (1, 2)}, session_id="s",
    )  # fmt: skip
    assert values == {
        "content": "fact", "target": "user", "tags": ("a", "b"), "importance": 1.0, "pinned": True,
        "valid_until": "2026-11-30T12:00:00.000000Z", "occurred_at": "2026-11-30T10:00:00.000000Z", "occurred_offset": 120,
        "supersedes": "u", "metadata": {"a": [1, 2]}, "session_id": "s",
    }  # fmt: skip


def named(value: Any) -> str:
    plain = isinstance(value, (str, int, float, list)) and value is not HUGE
    return repr(value)[:30] if plain else type(value).__name__


HUGE = 10**5000
WRONG: list[tuple[str, Any]] = [
    ("importance", math.nan), ("importance", math.inf), ("importance", -0.1), ("importance", 1.1), ("importance", True),
    ("importance", "0.5"), ("importance", None), ("importance", HUGE), ("importance", 1j), ("pinned", 1), ("pinned", "yes"),
    ("pinned", None), ("pinned", HUGE), ("tags", "red"), ("tags", b"red"), ("tags", 5), ("tags", None), ("tags", [1]), ("tags", [None]),
    ("tags", [["a"]]), ("tags", {"a": 1}), ("tags", ["x"] * (MAX_TAGS + 1)), ("tags", ["x" * (MAX_TAG + 1)]), ("metadata", []),
    ("metadata", "x"), ("metadata", 5), ("metadata", {1: 2}), ("metadata", {"a": object()}), ("metadata", {"a": math.nan}),
    ("metadata", {"a": {1, 2}}), ("metadata", {"a": b"x"}), ("metadata", {"a": HUGE}), ("session_id", 5), ("session_id", None),
    ("session_id", "x" * (MAX_SESSION + 1)), ("valid_until", 5), ("valid_until", HUGE), ("valid_until", "soon"), ("valid_until", []),
    ("occurred_at", "2026-13-45"), ("occurred_at", object()), ("visibility", "public"), ("visibility", 5), ("visibility", []),
    ("colour", "red"), ("uid", "x"), ("theme", "x"), ("subject", "x"), ("clock", "x"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [*WRONG, ("target", "x"), ("target", None), ("target", []), ("supersedes", 5), ("role", "user")], ids=named
)
def test_a_wrong_field_of_an_entry_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        draft(**{name: value})
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("name", "value"), [*WRONG, ("target", "user"), ("supersedes", "u"), ("parent_session_id", "s"), ("speaker", "x")], ids=named
)
def test_a_wrong_change_of_an_entry_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        changes(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("role", "nobody"), ("role", None), ("role", []), ("speaker", 5), ("speaker", "x" * (MAX_TAG + 1)), ("importance", 0.5), ("tags", []),
     ("pinned", True), ("target", "user"), ("valid_until", None), ("session_id", 5), ("parent_session_id", "x" * (MAX_SESSION + 1)),
     ("metadata", 5), ("occurred_at", 5), ("visibility", "public"), ("visibility", 5), ("visibility", []), ("colour", 1)],
)  # fmt: skip
def test_a_wrong_field_of_a_turn_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        spoken(**{name: value})


@pytest.mark.parametrize("content", ["", " ", "\n\t", "\u3000", None, 5, b"x", ["x"], math.nan])
def test_a_blank_or_foreign_content_is_refused_everywhere(content: Any) -> None:
    for make in (draft, spoken):
        with pytest.raises(InvalidInput):
            make(content)
    with pytest.raises(InvalidInput):
        changes(content=content)


def test_the_longest_content_is_taken_and_a_longer_one_is_refused_with_the_limit() -> None:
    assert len(draft("x" * MAX_CONTENT)["content"]) == MAX_CONTENT
    with pytest.raises(InvalidInput, match="16,777,216"):
        draft("x" * (MAX_CONTENT + 1))


def test_limits_themselves_are_within_the_limits() -> None:
    values = draft(tags=[f"{number}".ljust(MAX_TAG, "x") for number in range(MAX_TAGS)], session_id="s" * MAX_SESSION)
    assert len(values["tags"]) == MAX_TAGS


def test_nothing_to_change_is_refused() -> None:
    with pytest.raises(InvalidInput):
        changes()


def test_none_clears_a_time_and_its_offset() -> None:
    assert changes(valid_until=None, occurred_at=None) == {"valid_until": None, "occurred_at": None, "occurred_offset": None}


def test_a_day_of_expiry_is_valid_to_its_end() -> None:
    assert draft(valid_until=date(2026, 11, 30))["valid_until"] > draft(occurred_at=date(2026, 11, 30))["occurred_at"]


def test_what_was_replaced_is_told_and_kept_beside_the_callers_own_metadata() -> None:
    made = draft_of("a\0b", {"tags": ["\ud800"], "metadata": {"\udfff": "\0", "mine": 1}}, clean, clean_value)
    assert set(made.notes) == {"replaced-nul", "replaced-surrogate"}
    assert made.values["content"] == "a\ufffdb"
    assert made.values["tags"] == ("\ufffd",)
    assert made.values["metadata"] == {"\ufffd": "\ufffd", "mine": 1, "cleaned": ["replaced-nul", "replaced-surrogate"]}
    kept = draft_of("a\0b", {"metadata": {"cleaned": "by me"}}, clean, clean_value)
    assert kept.values["metadata"] == {"cleaned": "by me"}


def test_a_turn_is_taken_with_its_session() -> None:
    text, rest, notes = spoken("hello", role="tool", speaker=" Ada ", session_id="s", parent_session_id="p", metadata={"a": 1})
    assert (text.content, text.role, text.speaker, dict(text.metadata)) == ("hello", "tool", "Ada", {"a": 1})
    assert (rest, notes) == ({"session_id": "s", "parent_session_id": "p"}, ())
    assert spoken()[1] == {"session_id": "", "parent_session_id": ""}


ANY_TEXT = st.text(st.characters())
JSON = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT
NESTED = JSON | st.lists(JSON | st.lists(JSON)) | st.dictionaries(ANY_TEXT, JSON)


@given(
    ANY_TEXT,
    st.dictionaries(
        st.sampled_from(["tags", "importance", "pinned", "valid_until", "occurred_at", "metadata", "session_id"]), NESTED
    ),
)
def test_whatever_is_given_becomes_storable_or_is_refused(content: str, fields: dict[str, Any]) -> None:
    for make in (lambda: draft(content, **fields), lambda: changes(content=content, **fields)):
        try:
            values = make()
        except InvalidInput as error:
            assert str(error)  # noqa: PT017 - either way is right
        else:
            repr(values).encode()
            assert values["content"].strip()
            assert "\0" not in repr(values)
