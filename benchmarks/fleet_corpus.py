"""What the fleet benchmark stores and asks: the rows of `corpus.py` in themes of a fleet, with clustered vectors.

Everything follows from the seed and the row's number, so a small corpus is the beginning of a large one. Vectors are like those of
`vectors.py`: clusters in 48 dimensions, turned into the model's, with noise of the same size.
"""

# ruff: noqa: S311 -- nothing here is secret
from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.corpus import SMALL_THEMES, Corpus, Zipf

SEED = 2026
Layout = Literal["seven", "many"]
Kind = Literal["natural", "identifier", "one frequent word", "frequent words"]
KINDS: tuple[Kind, ...] = ("natural", "identifier", "one frequent word", "frequent words")

# The themes of the measurement that the reference's figures come from, in percent of the rows.
SEVEN = {"alpha": 40.0, "beta": 30.0, "gamma": 20.0, "delta": 5.0, "epsilon": 4.0, "zeta": 0.9, "eta": 0.1}
_SESSION_TURNS = 100
_INTRINSIC, _CLUSTERS = 48, 200
_NOISE, _NEAR = 1.0, 0.6
_BLOCK = 10_000
_FREQUENT = 25
_FORMS = ("{}", "what about the {}", "{} again", "is there {}")


def theme_of(number: int, layout: Layout) -> str:
    """Return the theme of a row."""
    if layout == "seven":
        place = random.Random(f"{SEED}:seven:{number}").random() * 100
        cuts = list(itertools.accumulate(SEVEN.values()))
        return list(SEVEN)[min(bisect.bisect(cuts, place), len(cuts) - 1)]
    return f"theme-{_ranks().draw(random.Random(f'{SEED}:theme:{number}')):03d}"


def _ranks() -> Zipf:
    global _zipf  # noqa: PLW0603 - made once
    if _zipf is None:
        _zipf = Zipf(SMALL_THEMES, 1.0, 1)
    return _zipf


_zipf: Zipf | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """One row as it is stored: an entry where `session` is empty, else a turn."""

    number: int
    theme: str
    text: str
    session: str = ""

    @property
    def role(self) -> str:
        """Whose turn it is."""
        return ("user", "assistant")[self.number % 2]


class FleetCorpus:
    """`entries` entries and as many `turns` as asked for; a text stands at most once in a theme."""

    def __init__(self, entries: int, turns: int, layout: Layout) -> None:
        """Name a corpus; nothing is made before it is asked for."""
        self.entries, self.turns, self.layout = entries, turns, layout
        self.corpus = Corpus(entries + turns, SEED)

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.entries + self.turns

    def rows(self) -> Iterator[Stored]:
        """Yield rows by number: the entries, then the turns."""
        said: dict[str, int] = {}
        for number in range(self.size):
            theme = theme_of(number, self.layout)
            # The number makes the text one of its own.
            text = f"{self.corpus.row(number).text} #{number}"
            session = ""
            if number >= self.entries:
                count = said[theme] = said.get(theme, -1) + 1
                session = f"{theme}-{count // _SESSION_TURNS}"
            yield Stored(number, theme, text, session)

    def themes(self) -> list[str]:
        """Return the theme of each row."""
        return [theme_of(number, self.layout) for number in range(self.size)]

    def questions(self, kind: Kind, count: int, salt: str) -> list[tuple[str, int | None]]:
        """Return questions of a kind, each with the number of the row that it was made from, if it was."""
        if kind in {"natural", "identifier"}:
            asked: list[tuple[str, int | None]] = []
            for part in itertools.count():
                found = self.corpus.queries(max(40, 6 * count), f"{salt}:{part}")
                asked += [(query.text, query.target) for query in found if query.kind == kind]
                if len(asked) >= count:
                    return asked[:count]
        rng = random.Random(f"{SEED}:{kind}:{salt}")
        words = self.corpus.words[:_FREQUENT]
        if kind == "one frequent word":
            return [(_FORMS[turn % len(_FORMS)].format(rng.choice(words)), None) for turn in range(count)]
        return [(" ".join(rng.sample(words, rng.choice((2, 3, 4)))), None) for _ in range(count)]


class Clusters:
    """Unit vectors in clusters, of one dimension."""

    def __init__(self, dimension: int, seed: int = SEED) -> None:
        """Place the clusters."""
        import numpy as np

        self.dimension, self._seed = dimension, seed
        rng = np.random.default_rng(seed)
        self._turn = (rng.normal(size=(_INTRINSIC, dimension)) / np.sqrt(_INTRINSIC)).astype("<f4")
        self._centres = rng.normal(size=(_CLUSTERS, _INTRINSIC)).astype("<f4")

    def blocks(self, count: int) -> Iterator[Any]:
        """Yield the vectors of rows 0 to `count` - 1 in blocks."""
        for start in range(0, count, _BLOCK):
            yield self._unit(self._drawn(start // _BLOCK, _BLOCK))[: count - start]

    def rows(self, count: int) -> Any:
        """Return the vectors of rows 0 to `count` - 1."""
        import numpy as np

        return np.concatenate(list(self.blocks(count)))

    def save(self, count: int, file: Path) -> Path:
        """Write the vectors of rows 0 to `count` - 1 as float32."""
        with file.open("wb") as target:
            for block in self.blocks(count):
                target.write(block.tobytes())
        return file

    def queries(self, rows: Any, targets: Sequence[int | None], salt: int = 0) -> Any:
        """Return the vectors of questions: near that of the row they were made from, anywhere in a cluster where there is none."""
        import numpy as np

        rng = np.random.default_rng((self._seed, 1, salt))
        made = self._drawn(-1 - salt, len(targets))
        for place, target in enumerate(targets):
            if target is not None:
                row = np.asarray(rows[target])
                made[place] = row + _NEAR * rng.normal(size=self.dimension) * row.std()
        return self._unit(made)

    def _drawn(self, block: int, count: int) -> Any:
        import numpy as np

        rng = np.random.default_rng((self._seed, 2, block % (1 << 32)))
        inner = self._centres[rng.integers(0, _CLUSTERS, count)] + rng.standard_normal((count, _INTRINSIC), dtype="f4")
        return inner @ self._turn + _NOISE * rng.standard_normal((count, self.dimension), dtype="f4")

    @staticmethod
    def _unit(vectors: Any) -> Any:
        import numpy as np

        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4")


def exact(rows: Any, query: Any, numbers: Any, limit: int) -> list[int]:
    """Return the numbers of the nearest of some rows, best first."""
    import numpy as np

    scores = rows[numbers] @ query
    some = np.argpartition(-scores, min(limit, len(numbers)) - 1)[:limit] if len(numbers) > limit else np.arange(len(numbers))
    return [int(numbers[place]) for place in some[np.argsort(-scores[some], kind="stable")]]


def by_size(sizes: Sequence[int], edges: Sequence[int] = (100, 300, 1_000, 3_000, 10_000, 30_000)) -> Callable[[int], str]:
    """Return what names the class of a theme's size; only classes that some size falls into have a meaning."""
    cuts = [edge for edge in edges if any(size < edge for size in sizes) and any(size >= edge for size in sizes)]

    def named(size: int) -> str:
        place = bisect.bisect(cuts, size)
        low = f"{cuts[place - 1]:,}" if place else "1"
        return f"{low} to {cuts[place] - 1:,} rows" if place < len(cuts) else f"{low} rows and more"

    return named
