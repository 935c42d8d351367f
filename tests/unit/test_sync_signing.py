"""Signed requests: the values are frozen, nothing can be changed, and a nonce is good once and not for long."""

from __future__ import annotations

import hashlib
import hmac
import threading
from dataclasses import replace
from typing import Any

import pytest

from hermes_mnemosyne.sync import signing
from hermes_mnemosyne.sync.signing import (
    Nonces,
    Signed,
    authorization,
    body_digest,
    challenge,
    derive,
    hkdf,
    key_id,
    nonce_of,
    parse_authorization,
    sign,
    sign_answer,
    verify,
    verify_answer,
)

KEY = "test-key"
REQUEST = ("POST", "/v1/changes?replica=r1&mark=", body_digest(b'{"a":1}'))
NONCE = "00ff" * 17


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def signed(key: str = KEY, nonce: str = NONCE) -> Signed:
    found = parse_authorization(authorization(key, *REQUEST, nonce))
    assert found is not None
    return found


# -- frozen values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "salt", "info", "length", "output"),
    [
        (
            "0b" * 22,
            "000102030405060708090a0b0c",
            "f0f1f2f3f4f5f6f7f8f9",
            42,
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            bytes(range(0x50)).hex(),
            bytes(range(0x60, 0xB0)).hex(),
            bytes(range(0xB0, 0x100)).hex(),
            82,
            (
                "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
                "cc30c58179ec3e87c14c01d5c1f3434f1d87"
            ),
        ),
        (
            "0b" * 22,
            "",
            "",
            42,
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ],
)
def test_keys_are_derived_as_the_rfc_says(key: str, salt: str, info: str, length: int, output: str) -> None:
    assert hkdf(bytes.fromhex(key), salt=bytes.fromhex(salt), info=bytes.fromhex(info), length=length).hex() == output


def test_ids_and_signatures_are_frozen_and_what_the_protocol_says() -> None:
    assert key_id(KEY) == hashlib.sha256(b"mnemosyne key id\x00test-key").hexdigest()[:16] == "a2c37bfb576e913a"
    keys = derive(KEY)
    message = f"{REQUEST[0]}\n{REQUEST[1]}\n{REQUEST[2]}\n{NONCE}\n".encode()
    assert (
        sign(KEY, *REQUEST, NONCE)
        == hmac.new(keys.request, message, hashlib.sha256).hexdigest()
        == "f1fe05bbb7a7e821e5e8468fba9ea8ccd761c4d372b027d1e32cc074d57c6fa9"
    )
    message = f"200\n{REQUEST[2]}\n{NONCE}\n".encode()
    assert (
        sign_answer(KEY, 200, REQUEST[2], NONCE)
        == hmac.new(keys.answer, message, hashlib.sha256).hexdigest()
        == "432b28939ef17421af96437375a2d21e8708a376961d55c66032e59f9b2e23ba"
    )
    assert keys.request != keys.answer


def test_derived_keys_sign_as_the_key_and_are_not_shown() -> None:
    keys = derive(KEY)
    assert sign(keys, *REQUEST, NONCE) == sign(KEY, *REQUEST, NONCE)
    assert sign_answer(keys, 200, REQUEST[2], NONCE) == sign_answer(KEY, 200, REQUEST[2], NONCE)
    assert keys.request.hex() not in repr(keys)
    assert repr(keys.request) not in repr(keys)


# -- what a signature covers -----------------------------------------------------------------------------------------------------


def test_a_signed_request_is_known_by_its_key() -> None:
    assert verify(KEY, signed(), *REQUEST)
    assert verify(derive(KEY), signed(), *REQUEST)
    assert signed().key_id == key_id(KEY)


@pytest.mark.parametrize(
    "changed",
    [
        ("GET", *REQUEST[1:]),
        ("post", *REQUEST[1:]),
        (REQUEST[0], "/v1/rows", REQUEST[2]),
        (REQUEST[0], REQUEST[1] + "x", REQUEST[2]),
        (REQUEST[0], REQUEST[1].partition("?")[0], REQUEST[2]),
        (*REQUEST[:2], body_digest(b"")),
    ],
)
def test_whatever_is_changed_breaks_the_signature(changed: tuple[str, str, str]) -> None:
    assert not verify(KEY, signed(), *changed)


def test_another_nonce_key_or_signature_is_refused() -> None:
    right = signed()
    assert not verify(KEY, replace(right, nonce=NONCE[::-1]), *REQUEST)
    assert not verify("another", right, *REQUEST)
    assert not verify(KEY + "\n", right, *REQUEST)
    for wrong in ("", right.signature[:-1], right.signature + "0", "0" * 64, "\u00e9" * 64, "\ud800"):
        assert not verify(KEY, replace(right, signature=wrong), *REQUEST)


def test_the_signature_of_a_request_is_none_of_an_answer() -> None:
    digest = body_digest(b"")
    answer = sign_answer(KEY, 200, digest, NONCE)
    assert verify_answer(KEY, answer, 200, digest, NONCE)
    for wrong in (
        ("other", answer, 200, digest, NONCE),
        (KEY, answer, 409, digest, NONCE),
        (KEY, answer, 200, body_digest(b"x"), NONCE),
        (KEY, answer, 200, digest, NONCE[::-1]),
        (KEY, sign(KEY, "GET", "/", digest, NONCE), 200, digest, NONCE),
        (KEY, "", 200, digest, NONCE),
        (KEY, "\u00e9", 200, digest, NONCE),
    ):
        assert not verify_answer(*wrong)


