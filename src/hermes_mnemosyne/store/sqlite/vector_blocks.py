"""Vectors held in memory, in blocks that never change, and the search for those that may be nearest.

A kernel is a way of holding them: whole vectors or sketches with numpy, sketches as Python's integers without. All give rows in order
of a rough distance; the caller looks at these exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import lt
from typing import Any, Protocol

from hermes_mnemosyne.store.sqlite.vector_math import WORD_BITS, numpy, sketch_of

# float32 products of unit vectors differ from the exact ones by less.
_ROUGH = 1e-5
# More pieces than this are cheaper gathered into one than each by itself.
_MOST_PIECES = 16


@dataclass(frozen=True, slots=True)
class Block:
    """Vectors in order of their row numbers, one per row: the rows, their stamps, and what the kernel holds of each."""

    rows: Any
    stamps: Any
    codes: Any

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rows a search may return: those in the ranges, or the `allowed` among them; never the `forbidden`.

    `allowed` and `forbidden` are in order.
    """

    ranges: Sequence[tuple[int, int]]
    forbidden: Sequence[int] = ()
    allowed: Sequence[int] | None = None


Found = list[tuple[int, int]]
"""Rows with the stamps of their vectors."""


class Kernel(Protocol):
    """A way of holding vectors in memory."""

    whole: bool
    """Whether it holds whole vectors, so that its order is nearly exact, or sketches."""

    def block(self, rows: Sequence[int], stamps: Sequence[int], data: Sequence[bytes]) -> Block:
        """Return a block of vectors (BLOBs if whole, else sketches); of several of a row the last one."""
        ...

    def merged(self, blocks: Sequence[Block], dead: Iterable[int]) -> Block:
        """Return one block of all vectors without the dead stamps; of several of a row the latest."""
        ...

    def nearest(self, blocks: Sequence[Block], blob: bytes, choice: Choice, count: int) -> Found:
        """Return the `count` chosen rows nearest to a vector; fewer when there are no more.

        Sketches give them in order of their distance, then of their row numbers. Whole vectors give them in any order, with all
        others that can hardly be told from the farthest of them.
        """
        ...


class PlainSketches:
    """Sketches as integers, for processes without numpy."""

    whole = False

    def block(self, rows: Sequence[int], stamps: Sequence[int], data: Sequence[bytes]) -> Block:
        """Return a block of sketches."""
        codes = [int.from_bytes(sketch, "big") for sketch in data]
        return self._block(array("q", rows), array("q", stamps), codes)

    def merged(self, blocks: Sequence[Block], dead: Iterable[int]) -> Block:
        """Return one block of all."""
        rows, stamps, codes = array("q"), array("q"), []
        for block in blocks:
            rows += block.rows
            stamps += block.stamps
            codes += block.codes
        return self._block(rows, stamps, codes, frozenset(dead))

    @staticmethod
    def _block(rows: array[int], stamps: array[int], codes: list[int], dead: frozenset[int] = frozenset()) -> Block:
        if not dead and all(map(lt, rows, rows[1:])):
            return Block(rows, stamps, codes)  # as rows are given their vectors in order, the usual case
        items = sorted(item for item in zip(rows, stamps, codes, strict=True) if item[1] not in dead)
        latest = {row: (stamp, code) for row, stamp, code in items}
        return Block(
            array("q", latest), array("q", (stamp for stamp, _ in latest.values())), [code for _, code in latest.values()]
        )

    def nearest(self, blocks: Sequence[Block], blob: bytes, choice: Choice, count: int) -> Found:
        """Return the nearest by the number of different signs, equal ones by row number."""
        query = int.from_bytes(sketch_of(blob), "big")
        beyond = len(blob) * 8
        parts: list[tuple[Block, Sequence[int], list[int]]] = []
        for block in blocks:
            hidden = _places_of(block.rows, choice.forbidden)
            for places in _plain_pieces(block.rows, choice):
                codes = block.codes[places.start : places.stop] if isinstance(places, range) else [block.codes[n] for n in places]
                distances = [(code ^ query).bit_count() for code in codes]
                for place in hidden[bisect_left(hidden, places[0]) : bisect_right(hidden, places[-1])]:
                    at = bisect_left(places, place)
                    if places[at] == place:
                        distances[at] = beyond
                parts.append((block, places, distances))
        return _least_of(parts, count, beyond)


def _plain_pieces(rows: Sequence[int], choice: Choice) -> list[Sequence[int]]:
    """Return the places of the chosen rows: ranges of them, or one by one; no empty ones."""
    if choice.allowed is not None:
        places = _places_of(rows, choice.allowed)
        return [places] if places else []
    found = ((bisect_left(rows, low), bisect_right(rows, high)) for low, high in choice.ranges)
    return [range(start, stop) for start, stop in found if start < stop]


