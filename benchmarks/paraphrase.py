"""Recall by meaning: `python -m benchmarks.paraphrase [--embedder packaged]`.

Every memory of `data/paraphrases.jsonl` is stored as an entry among 2,000 distractors, and its question is asked with limit 5.
Question and memory have no content word in common, so words alone find next to nothing; they are measured beside the embedder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.distractors import distractors
from benchmarks.embedders import LEXICAL, System, add_options, chosen, embed_all, open_memory
from benchmarks.evaluation import (
    Answer,
    Incomparable,
    Run,
    averages,
    comparison,
    comparisons,
    load,
    measured,
    report,
    save,
)
from benchmarks.harness import Verdict, at_least, at_most, table
from hermes_mnemosyne import RecallQuery
from hermes_mnemosyne.recall.stemming import stem
from hermes_mnemosyne.recall.words import STOP_WORDS

BENCHMARK = "paraphrases"
MEASURES = ("hit@1", "hit@5", "MRR")
DISTRACTORS = 2_000
LIMIT = 5
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


def measure(asked: list[Pair], system: System) -> tuple[Run, list[Pair], int]:
    """Store pairs and distractors, ask every question, and return the run, the pairs not found, and the answers without vectors."""
    others = distractors(DISTRACTORS)
    answers, missed, degraded = [], [], 0
    with (
        tempfile.TemporaryDirectory(prefix="mnemosyne-paraphrases-") as directory,
        open_memory(Path(directory) / "paraphrases.db", BENCHMARK, system.embedder) as memory,
    ):
        step = len(others) // len(asked)
        uids = []
        for number, pair in enumerate(asked):
            uids.append(memory.remember(pair.memory).uid)
            for text in others[number * step : (number + 1) * step]:
                memory.remember(text)
        for text in others[len(asked) * step :]:
            memory.remember(text)
        embed_all(memory, system.embedder)
        for pair, uid in zip(asked, uids, strict=True):
            started = time.perf_counter()
            result = memory.recall(RecallQuery(text=pair.question, limit=LIMIT))
            seconds = time.perf_counter() - started
            degraded += bool(result.degraded)
            values = measured(frozenset({uid}), [hit.uid for hit in result], MEASURES)
            answers.append(Answer(pair.question, pair.topic, values, seconds))
            if not values["hit@5"]:
                missed.append(pair)
    texts = "\n".join([*others, *(pair.memory for pair in asked)])
    return Run(BENCHMARK, system.name, hashlib.sha256(texts.encode()).hexdigest(), tuple(answers)), missed, degraded


def verdicts(run: Run) -> list[Verdict]:
    """Return the verdicts on words and vectors."""
    found = averages(run.answers)["hit@5"]
    return [at_least("paraphrases hit@5", found, 60, "%"), at_least("paraphrases hit@5", found, 80, "%", "goal")]


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 when the gate is missed, which words alone do not have."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paraphrase", description="Measure recall by meaning.")
    add_options(parser)
    parser.add_argument("--show-missed", action="store_true", help="print the pairs that were not among the first five")
    options = parser.parse_args(arguments)
    try:
        saved = load(options.compare) if options.compare else {}
    except (Incomparable, OSError) as error:
        raise SystemExit(f"--compare: {error}") from error
    asked, system = pairs(), chosen(options.embedder)
    lexical, missed, _ = measure(asked, LEXICAL)
    run, judged = lexical, []
    if system != LEXICAL:
        run, missed, degraded = measure(asked, system)
        judged = [*verdicts(run), at_most("answers without the vectors", degraded, 0, "")]
        print(f"{report(lexical, run)}\n\n{comparison(run, lexical)}\n\n{table(judged)}")
    else:
        print(report(lexical))
    if options.show_missed:
        print("\nnot found:", *(f"  {pair.question}  <-  {pair.memory}" for pair in missed), sep="\n")
    if options.compare:
        print(f"\n{comparisons([run], saved)}")
    if options.save:
        save(options.save, [run])
    return int(any(verdict.kind == "gate" and verdict.holds is False for verdict in judged))


if __name__ == "__main__":
    sys.exit(main())
