"""What a finder reports, and what a value must look like to be a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes_mnemosyne.text import lazy

MASK = re.compile(r"\[masked:[a-z0-9-]+\]")
_HOLLOW = lazy(
    r"[*\u2022xX.#_\u2026-]{2,}|[$%]?\(.*\)s?|[$%@]?[A-Za-z_]*\{.*\}|<.*>|\[.*\]|%(?:[sr]|[A-Z_]+%)"
    r"|\$(?:[A-Z_][A-Z0-9_]*|[a-z_]*(?:pass|pwd|secret|token|key)[a-z_]*)",
    re.DOTALL,
)
_DIGIT = lazy(r"\d")
_SIGN = lazy(r"[^\w.,:;/()-]")
_HOLLOW_WORDS = (
    "none null nil undefined true false yes no empty unset required optional missing invalid wrong unknown hidden redacted masked "
    "removed str string text int bool bytes any optional[str] changed expired reset rotated stored saved encrypted hashed here "
    "there below above the a an it this that never always not only is was to in on for of and or with from by per ask see use "
    "password passwd secret token key value changeme todo tbd n/a"
)
_LABEL_WORDS = (
    "ok okay pass passed fail failed success varchar char integer number boolean object array date uuid plaintext hash prompt input "
    "field login user username role name email description type default example placeholder same pw auth"
)
_HOLLOWS = frozenset(_HOLLOW_WORDS.split())
_LABELS = frozenset(_LABEL_WORDS.split())
_MIN_STRONG, MIN_PIN, _MIN_OPAQUE, _LONG = 6, 4, 8, 24
_LOOKED_AT = 128


@dataclass(frozen=True, slots=True)
class Find:
    """A secret at `start` to `end` of a text."""

    start: int
    end: int
    kind: str


def placeholder(value: str) -> bool:
    """Tell whether a value only stands for a secret: masked already, starred out, a variable, an empty word."""
    return MASK.match(value) is not None or _HOLLOW().fullmatch(value) is not None or value.lower() in _HOLLOWS


def label(value: str) -> bool:
    """Tell whether a value beside a name in a table, or after a name of many meanings, is a heading, a type or a result."""
    return placeholder(value) or value.lower() in _LABELS


def classes(value: str) -> tuple[bool, bool, bool, bool]:
    """Tell whether a value holds lower-case letters, upper-case letters, digits, and signs that are rare inside words."""
    value = value[:_LOOKED_AT]
    return (
        value != value.upper(),
        value != value.lower(),
        _DIGIT().search(value) is not None,
        _SIGN().search(value) is not None,
    )


def strong(value: str) -> bool:
    """Tell whether a bare value looks chosen at random or against guessing: letters with digits, or many kinds of characters."""
    lower, upper, digit, special = classes(value)
    return len(value) >= _MIN_STRONG and (((lower or upper) and digit) or (lower + upper + digit + special >= 3))  # noqa: PLR2004


def opaque(value: str) -> bool:
    """Tell whether a value reads like a credential of a header and not like a word."""
    lower, upper, digit, _ = classes(value)
    return len(value) >= _MIN_OPAQUE and (digit or (lower and upper) or len(value) >= _LONG)
