"""Masking over texts made of secrets, their surroundings and noise."""

from __future__ import annotations

import json
import string
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.masking import mask, mask_value

NOISE = st.text(st.characters(exclude_categories=()), max_size=80)
PIECES = st.lists(
    st.sampled_from(
        ["password", "=", ":", " ", "\n", '"', "'", "`", "hunter2", "abc", "token", "[masked:password]", "https://", "u:p@h", "/", "@", ";", "&",
         "x=1", "sk-" + "a1" * 10, "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "is", "--",
         "Authorization:", "Bearer", "Cookie:", "a=b1c2d3", "api_key", "\\n", "\\", "[", "]", "}", ")", ".", "eyJhbGciOi.eyJzdWIi.x",
         "AKIAIOSFODNN7EXAMPLE", "for", "\u5bc6\u7801", "curl -u a:b", "secret", "_", "Tr0ub4dor&3", "{", "$X", "\ud83d", "\0", "\u0130",
         "|", "| password | x7Yz12 |", "|---|---|", "<password>", "</password>", "<td>", "</td>", "pass", "pw", "pin", "PIN", "4711", "recovery codes:\n",
         "ab12-cd34", "sshpass -p ", "mysql -px", "machine h login u password ", "name: db_password", "value: x", "user,password\nb,c", "- ", "to", "set "]
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


NAMES = ["password", "passphrase", "passcode", "passwd", "Passwort", "Kennwort", "pwd", "pw", "mot de passe", "mdp", "contrase\u00f1a", "senha",
         "palavra-passe", "wachtwoord", "adgangskode", "passord", "l\u00f6senord", "salasana", "has\u0142o", "heslo", "geslo", "jelsz\u00f3", "parol\u0103",
         "\u015fifre", "parola", "\u043f\u0430\u0440\u043e\u043b\u044c", "lozinka", "\u03ba\u03c9\u03b4\u03b9\u03ba\u03cc\u03c2", "\u05e1\u05d9\u05e1\u05de\u05d4",
         "\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631", "\u092a\u093e\u0938\u0935\u0930\u094d\u0921", "\u0e23\u0e2b\u0e31\u0e2a\u0e1c\u0e48\u0e32\u0e19", "m\u1eadt kh\u1ea9u",
         "kata sandi", "\u5bc6\u7801", "\u5bc6\u78bc", "\u30d1\u30b9\u30ef\u30fc\u30c9", "\ube44\ubc00\ubc88\ud638", "API-Schl\u00fcssel", "api key",
         "client secret", "creds"]  # fmt: skip
CASES = st.sampled_from([str, str.upper, str.title])


@given(
    st.sampled_from(NAMES),
    CASES,
    SECRETS,
    st.sampled_from(["{}: {}", "{} = {}", "{}={}", "{}\uff1a{}", "{} : {}\n", "- {}: '{}'", "({}: {})"]),
)
def test_a_secret_is_masked_under_its_name_in_any_language(
    name: str, case: Callable[[str], str], secret: str, frame: str
) -> None:
    # What was learned from a text without a secret hides nothing in the next one.
    mask(f"we talked about the {case(name)} and about {case(name)}, too")
    assert secret not in mask(frame.format(case(name), secret))[0]


@given(NOISE | PIECES, NOISE | PIECES)
def test_masking_does_not_depend_on_what_was_masked_before(first: str, second: str) -> None:
    before = mask(second)
    mask(first)
    assert mask(second) == before


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
