"""Times that people give."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import parse_utc, uuid7
from hermes_mnemosyne.times import date_words, parse_when, read_moment

VIENNA = ZoneInfo("Europe/Vienna")


@pytest.mark.parametrize(
    ("given", "utc"),
    [
        ("2026-11-30T12:00", "2026-11-30T12:00:00.000000Z"),
        ("2026-11-30 12:00:01.5", "2026-11-30T12:00:01.500000Z"),
        ("2026-11-30T12:00:00Z", "2026-11-30T12:00:00.000000Z"),
        ("2026-11-30T12:00:00z", "2026-11-30T12:00:00.000000Z"),
        ("2026-11-30T12:00:00+02:00", "2026-11-30T10:00:00.000000Z"),
        ("2026-11-30t12:00:00-0530", "2026-11-30T17:30:00.000000Z"),
        ("2026-11-30T12:00:00.1234567+02", "2026-11-30T10:00:00.123456Z"),
        ("  \uff12\uff10\uff12\uff16-11-30T12:00Z ", "2026-11-30T12:00:00.000000Z"),
        ("0001-01-01T00:00Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_a_moment_is_utc_unless_it_says_otherwise(given: str, utc: str) -> None:
    assert parse_when(given, zone=VIENNA) == utc
    assert parse_when(given, upper=True, zone=VIENNA) == utc


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        ("2026-11-30", "2026-11-29T23:00", "2026-11-30T23:00"),
        ("2026-07-01", "2026-06-30T22:00", "2026-07-01T22:00"),
        ("2026-03-29", "2026-03-28T23:00", "2026-03-29T22:00"),  # the day the clocks go forward has 23 hours
        ("2026-12", "2026-11-30T23:00", "2026-12-31T23:00"),
        ("2024-2", "2024-01-31T23:00", "2024-02-29T23:00"),
        ("2026", "2025-12-31T23:00", "2026-12-31T23:00"),
    ],
)
def test_days_months_and_years_are_the_users(given: str, start: str, end: str) -> None:
    assert parse_when(given, zone=VIENNA) == f"{start}:00.000000Z"
    assert parse_when(given, upper=True, zone=VIENNA) == f"{end}:00.000000Z"


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    os.environ.pop("TZ", None)
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_without_a_zone_the_systems_counts() -> None:
    assert read_moment("2026-11-30") == ("2026-11-29T15:00:00.000000Z", 540)
    assert parse_when(date(2026, 11, 30), upper=True) == "2026-11-30T15:00:00.000000Z"


def test_datetimes_and_dates_are_taken_as_they_are() -> None:
    assert parse_when(datetime(2026, 11, 30, 12)) == "2026-11-30T12:00:00.000000Z"  # noqa: DTZ001 - the case under test
    assert read_moment(datetime(2026, 11, 30, 12, tzinfo=timezone(timedelta(hours=-3)))) == ("2026-11-30T15:00:00.000000Z", -180)
    assert parse_when(date(2026, 11, 30), zone=UTC) == "2026-11-30T00:00:00.000000Z"


def test_the_offset_is_kept_where_there_was_one() -> None:
    assert read_moment("2026-11-30T12:00+05:30").offset == 330
    assert read_moment("2026-11-30T12:00Z").offset == 0
    assert read_moment("2026-11-30T12:00").offset is None


@pytest.mark.parametrize(
    ("given", "days"),
    [
        ("7d", -7),
        ("-7d", -7),
        ("7d ago", -7),
        ("2 weeks", -14),
        ("48h", -2),
        ("1440 min", -1),
        ("+7d", 7),
        ("in 2w", 14),
        ("now", 0),
    ],
)
def test_spans_count_from_now(given: str, days: int) -> None:
    before = datetime.now(UTC)
    moment = parse_utc(parse_when(given))
    after = datetime.now(UTC)
    assert before + timedelta(days=days) <= moment <= after + timedelta(days=days)


def test_months_and_years_keep_the_day_where_they_can() -> None:
    now = datetime.now(UTC)
    assert parse_when("1y")[:4] == str(now.year - 1)
    assert parse_when("12mo")[:7] == parse_when("1y")[:7]
    assert parse_when("today", zone=UTC) <= parse_when("now") < parse_when("today", upper=True, zone=UTC)
    assert parse_when("yesterday", upper=True, zone=UTC) == parse_when("today", zone=UTC)


def test_the_ends_of_the_calendar_are_bounds_and_not_errors() -> None:
    assert parse_when("9999-12-31", upper=True, zone=VIENNA) == "9999-12-31T23:59:59.999999Z"
    assert parse_when("0001-01-01", zone=VIENNA) == "0001-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    "given",
    ["", "soon", "0000-01-01", "10000-01-01", "2026-13", "2026-02-30", "2026-11-30T25:00", "2026-11-30T12:00+99:00", "20261130",
     "2026-11-30T12:00+01:75", "999999y", "+999999w", "7", "7x", "in 7d ago", "0001-01-01T00:00+05:00", "\ud83d", "\0", "2026-11-30T"],
)  # fmt: skip
def test_nonsense_is_refused_with_the_accepted_forms(given: str) -> None:
    with pytest.raises(InvalidInput, match="2026-11-30"):
        parse_when(given)


def test_dates_are_said_in_words_whatever_the_locale() -> None:
    assert date_words("2026-11-30T23:30:00.000000Z") == "monday 30 november 2026"
    assert date_words("2026-11-30T23:30:00.000000Z", 60) == "tuesday 1 december 2026"
    assert date_words("2026-01-01T00:30:00.000000Z", -60) == "wednesday 31 december 2025"
    assert date_words("0001-01-01T00:30:00.000000Z", -60) == "monday 1 january 1"


@pytest.mark.parametrize(
    "name",
    [
        "America/Havana",
        "America/Santiago",
        "Africa/Cairo",
        "Asia/Beirut",
        "America/Asuncion",
        "America/Sao_Paulo",
        "Europe/London",
    ],
)
def test_a_local_day_holds_its_own_hours_only_where_the_clock_changes_at_midnight(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", name)
    time.tzset()
    try:
        for year in (2017, 2026):
            first = date(year, 1, 1)
            for day in (first + timedelta(days=number) for number in range(365)):
                start, end = parse_utc(parse_when(day)), parse_utc(parse_when(day, upper=True))
                just_before = timedelta(microseconds=1)
                assert start.astimezone().date() == (end - just_before).astimezone().date() == day
                assert (start - just_before).astimezone().date() == day - timedelta(days=1)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_ids_differ_in_programs_that_seed_the_shared_generator_alike() -> None:
    made = []
    for _ in range(2):
        random.seed(7)
        made += [uuid7()[-12:] for _ in range(50)]
    assert len(set(made)) == 100
