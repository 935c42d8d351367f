"""Proof that a store and a server hold the same versions of the same rows, where the server cannot read them.

Both sides give digests of uids and clocks; the server gives those of keyed themes, under each key that rows were sealed with. Retired
rows are live ones to a server. What is only there is opened, to tell whether it is anything that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync.exchange import RemoteError
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.seal import Sealer
from hermes_mnemosyne.sync.terms import Terms
from hermes_mnemosyne.sync.verify import Difference, rows_of

_BUCKETS = 256
_MODULUS = 1 << 256
_OPENED_AT_ONCE = 500

_Digest = tuple[int, str]
_Rows = dict[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Opened:
    """What became of the sealed records of some uids: those that were `wanted`, and those that `cannot` be opened."""

    wanted: frozenset[str]
    cannot: frozenset[str]


class SealedProof:
    """The comparison of one store and one server."""

    def __init__(
        self, store: Store, remote: Remote, terms: Terms, sealer: Sealer, opened: Callable[[Sequence[str]], Opened]
    ) -> None:
        """Take both sides; `opened` fetches and opens what the server holds about some uids."""
        self._store = store
        self._remote = remote
        self._terms = terms
        self._sealer = sealer
        self._opened = opened
        self._sharing: Sharing = replace(terms.sharing, blind=True)

    def differences(self) -> Iterator[Difference]:
        """Yield every row that differs. Raises RemoteError, StoreError."""
        ours: dict[str, list[tuple[str, str, int, str]]] = {}
        for place in self._store.digests(self._sharing):
            ours.setdefault(place[0].lower(), []).append(place)
        theirs = {place: (count, digest) for place, _, count, digest in rows_of(self._remote, self._terms.wanted, 4)}
        names = {theme_id: theme for theme in ours for theme_id in self._sealer.theme_ids(theme)}
        themes = {theme: [one for one in self._sealer.theme_ids(theme) if one in theirs] for theme in sorted(ours)}
        # Themes that nothing here is of are known by their keyed names alone.
        themes |= {place: [place] for place in sorted(theirs.keys() - names.keys())}
        for theme, ids in themes.items():
            places = ours.get(theme, [])
            here = _sum((count, digest) for _, _, count, digest in places)
            if here != _sum(theirs[one] for one in ids):
                yield from self._theme(theme, [(name, subject) for name, subject, *_ in places], ids)

    def _theme(self, theme: str, places: Sequence[tuple[str, str]], ids: Sequence[str]) -> Iterator[Difference]:
        here = [self._store.buckets(*place, self._sharing) for place in places]
        there = [[(count, digest) for count, digest in self._asked(2, one)] for one in ids]
        if any(len(parts) != _BUCKETS for parts in there):
            raise RemoteError(f"{self._remote.url} answers with no {_BUCKETS} parts of a theme: update the server")
        for bucket in range(_BUCKETS):
            own, other = _sum(parts[bucket] for parts in here), _sum(parts[bucket] for parts in there)
            if own != other:
                yield from self._bucket(theme, places, ids, bucket)

    def _bucket(self, theme: str, places: Sequence[tuple[str, str]], ids: Sequence[str], bucket: int) -> Iterator[Difference]:
        kinds: dict[str, tuple[str, str]] = {}
        here: _Rows = {}
        for place in places:
            for uid, kind, state, clock in self._store.bucket_rows(*place, bucket, self._sharing):
                here[uid], kinds[uid] = (state, clock), (kind, place[1])
        there = {row[0]: (row[2], row[3]) for one in ids for row in self._asked(4, one, bucket)}
        differing = sorted(uid for uid in here.keys() | there.keys() if here.get(uid) != there.get(uid))
        opened = self._open([uid for uid in differing if uid not in here])
        for uid in differing:
            if uid in here or uid in opened.wanted or uid in opened.cannot:
                kind, subject = kinds.get(uid, ("sealed", ""))
                yield Difference(theme, subject, uid, kind, _state(here, uid), _state(there, uid))

    def _open(self, uids: Sequence[str]) -> Opened:
        found = [self._opened(uids[start : start + _OPENED_AT_ONCE]) for start in range(0, len(uids), _OPENED_AT_ONCE)]
        return Opened(frozenset().union(*(one.wanted for one in found)), frozenset().union(*(one.cannot for one in found)))

    def _asked(self, width: int, theme_id: str, *bucket: int) -> Iterator[tuple[Any, ...]]:
        return rows_of(self._remote, self._terms.wanted, width, theme_id, "", *bucket)


def _sum(digests: Iterable[_Digest]) -> _Digest:
    parts = list(digests)
    total = sum(int(digest, 16) for _, digest in parts) % _MODULUS
    return sum(count for count, _ in parts), f"{total:064x}"


def _state(rows: Mapping[str, tuple[str, str]], uid: str) -> str:
    return " ".join(rows[uid]).strip() if uid in rows else ""
