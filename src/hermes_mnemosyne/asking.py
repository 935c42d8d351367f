"""What callers ask for: the options of a recall and of a list, checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any, TypedDict

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.drafts import shown
from hermes_mnemosyne.store.protocol import Filter, Reach
from hermes_mnemosyne.text import storable
from hermes_mnemosyne.times import parse_when
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
    embed_timeout: float | None


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
    wait: Any = query.embed_timeout
    if wait is not None and (isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < math.inf):
        raise InvalidInput(f"embed_timeout must be a number of seconds, not {shown(wait)}")
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


def filter_of(query: RecallQuery, reach: Reach) -> Filter:
    """Return the conditions of a query within a reach. Raises InvalidInput for a time that cannot be read."""
    return Filter(
        reach=reach,
        kinds=query.kinds,
        target=query.target,
        session_id=None if query.session_id is None else storable(query.session_id)[0],
        since=_when(query.since),
        until=_when(query.until, upper=True),
        written_since=_when(query.written_since),
        written_until=_when(query.written_until, upper=True),
        tags=tuple(storable(tag)[0] for tag in query.tags),
        contains=storable(query.contains)[0] if query.contains else None,
        now=None if query.include_expired else now_text(),
        include_superseded=query.include_superseded,
        exclude=frozenset(id_of(uid) for uid in query.exclude),
    )


def id_of(uid: str) -> str:
    """Return an id as a store may be asked for it; what cannot be an id finds nothing. Raises InvalidInput for no text."""
    if not isinstance(uid, str):
        raise InvalidInput(f"an id is text, not {type(uid).__name__}")
    return storable(uid)[0]


def _when(text: str | date | datetime | None, *, upper: bool = False) -> str | None:
    return None if text is None else parse_when(text, upper=upper)