def test_an_unknown_key_costs_the_same_comparison_and_is_never_right(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counted(left: Any, right: Any) -> bool:
        compared.append((len(left), len(right)))
        return compare(left, right)

    monkeypatch.setattr(signing.hmac, "compare_digest", counted)
    assert verify(KEY, signed(), *REQUEST)
    assert not verify(KEY, signed("wrong"), *REQUEST)
    assert not verify(None, signed(), *REQUEST)
    assert compared == [(64, 64)] * 3


def test_a_key_of_any_text_signs() -> None:
    for key in ("", "\u732b", "\ud800", "a" * 10_000, "with blank"):
        assert verify(key, signed(key), *REQUEST)


# -- headers ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer key",
        "Mnemosyne",
        'Mnemosyne key="0123456789abcdef"',
        'Mnemosyne key="0123456789abcdef",nonce="n"',
        f'Mnemosyne key="0123",nonce="n",signature="{"0" * 64}"',
        f'Mnemosyne key="0123456789abcdef",nonce="n",signature="{"0" * 63}"',
        f'Mnemosyne key="0123456789abcdef",nonce="",signature="{"0" * 64}"',
        f'Mnemosyne key="0123456789abcdef",nonce="{"n" * 257}",signature="{"0" * 64}"',
        f'Mnemosyne key="0123456789abcdef",nonce="a\nb",signature="{"0" * 64}"',
        f'Mnemosyne key="0123456789abcdef",nonce="\u00e9",signature="{"0" * 64}"',
        f'Mnemosyne key="0123456789abcdef",nonce="n",signature="{"0" * 64}",more="x"',
        f'Mnemosyne key="0123456789abcdef",nonce="n",signature="{"0" * 64}"\n',
        f'Bearer x, Mnemosyne key="0123456789abcdef",nonce="n",signature="{"0" * 64}"',
    ],
)
def test_a_header_that_is_none_of_a_signed_request_is_told_apart(header: str) -> None:
    assert parse_authorization(header) is None


def test_headers_are_read_in_any_case_and_with_blanks() -> None:
    header = authorization(KEY, *REQUEST, NONCE)
    expected = Signed(key_id(KEY), NONCE, sign(KEY, *REQUEST, NONCE))
    assert parse_authorization(header) == expected
    assert parse_authorization(header.replace(",", " , ").replace("Mnemosyne ", "mnemosyne   ")) == expected


@pytest.mark.parametrize(
    ("header", "nonce"),
    [
        (challenge(NONCE), NONCE),
        (f'Bearer realm="mnemosyne", {challenge(NONCE)}', NONCE),
        (f"{challenge(NONCE)}, Bearer", NONCE),
        (challenge(NONCE).lower(), NONCE),
        ("", None),
        ("Bearer", None),
        ('Mnemosyne nonce=""', None),
        ('Mnemosyne nonce="two words"', None),
        ('NotMnemosyne nonce="n"', None),
    ],
)
def test_the_nonce_of_a_challenge_is_found_beside_other_schemes(header: str, nonce: str | None) -> None:
    assert nonce_of(header) == nonce


# -- nonces ----------------------------------------------------------------------------------------------------------------------


def test_a_nonce_is_taken_once() -> None:
    nonces = Nonces()
    first, second = nonces.issue(), nonces.issue()
    assert first != second
    assert nonces.take(first)
    assert not nonces.take(first)
    assert nonces.take(second)
    assert nonce_of(challenge(first)) == first


def test_a_nonce_lives_five_minutes_and_no_longer() -> None:
    clock = Clock()
    nonces = Nonces(clock=clock)
    early, late = nonces.issue(), nonces.issue()
    clock.now += 300
    assert nonces.take(early)
    clock.now += 0.01
    assert not nonces.take(late)
    assert not nonces.take(early)


@pytest.mark.parametrize("nonce", ["", "00", "0" * 68, "0" * 69, "g" * 68, "\u0660" * 68, "\ud800", "0" * 100_000])
def test_what_was_never_issued_is_refused(nonce: str) -> None:
    assert not Nonces().take(nonce)


def test_a_nonce_with_any_digit_changed_or_in_another_spelling_is_refused() -> None:
    nonces = Nonces()
    nonce = nonces.issue()
    for place in range(len(nonce)):
        assert not nonces.take(nonce[:place] + ("0" if nonce[place] != "0" else "1") + nonce[place + 1 :])
    assert nonces.take(nonce)
    assert not nonces.take(nonce.upper())
    assert not nonces.take(nonce + "\n")


def test_nonces_of_a_server_that_was_restarted_are_refused() -> None:
    assert not Nonces().take(Nonces().issue())


def test_a_flood_of_strangers_takes_no_memory_and_no_nonce_away() -> None:
    nonces = Nonces(taken=2)
    mine = nonces.issue()
    for _ in range(5000):
        nonces.issue()
    assert nonces.take(mine)


def test_what_is_kept_of_taken_nonces_is_bounded_and_goes_with_time() -> None:
    clock = Clock()
    nonces = Nonces(taken=3, clock=clock)
    taken = [nonces.issue() for _ in range(3)]
    assert all(map(nonces.take, taken))
    assert not nonces.take(nonces.issue())
    clock.now += 301
    assert nonces.take(nonces.issue())
    assert not any(map(nonces.take, taken))


def test_of_many_threads_one_takes_a_nonce() -> None:
    nonces = Nonces()
    nonce, start, won = nonces.issue(), threading.Barrier(16), []

    def take() -> None:
        start.wait()
        won.append(nonces.take(nonce))

    threads = [threading.Thread(target=take) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 15 + [True]
