"""The background worker: one thread while there is work, and none while there is not."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from hermes_mnemosyne.worker import Worker

LONG = 30.0


def threads_named(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def until_ended(name: str) -> None:
    for thread in threads_named(name):
        thread.join(LONG)
    assert threads_named(name) == []


def test_no_thread_runs_before_there_is_work_and_after_it() -> None:
    ran = threading.Event()

    def job() -> bool:
        ran.set()
        return True

    worker = Worker(job, name="one-shot")
    assert threads_named("one-shot") == []
    worker.wake()
    assert ran.wait(LONG)
    until_ended("one-shot")


def test_a_job_that_is_not_done_runs_again() -> None:
    runs: list[int] = []
    done = threading.Event()

    def job() -> bool:
        runs.append(1)
        if len(runs) == 3:
            done.set()
        return len(runs) == 3

    Worker(job, name="again").wake()
    assert done.wait(LONG)
    until_ended("again")
    assert len(runs) == 3


def test_a_wake_during_a_job_is_not_missed() -> None:
    inside, go_on, second = threading.Event(), threading.Event(), threading.Event()
    runs: list[int] = []

    def job() -> bool:
        runs.append(1)
        if len(runs) == 1:
            inside.set()
            go_on.wait(LONG)
        else:
            second.set()
        return True

    worker = Worker(job, name="missed")
    worker.wake()
    assert inside.wait(LONG)
    worker.wake()
    go_on.set()
    assert second.wait(LONG)
    until_ended("missed")


def test_many_wakes_start_one_thread() -> None:
    go_on = threading.Event()
    worker = Worker(lambda: go_on.wait(LONG), name="single")
    wakers = [threading.Thread(target=worker.wake) for _ in range(50)]
    for thread in wakers:
        thread.start()
    for thread in wakers:
        thread.join()
    assert len(threads_named("single")) == 1
    go_on.set()
    until_ended("single")


def test_a_failing_job_is_logged_counted_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []
    done = threading.Event()

    def job() -> bool:
        runs.append(1)
        if len(runs) == 1:
            raise ZeroDivisionError
        done.set()
        return True

    worker = Worker(job, name="failing")
    with caplog.at_level(logging.ERROR):
        worker.wake()
        assert done.wait(LONG)
    until_ended("failing")
    assert worker.failures == 1
    assert "failing" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_replaced_by_the_next_wake() -> None:
    runs: list[int] = []
    second = threading.Event()

    def job() -> bool:
        runs.append(1)
        if len(runs) == 1:
            raise SystemExit
        second.set()
        return True

    worker = Worker(job, name="dying")
    worker.wake()
    until_ended("dying")
    worker.wake()
    assert second.wait(LONG)
    until_ended("dying")


def test_a_stopped_worker_ends_and_does_not_start_again() -> None:
    started = threading.Event()

    def job() -> bool:
        started.set()
        return False

    worker = Worker(job, name="stopped")
    worker.wake()
    assert started.wait(LONG)
    assert worker.stop(timeout=LONG)
    worker.wake()
    assert threads_named("stopped") == []


def test_a_job_that_hangs_is_named(caplog: pytest.LogCaptureFixture) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def job() -> bool:
        inside.set()
        return go_on.wait(LONG)

    worker = Worker(job, name="hanging")
    worker.wake()
    assert inside.wait(LONG)
    assert not worker.stop(timeout=0.01)
    assert "hanging" in caplog.text
    go_on.set()
    until_ended("hanging")


def test_a_worker_stops_itself_without_waiting_for_itself() -> None:
    ended: list[bool] = []
    worker = Worker(lambda: ended.append(worker.stop(timeout=LONG)) is None, name="itself")
    worker.wake()
    until_ended("itself")
    assert ended == [True]


def test_a_forked_child_has_a_worker_of_its_own() -> None:
    parent = os.getpid()
    go_on, ran = threading.Event(), threading.Event()

    def job() -> bool:
        if os.getpid() != parent:
            ran.set()
            return True
        return go_on.wait(LONG)

    worker = Worker(job, name="parent")
    worker.wake()
    child = os.fork()
    if not child:
        worker.wake()
        os._exit(0 if ran.wait(LONG) else 1)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    until_ended("parent")


def test_a_job_that_gets_on_is_not_kept_waiting() -> None:
    runs: list[int] = []
    done = threading.Event()

    def job() -> bool:
        runs.append(1)
        if len(runs) == 40:
            done.set()
        return len(runs) == 40

    # With pauses that double up to five seconds, forty runs would take minutes.
    Worker(job, name="getting on", progress=lambda: len(runs)).wake()
    assert done.wait(LONG)
    until_ended("getting on")
