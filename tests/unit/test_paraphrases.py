"""The pairs and distractors by which recall by meaning is measured."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest

from benchmarks.distractors import distractors
from benchmarks.paraphrase import Pair, content_stems, pairs

PAIRS = pairs()


@pytest.fixture(scope="module")
def memories() -> list[str]:
    return distractors(2_000)


def test_there_are_enough_pairs_of_many_topics() -> None:
    assert len(PAIRS) >= 60
    topics = Counter(pair.topic for pair in PAIRS)
    assert len(topics) >= 8
    assert max(topics.values()) <= len(PAIRS) / 4


def test_no_memory_and_no_question_comes_twice() -> None:
    assert len({pair.memory.casefold() for pair in PAIRS}) == len(PAIRS)
    assert len({pair.question.casefold() for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.question)
def test_question_and_memory_share_no_content_word(pair: Pair) -> None:
    asked, told = content_stems(pair.question), content_stems(pair.memory)
    assert asked
    assert told
    assert not asked & told


def test_lengths_are_those_of_notes_and_questions() -> None:
    for pair in PAIRS:
        assert pair.memory == pair.memory.strip()
        assert pair.question.endswith("?")
        assert 12 <= len(pair.memory) <= 160
        assert 10 <= len(pair.question) <= 120


def test_content_words_are_compared_by_stem_without_stop_words() -> None:
    assert content_stems("Which of the MEETINGS is she planning?") == content_stems("A planned meeting")
    assert content_stems("What's it to you, and don't I know?") == frozenset({"know"})


def test_there_are_as_many_distractors_as_asked_for_and_always_the_same(memories: list[str]) -> None:
    assert len(set(memories)) == 2_000
    assert distractors(100) == memories[:100]
    assert distractors(100, seed=1) != memories[:100]


def test_distractors_are_no_pairs_in_other_words(memories: list[str]) -> None:
    told = [content_stems(pair.memory) for pair in PAIRS]
    for text in memories:
        words = content_stems(text)
        assert not any(memory <= words for memory in told), text


def test_distractors_share_the_words_of_most_questions(memories: list[str]) -> None:
    common = Counter(word for text in memories for word in content_stems(text))
    distracted = [any(common[word] >= 5 for word in content_stems(pair.question)) for pair in PAIRS]
    assert statistics.fmean(distracted) > 0.6
