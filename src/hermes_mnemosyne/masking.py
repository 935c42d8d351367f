"""Masking: secrets are replaced before text is stored.

A secret becomes `[masked:kind]`; what names it (the key, the user, the host) stays, so that the memory keeps its meaning. The work
is linear in the length of the text: cheap substring checks decide which expressions run at all, and no expression can start
twice inside one run of its own characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MAX_PASSES = 10
_MASK = re.compile(r"\[masked:[a-z0-9-]+\]")


def mask(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` with its secrets replaced, and one note `masked:<kind>` per kind found. Masking twice changes nothing more.

    Found are keys and tokens of known services, JSON web tokens, private-key blocks (also cut ones), passwords in URLs and
    connection strings, authorization and cookie headers, and values given to names such as `password`, `token` or `api_key`.
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
    if "PRIVATE" in text or "Private-Lines" in text:
        text = _replace(text, _key_blocks(text), notes)
    # Of ordinary text only the long words can hold a token; looking for each beginning in those few is what keeps this cheap.
    if words := " ".join([word for word in text.split() if len(word) >= _SHORTEST_TOKEN]):
        for token in _TOKENS:
            if token.trigger in words:
                text = _replace(text, token.find(text), notes)
    lowered = _lowered(text)
    for trigger, find in _SHAPES:
        if trigger in lowered:
            text = _replace(text, find(text), notes)
            lowered = _lowered(text)
    if any(part in lowered for part in _PARTS) or not (lowered.isascii() or all(word not in lowered for word in _FOREIGN)):
        text = _replace(text, _assignments(text, lowered), notes)
    return text


def mask_value(value: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a JSON value with the secrets of its texts and keys replaced, and notes as `mask` gives them.

    What stands under a key whose name says that it is secret is replaced as a whole, except booleans and null.
    """
    notes: list[str] = []
    return _masked_value(value, notes, secret=False), tuple(dict.fromkeys(notes))


def names_secret(name: str) -> bool:
    """Tell whether a key of this name holds a secret, such as `db_password`, `apiKey` or `X-Auth-Token`."""
    return _SECRET_NAME.search(name) is not None and _NOT_SECRET_NAME.search(name) is None


def _masked_value(value: Any, notes: list[str], *, secret: bool) -> Any:
    if isinstance(value, str):
        if secret and value.strip() and not _placeholder(value.strip()):
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
            result[name] = _masked_value(item, notes, secret=secret or names_secret(str(key)))
        return result
    if isinstance(value, list | tuple):
        return [_masked_value(item, notes, secret=secret) for item in value]
    if secret and isinstance(value, int | float) and not isinstance(value, bool):
        notes.append("masked:secret")
        return "[masked:secret]"
    return value


@dataclass(frozen=True, slots=True)
class _Find:
    """A secret at `start` to `end` of a text."""

    start: int
    end: int
    kind: str


def _replace(text: str, found: Iterator[_Find], notes: list[str]) -> str:
    """Put masks in place of what was found; an older mask is never cut, only swallowed whole or left alone."""
    masks = [match.span() for match in _MASK.finditer(text)] if "[masked:" in text else []
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


def _lowered(text: str) -> str:
    # U+0130 is the one character that grows; positions must agree with those of `text`.
    return text.replace("\u0130", "I").lower()


# -- tokens of known services ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    trigger: str
    pattern: re.Pattern[str]
    digit: bool

    def find(self, text: str) -> Iterator[_Find]:
        for match in self.pattern.finditer(text):
            if not self.digit or any(character.isdigit() for character in match.group()):
                yield _Find(match.start(), match.end(), self.kind)


def _token(kind: str, trigger: str, body: str, *, head: str | None = None, digit: bool = True) -> _Token:
    # Nothing that the body may hold can stand before a match: so a long run is read once, not once per place in it. A literal
    # beginning lets the engine skip to it, hence the look-back after it.
    literal = re.escape(trigger)
    start = f"(?<![A-Za-z0-9_-]){head}" if head else f"{literal}(?<![A-Za-z0-9_-]{literal})"
    return _Token(kind, trigger, re.compile(start + body), digit)


