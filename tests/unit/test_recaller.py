"""The read path over a small store in memory that ranks with BM25 and remembers what it was asked."""

# ruff: noqa: ARG002 -- the fake has the signatures of a store
from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.recall.analyse import TextAnalyser
from hermes_mnemosyne.recall.boosts import Boosts
from hermes_mnemosyne.recall.overlay import Overlay, admits, frequencies, lexical_score, selected
from hermes_mnemosyne.recall.pipeline import Recaller, RecallOptions
from hermes_mnemosyne.recall.plan import MATCH_BUDGET, MAX_SEARCH_TERMS, NEWEST
from hermes_mnemosyne.store.protocol import Candidate, Filter, LexicalQuery, Neighbours, Reach, Store
from hermes_mnemosyne.values import Entry, RecallQuery, RecallResult, Turn

NOW = "2026-11-30T12:00:00.000000Z"
HERE = Filter(reach=Reach(frozenset({"work"})), now=NOW)
ANALYSER = TextAnalyser()
WORDS = [f"w{chr(97 + n // 26)}{chr(97 + n % 26)}q" for n in range(200)]


class FakeStore:
    """The read methods of a store; `claimed` rows and `counts` of terms may be larger than what it holds."""

    def __init__(self, rows: Iterable[Entry | Turn], claimed: int = 0, counts: dict[str, int] | None = None) -> None:
        self.rows = dict(enumerate(rows, 1))
        self.claimed, self.counts = claimed, counts or {}
        self.asked: list[LexicalQuery] = []
        self.tokens = {number: frequencies(self._tokens(row)) for number, row in self.rows.items()}

    @staticmethod
    def _tokens(row: Entry | Turn) -> str:
        if isinstance(row, Entry):
            return ANALYSER.entry_tokens(row.content, row.tags)
        return ANALYSER.turn_tokens(row.content, row.speaker, row.occurred_at)

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def size(self, where: Filter) -> int:
        return self.claimed or sum(row.kind in where.kinds for row in self.rows.values())

    def session_turns(self, where: Filter) -> int:
        return sum(isinstance(row, Turn) and row.session_id == where.session_id for row in self.rows.values())

    def term_counts(self, terms: Sequence[str], where: Filter, *, ceiling: int) -> dict[str, int]:
        held = {term: sum(term in tokens for tokens in self.tokens.values()) for term in terms}
        return {term: min(self.counts.get(term, count), ceiling) for term, count in held.items()}

    def lexical(self, query: LexicalQuery, where: Filter) -> list[Candidate]:
        self.asked.append(query)
        counts = self.term_counts([*query.required, *query.paired, *query.optional], where, ceiling=10**9)
        found = []
        for number, row in self.rows.items():
            tokens = self.tokens[number]
            if admits(where, row) and selected(query, tokens):
                length = 0.25 + 0.75 * sum(tokens.values()) / 20
                found.append(Candidate(number, lexical_score(query, tokens, counts, len(self.rows)) / length))
        return sorted(found, key=lambda candidate: (-candidate.score, candidate.id))[: query.limit]

    def terms_in(self, ids: Sequence[int], terms: Sequence[str]) -> dict[int, frozenset[str]]:
        return {number: frozenset(terms) & self.tokens[number].keys() for number in ids}

    def speakers(self, reach: Reach) -> frozenset[str]:
        return frozenset(row.speaker for row in self.rows.values() if isinstance(row, Turn))

    def neighbours(self, ids: Sequence[int]) -> dict[int, Neighbours]:
        turns = [number for number, row in self.rows.items() if isinstance(row, Turn)]
        return {number: Neighbours(self._turn(number - 1), self._turn(number + 1)) for number in ids if number in turns}

    def _turn(self, number: int) -> int | None:
        return number if isinstance(self.rows.get(number), Turn) else None

    def load(self, ids: Sequence[int]) -> dict[int, Entry | Turn]:
        return {number: self.rows[number] for number in ids}


