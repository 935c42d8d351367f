"""Secrets that are known by the name they are given to: `password=`, `"token": "..."`, `--api-key`, `the password is`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes_mnemosyne.masking.found import MASK, MIN_PIN, Find, classes, placeholder, strong
from hermes_mnemosyne.text import lazy

_FOREIGN = (
    "contrase\u00f1a",
    "\u043f\u0430\u0440\u043e\u043b\u044c",
    "\u5bc6\u7801",
    "\u5bc6\u78bc",
    "\u30d1\u30b9\u30ef\u30fc\u30c9",
    "\ube44\ubc00\ubc88\ud638",
    "has\u0142o",
    "l\u00f6senord",
    "jelsz\u00f3",
    "\u015fifre",
    "parol\u0103",
    "\u043f\u0430\u0440\u043e\u043b\u0430",
)
_LATIN = ("senha", "wachtwoord", "adgangskode", "heslo", "salasana", "parola")
_PASSWORDS = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "_pass",
    "passwort",
    "kennwort",
    "mot de passe",
    *_LATIN,
    *_FOREIGN,
)
_TRIGGERS = (*_PASSWORDS, "secret", "token", "key", "credential")
_PARTS = (
    "pass",
    "pwd",
    "kennwort",
    "secret",
    "token",
    "key",
    "credential",
    *_LATIN,
)  # one of them is part of every ASCII trigger
_KEY_BEFORE = lazy(
    r"(?:api|access|secret|private|signing|encryption|auth|account|master|shared|service|license|licence|storage|admin|webhook)[ _.-]?\Z"
)
_AFTER = lazy(
    r"(?:[ _-]?(?:value|base|text)|[0-9]{1,3})?(?![A-Za-z0-9_])\\{0,3}[\"'`\]*)]{0,4}"
    r"(?:[ \t]{1,3}(?:for|of|to|on|at)[ \t][^\n:=.;,\"']{1,60}?)?"
    r"[ \t]{0,8}(?P<sep>:?={1,3}>?|->|[:\uff1a\u2192]|(?<=[ \t])(?:is|was|ist|lautet|est|es)(?=[ \t])|[\u662f\u4e3a\u70ba][:\uff1a]?)"
    r"(?P<gap>[ \t]{0,8}\n[ \t]{1,8}|[ \t*_]{0,8})"
    r"(?P<quote>\\{0,3}[\"'`])?"
)
_BESIDE = lazy(r"(?P<sep>)(?P<gap>[ \t]{1,4})(?P<quote>[\"'`])?(?=\S)")
_AFTER_FLAG = lazy(r"(?P<sep>[ \t]{1,4}|=)(?P<gap>)(?P<quote>[\"'])?(?!-)(?=\S)")
_FLAG_BEFORE = lazy(r"(?:^|\s)--?[a-z0-9-]{0,40}\Z")
_BARE = lazy(r"[^\s\"'`]{1,2048}")
_SAID = frozenset(("is", "was", "ist", "lautet", "est", "es", ""))
_NEXT_PAIR = lazy(r"[;&,](?=[\w.-]{1,64}[=:])|;\Z")
_SECRET_NAME = lazy(
    r"(?i)(?:pass(?:word|wd|phrase|code|wort)?|pwd|kennwort|contrase\u00f1a|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u5bc6\u78bc|secret|"
    r"token|credentials?|authorization|cookies?|(?:api|access|secret|private|signing|encryption|auth|account|master|shared)[ _.-]?key)"
    r"s?(?:[ _.-]?(?:value|base|text|hash|plain))?[0-9]{0,3}\s*\Z"
)
_COUNTED = r"(?i)(?:max|min|num|total|prompt|completion|input|output|count|by|per|new)[ _.-]?"
_NOT_SECRET_NAME = lazy(_COUNTED + r"tokens?\s*\Z")
_COUNTED_BEFORE = lazy(_COUNTED + r"\Z")
_CALL = lazy(
    r"[A-Za-z_][A-Za-z_.]*[(\[](?:\Z|.*[)\],]\Z)|(?:self|this|cls|config|conf|settings|env|process|os|options|opts|args|ctx|request|secrets|vault|var)"
    r"\.[A-Za-z_.]+\Z|(?:env|vault|secret|file):",
    re.DOTALL,
)


def may_name(lowered: str) -> bool:
    """Tell quickly whether a lower-case text may hold a name that `assignments` knows."""
    if any(part in lowered for part in _PARTS):
        return True
    return not lowered.isascii() and any(word in lowered for word in _FOREIGN)


def assignments(text: str, lowered: str) -> Iterator[Find]:
    """Yield the values in `text` that are given to a secret name; `lowered` is the text in lower case, place by place."""
    done = 0
    for start, end, is_password in _keywords(lowered):
        if start < done:
            continue
        flag = _FLAG_BEFORE().search(lowered, max(0, start - 44), start) is not None
        match = (flag and _AFTER_FLAG().match(text, end)) or _AFTER().match(text, end) or _BESIDE().match(text, end)
        if not match:
            continue
        compound = start > 0 and (
            text[start - 1] in "_-." or (text[start - 1].isalnum() and text[start].isupper()) or text[start] == "_"
        )
        span = _quoted(text, match, is_password=is_password) if match["quote"] else None
        if span is None:
            span = _bare(text, match, is_password=is_password, compound=compound)
        if span is not None:
            done = span[1]
            yield Find(*span, "password" if is_password else "secret")


def _keywords(lowered: str) -> list[tuple[int, int, bool]]:
    """Return (start, end, is a password) of every word that may name a secret, by place, the longest of each end only."""
    found = []
    for word in _TRIGGERS:
        start = lowered.find(word)
        while start >= 0:
            named = word != "key" or _KEY_BEFORE().search(lowered, max(0, start - 12), start)
            counted = word == "token" and _COUNTED_BEFORE().search(lowered, max(0, start - 12), start)
            if named and not counted:
                found.append((start, start + len(word), word in _PASSWORDS))
            start = lowered.find(word, start + len(word))
    found.sort()
    return found


def _quoted(text: str, match: re.Match[str], *, is_password: bool) -> tuple[int, int] | None:
    quote, start = match["quote"], match.end()
    limit = min(len(text), start + 2048)
    end = text.find(quote, start, limit)
    while end > start and len(quote) == 1 and text[end - 1] == "\\":
        end = text.find(quote, end + 1, limit)
    if end <= start or "\n" in text[start:end]:
        return None
    value = text[start:end].strip()
    said = match["sep"] in _SAID
    if not value or placeholder(value) or (said and not strong(value) and (not is_password or not match["sep"])):
        return None
    # A sentence in quotes is a description, unless it is a pass phrase.
    if not is_password and " " in value and not strong(value.split()[0]):
        return None
    return start, end


def _bare(text: str, match: re.Match[str], *, is_password: bool, compound: bool) -> tuple[int, int] | None:
    start = match.end()
    run = _BARE().match(text, start)
    if run is None:
        return None
    value = _NEXT_PAIR().split(run.group(), maxsplit=1)[0]
    if MASK.match(value):
        return None
    if placeholder(value) or _CALL().match(value):
        return None
    value = value.rstrip(".,;:!?)]}>*_`")
    if not value or placeholder(value):
        return None
    word = match["sep"].strip()
    rest = text[start + len(value) : start + len(value) + 2]
    last = not rest or rest[0] in "\r\n,;)}]&\"'`" or (rest[0] in ".!?*" and rest[1:2] in {"", "\n", " "})
    if match["sep"] in _SAID or "\n" in match["gap"]:
        kinds = sum(classes(value))
        wanted = strong(value) and "-" not in value and (kinds >= 3 or last)  # noqa: PLR2004 - of four kinds of characters
    elif "=" in word and not match["gap"]:
        wanted = not _refers(value)
    elif not word:
        wanted = last or strong(value) or is_password
    else:
        pin = is_password and value.isdigit() and len(value) >= MIN_PIN
        wanted = strong(value) or pin or (last and (is_password or compound) and not _refers(value))
    return (start, start + len(value)) if wanted else None


def _refers(value: str) -> bool:
    """Tell whether a bare value is the name of a variable that holds the secret, as in `token=access_token`."""
    return value.isidentifier() and "_" in value and names_secret(value)


def names_secret(name: str) -> bool:
    """Tell whether a key of this name holds a secret, such as `db_password`, `apiKey` or `X-Auth-Token`."""
    return _SECRET_NAME().search(name) is not None and _NOT_SECRET_NAME().search(name) is None
