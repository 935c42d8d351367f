"""Retrieval quality on LoCoMo, and how well a strict recall keeps silent: `python -m benchmarks.locomo --data PATH`.

One theme per conversation in one file, every turn captured with speaker, session and time, each question asked once with limit
100. Category 5, which has no answer in the text, is left out. Words alone are always measured; the chosen embedder is measured
beside them, with the paired difference. `--save` keeps the values of every question of the chosen system, `--compare` holds
them against such a file, `--plot` draws quality against latency for every embedder that can be used here.

Relevance in prefetch: each question is asked strictly of its own conversation and of every other one. An answer from another is
noise. The curve shows both shares of silence over the threshold of the gate.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import plot
from benchmarks.embedders import LEXICAL, System, add_options, available, chosen, embed_all, open_memory
from benchmarks.evaluation import (
    DEPTH,
    Answer,
    Incomparable,
    Run,
    comparison,
    comparisons,
    fingerprint,
    load,
    measured,
    paired,
    report,
    save,
    summary,
)
from benchmarks.harness import Verdict, at_least, at_most, table
from benchmarks.locomo_adapter import capture
from hermes_mnemosyne import Memory, RecallQuery

BENCHMARK = "LoCoMo, turn level"
ADVERSARIAL = 5
PREFETCH_LIMIT = 5
THRESHOLDS = tuple(step / 50 for step in range(8, 31))
CATEGORIES = {1: "1 multi-hop", 2: "2 temporal", 3: "3 open", 4: "4 single-hop"}
_EVIDENCE = re.compile(r"D:?(\d+):0*(\d+)")


@dataclass(frozen=True, slots=True)
class Question:
    """A question to one conversation and the ids of the turns that answer it."""

    key: str
    sample: str
    text: str
    category: int
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one system reached: its run, how it kept silent (empty when not measured), and how often vectors were not there."""

    run: Run
    relevance: Mapping[str, Any]
    degraded: int


def questions(sample: Mapping[str, Any], known: frozenset[str]) -> list[Question]:
    """Return the questions of a sample whose evidence names turns that exist."""
    found = []
    for number, item in enumerate(sample["qa"]):
        named = (_EVIDENCE.findall(text) for text in item.get("evidence", []))
        ids = frozenset(f"D{session}:{turn}" for pairs in named for session, turn in pairs) & known
        if item["category"] != ADVERSARIAL and ids:
            name = sample["sample_id"]
            found.append(Question(f"{name}:{number}", name, item["question"], item["category"], ids))
    return found


def measure(data: Path, system: System, *, relevance: bool = True, store: str = "") -> Outcome:
    """Store the conversations of the file `data`, ask every question, and with `relevance` ask again strictly.

    `store` is the DSN of an empty Postgres database; without one a file of this run's own is the store.
    """
    samples = json.loads(data.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="mnemosyne-locomo-") as directory, ExitStack() as stack:
        memories: dict[str, Memory] = {}
        asked: list[Question] = []
        ids: dict[str, str] = {}
        for sample in samples:
            name = sample["sample_id"]
            memory = stack.enter_context(open_memory(store or Path(directory) / "locomo.db", name, system.embedder))
            here = capture(memory, sample["conversation"])
            memories[name] = memory
            ids |= here
            asked += questions(sample, frozenset(here.values()))
        embed_all(next(iter(memories.values())), system.embedder)
        answers, degraded = _answers(memories, asked, ids)
        run = Run(BENCHMARK, system.name, fingerprint(data), tuple(answers))
        return Outcome(run, _relevance(memories, asked) if relevance else {}, degraded)


def _answers(memories: Mapping[str, Memory], asked: Sequence[Question], ids: Mapping[str, str]) -> tuple[list[Answer], int]:
    answers, degraded = [], 0
    for question in asked:
        query = RecallQuery(text=question.text, limit=DEPTH, kinds=("turn",))
        started = time.perf_counter()
        result = memories[question.sample].recall(query)
        seconds = time.perf_counter() - started
        degraded += bool(result.degraded)
        values = measured(question.evidence, [ids[hit.uid] for hit in result])
        answers.append(Answer(question.key, CATEGORIES[question.category], values, seconds))
    return answers, degraded


