"""Masking: secrets are replaced before text is stored.

A secret becomes `[masked:kind]`; what names it (the key, the user, the host) stays, so that the memory keeps its meaning. The work
is linear in the length of the text: cheap substring checks over its unfamiliar words decide which expressions run at all, and no
expression can start twice inside one run of its own characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hermes_mnemosyne.masking.assignments import assignments
from hermes_mnemosyne.masking.codes import ENDINGS as CODE_ENDINGS
from hermes_mnemosyne.masking.codes import TRIGGERS as CODE_TRIGGERS
from hermes_mnemosyne.masking.codes import codes
from hermes_mnemosyne.masking.commands import COMMANDS, commands
from hermes_mnemosyne.masking.familiar import Familiar, lowered
from hermes_mnemosyne.masking.found import MASK, MIN_PIN, Find, placeholder
from hermes_mnemosyne.masking.names import ENDINGS, NAMED_PIN, NAMES, names_secret
from hermes_mnemosyne.masking.shapes import LONGEST_TOKEN_WORD, SHAPES, discord_tokens
from hermes_mnemosyne.masking.tokens import SHORTEST_TOKEN, key_blocks, tokens_in

__all__ = ["mask", "mask_value", "names_secret"]

_MAX_PASSES = 10
_GATES = frozenset(command.gate for command in COMMANDS)
_FAMILIAR = Familiar(
    (*(trigger for trigger, _ in SHAPES), *_GATES, *NAMES, *CODE_TRIGGERS, "private"), {**ENDINGS, **CODE_ENDINGS}, SHORTEST_TOKEN
)


def mask(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` with its secrets replaced, and one note `masked:<kind>` per kind found. Masking twice changes nothing more.

    Found are keys and tokens of known services, JSON web tokens, private-key blocks (also cut ones), passwords in URLs and
    connection strings, authorization and cookie headers, values given to names such as `password`, `token` or `api_key` in many
    languages, also in markup, tables and lists, passwords in commands, PINs, one-time codes, recovery codes and phrases.
    """
    notes: list[str] = []
    for _ in range(_MAX_PASSES):
        before = text
        text = _masked(text, notes)
        # What a mask leaves beside itself can be a secret in its own right.
        if text == before:
            break
    return text, tuple(dict.fromkeys(notes))


def _masked(text: str, notes: list[str]) -> str:
    words, triggers = _FAMILIAR.unfamiliar(text)
    if not words:
        return text
    before = len(notes)
    if "private" in triggers:
        text = _replace(text, key_blocks(text), notes)
    # Of ordinary text only the long words can hold a token; looking for each beginning in those few is what keeps this cheap.
    if long := " ".join([word for word in words if len(word) >= SHORTEST_TOKEN]):
        for token in tokens_in(long):
            text = _replace(text, token.find(text), notes)
        if len(long) > LONGEST_TOKEN_WORD and any(len(word) > LONGEST_TOKEN_WORD and "." in word for word in words):
            text = _replace(text, discord_tokens(text), notes)
    if triggers:
        text = _named(text, triggers, notes)
    if len(notes) == before:
        _FAMILIAR.learn(words, triggers)
    return text


def _named(text: str, triggers: frozenset[str], notes: list[str]) -> str:
    """Replace secrets that are known by what stands around them."""
    for trigger, find in SHAPES:
        if trigger in triggers:
            text = _replace(text, find(text), notes)
    low = lowered(text)
    if not triggers.isdisjoint(_GATES) and (found := commands(text, low, triggers)):
        text = _replace(text, found, notes)
        low = lowered(text)
    if not triggers.isdisjoint(CODE_TRIGGERS) and (found := codes(text, low, triggers)):
        text = _replace(text, found, notes)
        low = lowered(text)
    if parts := [part for part in NAMES if part in triggers]:
        text = _replace(text, assignments(text, low, parts), notes)
    return text


def mask_value(value: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a JSON value with the secrets of its texts and keys replaced, and notes as `mask` gives them.

    What stands under a key whose name says that it is secret is replaced as a whole, except booleans and null.
    """
    notes: list[str] = []
    return _masked_value(value, notes, secret=False), tuple(dict.fromkeys(notes))


def _masked_value(value: Any, notes: list[str], *, secret: bool) -> Any:
    if isinstance(value, str):
        if secret and value.strip() and not placeholder(value.strip()):
            notes.append("masked:secret")
            return "[masked:secret]"
        masked, found = mask(value)
        notes.extend(found)
        return masked
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, item in value.items():
            name, found = mask(str(key))
            notes.extend(found)
            while name in result:
                name += "+"
            hidden = secret or names_secret(str(key)) or (_is_long_number(item) and NAMED_PIN().search(str(key)) is not None)
            result[name] = _masked_value(item, notes, secret=hidden)
        return result
    if isinstance(value, list | tuple):
        return [_masked_value(item, notes, secret=secret) for item in value]
    if secret and isinstance(value, int | float) and not isinstance(value, bool):
        notes.append("masked:secret")
        return "[masked:secret]"
    return value


def _is_long_number(value: Any) -> bool:
    return len(str(value)) >= MIN_PIN and str(value).isdigit() if isinstance(value, str | int) else False


def _replace(text: str, found: Iterable[Find], notes: list[str]) -> str:
    """Put masks in place of what was found; an older mask is never cut, only swallowed whole or left alone."""
    masks = [match.span() for match in MASK.finditer(text)] if "[masked:" in text else []
    pieces, position, near = [], 0, 0
    for find in found:
        while near < len(masks) and masks[near][1] <= find.start:
            near += 1
        if find.start < position or (near < len(masks) and masks[near][0] <= find.start):
            continue
        end = max([find.end, *(stop for start, stop in masks[near : near + 64] if start < find.end)])
        pieces += [text[position : find.start], f"[masked:{find.kind}]"]
        notes.append(f"masked:{find.kind}")
        position = end
    if not pieces:
        return text
    return "".join(pieces) + text[position:]
