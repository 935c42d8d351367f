"""Models, and why rows have no vector, as far as that is the same for every store."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes_mnemosyne._errors import InvalidInput, NotFound
from hermes_mnemosyne.store.protocol import PendingText, VectorCounts, VectorModel
from hermes_mnemosyne.store.reads import StoreReads
from hermes_mnemosyne.store.spoken import spoken

UNKNOWN = -1
"""The number of a model that the store does not know."""
# Characters of a row that are embedded: no model sees more, and a page of rows of many megabytes would take all of the memory.
_SEEN = 65_536

Sql = Mapping[str, str]


class StoreVectors(StoreReads):
    """The methods on vectors that are the same for every store."""

    def vector_models(self) -> list[VectorModel]:
        """Return the models of this store, the active one first; those that are to be removed are none any more."""
        return [
            VectorModel(
                key=key,
                name=name,
                dimension=dimension,
                probes=tuple(struct.iter_unpack(f"<{dimension}d", probes)),
                floor=floor,
                active=bool(active),
            )
            for key, name, dimension, probes, floor, active in self._rows("vectors", "models")
        ]

    def activate_vector_model(self, key: str) -> None:
        """Search the vectors of this model from now on; those of all others are to be removed. Raises NotFound."""
        sql = self._statements("vectors")
        with self._connections.writing(self._wait) as db:
            if key not in (row[0] for row in db.execute(sql["models"])):
                raise NotFound(f"no model {key!r} has vectors in this store")
            number = number_of(db, sql, key)
            db.execute(sql["retire_others"], (number,))
            db.execute(sql["activate"], (number,))

    def clear_failures(self, model: str) -> int:
        """Let every failed row be tried again and return how many."""
        sql = self._statements("vectors")
        with self._connections.writing(self._wait) as db:
            count: int = db.execute(sql["clear_failures"], (number_of(db, sql, model),)).rowcount
        return count

    def vector_counts(self, model: str) -> VectorCounts:
        """Return the live rows by the state of their vector; no vector is read."""
        sql = self._statements("vectors")
        with self._connections.reading() as db:
            found = db.execute(sql["counts"], (number_of(db, sql, model),)).fetchone()
        live, stored, cut, excluded, unembeddable, retrying = found
        return VectorCounts(
            stored=stored,
            pending=live - stored - excluded - unembeddable,
            retrying=retrying,
            excluded=excluded,
            unembeddable=unembeddable,
            cut=cut,
        )

    def has_old_vectors(self) -> bool:
        """Tell whether vectors of a model that is searched no longer are still to be removed."""
        return bool(self._rows("vectors", "gone"))


def number_of(db: Any, sql: Sql, key: str) -> int:
    """Return the number of a model, `UNKNOWN` where there is none."""
    found = db.execute(sql["model"], (key,)).fetchone()
    return found[0] if found else UNKNOWN


def model_values(db: Any, sql: Sql, model: VectorModel) -> dict[str, Any]:
    """Return what is stored of a model. Raises InvalidInput when its dimension or those of its probes are wrong."""
    if model.dimension <= 0 or any(len(probe) != model.dimension for probe in model.probes):
        raise InvalidInput(f"model {model.key!r} needs a positive dimension, and its probes need the same")
    known = db.execute(sql["model"], (model.key,)).fetchone()
    if known and known[1] != model.dimension:
        raise InvalidInput(f"the vectors of model {model.key!r} have {known[1]} dimensions, not {model.dimension}")
    return {
        "key": model.key,
        "name": model.name,
        "dimension": model.dimension,
        "probes": b"".join(struct.pack(f"<{model.dimension}d", *probe) for probe in model.probes),
        "floor": model.floor,
        "active": model.active,
    }


def texts_of(db: Any, sql: Sql, rows: Sequence[int], many: Callable[[Sequence[Any]], Any]) -> list[PendingText]:
    """Return what is to be embedded of those of some rows that live, in their order; `many` makes one parameter of a list."""
    found = {}
    for row, kind, content, chars, role, speaker, occurred_at, local in db.execute(sql["texts"], (many(rows), _SEEN)):
        text = spoken(content, speaker, occurred_at)
        found[row] = PendingText(id=row, kind=kind, text=text, role=role, chars=chars, local=bool(local))
    return [found[row] for row in rows if row in found]
