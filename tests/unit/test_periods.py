"""Periods that queries name."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.recall.boosts import Boosts, boosts_of
from hermes_mnemosyne.recall.periods import Period, periods_of
from hermes_mnemosyne.values import Entry, Turn

MONDAY = "2026-11-30T12:00:00.000000Z"
WORDS = (
    "last past this previous a few two 3 12 999 day days week weeks month year ago on since friday yesterday today 2024-02-29 , ?"
)


def days(text: str, now: str = MONDAY) -> list[tuple[str, str]]:
    """Return the first day of each period and the day after it."""
    return [(period.since[:10], period.until[:10]) for period in periods_of(text, now, UTC)]


@pytest.mark.parametrize(
    ("text", "first", "after"),
    [
        ("what did we decide today?", "2026-11-30", "2026-12-01"),
        ("what did I say this morning", "2026-11-30", "2026-12-01"),
        ("Yesterday's plan", "2026-11-29", "2026-11-30"),
        ("the call last night", "2026-11-29", "2026-11-30"),
        ("the day before yesterday", "2026-11-28", "2026-11-29"),
        ("what did we say LAST\n week?", "2026-11-23", "2026-11-30"),
        ("this week", "2026-11-30", "2026-12-01"),
        ("this month", "2026-11-01", "2026-12-01"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("the previous year", "2025-01-01", "2026-01-01"),
        ("the past month", "2026-10-30", "2026-12-01"),
        ("in the last three days", "2026-11-27", "2026-12-01"),
        ("over the past couple of weeks", "2026-11-16", "2026-12-01"),
        ("a day ago", "2026-11-29", "2026-11-30"),
        ("3 weeks ago", "2026-11-06", "2026-11-13"),
        ("six months ago", "2026-05-15", "2026-06-15"),
        ("on Monday", "2026-11-23", "2026-11-24"),
        ("last Sunday", "2026-11-29", "2026-11-30"),
        ("since Friday", "2026-11-27", "2026-12-01"),
        ("what happened 2024-02-29?", "2024-02-29", "2024-03-01"),
        ("the report of 2024-02", "2024-02-01", "2024-03-01"),
        ("2026-11", "2026-11-01", "2026-12-01"),
    ],
)
def test_a_period_is_seen_from_today(text: str, first: str, after: str) -> None:
    assert days(text) == [(first, after)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "it lasts for weeks",
        "may I see the last one",
        "on holiday",
        "this one is past it",
        "tomorrow",
        "2026-12-24",
        "2024-13",
        "2023-02-30",
        "0000-01-01",
        "build-2024-02-29",
        "/logs/2024-02-29/app.log",
        "9999 years ago",
        "last week " * 60,
    ],
)
def test_what_names_no_period_in_the_past_is_none(text: str) -> None:
    assert days(text) == []


def test_several_periods_count_and_a_part_of_a_longer_expression_is_none_of_its_own() -> None:
    named = days("the day before yesterday or yesterday, yesterday")
    assert named == [("2026-11-28", "2026-11-29"), ("2026-11-29", "2026-11-30")]


def test_months_of_different_lengths_end_where_they_end() -> None:
    assert days("the past month", "2024-03-31T12:00:00.000000Z") == [("2024-02-29", "2024-04-01")]


def test_a_day_is_that_of_the_users_clock() -> None:
    east = timezone(timedelta(hours=9))
    late = "2026-11-30T20:00:00.000000Z"
    assert periods_of("today", late, east) == (Period("2026-11-30T15:00:00.000000Z", "2026-12-01T15:00:00.000000Z"),)


@given(st.lists(st.sampled_from(WORDS.split()), max_size=8).map(" ".join), st.datetimes().map(lambda at: f"{at:%m-%dT%H:%M:%S}"))
def test_any_such_words_give_periods_that_began_and_end_after_they_begin(text: str, at: str) -> None:
    now = f"2025-{at}.000000Z".replace("02-29", "02-28")
    for period in periods_of(text, now, UTC):
        assert period.since < period.until
        assert period.since <= now
        assert not period.holds(period.until)
        assert period.holds(period.since)


@given(st.text(alphabet=st.characters(), max_size=600))
def test_any_text_may_be_asked(text: str) -> None:
    assert isinstance(periods_of(text, MONDAY), tuple)


def test_what_happened_in_a_period_is_raised_by_the_time_of_the_event_else_of_writing() -> None:
    then, week = "2026-11-25T09:00:00.000000Z", periods_of("last week", MONDAY, UTC)
    turn = Turn(uid="t", theme="work", content="hello", occurred_at=then, created_at=MONDAY)
    entry = Entry(uid="e", theme="work", content="hello", created_at=then, updated_at=MONDAY)
    other = Turn(uid="o", theme="work", content="hello", occurred_at=MONDAY, created_at=then)
    factors = [boosts_of(row, None, MONDAY, Boosts(period=0.5), week).get("period") for row in (turn, entry, other)]
    assert factors == [1.5, 1.5, None]
