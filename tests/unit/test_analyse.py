"""The analyser: what of a text becomes a term, and what a query asks for."""

# ruff: noqa: RUF001 -- unusual characters are the point
from __future__ import annotations

import pytest

from hermes_mnemosyne.recall.analyse import (
    MAX_QUERY_TERMS,
    MAX_QUERY_WORDS,
    QueryTerms,
    TextAnalyser,
    encode,
)


@pytest.fixture(scope="module")
def analyser() -> TextAnalyser:
    return TextAnalyser()


def stored(analyser: TextAnalyser, text: str) -> set[str]:
    return set(analyser.entry_tokens(text, ()).split())


def strong(query: QueryTerms) -> set[str]:
    return set(query.terms) - query.weak


def meets(analyser: TextAnalyser, query: str, text: str) -> bool:
    return bool(strong(analyser.analyse_query(query)) & stored(analyser, text))


def covers(analyser: TextAnalyser, query: str, text: str) -> bool:
    """Tell whether every word of the query stands in the text, whole or in all its parts."""
    tokens = stored(analyser, text)
    groups = [group for group in analyser.analyse_query(query).groups if not group.stop]
    return bool(groups) and all(tokens.issuperset(group.parts) or not tokens.isdisjoint(group.wholes) for group in groups)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the importer doesn't retry", "doesn't retry"),
        ("upgraded to Debian 12.4.", "Debian 12.4"),
        ("module core.health answers", "core.health"),
        ("cross-region failover drill", "cross-region"),
        ("cross-region failover drill", "region"),
        ("E-2077 disk quota", "E-2077"),
        ("E-2077 disk quota", "E 2077"),
        ("E-2077 disk quota", "2077"),
        ("E-2077 disk quota", "e2077"),
        ("write to carol@example.org, see https://example.org/guide?v=2#top", "carol@example.org"),
        ("write to carol@example.org, see https://example.org/guide?v=2#top", "https://example.org/guide?v=2#top"),
        ("write to carol@example.org, see https://example.org/guide?v=2#top", "carol"),
        ("write to carol@example.org, see https://example.org/guide?v=2#top", "example.org"),
        ("max_retry_count is unset", "retry"),
        ("max_retry_count is unset", "max_retry_count"),
        ("call getUserName() first", "getUserName"),
        ("call getUserName() first", "username"),
        ("call getUserName() first", "user"),
        ("the HTTPServer hangs", "server"),
        ("at 2026-11-30T12:00:00Z it began", "2026-11-30"),
        ("at 2026-11-30T12:00:00Z it began", "12:00"),
        ("/usr/lib/systemd/user.conf", "systemd/user.conf"),
        (r"C:\Users\carol\notes.txt", "notes.txt"),
        ("1,000 rows", "1000"),
        ("我们决定周五发布新版本", "发布"),
        ("我们决定周五发布新版本", "新版本"),
        ("我们决定周五发布新版本", "周"),
        ("明日はおにぎりを持っていく", "おにぎり"),
        ("내일 회의를 미뤘다", "회의"),
        ("ภาษาไทยไม่มีช่องว่าง", "ไทย"),
        ("GPT4模型很好", "模型"),
        ("GPT4模型很好", "gpt4"),
        ("über crème brûlée", "uber"),
        ("über crème brûlée", "creme brulee"),
        ("u\u0308ber", "über"),
        ("ＥＲＲ－１０４２", "err-1042"),
        ("soft\u00adhyphen and zero\u200bwidth", "softhyphen zerowidth"),
        ("smørrebrød", "smorrebrod"),
        ("ПриветМир", "мир"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("٤٢ rows", "42"),
        ("deployed 🚀 today", "🚀"),
        ("use != here", "!="),
        ("O\u2019Brien called", "o'brien"),
        ("O\u2019Brien called", "brien"),
        ("\x1b[2Jgone\x07", "gone"),
        ("invoice\0 42 paid", "42"),
        ("tail \ud83c end", "end"),
        ("they were running", "run"),
    ],
)
def test_what_is_written_is_found_whole_and_in_parts(analyser: TextAnalyser, text: str, query: str) -> None:
    assert covers(analyser, query, text)
    assert meets(analyser, query, text)


