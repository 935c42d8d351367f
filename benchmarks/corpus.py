"""The seeded corpus of all benchmarks: rows and questions that look like an agent's memory.

Everything follows from `seed` and the row's number: row 17 is the same text whatever the size of the corpus, on every machine and
Python. Nothing here knows how Mnemosyne cuts or stems words, so the corpus cannot flatter it.

A corpus of size N has N rows in one big theme and N/2 more, skewed, in 200 small ones. Words are pronounceable inventions under a
Zipf law, mixed with English function words, inflected now and then; a third of the rows hold identifiers (error codes, code names,
paths, versions, addresses, hosts); some rows are Chinese, Japanese or Korean.
"""

# ruff: noqa: PLR2004, S311, SIM905 -- the odds stand where they are drawn, nothing here is secret, and word lists read best as text
from __future__ import annotations

import bisect
import hashlib
import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

QueryKind = Literal["natural", "identifier", "frequent", "none", "cjk"]

SHARES: dict[QueryKind, float] = {"natural": 0.4, "identifier": 0.2, "frequent": 0.2, "none": 0.1, "cjk": 0.1}
MAIN_THEME = "main"
SMALL_THEMES = 200
MIN_BYTES, MAX_BYTES = 40, 14_000

# English function words in falling frequency; they are about half of running text.
FUNCTION_WORDS = (
    "the of and to a in is that for it with was on as be by at this have from or had not are but we they which an you were all "
    "her she there would their will when who him been has more if no out so what up its about into than them can only other time "
    "some could these two may then do first any my now such like our over me even most after also did many before must through "
    "where your well should because each just those how too very here between both while never again still since"
).split()
QUESTIONS = (
    "what did we decide about {0} and {1}?",
    "when was the {0} changed after the {1} in {2}?",
    "do you remember which {0} has the {1}?",
    "how did {0} end up with {1} and the {2}?",
    "who told us about {0}, {1} and {2}?",
    "is there anything about the {0} of {1}?",
    "why does {0} not like the {1} with {2}?",
    "where can I find the {0} for {1}?",
)
NOTHING = ("what do we know about {0}?", "{0} {1}", "when did the {0} meet {1}?", "{0}", "is there a note on {0} and the {1}?")

_ONSETS = (
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "w",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "oo")
_CODAS = ("", "", "", "n", "r", "l", "m", "k", "nd", "st", "p", "t")
_ENDINGS = ("on", "ar", "ock", "and", "im", "ul", "orn", "ap", "ent", "ick", "ull", "arm", "ond", "ump")
_CODES = ("ERR", "OPS", "INC", "BUG", "RFC")
_FOREIGN_ONSETS = ("zv", "xq", "wz", "qh", "vx", "zg")
_VOCABULARY = 30_000
_TOPICS, _TOPIC_WORDS, _TOPIC_RANKS = 200, 60, 3_000
_RARE_RANK = 400
_FREQUENT_RANKS = 25
_CJK_SHARE = 0.04
_IDENTIFIER_SHARE = 0.33


