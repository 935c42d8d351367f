"""Masking over texts made of secrets, their surroundings and noise."""

from __future__ import annotations

import json
import string

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.masking import mask, mask_value

NOISE = st.text(st.characters(exclude_categories=()), max_size=80)
PIECES = st.lists(
    st.sampled_from(
        ["password", "=", ":", " ", "\n", '"', "'", "`", "hunter2", "abc", "token", "[masked:password]", "https://", "u:p@h", "/", "@", ";", "&",
         "x=1", "sk-" + "a1" * 10, "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "is", "--",
         "Authorization:", "Bearer", "Cookie:", "a=b1c2d3", "api_key", "\\n", "\\", "[", "]", "}", ")", ".", "eyJhbGciOi.eyJzdWIi.x",
         "AKIAIOSFODNN7EXAMPLE", "for", "\u5bc6\u7801", "curl -u a:b", "secret", "_", "Tr0ub4dor&3", "{", "$X", "\ud83d", "\0", "\u0130"]
    ),
    max_size=12,
).map("".join)  # fmt: skip
LETTERS = st.text(string.ascii_letters + string.digits, min_size=12, max_size=40)
SECRETS = LETTERS.map(lambda run: "a" + run + "7Q")


@given(NOISE | PIECES)
def test_masking_twice_is_masking_once(text: str) -> None:
    once, notes = mask(text)
    assert mask(once) == (once, ())
    assert bool(notes) == (once != text)


@given(NOISE)
def test_a_text_without_notes_is_unchanged(text: str) -> None:
    masked, notes = mask(text)
    if not notes:
        assert masked == text


@given(SECRETS, st.sampled_from(["password={}", "Password: {}", '"api_key": "{}"', "TOKEN={}", "--secret {}", "postgres://u:{}@h.org/d",
                                 "Authorization: Bearer {}", "x_token: {}", "client-secret = '{}'"]), PIECES)  # fmt: skip
def test_a_random_secret_never_survives_its_name(secret: str, frame: str, around: str) -> None:
    assert secret not in mask("ok\n" + frame.format(secret) + "\n")[0]
    assert secret not in mask(f"{around}\n{frame.format(secret)}\n{around}")[0]


@given(
    st.recursive(
        PIECES | st.integers() | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3),
    )
)
def test_masked_values_keep_their_shape_and_are_stable(value: object) -> None:
    once, _ = mask_value(value)
    assert mask_value(once) == (once, ())
    assert type(once) is type(value) or isinstance(value, int)
    assert json.loads(json.dumps(once)) == once
    if isinstance(value, dict):
        assert len(once) == len(value)
