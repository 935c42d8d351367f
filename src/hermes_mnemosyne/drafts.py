"""What callers give to be stored, checked and cleaned: the fields of entries and turns.

Limits, the same on every store: a content of 16 Mi characters, 64 tags of 256 characters, an id of a session of 1,024 characters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypedDict

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.store.operations import TurnText
from hermes_mnemosyne.times import read_moment
from hermes_mnemosyne.values import ROLES, TARGETS, VISIBILITIES, Role, Target, Visibility

MAX_CONTENT = 16 * 1024 * 1024
MAX_TAGS, MAX_TAG = 64, 256
MAX_SESSION = 1024
_MOST_SHOWN = 80

Clean = Callable[[str], tuple[str, tuple[str, ...]]]
CleanValue = Callable[[Any], tuple[Any, tuple[str, ...]]]


class EntryFields(TypedDict, total=False):
    """Fields of a new entry besides its content. Times are text or datetimes, see `times.parse_when`."""

    target: Target
    tags: Sequence[str]
    importance: float
    pinned: bool
    valid_until: str | datetime | date | None
    occurred_at: str | datetime | date | None
    supersedes: str | None
    visibility: Visibility | None
    metadata: Mapping[str, Any] | None
    session_id: str


class EntryChanges(TypedDict, total=False):
    """Fields of an entry that may be changed; None clears a time."""

    content: str
    tags: Sequence[str]
    importance: float
    pinned: bool
    valid_until: str | datetime | date | None
    occurred_at: str | datetime | date | None
    visibility: Visibility
    metadata: Mapping[str, Any]
    session_id: str


class TurnFields(TypedDict, total=False):
    """Fields of a turn besides its content."""

    session_id: str
    role: Role
    speaker: str
    occurred_at: str | datetime | date | None
    parent_session_id: str
    visibility: Visibility | None
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Draft:
    """Checked values by field name, and notes on what was changed on the way."""

    values: dict[str, Any]
    notes: tuple[str, ...]


def cleaned(value: Any, storable: CleanValue, mask: CleanValue | None) -> tuple[Any, tuple[str, ...]]:
    """Return a value as it may be stored, and notes on what was changed."""
    value, notes = storable(value)
    if mask is None:
        return value, notes
    value, found = mask(value)
    return value, (*notes, *found)


def shown(value: Any) -> str:
    """Return a value as a message may show it: short, and without fail."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