def _places_of(rows: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Return the places of those of the wanted rows that are there."""
    places = ((bisect_left(rows, row), row) for row in wanted)
    return [place for place, row in places if place < len(rows) and rows[place] == row]


def _least_of(parts: list[tuple[Block, Sequence[int], list[int]]], count: int, beyond: int) -> Found:
    numbers: Counter[int] = Counter()
    for _, _, distances in parts:
        numbers.update(distances)
    del numbers[beyond]
    total, last = 0, -1
    for last in sorted(numbers):
        total += numbers[last]
        if total >= count:
            break
    found = [
        (distance, block.rows[place], block.stamps[place])
        for block, places, distances in parts
        for place, distance in zip(places, distances, strict=True)
        if distance <= last
    ]
    return [(row, stamp) for _, row, stamp in sorted(found)[:count]]


class _Arrays(ABC):
    """What the kernels with numpy share: rows in order, chosen by pieces of a block."""

    def merged(self, blocks: Sequence[Block], dead: Iterable[int]) -> Block:
        """Return one block of all."""
        np = numpy()
        rows = np.concatenate([block.rows for block in blocks])
        stamps = np.concatenate([block.stamps for block in blocks])
        order = np.lexsort((stamps, rows))
        rows, stamps = rows[order], stamps[order]
        kept = np.append(rows[1:] != rows[:-1], values=True) if len(rows) else np.zeros(0, dtype=bool)
        gone = np.fromiter(dead, dtype=np.int64)
        if len(gone):
            kept &= ~np.isin(stamps, gone)
        order = order[kept]
        # Block by block, so that no more memory is taken than the result needs.
        places = np.full(sum(map(len, blocks)), -1)
        places[order] = np.arange(len(order))
        codes, start = self._empty(blocks[0], len(order)), 0
        for block in blocks:
            to = places[start : start + len(block)]
            self._put(codes, to[to >= 0], block.codes, to >= 0)
            start += len(block)
        return Block(rows[kept], stamps[kept], codes)

    @abstractmethod
    def _empty(self, like: Block, count: int) -> Any:
        """Return room for the codes of so many vectors."""

    @abstractmethod
    def _put(self, codes: Any, places: Any, source: Any, chosen: Any) -> None:
        """Copy the chosen codes of a block to these places."""

    @staticmethod
    def _pieces(block: Block, choice: Choice) -> list[Any]:
        """Return slices or arrays of places of the chosen rows."""
        np = numpy()
        rows = block.rows
        if choice.allowed is not None:
            wanted = np.asarray(choice.allowed, dtype=np.int64)
            places = np.searchsorted(rows, wanted)
            inside = places < len(rows)
            places, wanted = places[inside], wanted[inside]
            return [places[rows[places] == wanted]]
        if not choice.ranges:
            return []
        starts = np.searchsorted(rows, np.asarray([low for low, _ in choice.ranges], dtype=np.int64), side="left").tolist()
        stops = np.searchsorted(rows, np.asarray([high for _, high in choice.ranges], dtype=np.int64), side="right").tolist()
        joined: list[list[int]] = []
        for start, stop in sorted(zip(starts, stops, strict=True)):
            if joined and joined[-1][1] == start:
                joined[-1][1] = stop
            elif start < stop:
                joined.append([start, stop])
        if len(joined) > _MOST_PIECES:
            return [np.concatenate([np.arange(start, stop) for start, stop in joined])]
        return [slice(start, stop) for start, stop in joined]

    @staticmethod
    def _hide(block: Block, piece: Any, forbidden: Any, distances: Any, beyond: float) -> None:
        """Put the forbidden rows of a piece beyond all others."""
        np = numpy()
        places = np.searchsorted(block.rows, forbidden)
        inside = places < len(block.rows)
        places = places[inside][block.rows[places[inside]] == forbidden[inside]]
        if isinstance(piece, slice):
            places = places[(places >= piece.start) & (places < piece.stop)]
            distances[places - piece.start] = beyond
        else:
            distances[np.isin(piece, places)] = beyond


class NumpySketches(_Arrays):
    """Sketches as words of 64 bits, one array per word, so that each step of a search runs over memory in order."""

    whole = False

    def block(self, rows: Sequence[int], stamps: Sequence[int], data: Sequence[bytes]) -> Block:
        """Return a block of sketches."""
        np = numpy()
        words = np.frombuffer(b"".join(data), dtype=np.uint64).reshape(len(data), -1)
        codes = np.ascontiguousarray(words.T)
        made = Block(np.asarray(rows, dtype=np.int64), np.asarray(stamps, dtype=np.int64), codes)
        return self.merged([made], ())

    def _empty(self, like: Block, count: int) -> Any:
        return numpy().empty((len(like.codes), count), dtype=like.codes.dtype)

    def _put(self, codes: Any, places: Any, source: Any, chosen: Any) -> None:
        for into, word in zip(codes, source, strict=True):
            into[places] = word[chosen]

    def nearest(self, blocks: Sequence[Block], blob: bytes, choice: Choice, count: int) -> Found:
        """Return the nearest by the number of different signs, equal ones by row number."""
        np = numpy()
        query = np.frombuffer(sketch_of(blob), dtype=np.uint64)
        beyond = len(query) * WORD_BITS + 1
        forbidden = np.asarray(choice.forbidden, dtype=np.int64)
        parts = []
        numbers = np.zeros(beyond, dtype=np.int64)
        for block in blocks:
            for piece in self._pieces(block, choice):
                distances = np.zeros(len(block.rows[piece]), dtype=np.uint16)
                for word, bits in zip(block.codes, query, strict=True):
                    distances += _bit_counts(word[piece] ^ bits)
                if len(forbidden):
                    self._hide(block, piece, forbidden, distances, beyond)
                numbers += np.bincount(distances, minlength=beyond + 1)[:beyond]
                parts.append((block, piece, distances))
        last = int(np.searchsorted(np.cumsum(numbers), min(count, int(numbers.sum()))))
        return _pairs(parts, last)[:count]


class NumpyVectors(_Arrays):
    """Whole vectors, for stores whose vectors take little memory."""

    whole = True

    def block(self, rows: Sequence[int], stamps: Sequence[int], data: Sequence[bytes]) -> Block:
        """Return a block of vectors."""
        np = numpy()
        codes = np.frombuffer(b"".join(data), dtype="<f4").reshape(len(data), -1).astype(np.float32, copy=False)
        made = Block(np.asarray(rows, dtype=np.int64), np.asarray(stamps, dtype=np.int64), codes)
        return self.merged([made], ())

    def _empty(self, like: Block, count: int) -> Any:
        return numpy().empty((count, like.codes.shape[1]), dtype=like.codes.dtype)

    def _put(self, codes: Any, places: Any, source: Any, chosen: Any) -> None:
        codes[places] = source[chosen]

    def nearest(self, blocks: Sequence[Block], blob: bytes, choice: Choice, count: int) -> Found:
        """Return the nearest by cosine in float32, with those that are as near as can be told."""
        np = numpy()
        query = np.frombuffer(blob, dtype="<f4").astype(np.float32)
        forbidden = np.asarray(choice.forbidden, dtype=np.int64)
        parts = []
        for block in blocks:
            for piece in self._pieces(block, choice):
                # Not by BLAS, whose threads would compete with the agent for a product that memory bounds anyway.
                distances = -np.einsum("ij,j->i", block.codes[piece], query)
                if len(forbidden):
                    self._hide(block, piece, forbidden, distances, np.inf)
                parts.append((block, piece, distances))
        if not parts:
            return []
        every = np.concatenate([distances for _, _, distances in parts])
        every = every[every < np.inf]
        last = np.partition(every, count - 1)[count - 1] + _ROUGH if len(every) > count else 2.0
        return _pairs(parts, last)


def _pairs(parts: list[tuple[Block, Any, Any]], last: float) -> Found:
    """Return rows and stamps up to a distance, in order of distance and row number."""
    np = numpy()
    if not parts:
        return []
    chosen = [(block, piece, distances, (distances <= last).nonzero()[0]) for block, piece, distances in parts]
    near = np.concatenate([distances[where] for _, _, distances, where in chosen])
    rows = np.concatenate([block.rows[piece][where] for block, piece, _, where in chosen])
    stamps = np.concatenate([block.stamps[piece][where] for block, piece, _, where in chosen])
    order = np.lexsort((rows, near))
    return list(zip(rows[order].tolist(), stamps[order].tolist(), strict=True))


def _bit_counts(words: Any) -> Any:
    """Return the number of set bits of each word; numpy before version 2 cannot count them itself."""
    np = numpy()
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words)
    return _table()[words.view(np.uint16).reshape(len(words), 4)].sum(axis=1, dtype=np.uint16)


_counted: list[Any] = []


def _table() -> Any:
    """Return the number of set bits of every number of 16 bits."""
    np = numpy()
    if not _counted:
        numbers = np.arange(65536, dtype=np.uint32)
        _counted.append(sum((numbers >> bit & 1).astype(np.uint8) for bit in range(16)))
    return _counted[0]