@pytest.mark.parametrize(
    ("query", "right", "wrong"),
    [("J++", "Written in J++", "Written in J#"), ("C#", "a C# port", "a C port"), (".NET", "the .NET one", "the net one")],
)
def test_signs_that_carry_meaning_tell_names_apart(analyser: TextAnalyser, query: str, right: str, wrong: str) -> None:
    (group,) = analyser.analyse_query(query).groups
    assert group.symbolic
    assert not stored(analyser, right).isdisjoint(group.wholes)
    assert stored(analyser, wrong).isdisjoint(group.wholes)
    assert stored(analyser, wrong).issuperset(group.parts)


def test_a_turn_is_indexed_with_its_speaker_and_its_date_in_words(analyser: TextAnalyser) -> None:
    tokens = set(analyser.turn_tokens("Hello", "Anna Berg", "2023-05-08T13:56:00.000000Z").split())
    asked = set(analyser.analyse_query("anna berg monday 8 may 2023 hello").terms)
    assert asked <= tokens


def test_tags_are_indexed_with_an_entry(analyser: TextAnalyser) -> None:
    assert "kitchen" in analyser.entry_tokens("steel pan", ("kitchen",)).split()


@pytest.mark.parametrize("text", ["", "   ", "\n", '"', "(", "'", "...", "-", "\u200b", "\0", "\ud800"])
def test_a_query_without_a_word_has_no_terms(analyser: TextAnalyser, text: str) -> None:
    assert analyser.analyse_query(text).terms == ()


@pytest.mark.parametrize("text", ["OR", "NOT urgent", "tea and coffee or juice", "NEAR(x y)", 'it"s', "a* : ^b {c}"])
def test_operators_of_query_languages_are_words(analyser: TextAnalyser, text: str) -> None:
    assert all(term.isalnum() and term.isascii() for term in analyser.analyse_query(text).terms)
    assert analyser.analyse_query(text).terms


def test_stop_words_and_lone_letters_within_a_compound_are_weak(analyser: TextAnalyser) -> None:
    query = analyser.analyse_query("the E-2077")
    assert query.weak == {"the", "e"}
    assert [group.stop for group in query.groups] == [True, False]


def test_a_letter_that_stands_alone_is_a_word(analyser: TextAnalyser) -> None:
    assert analyser.analyse_query("written in J").weak == {"in"}


def test_terms_come_once_and_in_the_order_of_the_text(analyser: TextAnalyser) -> None:
    assert analyser.analyse_query("pan kettle pan").terms == ("pan", "kettl")


@pytest.mark.parametrize(
    "text",
    [
        "x" * 50_000,
        " ".join(f"2026-11-{n % 30:02d}T12:00:{n % 60:02d}Z host{n} sshd[{n}]: Accepted for user{n}" for n in range(2_300)),
        " ".join(f"word{n}" for n in range(4_000)),
        ".".join(f"part{n}" for n in range(20_000)),
        ",".join(f"part{n}" for n in range(20_000)),
        "决定" * 40_000,
    ],
    ids=["one word", "log", "words", "compound", "list", "chinese"],
)
def test_a_long_query_is_cut_says_so_and_its_tail_counts(analyser: TextAnalyser, text: str) -> None:
    query = analyser.analyse_query(f"{text} finalword")
    assert query.cut
    assert len(query.terms) <= MAX_QUERY_TERMS
    assert "finalword" in query.terms


def test_a_long_question_within_the_bounds_is_not_cut(analyser: TextAnalyser) -> None:
    query = analyser.analyse_query(" ".join(f"the w{chr(97 + n // 26)}{chr(97 + n % 26)}q" for n in range(MAX_QUERY_WORDS)))
    assert not query.cut
    assert len(query.groups) == MAX_QUERY_WORDS


def test_every_word_of_a_long_text_is_indexed(analyser: TextAnalyser) -> None:
    text = " ".join(f"filler {n}" for n in range(9_000)) + " the last fact"
    assert analyser.entry_tokens(text, ()).split()[-3:] == ["the", "last", "fact"]


def test_a_hash_has_no_parts(analyser: TextAnalyser) -> None:
    assert stored(analyser, "d41d8cd98f00b204e9800998ecf8427e") == {"d41d8cd98f00b204e9800998ecf8427e"}


def test_the_escape_is_escaped_and_long_tokens_are_hashed() -> None:
    assert encode("plain1") == "plain1"
    assert encode("zqx") != "zqx"
    assert encode(bytes.fromhex("c3a9").decode()) != encode("zqc3a9")
    assert len(encode("x" * 1_000)) <= 64
    assert encode("x" * 1_000) != encode("x" * 1_001)
