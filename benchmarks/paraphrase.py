"""Recall by meaning: pairs of a memory and a question that have no content word in common, among distractors."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from hermes_mnemosyne.recall.stemming import stem
from hermes_mnemosyne.recall.words import STOP_WORDS

PAIRS = Path(__file__).resolve().parent / "data" / "paraphrases.jsonl"
_WORD = re.compile(r"[^\W_]+")
_ENDINGS = frozenset({"s", "t", "d", "m", "ll", "re", "ve"})


@dataclass(frozen=True, slots=True)
class Pair:
    """A memory and a question that it answers."""

    memory: str
    question: str
    topic: str


def pairs(path: Path = PAIRS) -> list[Pair]:
    """Return the pairs of a file, one JSON object a line."""
    return [Pair(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a text that are neither stop words nor the endings of contractions."""
    words = set(_WORD.findall(text.casefold()))
    return frozenset(stem(word) for word in words - STOP_WORDS - _ENDINGS)