_SHORTEST_TOKEN = 16
_W = "[A-Za-z0-9]"
_B = "[A-Za-z0-9_-]"
_TOKENS: tuple[_Token, ...] = (
    _token("aws-key", "AKIA", f"[A-Z0-9]{{16}}(?!{_W})", digit=False),
    _token("aws-key", "ASIA", f"[A-Z0-9]{{16}}(?!{_W})"),
    *(_token("github-token", f"gh{letter}_", f"{_W}{{20,}}+") for letter in "pousr"),
    _token("github-token", "github_pat_", f"{_B}{{20,}}+"),
    *(
        _token("gitlab-token", f"gl{name}-", f"{_B}{{16,}}+")
        for name in ("pat", "oas", "dt", "rt", "cbt", "ptt", "ft", "imt", "agent", "soat", "ffct")
    ),
    _token("slack-token", "xox", f"[a-z](?:\\.xox[a-z])?-{_B}{{12,}}+"),
    _token("slack-token", "xapp-", f"{_B}{{20,}}+"),
    _token("slack-webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}+"),
    _token("api-key", "sk-", f"{_B}{{16,}}+"),
    _token("stripe-key", "k_live_", f"{_W}{{10,}}+", head="[spr]k_live_", digit=False),
    _token("stripe-key", "k_test_", f"{_W}{{10,}}+", head="[spr]k_test_", digit=False),
    _token("webhook-secret", "whsec_", "[A-Za-z0-9+/=_-]{16,}+", digit=False),
    _token("google-key", "AIza", f"{_B}{{30,}}+", digit=False),
    _token("google-token", "ya29.", f"{_B}{{20,}}+"),
    _token("google-secret", "GOCSPX-", f"{_B}{{20,}}+", digit=False),
    _token("npm-token", "npm_", f"{_W}{{30,}}+"),
    _token("pypi-token", "pypi-", f"{_B}{{40,}}+"),
    _token("jwt", "eyJ", rf"{_B}{{8,}}+(?:\.{_B}*+){{1,4}}", digit=False),
    _token("telegram-token", ":AA", f":AA{_B}{{30,}}+", head="[0-9]{6,12}"),
    _token("sendgrid-key", "SG.", rf"{_B}{{16,}}+\.{_B}{{16,}}+", digit=False),
    _token("huggingface-token", "hf_", f"{_W}{{30,}}+", digit=False),
    _token("api-key", "gsk_", f"{_W}{{30,}}+"),
    _token("api-key", "r8_", f"{_W}{{30,}}+"),
    _token("api-key", "xai-", f"{_B}{{40,}}+"),
    _token("api-key", "pplx-", f"{_W}{{30,}}+"),
    _token("api-key", "nvapi-", f"{_B}{{40,}}+"),
    _token("api-key", "PMAK-", f"{_B}{{30,}}+"),
    _token("api-key", "lin_api_", f"{_W}{{30,}}+"),
    _token("api-key", "ntn_", f"{_W}{{30,}}+"),
    _token("api-key", "secret_", f"{_W}{{32,}}+"),
    _token("api-key", "dapi", "[0-9a-f]{32}(?![0-9A-Za-z])"),
    _token("api-key", "key-", "[0-9a-f]{32}(?![0-9A-Za-z])"),
    _token("api-key", "figd_", f"{_B}{{30,}}+"),
    _token("api-key", "ATATT3", "[A-Za-z0-9_=-]{50,}+"),
    _token("api-key", "sbp_", "[0-9a-f]{40}(?![0-9A-Za-z])"),
    _token("api-key", "pscale_", f"(?:tkn|pw|oauth)_{_B}{{30,}}+"),
    _token("digitalocean-token", "_v1_", "[0-9a-f]{64}(?![0-9A-Za-z])", head="do[opr]_v1_"),
    _token("shopify-token", "shp", "(?:at|ca|pa|ss)_[0-9a-fA-F]{32}(?![0-9A-Za-z])"),
    _token("square-token", "sq0", f"(?:atp|csp)-{_B}{{20,}}+"),
    *(_token("vault-token", f"hv{letter}.", f"{_B}{{20,}}+") for letter in "sbr"),
    _token("tailscale-key", "tskey-", f"{_B}{{16,}}+"),
    _token("docker-token", "dckr_pat_", f"{_B}{{20,}}+", digit=False),
    _token("grafana-token", "glsa_", f"{_B}{{20,}}+"),
    _token("sentry-token", "sntry", "[su]_[A-Za-z0-9_=+/-]{30,}+"),
    _token("age-key", "AGE-SECRET-KEY-1", "[A-Z0-9]{30,}+", digit=False),
)  # fmt: skip


