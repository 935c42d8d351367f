"""The shape of export records, checked before they reach a store: they come from files and other machines.

Five types share the file: `entry`, `turn`, `alias`, `history` (its `before` is an entry or a turn), `tombstone`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import is_stamp
from hermes_mnemosyne.values import ROLES, TARGETS, VISIBILITIES

Check = Callable[[Any], bool]

LONGEST_NAME = 1024
LONGEST_TEXT = 16 * 1024 * 1024
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST = 2**53


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= LONGEST_NAME


def _label(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST


def _count(value: Any) -> bool:
    return _whole(value) and value >= 0


def _share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 1


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_name, value))


def _origins(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 and all(map(_label, pair)) for pair in value)  # noqa: PLR2004 - kind and place


def _kept_out(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, list) and len(row) == 3 and _like(_HASH)(row[0]) and is_stamp(row[1]) and _count(row[2])  # noqa: PLR2004 - hash, clock, occurrence
        for row in value
    )


def _moment(value: Any) -> bool:
    if not isinstance(value, str) or _MOMENT.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _like(pattern: re.Pattern[str]) -> Check:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _one_of(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


_WHERE: dict[str, Check] = {"uid": _name, "theme": _name, "clock": is_stamp}
_ROW: dict[str, Check] = {**_WHERE, "content": _text, "created_at": _moment}
_ROW_MORE: dict[str, Check] = {
    "subject": _label,
    "visibility": _one_of(*VISIBILITIES),
    "session_id": _label,
    "metadata": _object,
    "occurred_at": _optional(_moment),
    "occurred_offset": _optional(_whole),
}
_REQUIRED: dict[str, dict[str, Check]] = {
    "entry": {**_ROW, "updated_at": _moment},
    "turn": _ROW,
    "alias": {**_WHERE, "survivor": _name},
    "history": {**_WHERE, "action": _name, "at": _moment, "before": _object},
    "tombstone": {**_WHERE, "state": _one_of("retired", "forgotten"), "at": _moment, "kind": _one_of("entry", "turn")},
}
_OPTIONAL: dict[str, dict[str, Check]] = {
    "entry": {
        **_ROW_MORE,
        "target": _one_of(*TARGETS),
        "tags": _names,
        "importance": _share,
        "pinned": _flag,
        "valid_until": _optional(_moment),
        "superseded_by": _optional(_name),
        "origins": _origins,
    },
    "turn": {**_ROW_MORE, "role": _one_of(*ROLES), "speaker": _label, "occurrence": _count, "parent_session_id": _label},
    "alias": {"subject": _label},
    "history": {"subject": _label},
    "tombstone": {
        "subject": _label,
        "visibility": _one_of(*VISIBILITIES),
        "session_id": _optional(_label),
        "role": _optional(_one_of(*ROLES)),
        "content_hash": _like(_HASH),
        "occurrence": _optional(_count),
        "keeps_out": _kept_out,
    },
}


def checked(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record when it has the shape of its type; fields that are not known are left to the store.

    Raises InvalidInput naming the field.
    """
    kind = record.get("type")
    if not isinstance(kind, str) or kind not in _REQUIRED:
        raise InvalidInput(f"unknown record type {str(kind)[:40]!r}: entry, turn, alias, history or tombstone")
    _check(record, kind, kind)
    if kind == "history":
        before = record["before"]
        _check(before, "turn" if "role" in before else "entry", "history.before")
    if kind == "tombstone" and record.get("session_id") is not None:
        missing = [name for name in ("role", "content_hash", "occurrence") if record.get(name) is None]
        if missing:
            raise InvalidInput(f"the tombstone of a turn has no {missing[0]}")
    return record


def _check(record: Mapping[str, Any], kind: str, where: str) -> None:
    for name, check in _REQUIRED[kind].items():
        if name not in record:
            raise InvalidInput(f"{where}: the field {name} is missing")
        if not check(record[name]):
            raise InvalidInput(f"{where}: the field {name} has a wrong value: {str(record[name])[:40]!r}")
    for name, check in _OPTIONAL[kind].items():
        if name in record and not check(record[name]):
            raise InvalidInput(f"{where}: the field {name} has a wrong value: {str(record[name])[:40]!r}")
