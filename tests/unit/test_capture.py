"""What the hooks keep of a conversation, and what they leave out."""

# ruff: noqa: RUF001 - greetings of other scripts hold signs that look like Latin ones
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.capture import (
    RECALL_HEADING,
    completed_turn,
    is_noise,
    is_trivial,
    plain_text,
    said,
    skill_instruction,
    strip_injected,
    transcript_texts,
)

LONG = "The deployment of the billing service moved to Friday because of the audit."
SKILL = (
    '[IMPORTANT: The user has invoked the "review" skill, indicating they want you to follow its instructions. '
    "The full skill content is loaded below.]\n\n# Review\nLook at everything.\n\n"
)


@pytest.mark.parametrize("text", ["", "   \n", "ok", "Thanks!", "  GOT IT. ", "short but no acknowledgement"])
def test_short_texts_and_acknowledgements_are_noise(text: str) -> None:
    assert is_noise(text)


def test_a_text_of_exactly_the_minimum_is_kept_and_blanks_around_it_do_not_count() -> None:
    assert not is_noise("x" * 40)
    assert is_noise("x" * 39 + "   ")


def test_an_acknowledgement_is_noise_whatever_the_minimum() -> None:
    assert is_noise("thank you!!", min_chars=0)
    assert not is_noise("the cat is called Momo", min_chars=0)


@pytest.mark.parametrize("query", ["", " ", "hi", "Hello!", "hi there again", "good morning", "OK.", "/new", "/model gpt-9", "…"])
def test_greetings_acknowledgements_and_commands_ask_for_nothing(query: str) -> None:
    assert is_trivial(query)


@pytest.mark.parametrize(
    "query",
    [
        "hey there :)", "Hi, how are you?", "Hey Hermes, good morning!", "thank you so much", "ok \U0001f44d", "\U0001f44d", "Grüß Gott",
        "Gru\u0308ß Gott!", "¡Hola! ¿Qué tal?", "Bonjour, ça va ?", "привет!", "नमस्ते", "你好！", "こんにちは。", "안녕하세요", "مرحبا",
        "what\u2019s up",
    ],
)  # fmt: skip
def test_a_greeting_asks_for_nothing_in_whatever_language_and_company(query: str) -> None:
    assert is_trivial(query)


@pytest.mark.parametrize(
    "query", ["hi, where is the boat?", "thanks, now deploy", "good morning routine", "你好世界程序", "all", "??? 7"]
)
def test_a_question_after_a_greeting_is_a_question(query: str) -> None:
    assert not is_trivial(query)


@pytest.mark.parametrize("query", ["/etc/hosts is broken", "what is Ada's cat called?", "Momo", "hello world program in C", "1"])
def test_everything_else_is_a_question(query: str) -> None:
    assert not is_trivial(query)


def test_a_long_message_is_a_question_unless_it_is_a_command() -> None:
    """It is not looked through word by word: somebody may have pasted a file."""
    assert not is_trivial("ok " * 400)
    assert is_trivial("/compress " + "ok " * 400)


def test_a_fenced_block_of_recalled_memory_is_not_stored_again() -> None:
    fenced = f"{LONG}\n\n<memory-context>\n[System note: recalled]\n\n- secret echo\n</memory-context>"
    assert strip_injected(fenced).strip() == LONG
    assert strip_injected(f"< Memory-Context >x</ MEMORY-CONTEXT >{LONG}") == LONG


def test_a_block_that_was_never_closed_goes_to_the_end() -> None:
    assert strip_injected(f"{LONG}\n<memory-context>\n[System note: recalled]\n\necho").strip() == LONG


def test_our_own_block_is_not_stored_even_without_a_fence() -> None:
    block = f"{RECALL_HEADING} (theme hermes)\n- [2026-11-30, memory] echo one\n- [2026-11-30, memory] echo two\n"
    assert strip_injected(f"{block}\n{LONG}").strip() == LONG


def test_prose_about_the_fence_is_left_alone() -> None:
    text = f"{LONG} What does the tag <memory-context> mean?"
    assert strip_injected(text) == text


def test_only_the_persons_own_words_of_an_expanded_skill_count() -> None:
    quoted = "The user has provided the following instruction alongside the skill invocation: quoted by the skill"
    text = f"{SKILL}{quoted}\n\nThe user has provided the following instruction alongside the skill invocation: {LONG}\n\n[Runtime note: x]"
    assert skill_instruction(text) == LONG
    assert skill_instruction(SKILL) == ""
    assert skill_instruction(LONG) == LONG


def test_the_instruction_of_a_skill_bundle_stands_before_the_skills() -> None:
    text = (
        '[IMPORTANT: The user has invoked the "ship" skill bundle, loading 2 skills.]\n'
        f'User instruction: {LONG}\n\n[Loaded as part of the "ship" bundle]\nUser instruction: from the body'
    )
    assert skill_instruction(text) == LONG


