"""The one analyser: text into encoded index tokens, the same for every store, for what is stored and for what is asked.

A text is cut at white space and at characters that end a compound. Each compound is indexed in its parts (also at
letter/digit, case and script boundaries), as every run of up to four neighbouring parts joined, and whole as it is written.
Plain words are stemmed. Scripts without spaces are indexed by single characters and by pairs; a query asks for the pairs, and
for the character only where it stands alone.

A token is encoded so that no tokenizer of a database splits or changes it: lower-case ASCII letters and digits stand as they
are; everything else is the escape prefix and the hexadecimal form of its UTF-8 bytes; tokens that would be longer than 64
characters are hashed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from hermes_mnemosyne.recall.characters import TERMINAL_CODE
from hermes_mnemosyne.recall.compounds import MAX_JOINED, Compound, compounds, is_simple, pairs
from hermes_mnemosyne.recall.stemming import stem
from hermes_mnemosyne.recall.words import STOP_WORDS
from hermes_mnemosyne.store.spoken import spoken

ANALYSER_VERSION = 1
MAX_TEXT_TOKENS = 2_000_000
"""Tokens indexed of one text; about 12 MB of English prose. What comes later in the text is stored but not searchable."""
MAX_QUERY_CHARS = 16_384
"""Characters of a query that are analysed: half of them from its beginning, half from its end."""
MAX_QUERY_WORDS = 256
"""Different words of a query that are analysed, the first and the last ones; stop words are not counted."""
MAX_QUERY_TERMS = 384
"""Terms that the words of a query may become."""

ESCAPE = "zq"
_MAX_TOKEN = 64
_CACHED_LENGTH = 64
_CACHE_SIZE = 32_768
_BATCH = 4_096
_OUTER_LEFT, _OUTER_RIGHT = "\"'([{<`,;:!?", "\"')]}>`,.;:!?"
_PLAIN_WORD = re.compile(r"[a-z]{3,64}")
_PLAIN_TOKEN = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """The terms of one word or compound of a query.

    A row holds the group when it holds one of `wholes`; else the share of `parts` that it holds counts, halved when
    `symbolic`: the compound differs from its parts by a sign (`C++`). `joined` are neighbouring parts written as one, which
    help the search and prove nothing.
    """

    parts: tuple[str, ...]
    wholes: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    stop: bool = False
    symbolic: bool = False


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """An analysed query: `terms` without repetition in the order of the text.

    `weak` holds the terms that select nothing on their own: stop words, and single letters or digits within a compound. `cut`
    tells that a part of the query was left out.
    """

    terms: tuple[str, ...] = ()
    groups: tuple[QueryGroup, ...] = ()
    weak: frozenset[str] = frozenset()
    cut: bool = False


class _Cache(dict[str, str]):
    """A bounded dictionary that computes what it does not hold; emptied when full, which costs less than keeping an order."""

    def __init__(self, compute: Callable[[str], str], longest: int = _CACHED_LENGTH) -> None:
        super().__init__()
        self._compute = compute
        self._longest = longest

    def __missing__(self, key: str) -> str:
        value = self._compute(key)
        if len(key) <= self._longest:
            if len(self) >= _CACHE_SIZE:
                self.clear()
            self[key] = value
        return value


def encode(token: str) -> str:
    """Return a folded token as ASCII letters and digits; different tokens stay different."""
    if _PLAIN_TOKEN.fullmatch(token) and not token.startswith(ESCAPE):
        encoded = token
    else:
        encoded = ESCAPE + token.encode("utf-8", "surrogatepass").hex()
    if len(encoded) > _MAX_TOKEN:
        # "h" is no hexadecimal digit, so that a hash is never the escaped form of another token.
        encoded = f"{ESCAPE}h{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
    return encoded


class TextAnalyser:
    """Turns texts into index tokens and queries into terms. Safe from any thread."""

    version = ANALYSER_VERSION

    def __init__(self) -> None:
        """Start with empty caches."""
        self._words = _Cache(self._encode_word)
        self._chunks = _Cache(self._encode_chunk)

    # -- what is stored ----------------------------------------------------------------------------------------------------------

    def entry_tokens(self, content: str, tags: Sequence[str]) -> str:
        """Return the encoded tokens of an entry, its tags after its text."""
        return self._tokens(f"{content} {' '.join(tags)}" if tags else content)

    def turn_tokens(self, content: str, speaker: str, occurred_at: str | None) -> str:
        """Return the encoded tokens of a turn: speaker, date in words (of UTC text), text."""
        return self._tokens(spoken(content, speaker, occurred_at))

    def _tokens(self, text: str) -> str:
        chunks = _without_codes(text).split()
        if len(chunks) <= _BATCH:
            tokens = " ".join(filter(None, map(self._chunks.__getitem__, chunks)))
            return _first_tokens(tokens, MAX_TEXT_TOKENS) if len(tokens) > MAX_TEXT_TOKENS else tokens
        pieces: list[str] = []
        room = MAX_TEXT_TOKENS
        for start in range(0, len(chunks), _BATCH):
            tokens = " ".join(filter(None, map(self._chunks.__getitem__, chunks[start : start + _BATCH])))
            if not tokens:
                continue
            pieces.append(_first_tokens(tokens, room))
            room -= tokens.count(" ") + 1
            if room <= 0:
                break
        return " ".join(pieces)

    def _encode_chunk(self, chunk: str) -> str:
        word = chunk.lstrip(_OUTER_LEFT).rstrip(_OUTER_RIGHT)
        if is_simple(word):
            return self._words[word.lower()]
        words = self._words
        tokens = chain.from_iterable(compound.tokens() for compound in compounds(chunk))
        return " ".join(words[token] for token in islice(tokens, MAX_TEXT_TOKENS))

    def _encode_word(self, word: str) -> str:
        """Return the encoded token of one folded token, stemmed where it is a plain word."""
        return encode(stem(word) if _PLAIN_WORD.fullmatch(word) else word)

    # -- what is asked -----------------------------------------------------------------------------------------------------------

    def analyse_query(self, text: str) -> QueryTerms:
        """Return the terms of a query; work and result are bounded whatever the length of the text."""
        chunks, cut = _query_chunks(text)
        found, short = _head_and_tail([compound for chunk in chunks for compound in compounds(chunk)], MAX_QUERY_TERMS)
        groups: dict[QueryGroup, None] = {}
        weak: set[str] = set()
        strong: set[str] = set()
        for compound in found:
            groups.update(dict.fromkeys(self._groups(compound, weak, strong)))
        terms = dict.fromkeys(term for group in groups for term in chain(group.wholes, group.joined, group.parts))
        return QueryTerms(tuple(terms), tuple(groups), frozenset(weak - strong), cut or short)

    def _groups(self, compound: Compound, weak: set[str], strong: set[str]) -> Iterator[QueryGroup]:
        words = self._words
        for run in compound.spaceless:
            for gram in (run,) if len(run) == 1 else pairs(run):
                strong.add(words[gram])
                yield QueryGroup((words[gram],))
        parts = [words[part] for part in compound.parts]
        if not parts:
            return
        if len(parts) == 1 and not compound.wholes:
            stop = compound.parts[0] in STOP_WORDS
            (weak if stop else strong).add(parts[0])
            yield QueryGroup((parts[0],), stop=stop)
            return
        full, joined = compound.wholes, compound.joined
        if len(compound.parts) <= MAX_JOINED and joined and not compound.spaceless:
            full, joined = [*full, joined[-1]], joined[:-1]
        solid = {words[part] for part in compound.parts if len(part) > 1 and part not in STOP_WORDS}
        strong.update(solid or parts, map(words.__getitem__, chain(full, joined)))
        weak.update(part for part in parts if solid and part not in solid)
        yield QueryGroup(
            parts=_distinct(parts),
            wholes=_distinct(map(words.__getitem__, full)),
            joined=_distinct(map(words.__getitem__, joined)),
            symbolic=compound.symbolic,
        )


def _without_codes(text: str) -> str:
    return TERMINAL_CODE.sub(" ", text) if "\x1b" in text else text


def _first_tokens(tokens: str, limit: int) -> str:
    if tokens.count(" ") < limit:
        return tokens
    return " ".join(tokens.split(" ", limit)[:limit])


def _query_chunks(text: str) -> tuple[list[str], bool]:
    """Return the different words of a query, from both its ends when it is long, and whether some were left out."""
    cut = len(text) > MAX_QUERY_CHARS
    half = MAX_QUERY_CHARS // 2
    if cut:
        text = f"{text[:half]} {text[-half:]}"
    chunks = list(dict.fromkeys(_without_codes(text).split()))
    if len(chunks) <= MAX_QUERY_WORDS:
        return chunks, cut
    chunks = [chunk for chunk in chunks if chunk.strip(".,;:!?").lower() not in STOP_WORDS]
    if len(chunks) <= MAX_QUERY_WORDS:
        return chunks, cut
    return chunks[: MAX_QUERY_WORDS // 2] + chunks[-MAX_QUERY_WORDS // 2 :], True


def _head_and_tail(found: Sequence[Compound], limit: int) -> tuple[list[Compound], bool]:
    """Return the compounds whose terms fit into `limit`, taken alternately from both ends, and whether something was left out.

    Work is saved before a term is stemmed and encoded, which costs most.
    """
    if sum(compound.asked for compound in found) <= limit:
        return list(found), False
    chosen: dict[int, Compound] = {}
    left, right = 0, len(found) - 1
    while left <= right and limit > 0:
        index = left if len(chosen) % 2 == 0 else right
        chosen[index] = found[index].shortened((limit + 1) // 2)
        limit -= chosen[index].asked
        left, right = (left + 1, right) if index == left else (left, right - 1)
    return [chosen[index] for index in sorted(chosen)], True


def _distinct(tokens: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tokens))
