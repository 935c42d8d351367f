"""What may be asked in the query of a request, checked: filters, places, numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams

from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync.keyring import Grant
from hermes_mnemosyne.sync.server.answers import forbidden, malformed
from hermes_mnemosyne.sync.sharing import digest_of, sharing_of
from hermes_mnemosyne.sync.wire import MAX_RECORDS, PAGE_RECORDS

LONGEST_WAIT = 55.0
_REPLICA = re.compile(r"[0-9A-Za-z_-]{1,64}")
_LONGEST_MARK, _LONGEST_NAME, _MOST_NAMES = 64, 1024, 1000
_MOST_SKIPPED = 64
_LARGEST = 2**63 - 1
_BUCKETS = 256
_FLAGS = {"": False, "0": False, "1": True}


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows are asked for: themes (case-folded) and whether turns too; of `sealed` ones themes are keyed names."""

    include: frozenset[str] | None
    exclude: frozenset[str]
    turns: bool
    sealed: bool = False

    @classmethod
    def of(cls, query: QueryParams) -> Filters:
        """Return the filters of a query. Raises Refused."""
        include, exclude = (_themes(query, name) for name in ("include", "exclude"))
        return cls(include if "include" in query else None, exclude, _flag(query, "turns"), is_sealed(query))

    def within(self, grant: Grant) -> Sharing:
        """Return the rows that are meant, as far as a key allows; themes that contacts share are left out unless they were named."""
        asked = sharing_of(self.include, self.exclude, turns=self.turns)
        if grant.themes is None:
            return asked
        include = grant.themes if asked.include is None else asked.include & grant.themes
        return Sharing(include=include, exclude=asked.exclude, turns=asked.turns)


def fingerprint(sharing: Sharing) -> str:
    """Return what tells these filters from others: with other ones a cursor is worth nothing."""
    return digest_of(None if sharing.include is None else sorted(sharing.include), sorted(sharing.exclude), sharing.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What is asked of `GET /v1/changes`; `replica` is empty where nothing is to be remembered."""

    replica: str
    mark: str
    after: int
    limit: int
    wait: float
    skip: tuple[tuple[int, int], ...]
    filters: Filters
    model: str | None

    @classmethod
    def of(cls, query: QueryParams) -> Pull:
        """Return the request of a query. Raises Refused."""
        return cls(
            replica=replica_of(query, is_needed=False),
            mark=mark_of(query),
            after=_number(query, "after", 0, _LARGEST, 0),
            limit=_number(query, "limit", 1, MAX_RECORDS, PAGE_RECORDS),
            wait=_seconds(query),
            skip=_intervals(query),
            filters=Filters.of(query),
            model=_short(query, "model", _LONGEST_NAME) or None,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Which digests are asked for: of all places (`theme` None), of the buckets of one, or the rows of one bucket."""

    theme: str | None
    subject: str = ""
    bucket: int | None = None

    @classmethod
    def of(cls, query: QueryParams) -> Place:
        """Return the place that a query names. Raises Refused."""
        theme = _single(query, "theme")
        bucket = _number(query, "bucket", 0, _BUCKETS - 1, 0) if "bucket" in query else None
        if theme is None and (bucket is not None or "subject" in query):
            raise malformed("subject and bucket need a theme")
        return cls(theme, _short(query, "subject", _LONGEST_NAME), bucket)


def replica_of(query: QueryParams, *, is_needed: bool) -> str:
    """Return the replica that asks. Raises Refused."""
    name = _single(query, "replica") or ""
    if (is_needed or name) and not _REPLICA.fullmatch(name):
        raise malformed("replica must be the id of a replica")
    return name


def mark_of(query: QueryParams) -> str:
    """Return the mark that is presented, empty when none is."""
    return _short(query, "mark", _LONGEST_MARK)


def is_sealed(query: QueryParams) -> bool:
    """Tell whether sealed rows are sent or asked for. Raises Refused."""
    return _flag(query, "sealed")


def seen_of(query: QueryParams) -> int | None:
    """Return how far the sender of sealed rows knows those that are here, None where it does not say. Raises Refused."""
    return _number(query, "seen", 0, _LARGEST, 0) if query.get("seen") else None


def demand(has: bool) -> None:  # noqa: FBT001 - it reads as a sentence
    """Raise Refused (403) unless a key has the right."""
    if not has:
        raise forbidden()


def uids_of(body: dict[str, Any], most: int) -> list[str]:
    """Return the uids that are asked for. Raises Refused."""
    uids = body.get("uids")
    if not isinstance(uids, list) or len(uids) > most:
        raise malformed(f"uids must be a list of at most {most} ids")
    if not all(isinstance(uid, str) and 0 < len(uid) <= _LONGEST_NAME for uid in uids):
        raise malformed("each of the uids must be text")
    return list(dict.fromkeys(uids))


def _single(query: QueryParams, name: str) -> str | None:
    values = query.getlist(name)
    if len(values) > 1:
        raise malformed(f"{name} may be given once")
    return values[0] if values else None


def _short(query: QueryParams, name: str, most: int) -> str:
    value = _single(query, name) or ""
    if len(value) > most:
        raise malformed(f"{name} is too long")
    return value


def _themes(query: QueryParams, name: str) -> frozenset[str]:
    values = query.getlist(name)
    if len(values) > _MOST_NAMES or any(not value or len(value) > _LONGEST_NAME for value in values):
        raise malformed(f"{name} must be at most {_MOST_NAMES} names of themes, each a parameter of its own")
    return frozenset(value.lower() for value in values)


def _flag(query: QueryParams, name: str) -> bool:
    value = _single(query, name) or ""
    if value not in _FLAGS:
        raise malformed(f"{name} must be 0 or 1")
    return _FLAGS[value]


def _number(query: QueryParams, name: str, least: int, most: int, default: int) -> int:
    value = _single(query, name)
    if value is None or value == "":
        return default
    if not (value.isascii() and value.isdecimal()) or len(value) > len(str(_LARGEST)) or not least <= int(value) <= most:
        raise malformed(f"{name} must be a whole number from {least} to {most}")
    return int(value)


def _seconds(query: QueryParams) -> float:
    value = _single(query, "wait") or "0"
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?", value) or float(value) > LONGEST_WAIT:
        raise malformed(f"wait must be seconds, at most {LONGEST_WAIT:.0f}")
    return float(value)


def _intervals(query: QueryParams) -> tuple[tuple[int, int], ...]:
    value = _single(query, "skip") or ""
    found = []
    for part in value.split(",") if value else ():
        pair = re.fullmatch(r"([0-9]{1,19})-([0-9]{1,19})", part)
        if pair is None or not int(pair[1]) <= int(pair[2]) <= _LARGEST:
            raise malformed("skip must be intervals such as 4-9,12-12")
        found.append((int(pair[1]), int(pair[2])))
    if len(found) > _MOST_SKIPPED:
        raise malformed(f"skip may hold at most {_MOST_SKIPPED} intervals")
    return tuple(found)
