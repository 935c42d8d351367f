"""By what a model is known: its vectors of probe texts, whatever its name; and how alike it finds texts that are not."""

from __future__ import annotations

import hashlib
import math
import statistics
import time
from collections.abc import Sequence
from operator import mul

from hermes_mnemosyne._errors import EmbeddingError
from hermes_mnemosyne.embed.protocol import Embedder

# Of twelve walks of life, so that no two have to do with each other. They are part of what stores hold: they may never change.
PROBES = (
    "The bakery on the corner sells rye bread until noon.",
    "Restart the database service after changing its port.",
    "My sister plays the cello in a string quartet.",
    "The train to the coast was forty minutes late.",
    "He prefers short answers without pleasantries.",
    "Her knee still hurts when she climbs stairs.",
    "We signed the lease for the new office in spring.",
    "Tomatoes need sun and very little water.",
    "The goalkeeper saved two penalties in the final.",
    "Interest rates rose by a quarter of a percent.",
    "The telescope showed the rings of a distant planet.",
    "Wool shrinks when it is washed too hot.",
)
_SAME = 0.97


def probe(embedder: Embedder, *, timeout: float | None = None) -> tuple[tuple[float, ...], ...]:
    """Return the vectors of the probe texts, in `timeout` seconds. Raises EmbeddingError."""
    until = None if timeout is None else time.monotonic() + timeout
    return tuple(_probed(embedder, PROBES, until))


def _probed(embedder: Embedder, texts: Sequence[str], until: float | None) -> list[tuple[float, ...]]:
    """Return the vectors of some texts; an embedder that does not take so many at once is asked for fewer."""
    timeout = None if until is None else max(until - time.monotonic(), 0.0)
    try:
        return [tuple(vector) for vector in embedder.embed(texts, "document", timeout=timeout)]
    except EmbeddingError as error:
        if error.retryable or not error.about_text:
            raise
        if len(texts) == 1:
            # Of these texts none is at fault.
            raise EmbeddingError(f"{embedder.name} cannot be used: {error}") from error
    middle = len(texts) // 2
    return _probed(embedder, texts[:middle], until) + _probed(embedder, texts[middle:], until)


def same(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> bool:
    """Tell whether two models gave these probe vectors so alike that their vectors may be compared with each other.

    Other arithmetic of the same weights gives cosines above 0.99, another model or version next to none.
    """
    if len(first) != len(second) or not first:
        return False
    return all(len(a) == len(b) and _cosine(a, b) >= _SAME for a, b in zip(first, second, strict=True))


def floor_of(probes: Sequence[Sequence[float]]) -> float:
    """Return the cosine that texts which have nothing to do with each other rarely reach: mean plus two deviations."""
    pairs = [_cosine(first, second) for number, first in enumerate(probes) for second in probes[number + 1 :]]
    if not pairs:
        return 0.0
    return min(0.95, statistics.fmean(pairs) + 2.0 * statistics.pstdev(pairs))


def key_of(name: str, probes: Sequence[Sequence[float]]) -> str:
    """Return a key for a model: its name, dimension and the signs of its probe vectors."""
    bits = "".join("1" if value > 0 else "0" for vector in probes for value in vector)
    return f"{name}/{len(probes[0])}/{hashlib.sha256(bits.encode()).hexdigest()[:12]}"


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    length = math.hypot(*first) * math.hypot(*second)
    return sum(map(mul, first, second)) / length if length else 0.0
