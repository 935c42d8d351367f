"""Periods that a query names as seen from today, such as `last week`, `three days ago`, `on Monday`; and dates in digits.

What is stored carries its day in words, so that `8 May 2023` and `in May` are found as words; these here are not. Expressions are
English. A period is a span of the user's local days, of which none lies ahead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, tzinfo
from functools import cache
from typing import NamedTuple

from hermes_mnemosyne._errors import InvalidInput

# A longer text is something pasted; what it says of times is not what is asked for.
_LONGEST = 500
_MOST = 4

_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "couple": 2, "three": 3, "few": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# How many days around "n units ago" may be meant: nobody counts weeks to the day.
_SLACK = {"day": 0, "week": 3, "month": 15, "year": 180}

_COUNT = rf"(?:a )?(?P<count>[0-9]{{1,3}}|{'|'.join(_NUMBERS)})(?: of)?"
_UNIT = "(?P<unit>day|week|month|year)"
_LONGER = "(?P<unit>week|month|year)"
_HINT = re.compile(
    r"\b(?:ago|last|past|previous|this|today|yesterday|(?:on|since)\s+\w+day|[0-9]{4}-[0-9]{2})\b", re.IGNORECASE | re.ASCII
)


class Period(NamedTuple):
    """A span of time as fixed-width UTC text; `until` is exclusive."""

    since: str
    until: str

    def holds(self, moment: str) -> bool:
        """Tell whether a moment (fixed-width UTC text) lies within."""
        return self.since <= moment < self.until


def periods_of(text: str, now: str, zone: tzinfo | None = None) -> tuple[Period, ...]:
    """Return the periods that a query names, seen from `now` (UTC text) in the time zone `zone` (the system's when None)."""
    if len(text) > _LONGEST or not _HINT.search(text):
        return ()
    from hermes_mnemosyne.times import parse_when  # most queries need no calendar

    today = datetime.fromisoformat(now).astimezone(zone).date()
    found: dict[Period, None] = {}
    for first, last in _spans(" ".join(text.lower().split()), today):
        try:
            found[Period(parse_when(first, zone=zone), parse_when(min(last, today), upper=True, zone=zone))] = None
        except InvalidInput:  # the ends of the calendar
            continue
    return tuple(found)[:_MOST]


def _spans(text: str, today: date) -> Iterator[tuple[date, date]]:
    """Yield the first and the last day of each expression; a part of a longer one is none of its own."""
    taken: list[tuple[int, int]] = []
    for pattern, read in _forms():
        for match in pattern.finditer(text):
            if any(match.start() < end and begin < match.end() for begin, end in taken):
                continue
            taken.append(match.span())
            try:
                first, last = read(match, today)
            except (ValueError, OverflowError):  # no such day
                continue
            if first <= today:
                yield first, last


def _digits(match: re.Match[str], _: date) -> tuple[date, date]:
    year, month, day = int(match["year"]), int(match["month"]), match["day"]
    return date(year, month, int(day or 1)), date(year, month, int(day or _length(year, month)))


def _ago(match: re.Match[str], today: date) -> tuple[date, date]:
    day, slack = _back(match, today), timedelta(days=_SLACK[match["unit"]])
    return day - slack, day + slack


def _latest(match: re.Match[str], today: date) -> tuple[date, date]:
    return _back(match, today), today


def _current(match: re.Match[str], today: date) -> tuple[date, date]:
    if match["unit"] == "week":
        return today - timedelta(days=today.weekday()), today
    return today.replace(day=1, month=today.month if match["unit"] == "month" else 1), today


def _previous(match: re.Match[str], today: date) -> tuple[date, date]:
    return _current(match, _current(match, today)[0] - timedelta(days=1))


def _weekday(match: re.Match[str], today: date) -> tuple[date, date]:
    day = today - timedelta(days=(today.weekday() - _WEEKDAYS.index(match["weekday"]) - 1) % 7 + 1)
    return day, today if match[0].startswith("since") else day


def _near(match: re.Match[str], today: date) -> tuple[date, date]:
    days = {"yesterday": 1, "last night": 1, "the day before yesterday": 2}.get(match[0], 0)
    return today - timedelta(days=days), today - timedelta(days=days)


def _back(match: re.Match[str], today: date) -> date:
    """Return the day that lies as many days, weeks, months or years back as a match says, one where it gives no number."""
    number, unit = match["count"] or "one", match["unit"]
    count = int(number) if number.isdigit() else _NUMBERS[number]
    if unit in {"day", "week"}:
        return today - timedelta(days=count * (7 if unit == "week" else 1))
    year, month = divmod(today.year * 12 + today.month - 1 - count * (12 if unit == "year" else 1), 12)
    return date(year, month + 1, min(today.day, _length(year, month + 1)))


def _length(year: int, month: int) -> int:
    from calendar import monthrange

    return monthrange(year, month)[1]


@cache
def _forms() -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], tuple[date, date]]], ...]:
    """Return the expressions, the longer ones first, and how each is read; made when a query first seems to hold one."""
    return tuple(
        (re.compile(rf"(?<![\w/.-])(?:{pattern})(?![\w/-])"), read)
        for pattern, read in (
            ("(?P<year>[0-9]{4})-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?", _digits),
            (f"{_COUNT} {_UNIT}s? ago", _ago),
            (f"(?:last|past|previous) {_COUNT} {_UNIT}s?", _latest),
            (f"past (?P<count>){_UNIT}", _latest),
            (f"this {_LONGER}", _current),
            (f"(?:last|previous) {_LONGER}", _previous),
            (f"(?:on|since|last|this past) (?P<weekday>{'|'.join(_WEEKDAYS)})", _weekday),
            ("the day before yesterday|yesterday|last night|today|this morning", _near),
        )
    )
