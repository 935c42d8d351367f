"""Secrets that are known by the name they are given to: `password=`, `"token": "..."`, `--api-key`, `the password is`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hermes_mnemosyne.masking.found import MASK, MIN_PIN, Find, classes, label, placeholder, strong
from hermes_mnemosyne.masking.laid_out import Layout
from hermes_mnemosyne.masking.names import Name, names_secret, places
from hermes_mnemosyne.text import lazy

_SPACE = "[ \t\u00a0\u202f]"
_SAYING = "is|was|be|are|ist|war|lautet|sei|est|es|\u00e9|\u00e8|era|\u00e4r|er|jest|je|to|auf"
_PLURALS = ("passwords", "passphrases", "secrets", "tokens")
_QUOTES = "\"\"\"|'''|[\"'`\u201c\u201d\u201e\u00ab\u2018\u300c]"
_AFTER = lazy(
    r"(?:[ _-]?(?:value|base|text)|(?:e?[sn]|E?[SN])(?![a-z])|[0-9]{1,3})?(?![A-Za-z0-9_])\\{0,3}[\"'`\]*)}]{0,4}"
    r"(?: \([^()\n]{1,40}\))?"
    r"(?:[ \t]{1,3}(?:for|of|to|on|at|f\u00fcr|fuer|zu|zum|zur|vom|der|de|del|du|da|do|pour|para|per|voor|till|f\u00f6r)[ \t][^\n:=.;,\"']{1,60}?)?"
    rf"{_SPACE}{{0,8}}(?P<sep>:[ \t]?(?:&?str|[Ss]tring)(?:[ \t]?\|[ \t]?None)?[ \t]?=|:?={{1,3}}>?|->|=>|[:\uff1a\u2192]|\((?=[\"'])"
    rf"|(?<={_SPACE})(?:{_SAYING}|[\u2013\u2014-])(?={_SPACE})|(?:[\u662f\u4e3a\u70ba\u306f\u304c]|[\ub294\uc740](?= ))[:\uff1a]?)"
    rf"(?P<gap>[ \t]{{0,8}}(?:[|>][+-]?)?[ \t]{{0,8}}\n[ \t]{{1,40}}|(?:{_SPACE}|[*_]){{0,8}}(?:<(?:b|code|em|i|kbd|pre|samp|span|strong|tt|u)\b[^<>\n]{{0,80}}>){{0,3}})"
    rf"(?P<quote>\\{{0,3}}(?:[bru](?=[\"']))?(?:{_QUOTES}))?"
)
_BESIDE = lazy(r"(?P<sep>)(?P<gap>[ \t]{1,4})(?P<quote>[\"'`])?(?=\S)")
_AFTER_FLAG = lazy(r"(?P<sep>[ \t]{1,4}|=)(?P<gap>)(?P<quote>[\"'])?(?!-)(?=\S)")
_FLAG_BEFORE = lazy(r"(?:^|\s)--?[a-z0-9-]{0,40}\Z")
_BARE = lazy(r"[^\s\"'`]{1,2048}")
_SHORT = lazy(r"[^\s\"'`]{1,128}(?![^\s\"'`])")
_SAID = frozenset(("", "\u2013", "\u2014", "-", *_SAYING.split("|")))
_SET_TO = frozenset(("to", "auf"))
_ONE_WORD = lazy(r"[^\s\\][^\s]*\Z")
_EXPRESSION = lazy(r"[-(\[{<]|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_POLISH = ("has\u0142o", "haslo")
_SETTING = lazy(r"\b(?:set|chang|reset|updat|switch|turn|(?:ge)?setz|\u00e4nder|stell)")
_NEXT_PAIR = lazy(r"[;&,](?=[\w.-]{1,64}[=:])|;\Z|</|<br|\|\Z|(?<=[!-~])[\u3000-\u9fff\uac00-\ud7a3\uff00-\uff0f]")
_PAIR_SIGNS = frozenset(";&,<")
_CLOSING = {"\u201c": "\u201d", "\u201e": "\u201c", "\u00ab": "\u00bb", "\u2018": "\u2019", "\u300c": "\u300d"}
_LOGIN = lazy(
    r"\b(?:user(?:name)?|login|log-in|e-?mail|account|konto|benutzer|wi-?fi|wlan|ssid|ssh|s?ftp|root|admin|usr|creds?|credentials)\b"
)
_HEAD = lazy(r"(?:\A|[\n,;|/(\u2022])[ \t>*_+\"'`-]{0,8}\Z")
_RESULT = lazy(r"\b(?:x?fail|skip|test|error|warn|total)")
_ITEM = lazy(
    r"\s{0,40}(?:(?P<quote>[\"'])(?P<value>[^\"'\n]{1,512})(?P=quote)\s{0,4},?|- (?P<line>[^\s\"'][^\"'\n:]{0,256})(?=\n|\Z))"
)
_CALL = lazy(
    r"[A-Za-z_][A-Za-z_.]*[(\[](?:\Z|.*[)\],]\Z)|(?:self|this|cls|config|conf|settings|env|process|os|options|opts|args|ctx|request|secrets|vault|var)"
    r"\.[A-Za-z_.]+\Z|(?:env|vault|secret|file):",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Given:
    """What an assignment is about: its name, where it stands, and whether it is a part of a longer name such as `db_password`."""

    name: Name
    start: int
    compound: bool


def assignments(text: str, lowered: str, parts: Sequence[str]) -> Iterator[Find]:
    """Yield the values in `text` that are given to a secret name.

    `lowered` is the text in lower case, place by place; `parts` are the keys of NAMES that it holds.
    """
    layout = Layout(text)
    done = 0
    for start, end, name in places(lowered, parts):
        if start < done:
            continue
        kind = "password" if name.is_password else "secret"
        spans = [] if name.weak and text[end : end + 1] == "(" else list(_values(text, lowered, (start, end), name))
        for span in spans or layout.values(start, end, is_password=name.is_password):
            if span[0] >= done:
                done = span[1]
                yield Find(*span, kind)


def _values(text: str, lowered: str, place: tuple[int, int], name: Name) -> Iterator[tuple[int, int]]:
    start, end = place
    match = _matched(text, lowered, place, name)
    if match is None:
        return
    if match["sep"] and text.startswith("[", match.end()) and not match["quote"]:
        if not name.weak:
            yield from _list(text, match.end() + 1, is_password=name.is_password)
    elif "\n" in match["gap"] and text.startswith("- ", match.end()):
        yield from _list(text, match.end(), is_password=name.is_password)
    # Numbers of tokens and passes are no secrets.
    elif not text[end : end + 1].isalpha() or (name.is_password and name.word != "_pass"):
        compound = start > 0 and (
            text[start - 1] in "_-." or (text[start - 1].isalnum() and text[start].isupper()) or text[start] == "_"
        )
        span = _one(text, match, _Given(name, start, compound))
        if span is not None:
            yield span


def _matched(text: str, lowered: str, place: tuple[int, int], name: Name) -> re.Match[str] | None:
    """Return what follows a name, up to its value, where it may give one."""
    start, end = place
    flag = (
        lowered.find("-", max(0, start - 44), start) >= 0
        and _FLAG_BEFORE().search(lowered, max(0, start - 44), start) is not None
    )
    match = (flag and _AFTER_FLAG().match(text, end)) or _AFTER().match(text, end) or _BESIDE().match(text, end)
    if not match:
        return None
    sep = match["sep"]
    refused = (
        (sep in _SET_TO and not _is_set(lowered, start, match, name))
        or (sep == "->" and name.weak)
        or (sep == "(" and (not name.is_password or name.word == "_pass" or match.start("sep") > end))
    )
    return None if refused else match


def _one(text: str, match: re.Match[str], given: _Given) -> tuple[int, int] | None:
    span = _quoted(text, match, is_password=given.name.is_password) if match["quote"] else None
    if given.name.weak and match["quote"]:
        return span if span and match["sep"] not in _SAID and _ONE_WORD().match(text, *span) else None
    return _bare(text, match, given) if span is None and match["sep"] != "(" else span


def _is_set(lowered: str, start: int, match: re.Match[str], name: Name) -> bool:
    """Tell whether `to` or `auf` gives a value: in Polish always, else where something is set, changed, reset."""
    if match["sep"] == "to":
        return name.word in _POLISH or _SETTING().search(lowered, max(0, start - 48), start) is not None
    return _SETTING().search(lowered, max(0, start - 48), match.end() + 48) is not None


def _list(text: str, start: int, *, is_password: bool) -> Iterator[tuple[int, int]]:
    """Yield the values of a list, quoted ones or those of a line each after a dash."""
    while item := _ITEM().match(text, start):
        start = item.end()
        value = item["value"] or item["line"]
        if not placeholder(value) and (strong(value) or (is_password and (item["value"] or " " not in value))):
            yield item.span("value" if item["value"] else "line")


def _quoted(text: str, match: re.Match[str], *, is_password: bool) -> tuple[int, int] | None:
    quote, start = match["quote"].lstrip("bru"), match.end()
    quote = _CLOSING.get(quote, quote)
    limit = min(len(text), start + 2048)
    end = text.find(quote, start, limit)
    while end > start and len(quote) == 1 and text[end - 1] == "\\":
        end = text.find(quote, end + 1, limit)
    is_long = len(quote) == len('"""')
    if end <= start or ("\n" in match["gap"] if is_long else "\n" in text[start:end]):
        return None
    value = text[start:end].strip()
    said = match["sep"] in _SAID
    if not value or placeholder(value) or (said and not strong(value) and (not is_password or not match["sep"])):
        return None
    # A sentence in quotes is a description, unless it is a pass phrase.
    if match["sep"] == "(" and (" " in value or value.endswith(":")):
        return None
    if " " in value and (not is_password and not strong(value.split()[0])):
        return None
    return start, end


