"""English stems by the Porter2 algorithm (M. Porter, snowballstem.org, "The English (Porter2) stemming algorithm").

It is written out here, not taken from a library, for two reasons. The stems are part of what is stored, so they must not change
with the version of a library that the host happens to have. And the libraries that need no compiler take 40 microseconds a word,
which a host's hook has to wait for. A test compares it with snowballstemmer.
"""

from __future__ import annotations

import re

# Vowels are aeiouy; a `y` that is a consonant is written `Y` while a word is worked on.
_REGION = re.compile(r"[^aeiouy]*[aeiouy]+[^aeiouy]")
_REGION_PREFIX = re.compile(r"arsen|commun|emerg|gener|inter|later|organ|past|univers")
_VOWEL = re.compile(r"[aeiouy]")
_SHORT_SYLLABLE = re.compile(r"(?:[^aeiouy][aeiouy][^aeiouwxyY]|^[aeiouy][^aeiouy]|past)\Z")
_DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
_BEFORE_LI = frozenset("cdeghkmnrt")

_WHOLE = {
    "skis": "ski", "skies": "sky", "idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli",
    "singly": "singl", **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}  # fmt: skip
_KEEP_ING = frozenset({"even", "cann", "inn", "earr", "herr", "out"})
_KEEP_EED = frozenset({"succ", "proc", "exc"})

_STEP_2 = {
    "tional": "tion", "enci": "ence", "anci": "ance", "abli": "able", "entli": "ent", "izer": "ize", "ization": "ize",
    "ational": "ate", "ation": "ate", "ator": "ate", "alism": "al", "aliti": "al", "alli": "al", "fulness": "ful", "ousli": "ous",
    "ousness": "ous", "iveness": "ive", "iviti": "ive", "biliti": "ble", "bli": "ble", "ogi": "og", "ogist": "og", "fulli": "ful",
    "lessli": "less", "li": "",
}  # fmt: skip
_STEP_3 = {
    "tional": "tion", "ational": "ate", "alize": "al", "icate": "ic", "iciti": "ic", "ical": "ic", "ful": "", "ness": "", "ative": "",
}  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
)  # fmt: skip


def _longest(suffixes: tuple[str, ...]) -> re.Pattern[str]:
    # The leftmost match that reaches the end is the longest suffix.
    return re.compile(f"(?:{'|'.join(suffixes)})\\Z")


_ENDS_2, _ENDS_3 = tuple(_STEP_2), tuple(_STEP_3)
_FIND_2, _FIND_3, _FIND_4 = _longest(_ENDS_2), _longest(_ENDS_3), _longest(_STEP_4)


def stem(word: str) -> str:
    """Return the stem of a word of lower-case ASCII letters."""
    if word in _WHOLE:
        return _WHOLE[word]
    if len(word) <= 2:  # noqa: PLR2004 - the algorithm leaves words of two letters alone
        return word
    if "y" in word:
        word = _mark_consonants(word)
    prefix = _REGION_PREFIX.match(word) or _REGION.match(word)
    first = prefix.end() if prefix else len(word)
    inner = _REGION.match(word, first)
    second = inner.end() if inner else len(word)
    word = _without_participle(_without_plural(word), first)
    if word[-1] in "yY" and len(word) > 2 and word[-2] not in "aeiouy":  # noqa: PLR2004
        word = f"{word[:-1]}i"
    if word.endswith(_ENDS_2):
        word = _step_2(word, first)
    if word.endswith(_ENDS_3):
        word = _step_3(word, first, second)
    if word.endswith(_STEP_4):
        word = _step_4(word, second)
    return _without_final(word, first, second).replace("Y", "y")


def _mark_consonants(word: str) -> str:
    marked = ""
    for letter in word:
        marked += "Y" if letter == "y" and (not marked or marked[-1] in "aeiouy") else letter
    return marked


def _without_plural(word: str) -> str:
    """Step 1a."""
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]  # noqa: PLR2004
    if word[-1] == "s" and not word.endswith(("us", "ss")) and _VOWEL.search(word, 0, len(word) - 2):
        return word[:-1]
    return word


def _without_participle(word: str, first: int) -> str:
    """Step 1b; `first` is where the first region begins."""
    if word.endswith(("eed", "eedly")):
        begin = word[: -3 if word[-1] == "d" else -5]
        return f"{begin}ee" if len(begin) >= first and begin not in _KEEP_EED else word
    if not word.endswith(("ing", "ed", "ingly", "edly")):
        return word
    whole = word.removesuffix("ly")
    begin = whole[:-3] if whole.endswith("ing") else whole[:-2]
    if word.endswith("ing") and len(begin) == 2 and begin[1] == "y" and begin[0] not in "aeiouy":  # noqa: PLR2004
        return f"{begin[0]}ie"
    if (word.endswith("ing") and begin in _KEEP_ING) or not _VOWEL.search(begin):
        return word
    return _mended(begin, first)


def _mended(begin: str, first: int) -> str:
    """Return what a participle leaves as a word: an `e` put back, a doubled letter made single."""
    if begin.endswith(("at", "bl", "iz")):
        return f"{begin}e"
    if begin.endswith(_DOUBLES):
        return begin if len(begin) == 3 and begin[0] in "aeo" else begin[:-1]  # noqa: PLR2004
    return f"{begin}e" if len(begin) == first and _SHORT_SYLLABLE.search(begin) else begin


def _step_2(word: str, first: int) -> str:
    found = _FIND_2.search(word)
    if not found:
        return word
    suffix, begin = found[0], word[: found.start()]
    if len(begin) < first or (suffix == "ogi" and begin[-1:] != "l") or (suffix == "li" and begin[-1:] not in _BEFORE_LI):
        return word
    return begin + _STEP_2[suffix]


def _step_3(word: str, first: int, second: int) -> str:
    found = _FIND_3.search(word)
    if not found:
        return word
    suffix, begin = found[0], word[: found.start()]
    if len(begin) < first or (suffix == "ative" and len(begin) < second):
        return word
    return begin + _STEP_3[suffix]


def _step_4(word: str, second: int) -> str:
    found = _FIND_4.search(word)
    if not found:
        return word
    begin = word[: found.start()]
    if len(begin) < second or (found[0] == "ion" and begin[-1:] not in {"s", "t"}):
        return word
    return begin


def _without_final(word: str, first: int, second: int) -> str:
    """Step 5."""
    begin = word[:-1]
    if word[-1] == "e":
        if len(begin) >= second or (len(begin) >= first and not _SHORT_SYLLABLE.search(begin)):
            return begin
    elif word[-1] == "l" and len(begin) >= second and begin[-1:] == "l":
        return begin
    return word
