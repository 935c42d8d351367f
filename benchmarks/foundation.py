"""The figures of the engine, the SQLite store and the provider's hooks, beside the peer where there is one.

    python -m benchmarks.foundation [--scale quick|full] [--only NAME ...] [--data LOCOMO.json] [--out FILE]

A gate must hold; a goal is a best attempt. Prints a table, writes everything measured as JSON, and exits with 1 when a gate is
missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.corpus import Corpus
from benchmarks.figures.hooks import hooks
from benchmarks.figures.processes import processes
from benchmarks.figures.recall import recall
from benchmarks.figures.startup import startup
from benchmarks.figures.writes import growth, throughput
from benchmarks.harness import PEER, PEER_VERSION, ROOT, Verdict, load, machine, table, verdicts_json

SEED = 2026
Figure = Callable[[], tuple[dict[str, Any], list[Verdict]]]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: rows, questions per pass, single writes, rounds of process starts, share of the hook calls."""

    sizes: tuple[int, ...]
    queries: int
    writes: int
    rounds: int
    hooks: float


SCALES = {
    "quick": Scale(sizes=(1_000,), queries=200, writes=500, rounds=5, hooks=0.25),
    "full": Scale(sizes=(10_000, 100_000), queries=2_000, writes=10_000, rounds=15, hooks=1.0),
}


def figures_of(scale: Scale, data: Path | None) -> dict[str, Figure]:
    """Return what can be measured, by name, in the order of measuring: short figures first."""
    corpora = {size: Corpus(size, SEED) for size in scale.sizes}
    found: dict[str, Figure] = {
        "startup": lambda: startup(scale.rounds, SEED),
        "hooks": lambda: hooks(scale.hooks, SEED),
        "processes": lambda: processes(SEED),
        "remember": lambda: throughput(scale.writes, SEED),
        "growth": lambda: growth(corpora[max(scale.sizes)]),
    }
    for size, corpus in corpora.items():
        found[f"recall-{size}"] = lambda corpus=corpus: recall(corpus, scale.queries)  # type: ignore[misc]  # binds this corpus
    if data is not None:
        found["locomo"] = lambda: _locomo(data)
    return found


def _locomo(data: Path) -> tuple[dict[str, Any], list[Verdict]]:
    from benchmarks.locomo import figures

    return figures(data)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    options = _parser().parse_args(arguments)
    figures = figures_of(SCALES[options.scale], options.data)
    unknown = sorted(set(options.only) - set(figures))
    if unknown:
        sys.stderr.write(f"no such figure: {', '.join(unknown)}; there are {', '.join(figures)}\n")
        return 2
    started, before = time.time(), load()
    results: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    for name in options.only or figures:
        sys.stderr.write(f"-- {name}\n")
        load_then = load()
        result, judged = figures[name]()
        results[name] = {**result, "load_before": load_then, "load_after": load()}
        verdicts += judged
    report = {
        "scale": options.scale,
        "seed": SEED,
        "peer": f"{PEER} {PEER_VERSION}, keyword search only",
        "machine": machine(),
        "load_before": before,
        "load_after": load(),
        "seconds": round(time.time() - started, 1),
        "verdicts": verdicts_json(verdicts),
        "figures": results,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(verdicts))
    print(f"\nload {before} -> {report['load_after']}; written to {options.out}")
    return int(any(verdict.kind == "gate" and verdict.holds is False for verdict in verdicts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.foundation", description="Measure the engine beside its peer.")
    parser.add_argument("--scale", choices=SCALES, default="full", help="quick is a smoke run of some minutes")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="measure these figures only")
    parser.add_argument("--data", type=Path, help="the LoCoMo file; without it retrieval quality is not measured")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "foundation.json", help="the JSON result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
