"""What may travel between a store and a server: what was asked for, as far as the key, the contacts and the models let it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync.sharing import Wanted, digest_of, narrowed
from hermes_mnemosyne.sync.vectors import model_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The themes (`wanted` as a server is told, `sharing` as a store is), the rights of the key, and the model of both sides.

    `basis` tells these terms from others: with other ones rows that were passed over may travel. `left_out` are themes shared by
    contacts that do not, since both sides do not hold the same subject key.
    """

    wanted: Wanted
    sharing: Sharing
    reads: bool
    writes: bool
    model: str | None
    basis: str
    left_out: frozenset[str]

    @property
    def is_empty(self) -> bool:
        """Whether no theme may travel."""
        return self.wanted.include == ()


def terms_of(asked: Wanted, store: Store, server: Mapping[str, Any]) -> Terms:
    """Return the terms between a store and what a server says of itself. Raises StoreError."""
    rights = frozenset(str(right) for right in server.get("rights") or ())
    themes = server.get("themes")
    key, own_model = server.get("subject_key"), model_of(store)
    has_same_key = key is not None and key == store.meta("subject_key")
    buckets = asked.named_buckets
    allowed = asked if has_same_key or not buckets else asked.without_buckets()
    wanted = narrowed(allowed, themes if isinstance(themes, list) else None)
    return Terms(
        wanted=wanted,
        sharing=wanted.sharing(),
        reads="read" in rights,
        writes="write" in rights,
        model=own_model if own_model is not None and own_model == server.get("model") else None,
        basis=digest_of(wanted.query(), sorted(rights)),
        left_out=frozenset() if has_same_key else buckets,
    )