def test_the_text_parts_of_a_message_are_joined_by_lines_and_pictures_left_out() -> None:
    content = [
        {"type": "text", "text": "one"},
        {"type": "image_url", "image_url": {"url": "data:..."}},
        {"type": "input_text", "text": "two"},
        7,
    ]
    assert plain_text(content) == "one\ntwo"
    assert plain_text(None) == ""
    assert said("user", "[2 images] one\ntwo") == said("user", content)


def test_the_thoughts_of_a_model_are_not_what_it_said() -> None:
    assert said("assistant", f"<think>hm, maybe</think>\n{LONG}") == LONG


def test_a_transcript_yields_what_person_and_model_said() -> None:
    messages: list[Any] = [
        {"role": "system", "content": "You are helpful."},
        {
            "role": "user",
            "content": LONG,
            "api_content": f"{LONG}\n\n<memory-context>\necho\n</memory-context>",
            "timestamp": 1_796_040_000.5,
        },
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "a long tool result that nobody said " * 3},
        {"role": "assistant", "content": "The answer to all of it is forty-two, as ever."},
        "no message",
        {"role": "user", "content": None},
    ]
    found = transcript_texts(messages)
    assert [(one.role, one.content) for one in found] == [
        ("user", LONG),
        ("assistant", "The answer to all of it is forty-two, as ever."),
    ]
    assert found[0].occurred_at == "2026-11-30T12:00:00.500000Z"
    assert found[1].occurred_at is None


@pytest.mark.parametrize(
    "message",
    [
        {"content": "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted"},
        {"content": "[System: Continue now. Execute the required tool calls.]"},
        {"content": "[Your active task list was preserved across context compression]\n- [ ] one"},
        {"content": LONG, "_pre_verify_synthetic": True},
        {"content": LONG, "_compressed_summary": True},
    ],
)
def test_what_the_host_wrote_under_a_persons_role_is_not_captured(message: dict[str, Any]) -> None:
    assert transcript_texts([{"role": "user", **message}]) == []


@pytest.mark.parametrize("stamp", ["no time", True, float("nan"), 1e300, [], "2026-13-01"])
def test_a_time_stamp_that_is_none_is_ignored(stamp: Any) -> None:
    assert transcript_texts([{"role": "user", "content": LONG, "timestamp": stamp}])[0].occurred_at is None


def test_a_completed_turn_has_what_the_model_said_between_its_tool_calls() -> None:
    messages = [
        {"role": "user", "content": "an older question"},
        {"role": "assistant", "content": "an older answer"},
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": "The certificate of gateway three expired; I renew it.", "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "done"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "the next question"},
    ]
    found = completed_turn(LONG, "Done.\n\n— model x", messages)
    assert [one.content for one in found] == [LONG, "The certificate of gateway three expired; I renew it.", "Done."]


def test_a_completed_turn_without_its_transcript_is_question_and_answer() -> None:
    assert [one.content for one in completed_turn(LONG, "An answer.", None)] == [LONG, "An answer."]
    assert [one.content for one in completed_turn(LONG, "An answer.", [{"role": "user", "content": "another"}])] == [
        LONG,
        "An answer.",
    ]


TAGS = st.sampled_from(
    ["<memory-context>", "</memory-context>", "< MEMORY-context >", "</ memory-context>", "\n[System note: x]\n"]
)
PIECES = st.lists(TAGS | st.text(st.characters(codec=None), max_size=20), max_size=12).map("".join)


@given(before=st.text(max_size=30), inside=st.text(max_size=60), after=st.text(max_size=30))
def test_nothing_of_a_fenced_block_is_left(before: str, inside: str, after: str) -> None:
    marker = "ECHOED-MEMORY"
    left = strip_injected(f"{before}\n<memory-context>\n{inside}{marker}\n</memory-context>\n{after}")
    assert marker not in left


@given(text=PIECES)
def test_a_text_is_shortened_only_where_it_holds_a_block(text: str) -> None:
    left = strip_injected(text)
    assert len(left) <= len(text)
    assert left == text or "memory-context" in text.lower()


@given(
    messages=st.lists(
        st.dictionaries(
            st.sampled_from(["role", "content", "timestamp", "_x_synthetic"]),
            st.none() | st.floats() | PIECES | st.lists(st.dictionaries(st.sampled_from(["type", "text"]), PIECES | st.none())),
        ),
        max_size=5,
    )
)
def test_a_transcript_of_any_shape_is_read(messages: list[dict[str, Any]]) -> None:
    assert all(one.content.strip() and one.role in ("user", "assistant") for one in transcript_texts(messages))


def test_many_opened_blocks_cost_no_more_than_their_length() -> None:
    text = "<memory-context> " * 50_000
    assert strip_injected(text) == text