def entry(content: str, **fields: Any) -> Entry:
    return Entry(uid=fields.pop("uid", content), theme="work", content=content, created_at=NOW, updated_at=NOW, **fields)


def turn(content: str, **fields: Any) -> Turn:
    return Turn(uid=fields.pop("uid", content), theme="work", content=content, session_id="s", created_at=NOW, **fields)


def ask(store: FakeStore, text: str, where: Filter = HERE, overlay: Overlay | None = None, **fields: Any) -> RecallResult:
    recaller = Recaller(cast("Store", store), ANALYSER, fields.pop("options", None))
    return recaller.recall(RecallQuery(text=text, **fields), where, now=NOW, overlay=overlay)


def contents(result: RecallResult) -> list[str]:
    return [hit.content for hit in result]


@pytest.mark.parametrize("text", ["", "  ", "\n", '"', "(", "'"])
def test_a_query_without_words_is_an_empty_answer_that_says_why(text: str) -> None:
    result = ask(FakeStore([entry("copper kettle")]), text)
    assert (result.hits, result.notes, result.searched) == ((), ("empty-query",), 1)


def test_nothing_found_says_how_much_was_searched() -> None:
    result = ask(FakeStore([entry("copper kettle"), entry("steel pan")]), "zebra")
    assert (result.hits, result.notes, result.searched) == ((), (), 2)


def test_entries_and_turns_come_in_one_answer() -> None:
    store = FakeStore([entry("the kettle is copper"), turn("my kettle broke")])
    assert {hit.kind for hit in ask(store, "kettle")} == {"entry", "turn"}


def test_hits_carry_the_fields_of_their_rows() -> None:
    (hit,) = ask(FakeStore([entry("steel pan", tags=("kitchen",), pinned=True, importance=0.9)]), "pan")
    assert (hit.tags, hit.pinned, hit.importance, hit.target, hit.theme) == (("kitchen",), True, 0.9, "memory", "work")
    assert hit.evidence == 1.0
    assert hit.explain is None


def test_one_rarer_word_of_a_long_question_is_enough_for_an_explicit_recall() -> None:
    store = FakeStore([entry("the zeppelin leaves at nine"), entry("steel pan")])
    question = "could you perhaps remind everybody again when exactly our famous zeppelin was supposed to have departed"
    assert contents(ask(store, question)) == ["the zeppelin leaves at nine"]


def test_rows_with_all_words_come_first_however_many_short_ones_hold_one() -> None:
    short = [entry("tea", uid=f"t{n}") for n in range(1_000)] + [entry("coffee", uid=f"c{n}") for n in range(1_000)]
    both = entry("with coffee and much later, after a long walk along the river and through the old town, a pot of tea")
    assert contents(ask(FakeStore([*short, both]), "tea coffee"))[0] == both.content


def test_the_name_with_its_sign_comes_first() -> None:
    store = FakeStore([entry("Written in J"), entry("Written in J#"), entry("Written in J++")])
    assert contents(ask(store, "J++"))[0] == "Written in J++"


def test_a_query_of_stop_words_is_answered_by_rows_that_hold_all_of_them() -> None:
    store = FakeStore([entry("to be or not to be"), entry("to whom it may concern")])
    assert contents(ask(store, "to be or not to be")) == ["to be or not to be"]


def test_in_a_small_store_no_word_is_too_common_to_select() -> None:
    store = FakeStore([entry(f"server {n}") for n in range(50)])
    result = ask(store, "the server", limit=50)
    assert len(result) == 50
    assert "bounded" not in result.notes


def test_common_words_of_a_large_store_rank_but_do_not_select_alone() -> None:
    store = FakeStore([entry("server zeppelin"), entry("server")], claimed=100_000, counts={"server": 60_000, "zeppelin": 3})
    result = ask(store, "the server zeppelin")
    assert contents(result) == ["server zeppelin"]
    assert store.asked[0].required == ("zeppelin",)
    assert store.asked[0].paired == ("server",)
    assert "bounded" not in result.notes


