"""Secrets that are known by what stands around them: URLs, headers, cookies, commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hermes_mnemosyne.masking.found import Find, opaque, placeholder, strong
from hermes_mnemosyne.text import lazy

_B = "[A-Za-z0-9_-]"
_URL = lazy(r"://([^\s/:@\"'<>?#]{0,128}):([^\s\"'<>]{1,512})")
_URL_TOKEN = lazy(rf"://({_B}{{20,200}}+)@")
_PORT = lazy(r"[0-9]{1,5}(?:[/?#]|\Z)")
_HEADER = lazy(
    r"(?i)authorization[\"'\\]{0,3}\s{0,3}[:=]\s{0,3}[\"'\\]{0,3}(?:(?:bearer|basic|token|digest|negotiate|apikey|aws4-hmac-sha256|bot)\s{1,3})?"
    r"([^\s\"'\\,;\[][^\r\n\"'\\]{3,4096})"
)
_BEARER = lazy(r"(?i)\bbearer[ \t]{1,3}([A-Za-z0-9._~+/-]{16,4096}=*)")
_COOKIE = lazy(r"(?i)\b(?:set-)?cookie\d?[\"']?[ \t]{0,3}:[ \t]{0,3}[\"']?(?=[^\s=;]{1,128}=)([^\r\n\"']{3,8192})")
_COOKIE_VALUE = lazy(r"=([^;\s]{4,})")
_COOKIE_ATTRIBUTES = ("expires", "path", "domain", "max-age", "samesite", "version", "priority", "comment")
_SIGNED = lazy(r"(?i)[?&;](?:sig|x-amz-signature|x-amz-security-token|x-goog-signature)=([A-Za-z0-9%+/=_-]{16,4096})")
_DISCORD = lazy(rf"(?<![A-Za-z0-9_.-])[MNO]{_B}{{22,27}}\.{_B}{{6,7}}\.{_B}{{27,45}}(?!{_B})")
_REGISTRY = lazy(
    r"\"_?auth\"\s{0,3}:\s{0,3}\"([A-Za-z0-9+/]{8,4096}={0,2})\"|(?<![\w-])_auth\s{0,3}=\s{0,3}\"?([A-Za-z0-9+/]{8,4096}={0,2})"
)


def _urls(text: str) -> Iterator[Find]:
    for match in _URL().finditer(text):
        run = match[2]
        # A slash in a password should have been escaped, but often is not; after a port it begins the path.
        cut = next((index for index, character in enumerate(run) if character in "/?#"), len(run))
        end = run.rfind("@", 0, cut)
        bare_host = end >= 0 and not set(run[end + 1 : cut]) & set(".:[") and run[end + 1 : cut] != "localhost"
        if (end < 0 and not _PORT().match(run)) or (bare_host and run[cut : cut + 1] == "/"):
            end = max(end, run.rfind("@"))
        if end > 0 and not placeholder(run[:end]):
            yield Find(match.start(2), match.start(2) + end, "password")


def _url_tokens(text: str) -> Iterator[Find]:
    for match in _URL_TOKEN().finditer(text):
        if strong(match[1]):
            yield Find(match.start(1), match.end(1), "token")


def _values(pattern: Callable[[], re.Pattern[str]], kind: str) -> Callable[[str], Iterator[Find]]:
    def find(text: str) -> Iterator[Find]:
        for match in pattern().finditer(text):
            value = match[1].rstrip(" \t.,;)]}")
            if value and not placeholder(value) and any(character.isdigit() for character in value):
                yield Find(match.start(1), match.start(1) + len(value), kind)

    return find


def _headers(text: str) -> Iterator[Find]:
    for match in _HEADER().finditer(text):
        value = match[1]
        # In a sentence about the header only the first word can be its value.
        if "=" not in value and "Signature" not in value:
            value = value.split()[0]
        value = value.rstrip(" \t.,;)]}")
        # A word with a colon is the name of what follows it.
        if value and not value.endswith(":") and not placeholder(value) and opaque(value):
            yield Find(match.start(1), match.start(1) + len(value), "authorization")


def _cookies(text: str) -> Iterator[Find]:
    for header in _COOKIE().finditer(text):
        for value in _COOKIE_VALUE().finditer(text, header.start(1), header.end(1)):
            name = text[max(header.start(1), value.start() - 64) : value.start()].rpartition(";")[2].strip().lower()
            if name not in _COOKIE_ATTRIBUTES and not placeholder(value[1]):
                yield Find(value.start(1), value.end(1), "cookie")


def _registries(text: str) -> Iterator[Find]:
    for match in _REGISTRY().finditer(text):
        number = 1 if match[1] else 2
        if opaque(match[number]):
            yield Find(*match.span(number), "authorization")


def _whole(pattern: Callable[[], re.Pattern[str]], kind: str) -> Callable[[str], Iterator[Find]]:
    return lambda text: (Find(match.start(), match.end(), kind) for match in pattern().finditer(text))


SHAPES: tuple[tuple[str, Callable[[str], Iterator[Find]]], ...] = (
    ("://", _urls),
    ("://", _url_tokens),
    ("authorization", _headers),
    ("bearer", _values(_BEARER, "bearer-token")),
    ("cookie", _cookies),
    ("sig=", _values(_SIGNED, "url-signature")),
    ("-signature=", _values(_SIGNED, "url-signature")),
    ('"auth"', _registries),
    ("_auth", _registries),
)

LONGEST_TOKEN_WORD = 58
"""A word with a token of Discord, which has no beginning of its own, is at least this long."""
discord_tokens = _whole(_DISCORD, "discord-token")
