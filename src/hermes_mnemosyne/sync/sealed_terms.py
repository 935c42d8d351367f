"""What may travel where a server cannot read: it is told keyed names of themes, and what came is looked through here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne.identity import is_bucket
from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync.seal import Sealer
from hermes_mnemosyne.sync.sharing import Wanted, digest_of
from hermes_mnemosyne.sync.terms import Terms
from hermes_mnemosyne.values import ALL_THEMES

CAPABILITY = "sealed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedWanted(Wanted):
    """What was asked for, and how a server is told that does not know the names of themes: `ids` (None: all) but `without`."""

    ids: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()

    @classmethod
    def of(cls, asked: Wanted, sealer: Sealer) -> SealedWanted:
        """Return the same, said in keyed names: those under every key, for rows may be sealed with any of them."""
        named = None if asked.include is None or ALL_THEMES in asked.include else asked.include
        return cls(
            include=asked.include,
            exclude=asked.exclude,
            turns=asked.turns,
            ids=None if named is None else _ids(sealer, named),
            without=_ids(sealer, asked.sharing().exclude),
        )

    def query(self) -> list[tuple[str, str]]:
        """Return the parameters by which a server is told; of turns it knows nothing."""
        return [
            ("sealed", "1"),
            *(("include", name) for name in self.ids or ()),
            *(("exclude", name) for name in self.without),
        ]


def _ids(sealer: Sealer, themes: frozenset[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({name for theme in themes for name in sealer.theme_ids(theme)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What of the records that were opened is taken in: those of the themes and kinds asked for.

    `subject_key` is what tells the key of this store's contacts from others: under another one a contact has another name.
    """

    sharing: Sharing
    subject_key: str | None

    def takes(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record was asked for."""
        return self.sharing.admits(str(record.get("theme"))) and (self.sharing.turns or not _is_turn(record))

    def is_foreign(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record is about a contact whose name was made with another key."""
        key = record.get("subject_key")
        return is_bucket(str(record.get("theme"))) and (key is None or key != self.subject_key)


def _is_turn(record: Mapping[str, Any]) -> bool:
    before = record.get("before")
    return record.get("type") == "turn" or record.get("kind") == "turn" or (isinstance(before, Mapping) and "role" in before)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allowed(Sharing):
    """Rows of those themes whose keyed name a key is for."""

    names: frozenset[str]
    sealer: Sealer

    def admits(self, theme: str) -> bool:
        """Tell whether rows of a theme may go."""
        return Sharing.admits(self, theme) and self.sealer.theme_ids(theme)[0] in self.names


def _narrowed(sharing: Sharing, allowed: frozenset[str] | None, sealer: Sealer) -> Sharing:
    if allowed is None:
        return sharing
    return _Allowed(include=sharing.include, exclude=sharing.exclude, turns=sharing.turns, names=allowed, sealer=sealer)


def sealed_terms(asked: Wanted, store: Store, server: Mapping[str, Any], sealer: Sealer) -> Terms:
    """Return the terms between a store and a server that cannot read. Raises StoreError."""
    rights = frozenset(str(right) for right in server.get("rights") or ())
    themes = server.get("themes")
    allowed = frozenset(map(str, themes)) if isinstance(themes, list) else None
    has_key = store.meta("subject_key") is not None
    buckets = asked.named_buckets
    wanted = SealedWanted.of(asked if has_key or not buckets else asked.without_buckets(), sealer)
    return Terms(
        wanted=wanted,
        sharing=_narrowed(wanted.sharing(), allowed, sealer),
        reads="read" in rights,
        writes="write" in rights,
        model=None,
        basis=digest_of(asked.query(), sorted(rights), None if allowed is None else sorted(allowed), sealer.key_ids),
        left_out=frozenset() if has_key else buckets,
    )