@dataclass(frozen=True, slots=True)
class Row:
    """One text of the corpus; `identifiers` are the code-like tokens put into it, `cjk` tells a row without spaces."""

    number: int
    theme: str
    text: str
    identifiers: tuple[str, ...] = ()
    cjk: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One question; `target` is the number of the row it was made from (None when nothing answers it)."""

    kind: QueryKind
    text: str
    target: int | None = None


class Zipf:
    """Draws ranks 0 to `size` - 1 with a probability proportional to 1 / (rank + `offset`) ** `exponent`."""

    def __init__(self, size: int, exponent: float, offset: float = 2.7) -> None:
        """Prepare the cumulative weights."""
        self.size = size
        self._cumulative = list(itertools.accumulate((rank + offset) ** -exponent for rank in range(size)))

    def draw(self, rng: random.Random) -> int:
        """Return one rank."""
        return min(bisect.bisect(self._cumulative, rng.random() * self._cumulative[-1]), self.size - 1)


class Corpus:
    """The rows and questions of one seed and size."""

    def __init__(self, size: int, seed: int = 2026) -> None:
        """Build the vocabulary; `size` is the number of rows of the big theme."""
        self.size, self.seed = size, seed
        rng = self._rng("vocabulary")
        self.words = _vocabulary(rng, _VOCABULARY)
        self.cjk_words = _cjk_vocabulary(rng, 2_000)
        # Exponent and offset are chosen so that new words turn up as in technical English: about 700 different words in 2,000,
        # 1,900 in 10,000, 8,000 in 100,000; the most frequent word of a topic, like a person's name, stands in a sixth of the rows.
        self._word_ranks = Zipf(_VOCABULARY, 1.5, 30)
        self._function_ranks = Zipf(len(FUNCTION_WORDS), 0.8)
        self._cjk_ranks = Zipf(len(self.cjk_words), 0.9)
        self._theme_ranks = Zipf(SMALL_THEMES, 1.0, 1)
        self._topics = [[rng.randrange(50, _TOPIC_RANKS) for _ in range(_TOPIC_WORDS)] for _ in range(_TOPICS)]

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits over seed, size and sample texts: equal fingerprints mean equal corpora."""
        sample = "\x00".join(self.row(number).text for number in range(0, self.size, max(1, self.size // 64)))
        return hashlib.sha256(f"{self.seed}\x00{self.size}\x00{sample}".encode()).hexdigest()[:16]

    def main(self) -> Iterator[Row]:
        """Yield the rows of the big theme, numbered from 0."""
        return (self.row(number) for number in range(self.size))

    def others(self) -> Iterator[Row]:
        """Yield the rows of the small themes, numbered from `size` up."""
        for number in range(self.size, self.size + self.size // 2):
            theme = self._theme_ranks.draw(self._rng("theme", number))
            yield self.row(number, f"theme-{theme:03d}")

    def short(self, count: int) -> list[str]:
        """Return `count` distinct texts of a sentence or two, 40 to 370 bytes, none of them a row of the corpus."""
        texts: dict[str, None] = {}
        numbers = itertools.count()
        while len(texts) < count:
            rng = self._rng("short", next(numbers))
            texts[self._latin(rng, int(rng.triangular(40, 250, 90)), [])] = None
        return list(texts)

    def sized(self, count: int, size: int) -> list[str]:
        """Return `count` distinct texts of about `size` bytes."""
        return [self._latin(self._rng("sized", size, number), size, []) for number in range(count)]

    def row(self, number: int, theme: str = MAIN_THEME) -> Row:
        """Return one row; its text depends on the seed and the number only."""
        rng = self._rng("row", number)
        length = _length(rng)
        names = self._identifiers_of(number)
        if rng.random() < _CJK_SHARE:
            return Row(number, theme, self._cjk(rng, min(length, 1_500), names), names, cjk=True)
        return Row(number, theme, self._latin(rng, length, list(names)), names)

    def queries(self, count: int, salt: str = "") -> list[Query]:
        """Return `count` questions in the shares of `SHARES`, shuffled; another `salt` gives other questions."""
        makers: dict[QueryKind, Callable[[random.Random], Query]] = {
            "natural": self._ask_natural,
            "identifier": self._ask_identifier,
            "frequent": self._ask_frequent,
            "none": self._ask_nothing,
            "cjk": self._ask_cjk,
        }
        rng = self._rng("queries", salt)
        asked = [makers[kind](rng) for kind, share in SHARES.items() for _ in range(round(count * share))]
        rng.shuffle(asked)
        return asked

    def theme_queries(self, count: int, salt: str = "") -> list[tuple[str, Query]]:
        """Return `count` natural questions to the small themes, each with the theme that holds its answer."""
        rng = self._rng("theme-queries", salt)
        found: list[tuple[str, Query]] = []
        while len(found) < count:
            number = rng.randrange(self.size, self.size + self.size // 2)
            theme = self._theme_ranks.draw(self._rng("theme", number))
            if query := self._question_about(rng, number):
                found.append((f"theme-{theme:03d}", query))
        return found

    # -- texts -------------------------------------------------------------------------------------------------------------------

    def _rng(self, *parts: object) -> random.Random:
        return random.Random(":".join(map(str, (self.seed, *parts))))

    def _latin(self, rng: random.Random, length: int, names: list[str]) -> str:
        topic = self._topics[rng.randrange(_TOPICS)]
        out: list[str] = []
        used = 0
        while used <= length or names:
            sentence = self._sentence(rng, topic)
            if names:
                sentence.insert(rng.randrange(1, len(sentence) + 1), names.pop())
            text = " ".join(sentence) + rng.choice((".", ".", ".", "!", "?", ";"))
            out.append(text[0].upper() + text[1:])
            used += len(text) + 1
        joined = "".join(text + (rng.choice(("\n", "\n\n")) if rng.random() < 0.08 else " ") for text in out).strip()
        return joined.encode()[:MAX_BYTES].decode(errors="ignore")

    def _sentence(self, rng: random.Random, topic: list[int]) -> list[str]:
        words: list[str] = []
        for _ in range(rng.randrange(5, 16)):
            kind = rng.random()
            if kind < 0.48:
                words.append(FUNCTION_WORDS[self._function_ranks.draw(rng)])
            elif kind < 0.5:
                words.append(str(rng.randrange(2, 2_100)))
            else:
                rank = topic[int(len(topic) * rng.random() ** 2)] if kind < 0.63 else self._word_ranks.draw(rng)
                words.append(_inflect(rng, self.words[rank]))
        return words

    def _cjk(self, rng: random.Random, length: int, names: tuple[str, ...]) -> str:
        tongue = rng.choices(("zh", "ja", "ko"), (6, 3, 2))[0]
        out: list[str] = list(names[:1])
        used = 0
        while used < length:
            word = self.cjk_words[self._cjk_ranks.draw(rng)]
            glue = {"zh": rng.choice(("", "", "的", "和", "在")), "ja": rng.choice(("", "の", "は", "を", "です。")), "ko": " "}[
                tongue
            ]
            text = ("".join(_hangul(character) for character in word) if tongue == "ko" else word) + glue
            out.append(text + ("。" if rng.random() < 0.08 else ""))
            used += len(text.encode())
        return "".join(out)

    def _identifiers_of(self, number: int) -> tuple[str, ...]:
        rng = self._rng("names", number)
        if rng.random() >= _IDENTIFIER_SHARE:
            return ()
        # Half of the mentions are of something that an earlier row named first.
        owner = number if number == 0 or rng.random() < 0.5 else rng.randrange(number)
        return (self.identifier(owner),)

    def identifier(self, number: int) -> str:
        """Return the identifier that belongs to a row number."""
        rng = self._rng("identifier", number)
        a, b, c = (self.words[self._word_ranks.draw(rng)] for _ in range(3))
        forms = (
            lambda: f"{rng.choice(_CODES)}-{number + 1_000}",
            lambda: f"{a}_{b}_{c}",
            lambda: f"{a}{b.capitalize()}{c.capitalize()}",
            lambda: f"/srv/{a}/{b}/{c}_{number % 97}.py",
            lambda: f"v{number % 23}.{number % 101}.{number}",
            lambda: f"{a}.{b}@{c}.example.org",
            lambda: f"{a}-{number % 50:02d}.{b}.internal",
            lambda: f"https://{a}.example.com/{b}/{number}",
            lambda: hashlib.sha256(f"{self.seed}:{number}".encode()).hexdigest()[:12],
        )
        return rng.choice(forms)()

    # -- questions ---------------------------------------------------------------------------------------------------------------

    def _ask_natural(self, rng: random.Random) -> Query:
        while True:
            if query := self._question_about(rng, rng.randrange(self.size)):
                return query

    def _question_about(self, rng: random.Random, number: int) -> Query | None:
        row = self.row(number)
        known = {word for word in _plain_words(row.text) if word in self._ranks}
        rare = sorted(word for word in known if self._ranks[word] >= _RARE_RANK)
        if row.cjk or not rare or len(known) < 3:
            return None
        first = rng.choice(rare)
        others = rng.sample(sorted(known - {first}), 2)
        picked = [_inflect(rng, word) if rng.random() < 0.3 else word for word in (first, *others)]
        rng.shuffle(picked)
        form = rng.choice(QUESTIONS)
        if "{2}" not in form and first[:4] not in picked[0] + picked[1]:
            picked[0] = first
        return Query("natural", form.format(*picked), number)

    def _ask_identifier(self, rng: random.Random) -> Query:
        while True:
            number = rng.randrange(self.size)
            row = self.row(number)
            # A cut text may have lost its identifier.
            if names := [name for name in row.identifiers if name in row.text]:
                name = rng.choice(names)
                text = name if rng.random() < 0.6 else f"what was the problem with {name}"
                return Query("identifier", text, number)

    def _ask_frequent(self, rng: random.Random) -> Query:
        words = [self.words[rng.randrange(_FREQUENT_RANKS)] for _ in range(rng.choice((1, 2, 2, 3)))]
        text = " ".join(dict.fromkeys(words))
        return Query("frequent", text if rng.random() < 0.5 else f"what about the {text}")

    def _ask_nothing(self, rng: random.Random) -> Query:
        words = [rng.choice(_FOREIGN_ONSETS) + _word(rng) + rng.choice(_FOREIGN_ONSETS) + "o" for _ in range(2)]
        return Query("none", rng.choice(NOTHING).format(*words))

    def _ask_cjk(self, rng: random.Random) -> Query:
        while True:
            number = rng.randrange(self.size)
            row = self.row(number)
            runs = [run for run in _cjk_runs(row.text) if len(run) >= 4] if row.cjk else []
            if runs:
                picks = rng.sample(runs, 2) if len(runs) > 1 and rng.random() < 0.5 else [rng.choice(runs)]
                parts: list[str] = []
                for run in picks:
                    start = rng.randrange(len(run) - 3)
                    parts.append(run[start : start + rng.choice((2, 3, 4))])
                return Query("cjk", " ".join(parts), number)

    @property
    def _ranks(self) -> dict[str, int]:
        found: dict[str, int] | None = self.__dict__.get("_rank_table")
        if found is None:
            found = self.__dict__["_rank_table"] = {word: rank for rank, word in enumerate(self.words)}
        return found


def _word(rng: random.Random) -> str:
    syllables = (rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(rng.choice((1, 1, 2, 2, 3))))
    return "".join(syllables) + rng.choice(_ENDINGS)


def _vocabulary(rng: random.Random, size: int) -> list[str]:
    taken = set(FUNCTION_WORDS)
    words: list[str] = []
    while len(words) < size:
        word = _word(rng)
        if word not in taken:
            taken.add(word)
            words.append(word)
    return words


def _cjk_vocabulary(rng: random.Random, size: int) -> list[str]:
    characters = rng.sample([chr(code) for code in range(0x4E00, 0x8000)], 1_200)
    ranks = Zipf(len(characters), 0.7)
    words: dict[str, None] = {}
    while len(words) < size:
        words["".join(characters[ranks.draw(rng)] for _ in range(rng.choice((1, 2, 2, 2, 3))))] = None
    return list(words)


def _hangul(character: str) -> str:
    return chr(0xAC00 + (ord(character) * 37) % 11_172)


def _length(rng: random.Random) -> int:
    """Return a length in bytes: half under about 180, one in two hundred a long document."""
    if rng.random() < 0.005:
        return int(math.exp(rng.uniform(math.log(3_000), math.log(MAX_BYTES))))
    return max(MIN_BYTES, min(MAX_BYTES, int(rng.lognormvariate(math.log(180), 0.9))))


def _inflect(rng: random.Random, word: str) -> str:
    kind = rng.random()
    return word + ("s" if kind < 0.08 else "ed" if kind < 0.11 else "ing" if kind < 0.14 else "")


def _plain_words(text: str) -> list[str]:
    return [word for chunk in text.lower().split() if (word := chunk.strip(".,;:!?")).isalpha()]


def _cjk_runs(text: str) -> list[str]:
    return ["".join(group) for wide, group in itertools.groupby(text, lambda c: ord(c) > 0x2E80 and c not in "。、") if wide]
