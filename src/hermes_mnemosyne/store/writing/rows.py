"""Rows of the tables as values, and row numbers as scope and shelf."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from hermes_mnemosyne.values import Entry, Origin, Turn

MEMORY, USER, TURN = 0, 1, 2
SHELVES = {"memory": MEMORY, "user": USER}
_SEQ_BITS = 36
_SHELF_BITS = 2


class Grave(NamedTuple):
    """A tombstone. Of a retired turn it has the capture key: session number, role, content hash and occurrence."""

    uid: str
    theme: str
    subject: str
    kind: str
    state: str
    visibility: str
    at: str
    clock: str
    session: int | None
    role: str | None
    hash: bytes | None
    occurrence: int | None
    scope: int


def row_number(scope: int, shelf: int, seq: int) -> int:
    """Return the row number of a new row."""
    return (scope << _SHELF_BITS | shelf) << _SEQ_BITS | seq


def bounds(scope: int, first_shelf: int = MEMORY, last_shelf: int = 3) -> tuple[int, int]:
    """Return the least and the greatest row number of a scope's shelves."""
    low = (scope << _SHELF_BITS | first_shelf) << _SEQ_BITS
    high = ((scope << _SHELF_BITS | last_shelf) + 1 << _SEQ_BITS) - 1
    return low, high


def scope_of(row: int) -> int:
    """Return the scope of a row number."""
    return row >> (_SEQ_BITS + _SHELF_BITS)


def shelf_of(row: int) -> int:
    """Return the shelf of a row number."""
    return row >> _SEQ_BITS & (1 << _SHELF_BITS) - 1


def age_of(row: int) -> int:
    """Return the change number at which a row was made."""
    return row & (1 << _SEQ_BITS) - 1


# One encoder for all rows: `json.dumps` would build one per call.
_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def dumps(value: Any) -> str:
    """Return compact JSON with stable key order."""
    if not value and isinstance(value, dict | tuple):
        return "{}" if isinstance(value, dict) else "[]"
    return _ENCODE(value)


@lru_cache(maxsize=1024)
def _origins(text: str) -> tuple[Origin, ...]:
    return tuple(Origin(kind, place) for kind, place in json.loads(text))


@lru_cache(maxsize=1024)
def _tags(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _metadata(text: str) -> dict[str, Any]:
    return dict(json.loads(text)) if text != "{}" else {}


def entry_value(row: tuple[Any, ...]) -> Entry:
    """Return the Entry of a row selected by the `entry` statements."""
    return Entry(
        uid=row[1],
        theme=row[2],
        subject=row[3],
        target=row[4],
        content=row[5],
        tags=_tags(row[6]),
        importance=row[7],
        pinned=bool(row[8]),
        valid_until=row[9],
        occurred_at=row[10],
        occurred_offset=row[11],
        superseded_by=row[12],
        visibility=row[13],
        session_id=row[14],
        origins=_origins(row[15]),
        metadata=_metadata(row[16]),
        created_at=row[17],
        updated_at=row[18],
        seq=row[19],
        clock=row[20],
    )


def turn_value(row: tuple[Any, ...]) -> Turn:
    """Return the Turn of a row selected by the `turn` statements."""
    return Turn(
        uid=row[1],
        theme=row[2],
        subject=row[3],
        session_id=row[4],
        position=row[5],
        role=row[6],
        speaker=row[7],
        content=row[8],
        occurrence=row[9],
        occurred_at=row[10],
        occurred_offset=row[11],
        parent_session_id=row[12],
        visibility=row[13],
        metadata=_metadata(row[14]),
        created_at=row[15],
        seq=row[16],
        clock=row[17],
    )


@lru_cache(maxsize=1024)
def origins_json(origins: tuple[Origin, ...]) -> str:
    """Return origins as they stand in a row."""
    return dumps([[origin.kind, origin.place] for origin in origins])


def snapshot(value: Entry | Turn) -> dict[str, Any]:
    """Return the authored fields of a row as a JSON-ready object."""
    fields: dict[str, Any] = {name: getattr(value, name) for name in value.__slots__ if name not in {"seq", "kind"}}
    fields["metadata"] = dict(value.metadata)
    if isinstance(value, Entry):
        fields["tags"] = list(value.tags)
        fields["origins"] = [[origin.kind, origin.place] for origin in value.origins]
    return fields


def entry_from_snapshot(fields: Mapping[str, Any]) -> Entry:
    """Return the Entry that `snapshot` described; unknown fields are ignored, missing ones take their defaults."""
    known = {name: fields[name] for name in Entry.__slots__ if name in fields and name not in {"seq", "kind"}}
    known["tags"] = tuple(fields.get("tags", ()))
    known["origins"] = tuple(sorted(Origin(kind, place) for kind, place in fields.get("origins", ())))
    return Entry(**known)


def turn_from_snapshot(fields: Mapping[str, Any]) -> Turn:
    """Return the Turn that `snapshot` described."""
    return Turn(**{name: fields[name] for name in Turn.__slots__ if name in fields and name not in {"seq", "kind"}})
