"""Compounds: what of a text without white space is looked for as one, in its parts, and joined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import add

from hermes_mnemosyne.recall.characters import (
    ASCII_PART,
    COMPOUND,
    LONGEST,
    NOT_ASCII_SYMBOL,
    RUN,
    SCRIPT,
    SPACELESS,
    is_symbol,
    plain,
)
from hermes_mnemosyne.recall.words import CONTRACTION

MAX_JOINED = 4
"""Neighbouring parts that are also indexed joined."""
# A run with more boundaries than this is a hash or base64 and has no parts that anybody would ask for.
_MAX_BOUNDARIES = 8
_SPACELESS_RUN = re.compile(f"[{SPACELESS}]")
_PREFIX = re.compile(r"(?:^|(?<=[^\w.]))(?:\.|[#@$+-]{1,2})$")
_SUFFIX = re.compile(r"[+#*%^$]{1,3}")
_OPERATOR = re.compile(r"[-+=<>&|^%~$#@!?*/\\:.]{2,8}")
_OPERATOR_CORE = re.compile(r"[+=<>&|^%~$#@/\\]")


@dataclass(slots=True)
class Compound:
    """One compound in folded tokens that are not encoded yet. `spaceless` are its runs of scripts without spaces."""

    parts: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    wholes: list[str] = field(default_factory=list)
    spaceless: list[str] = field(default_factory=list)
    symbolic: bool = False

    def tokens(self) -> Iterator[str]:
        """Return all tokens that are indexed."""
        grams = (chain(run, pairs(run)) for run in self.spaceless)
        return chain(self.parts, self.joined, self.wholes, chain.from_iterable(grams))

    @property
    def asked(self) -> int:
        """The number of tokens that a query asks for."""
        return len(self.parts) + len(self.joined) + len(self.wholes) + sum(map(len, self.spaceless))

    def shortened(self, limit: int) -> Compound:
        """Return this compound, or parts of it from both its ends, with at most `limit` tokens in a query."""
        if self.asked <= limit:
            return self
        first, last = (limit + 1) // 2, limit // 2
        if self.parts:
            return Compound(
                self.parts if len(self.parts) <= limit else [*self.parts[:first], *self.parts[len(self.parts) - last :]]
            )
        text = "".join(self.spaceless)
        return Compound(spaceless=[end for end in (text[:first], text[len(text) - last :]) if end])


def is_simple(word: str) -> bool:
    """Tell whether a word has no parts: ASCII letters without a case boundary, no more than one compound may have."""
    return len(word) <= LONGEST and word.isascii() and word.isalpha() and (word.islower() or word[1:].islower() or word.isupper())


def pairs(run: str) -> Iterator[str]:
    """Return the pairs of neighbouring characters."""
    return map(add, run, run[1:])


def compounds(chunk: str) -> Iterator[Compound]:
    """Yield the compounds of a text without white space, in order, then its signs outside ASCII."""
    for piece in plain(chunk).split():
        found = False
        for match in COMPOUND.finditer(piece):
            compound = _compound(match.group())
            if compound is not None:
                found = True
                yield compound
        if not piece.isascii():
            for symbol in filter(is_symbol, NOT_ASCII_SYMBOL.findall(piece)):
                yield Compound([symbol])
        elif not found and _OPERATOR.fullmatch(piece) and _OPERATOR_CORE.search(piece):
            yield Compound([piece])


def _compound(text: str) -> Compound | None:
    if "'" in text:
        text = CONTRACTION.sub("", text)
    runs = list(RUN.finditer(text))
    if not runs:
        return None
    result = Compound()
    neighbours: list[str] = []
    for match in runs:
        run = match.group()
        if _SPACELESS_RUN.match(run):
            _join(neighbours, result)
            neighbours = []
            result.spaceless.append(run)
        else:
            parts = [_fold(part) for part in _parts(run)]
            neighbours.extend(parts)
            result.parts.extend(parts)
            if len(parts) > MAX_JOINED:
                result.wholes.append(_fold(run))
    _join(neighbours, result)
    if result.parts:
        _add_wholes(text, runs[0].start(), runs[-1].end(), result)
    return result


def _join(parts: Sequence[str], result: Compound) -> None:
    for length in range(2, min(MAX_JOINED, len(parts)) + 1):
        result.joined.extend("".join(parts[at : at + length]) for at in range(len(parts) - length + 1))


def _add_wholes(text: str, start: int, end: int, result: Compound) -> None:
    core = _fold(text[start:end])
    if core not in (*result.parts, *result.joined, *result.wholes):
        result.wholes.append(core)
    before, after = _PREFIX.search(text[:start]), _SUFFIX.match(text, end)
    prefix, suffix = before.group() if before else "", after.group() if after else ""
    if "*" in suffix and "*" in text[:start]:
        suffix = ""
    if prefix or suffix:
        result.wholes.append(prefix + core + suffix)
        result.symbolic = prefix == "." or suffix[:1] in ("+", "#")


def _parts(run: str) -> Iterable[str]:
    """Return the parts of a run of letters and digits, cut at digit, case and script boundaries."""
    parts = [part for piece in ([run] if run.isascii() else SCRIPT.findall(run)) for part in _cases(piece)]
    return parts if len(parts) <= _MAX_BOUNDARIES else [run]


def _cases(word: str) -> list[str]:
    if word.isascii():
        return ASCII_PART.findall(word)
    if word.islower() or word.isupper() or word[1:].islower() or not (word.upper() != word or word.lower() != word):
        return [word]
    cuts = [0]
    for at in range(1, len(word)):
        rises = word[at].isupper() and not word[at - 1].isupper()
        ends = word[at].islower() and word[at - 1].isupper() and at - 1 > cuts[-1]
        if rises or ends:
            cuts.append(at if rises else at - 1)
    return [word[a:b] for a, b in zip(cuts, [*cuts[1:], len(word)], strict=True)]


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else text.casefold()
