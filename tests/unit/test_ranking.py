"""The pure functions of ranking: fusion, boosts, gate, packing, and the filter in Python."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.recall.analyse import QueryGroup
from hermes_mnemosyne.recall.boosts import Boosts, boosts_of, named_speaker, recency
from hermes_mnemosyne.recall.fuse import fuse, merge, with_neighbours
from hermes_mnemosyne.recall.gate import Evidence, Judge, passing, rarity
from hermes_mnemosyne.recall.meaning import Meaning, Weights
from hermes_mnemosyne.recall.overlay import admits
from hermes_mnemosyne.recall.pack import budget_of, pack, shortened
from hermes_mnemosyne.store.protocol import Candidate, Filter, Neighbours, Reach
from hermes_mnemosyne.values import Entry, Hit, Turn

NOW = "2026-11-30T12:00:00.000000Z"
YEAR_AGO = "2025-11-30T12:00:00.000000Z"
ENTRY = Entry(uid="e", theme="work", content="steel pan", tags=("kitchen",), created_at=NOW, updated_at=NOW)
TURN = Turn(uid="t", theme="work", content="hello", session_id="s", speaker="Anna", created_at=NOW)
HERE = Filter(reach=Reach(frozenset({"work"})), now=NOW)


# -- fusion ----------------------------------------------------------------------------------------------------------------------


def even(_: int) -> float:
    """Give both legs the same weight."""
    return 0.5


def test_one_leg_keeps_its_order_and_its_proportions() -> None:
    leg = [Candidate(7, 8.0), Candidate(3, 4.0)]
    assert fuse(leg, [], even) == fuse([], leg, even) == {7: 1.0, 3: 0.5}


def test_legs_are_heard_by_their_share_for_each_row_whatever_their_scale() -> None:
    words, meaning = [Candidate(1, 30.0), Candidate(2, 15.0)], [Candidate(2, 0.9), Candidate(3, 0.45)]
    scores = fuse(words, meaning, lambda row: 0.8 if row == 3 else 0.25)
    assert scores == pytest.approx({1: 0.75, 2: 0.75 * 0.5 + 0.25, 3: 0.8 * 0.5})


def test_rows_without_a_positive_score_stay_found() -> None:
    assert set(fuse([Candidate(1, 0.0), Candidate(2, -1.0)], [], even)) == {1, 2}


def meaning_of(weights: Weights) -> Meaning:
    """Return a meaning in which only the weights count."""
    return Meaning(model="m", vector=[1.0], floor=0.2, weights=weights)


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_weaker_the_evidence_of_words_the_more_meaning_counts(first: float, second: float) -> None:
    for weights in (Weights(turn=0.4, entry=0.6), Weights(turn=0.2, entry=0.4, fills=True)):
        weak, strong = (meaning_of(weights).shares(strength) for strength in sorted((first, second)))
        assert all(0 <= more <= 1 and more >= less for less, more in zip(strong, weak, strict=True))


def test_strong_words_leave_meaning_its_weight_or_nothing_where_it_only_fills() -> None:
    assert meaning_of(Weights(turn=0.4, entry=0.6)).shares(1.0) == pytest.approx((0.4, 0.6))
    assert meaning_of(Weights(turn=0.4, entry=0.6, fills=True)).shares(1.0) == (0.0, 0.0)
    assert all(share > 0.7 for share in meaning_of(Weights(turn=0.4, entry=0.6)).shares(0.0))


def test_likeness_begins_at_the_floor_of_the_model() -> None:
    meaning = meaning_of(Weights(turn=0.4, entry=0.6))
    assert [meaning.likeness(cosine) for cosine in (-1.0, 0.2, 0.6, 1.0)] == pytest.approx([0.0, 0.0, 0.5, 1.0])


def test_a_merge_holds_each_row_once_with_its_best_score_ties_by_number() -> None:
    merged = merge([Candidate(2, 1.0), Candidate(1, 1.0)], [Candidate(2, 3.0)])
    assert merged == [Candidate(2, 3.0), Candidate(1, 1.0)]


def test_neighbours_share_and_may_be_rows_that_no_leg_returned() -> None:
    raised = with_neighbours({5: 1.0, 6: 0.5}, {5: Neighbours(4, 6), 6: Neighbours(5, None)}, 0.2)
    assert raised == pytest.approx({4: 0.2, 5: 1.1, 6: 0.7})


def test_a_question_gives_more_to_the_turn_after_it_than_to_the_one_before() -> None:
    beside = {5: Neighbours(4, 6), 8: Neighbours(7, 9)}
    raised = with_neighbours({5: 1.0, 8: 1.0}, beside, 0.1, asking={5}, answer=0.5)
    assert raised == pytest.approx({4: 0.1, 5: 1.0, 6: 0.5, 7: 0.1, 8: 1.0, 9: 0.1})


# -- boosts ----------------------------------------------------------------------------------------------------------------------


def test_an_ordinary_new_row_is_not_boosted() -> None:
    assert boosts_of(ENTRY, None, NOW, Boosts()) == {}
    assert boosts_of(TURN, None, NOW, Boosts()) == {}


def test_age_halves_its_soft_boost_and_can_be_turned_off() -> None:
    boosts = Boosts(half_life_days=365, recency=0.1)
    assert recency(YEAR_AGO, NOW, boosts) == pytest.approx(0.95)
    assert recency("1990-01-01T00:00:00.000000Z", NOW, boosts) > 0.9
    assert recency(YEAR_AGO, NOW, dataclasses.replace(boosts, half_life_days=0)) == 1.0


def test_a_moment_in_the_future_is_as_good_as_now() -> None:
    assert recency("2030-01-01T00:00:00.000000Z", NOW, Boosts()) == 1.0


def test_importance_and_pins_raise_entries() -> None:
    row = dataclasses.replace(ENTRY, importance=1.0, pinned=True)
    assert boosts_of(row, None, NOW, Boosts(importance=0.2, pinned=0.3)) == pytest.approx({"importance": 1.2, "pinned": 1.3})
    assert boosts_of(dataclasses.replace(ENTRY, importance=0.0), None, NOW, Boosts())["importance"] < 1


def test_only_turns_of_the_named_speaker_are_raised() -> None:
    assert boosts_of(TURN, "Anna", NOW, Boosts(speaker=0.25)) == {"speaker": 1.25}
    assert boosts_of(TURN, "Bert", NOW, Boosts()) == {}


def test_a_speaker_counts_as_named_only_when_it_is_the_only_one() -> None:
    names = {"Anna Berg", "Bert", "user"}
    assert named_speaker(names, frozenset({"anna", "hat"}), str.lower) == "Anna Berg"
    assert named_speaker(names, frozenset({"anna", "bert"}), str.lower) is None
    assert named_speaker(names, frozenset({"user"}), str.lower) is None


# -- evidence and gate -----------------------------------------------------------------------------------------------------------

WORDS = [QueryGroup(("kettl",)), QueryGroup(("the",), stop=True), QueryGroup(("copper",))]


def test_evidence_is_the_share_of_the_weight_of_the_words_without_stop_words() -> None:
    judge = Judge(WORDS, {"kettl": 1, "copper": 1}, 100)
    assert judge.evidence({"kettl"}) == Evidence(pytest.approx(0.5), pytest.approx(0.5), complete=False)
    assert judge.evidence({"kettl", "copper"}) == Evidence(pytest.approx(1.0), pytest.approx(1.0), complete=True)
    assert judge.evidence({"the"}) == Evidence()


def test_a_rare_word_weighs_more_than_a_frequent_one_and_an_unknown_one_most() -> None:
    judge = Judge(WORDS, {"kettl": 50}, 100)
    assert judge.evidence({"kettl"}).share < 0.3
    assert rarity(0, 100) > rarity(1, 100) > rarity(100, 100) > 0


def test_a_word_in_the_only_row_of_a_store_still_counts() -> None:
    assert Judge(WORDS, {"kettl": 1}, 1).evidence({"kettl"}).share > 0.4


def test_stop_words_are_judged_where_there_is_nothing_else() -> None:
    assert Judge([WORDS[1]], {"the": 1}, 1).evidence({"the"}).complete


def test_a_compound_is_held_whole_or_by_the_share_of_its_parts() -> None:
    judge = Judge([QueryGroup(("err", "1042"), ("err1042",))], {}, 10)
    assert judge.evidence({"err1042"}).complete
    assert judge.evidence({"err", "1042"}).complete
    assert judge.evidence({"err"}).share == pytest.approx(0.5)


def test_parts_apart_are_a_little_less_where_the_compound_stands_whole_somewhere() -> None:
    judge = Judge([QueryGroup(("err", "1042"), ("err1042",))], {"err": 3, "1042": 2, "err1042": 1}, 10)
    assert judge.evidence({"err", "1042"}).share == pytest.approx(0.9)
    assert not judge.evidence({"err", "1042"}).complete


def test_words_that_stand_nowhere_do_not_make_a_row_incomplete() -> None:
    judge = Judge(WORDS, {"kettl": 1}, 10)
    assert judge.evidence({"kettl"}).complete
    assert judge.evidence({"kettl"}).share < 0.6


def test_a_name_that_differs_by_a_sign_is_held_half_by_its_letters() -> None:
    judge = Judge([QueryGroup(("j",), ("zq6a2b2b",), symbolic=True)], {}, 10)
    assert judge.evidence({"j"}).share == pytest.approx(0.5)
    assert judge.evidence({"j", "zq6a2b2b"}).complete


def test_a_long_message_is_judged_by_its_rarest_words() -> None:
    judge = Judge([QueryGroup((f"w{n}",)) for n in range(60)], {}, 100)
    few = judge.evidence({"w1", "w2", "w3"})
    assert few.share == pytest.approx(3 / 60)
    assert few.strength == pytest.approx(3 / 6)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_more_held_words_are_never_less_evidence(counts: list[int], held: set[int], more: set[int]) -> None:
    groups = [QueryGroup((f"w{n}",)) for n in range(len(counts))]
    judge = Judge(groups, {f"w{n}": count for n, count in enumerate(counts)}, 60)
    less, all_of_it = judge.evidence({f"w{n}" for n in held}), judge.evidence({f"w{n}" for n in held | more})
    assert 0 <= less.share <= all_of_it.share <= 1
    assert 0 <= less.strength <= all_of_it.strength <= 1


def test_the_strict_gate_opens_for_a_strong_row_and_lets_half_as_strong_ones_through() -> None:
    strengths = {1: 0.2, 2: 0.5, 3: 0.1}
    assert passing([1, 2, 3], lambda row: Evidence(strength=strengths[row]), 0.4) == [1, 2]
    assert passing([1, 2, 3], lambda row: Evidence(strength=strengths[row]), 0.6) == []
    assert passing([], lambda _: Evidence(), 0.4) == []


# -- packing ---------------------------------------------------------------------------------------------------------------------


def hit(length: int, uid: str = "u") -> Hit:
    return Hit(uid=uid, kind="entry", theme="work", content=("word " * length)[:length], score=1.0)


def lengths(hits: list[Hit]) -> list[int]:
    return [len(packed.content) for packed in hits]


def test_without_a_budget_only_the_limit_counts() -> None:
    assert pack([hit(9_000), hit(5), hit(5)], 2, None) == ([hit(9_000), hit(5)], False)


def test_smaller_hits_fit_where_a_long_one_does_not() -> None:
    packed, left_out = pack([hit(100), hit(500), hit(150)], 5, 300)
    assert lengths(packed) == [100, 150]
    assert left_out


def test_a_first_hit_that_does_not_fit_is_cut_and_others_fit_beside_it() -> None:
    packed, left_out = pack([hit(600), hit(100)], 5, 320)
    assert packed[0].cut
    assert packed[1] == hit(100)
    assert sum(lengths(packed)) <= 320
    assert left_out


def test_budgets_in_tokens_count_four_characters_each() -> None:
    assert budget_of(None, 80) == 320
    assert budget_of(100, 80) == 100
    assert budget_of(None, None) is None


@given(st.lists(st.integers(1, 400), max_size=8), st.integers(1, 10), st.integers(1, 500))
def test_a_pack_is_within_budget_in_order_and_empty_only_without_hits(sizes: list[int], limit: int, budget: int) -> None:
    hits = [hit(size, str(number)) for number, size in enumerate(sizes)]
    packed, left_out = pack(hits, limit, budget)
    assert sum(lengths(packed)) <= budget
    assert len(packed) <= limit
    assert bool(packed) == bool(hits)
    assert [int(each.uid) for each in packed] == sorted(int(each.uid) for each in packed)
    assert [each.uid for each in packed[:1]] == [each.uid for each in hits[:1]]
    assert left_out == (len(packed) < min(limit, len(hits)) or any(each.cut for each in packed)) or len(hits) > limit


@given(st.text(max_size=80), st.integers(1, 60))
def test_a_shortened_text_is_no_longer_than_asked(text: str, length: int) -> None:
    short = shortened(text, length)
    assert len(short) <= length or short == text
    assert short == text or text.startswith(short[:-1])


# -- the filter in Python --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"reach": Reach(frozenset({"home"}))},
        {"reach": Reach(frozenset({"work"}), "someone")},
        {"kinds": ("turn",)},
        {"target": "user"},
        {"session_id": "s"},
        {"since": "2026-12-01T00:00:00.000000Z"},
        {"until": NOW},
        {"written_since": "2026-12-01T00:00:00.000000Z"},
        {"written_until": NOW},
        {"tags": ("kitchen", "blue")},
        {"contains": "copper"},
        {"exclude": frozenset({"e"})},
    ],
)
def test_every_condition_can_keep_an_entry_out(change: dict[str, object]) -> None:
    assert admits(HERE, ENTRY)
    assert not admits(dataclasses.replace(HERE, **change), ENTRY)  # type: ignore[arg-type]


def test_expired_and_superseded_entries_are_out_unless_asked_for() -> None:
    expired = dataclasses.replace(ENTRY, valid_until=NOW)
    superseded = dataclasses.replace(ENTRY, superseded_by="x")
    assert not admits(HERE, expired)
    assert admits(dataclasses.replace(HERE, now=None), expired)
    assert not admits(HERE, superseded)
    assert admits(dataclasses.replace(HERE, include_superseded=True), superseded)


def test_turns_can_be_kept_out_by_session_and_have_no_tags() -> None:
    assert admits(HERE, TURN)
    assert not admits(dataclasses.replace(HERE, except_session="s"), TURN)
    assert not admits(dataclasses.replace(HERE, tags=("kitchen",)), TURN)


def test_event_time_counts_before_write_time() -> None:
    past = dataclasses.replace(TURN, occurred_at=YEAR_AGO)
    assert not admits(dataclasses.replace(HERE, since=NOW), past)
    assert admits(dataclasses.replace(HERE, written_since=NOW), past)
