"""Records that only other replicas can read: in order, by uid, and digests of the rows that they are about."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hermes_mnemosyne.store.feed import StoreFeed, beyond, bucket_of, digest_of
from hermes_mnemosyne.store.replicating import Changes, Feed, Sealed, Sharing

_BUCKETS = 256
# What a record has beside its box.
_OVERHEAD = 300

_State = tuple[str, str, str, str]


class SealedFeed:
    """The sealed records of a store, asked as its own ones are; themes are keyed ids."""

    def __init__(
        self,
        moment: Callable[[], AbstractContextManager[Any]],
        statements: Mapping[str, str],
        many: Callable[[Sequence[Any]], Any],
    ) -> None:
        """Read with what `moment` lends; `many` makes one parameter of a list."""
        self._moment = moment
        self._sql = statements
        self._many = many

    def changes(
        self,
        after: int,
        sharing: Sharing,
        *,
        limit: int = 1000,
        max_bytes: int = 4 * 2**20,
        skip: Sequence[tuple[int, int]] = (),
        model: str | None = None,  # noqa: ARG002 - a box has no vector that others see
    ) -> Changes:
        """Return the records changed after a change number, in order: at least one, else about `max_bytes`."""
        chosen: list[int] = []
        with self._moment() as db:
            # Change numbers of other tables may come after.
            position, size = int(db.execute(self._sql["sequence"]).fetchone()[0]), 0
            more = False
            for seq, theme, length in self._next(db, after, limit, skip):
                if not sharing.admits(theme):
                    continue
                size += _OVERHEAD + length * 4 // 3
                if chosen and (size > max_bytes or len(chosen) >= limit):
                    position, more = seq - 1, True
                    break
                chosen.append(seq)
            found = db.execute(self._sql["numbered"], (self._many(chosen),)).fetchall() if chosen else []
        return Changes(records=tuple(_record(_sealed(row)) for row in found), position=max(position, after), more=more)

    def _next(self, db: Any, after: int, limit: int, skip: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str, int]]:
        """Yield change number, theme and length of the records after a change number, but for those to be skipped."""
        while True:
            after = beyond(after, skip)
            found = db.execute(self._sql["next"], (after, limit + 1)).fetchall()
            for seq, theme, length in found:
                after = seq
                if not any(first <= seq <= last for first, last in skip):
                    yield seq, theme, length
            if len(found) <= limit:
                return

    def records_of(self, uids: Sequence[str], sharing: Sharing, *, model: str | None = None) -> list[dict[str, Any]]:  # noqa: ARG002
        """Return every record about these uids."""
        with self._moment() as db:
            rows = db.execute(self._sql["about"], (self._many(sorted(set(uids))),)).fetchall()
        return [_record(one) for one in map(_sealed, rows) if sharing.admits(one.theme)]

    def digests(self, sharing: Sharing) -> list[tuple[str, str, int, str]]:
        """Return keyed theme, an empty subject, number and digest of the rows of each theme."""
        found: dict[str, list[_State]] = {}
        with self._moment() as db:
            for theme, *row in db.execute(self._sql["rows"]):
                if sharing.admits(theme):
                    found.setdefault(theme, []).append(_state(*row))
        return [(theme, "", len(rows), digest_of(rows)) for theme, rows in sorted(found.items())]

    def buckets(self, theme: str, subject: str, sharing: Sharing) -> list[tuple[int, str]]:
        """Return number and digest of the rows of 256 parts of a theme."""
        parts: list[list[_State]] = [[] for _ in range(_BUCKETS)]
        for row in self._rows(theme, subject, sharing):
            parts[bucket_of(row[0])].append(row)
        return [(len(rows), digest_of(rows)) for rows in parts]

    def bucket_rows(self, theme: str, subject: str, bucket: int, sharing: Sharing) -> list[_State]:
        """Return uid, kind, state and clock of the rows of one part, by uid."""
        return sorted(row for row in self._rows(theme, subject, sharing) if bucket_of(row[0]) == bucket)

    def _rows(self, theme: str, subject: str, sharing: Sharing) -> Iterator[_State]:
        if subject or not sharing.admits(theme):
            return
        with self._moment() as db:
            for _, *row in db.execute(self._sql["rows_of"], (theme,)):
                yield _state(*row)


class StoreSealed(StoreFeed):
    """A store that keeps what it cannot read, beside its own rows."""

    @property
    def sealed(self) -> Feed:
        """The records that only other replicas can read."""
        sequence = self._statements("read")["sequence"]
        return SealedFeed(self._moment, {**self._statements("sealed"), "sequence": sequence}, self._many)

    def _states(self, db: Any, scope: int, sharing: Sharing) -> Iterator[_State]:
        states = super()._states(db, scope, sharing)
        return _blind(states) if sharing.blind else states


def _blind(states: Iterable[_State]) -> Iterator[_State]:
    for uid, kind, state, clock in states:
        yield uid, kind, "live" if state == "retired" else state, clock


def _state(uid: str, gone: str, clock: str) -> _State:
    return (uid, "sealed", "forgotten", "") if gone else (uid, "sealed", "live", clock)


def _sealed(row: Sequence[Any]) -> Sealed:
    uid, slot, theme, key, clock, gone, box, seq = row
    return Sealed(uid=uid, slot=slot, theme=theme, key=key, clock=clock, gone=gone, box=bytes(box), seq=seq)


def _record(one: Sealed) -> dict[str, Any]:
    return {
        "type": "sealed", "uid": one.uid, "slot": one.slot, "theme": one.theme, "key": one.key, "clock": one.clock, "gone": one.gone,
        "box": base64.b64encode(one.box).decode(), "seq": one.seq,
    }  # fmt: skip
