"""Text: what can be stored, what counts as equal, and what may be shown to a model or a terminal.

The stored text is the writer's. Only what no database or file can hold is replaced on the way in; everything that protects a
reader (`neutralise`, `one_line`, `printable`) happens on the way out and leaves the store unchanged.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from hermes_mnemosyne._errors import InvalidInput

MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_INTEGER_BITS = 4096


def lazy(source: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """Return a function that gives the compiled expression, compiling it at the first call: a start of the host stays cheap."""
    return cache(lambda: re.compile(source, flags))


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_PAIR = lazy("[\ud800-\udbff][\udc00-\udfff]")
_LONE = lazy("[\ud800-\udfff]")
_BLANKS = " \t\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"


def _joined(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def storable(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` as every store can hold it, and notes on what was replaced.

    Surrogate pairs are joined, lone surrogates and NUL become U+FFFD; every other character stays, control characters too.
    Notes are `replaced-surrogate` and `replaced-nul`.
    """
    if (text.isascii() and "\0" not in text) or not _UNSTORABLE.search(text):
        return text, ()
    notes = []
    text = _PAIR().sub(_joined, text)
    if _LONE().search(text):
        text = _LONE().sub("\ufffd", text)
        notes.append("replaced-surrogate")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
        notes.append("replaced-nul")
    return text, tuple(notes)


