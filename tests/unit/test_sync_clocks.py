"""The first accepting server corrects clocks that are wrong, once and in order, and no others."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the server is an extra")

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.sync.clocks import Sender, corrected, corrections

NOW = 1_790_000_000_000
MINUTE, DAY, YEAR = 60_000, 86_400_000, 365 * 86_400_000
US, OTHER = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"


def stamp(millis: int, replica: str = US, counter: int = 0) -> str:
    return f"{millis:012x}{counter:04x}-{replica}"


def ticking() -> Any:
    numbers = itertools.count()
    return lambda: stamp(NOW, "server", next(numbers))


def clocks(stamps: list[str], *, skew: int = 0, since: int | None = None, known: dict[str, str] | None = None) -> dict[str, str]:
    sender = Sender(replica=US, now=NOW, skew=skew, since=since)
    return corrections([{"clock": one} for one in stamps], sender, ticking(), known or {})


def test_a_clock_within_five_minutes_is_left_alone() -> None:
    assert clocks([stamp(NOW + 5 * MINUTE), stamp(NOW - 5 * MINUTE)], skew=-5 * MINUTE) == {}
    assert clocks([stamp(NOW + 5 * MINUTE)], skew=5 * MINUTE) == {}


def test_what_is_in_the_future_of_everybody_is_set_to_now_in_order() -> None:
    late = [stamp(NOW + 10 * YEAR + number, OTHER) for number in range(5)]
    new = clocks(list(reversed(late)))
    assert [new[one] for one in late] == [stamp(NOW, OTHER, number) for number in range(5)]


def test_a_clock_ten_years_ahead_is_put_back_by_as_much() -> None:
    assert clocks([stamp(NOW + 10 * YEAR - 7 * MINUTE)], skew=10 * YEAR) == {
        stamp(NOW + 10 * YEAR - 7 * MINUTE): stamp(NOW - 7 * MINUTE)
    }


def test_a_clock_an_hour_behind_is_put_forward_by_as_much() -> None:
    assert clocks([stamp(NOW - 60 * MINUTE)], skew=-60 * MINUTE) == {stamp(NOW - 60 * MINUTE): stamp(NOW)}


def test_what_was_stamped_before_the_clock_went_wrong_keeps_its_clock() -> None:
    old = stamp(NOW - YEAR)
    assert clocks([old], skew=10 * YEAR) == {}
    assert clocks([old], skew=-10 * MINUTE, since=NOW - DAY) == {}
    assert clocks([stamp(NOW - 2 * DAY)], skew=-YEAR, since=NOW - DAY) == {}


def test_what_others_have_stamped_is_not_put_back_by_the_skew_of_who_carries_it() -> None:
    assert clocks([stamp(NOW - 60 * MINUTE, OTHER)], skew=-60 * MINUTE) == {}


def test_a_page_that_comes_again_gets_the_same_clocks() -> None:
    late = stamp(NOW + YEAR, OTHER)
    assert clocks([late], known={late: stamp(NOW - 3, OTHER)}) == {late: stamp(NOW - 3, OTHER)}


@pytest.mark.parametrize(
    "record",
    [
        {"clock": []},
        {"clock": {}},
        {"clock": None, "before": 4, "keeps_out": 7},
        {"clock": "zz", "before": {"clock": []}, "keeps_out": [1, [], ["x"], ["x", []], ["x", None, 1]]},
    ],
)
def test_records_of_another_form_are_left_to_the_store(record: dict[str, Any]) -> None:
    new = corrections([record], Sender(replica=US, now=NOW), ticking(), {})
    assert new == {}
    assert corrected(record, {stamp(NOW): stamp(NOW)}) == record


def test_every_clock_of_a_record_is_corrected() -> None:
    late = stamp(NOW + YEAR, OTHER)
    record = {"clock": late, "before": {"clock": late, "content": "x"}, "keeps_out": [["mac", late, 0]]}
    new = corrections([record], Sender(replica=US, now=NOW), ticking(), {})
    right = stamp(NOW, OTHER)
    assert corrected(record, new) == {
        "clock": right,
        "before": {"clock": right, "content": "x"},
        "keeps_out": [["mac", right, 0]],
    }


@given(st.lists(st.integers(0, 2 * NOW), max_size=20), st.integers(-YEAR, YEAR), st.none() | st.integers(0, NOW))
def test_no_corrected_clock_is_in_the_future_and_order_is_kept(times: list[int], skew: int, since: int | None) -> None:
    stamps = sorted({stamp(one) for one in times})
    new = clocks(stamps, skew=skew, since=since)
    assert all(int(one[:12], 16) <= NOW + 5 * MINUTE for one in new.values())
    future = [new[one] for one in stamps if one in new and one[:12] > f"{NOW + 5 * MINUTE + max(0, skew):012x}"]
    assert future == sorted(future)