# -- private keys ----------------------------------------------------------------------------------------------------------------

_MARK = re.compile(r"-{4,5} ?(BEGIN|END) ((?:[A-Z0-9]+ ){0,4})PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_BODY_AFTER = re.compile(
    r"(?:\\[nr]|[ \t>|#*]*\r?\n[ \t>|#*]*(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Subject|X-[A-Za-z-]+): [^\n]*+|[A-Za-z0-9+/=\\]{16,}+"
    r"|[A-Za-z0-9+/]*+=[A-Za-z0-9+/=]*+(?=\s|\Z)|(?=\r?\n))|[A-Za-z0-9+/=]{16,}+| (?=[A-Za-z0-9+/=]{40}))*+"
)
_BODY_BEFORE = re.compile(
    r"(?:[A-Za-z0-9+/=]{40,}+(?:\\[nr]|[ \t>|]|\r?\n)*+)+(?:[A-Za-z0-9+/=]{1,40}+(?:\\[nr]|[ \t>|]|\r?\n)*+)?\Z"
)
_BEFORE_WINDOW = 20_000
_PUTTY = re.compile(r"Private-Lines: *[0-9]+\s+((?:\s*[A-Za-z0-9+/=]{8,}+(?![^\s]))++(?:\s+Private-(?:MAC|Hash): *[0-9a-f]+)?)")


def _key_blocks(text: str) -> Iterator[_Find]:
    marks = list(_MARK.finditer(text))
    found = [_Find(match.start(1), match.end(1), "private-key") for match in _PUTTY.finditer(text)]
    previous_end = 0
    for index, mark in enumerate(marks):
        following = marks[index + 1] if index + 1 < len(marks) else None
        if mark[1] == "END":
            if index == 0 or marks[index - 1][1] == "END":
                window = text[max(previous_end, mark.start() - _BEFORE_WINDOW) : mark.start()]
                if body := _BODY_BEFORE.search(window):
                    found.append(_Find(mark.start() - len(window) + body.start(), mark.end(), "private-key"))
        elif following is not None and following[1] == "END":
            found.append(_Find(mark.start(), following.end(), "private-key"))
        else:
            tail = _BODY_AFTER.match(text, mark.end())
            if tail is not None and tail.group().strip():
                found.append(_Find(mark.start(), tail.start() + len(tail.group().rstrip()), "private-key"))
        previous_end = mark.end()
    return iter(sorted(found, key=lambda find: find.start))


# -- URLs and headers ------------------------------------------------------------------------------------------------------------

