"""What callers ask for: the options of a recall and of a list, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, TypedDict

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.drafts import shown
from hermes_mnemosyne.values import TARGETS, Kind, RecallQuery, Target

# More than any store holds, and a number that every database takes.
_MOST_ROWS = 2**31 - 1


class Narrowing(TypedDict, total=False):
    """What both a recall and a list may narrow by; times as in RecallQuery."""

    kinds: tuple[Kind, ...]
    target: Target | None
    themes: tuple[str, ...] | None
    session_id: str | None
    since: str | None
    until: str | None
    written_since: str | None
    written_until: str | None
    tags: tuple[str, ...]
    contains: str | None
    include_expired: bool
    include_superseded: bool


class RecallOptions(Narrowing, total=False):
    """The fields of RecallQuery besides its text."""

    limit: int
    exclude: frozenset[str]
    budget_chars: int | None
    budget_tokens: int | None
    strict: bool
    explain: bool


class ListOptions(Narrowing, total=False):
    """The options of `Memory.list`."""

    limit: int | None
    offset: int
    newest_first: bool


def checked_query(query: RecallQuery) -> RecallQuery:
    """Return a query whose options have their types. Raises InvalidInput, naming the option.

    A text in place of a list of texts would be taken for the list of its letters and find nothing.
    """
    for name in ("text", "session_id", "contains"):
        value = getattr(query, name)
        if not isinstance(value, str) and not (value is None and name != "text"):
            raise InvalidInput(f"{name} must be text, not {type(value).__name__}")
    lists: dict[str, Any] = {}
    for name in ("kinds", "themes", "tags", "exclude"):
        value = getattr(query, name)
        if value is None and name == "themes":
            continue
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            raise InvalidInput(f"{name} must be a list of texts, not {type(value).__name__}")
        if not all(isinstance(item, str) for item in value):
            raise InvalidInput(f"{name} must hold texts only")
        lists[name] = frozenset(value) if name == "exclude" else tuple(value)
    if set(lists["kinds"]) - {"entry", "turn"} or query.target not in (None, *TARGETS):
        raise InvalidInput("kinds are entry and turn, a target is memory or user")
    counts: dict[str, Any] = {name: count_of(name, getattr(query, name)) for name in ("limit", "budget_chars", "budget_tokens")}
    if counts["limit"] is None:
        raise InvalidInput("limit must be a whole number")
    return replace(query, **lists, **counts)


def count_of(name: str, value: Any) -> int | None:
    """Return a number of rows or characters, None for no bound. Raises InvalidInput."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} must be a whole number, not {shown(value)}")
    if value < 0:
        raise InvalidInput(f"{name} must not be negative")
    return min(value, _MOST_ROWS)
