"""Retrieval quality on LoCoMo, and how well a strict recall keeps silent: `python benchmarks/locomo.py --data PATH`.

One theme per conversation in one file, every turn captured with speaker, session and time, each question asked once with limit
100. Measured per question and averaged, in percent: the share of its evidence turns among the first 5, 10 and 20 results, whether
one is among the first 10, and the reciprocal rank of the first. Category 5, which has no answer in the text, is left out.

Relevance in prefetch: each question is asked strictly of its own conversation and of every other one. An answer from another is
noise. The curve shows both shares of silence over the threshold of the gate.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import Verdict, at_least, at_most, table
from benchmarks.locomo_adapter import capture
from hermes_mnemosyne import Memory, RecallQuery

MEASURES = ("R@5", "R@10", "R@20", "hit@10", "MRR")
ADVERSARIAL = 5
PREFETCH_LIMIT = 5
THRESHOLDS = tuple(step / 50 for step in range(8, 31))
_EVIDENCE = re.compile(r"D:?(\d+):0*(\d+)")


@dataclass(frozen=True, slots=True)
class Question:
    """A question to one conversation and the ids of the turns that answer it."""

    sample: str
    text: str
    category: int
    evidence: frozenset[str]


def questions(sample: Mapping[str, Any], known: frozenset[str]) -> list[Question]:
    """Return the questions of a sample whose evidence names turns that exist."""
    found = []
    for item in sample["qa"]:
        named = (_EVIDENCE.findall(text) for text in item.get("evidence", []))
        ids = frozenset(f"D{session}:{turn}" for pairs in named for session, turn in pairs) & known
        if item["category"] != ADVERSARIAL and ids:
            found.append(Question(sample["sample_id"], item["question"], item["category"], ids))
    return found


def scores(evidence: frozenset[str], got: Sequence[str]) -> tuple[float, ...]:
    """Return the measures of one ranked answer, each 0 to 1."""
    recalls = [len(evidence & set(got[:k])) / len(evidence) for k in (5, 10, 20)]
    rank = next((1 / place for place, found in enumerate(got[:100], 1) if found in evidence), 0.0)
    return (*recalls, float(bool(evidence & set(got[:10]))), rank)


def averages(rows: Sequence[tuple[float, ...]]) -> dict[str, float]:
    """Return each measure in percent."""
    return {
        name: round(100 * statistics.fmean(values), 1) for name, values in zip(MEASURES, zip(*rows, strict=True), strict=True)
    }


def interval(values: Sequence[float], rounds: int = 1_000, seed: int = 7) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean over questions, in percent."""
    draw = random.Random(seed)  # noqa: S311  # repeatable on purpose
    means = sorted(statistics.fmean(draw.choices(values, k=len(values))) for _ in range(rounds))
    return round(100 * means[int(0.025 * rounds)], 1), round(100 * means[int(0.975 * rounds) - 1], 1)


def figures(data: Path) -> tuple[dict[str, Any], list[Verdict]]:
    """Measure on the file `data` and return the figures with the verdicts on them."""
    samples = json.loads(data.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="mnemosyne-locomo-") as directory, ExitStack() as stack:
        memories: dict[str, Memory] = {}
        asked: list[Question] = []
        ids: dict[str, str] = {}
        for sample in samples:
            memory = stack.enter_context(Memory.open(Path(directory) / "locomo.db", theme=sample["sample_id"]))
            here = capture(memory, sample["conversation"])
            memories[sample["sample_id"]] = memory
            ids |= here
            asked += questions(sample, frozenset(here.values()))
        retrieval = _retrieval(memories, asked, ids)
        relevance = _relevance(memories, asked)
    verdicts = [
        at_least("LoCoMo R@10", retrieval["all"]["R@10"], 75, "%"),
        at_least("LoCoMo MRR", retrieval["all"]["MRR"], 56, "%"),
        at_least("LoCoMo R@10", retrieval["all"]["R@10"], 78, "%", "goal"),
        at_least("LoCoMo MRR", retrieval["all"]["MRR"], 59, "%", "goal"),
    ]
    if relevance["silent_other"] is not None:
        verdicts += [
            at_least("prefetch silent, other theme", relevance["silent_other"], 60, "%"),
            at_least("prefetch silent, other theme", relevance["silent_other"], 80, "%", "goal"),
        ]
    verdicts.append(at_most("prefetch silent, own theme", relevance["silent_own"], 10, "%"))
    return {"questions": len(asked), "retrieval": retrieval, "relevance": relevance}, verdicts