_URL = re.compile(r"://([^\s/:@\"'<>?#]{0,128}):([^\s\"'<>]{1,512})")
_URL_TOKEN = re.compile(rf"://({_B}{{20,200}}+)@")
_PORT = re.compile(r"[0-9]{1,5}(?:[/?#]|\Z)")
_HEADER = re.compile(
    r"(?i)authorization[\"'\\]{0,3}\s{0,3}[:=]\s{0,3}[\"'\\]{0,3}(?:(?:bearer|basic|token|digest|negotiate|apikey|aws4-hmac-sha256|bot)\s{1,3})?"
    r"([^\s\"'\\,;\[][^\r\n\"'\\]{3,4096})"
)
_BEARER = re.compile(r"(?i)\bbearer[ \t]{1,3}([A-Za-z0-9._~+/-]{16,4096}=*)")
_COOKIE = re.compile(r"(?i)\b(?:set-)?cookie\d?[\"']?[ \t]{0,3}:[ \t]{0,3}[\"']?(?=[^\s=;]{1,128}=)([^\r\n\"']{3,8192})")
_COOKIE_VALUE = re.compile(r"=([^;\s]{4,})")
_COOKIE_ATTRIBUTES = ("expires", "path", "domain", "max-age", "samesite", "version", "priority", "comment")
_SIGNED = re.compile(r"(?i)[?&;](?:sig|x-amz-signature|x-amz-security-token|x-goog-signature)=([A-Za-z0-9%+/=_-]{16,4096})")
_CURL = re.compile(r"(?i)\bcurl\b[^\r\n]{0,96}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,128}:([^\s\"']{1,256})")
_DISCORD = re.compile(rf"(?<![A-Za-z0-9_.-])[MNO]{_B}{{22,27}}\.{_B}{{6,7}}\.{_B}{{27,45}}")


def _urls(text: str) -> Iterator[_Find]:
    for match in _URL.finditer(text):
        run = match[2]
        # A slash in a password should have been escaped, but often is not; after a port it begins the path.
        cut = next((index for index, character in enumerate(run) if character in "/?#"), len(run))
        end = run.rfind("@", 0, cut)
        bare_host = end >= 0 and not set(run[end + 1 : cut]) & set(".:[") and run[end + 1 : cut] != "localhost"
        if (end < 0 and not _PORT.match(run)) or (bare_host and run[cut : cut + 1] == "/"):
            end = max(end, run.rfind("@"))
        if end > 0 and not _placeholder(run[:end]):
            yield _Find(match.start(2), match.start(2) + end, "password")


def _url_tokens(text: str) -> Iterator[_Find]:
    for match in _URL_TOKEN.finditer(text):
        if _strong(match[1]):
            yield _Find(match.start(1), match.end(1), "token")


def _values(pattern: re.Pattern[str], kind: str) -> Callable[[str], Iterator[_Find]]:
    def find(text: str) -> Iterator[_Find]:
        for match in pattern.finditer(text):
            value = match[1].rstrip(" \t.,;)]}")
            if value and not _placeholder(value) and any(character.isdigit() for character in value):
                yield _Find(match.start(1), match.start(1) + len(value), kind)

    return find


def _headers(text: str) -> Iterator[_Find]:
    for match in _HEADER.finditer(text):
        value = match[1]
        # In a sentence about the header only the first word can be its value.
        if "=" not in value and "Signature" not in value:
            value = value.split()[0]
        value = value.rstrip(" \t.,;)]}")
        if value and not _placeholder(value) and _opaque(value):
            yield _Find(match.start(1), match.start(1) + len(value), "authorization")


def _cookies(text: str) -> Iterator[_Find]:
    for header in _COOKIE.finditer(text):
        for value in _COOKIE_VALUE.finditer(text, header.start(1), header.end(1)):
            name = text[max(header.start(1), value.start() - 64) : value.start()].rpartition(";")[2].strip().lower()
            if name not in _COOKIE_ATTRIBUTES and not _placeholder(value[1]):
                yield _Find(value.start(1), value.end(1), "cookie")


def _whole(pattern: re.Pattern[str], kind: str) -> Callable[[str], Iterator[_Find]]:
    return lambda text: (_Find(match.start(), match.end(), kind) for match in pattern.finditer(text))


def _first(pattern: re.Pattern[str], kind: str) -> Callable[[str], Iterator[_Find]]:
    return lambda text: (
        _Find(match.start(1), match.end(1), kind) for match in pattern.finditer(text) if not _placeholder(match[1])
    )


_SHAPES: tuple[tuple[str, Callable[[str], Iterator[_Find]]], ...] = (
    ("://", _urls),
    ("://", _url_tokens),
    ("authorization", _headers),
    ("bearer", _values(_BEARER, "bearer-token")),
    ("cookie", _cookies),
    ("sig=", _values(_SIGNED, "url-signature")),
    ("-signature=", _values(_SIGNED, "url-signature")),
    ("curl", _first(_CURL, "password")),
    ("discord", _whole(_DISCORD, "discord-token")),
)


