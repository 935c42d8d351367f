"""Export records as values: every field checked, so that a wrong line is refused with a reason and never half stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import is_stamp, parse_utc
from hermes_mnemosyne.text import storable, storable_value
from hermes_mnemosyne.values import ROLES, TARGETS, VISIBILITIES, Entry, Origin, Turn

TYPES = ("entry", "turn", "alias", "history", "tombstone")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_HASH = re.compile(r"[0-9a-f]{64}")
_LONGEST_NAME = 1024
_INTEGER_BITS = 63

_Choice = TypeVar("_Choice", bound=str)


def is_time(text: str) -> bool:
    """Tell whether a text is a time of fixed width that a calendar has."""
    if not _TIME.fullmatch(text):
        return False
    try:
        parse_utc(text)
    except ValueError:  # a day or hour that no calendar has
        return False
    return True


class Fields:
    """The fields of one JSON object, read by type. Every method raises InvalidInput that names the field."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        """Take an object as a JSON decoder delivers it."""
        if not isinstance(record, Mapping):
            raise InvalidInput("a record must be an object")
        self._record = record

    def has(self, name: str) -> bool:
        """Tell whether a field is there and not null."""
        return self._record.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text, cleaned to what a store can hold; without a default it must be there."""
        value = self._record.get(name, default)
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be text")
        return storable(value)[0]

    def name(self, name: str) -> str:
        """Return a short text that is not blank, such as an id."""
        value = self.text(name)
        if not value.strip() or len(value) > _LONGEST_NAME:
            raise InvalidInput(f"{name} must have 1 to {_LONGEST_NAME} characters")
        return value

    def choice(self, name: str, choices: Sequence[_Choice], default: _Choice | None = None) -> _Choice:
        """Return one of some words."""
        value = self._record.get(name, default)
        if not isinstance(value, str) or value not in choices:
            raise InvalidInput(f"{name} must be one of {', '.join(choices)}")
        return choices[choices.index(value)]

    def stamp(self, name: str) -> str:
        """Return an edit clock."""
        value = self._record.get(name)
        if not isinstance(value, str) or not is_stamp(value):
            raise InvalidInput(f"{name} must be an edit clock as an export writes it")
        return value

    def time(self, name: str, default: str | None = None) -> str:
        """Return a time of fixed width; without a default it must be there."""
        value = self._record.get(name) or default
        if not isinstance(value, str) or not is_time(value):
            raise InvalidInput(f"{name} must be a time such as 2026-11-30T12:00:00.000000Z")
        return value

    def maybe_time(self, name: str) -> str | None:
        """Return a time or None."""
        return self.time(name) if self.has(name) else None

    def integer(self, name: str, default: int | None = None, *, least: int | None = None) -> int:
        """Return a whole number that a database can hold."""
        value = self._record.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > _INTEGER_BITS:
            raise InvalidInput(f"{name} must be a whole number")
        if least is not None and value < least:
            raise InvalidInput(f"{name} must be at least {least}")
        return value

    def maybe_integer(self, name: str) -> int | None:
        """Return a whole number or None."""
        return self.integer(name) if self.has(name) else None

    def share(self, name: str, default: float) -> float:
        """Return a number from 0 to 1."""
        value = self._record.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise InvalidInput(f"{name} must be a number from 0 to 1")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return true or false; false when absent."""
        value = self._record.get(name, False)
        if not isinstance(value, bool):
            raise InvalidInput(f"{name} must be true or false")
        return value

    def items(self, name: str) -> Sequence[Any]:
        """Return a list, an empty one when absent."""
        value = self._record.get(name, ())
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{name} must be a list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, each once, in order of the alphabet."""
        return tuple(sorted({Fields({name: value}).text(name) for value in self.items(name)}))

    def object(self, name: str) -> dict[str, Any]:
        """Return a JSON object, an empty one when absent."""
        value = self._record.get(name, {})
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{name} must be an object")
        return dict(storable_value(value)[0])

    def digest(self, name: str) -> bytes:
        """Return a content hash."""
        value = self._record.get(name)
        if not isinstance(value, str) or not _HASH.fullmatch(value):
            raise InvalidInput(f"{name} must be a SHA-256 in hexadecimal digits")
        return bytes.fromhex(value)

    def origins(self, name: str) -> tuple[Origin, ...]:
        """Return origins, each once and sorted."""
        found = set()
        for pair in self.items(name):
            if not isinstance(pair, list | tuple) or len(pair) != 2:  # noqa: PLR2004
                raise InvalidInput(f"{name} must be a list of [kind, place]")
            fields = Fields({"kind": pair[0], "place": pair[1]})
            found.add(Origin(fields.name("kind"), fields.text("place")))
        return tuple(sorted(found))

    def keeps_out(self) -> list[tuple[str, str, int]]:
        """Return the keyed hashes of a tombstone with their clocks and occurrence numbers."""
        found = []
        for item in self.items("keeps_out"):
            if not isinstance(item, list | tuple) or len(item) != 3:  # noqa: PLR2004
                raise InvalidInput("keeps_out must be a list of [hash, clock, occurrence]")
            fields = Fields(dict(zip(("hash", "clock", "occurrence"), item, strict=True)))
            found.append((fields.name("hash"), fields.stamp("clock"), fields.integer("occurrence", least=0)))
        return found


def _content(fields: Fields) -> str:
    content = fields.text("content")
    if not content.strip():
        raise InvalidInput("content is blank")
    return content


def entry_of(record: Mapping[str, Any], *, at: str) -> Entry:
    """Return the entry of a record; `at` stands in for missing times. Raises InvalidInput."""
    fields = Fields(record)
    created = fields.time("created_at", at)
    return Entry(
        uid=fields.name("uid"),
        theme=fields.name("theme"),
        content=_content(fields),
        subject=fields.text("subject", ""),
        target=fields.choice("target", TARGETS, "memory"),
        tags=fields.texts("tags"),
        importance=fields.share("importance", 0.5),
        pinned=fields.flag("pinned"),
        valid_until=fields.maybe_time("valid_until"),
        occurred_at=fields.maybe_time("occurred_at"),
        occurred_offset=fields.maybe_integer("occurred_offset"),
        superseded_by=fields.name("superseded_by") if fields.has("superseded_by") else None,
        visibility=fields.choice("visibility", VISIBILITIES, "synced"),
        origins=fields.origins("origins"),
        session_id=fields.text("session_id", ""),
        metadata=fields.object("metadata"),
        created_at=created,
        updated_at=fields.time("updated_at", created),
        clock=fields.stamp("clock"),
    )


def turn_of(record: Mapping[str, Any], *, at: str) -> Turn:
    """Return the turn of a record; `at` stands in for a missing time. Raises InvalidInput."""
    fields = Fields(record)
    return Turn(
        uid=fields.name("uid"),
        theme=fields.name("theme"),
        content=_content(fields),
        subject=fields.text("subject", ""),
        session_id=fields.text("session_id", ""),
        position=fields.integer("position", 0),
        role=fields.choice("role", ROLES),
        speaker=fields.text("speaker", ""),
        occurrence=fields.integer("occurrence", 1, least=1),
        occurred_at=fields.maybe_time("occurred_at"),
        occurred_offset=fields.maybe_integer("occurred_offset"),
        parent_session_id=fields.text("parent_session_id", ""),
        visibility=fields.choice("visibility", VISIBILITIES, "synced"),
        metadata=fields.object("metadata"),
        created_at=fields.time("created_at", at),
        clock=fields.stamp("clock"),
    )