def _bare(text: str, match: re.Match[str], given: _Given) -> tuple[int, int] | None:
    start = match.end()
    run = (_SHORT if given.name.weak else _BARE)().match(text, start)
    if run is None:
        return None
    value = run.group()
    if value.endswith("|") or not value.isascii() or not _PAIR_SIGNS.isdisjoint(value):
        value = _NEXT_PAIR().split(value, maxsplit=1)[0]
    if MASK.match(value) or placeholder(value) or _CALL().match(value):
        return None
    value = value.rstrip(".,;:!?)]}>*_`")
    if not value or placeholder(value):
        return None
    rest = text[start + len(value) : start + len(value) + 2]
    last = not rest or rest[0] in "\r\n,;)}]&<|\"'`\u3002\uff0c" or (rest[0] in ".!?*" and rest[1:2] in {"", "\n", " "})
    wanted = _wanted_weak(text, match, given, value, last=last) if given.name.weak else _wanted(match, given, value, last=last)
    return (start, start + len(value)) if wanted else None


def _wanted(match: re.Match[str], given: _Given, value: str, *, last: bool) -> bool:
    """Tell whether a bare value is given to a name and not a word of the sentence."""
    is_password = given.name.is_password
    pin = is_password and value.isdigit() and len(value) >= MIN_PIN
    if match["sep"] in _SAID or ("\n" in match["gap"] and not set(match["gap"]) & set("|>")):
        kinds = sum(classes(value))
        said = strong(value) and "-" not in value and (kinds >= 3 or last)  # noqa: PLR2004 - of four kinds of characters
        return said or (pin and last and match["sep"] not in {"", *_SET_TO})
    if "=" in match["sep"] and not match["gap"]:
        return not _refers(value)
    return strong(value) or pin or (last and (is_password or given.compound) and not _refers(value))


def _wanted_weak(text: str, match: re.Match[str], given: _Given, value: str, *, last: bool) -> bool:
    """Tell the same of a name that means other things too, as in `pass: the ball` or `pass: 12, fail: 3`."""
    if label(value) or _EXPRESSION().match(value):
        return False
    around = text[max(0, given.start - 80) : given.start].lower()
    login = _LOGIN().search(around) is not None
    if match["sep"] in _SAID:
        return strong(value) and "-" not in value and last and (login or match["sep"] != "")
    if value.isdigit():
        nearby = around + text[match.end() : match.end() + 60].lower()
        return len(value) >= MIN_PIN and not _RESULT().search(nearby)
    alone = login or _HEAD().search(text, max(0, given.start - 10), given.start) is not None
    return not _refers(value) and (strong(value) or (last and alone) or ("=" in match["sep"] and not match["gap"]))


def _refers(value: str) -> bool:
    """Tell whether a bare value is the name of a variable that holds the secret, as in `token=access_token`."""
    return value.isidentifier() and ("_" in value or value.lower() in _PLURALS) and names_secret(value)
