"""What other replicas ask of a store: its changes in order, and digests that prove two stores equal."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne.store.operations import NewReplica, Operation, Outcome
from hermes_mnemosyne.store.reads import StoreReads
from hermes_mnemosyne.store.replicating import Changes, Sharing
from hermes_mnemosyne.store.writing.replicas import PREFIX
from hermes_mnemosyne.store.writing.rows import dumps, snapshot

# Statements of `feed.sql` for one kind of record each, beginning with the change number, the scope, the visibility and the kind of row.
_TABLES = ("entries", "turns", "aliases", "history", "tombstones", "withdrawn")
_BUCKETS = 256
_MODULUS = 1 << 256
# What a record has beside the texts of its row.
_OVERHEAD = 400


@dataclass(frozen=True, slots=True)
class _Change:
    """One changed row: where it stands and the columns that its table has of its own."""

    seq: int
    scope: int
    table: str
    columns: tuple[Any, ...]


class StoreFeed(StoreReads):
    """The methods of the Store protocol for other replicas."""

    @abstractmethod
    def _moment(self) -> AbstractContextManager[Any]:
        """Lend a reader that sees one moment."""

    def position(self) -> int:
        """Return the number of the last change."""
        return int(self._rows("read", "sequence")[0][0])

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
        """Return the shared rows changed after a change number, in the order of their last change."""
        with self._moment() as db:
            end = int(db.execute(self._statements("read")["sequence"]).fetchone()[0])
            places = self._places(db, sharing)
            position, size = after, 0
            records: list[dict[str, Any]] = []
            while position < end and len(records) < limit and size < max_bytes:
                position = beyond(position, skip)
                found, horizon = self._changed(db, position, limit)
                for change, record in self._records(db, _shared(found, places, sharing, skip), places, model):
                    position, length = change.seq, _size(record)
                    if records and (size + length > max_bytes or len(records) >= limit):
                        return Changes(records=tuple(records), position=change.seq - 1, more=True)
                    records.append(record)
                    size += length
                position = min(max(position, horizon), end)
            return Changes(records=tuple(records), position=max(position, after), more=position < end)

    def _changed(self, db: Any, after: int, limit: int) -> tuple[list[_Change], int]:
        """Return what has changed next in any table, and up to which change number that is all."""
        sql, found, horizons = self._statements("feed"), [], []
        for table in _TABLES:
            rows = db.execute(sql[table], (after, limit)).fetchall()
            if len(rows) == limit:
                horizons.append(int(rows[-1][0]))
            found += [
                _Change(seq, scope, table, (kind, *columns))
                for seq, scope, visibility, kind, *columns in rows
                if visibility == "synced"
            ]
        horizon = min(horizons, default=1 << 62)
        return sorted((row for row in found if row.seq <= horizon), key=lambda row: row.seq), horizon

    def _records(
        self, db: Any, changes: Iterable[_Change], places: Mapping[int, tuple[str, str]], model: str | None
    ) -> Iterator[tuple[_Change, dict[str, Any]]]:
        changes = list(changes)
        ids = [change.columns[1] for change in changes if change.table in ("entries", "turns")]
        rows = self._load(db, ids)
        vectors = self._vectors_of(db, ids, model) if model else {}
        for change in changes:
            if change.table in ("entries", "turns"):
                number = change.columns[1]
                vector = {"vector": vectors[number]} if number in vectors else {}
                if number in rows:
                    yield change, {"type": rows[number].kind, **snapshot(rows[number]), **vector}
            else:
                yield change, self._other(db, change, places[change.scope])

    def _vectors_of(self, db: Any, ids: Sequence[int], model: str) -> dict[int, list[float]]:
        rows = db.execute(self._statements("feed")["vectors"], (model, self._many(ids)))
        return {row: self._floats(vector) for row, vector in rows}

    @abstractmethod
    def _floats(self, vector: Any) -> list[float]:
        """Return a vector as it stands in a column as numbers."""

    def _other(self, db: Any, change: _Change, place: tuple[str, str]) -> dict[str, Any]:
        """Return the record of an alias, a version or a tombstone."""
        theme, subject = place
        head = {"theme": theme, "subject": subject}
        kind, uid, *rest = change.columns
        if change.table == "aliases":
            survivor, clock = rest
            return {"type": "alias", "uid": uid, "survivor": survivor, "clock": clock, **head}
        if change.table == "history":
            action, at, clock, text = rest
            return {"type": "history", "uid": uid, "action": action, "at": at, "clock": clock, "before": json.loads(text), **head}
        state, at, clock, session_id, role, digest, occurrence = rest
        record = {
            "type": "tombstone", "uid": uid, "kind": kind, "state": state, "visibility": "synced", "at": at, "clock": clock, **head,
        }  # fmt: skip
        if session_id is not None:
            record |= {"session_id": session_id, "role": role, "content_hash": digest.lower(), "occurrence": occurrence}
        macs = db.execute(self._statements("read")["export_forgotten"], (uid,)).fetchall()
        return record | ({"keeps_out": [list(mac) for mac in macs]} if macs else {})

    def records_of(self, uids: Sequence[str], sharing: Sharing, *, model: str | None = None) -> list[dict[str, Any]]:
        """Return every shared record about these uids."""
        with self._moment() as db:
            places, sql, names = self._places(db, sharing), self._statements("feed"), self._many(sorted(set(uids)))
            found = []
            for table in _TABLES:
                for seq, scope, visibility, kind, *columns in db.execute(sql[f"{table}_of"], (names,)).fetchall():
                    if visibility == "synced":
                        found.append(_Change(seq, scope, table, (kind, *columns)))
            return [record for _, record in self._records(db, _shared(found, places, sharing, ()), places, model)]

    def row_numbers(self, uids: Sequence[str]) -> dict[str, int]:
        """Return the row numbers of live rows."""
        return dict(self._rows("feed", "row_numbers", self._many(sorted(set(uids)))))

    # -- digests -----------------------------------------------------------------------------------------------------------------

    def digests(self, sharing: Sharing) -> list[tuple[str, str, int, str]]:
        """Return theme, subject, number and digest of the shared rows of each theme and subject."""
        found = []
        with self._moment() as db:
            for scope, (theme, subject) in self._places(db, sharing).items():
                count, total = 0, 0
                for row in self._states(db, scope, sharing):
                    count, total = count + 1, total + _hash(row)
                if count:
                    found.append((theme, subject, count, f"{total % _MODULUS:064x}"))
        return sorted(found)

    def buckets(self, theme: str, subject: str, sharing: Sharing) -> list[tuple[int, str]]:
        """Return number and digest of the rows of 256 parts of a theme and subject."""
        counts, totals = [0] * _BUCKETS, [0] * _BUCKETS
        for row in self._states_at(theme, subject, sharing):
            bucket = bucket_of(row[0])
            counts[bucket] += 1
            totals[bucket] += _hash(row)
        return [(count, f"{total % _MODULUS:064x}") for count, total in zip(counts, totals, strict=True)]

    def bucket_rows(self, theme: str, subject: str, bucket: int, sharing: Sharing) -> list[tuple[str, str, str, str]]:
        """Return uid, kind, state and clock of the rows of one part, by uid."""
        return sorted(row for row in self._states_at(theme, subject, sharing) if bucket_of(row[0]) == bucket)

    def _states_at(self, theme: str, subject: str, sharing: Sharing) -> list[tuple[str, str, str, str]]:
        with self._moment() as db:
            places = self._places(db, sharing)
            return [
                row for scope, place in places.items() if place == (theme, subject) for row in self._states(db, scope, sharing)
            ]

    def _states(self, db: Any, scope: int, sharing: Sharing) -> Iterator[tuple[str, str, str, str]]:
        for uid, kind, state, clock in db.execute(self._statements("feed")["states"], (scope,)):
            if sharing.turns or kind != "turn":
                yield uid, kind, state, clock if state != "forgotten" else ""

    # -- what is kept ------------------------------------------------------------------------------------------------------------

    def sync_states(self, prefix: str = "") -> dict[str, dict[str, Any]]:
        """Return what is kept for sync, by key."""
        return {key.removeprefix(PREFIX): json.loads(text) for key, text in self._rows("feed", "kept", PREFIX + prefix)}

    def _take_name(self, ops: Sequence[Operation], outcomes: Sequence[Outcome]) -> None:
        """Go by the new replica id that an operation has given this store."""
        for op, outcome in zip(ops, outcomes, strict=True):
            if isinstance(op, NewReplica) and outcome.status == "updated":
                self._replica = outcome.uid

    def _places(self, db: Any, sharing: Sharing) -> dict[int, tuple[str, str]]:
        """Return the scopes that may be shared with their themes and subjects."""
        rows = db.execute(self._statements("feed")["places"]).fetchall()
        return {scope: (theme, subject) for scope, theme, subject in rows if sharing.admits(theme)}


def digest_of(rows: Iterable[tuple[str, str, str, str]]) -> str:
    """Return the digest (hex) of rows of uid, kind, state and clock."""
    return f"{sum(map(_hash, rows)) % _MODULUS:064x}"


def bucket_of(uid: str) -> int:
    """Return the part that a row belongs to."""
    return hashlib.sha256(uid.encode()).digest()[0]


def _hash(row: tuple[str, str, str, str]) -> int:
    uid, _, state, clock = row
    return int.from_bytes(hashlib.sha256(f"{uid}|{state}|{clock}".encode()).digest())


def beyond(position: int, skip: Sequence[tuple[int, int]]) -> int:
    """Return the end of the interval that begins right after a position, else the position."""
    for first, last in sorted(skip):
        if first <= position + 1 <= last:
            position = last
    return position


def _shared(
    found: Iterable[_Change], places: Mapping[int, tuple[str, str]], sharing: Sharing, skip: Sequence[tuple[int, int]]
) -> Iterator[_Change]:
    for change in found:
        if change.scope not in places or any(first <= change.seq <= last for first, last in skip):
            continue
        if sharing.turns or change.columns[0] != "turn":
            yield change


def _size(record: Mapping[str, Any]) -> int:
    """Return about how many characters a record has on the wire."""
    texts = (record.get("content"), record.get("before"), record.get("metadata"), record.get("tags"), record.get("vector"))
    return _OVERHEAD + sum(len(text) if isinstance(text, str) else len(dumps(text)) for text in texts if text)
