"""Marks tell a copied or restored file, and a restored or emptied server, from a replica that goes on."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="the server is an extra")

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.sync.server.answers import Refused
from hermes_mnemosyne.sync.server.marks import Marks


def word_of(marks: Marks, mark: str) -> str:
    with pytest.raises(Refused) as refused:
        marks.present(mark)
    assert refused.value.status == 409
    return refused.value.word


def kept(marks: Marks) -> Marks:
    """The marks as a store gives them back."""
    return Marks.of(marks.kept())


def test_a_replica_that_presents_what_it_got_goes_on() -> None:
    marks, mark = Marks().present("").issue(1)
    for position in range(2, 50):
        marks, mark = kept(marks).present(mark).issue(position)


def test_a_lost_answer_does_no_harm() -> None:
    marks, first = Marks().present("").issue(1)
    marks, lost = kept(marks).present(first).issue(2)
    marks, second = kept(marks).present(first).issue(3)
    marks = kept(marks).present(second)
    assert word_of(marks, lost) == "cloned"


def test_the_first_answer_may_be_lost() -> None:
    marks, _ = Marks().present("").issue(1)
    marks, mark = kept(marks).present("").issue(1)
    assert kept(marks).present(mark).presented[0] == mark


def test_an_earlier_mark_is_that_of_a_copy() -> None:
    marks, first = Marks().present("").issue(1)
    marks, second = kept(marks).present(first).issue(2)
    marks = kept(marks).present(second)
    assert word_of(kept(marks), first) == "cloned"


def test_of_two_holders_of_one_mark_the_second_to_go_on_is_a_copy() -> None:
    marks, common = Marks().present("").issue(1)
    marks, of_one = kept(marks).present(common).issue(2, fresh=True)
    marks, of_other = kept(marks).present(common).issue(3, fresh=True)
    marks, next_of_one = kept(marks).present(of_one).issue(4)
    assert word_of(kept(marks), of_other) == "cloned"
    kept(marks).present(next_of_one)


@pytest.mark.parametrize("mark", ["7.AAAAAAAAAAAAAAAA", "x", "", " ", "\ud800", "1." + "A" * 999])
def test_a_mark_that_was_never_given_shows_another_server(mark: str) -> None:
    if mark:
        assert word_of(Marks(), mark) == "unknown-mark"
        assert word_of(Marks(count=3), mark) == "unknown-mark"


def test_a_server_restored_from_a_backup_does_not_know_later_marks() -> None:
    backup, first = Marks().present("").issue(1)
    marks, second = kept(backup).present(first).issue(2)
    marks, third = kept(marks).present(second).issue(3)
    assert word_of(kept(backup), second) == "unknown-mark"
    assert word_of(kept(backup), third) == "unknown-mark"
    marks, again = kept(backup).present("").issue(1)
    assert kept(marks).present(again).presented[0] == again


def test_while_nothing_changes_the_mark_stays_the_same_and_nothing_is_to_be_kept() -> None:
    marks, mark = Marks().present("").issue(5)
    marks = marks.present(mark)
    again, same = marks.issue(5)
    assert (again, same) == (marks, mark)
    assert marks.issue(5, fresh=True)[1] != mark
    assert marks.issue(6)[1] != mark


def test_answers_that_never_arrive_do_not_pile_up() -> None:
    marks, mark = Marks().present("").issue(0)
    marks = marks.present(mark)
    for position in range(1, 1000):
        marks, _ = marks.issue(position)
    assert len(marks.given) <= 64


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), max_size=40))
def test_one_holder_alone_is_never_taken_for_a_copy(steps: list[tuple[bool, bool, int]]) -> None:
    """Whatever answers are lost, and however the positions go."""
    marks, held = Marks(), ""
    for arrives, fresh, position in steps:
        marks, given_mark = kept(marks.present(held)).issue(position, fresh=fresh)
        held = given_mark if arrives else held