def test_a_large_store_is_not_pruned_while_few_rows_are_expected() -> None:
    store = FakeStore([entry("server"), entry("zeppelin")], claimed=100_000, counts={"server": MATCH_BUDGET - 10, "zeppelin": 3})
    assert len(ask(store, "server zeppelin")) == 2


def test_where_only_common_words_remain_the_newest_matches_answer_and_the_result_says_so() -> None:
    store = FakeStore([entry("server")], claimed=100_000, counts={"server": 60_000})
    result = ask(store, "the server")
    assert store.asked[0].newest == NEWEST
    assert contents(result) == ["server"]
    assert result.notes == ("bounded",)


def test_stop_words_that_stand_everywhere_are_bounded_too() -> None:
    store = FakeStore([entry("to be")], claimed=100_000, counts={"to": 60_000, "be": 60_000})
    assert ask(store, "to be").notes == ("bounded",)


def test_a_word_that_stands_nowhere_does_not_keep_rows_with_all_the_others_from_the_top() -> None:
    short = [entry("tea", uid=f"t{n}") for n in range(300)] + [entry("coffee", uid=f"c{n}") for n in range(300)]
    both = entry("with coffee and much later, after a long walk along the river and through the old town, a pot of tea")
    assert contents(ask(FakeStore([*short, both]), "remember tea coffee"))[0] == both.content


def test_a_compound_written_whole_comes_before_its_parts_apart_which_are_found_too() -> None:
    rows = [entry("err 1042", uid="apart"), entry("a long story of how the code ERR-1042 came about, and more", uid="whole")]
    assert [hit.uid for hit in ask(FakeStore(rows), "ERR-1042")] == ["whole", "apart"]


def test_frequent_parts_of_a_compound_do_not_choose_rows_where_a_rare_one_is_known() -> None:
    rows = [
        entry("see https://example.org/zeppelin", uid="right"),
        *(entry(f"https://example.org/p{n}", uid=f"{n}") for n in range(400)),
    ]
    hits = ask(FakeStore(rows), "https://example.org/zeppelin", limit=50).hits
    assert [hit.uid for hit in hits] == ["right"]


def test_where_many_rows_match_those_with_a_rare_word_or_two_frequent_ones_are_tried_first() -> None:
    many = [entry(f"server disk {n}", uid=f"{n}") for n in range(100)]
    store = FakeStore(
        [*many, entry("server zeppelin")], claimed=9_000, counts={"server": 4_000, "disk": 3_000, "zeppelin": 1, "quiet": 0}
    )
    ask(store, "zeppelin server disk")
    whole, narrow = store.asked
    assert whole.all_required
    assert narrow.required == ("zeppelin",)
    assert set(narrow.paired) == {"server", "disk"}


def test_where_the_first_try_finds_too_little_every_matching_row_is_found() -> None:
    rows = [entry("server"), entry("disk"), entry("server disk")]
    store = FakeStore(rows, claimed=9_000, counts={"server": 4_000, "disk": 3_000})
    assert contents(ask(store, "server disk"))[0] == "server disk"
    assert len(ask(store, "server disk")) == 3


def test_a_query_with_more_words_than_are_searched_keeps_the_rarest_and_says_so() -> None:
    store = FakeStore([entry("zeppelin"), entry("other")], claimed=1_000, counts=dict.fromkeys(WORDS, 9) | {"zeppelin": 1})
    result = ask(store, " ".join([*WORDS[:100], "zeppelin", *WORDS[100:]]))
    assert contents(result)[0] == "zeppelin"
    assert "cut-query" in result.notes
    assert len({*store.asked[0].required, *store.asked[0].optional}) <= MAX_SEARCH_TERMS


