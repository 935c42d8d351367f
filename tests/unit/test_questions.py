"""What counts as a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.recall.questions import asks


@pytest.mark.parametrize(
    "text",
    [
        "Which port has the staging database?",
        "which port has it? thanks!",
        "Did you see this one? [image: a red bicycle in the rain]",
        'He asked "why?"',
        "Really?!",
        "Wann fährt der Zug?\n",
        "日本語ですか\uff1f",
        "ما هذا؟",
    ],
)
def test_a_question_mark_near_the_end_asks(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "It listens on port 5433.",
        "See https://example.org/search?q=port",
        "fetch('/a?b=1')",
        "Why? " + "Because the old one was taken by another service, as we saw. " * 4,
        "The port is 5433. " * 40 + "Shall I go on?",
    ],
)
def test_statements_addresses_and_long_answers_with_an_offer_ask_nothing(text: str) -> None:
    assert not asks(text)


@given(st.text(alphabet=st.characters(), max_size=300), st.sampled_from(["", " ", "\n", ")", '"']))
def test_any_short_text_asks_once_a_question_mark_ends_it(text: str, end: str) -> None:
    assert asks(f"{text}?{end}")


@given(st.text(alphabet=st.sampled_from("a?\uff1f.\x00\ud800 \n/="), max_size=700))
def test_any_text_may_be_looked_at_and_without_a_mark_nothing_asks(text: str) -> None:
    assert not asks(text) or "?" in text or "\uff1f" in text
