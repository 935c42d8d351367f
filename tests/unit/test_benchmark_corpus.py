"""The corpus and the oracle that every benchmark stands on."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.corpus import MAIN_THEME, MAX_BYTES, MIN_BYTES, SHARES, SMALL_THEMES, Corpus, Query, Row
from benchmarks.oracle import Oracle, query_terms

SIZE = 600


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(SIZE, seed=7)


@pytest.fixture(scope="module")
def queries(corpus: Corpus) -> list[Query]:
    return corpus.queries(200)


@pytest.fixture(scope="module")
def oracle(corpus: Corpus, queries: list[Query]) -> Oracle:
    return Oracle(corpus.main(), queries)


def test_the_same_seed_gives_the_same_rows_and_questions(corpus: Corpus, queries: list[Query]) -> None:
    again = Corpus(SIZE, seed=7)
    assert list(again.main()) == list(corpus.main())
    assert list(again.others()) == list(corpus.others())
    assert again.queries(200) == queries
    assert again.fingerprint == corpus.fingerprint


def test_the_fingerprint_of_a_seed_is_the_same_on_every_machine() -> None:
    assert Corpus(50, seed=1).fingerprint == "1a9c66120ac47ea5"


def test_another_seed_gives_other_rows(corpus: Corpus) -> None:
    other = Corpus(SIZE, seed=8)
    assert other.fingerprint != corpus.fingerprint
    assert not {row.text for row in other.main()} & {row.text for row in corpus.main()}


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(corpus: Corpus) -> None:
    assert list(Corpus(100, seed=7).main()) == list(corpus.main())[:100]


def test_rows_are_distinct_and_within_the_limits_of_length(corpus: Corpus) -> None:
    texts = [row.text for row in (*corpus.main(), *corpus.others())]
    assert len(set(texts)) == len(texts)
    lengths = sorted(len(text.encode()) for text in texts)
    assert lengths[0] >= MIN_BYTES
    assert lengths[-1] <= MAX_BYTES
    assert lengths[len(lengths) // 2] < 300


def test_long_documents_are_there() -> None:
    assert max(len(row.text.encode()) for row in Corpus(2_000, seed=7).main()) > 8_000


def test_short_and_sized_texts_are_distinct_and_of_their_size(corpus: Corpus) -> None:
    short, sized = corpus.short(500), corpus.sized(20, 14_000)
    assert len(set(short)) == 500
    assert all(MIN_BYTES <= len(text.encode()) < 400 for text in short)
    assert len(set(sized)) == 20
    assert all(13_000 < len(text.encode()) <= MAX_BYTES for text in sized)


def test_small_themes_are_skewed_and_apart_from_the_big_one() -> None:
    themes = Counter(row.theme for row in Corpus(6_000, seed=7).others())
    assert sum(themes.values()) == 3_000
    assert MAIN_THEME not in themes
    assert SMALL_THEMES * 0.8 < len(themes) <= SMALL_THEMES
    assert max(themes.values()) > 5 * (sum(themes.values()) / len(themes))


def test_questions_come_in_their_shares(queries: list[Query]) -> None:
    counts = Counter(query.kind for query in queries)
    assert counts == {kind: round(200 * share) for kind, share in SHARES.items()}


def test_another_salt_gives_other_questions(corpus: Corpus, queries: list[Query]) -> None:
    specific = {query.text for query in queries if query.kind in {"natural", "none"}}
    assert not specific & {query.text for query in corpus.queries(200, "other")}


def test_a_question_made_from_a_row_is_answered_by_that_row(queries: list[Query], oracle: Oracle) -> None:
    for query in queries:
        if query.target is not None:
            assert query.target in oracle.best(query), query
            assert oracle.judge(query, [query.target, *(oracle.best(query) - {query.target})]) == "", query


def test_a_question_without_an_answer_matches_no_row(queries: list[Query], oracle: Oracle) -> None:
    for query in queries:
        if query.kind == "none":
            assert not oracle.best(query)
            assert oracle.judge(query, []) == ""
            assert oracle.judge(query, [0]) == "hits for a question without an answer"


def test_frequent_words_are_frequent(queries: list[Query], oracle: Oracle) -> None:
    for query in queries:
        if query.kind == "frequent":
            assert all(len(rows) > SIZE * 0.03 for rows in oracle.holders(query).values()), query


def test_a_question_about_a_small_theme_is_answered_there(corpus: Corpus) -> None:
    texts = {row.number: row for row in corpus.others()}
    for theme, query in corpus.theme_queries(20):
        assert query.target is not None
        assert texts[query.target].theme == theme


def test_the_oracle_reads_words_by_stem_identifiers_whole_and_wide_scripts_literally() -> None:
    rows = [
        Row(0, MAIN_THEME, "The plans moved; see ERR-1042."),
        Row(1, MAIN_THEME, "Planning err-10421 or ERR 1042"),
        Row(2, MAIN_THEME, "错误ERR-1042在服务器。"),
    ]
    plan, code, wide = Query("natural", "which plan?"), Query("identifier", "the problem with ERR-1042"), Query("cjk", "服务")
    oracle = Oracle(rows, [plan, code, wide])
    assert oracle.best(plan) == {0, 1}
    assert oracle.best(code) == {0, 2}
    assert oracle.best(wide) == {2}
    assert query_terms(code) == {"err-1042"}


def test_the_oracle_names_what_is_wrong_with_an_answer() -> None:
    rows = [
        Row(0, MAIN_THEME, "alder birch"),
        Row(1, MAIN_THEME, "alder"),
        Row(2, MAIN_THEME, "see OPS-7"),
        Row(3, MAIN_THEME, "OPS-7 again"),
    ]
    both, code = Query("natural", "alder birch"), Query("identifier", "OPS-7")
    oracle = Oracle(rows, [both, code])
    assert oracle.judge(both, [1, 0]) == ""
    assert oracle.judge(both, [1]) == "no best row among the hits"
    assert oracle.judge(both, []) == "no hit"
    assert oracle.judge(code, [0, 2, 3]) == "first hit lacks the identifier"
    assert oracle.judge(code, [2, 0]) == "a row with the identifier is missing"
    assert oracle.judge(code, [3, 2]) == ""
    score = oracle.score([both, code], [[1, 0], [0, 2]])
    assert (score["natural"].share, score["identifier"].share) == (1.0, 0.0)
    assert score["identifier"].unsound == 1