# -- assignments -----------------------------------------------------------------------------------------------------------------

_FOREIGN = (
    "contrase\u00f1a",
    "\u043f\u0430\u0440\u043e\u043b\u044c",
    "\u5bc6\u7801",
    "\u5bc6\u78bc",
    "\u30d1\u30b9\u30ef\u30fc\u30c9",
    "\ube44\ubc00\ubc88\ud638",
)
_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "pwd", "_pass", "passwort", "kennwort", "mot de passe", *_FOREIGN)
_TRIGGERS = (*_PASSWORDS, "secret", "token", "key", "credential")
_PARTS = ("pass", "pwd", "kennwort", "secret", "token", "key", "credential")  # one of them is part of every ASCII trigger
_KEY_BEFORE = re.compile(
    r"(?:api|access|secret|private|signing|encryption|auth|account|master|shared|service|license|licence|storage|admin|webhook)[ _.-]?\Z"
)
_AFTER = re.compile(
    r"(?:[ _-]?(?:value|base|text)|[0-9]{1,3})?(?![A-Za-z0-9_])\\{0,3}[\"'`\]*)]{0,4}"
    r"(?:[ \t]{1,3}(?:for|of|to|on|at)[ \t][^\n:=.;,\"']{1,60}?)?"
    r"[ \t]{0,8}(?P<sep>:?={1,3}>?|->|[:\uff1a\u2192]|(?<=[ \t])(?:is|was|ist)(?=[ \t]))"
    r"(?P<gap>[ \t]{0,8}\n[ \t]{1,8}|[ \t*_]{0,8})"
    r"(?P<quote>\\{0,3}[\"'`])?"
)
_BESIDE = re.compile(r"(?P<sep>)(?P<gap>[ \t]{1,4})(?P<quote>[\"'`])?(?=\S)")
_AFTER_FLAG = re.compile(r"(?P<sep>[ \t]{1,4}|=)(?P<gap>)(?P<quote>[\"'])?(?!-)(?=\S)")
_FLAG_BEFORE = re.compile(r"(?:^|\s)--?[a-z0-9-]{0,40}\Z")
_BARE = re.compile(r"[^\s\"'`]{1,2048}")
_NEXT_PAIR = re.compile(r"[;&,](?=[\w.-]{1,64}[=:])|;\Z")
_SECRET_NAME = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase|code|wort)?|pwd|kennwort|contrase\u00f1a|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u5bc6\u78bc|secret|"
    r"token|credentials?|authorization|cookies?|(?:api|access|secret|private|signing|encryption|auth|account|master|shared)[ _.-]?key)"
    r"s?(?:[ _.-]?(?:value|base|text|hash|plain))?[0-9]{0,3}\s*\Z"
)
_COUNTED = r"(?i)(?:max|min|num|total|prompt|completion|input|output|count|by|per|new)[ _.-]?"
_NOT_SECRET_NAME = re.compile(_COUNTED + r"tokens?\s*\Z")
_COUNTED_BEFORE = re.compile(_COUNTED + r"\Z")
_HOLLOW = re.compile(r"[*\u2022xX.#_\u2026-]{2,}|[$%]?[({<\[].*|\$[A-Za-z_]\w*|%[A-Za-z_]+%?|@?[A-Za-z_]+\{.*", re.DOTALL)
_CALL = re.compile(
    r"[A-Za-z_][\w.]{0,120}[(\[{]|(?:[A-Za-z_]+\.)+[A-Za-z_]+\Z|[A-Za-z_.]*(?:env|secrets|config|settings|vault|self)[.:(\[]"
)
_HOLLOW_WORDS = (
    "none null nil undefined true false yes no empty unset required optional missing invalid wrong unknown hidden redacted masked "
    "removed str string text int bool bytes any optional[str] changed expired reset rotated stored saved encrypted hashed here "
    "there below above the a an it this that never always not only is was to in on for of and or with from by per ask see use "
    "password passwd secret token key value changeme todo tbd n/a"
)
_WORDS = frozenset(_HOLLOW_WORDS.split())
_MIN_STRONG, _MIN_PIN, _MIN_OPAQUE, _LONG = 6, 4, 8, 24