def test_the_turns_beside_a_hit_follow_it_unless_a_filter_keeps_them_out() -> None:
    store = FakeStore([turn("Which one?"), turn("The kettle."), turn("Good.")])
    assert contents(ask(store, "kettle")) == ["The kettle.", "Which one?", "Good."]
    assert contents(ask(store, "kettle", dataclasses.replace(HERE, exclude=frozenset({"Good."})))) == [
        "The kettle.",
        "Which one?",
    ]
    assert contents(ask(store, "kettle", dataclasses.replace(HERE, contains="kettle"))) == ["The kettle."]


def test_the_answer_follows_its_question_before_the_turn_that_led_to_it() -> None:
    rows = [turn("good morning"), turn("which port has the staging database?"), turn("5433 since Monday"), turn("thanks")]
    assert contents(ask(FakeStore(rows), "staging database port")) == [rows[1].content, rows[2].content, rows[0].content]
    told = [dataclasses.replace(row, content=row.content.replace("?", ".")) for row in rows]
    assert contents(ask(FakeStore(told), "staging database port")) == [told[1].content, told[0].content, told[2].content]


def test_the_one_speaker_named_is_raised_and_nobody_is_shut_out() -> None:
    rows = [turn("bought a red hat", speaker="Bert"), entry("x"), turn("bought a red hat", uid="2", speaker="Anna")]
    anna = ask(FakeStore(rows), "what hat did Anna buy", explain=True, options=RecallOptions(neighbour=0))
    assert [hit.speaker for hit in anna] == ["Anna", "Bert"]
    assert anna.hits[0].explain is not None
    assert anna.hits[0].explain["boosts"]["speaker"] == 1.25
    both = ask(FakeStore(rows), "did Anna or Bert buy a hat", explain=True, options=RecallOptions(neighbour=0))
    assert all("speaker" not in (hit.explain or {})["boosts"] for hit in both)


def test_what_happened_in_the_period_that_is_named_comes_first_and_nothing_is_shut_out() -> None:
    at = {"old": "2026-05-25T12:00:00.000000Z", "week": "2026-11-25T12:00:00.000000Z", "new": NOW}
    store = FakeStore([turn("bought a red hat", uid=uid, occurred_at=when) for uid, when in at.items()])
    off = RecallOptions(neighbour=0)
    assert [hit.uid for hit in ask(store, "which hat", options=off)] == ["new", "week", "old"]
    assert [hit.uid for hit in ask(store, "which hat last week", options=off)] == ["week", "new", "old"]
    assert [hit.uid for hit in ask(store, "which hat since 2026-05", options=off)] == ["old", "new", "week"]


def test_among_equal_texts_the_pinned_the_important_and_the_newer_come_first() -> None:
    rows = [
        dataclasses.replace(entry("steel pan one", uid="old"), updated_at="2020-01-01T00:00:00.000000Z"),
        entry("steel pan two", uid="new"),
        entry("steel pan three", uid="important", importance=0.9),
        entry("steel pan four", uid="pinned", pinned=True, importance=0.9),
    ]
    assert [hit.uid for hit in ask(FakeStore(rows), "pan")] == ["pinned", "important", "new", "old"]


def test_boosts_that_are_turned_off_leave_equal_rows_in_the_order_of_the_store() -> None:
    off = RecallOptions(boosts=Boosts(half_life_days=0, importance=0, pinned=0, speaker=0), neighbour=0)
    rows = [entry("steel pan one", uid="1"), entry("steel pan two", uid="2", importance=1.0, pinned=True)]
    assert [hit.uid for hit in ask(FakeStore(rows), "pan", options=off)] == ["1", "2"]


def test_a_strict_recall_is_silent_where_an_explicit_one_still_answers() -> None:
    store = FakeStore([entry("the zeppelin leaves at nine"), *(entry(f"note {n}") for n in range(30))])
    text = "which colour should the zeppelin poster have on the bathroom wall"
    assert contents(ask(store, text)) == ["the zeppelin leaves at nine"]
    assert not ask(store, text, strict=True).hits
    assert contents(ask(store, "when does the zeppelin leave?", strict=True)) == ["the zeppelin leaves at nine"]


