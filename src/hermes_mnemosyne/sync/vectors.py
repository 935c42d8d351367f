"""Vectors that came with rows: kept where both sides have the same model, else computed here like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hermes_mnemosyne.store.operations import Outcome
from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.store.spoken import spoken

# What the store takes of a text for an embedder; of another length the text differs, and the vector is computed here.
_SEEN = 65_536
_TAKEN = {"added", "updated"}


def model_of(store: Store) -> str | None:
    """Return the key of the model whose vectors a store searches, None without one."""
    return next((model.key for model in store.vector_models() if model.active), None)


def attach(store: Store, model: object, records: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome]) -> int:
    """Give rows that were just taken in the vectors of their records (sequences of numbers) and return how many.

    `model` is that of the sender. What does not fit, or whose text has changed meanwhile, waits for a vector of this side.
    Raises StoreError.
    """
    active = next((one for one in store.vector_models() if one.active), None)
    if active is None or active.key != model:
        return 0
    came = {
        record["uid"]: record
        for record, outcome in zip(records, outcomes, strict=True)
        if outcome.status in _TAKEN and outcome.uid == record["uid"] and _fits(record.get("vector"), active.dimension)
    }
    if not came:
        return 0
    numbers = store.row_numbers(list(came))
    texts = {number: _text(came[uid]) for uid, number in numbers.items()}
    return store.attach_vectors(active.key, [(number, came[uid]["vector"]) for uid, number in numbers.items()], texts=texts)


def _fits(vector: Sequence[float] | None, dimension: int) -> bool:
    return vector is not None and len(vector) == dimension and any(vector)


def _text(record: Mapping[str, Any]) -> str:
    occurred_at = record.get("occurred_at") if record.get("type") == "turn" else None
    return spoken(str(record.get("content", ""))[:_SEEN], str(record.get("speaker") or ""), occurred_at)
