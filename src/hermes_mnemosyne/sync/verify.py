"""Proof that two stores hold the same rows, or which ones differ: digests of themes, of parts of them, then the rows themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync.exchange import RemoteError
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.sharing import Wanted

_BUCKETS = 256


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is not the same on both sides: its state and clock `here` and `there`, empty where it is not known."""

    theme: str
    subject: str
    uid: str
    kind: str
    here: str
    there: str

    def as_object(self) -> dict[str, str]:
        """Return it as JSON data."""
        return {"theme": self.theme, "uid": self.uid, "kind": self.kind, "here": self.here, "there": self.there}


def differences(store: Store, sharing: Sharing, remote: Remote, wanted: Wanted) -> Iterator[Difference]:
    """Yield every row that differs. Only parts that differ are looked into, one at a time.

    Raises RemoteError, StoreError.
    """
    ours = {(theme, subject): (count, digest) for theme, subject, count, digest in store.digests(sharing)}
    theirs = {(theme, subject): (count, digest) for theme, subject, count, digest in rows_of(remote, wanted, 4)}
    for theme, subject in sorted(ours.keys() | theirs.keys()):
        if ours.get((theme, subject)) != theirs.get((theme, subject)) and sharing.admits(theme):
            yield from _place(store, sharing, remote, wanted, (theme, subject))


def _place(store: Store, sharing: Sharing, remote: Remote, wanted: Wanted, place: tuple[str, str]) -> Iterator[Difference]:
    here = [tuple(pair) for pair in store.buckets(*place, sharing)]
    there = [tuple(pair) for pair in rows_of(remote, wanted, 2, *place)]
    if len(there) != _BUCKETS:
        raise RemoteError(f"{remote.url} answers with {len(there)} parts of a theme instead of {_BUCKETS}: update the server")
    for bucket, (own, other) in enumerate(zip(here, there, strict=True)):
        if own == other:
            continue
        rows = {row[0]: row[1:] for row in store.bucket_rows(*place, bucket, sharing)} if own[0] else {}
        others = {row[0]: row[1:] for row in rows_of(remote, wanted, 4, *place, bucket)} if other[0] else {}
        for uid in sorted(rows.keys() | others.keys()):
            if rows.get(uid) != others.get(uid):
                yield Difference(*place, uid, (rows.get(uid) or others[uid])[0], _state(rows, uid), _state(others, uid))


def rows_of(remote: Remote, wanted: Wanted, width: int, *place: str | int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an answer about digests, each of `width` values. Raises RemoteError."""
    for row in remote.digests(wanted, *place):
        if len(row) != width:
            raise RemoteError(f"{remote.url} answers with no digests: update the server")
        yield tuple(row)


def _state(rows: Mapping[str, tuple[str, ...]], uid: str) -> str:
    return " ".join(rows[uid][1:]).strip() if uid in rows else ""