def _placeholder(value: str) -> bool:
    """Tell whether a value only stands for a secret: masked already, starred out, a variable, an empty word."""
    return _MASK.match(value) is not None or _HOLLOW.fullmatch(value) is not None or value.lower() in _WORDS


def _classes(value: str) -> tuple[bool, bool, bool, bool]:
    return (
        any(character.islower() for character in value),
        any(character.isupper() for character in value),
        any(character.isdigit() for character in value),
        any(not character.isalnum() and character not in "-_.,:;/()" for character in value),
    )


def _strong(value: str) -> bool:
    """Tell whether a bare value looks chosen at random or against guessing: letters with digits, or many kinds of characters."""
    lower, upper, digit, special = _classes(value)
    return len(value) >= _MIN_STRONG and (((lower or upper) and digit) or (lower + upper + digit + special >= 3))  # noqa: PLR2004


def _opaque(value: str) -> bool:
    lower, upper, digit, _ = _classes(value)
    return len(value) >= _MIN_OPAQUE and (digit or (lower and upper) or len(value) >= _LONG)


def _assignments(text: str, lowered: str) -> Iterator[_Find]:
    done = 0
    for start, end, is_password in _keywords(lowered):
        if start < done:
            continue
        flag = _FLAG_BEFORE.search(lowered, max(0, start - 44), start) is not None
        match = (flag and _AFTER_FLAG.match(text, end)) or _AFTER.match(text, end) or _BESIDE.match(text, end)
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
            yield _Find(*span, "password" if is_password else "secret")


def _keywords(lowered: str) -> list[tuple[int, int, bool]]:
    """Return (start, end, is a password) of every word that may name a secret, by place, the longest of each end only."""
    found = []
    for word in _TRIGGERS:
        start = lowered.find(word)
        while start >= 0:
            named = word != "key" or _KEY_BEFORE.search(lowered, max(0, start - 12), start)
            counted = word == "token" and _COUNTED_BEFORE.search(lowered, max(0, start - 12), start)
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
    said = match["sep"] in {"is", "was", "ist", ""}
    if not value or _placeholder(value) or (said and not _strong(value) and (not is_password or not match["sep"])):
        return None
    # A sentence in quotes is a description, unless it is a pass phrase.
    if not is_password and " " in value and not _strong(value.split()[0]):
        return None
    return start, end


def _bare(text: str, match: re.Match[str], *, is_password: bool, compound: bool) -> tuple[int, int] | None:
    start = match.end()
    run = _BARE.match(text, start)
    if run is None:
        return None
    value = _NEXT_PAIR.split(run.group(), maxsplit=1)[0]
    if _MASK.match(value):
        return None
    value = value.rstrip(".,;:!?)]}>*_`")
    if not value or _placeholder(value) or _CALL.match(value):
        return None
    word = match["sep"].strip()
    rest = text[start + len(value) : start + len(value) + 2]
    last = not rest or rest[0] in "\r\n,;)}]&\"'`" or (rest[0] in ".!?*" and rest[1:2] in {"", "\n", " "})
    if match["sep"] in {"is", "was", "ist", ""} or "\n" in match["gap"]:
        classes = sum(_classes(value))
        wanted = _strong(value) and "-" not in value and (classes >= 3 or last)  # noqa: PLR2004 - of four kinds of characters
    elif "=" in word and not match["gap"]:
        wanted = not _refers(value)
    elif not word:
        wanted = last or _strong(value) or is_password
    else:
        pin = is_password and value.isdigit() and len(value) >= _MIN_PIN
        wanted = _strong(value) or pin or (last and (is_password or compound) and not _refers(value))
    return (start, start + len(value)) if wanted else None


def _refers(value: str) -> bool:
    """Tell whether a bare value is the name of a variable that holds the secret, as in `token=access_token`."""
    return value.isidentifier() and "_" in value and names_secret(value)