def figures(data: Path) -> tuple[dict[str, Any], list[Verdict]]:
    """Measure words alone on the file `data` and return the figures with the verdicts on them."""
    outcome = measure(data, LEXICAL)
    return as_json(outcome), lexical_verdicts(outcome)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome ready for JSON."""
    return {
        "questions": len(outcome.run.answers),
        "retrieval": summary(outcome.run),
        "relevance": outcome.relevance,
        "degraded": outcome.degraded,
    }


def lexical_verdicts(outcome: Outcome) -> list[Verdict]:
    """Return the verdicts on words alone."""
    reached = summary(outcome.run)["all"]
    return [
        at_least("LoCoMo R@10", reached["R@10"], 75, "%"),
        at_least("LoCoMo MRR", reached["MRR"], 56, "%"),
        at_least("LoCoMo R@10", reached["R@10"], 78, "%", "goal"),
        at_least("LoCoMo MRR", reached["MRR"], 59, "%", "goal"),
        *_silence("", outcome),
    ]


def hybrid_verdicts(outcome: Outcome, lexical: Outcome) -> list[Verdict]:
    """Return the verdicts on words and vectors, held against words alone."""
    reached, gain = summary(outcome.run)["all"], paired(outcome.run, lexical.run)["R@10"]
    return [
        at_least("LoCoMo hybrid R@10", reached["R@10"], 79, "%"),
        at_least("LoCoMo hybrid MRR", reached["MRR"], 58, "%"),
        Verdict("LoCoMo gain of R@10 by vectors", gain.gain, "> 0 points", "gate", gain.gain > 0),
        Verdict("LoCoMo gain, low end of interval", gain.interval[0], "> 0 points", "goal", gain.interval[0] > 0),
        at_least("LoCoMo hybrid R@10", reached["R@10"], 82, "%", "goal"),
        at_least("LoCoMo hybrid MRR", reached["MRR"], 61, "%", "goal"),
        at_most("answers without the vectors", outcome.degraded, 0, ""),
        *_silence("hybrid ", outcome),
    ]


def _silence(prefix: str, outcome: Outcome) -> list[Verdict]:
    own, other = outcome.relevance["silent_own"], outcome.relevance["silent_other"]
    verdicts = [at_most(f"{prefix}prefetch silent, own theme", own, 10, "%")]
    if other is not None:
        verdicts += [
            at_least(f"{prefix}prefetch silent, other theme", other, 60, "%"),
            at_least(f"{prefix}prefetch silent, other theme", other, 80, "%", "goal"),
        ]
    return verdicts


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
    """Measure, print, and write what is asked for; 1 when a gate is missed, 2 for what cannot be done."""
    options = _parser().parse_args(arguments)
    try:
        saved = load(options.compare) if options.compare else {}
    except (Incomparable, OSError) as error:
        raise SystemExit(f"--compare: {error}") from error
    if options.plot and not plot.installed():
        raise SystemExit(plot.INSTALL)
    system = chosen(options.embedder)
    outcomes = {LEXICAL: measure(options.data, LEXICAL)}
    verdicts = lexical_verdicts(outcomes[LEXICAL])
    if system != LEXICAL:
        outcomes[system] = measure(options.data, system)
        verdicts += hybrid_verdicts(outcomes[system], outcomes[LEXICAL])
    main_run = outcomes[system].run
    print(report(*(outcome.run for outcome in outcomes.values())), end="\n\n")
    for outcome in outcomes.values():
        _print_silence(outcome)
    if system != LEXICAL:
        print(comparison(main_run, outcomes[LEXICAL].run), end="\n\n")
    if options.compare:
        print(comparisons([main_run], saved), end="\n\n")
    print(table(verdicts))
    if options.save:
        save(options.save, [main_run])
    if options.json:
        found = {outcome.run.system: as_json(outcome) for outcome in outcomes.values()}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        drawn = {other.name for other in outcomes}
        more = [measure(options.data, other, relevance=False).run for other in available() if other.name not in drawn]
        plot.draw(options.plot, [*(outcome.run for outcome in outcomes.values()), *more], "R@10")
    return int(any(verdict.kind == "gate" and verdict.holds is False for verdict in verdicts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.locomo", description="Measure retrieval on a LoCoMo file.")
    parser.add_argument("--data", type=Path, required=True, help="the LoCoMo file; it is read and never copied")
    add_options(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw R@10 against latency of every embedder available")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser


def _print_silence(outcome: Outcome) -> None:
    relevance = outcome.relevance
    print(f"{outcome.run.system}: {outcome.degraded} answers without the vectors; nothing found by a strict recall:")
    print(f"own theme {relevance['silent_own']}, other themes {relevance['silent_other']}")
    print("threshold  own  other")
    for point in relevance["curve"]:
        print(f"{point['threshold']:9.2f}  {point['silent_own']:4}  {point['silent_other']}")
    print()


if __name__ == "__main__":
    sys.exit(main())
