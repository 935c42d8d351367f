"""The stems are those of the published algorithm, as snowballstemmer computes them."""

from __future__ import annotations

import itertools
import random

import pytest
import snowballstemmer

from hermes_mnemosyne.recall.stemming import stem

BEGINNINGS = (
    "a", "ad", "an", "b", "boy", "cann", "d", "eg", "exc", "geol", "gener", "inter", "ka", "l", "moni", "of", "out", "past", "proc",
    "psychol", "say", "stuvo", "succ", "sy", "t", "tra", "univers", "y", "yy",
)  # fmt: skip
ENDINGS = (
    "", "able", "al", "alism", "aliti", "alize", "alli", "ance", "anci", "ant", "ate", "ation", "ational", "ative", "ator", "biliti",
    "bli", "e", "ed", "edly", "eed", "eedly", "ement", "ence", "enci", "ent", "entli", "er", "es", "ful", "fulli", "fulness", "ible",
    "ic", "ical", "icate", "iciti", "ied", "ies", "ing", "ingly", "ion", "ism", "iti", "ive", "iveness", "iviti", "ization", "ize",
    "izer", "l", "less", "lessli", "li", "ll", "logi", "ly", "ment", "ness", "ogi", "ogist", "ous", "ousli", "ousness", "s", "sion",
    "ss", "tion", "tional", "us", "y",
)  # fmt: skip


@pytest.fixture(scope="module")
def reference() -> snowballstemmer.stemmer:
    return snowballstemmer.stemmer("english")


def test_every_combination_of_endings_is_stemmed_as_published(reference: snowballstemmer.stemmer) -> None:
    words = {"".join(parts) for parts in itertools.product(BEGINNINGS, ENDINGS)} | {
        begin + first + second for begin in ("moni", "tra", "geol") for first in ENDINGS for second in ENDINGS
    }
    assert [word for word in sorted(words) if word and stem(word) != reference.stemWord(word)] == []


def test_random_words_are_stemmed_as_published(reference: snowballstemmer.stemmer) -> None:
    dice = random.Random(7)  # noqa: S311 - no secret
    words = {"".join(dice.choices("abcdefghilmnoprstuyesintlg", k=dice.randint(1, 12))) for _ in range(4000)}
    assert [word for word in sorted(words) if stem(word) != reference.stemWord(word)] == []


def test_the_words_that_the_algorithm_lists_apart_are_stemmed_as_listed(reference: snowballstemmer.stemmer) -> None:
    words = (
        "skis", "skies", "sky", "dying", "lying", "tying", "idly", "gently", "ugly", "early", "only", "singly", "news", "howe", "atlas",
        "cosmos", "bias", "andes", "inning", "outing", "canning", "herring", "earring", "evening", "proceed", "exceed", "succeed",
        "generate", "communism", "arsenal", "universe", "organic", "emergency", "pasted", "later", "international", "egged", "added",
    )  # fmt: skip
    assert [stem(word) for word in words] == [reference.stemWord(word) for word in words]
