"""What a process knows of a server, and how a link to it behaves."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import pytest

from hermes_mnemosyne._errors import SchemaMismatch, StoreUnavailable
from hermes_mnemosyne.contact import Contact
from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.stores import Watched

LONG = 30.0


def test_nothing_is_known_before_the_first_attempt() -> None:
    contact = Contact()
    assert (contact.state, contact.problem, contact.is_there) == ("unverified", "", False)
    assert not contact.wait(0.0)


def test_a_failure_is_told_with_its_kind_and_its_words_until_something_works() -> None:
    contact = Contact()
    contact.failed(SchemaMismatch("newer"))
    assert (contact.state, contact.problem) == ("away", "newer")
    assert isinstance(contact.error(), SchemaMismatch)
    contact.worked()
    assert (contact.state, contact.problem) == ("there", "")


def test_whoever_waits_is_told_by_the_next_attempt() -> None:
    contact, answers = Contact(), []
    contact.failed(StoreUnavailable("gone"))
    waiters = [threading.Thread(target=lambda: answers.append(contact.wait(LONG))) for _ in range(3)]
    for one in waiters:
        one.start()
    while any(one.is_alive() for one in waiters):
        contact.worked()
        waiters[0].join(0.01)
        for one in waiters:
            one.join(0.01)
    assert answers == [True] * 3


def test_a_late_answer_makes_the_server_doubtful_and_not_away() -> None:
    contact = Contact()
    contact.worked()
    contact.doubt()
    assert contact.state == "unverified"
    contact.failed(StoreUnavailable("gone"))
    contact.doubt()
    assert contact.state == "away"


class Fragile:
    """A store of one method, which fails when it is told to."""

    replica = "r"

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked = 0

    def meta(self, key: str) -> str:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return key

    def is_turn(self, _number: int) -> bool:
        return True

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()


def watched(store: Any, contact: Contact, *, back: bool = False) -> Store:
    return Watched.over(cast("Store", store), contact, lambda: back)


def test_a_call_that_finds_the_server_gone_spares_the_next_ones() -> None:
    store, contact = Fragile(), Contact()
    seen = watched(store, contact)
    assert seen.meta("a") == "a"
    assert contact.is_there
    store.error = StoreUnavailable("gone")
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="gone"):
            seen.meta("a")
    assert store.asked == 2
    assert seen.is_turn(1)
    assert seen.replica == "r"


def test_a_server_that_is_back_is_asked_again() -> None:
    store, contact = Fragile(), Contact()
    contact.failed(StoreUnavailable("gone"))
    assert watched(store, contact, back=True).meta("a") == "a"
    assert contact.is_there


def test_an_error_of_another_kind_says_nothing_of_the_server() -> None:
    store, contact = Fragile(), Contact()
    store.error = ValueError("odd")
    with pytest.raises(ValueError, match="odd"):
        watched(store, contact).meta("a")
    assert contact.state == "unverified"


def test_what_asks_no_server_says_nothing_of_it() -> None:
    contact = Contact()
    seen = watched(Fragile(), contact)
    with seen.together():
        assert seen.is_turn(1)
    assert contact.state == "unverified"