def _retrieval(memories: Mapping[str, Memory], asked: Sequence[Question], ids: Mapping[str, str]) -> dict[str, Any]:
    rows: list[tuple[float, ...]] = []
    by_category: dict[int, list[tuple[float, ...]]] = defaultdict(list)
    for question in asked:
        result = memories[question.sample].recall(RecallQuery(text=question.text, limit=100, kinds=("turn",)))
        row = scores(question.evidence, [ids[hit.uid] for hit in result])
        rows.append(row)
        by_category[question.category].append(row)
    return {
        "all": averages(rows),
        "interval": {name: interval(values) for name, values in zip(MEASURES, zip(*rows, strict=True), strict=True)},
        "categories": {
            str(category): {"questions": len(part), **averages(part)} for category, part in sorted(by_category.items())
        },
    }


def _relevance(memories: Mapping[str, Memory], asked: Sequence[Question]) -> dict[str, Any]:
    own: list[tuple[bool, float]] = []
    other: list[tuple[bool, float]] = []
    for question in asked:
        for name, memory in memories.items():
            strict = memory.recall(RecallQuery(text=question.text, limit=PREFETCH_LIMIT, kinds=("turn",), strict=True))
            shown = memory.recall(RecallQuery(text=question.text, limit=PREFETCH_LIMIT, kinds=("turn",), explain=True))
            strength = max(((hit.explain or {})["evidence"]["strength"] for hit in shown), default=0.0)
            (own if name == question.sample else other).append((not strict.hits, strength))

    def silent(answers: Sequence[tuple[bool, float]]) -> float | None:
        return round(100 * statistics.fmean(quiet for quiet, _ in answers), 1) if answers else None

    def below(answers: Sequence[tuple[bool, float]], threshold: float) -> float | None:
        return round(100 * statistics.fmean(strength < threshold for _, strength in answers), 1) if answers else None

    return {
        "silent_own": silent(own),
        "silent_other": silent(other),
        "asked_own": len(own),
        "asked_other": len(other),
        "curve": [{"threshold": at, "silent_own": below(own, at), "silent_other": below(other, at)} for at in THRESHOLDS],
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the JSON where it is asked for; 1 when a gate is missed."""
    parser = argparse.ArgumentParser(description="Measure retrieval on a LoCoMo file.")
    parser.add_argument("--data", type=Path, required=True, help="the LoCoMo file; it is read and never copied")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args(arguments)
    found, verdicts = figures(options.data)
    _print(found)
    print(table(verdicts))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(verdict.kind == "gate" and verdict.holds is False for verdict in verdicts))


def _print(found: Mapping[str, Any]) -> None:
    retrieval, relevance = found["retrieval"], found["relevance"]
    print(f"{found['questions']} questions, turn level, no language model; in percent")
    print(f"{'':14}" + "".join(f"{name:>8}" for name in MEASURES))
    print(f"{'all':14}" + "".join(f"{retrieval['all'][name]:8.1f}" for name in MEASURES))
    for category, row in retrieval["categories"].items():
        label = f"category {category} ({row['questions']})"
        print(f"{label:14}" + "".join(f"{row[name]:8.1f}" for name in MEASURES))
    spans = {name: f"{low}..{high}" for name, (low, high) in retrieval["interval"].items()}
    print("95 % interval  " + ", ".join(f"{name} {span}" for name, span in spans.items()))
    print(f"\nstrict recall, nothing found: own theme {relevance['silent_own']}, other themes {relevance['silent_other']}")
    print("threshold  own  other")
    for point in relevance["curve"]:
        print(f"{point['threshold']:9.2f}  {point['silent_own']:4}  {point['silent_other']}")
    print()


if __name__ == "__main__":
    sys.exit(main())
