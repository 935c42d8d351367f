"""The circuit breaker before an embedding endpoint, with a clock that the test moves."""

from __future__ import annotations

import threading

import pytest

from hermes_mnemosyne.embed.breaker import Breaker, Limits


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    """Opens at the third failure; pauses of 1, 2, 4, 8 and then always 8 seconds."""
    return Breaker(Limits(failures=3, first_pause=1.0, longest_pause=8.0), clock=clock, jitter=lambda: 1.0)


def admitted(breaker: Breaker, lease: float = 0.5) -> int:
    ticket = breaker.admit(lease)
    assert ticket is not None
    return ticket


def open_it(breaker: Breaker) -> None:
    for _ in range(3):
        breaker.failed(admitted(breaker), "broken")


def test_fewer_failures_than_the_limit_change_nothing(breaker: Breaker) -> None:
    for _ in range(2):
        breaker.failed(admitted(breaker), "broken")
    assert breaker.admit(0.5) is not None
    assert not breaker.is_open
    assert breaker.wait() == 0


def test_a_success_begins_the_count_anew(breaker: Breaker) -> None:
    for _ in range(5):
        breaker.failed(admitted(breaker), "broken")
        breaker.failed(admitted(breaker), "broken")
        breaker.succeeded()
    assert not breaker.is_open


def test_failures_in_a_row_open_it_and_it_says_why_and_for_how_long(breaker: Breaker) -> None:
    open_it(breaker)
    assert breaker.admit(0.5) is None
    assert (breaker.failures, breaker.reason, breaker.wait()) == (3, "broken", 1.0)


def test_after_the_pause_one_probe_is_let_through(breaker: Breaker, clock: Clock) -> None:
    open_it(breaker)
    clock.now += 1.0
    assert breaker.admit(5.0) is not None
    assert breaker.admit(5.0) is None


def test_a_probe_that_succeeds_closes_it(breaker: Breaker, clock: Clock) -> None:
    open_it(breaker)
    clock.now += 1.0
    admitted(breaker)
    breaker.succeeded()
    assert all(breaker.admit(0.5) is not None for _ in range(5))
    assert breaker.reason == ""


def test_every_failed_probe_doubles_the_pause_up_to_the_longest(breaker: Breaker, clock: Clock) -> None:
    open_it(breaker)
    pauses = []
    for _ in range(80):
        pauses.append(breaker.wait())
        clock.now += breaker.wait()
        breaker.failed(admitted(breaker), "still broken")
    assert pauses == [1.0, 2.0, 4.0] + [8.0] * 77


def test_pauses_begin_short_again_after_it_had_closed(breaker: Breaker, clock: Clock) -> None:
    open_it(breaker)
    clock.now += 1.0
    breaker.failed(admitted(breaker), "broken")
    clock.now += 2.0
    admitted(breaker)
    breaker.succeeded()
    open_it(breaker)
    assert breaker.wait() == 1.0


@pytest.mark.parametrize(("drawn", "pause"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_pauses_are_spread_over_half_to_all_of_their_length(clock: Clock, drawn: float, pause: float) -> None:
    breaker = Breaker(Limits(failures=1, first_pause=1.0), clock=clock, jitter=lambda: drawn)
    breaker.failed(admitted(breaker), "broken")
    assert breaker.wait() == pause


def test_calls_that_began_before_it_opened_do_not_lengthen_the_pause(breaker: Breaker) -> None:
    tickets = [admitted(breaker) for _ in range(10)]
    for ticket in tickets:
        breaker.failed(ticket, "broken")
    assert breaker.wait() == 1.0


def test_a_probe_that_never_comes_back_only_delays_the_next(breaker: Breaker, clock: Clock) -> None:
    open_it(breaker)
    clock.now += 1.0
    admitted(breaker, lease=5.0)
    clock.now += 4.9
    assert breaker.admit(5.0) is None
    clock.now += 0.2
    assert breaker.admit(5.0) is not None


def test_a_probe_that_tells_nothing_lets_the_next_try_at_once(breaker: Breaker, clock: Clock) -> None:
    open_it(breaker)
    clock.now += 1.0
    breaker.undecided(admitted(breaker, lease=30.0))
    assert breaker.is_open
    assert breaker.admit(30.0) is not None
    assert breaker.admit(30.0) is None


def test_a_call_that_tells_nothing_changes_nothing_while_it_is_closed(breaker: Breaker) -> None:
    for _ in range(2):
        breaker.failed(admitted(breaker), "broken")
    breaker.undecided(admitted(breaker))
    assert breaker.failures == 2


def test_of_many_threads_one_is_the_probe(breaker: Breaker, clock: Clock) -> None:
    open_it(breaker)
    clock.now += 1.0
    start = threading.Barrier(8)
    tickets: list[int | None] = []

    def ask() -> None:
        start.wait()
        tickets.append(breaker.admit(5.0))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([ticket for ticket in tickets if ticket is not None]) == 1
