"""The part of the Store protocol that other replicas ask for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

TAG_BYTES = 16
"""Bytes at the beginning of a sealed box by which it is told from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Which rows may go to another replica: those of some themes (`include` None: of all) but the excluded ones; turns by wish.

    Rows that are `local` never do, whatever it says. Themes are the same whatever their case. With `blind` the digests are those of
    somebody who cannot tell a retired row from a live one.
    """

    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    turns: bool = False
    blind: bool = False

    def admits(self, theme: str) -> bool:
        """Tell whether rows of a theme may go."""
        name = theme.lower()
        if any(name == other.lower() for other in self.exclude):
            return False
        return self.include is None or any(name == other.lower() for other in self.include)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """A page of what has changed: records of every shared row up to change number `position`; with `more` others come after it."""

    records: tuple[dict[str, Any], ...]
    position: int
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A record that only other replicas can read: about which uid it is, its clock, and under keyed names the `slot` and the theme.

    A record without a slot is the state of a row; the others are earlier versions. `gone` is `slot` where nothing may stand in this
    slot any more, `row` where the uid was forgotten. `key` is the id of the key that opens the `box`. Of what is about to be kept,
    `over` are tags of boxes that this one is made of, `moved` are slots that it replaces.
    """

    uid: str
    slot: str
    theme: str
    key: str
    clock: str
    gone: str
    box: bytes
    seq: int = 0
    over: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """What tells this box from others: its first 16 bytes in hex, which depend on all that it holds."""
        return self.box[:TAG_BYTES].hex()


class Feed(Protocol):
    """Records in the order of their last change, and digests of them."""

    def changes(
        self,
        after: int,
        sharing: Sharing,
        *,
        limit: int = 1000,
        max_bytes: int = 4 * 2**20,
        skip: Sequence[tuple[int, int]] = (),
        model: str | None = None,
    ) -> Changes:
        """Return the shared rows changed after a change number, as records in the order of their last change, of one moment.

        At most about `max_bytes` of text, but at least one record; rows whose change number lies in an interval of `skip` are
        passed over. With the key of a `model` records have their vector, if there is one.
        """
        ...

    def records_of(self, uids: Sequence[str], sharing: Sharing, *, model: str | None = None) -> list[dict[str, Any]]:
        """Return every shared record about these uids."""
        ...

    def digests(self, sharing: Sharing) -> list[tuple[str, str, int, str]]:
        """Return theme, subject, number and digest (hex) of the shared rows of each theme and subject, gone ones too.

        A digest is the sum, modulo 2 to the power of 256, of SHA-256 over `uid|state|clock` of each row; the clock of a forgotten row is empty.
        """
        ...

    def buckets(self, theme: str, subject: str, sharing: Sharing) -> list[tuple[int, str]]:
        """Return number and digest of the rows of 256 parts of a theme and subject: by the first byte of SHA-256 of the uid."""
        ...

    def bucket_rows(self, theme: str, subject: str, bucket: int, sharing: Sharing) -> list[tuple[str, str, str, str]]:
        """Return uid, kind, state and clock of the rows of one part, by uid."""
        ...


class Replicating(Feed, Protocol):
    """A store that tells other replicas what has changed in it."""

    @property
    def sealed(self) -> Feed:
        """The records that only other replicas can read; the themes of a Sharing are keyed ids there, and `turns` has no meaning."""
        ...

    def position(self) -> int:
        """Return the number of the last change."""
        ...

    def row_numbers(self, uids: Sequence[str]) -> dict[str, int]:
        """Return the row numbers of live rows."""
        ...

    def only_round(self) -> AbstractContextManager[bool]:
        """Hold the lock of rounds of sync in the database itself, and yield True; False when another host holds it."""
        ...

    def sync_states(self, prefix: str = "") -> dict[str, dict[str, Any]]:
        """Return what is kept for sync, by key."""
        ...
