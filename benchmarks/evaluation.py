"""Measures of ranked answers, with intervals over questions, comparison with a saved run, and how they are printed.

Everything is a share of 1 per question and in percent where it is averaged. An interval is the middle 95 % of 1,000 bootstrap
rounds over questions with a fixed seed. Two runs are compared question by question, which is far sharper than two intervals.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import quantiles

MEASURES = ("R@5", "R@10", "R@20", "hit@1", "hit@5", "hit@10", "MRR")
DEPTH = 100
ROUNDS = 1_000
SEED = 7
_ENOUGH = 16

Span = tuple[float, float]


class Incomparable(ValueError):
    """Two runs that cannot be held against each other, or a file that holds no run; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one question got: each measure as a share of 1, and the seconds it took."""

    key: str
    category: str
    values: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The answers of one system to all questions of a benchmark; `data` is the fingerprint of what was read."""

    benchmark: str
    system: str
    data: str
    answers: tuple[Answer, ...]

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of what was measured."""
        return tuple(self.answers[0].values) if self.answers else ()

    @property
    def latency(self) -> dict[str, float]:
        """Quantiles of the time of an answer in milliseconds."""
        return quantiles([answer.seconds for answer in self.answers])


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean gain per question over another run, in points, with its interval."""

    gain: float
    interval: Span
    questions: int


def measured(relevant: frozenset[str], got: Sequence[str], names: Sequence[str] = MEASURES) -> dict[str, float]:
    """Return the measures of one ranked answer; a repeated or unknown id keeps its place."""
    return {name: _measure(name, relevant, got) for name in names}


def _measure(name: str, relevant: frozenset[str], got: Sequence[str]) -> float:
    kind, _, depth = name.partition("@")
    if kind == "R":
        return len(relevant.intersection(got[: int(depth)])) / len(relevant)
    if kind == "hit":
        return float(not relevant.isdisjoint(got[: int(depth)]))
    if name != "MRR":
        raise ValueError(f"no measure {name}: there are R@k, hit@k and MRR")
    return next((1 / place for place, found in enumerate(got[:DEPTH], 1) if found in relevant), 0.0)


def averages(answers: Sequence[Answer]) -> dict[str, float]:
    """Return the mean of each measure, in percent."""
    return {name: round(100 * statistics.fmean(column), 1) for name, column in _columns(answers).items()}


def intervals(answers: Sequence[Answer]) -> dict[str, Span]:
    """Return the 95 % bootstrap interval of each mean over questions, in percent."""
    return _bootstrap(_columns(answers))


