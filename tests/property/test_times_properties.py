"""Times of every kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import parse_utc, utc_text
from hermes_mnemosyne.times import date_words, parse_when, read_moment

OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=OFFSETS)  # noqa: DTZ001 - bounds are naive


@given(MOMENTS)
def test_every_iso_moment_is_read_back_exactly(moment: datetime) -> None:
    read = read_moment(moment.isoformat())
    offset = moment.utcoffset()
    assert parse_utc(read.utc) == moment
    assert len(read.utc) == 27
    assert offset is not None
    assert read.offset == offset.total_seconds() / 60
    assert parse_when(read.utc) == read.utc == utc_text(moment)


@given(MOMENTS, OFFSETS)
def test_a_day_contains_its_moments_and_nothing_else(moment: datetime, zone: timezone) -> None:
    day = moment.astimezone(zone).date()
    start, end = parse_when(day.isoformat(), zone=zone), parse_when(day.isoformat(), upper=True, zone=zone)
    assert start <= utc_text(moment) < end
    assert parse_utc(end) - parse_utc(start) == timedelta(days=1)


@given(
    st.text(st.sampled_from("0123456789-+:TZ .dwhmoyinag\0\ud83d"), max_size=30)
    | st.text(st.characters(exclude_categories=()), max_size=30)
)
def test_any_text_is_a_time_or_a_clear_refusal(text: str) -> None:
    try:
        utc = parse_when(text, upper=True)
    except InvalidInput as refusal:
        str(refusal).encode("utf-8")
    else:
        assert utc == utc_text(parse_utc(utc))


@given(MOMENTS)
def test_words_name_the_day_of_the_moment(moment: datetime) -> None:
    local = moment.astimezone(UTC)
    assert date_words(utc_text(moment)).split()[1:] == [str(local.day), local.strftime("%B").lower(), str(local.year)]
