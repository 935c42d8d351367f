"""Late reports of turns that a transcript has overtaken, told from turns that say the same thing again."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.hermes.provider.ledger import Ahead, Ledger, message_of
from hermes_mnemosyne.store.operations import TurnText
from hermes_mnemosyne.values import Role


def turn(number: int, role: Role = "user") -> TurnText:
    return TurnText(uid=uuid7(), role=role, content=f"What was said as number {number}")


def exchange(number: int) -> list[TurnText]:
    return [turn(number), turn(number, "assistant")]


def uids(found: list[Ahead | None]) -> list[str | None]:
    return [ahead and ahead.uid for ahead in found]


def read(ledger: Ledger, turns: list[TurnText]) -> list[TurnText]:
    """Let a ledger read a transcript of which a store takes what is new to it; return the messages of its own session."""
    own = ledger.own(turns)
    ledger.read(turns, own, ledger.beyond(own, Counter()))
    return own


def test_a_report_without_a_transcript_before_it_is_new() -> None:
    assert Ledger("s-1").report(exchange(1)) == [None, None]


def test_a_report_that_a_transcript_overtook_has_the_uids_of_the_transcript() -> None:
    ledger = Ledger("s-1")
    known = exchange(1)
    read(ledger, known)
    assert uids(ledger.report(exchange(1))) == [one.uid for one in known]


def test_the_same_words_said_again_after_a_reported_turn_are_new() -> None:
    ledger = Ledger("s-1")
    ledger.report(exchange(1))
    read(ledger, exchange(1))
    assert ledger.report(exchange(1)) == [None, None]


def test_a_compression_in_the_middle_of_a_turn_is_ahead_by_its_question_only() -> None:
    ledger = Ledger("s-1")
    ledger.report(exchange(1))
    question = turn(2)
    read(ledger, [*exchange(1), question])
    assert uids(ledger.report(exchange(2))) == [question.uid, None]


def test_an_older_turn_said_again_is_new_once_the_late_reports_are_through() -> None:
    ledger = Ledger("s-1")
    old, last = exchange(1), exchange(2)
    read(ledger, [*old, *last])
    assert uids(ledger.report(exchange(2))) == [one.uid for one in last]
    assert ledger.report(exchange(1)) == [None, None]


def test_a_turn_that_no_transcript_holds_ends_the_wait_for_late_reports() -> None:
    ledger = Ledger("s-1")
    read(ledger, exchange(1))
    assert ledger.report(exchange(2)) == [None, None]
    assert ledger.report(exchange(1)) == [None, None]


def test_a_session_that_goes_on_in_the_middle_of_a_turn_knows_where_its_question_is() -> None:
    before = Ledger("s-1")
    question = turn(1)
    read(before, [question])
    found = before.continued("s-2").report(exchange(1))
    assert found[0] is not None
    assert (found[0].uid, found[0].session_id, found[1]) == (question.uid, "s-1", None)


def test_what_a_transcript_repeats_of_another_process_is_not_waited_for() -> None:
    ledger = Ledger("s-1")
    turns = exchange(1)
    ledger.read(turns, ledger.own(turns), ())
    assert ledger.report(exchange(1)) == [None, None]


def test_a_transcript_that_is_read_again_keeps_the_uids_under_which_it_was_stored() -> None:
    ledger = Ledger("s-1")
    known = exchange(1)
    read(ledger, known)
    read(ledger, exchange(1))
    assert uids(ledger.report(exchange(1))) == [one.uid for one in known]


def test_a_late_report_for_the_session_before_ends_the_wait_in_the_session_that_goes_on() -> None:
    before = Ledger("s-1")
    read(before, exchange(1))
    after = before.continued("s-2")
    assert None not in before.report(exchange(1))
    assert after.report(exchange(1)) == [None, None]


def test_an_answer_that_an_undone_turn_gave_too_does_not_hide_that_its_question_is_ahead() -> None:
    ledger = Ledger("s-1")
    ledger.report([turn(1), turn(9, "assistant")])
    ledger.cut(undone=True)
    question = turn(2)
    read(ledger, [question, turn(9, "assistant")])
    assert uids(ledger.report([turn(2), turn(9, "assistant")])) == [question.uid, None]


def test_a_late_turn_that_says_what_an_undone_one_said_leaves_the_turn_after_it_ahead() -> None:
    ledger = Ledger("s-1")
    ledger.report(exchange(1))
    ledger.cut(undone=True)
    last = exchange(2)
    read(ledger, [*exchange(1), *last])
    assert ledger.report(exchange(1)) == [None, None]
    assert uids(ledger.report(exchange(2))) == [one.uid for one in last]


def test_a_question_that_an_interrupted_turn_left_is_new_when_it_is_asked_again_after_an_undo() -> None:
    ledger = Ledger("s-1")
    read(ledger, [turn(1)])
    ledger.cut(undone=True)
    assert ledger.report(exchange(1)) == [None, None]


def test_a_transcript_is_read_without_what_its_session_inherited() -> None:
    ledger = Ledger("s-2")
    ledger.inherited = Counter(message_of(one.role, one.content) for one in exchange(1))
    own = exchange(2)
    assert read(ledger, [*exchange(1), *own]) == own
    assert read(ledger, [*exchange(1), *exchange(1)])[0].content == exchange(1)[0].content


@given(turns=st.lists(st.integers(0, 3), max_size=12), reported=st.integers(0, 12))
def test_every_turn_is_new_exactly_once_wherever_the_transcript_comes_between(turns: list[int], reported: int) -> None:
    """With reports in order, a transcript of all turns takes the place of just those that were not reported before it."""
    ledger = Ledger("s-1")
    new = 0
    for number in turns[:reported]:
        new += ledger.report(exchange(number)).count(None)
    read(ledger, [message for number in turns for message in exchange(number)])
    late = [found for number in turns[reported:] for found in uids(ledger.report(exchange(number)))]
    assert new == 2 * len(turns[:reported])
    assert None not in late
    assert len(set(late)) == len(late)
