"""Properties of the analyser over every string that a JSON decoder can deliver."""

from __future__ import annotations

import re

import snowballstemmer
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.recall.analyse import MAX_QUERY_TERMS, TextAnalyser, encode

ANALYSER = TextAnalyser()
TOKEN = re.compile(r"[a-z0-9]{1,64}")
ODD = "\"'()*:^{}[]<>+-#@$%&|!?.,;_/\\=~`\0\x07\x1b\u00a0\u200b\u00ad\ufeff\ufffd\ud800\udfff\ud83c\udf89éßİǅﬁ٣我们にほ회ไทยहि\U0001f600"
ANY = st.text(st.characters(exclude_categories=()) | st.sampled_from(ODD), max_size=200) | st.text(st.sampled_from(ODD + " aB1"))
WORD = st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=2, max_size=8)
NUMBER = st.integers(10, 99_999).map(str)
LETTERS = st.one_of(
    WORD,
    WORD.map(str.capitalize),
    st.text(st.sampled_from("áéøłжцλω"), min_size=2, max_size=6),
    st.sampled_from(["日本", "회의", "ไทย"]),
)
SEPARATOR = st.sampled_from(["-", "_", ".", "/", ":", "@", "\\", "+", "=", "::", "--"])
COMPOUND = st.lists(st.one_of(LETTERS, NUMBER), min_size=2, max_size=7).flatmap(
    lambda parts: st.tuples(st.just(parts), st.lists(SEPARATOR, min_size=len(parts) - 1, max_size=len(parts) - 1))
)


def whole(parts: list[str], separators: list[str]) -> str:
    return parts[0] + "".join(separator + part for separator, part in zip(separators, parts[1:], strict=True))


def held(query: str, text: str) -> bool:
    """Tell whether a text holds every word of a query."""
    tokens = set(ANALYSER.entry_tokens(text, ()).split())
    groups = [group for group in ANALYSER.analyse_query(query).groups if not group.stop]
    return all(tokens.issuperset(group.parts) or not tokens.isdisjoint(group.wholes) for group in groups)


@given(ANY, st.lists(ANY, max_size=3))
def test_any_text_becomes_encoded_tokens(text: str, tags: list[str]) -> None:
    for tokens in (ANALYSER.entry_tokens(text, tags), ANALYSER.turn_tokens(text, text, "2026-11-30T12:00:00.000000Z")):
        assert all(TOKEN.fullmatch(token) for token in tokens.split(" ") if tokens)


@given(ANY)
def test_any_text_is_a_query_of_bounded_encoded_terms(text: str) -> None:
    query = ANALYSER.analyse_query(text)
    assert all(TOKEN.fullmatch(term) for term in query.terms)
    assert len(query.terms) == len(set(query.terms)) <= MAX_QUERY_TERMS
    assert query.weak <= set(query.terms)
    assert {part for group in query.groups for part in group.parts} <= set(query.terms)
    assert all(group.parts for group in query.groups)


@given(ANY)
def test_a_text_holds_what_it_is_asked_for(text: str) -> None:
    assert held(text, text)


@given(ANY, ANY)
def test_a_text_is_found_within_a_longer_one(text: str, other: str) -> None:
    assert held(text, f"{text} {other}")


@given(COMPOUND, st.sampled_from(["{}", "({})", '"{}",', "see {}.", "<{}>"]))
def test_a_compound_is_found_whole_in_parts_and_joined(compound: tuple[list[str], list[str]], frame: str) -> None:
    parts, separators = compound
    text = frame.format(whole(parts, separators))
    assert held(whole(parts, separators), text)
    for part in parts:
        assert held(part, text)
    for first in range(len(parts) - 1):
        assert held(whole(parts[first : first + 2], separators[first : first + 1]), text)


@given(st.lists(st.one_of(WORD.map(str.capitalize), NUMBER), min_size=2, max_size=4))
def test_parts_within_a_word_are_found_at_case_and_digit_boundaries(parts: list[str]) -> None:
    text = "".join(parts)
    merged = [part for part, follower in zip(parts, [*parts[1:], ""], strict=True) if not (part.isdigit() and follower.isdigit())]
    for part in merged:
        if not part.isdigit():
            assert held(part, text)
    assert held(text.lower(), text)
    assert held(text, text.lower())


@given(ANY, ANY)
def test_the_encoding_is_injective(one: str, other: str) -> None:
    assert (encode(one) == encode(other)) == (one == other)


@given(WORD)
def test_words_are_stemmed_as_english(word: str) -> None:
    assert ANALYSER.entry_tokens(word, ()) == encode(snowballstemmer.stemmer("english").stemWord(word))


@given(st.text(st.sampled_from("abyzé我に"), min_size=1, max_size=12))
def test_composed_decomposed_and_upper_case_spellings_are_one(text: str) -> None:
    import unicodedata

    assert set(ANALYSER.entry_tokens(unicodedata.normalize("NFD", text), ()).split()) == set(
        ANALYSER.entry_tokens(text, ()).split()
    )
    assert held(text.upper(), text)


@given(st.sampled_from(["x", "ab", "Ab1", "a-", "\u00fc", "\u65e5", "1", "_"]), st.integers(1, 20_000))
def test_one_word_of_any_length_is_found_as_it_is_written(unit: str, length: int) -> None:
    word = (unit * length)[:length]
    terms = ANALYSER.analyse_query(word).terms
    assert not terms or not set(ANALYSER.entry_tokens(word, ()).split()).isdisjoint(terms)