def test_a_strict_recall_finds_the_only_memory_of_a_new_store() -> None:
    store = FakeStore([entry("The staging database listens on port 5433")])
    assert ask(store, "which port does the staging database use?", strict=True).hits


def test_undrained_rows_join_the_answer_and_replace_or_hide_stored_ones() -> None:
    store = FakeStore([entry("copper kettle", uid="a"), entry("copper pan", uid="b")])
    overlay = Overlay(rows=(entry("copper pot", uid="c"), entry("steel kettle", uid="a")), hidden=frozenset({"b"}))
    assert set(contents(ask(store, "copper kettle", overlay=overlay))) == {"copper pot", "steel kettle"}


def test_undrained_rows_obey_the_filter() -> None:
    overlay = Overlay(rows=(dataclasses.replace(entry("copper pot"), theme="home"), turn("copper pan")))
    assert not ask(FakeStore([]), "copper", dataclasses.replace(HERE, kinds=("entry",)), overlay).hits


def test_an_undrained_row_that_was_forgotten_is_not_seen() -> None:
    overlay = Overlay(rows=(entry("copper pot", uid="c"),), hidden=frozenset({"c"}))
    assert not ask(FakeStore([entry("copper kettle", uid="x")]), "pot", overlay=overlay).hits


def test_an_undrained_row_stands_where_a_stored_one_would() -> None:
    store = FakeStore([entry("copper kettle"), entry("copper pan on the stove")])
    overlay = Overlay(rows=(entry("the copper pot is on the shelf"),))
    result = ask(store, "copper pot", overlay=overlay, explain=True)
    assert contents(result)[0] == "the copper pot is on the shelf"
    assert result.hits[0].explain is not None
    assert result.hits[0].explain["undrained"]
    assert result.searched == 3


def test_a_budget_is_kept_and_said() -> None:
    store = FakeStore([entry("kettle " * 90), entry("a kettle of the smaller kind")])
    result = ask(store, "kettle", budget_tokens=80)
    assert result.hits
    assert sum(len(hit.content) for hit in result) <= 320
    assert "cut-budget" in result.notes


def test_an_explanation_names_leg_rank_score_evidence_and_boosts() -> None:
    (hit,) = ask(FakeStore([entry("steel pan", pinned=True)]), "steel kettle", explain=True)
    assert hit.explain is not None
    assert hit.explain["legs"]["lexical"]["rank"] == 1
    assert hit.explain["evidence"]["share"] == hit.evidence
    assert hit.explain["boosts"] == {"pinned": 1.2}


def test_a_limit_of_zero_is_an_empty_answer() -> None:
    assert not ask(FakeStore([entry("steel pan")]), "pan", limit=0).hits


@given(
    st.lists(st.text(st.characters(exclude_categories=()), max_size=30), max_size=6),
    st.text(st.characters(exclude_categories=()), max_size=40),
    st.booleans(),
)
def test_any_text_may_be_asked_of_any_texts(texts: list[str], question: str, strict: bool) -> None:  # noqa: FBT001
    rows = [(entry if number % 2 else turn)(text, uid=str(number)) for number, text in enumerate(texts)]
    result = ask(FakeStore(rows), question, strict=strict, explain=True)
    assert [hit.score for hit in result] == sorted((hit.score for hit in result), reverse=True)
    assert all(0 <= hit.evidence <= 1 for hit in result)


@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=40))
def test_a_memory_is_found_by_its_own_text_also_strictly(text: str) -> None:
    searchable = bool(ANALYSER.analyse_query(text).terms)
    store = FakeStore([entry("steel pan"), entry(text, uid="asked"), entry("copper kettle")])
    for strict in (False, True):
        assert ([hit.uid for hit in ask(store, text, strict=strict)][:1] == ["asked"]) == searchable