class _Check:
    """Collects checked values and notes."""

    def __init__(self, clean: Clean, clean_value: CleanValue) -> None:
        self._clean = clean
        self._clean_value = clean_value
        self.notes: list[str] = []

    def text(self, name: str, value: Any, *, longest: int = MAX_CONTENT) -> str:
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be text, not {type(value).__name__}")
        if len(value) > longest:
            raise InvalidInput(f"{name} has {len(value):,} characters, more than the limit of {longest:,}: split it")
        cleaned_text, notes = self._clean(value)
        self.notes += notes
        return cleaned_text

    def content(self, value: Any) -> str:
        text = self.text("content", value)
        if not text.strip():
            raise InvalidInput("the content is blank: give some text")
        return text

    def tags(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InvalidInput("tags must be a list of texts")
        if len(value) > MAX_TAGS:
            raise InvalidInput(f"there are {len(value)} tags, more than the limit of {MAX_TAGS}")
        tags = {self.text("a tag", tag, longest=MAX_TAG).strip() for tag in value}
        return tuple(sorted(tags - {""}))

    def importance(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise InvalidInput(f"importance is a number from 0 to 1, not {shown(value)}")
        return float(value)

    def flag(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InvalidInput(f"{name} is true or false, not {shown(value)}")
        return value

    def choice(self, name: str, value: Any, choices: Sequence[str]) -> str:
        if not isinstance(value, str) or value not in choices:
            raise InvalidInput(f"{name} is one of {', '.join(choices)}, not {shown(value)}")
        return str(value)

    def metadata(self, value: Any) -> dict[str, Any]:
        if value is not None and not isinstance(value, Mapping):
            raise InvalidInput("metadata must be an object")
        made, notes = self._clean_value(dict(value or {}))
        self.notes += notes
        return dict(made)

    def with_notes(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return metadata that also tells what was replaced in the texts."""
        notes = sorted({note for note in self.notes if note.startswith("replaced-")})
        return {"cleaned": notes, **metadata} if notes else dict(metadata)


def _moment(value: Any, *, upper: bool = False) -> tuple[str | None, int | None]:
    if value is None or value == "":
        return None, None
    if not isinstance(value, str | date):
        raise InvalidInput(f"a time is text or a datetime, not {shown(value)}")
    moment = read_moment(value, upper=upper)
    return moment.utc, moment.offset


def _demand_known(fields: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    unknown = sorted(str(name) for name in fields.keys() - known.keys())
    if unknown:
        raise InvalidInput(f"there is no field {shown(unknown[0])} to be set here: there are {', '.join(sorted(known))}")


def _fields(check: _Check, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked values of the fields that are given."""
    values: dict[str, Any] = {}
    for name, value in fields.items():
        match name:
            case "content":
                values[name] = check.content(value)
            case "tags":
                values[name] = check.tags(value)
            case "importance":
                values[name] = check.importance(value)
            case "pinned":
                values[name] = check.flag(name, value)
            case "valid_until":
                values[name] = _moment(value, upper=True)[0]
            case "occurred_at":
                values["occurred_at"], values["occurred_offset"] = _moment(value)
            case "visibility" if value is None:
                pass
            case "visibility":
                values[name] = check.choice(name, value, VISIBILITIES)
            case "metadata":
                values[name] = check.metadata(value)
            case "session_id" | "parent_session_id":
                values[name] = check.text(name, value, longest=MAX_SESSION)
            case _:
                raise InvalidInput(f"{name} cannot be set here")
    return values


def _check_visibility(check: _Check, fields: Mapping[str, Any]) -> None:
    """Refuse a wrong visibility; what it is when none is given depends on the theme and is the caller's matter."""
    if fields.get("visibility") is not None:
        check.choice("visibility", fields["visibility"], VISIBILITIES)


def draft_of(content: str, fields: Mapping[str, Any], clean: Clean, clean_value: CleanValue) -> Draft:
    """Return the checked fields of a new entry but its visibility. Raises InvalidInput."""
    check = _Check(clean, clean_value)
    _demand_known(fields, EntryFields.__annotations__)
    given = {name: value for name, value in fields.items() if name not in {"target", "supersedes", "visibility"}}
    values = _fields(check, {**given, "content": content})
    values["target"] = check.choice("target", fields.get("target", "memory"), TARGETS)
    _check_visibility(check, fields)
    if fields.get("supersedes"):
        values["supersedes"] = check.text("supersedes", fields["supersedes"], longest=MAX_SESSION)
    values["metadata"] = check.with_notes(values.get("metadata", {}))
    return Draft(values, tuple(dict.fromkeys(check.notes)))


def entry_changes(changes: Mapping[str, Any], clean: Clean, clean_value: CleanValue) -> Draft:
    """Return the checked changes of an entry. Raises InvalidInput, also when there is none."""
    check = _Check(clean, clean_value)
    if not changes:
        raise InvalidInput("nothing to change: name a field")
    _demand_known(changes, EntryChanges.__annotations__)
    values = _fields(check, changes)
    if "metadata" in values:
        values["metadata"] = check.with_notes(values["metadata"])
    return Draft(values, tuple(dict.fromkeys(check.notes)))


def turn_of(
    content: str, fields: Mapping[str, Any], clean: Clean, clean_value: CleanValue
) -> tuple[TurnText, dict[str, Any], tuple[str, ...]]:
    """Return a message to be captured, the fields of its capture, and notes. Raises InvalidInput."""
    check = _Check(clean, clean_value)
    _demand_known(fields, TurnFields.__annotations__)
    given = {name: value for name, value in fields.items() if name not in {"role", "speaker", "visibility"}}
    values = _fields(check, {**given, "content": content})
    _check_visibility(check, fields)
    turn = TurnText(
        uid=uuid7(),
        role=check.choice("role", fields.get("role", "user"), ROLES),  # type: ignore[arg-type]
        content=values["content"],
        speaker=check.text("speaker", fields.get("speaker", ""), longest=MAX_TAG).strip(),
        occurred_at=values.get("occurred_at"),
        occurred_offset=values.get("occurred_offset"),
        metadata=check.with_notes(values.get("metadata", {})),
    )
    rest = {"session_id": values.get("session_id", ""), "parent_session_id": values.get("parent_session_id", "")}
    return turn, rest, tuple(dict.fromkeys(check.notes))
