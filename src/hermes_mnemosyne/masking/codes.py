"""Numbers and codes that open something: PINs, one-time codes, recovery codes and phrases."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_mnemosyne.masking.found import MASK, MIN_PIN, Find
from hermes_mnemosyne.text import lazy

TRIGGERS = ("pin", "puk", "cvv", "cvc", "otp", "code", "c\u00f3digo", "\u9a8c\u8bc1\u7801", "\u8a8d\u8a3c\u30b3\u30fc\u30c9", "\uc778\uc99d\ubc88\ud638",
            "phrase", "mnemonic", "recovery", "bitlocker")  # fmt: skip
"""Parts of the names below, in lower case."""
ENDINGS = {
    **{
        pin: tuple(pin + suffix for suffix in ("", "s", "code", "number", "nummer"))
        for pin in ("pin", "puk", "cvv", "cvc", "otp")
    },
    "code": ("code", "codes", "coden"),
}
"""How a word ends that names a code."""
_OPENS = frozenset((
    "recovery", "backup", "scratch", "time", "onetime", "verification", "v\u00e9rification", "verificaci\u00f3n", "verifica\u00e7\u00e3o", "login", "in",
    "signin", "security", "access", "auth", "authentication", "authenticator", "authorization", "2fa", "mfa", "factor", "unlock",
    "entry", "door", "gate", "alarm", "lock", "safe", "keypad", "garage", "lockbox", "vault", "sms",
    "pairing", "emergency", "disarm", "card", "einmal", "zugangs", "sicherheits", "t\u00fcr", "tor", "tresor", "entsperr",
    "best\u00e4tigungs", "verifizierungs",
))  # fmt: skip
_TWO_WORDS = {"time": ("one",), "in": ("log", "sign"), "factor": ("two", "second", "multi")}
_OPENS_AFTER = lazy(
    r"[ ](?:de |d'|di |of )?(?:seguridad|seguran\u00e7a|acceso|acesso|verificaci\u00f3n|verifica\u00e7\u00e3o|v\u00e9rification|s\u00e9curit\u00e9|acc\u00e8s|verifica)"
)
_SAID = (
    r"[\"'*`)]{0,3}(?:[ \t](?:for|of|to|on|f\u00fcr|der|zur|zum|vom|de|del|du)[ \t][^\n:=.;,\"'0-9]{1,40}?)?"
    r"[ \t\u00a0]{0,3}(?P<sep>is|was|ist|war|lautet|est|es|[=:\uff1a\u2192]|->|[\u662f\u4e3a\u70ba\u306f\u304c\ub294\uc740])[ \t]{0,3}"
    r"[\"'*`\u201c]{0,3}"
)
_DIGITS = r"[A-Z]{0,2}-?[0-9](?:[ -]?[0-9]){2,11}(?![^\W_]|[.,:][0-9]|[ -][0-9])"
_GROUPS = r"[A-Za-z0-9]{4,8}(?:-[A-Za-z0-9]{3,8}){1,7}|[A-Za-z0-9]{6,16}"
_NUMBER = lazy(rf"(?:[ _-]?(?i:code|number|nummer))?{_SAID}(?P<value>{_DIGITS})")
_ALONE = lazy(r"[ \t](?P<value>[0-9]{4})(?![\w]|[.,:-][0-9]|[ \t]of\b)")
_CODE = lazy(rf"s?{_SAID}(?P<value>(?:{_DIGITS})|(?:{_GROUPS})(?![\w-]))")
_SENT_BEFORE = lazy(r" (?:[a-z]{1,20} )?(?:ruoy|nied|rhi|ertov|esu)\b")  # read from its end
_SENT = lazy(
    rf"(?:{_SAID}|[ ])(?P<value>[0-9]{{4,8}}|[0-9]{{3}}[ -][0-9]{{3}})(?=[.,;!]?(?:\s|\Z))(?![ ](?!to |for |is )[A-Za-z])"
)
_CODE_FIRST = lazy(rf"(?<![\w-])(?P<value>{_DIGITS}) (?:is|ist|est|es) [^.\n0-9]{{0,40}}\Z")
_LIST = lazy(r"(?:s|n)?\b[^\n:]{0,60}:?[ \t]*\r?\n")
_LISTED = lazy(
    r"[ \t>*+\u2022-]{0,8}(?:[0-9]{1,2}[.)][ \t]{1,4})?[`*]{0,3}(?P<value>[A-Za-z0-9]{3,12}(?:[ -][A-Za-z0-9]{3,12}){0,7})[`*]{0,3}[ \t]{0,8}(?:\r?\n|\Z)"
)
_PHRASE = lazy(
    r"[\"'*`)]{0,3}[ \t]{0,3}(?:is|are|ist|lautet|[=:])[ \t]{0,3}(?:\r?\n[ \t]{0,8})?[\"'`]{0,3}(?P<value>[a-z]{3,8}(?:(?:,[ ]?|[ \t]{1,2}|\r?\n)[a-z]{3,8}){11,23})\b"
)
_PHRASE_BEFORE = lazy(r"(?:seed|recovery|backup|mnemonic|secret|wallet)[ -]?\Z")
_BITLOCKER = lazy(r"(?<![0-9-])(?:[0-9]{6}-){7}[0-9]{6}(?![0-9-])")
_PINS = ("pin", "puk", "cvv", "cvc", "otp")
_WHOLE_NAMES = ("\u9a8c\u8bc1\u7801", "\u8a8d\u8a3c\u30b3\u30fc\u30c9", "\uc778\uc99d\ubc88\ud638")
_PHRASES = ("phrase", "mnemonic")
_BLOCKS = ("recovery", "bitlocker")
_FEWEST_DIGITS = {"cvv": 3, "cvc": 3}
_LONGEST_LIST = 32


def codes(text: str, lowered: str, triggers: frozenset[str]) -> list[Find]:
    """Return such codes; `lowered` is the text in lower case, place by place, `triggers` are those of TRIGGERS that it holds."""
    found: list[Find] = []
    for word in TRIGGERS:
        if word not in triggers or word in _BLOCKS:
            continue
        find = _numbers if word in _PINS else _phrases if word in _PHRASES else _coded
        start = lowered.find(word)
        while start >= 0:
            found += find(text, lowered, start, word)
            start = lowered.find(word, start + len(word))
    if not triggers.isdisjoint(_BLOCKS):
        found += [Find(match.start(), match.end(), "recovery-key") for match in _BITLOCKER().finditer(text)]
    return sorted(found, key=lambda find: find.start)


def _numbers(text: str, _: str, start: int, word: str) -> Iterator[Find]:
    end = start + len(word)
    if text[start - 1 : start].isalnum() and not (text[start].isupper() and text[start - 1].islower()):
        return
    match = _NUMBER().match(text, end)
    if match is None and text[start:end].isupper():
        match = _ALONE().match(text, end)
    if match and sum(character.isdigit() for character in match["value"]) >= _FEWEST_DIGITS.get(word, MIN_PIN):
        yield Find(*match.span("value"), "pin")


def _coded(text: str, lowered: str, start: int, word: str) -> Iterator[Find]:
    end = start + len(word)
    opens = word in _WHOLE_NAMES or _opens(lowered[max(0, start - 24) : start])
    if lowered.startswith(" ", end) and (after := _OPENS_AFTER().match(lowered, end)):
        opens, end = True, after.end()
    if not opens:
        if _SENT_BEFORE().match(lowered[max(0, start - 32) : start][::-1]) and (sent := _SENT().match(text, end)):
            yield Find(*sent.span("value"), "code")
        return
    match = _CODE().match(text, end)
    if match and any(character.isdigit() for character in match["value"]):
        yield Find(*match.span("value"), "code")
    elif first := _CODE_FIRST().search(text, max(0, start - 80), start):
        yield Find(*first.span("value"), "code")
    elif listed := _LIST().match(text, end):
        yield from _listed(text, listed.end())


def _opens(before: str) -> bool:
    """Tell whether the word before `code` says that the code opens something."""
    words = before.rstrip(" _-").removesuffix("pass").rstrip(" _-").replace("-", " ").replace("_", " ").rsplit(None, 2)[-2:]
    if not words or words[-1] not in _OPENS:
        return False
    return words[-1] not in _TWO_WORDS or words[0] in _TWO_WORDS[words[-1]]


def _listed(text: str, position: int) -> Iterator[Find]:
    """Yield the lines of a list of codes, up to the first line that is none."""
    found = []
    for _ in range(_LONGEST_LIST):
        match = _LISTED().match(text, position)
        if match is None or match.end() == position:
            break
        found.append(match)
        position = match.end()
    if sum(any(character.isdigit() for character in match["value"]) for match in found) * 2 > len(found):
        yield from (Find(*match.span("value"), "code") for match in found if any(c.isdigit() for c in match["value"]))


def _phrases(text: str, lowered: str, start: int, word: str) -> Iterator[Find]:
    if word == "mnemonic" or _PHRASE_BEFORE().search(lowered, max(0, start - 12), start):
        match = _PHRASE().match(text, start + len(word))
        if match and not MASK.search(match["value"]):
            yield Find(*match.span("value"), "recovery-phrase")