def by_category(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """Return the answers of each category, by the names of the categories."""
    names = sorted({answer.category for answer in answers})
    return {name: [answer for answer in answers if answer.category == name] for name in names}


def paired(run: Run, other: Run) -> dict[str, Difference]:
    """Return the gain of `run` over `other` per measure that both have, over the questions that both were asked.

    Raises Incomparable for another benchmark or other data, or when no question is common.
    """
    if (run.benchmark, run.data) != (other.benchmark, other.data):
        raise Incomparable(
            f"the other run is of {other.benchmark} on data {other.data[:12]}, not of {run.benchmark} on {run.data[:12]}"
        )
    before = {answer.key: answer for answer in other.answers}
    pairs = [(answer, before[answer.key]) for answer in run.answers if answer.key in before]
    names = [name for name in run.measures if name in other.measures]
    if not pairs or not names:
        raise Incomparable("the runs have no question or no measure in common")
    columns = {name: [new.values[name] - old.values[name] for new, old in pairs] for name in names}
    spans = _bootstrap(columns)
    return {
        name: Difference(round(100 * statistics.fmean(column), 1), spans[name], len(pairs)) for name, column in columns.items()
    }


def _columns(answers: Sequence[Answer]) -> dict[str, list[float]]:
    return {name: [answer.values[name] for answer in answers] for name in (answers[0].values if answers else ())}


def _bootstrap(columns: Mapping[str, Sequence[float]]) -> dict[str, Span]:
    draw = random.Random(SEED)  # noqa: S311  # repeatable on purpose
    count = len(next(iter(columns.values()), ()))
    means: dict[str, list[float]] = {name: [] for name in columns}
    for _ in range(ROUNDS):
        chosen = draw.choices(range(count), k=count)
        for name, column in columns.items():
            means[name].append(sum(map(column.__getitem__, chosen)) / count)
    return {name: _middle(sorted(found)) for name, found in means.items()}


def _middle(ranked: Sequence[float]) -> Span:
    low, high = ranked[int(0.025 * len(ranked))], ranked[int(0.975 * len(ranked)) - 1]
    return round(100 * low, 1), round(100 * high, 1)


# -- files -----------------------------------------------------------------------------------------------------------------------


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save(path: Path, runs: Sequence[Run]) -> None:
    """Write runs with the values of every question, for `load`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"runs": [asdict(run) for run in runs]}, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Run]:
    """Return the runs of a file by the names of their benchmarks. Raises Incomparable when it holds none, OSError."""
    try:
        found = [_run(item) for item in json.loads(path.read_text(encoding="utf-8"))["runs"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Incomparable(f"{path} holds no saved run ({type(error).__name__}: {error})") from error
    return {run.benchmark: run for run in found}


def _run(item: Mapping[str, Any]) -> Run:
    return Run(item["benchmark"], item["system"], item["data"], tuple(Answer(**answer) for answer in item["answers"]))


# -- printing --------------------------------------------------------------------------------------------------------------------


def summary(run: Run) -> dict[str, Any]:
    """Return averages and intervals, over all and per category, and the latency, ready for JSON."""
    categories = {
        name: {"questions": len(part), **averages(part), "interval": intervals(part)}
        for name, part in by_category(run.answers).items()
    }
    return {
        "system": run.system,
        "questions": len(run.answers),
        "all": averages(run.answers),
        "interval": intervals(run.answers),
        "categories": categories,
        "latency_ms": run.latency,
    }


def report(*runs: Run) -> str:
    """Return the averages of runs of one benchmark side by side as a table, over all questions and per category.

    Below each line stand the intervals, unless the questions are too few for them to mean anything.
    """
    lines = [
        f"{runs[0].benchmark}: {len(runs[0].answers)} questions, in percent, 95 % intervals below",
        _line("", runs[0].measures),
    ]
    groups = {run: by_category(run.answers) for run in runs}
    lines += _rows("all", {run.system: run.answers for run in runs}, runs[0].measures)
    names = list(groups[runs[0]])
    for name in names if len(names) > 1 else ():
        lines += _rows(name, {run.system: groups[run][name] for run in runs if name in groups[run]}, runs[0].measures)
    for run in runs:
        times = run.latency
        lines.append(f"time of an answer, {run.system}: p50 {times['p50']:.1f} ms, p95 {times['p95']:.1f} ms")
    return "\n".join(lines)


def _rows(name: str, parts: Mapping[str, Sequence[Answer]], measures: Sequence[str]) -> list[str]:
    lines = [f"{name} ({len(next(iter(parts.values())))})"]
    for system, part in parts.items():
        mean = averages(part)
        lines.append(_line(f"  {system}", [f"{mean[measure]:.1f}" for measure in measures]))
        if len(part) >= _ENOUGH:
            span = intervals(part)
            lines.append(_line("", [_span(span[measure]) for measure in measures]))
    return lines


def comparison(run: Run, other: Run) -> str:
    """Return the paired differences to another run as a table. Raises Incomparable."""
    found = paired(run, other)
    count = next(iter(found.values())).questions
    return "\n".join(
        [
            f"{run.system} against {other.system}: gain in points over {count} common questions, 95 % interval below",
            _line("", list(found)),
            _line("", [f"{difference.gain:+.1f}" for difference in found.values()]),
            _line("", [_span(difference.interval, "+") for difference in found.values()]),
        ]
    )


def comparisons(runs: Sequence[Run], others: Mapping[str, Run]) -> str:
    """Return each run against the other one of its benchmark. Raises Incomparable when there is none, or it cannot be compared."""
    missing = [run.benchmark for run in runs if run.benchmark not in others]
    if missing:
        raise Incomparable(f"no run of {', '.join(missing)} to compare with: there is {', '.join(others)}")
    return "\n\n".join(comparison(run, others[run.benchmark]) for run in runs)


def _line(label: str, cells: Sequence[str]) -> str:
    return (f"{label:36}" + "".join(f"{cell:>13}" for cell in cells)).rstrip()


def _span(span: Span, sign: str = "") -> str:
    return "..".join(f"{bound:{sign}.1f}" for bound in span)
