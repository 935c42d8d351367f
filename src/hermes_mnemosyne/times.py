"""Times that people give: one rule for every door.

- `2026`, `2026-11`, `2026-11-30`, `today`, `yesterday`: a span of the user's local days; its start, or with `upper` its end.
- `2026-11-30T12:00[:00[.000000]]` (or a blank instead of `T`): UTC when it carries no offset, else `Z`, `+02:00`, `+0200`, `+02`.
- `now`, and spans counted from now: `12h`, `7d`, `2w`, `3mo`, `1y` lie in the past (also `7d ago`), `+7d` or `in 7d` ahead.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import utc_text

FORMS = "2026-11-30, 2026-11, 2026-11-30T12:00, 2026-11-30T12:00:00+02:00, now, today, yesterday, 7d, 2w, +7d"

_DAY = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})[T ]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r" ?(Z|UTC|GMT|([+-])([0-9]{2})(?::?([0-9]{2}))?)?",
    re.IGNORECASE,
)
_SPAN = re.compile(
    r"(\+|-|in )? ?([0-9]{1,6}) ?(minutes?|min|hours?|h|days?|d|weeks?|w|months?|mo|years?|y)( ago)?", re.IGNORECASE
)
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_MONTHS_OF = {"mo": 1, "y": 12}
_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip


class Moment(NamedTuple):
    """A moment as fixed-width UTC text, and the offset from UTC in minutes in which it was given (None: it carried none)."""

    utc: str
    offset: int | None


def parse_when(when: str | date, *, upper: bool = False, zone: tzinfo | None = None) -> str:
    """Return a time given by a person as fixed-width UTC text; see the module for the forms.

    With `upper` a span of days stands for its end (exclusive: the start of what follows), a moment always for itself. `zone` is
    the user's time zone, the system's when None. A naive datetime is UTC, a plain date the user's local day.
    Raises InvalidInput, naming the accepted forms.
    """
    return read_moment(when, upper=upper, zone=zone).utc


def read_moment(when: str | date, *, upper: bool = False, zone: tzinfo | None = None) -> Moment:
    """Return what `parse_when` does together with the offset that the time carried. Raises InvalidInput."""
    try:
        if isinstance(when, datetime):
            return _moment_of(when)
        if isinstance(when, date):
            return _span_of_days(when, when, upper=upper, zone=zone)
        return _read_text(unicodedata.normalize("NFKC", when).strip(), upper=upper, zone=zone)
    except (ValueError, OverflowError, OSError, TypeError) as error:
        raise InvalidInput(f"not a time: {str(when)[:60]!a}; write one of {FORMS}") from error


def _read_text(text: str, *, upper: bool, zone: tzinfo | None) -> Moment:
    word = text.lower()
    if word == "now":
        return _moment_of(datetime.now(UTC))
    if word in {"today", "yesterday"}:
        day = datetime.now(zone).date() - timedelta(days=word == "yesterday")
        return _span_of_days(day, day, upper=upper, zone=zone)
    if match := _DAY.fullmatch(text):
        year, month, day_of_month = (int(part) if part else None for part in match.groups())
        first = date(year or 0, month or 1, day_of_month or 1)
        last_month = month or 12
        last = date(first.year, last_month, day_of_month or monthrange(first.year, last_month)[1])
        return _span_of_days(first, last, upper=upper, zone=zone)
    if match := _SPAN.fullmatch(text):
        return _from_now(match)
    if match := _MOMENT.fullmatch(text):
        return _written_moment(match)
    raise ValueError


def _written_moment(match: re.Match[str]) -> Moment:
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int((match[7] or "0").ljust(6, "0")[:6])
    naive = datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - the zone follows
    if match[8] is None:
        return _moment_of(naive)
    if match[9] is None:
        return _moment_of(naive.replace(tzinfo=UTC))
    hours, minutes = int(match[10]), int(match[11] or 0)
    if minutes > 59:  # noqa: PLR2004 - minutes of an hour
        raise ValueError
    offset = timedelta(hours=hours, minutes=minutes)
    return _moment_of(naive.replace(tzinfo=timezone(-offset if match[9] == "-" else offset)))


def _moment_of(moment: datetime) -> Moment:
    offset = moment.utcoffset()
    if offset is None:
        return Moment(utc_text(moment.replace(tzinfo=UTC)), None)
    return Moment(utc_text(moment), round(offset.total_seconds() / 60))


def _from_now(match: re.Match[str]) -> Moment:
    sign, number, unit, ago = (match[1] or "").strip().lower(), int(match[2]), match[3].lower(), match[4]
    ahead = sign in {"+", "in"}
    if ahead and ago:
        raise ValueError
    now = datetime.now(UTC)
    short = next(name for name in ("min", "mo", "h", "d", "w", "y") if unit.startswith(name))
    if short in _UNITS:
        return _moment_of(now + _UNITS[short] * (number if ahead else -number))
    months = now.year * 12 + now.month - 1 + _MONTHS_OF[short] * (number if ahead else -number)
    year, month = divmod(months, 12)
    day = min(now.day, monthrange(year, month + 1)[1]) if 1 <= year <= 9999 else 0  # noqa: PLR2004 - what a datetime holds
    return _moment_of(now.replace(year=year, month=month + 1, day=day))


def _span_of_days(first: date, last: date, *, upper: bool, zone: tzinfo | None) -> Moment:
    # Bounds at the very ends of the calendar mean "without bound": they are clamped, not refused.
    if not upper:
        day = first
    elif last == date.max:
        return Moment(utc_text(_LAST), None)
    else:
        day = last + timedelta(days=1)
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    try:
        return _moment_of(midnight if zone is not None else _first_instant(midnight))
    except (OverflowError, ValueError):
        if day.year == 1:
            return Moment(utc_text(_FIRST), None)
        if day.year == 9999:  # noqa: PLR2004 - the last year of a datetime
            return Moment(utc_text(_LAST), None)
        raise


def _first_instant(midnight: datetime) -> datetime:
    """Return when a local day begins, also where the clock is put forward over midnight or back to it."""
    readings = [midnight.astimezone(), midnight.replace(fold=1).astimezone()]
    return min((reading for reading in readings if reading.date() >= midnight.date()), default=max(readings))


def date_words(utc: str, offset: int | None = None) -> str:
    """Return the day of fixed-width UTC text in words, such as `monday 30 november 2026`, seen `offset` minutes east of UTC."""
    day = date(int(utc[:4]), int(utc[5:7]), int(utc[8:10]))
    if offset:
        shift = (int(utc[11:13]) * 60 + int(utc[14:16]) + offset) // 1440
        if shift and date.min < day < date.max:
            day += timedelta(days=shift)
    return f"{_WEEKDAYS[day.weekday()]} {day.day} {_MONTHS[day.month - 1]} {day.year}"