def storable_value(value: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a JSON value (None, bool, int, float, str, lists and mappings of them) as every store can hold it, and notes.

    Tuples become lists. Keys are cleaned like values; keys that become equal get U+FFFD appended, so that none is lost.
    Raises InvalidInput for other types, numbers that JSON cannot write, more than 64 levels or 100,000 values.
    """
    walker = _Walker()
    cleaned = walker.clean(value, 0)
    return cleaned, tuple(sorted(walker.notes))


def _number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput("NaN and infinite numbers are no JSON: leave them out or give them as text")
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise InvalidInput(f"a number in metadata is longer than {MAX_INTEGER_BITS} bits: give it as text")
    return value


class _Walker:
    def __init__(self) -> None:
        self.notes: set[str] = set()
        self.count = 0

    def text(self, text: str) -> str:
        cleaned, notes = storable(text)
        self.notes.update(notes)
        return cleaned

    def clean(self, value: Any, depth: int) -> Any:
        self.count += 1
        if self.count > MAX_VALUES:
            raise InvalidInput(f"metadata may hold at most {MAX_VALUES:,} values: store large data as text")
        if depth > MAX_DEPTH:
            raise InvalidInput(f"metadata may be nested at most {MAX_DEPTH} levels deep: flatten it")
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return _number(value)
        if isinstance(value, list | tuple):
            return [self.clean(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        raise InvalidInput(f"a value of type {type(value).__name__} is no JSON: give text, numbers, booleans, lists or objects")

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidInput(f"a key of type {type(key).__name__} is no JSON: keys must be text")
            name = self.text(key)
            while name in cleaned or (name != key and name in value):
                name += "\ufffd"
            cleaned[name] = self.clean(item, depth + 1)
        return cleaned


def canonical(text: str) -> str:
    """Return the form by which two texts are compared: equal forms are one memory.

    NFC, line ends CRLF and CR as LF, blanks (space, tab, and the Unicode space separators) stripped at the end of every line, and
    line feeds stripped at the end. Leading blanks and case are content and stay.
    """
    text = storable(text)[0]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return "\n".join(line.rstrip(_BLANKS) for line in text.split("\n")).rstrip("\n")


def content_hash(text: str) -> str:
    """Return the SHA-256 (hex) of the canonical form in UTF-8. This value is stored and synced: it may never change."""
    return _known_hash(text) if len(text) <= _SHORT else _hash(text)


def _hash(text: str) -> str:
    return hashlib.sha256(canonical(text).encode()).hexdigest()


# A write asks for it several times.
_SHORT = 2048
_known_hash = lru_cache(maxsize=256)(_hash)


def holds(text: str, part: str) -> bool:
    """Tell whether a text holds another one literally; a character is the same whether its accents are composed (NFC) or not."""
    if text.isascii() and part.isascii():
        return part in text
    return unicodedata.normalize("NFC", part) in unicodedata.normalize("NFC", text)


# -- for prompts -----------------------------------------------------------------------------------------------------------------

# Format characters that show nothing. They hide a tag from a comparison but not from a model, so prompts do without them.
_INVISIBLE = lazy(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Joiners and variation selectors belong to scripts and emoji; beside ASCII they have no use.
_STRAY_JOINER = lazy("(?:(?<=[\0-\x7f])|(?<![\\s\\S]))[\u200c\u200d\ufe00-\ufe0f]+|[\u200c\u200d\ufe00-\ufe0f]+(?=[\0-\x7f])")
_CONTROLS = lazy("[\0-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]+")
_LINE_BREAKS = lazy("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_LOOKALIKES = str.maketrans("аеіјорсуѕтмһнкѡԁԛѵοαειρυτνκϲϳ", "aeijopcystmhhkwdqvoaeiputvkcj")
_WORD_WINDOW = 96
# An angle or square bracket in any spelling that a model may read as one: itself, wide and small forms, and escapes.
_OPENER = lazy(
    r"[<\uff1c\ufe64\u2329\u3008\u276e\u1438\[\uff3b\u3010]"
    r"|&(?:amp;)*(?:lt|LT|lbrack|lsqb|\#0*(?:60|91)|\#[xX]0*(?:3[cC]|5[bB]));?"
    r"|\\+(?:u\{?0*(?:3[cC]|5[bB])\}?|x(?:3[cC]|5[bB])|0?74|133)"
    r"|%(?:25)*(?:3[cC]|5[bB])"
)
_SQUARE = lazy(r"[\[\uff3b\u3010]|(?:5[bB]|91|lbrack|lsqb|133)[;}]?\Z")
_ESCAPE = lazy(r"\\+u\{?([0-9a-fA-F]{4,6})\}?|\\+x([0-9a-fA-F]{2})|%([0-9a-fA-F]{2})")
_STRUCTURAL = (
    "memorycontext", "memoryprovider", "mnemosyne", "system", "sys", "assistant", "user", "human", "developer", "tool", "function",
    "instruction", "inst", "prompt", "context", "conversation", "memory", "memories", "recall", "hermes", "imstart", "imend",
    "im_start", "endoftext", "endofturn", "startofturn", "eot", "startheader", "endheader", "role", "message", "thinking",
    "antml", "antthinking", "reasoning", "model", "begin", "end", "invoke",
)  # fmt: skip
_NOTE = ("system", "sys", "inst", "memorycontext", "recalledmemory", "assistant", "developer", "endofmemory", "mnemosyne")
_ROLE_NAMES = frozenset(
    {"system", "systemnote", "systemmessage", "systemprompt", "assistant", "developer", "human", "user", "tool", "ai", "model"}
)
_LINE_HEAD = lazy(r"(?m)^([^\n:\uff1a\ufe55\ufe13\u2236\u02f8]{2,64})([:\uff1a\ufe55\ufe13\u2236]++)(?!//)")


def _folded(window: str) -> str:
    import html

    window = html.unescape(html.unescape(window))
    window = _ESCAPE().sub(lambda match: chr(min(int(match[1] or match[2] or match[3], 16), 0x10FFFF)), window)
    window = unicodedata.normalize("NFKD", window).casefold().translate(_LOOKALIKES)
    return "".join(character for character in window if character.isalnum())


def _opened(match: re.Match[str]) -> str:
    opener, window = match.group(), match.string[match.end() : match.end() + _WORD_WINDOW]
    square = _SQUARE().search(opener) is not None
    bare = window.lstrip()
    # A special token of a chat template has no name that could be listed in full.
    token = not square and bare[:1] in {"|", "\uff5c", "<", "\uff1c"}
    if not token and not _folded(window).startswith(_NOTE if square else _STRUCTURAL):
        return opener
    return "\u2045" if square else "\u2039"


def _unmarked(match: re.Match[str]) -> str:
    if _folded(match[1]).lstrip("0123456789") not in _ROLE_NAMES:
        return match.group()
    return match[1] + "\u02f8" * len(match[2])


def neutralise(text: str) -> str:
    """Return `text` so that no part of it can open or close a block of a prompt; it stays readable.

    The bracket before a name of structure (`<memory-context>`, `</system>`, `<|token|>`, `[System note`) becomes a look-alike,
    whatever its case, spacing, width, escaping or hidden characters; so does the colon of a role marker at the start of a line.
    Invisible format characters and control characters other than tab and line feed are dropped. Applying it twice changes
    nothing more.
    """
    text = _LINE_BREAKS().sub("\n", storable(text)[0])
    text = _CONTROLS().sub("", _INVISIBLE().sub("", text))
    text = _STRAY_JOINER().sub("", text)
    text = _OPENER().sub(_opened, text)
    return _LINE_HEAD().sub(_unmarked, text)


def one_line(text: str, *, limit: int | None = None) -> str:
    """Return `text` neutralised on one line, white space collapsed, cut to `limit` characters with an ellipsis."""
    flat = " ".join(neutralise(" ".join(_LINE_BREAKS().sub("\n", text).split())).split())
    if limit is None or len(flat) <= limit:
        return flat
    return flat[: max(limit - 1, 0)].rstrip() + "\u2026" if limit > 0 else ""


# -- for terminals ---------------------------------------------------------------------------------------------------------------

_UNPRINTABLE = lazy(
    "[\0-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def printable(text: str, *, keep: str = "\n\t") -> str:
    r"""Return `text` with control, bidirectional and format characters as visible escapes such as `\x1b` or `\u202e`.

    The characters in `keep` stay. The joiners U+200C and U+200D stay: scripts and emoji need them and they move nothing.
    """

    def escaped(match: re.Match[str]) -> str:
        character = match.group()
        if character in keep:
            return character
        return f"\\x{ord(character):02x}" if character <= "\xff" else character.encode("unicode_escape").decode()

    return _UNPRINTABLE().sub(escaped, text)
