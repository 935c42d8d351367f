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


def test_a_report_without_a_transcript_before_it_is_new() -> None:
    assert Ledger("s-1").report(exchange(1)) == [None, None]


def test_a_report_that_a_transcript_overtook_has_the_uids_of_the_transcript() -> None:
    ledger = Ledger("s-1")
    known = exchange(1)
    ledger.transcript(known)
    assert uids(ledger.report(exchange(1))) == [one.uid for one in known]


def test_the_same_words_said_again_after_a_reported_turn_are_new() -> None:
    ledger = Ledger("s-1")
    ledger.report(exchange(1))
    ledger.transcript(exchange(1))
    assert ledger.report(exchange(1)) == [None, None]


def test_a_compression_in_the_middle_of_a_turn_is_ahead_by_its_question_only() -> None:
    ledger = Ledger("s-1")
    ledger.report(exchange(1))
    question = turn(2)
    ledger.transcript([*exchange(1), question])
    assert uids(ledger.report(exchange(2))) == [question.uid, None]


def test_an_older_turn_said_again_is_new_once_the_late_reports_are_through() -> None:
    ledger = Ledger("s-1")
    old, last = exchange(1), exchange(2)
    ledger.transcript([*old, *last])
    assert uids(ledger.report(exchange(2))) == [one.uid for one in last]
    assert ledger.report(exchange(1)) == [None, None]


def test_a_turn_that_no_transcript_holds_ends_the_wait_for_late_reports() -> None:
    ledger = Ledger("s-1")
    ledger.transcript(exchange(1))
    assert ledger.report(exchange(2)) == [None, None]
    assert ledger.report(exchange(1)) == [None, None]


def test_a_session_that_goes_on_in_the_middle_of_a_turn_knows_where_its_question_is() -> None:
    before = Ledger("s-1")
    question = turn(1)
    before.transcript([question])
    found = before.continued("s-2").report(exchange(1))
    assert found[0] is not None
    assert (found[0].uid, found[0].session_id, found[1]) == (question.uid, "s-1", None)


def test_a_transcript_is_read_without_what_its_session_inherited() -> None:
    ledger = Ledger("s-2")
    ledger.inherited = Counter(message_of(one.role, one.content) for one in exchange(1))
    own = exchange(2)
    assert ledger.transcript([*exchange(1), *own]) == own
    assert ledger.transcript([*exchange(1), *exchange(1)])[0].content == exchange(1)[0].content


@given(turns=st.lists(st.integers(0, 3), max_size=12), reported=st.integers(0, 12))
def test_every_turn_is_new_exactly_once_wherever_the_transcript_comes_between(turns: list[int], reported: int) -> None:
    """With reports in order, a transcript of all turns takes the place of just those that were not reported before it."""
    ledger = Ledger("s-1")
    new = 0
    for number in turns[:reported]:
        new += ledger.report(exchange(number)).count(None)
    ledger.transcript([message for number in turns for message in exchange(number)])
    late = [found for number in turns[reported:] for found in uids(ledger.report(exchange(number)))]
    assert new == 2 * len(turns[:reported])
    assert None not in late
    assert len(set(late)) == len(late)
