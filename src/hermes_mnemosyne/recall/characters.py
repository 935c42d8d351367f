"""Folding of characters for search, and the classes of characters that decide where words begin and end."""

from __future__ import annotations

import re
import unicodedata

# Scripts that put no spaces between words: Han, kana, bopomofo, Hangul, Thai, Lao, Tibetan, Myanmar, Khmer, the Tai scripts,
# Javanese, Yi. Their marks and vowel signs are part of the ranges.
SPACELESS = (
    "\u0e01-\u0e4e\u0e80-\u0ece\u0f00\u0f18-\u0f33\u0f35\u0f37\u0f39\u0f3e-\u0f84\u0f86-\u0fbc\u1000-\u1049\u1050-\u109f"
    "\u1100-\u11ff\u1780-\u17d3\u17d7\u17dc-\u17dd\u1950-\u19df\u1a20-\u1a9f\u2e80-\u2fdf\u3005-\u3007\u3021-\u302f\u3031-\u303c"
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\ua48c\ua960-\ua97c\ua980-\ua9c0\ua9e0-\ua9fe"
    "\uaa60-\uaadf\uac00-\ud7fb\uf900-\ufaff\U0001aff0-\U0001b16f\U00020000-\U0003fffd"
)
_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1d00-\u1d25\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff"
_GREEK = "\u0370-\u0373\u0376-\u037d\u037f\u0386\u0388-\u03ff\u1f00-\u1fff"
_CYRILLIC = "\u0400-\u0482\u048a-\u052f\u1c80-\u1c8f\ua640-\ua66e\ua680-\ua69d"
# Vowel signs and other marks that are letters to a reader but not to the `\w` of `re`; accents are gone before this counts.
_SIGNS = (
    "\u05b0-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0730-\u074a\u07a6-\u07b0\u0816-\u082d\u08ca-\u0963\u0966-\u096f"
    "\u0971-\u0df3\u135d-\u135f\u1712-\u1715\u1732-\u1734\u1752\u1753\u1772\u1773\u18a9\u1920-\u193b\u1b00-\u1b4c\u1b80-\u1bf3"
    "\u1c24-\u1c37\ua802-\ua827\ua880-\ua8c5\ua8e0-\ua8f1\ua926-\ua92d\ua947-\ua953\uaae0-\uaaf6\uabc0-\uabed"
    "\U00010a01-\U00010a3f\U00011000-\U00011fff\U0001e100-\U0001e2ef\U0001e900-\U0001e94a"
)
# Characters that may stand inside a compound; every other character that belongs to no word ends it.
_CONNECTORS = r"_\-.:/\\@?&=#%+~'*$^\u00b7\u30fb"

LONGEST = 4096
"""Characters of a compound; what is longer is taken for several, in a text and in a query alike."""
COMPOUND = re.compile(rf"(?:[\w{_SIGNS}{SPACELESS}{_CONNECTORS}]|(?<=\d),(?=\d)){{1,{LONGEST}}}")
RUN = re.compile(rf"[{SPACELESS}]+|(?:(?![_{SPACELESS}])[\w{_SIGNS}])+")
SCRIPT = re.compile(rf"[0-9]+|[{_LATIN}]+|[{_GREEK}]+|[{_CYRILLIC}]+|(?:(?![0-9{_LATIN}{_GREEK}{_CYRILLIC}])[\w{_SIGNS}])+")
NOT_ASCII_SYMBOL = re.compile(rf"[^\x00-\x7f\w{_SIGNS}{SPACELESS}\s]")
ASCII_PART = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TERMINAL_CODE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")

# Letters with a stroke or a ligature that no decomposition takes apart, and the many apostrophes and hyphens.
_STROKES = {
    **dict(zip("\u00f8\u00d8\u0142\u0141\u0111\u0110\u0127\u0126\u0167\u0166\u0131\u00f0\u00d0", "oOlLdDhHtTidD", strict=True)),
    **dict(zip("\u00e6\u00c6\u0153\u0152\u00fe\u00de\u2044", ("ae", "AE", "oe", "OE", "th", "TH", "/"), strict=True)),
    **dict.fromkeys("\u2018\u2019\u201b\u02bc\u02b9\u2032", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\u30a0", "-"),
}
# Not of category Cf, but as invisible: the grapheme joiner, Hangul and Khmer fillers, Mongolian and other variation selectors.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_FIRST_ACCENT_CLASS = 200
_POINT_CLASSES = range(10, 37)
_TABLE_LIMIT = 65_536


class _Folding(dict[int, str]):
    """A translation table that fills itself: what each code point becomes in a text that is searched."""

    def __missing__(self, code: int) -> str:
        folded = self._fold(chr(code))
        if len(self) < _TABLE_LIMIT:
            self[code] = folded
        return folded

    @staticmethod
    def _fold(char: str) -> str:
        category = unicodedata.category(char)
        folded = _STROKES.get(char, char)
        if category in ("Cf", "Me") or _INVISIBLE.match(char):
            folded = ""
        elif category in ("Cc", "Cs", "Zs", "Zl", "Zp") or char == "\ufffd":
            folded = " "
        elif category == "Mn":
            kind = unicodedata.combining(char)
            folded = "" if kind >= _FIRST_ACCENT_CLASS or kind in _POINT_CLASSES else char
        elif category == "Nd":
            folded = str(unicodedata.decimal(char))
        return folded


_FOLDING = _Folding()


def plain(text: str) -> str:
    """Return text without accents and invisible characters, compatibility forms and digits unified, case kept.

    Control characters and lone surrogates become blanks.
    """
    if text.isascii() and text.isprintable():
        return text
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", text).translate(_FOLDING))


def is_symbol(char: str) -> bool:
    """Tell whether a character outside ASCII that belongs to no word can be looked for: signs, emoji, private use."""
    return unicodedata.category(char) in ("So", "Sm", "Sc", "Sk", "Co", "Cn")
