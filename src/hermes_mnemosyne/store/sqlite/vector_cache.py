"""What a process holds of the vectors of a file, kept up to date by the stamps that it has not seen."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass, field, replace

from hermes_mnemosyne import forks
from hermes_mnemosyne.store.sqlite.sql import statements
from hermes_mnemosyne.store.sqlite.vector_blocks import Block, Choice, Found, Kernel, NumpySketches, NumpyVectors, PlainSketches
from hermes_mnemosyne.store.sqlite.vector_math import numpy, numpy_if_loaded

# So much memory whole vectors may take; beyond it sketches are held.
WHOLE_BYTES = 8 * 1024 * 1024
# Up to this many vectors numpy is not worth the time and memory of its import.
FEW = 2_000
_READ = 512
# New vectors stay in a block of their own up to this many, or this part of the others.
_TAIL, _TAIL_PART = 1024, 16
_MODELS = 2


@dataclass(frozen=True, slots=True)
class View:
    """The vectors of one model as of one moment; only what is known of stamps that are gone grows.

    A vector that was deleted meanwhile is still in it: whoever searches looks for each stamp in the file.
    """

    kernel: Kernel
    blocks: tuple[Block, ...] = ()
    last: int = 0
    dead: set[int] = field(default_factory=set)

    @property
    def size(self) -> int:
        """The number of vectors held."""
        return sum(map(len, self.blocks))

    def nearest(self, blob: bytes, choice: Choice, count: int) -> Found:
        """Return about `count` of the nearest rows with their stamps, see `Kernel`."""
        return self.kernel.nearest(self.blocks, blob, choice, count) if self.blocks else []

    def with_block(self, block: Block, last: int) -> View:
        """Return the view with more vectors, in a block of their own while they are few."""
        if not self.blocks:
            return replace(self, blocks=(block,), last=last)
        tail = self.kernel.merged([*self.blocks[1:], block], ())
        return replace(self, blocks=(self.blocks[0], tail), last=last)

    def tidied(self) -> View:
        """Return the view as one block without what is known to be gone, where that has become much."""
        most = max(_TAIL, len(self.blocks[0]) // _TAIL_PART) if self.blocks else 0
        if sum(map(len, self.blocks[1:])) <= most and len(self.dead) <= most:
            return self
        return replace(self, blocks=(self.kernel.merged(self.blocks, frozenset(self.dead)),), dead=set())


class VectorCache:
    """The views of one file's models. Safe from any thread: a search works on its own view and holds no lock."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        # By number and dimension: the number of a removed model may come again with another.
        self._views: dict[tuple[int, int], View] = {}
        self._lock = threading.Lock()
        forks.guard(self)

    def view(self, db: sqlite3.Connection, model: int, dimension: int) -> View:
        """Return the vectors of a model as this connection sees them, or later ones; it may hold some that are gone."""
        # Only who holds a reader waits for this lock, so before a fork it is free once all readers are back.
        key = model, dimension
        with self._lock:
            view = self._views.get(key)
            view = (_continued(db, model, dimension, view) if view else None) or _loaded(db, model, dimension)
            if key not in self._views and len(self._views) >= _MODELS:
                self._views.clear()
            self._views[key] = view
            return view

    def before_fork(self) -> None:
        """Do nothing: views never change, and the child takes a new lock."""

    def after_fork(self) -> None:
        """Do nothing, in the parent."""

    def abandon(self) -> None:
        """Take a new lock in the child: the thread that held the old one is not there."""
        self._lock = threading.Lock()


def _kernel(count: int, dimension: int) -> Kernel:
    if (numpy_if_loaded() if count <= FEW else numpy()) is None:
        return PlainSketches()
    return NumpyVectors() if count * dimension * 4 <= WHOLE_BYTES else NumpySketches()


def _loaded(db: sqlite3.Connection, model: int, dimension: int) -> View:
    (count,) = db.execute(statements("vectors")["count"], (model,)).fetchone()
    view = View(_kernel(count, dimension))
    blocks, last = _read(db, model, view)
    # The pages just read are not needed again.
    db.execute("PRAGMA shrink_memory")
    return replace(view, blocks=(view.kernel.merged(blocks, ()),) if blocks else (), last=last)


def _continued(db: sqlite3.Connection, model: int, dimension: int, view: View) -> View | None:
    """Return the view with what has come since, None when it is to be loaded anew."""
    blocks, last = _read(db, model, view)
    if not blocks:
        return view.tidied()
    if type(_kernel(view.size + sum(map(len, blocks)), dimension)) is not type(view.kernel):
        return None
    for block in blocks:
        view = view.with_block(block, last)
    return view.tidied()


def _read(db: sqlite3.Connection, model: int, view: View) -> tuple[list[Block], int]:
    cursor = db.execute(statements("vectors")["vectors" if view.kernel.whole else "sketches"], (model, view.last))
    blocks, last = [], view.last
    while found := cursor.fetchmany(_READ):
        rows, stamps, data = zip(*found, strict=True)
        blocks.append(view.kernel.block(rows, stamps, data))
        last = stamps[-1]
    return blocks, last
