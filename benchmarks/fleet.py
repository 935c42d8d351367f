"""The figures of the provider `pgvector` and the Postgres store, beside hermes-memory-pgvector in the same run.

    python -m benchmarks.fleet [--scale quick|full] [--only NAME ...] [--data LOCOMO.json] [--million] [--out FILE]

Both systems work on one server of the benchmark's own, each in databases of its own, with the same embedding endpoint. A gate must
hold; a goal is a best attempt. Prints a table, writes everything measured as JSON, and exits with 1 when a gate is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.figures import fleet_growth as growing
from benchmarks.figures import fleet_recall as recalls
from benchmarks.figures import fleet_writes as writes
from benchmarks.figures.fleet_faults import faults
from benchmarks.figures.fleet_quality import quality
from benchmarks.figures.fleet_world import Loaded, World, said, world
from benchmarks.fleet_corpus import SEED
from benchmarks.harness import ROOT, DriverError, Verdict, concluded, load, table

REFERENCE = "hermes-memory-pgvector 0.5.4"
Figure = Callable[[World], tuple[dict[str, Any], list[Verdict]]]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured.

    The share of the hook calls, rows of a drain and of a burst (ours, the reference's), writes of a process,
    rows of a table, questions of a kind in a scope.
    """

    hooks: float
    drain: tuple[int, int]
    burst: tuple[int, int]
    writes: int
    rows: int
    questions: int


SCALES = {
    "quick": Scale(hooks=0.25, drain=(2_000, 150), burst=(2_000, 600), writes=200, rows=4_000, questions=20),
    "full": Scale(hooks=1.0, drain=(20_000, 1_500), burst=(20_000, 2_000), writes=2_000, rows=100_000, questions=100),
}


def figures_of(scale: Scale, data: Path | None, *, million: bool) -> dict[str, Figure]:
    """Return what can be measured, by name, in the order of measuring: short figures first."""
    found: dict[str, Figure] = {
        "hooks": lambda here: writes.hooks(here, scale.hooks),
        "drain": lambda here: writes.drain(here, *scale.drain),
        "burst": lambda here: writes.burst(here, *scale.burst),
        "faults": faults,
        "recall-seven": lambda here: recalls.recall(here, _seven(here, scale), scale.questions),
        "recall-many": lambda here: recalls.recall(here, _many(here, scale), scale.questions),
        "nearest": lambda here: recalls.nearest(here, _many(here, scale)),
        "writers": lambda here: growing.writers(here, (1, 4, 8), scale.writes),
        "growth": lambda here: growing.growth(here, scale.rows // 10, scale.questions // 2),
    }
    if data is not None:
        found["locomo"] = lambda here: quality(here, data)
    if million:
        found["million"] = lambda here: growing.growth(here, 10 * scale.rows, scale.questions // 2)
    return found


def _seven(here: World, scale: Scale) -> Loaded:
    return here.loaded(scale.rows, scale.rows, "seven", reference=True)


def _many(here: World, scale: Scale) -> Loaded:
    return here.loaded(scale.rows, 0, "many", reference=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    options = _parser().parse_args(arguments)
    figures = figures_of(SCALES[options.scale], options.data, million=options.million)
    unknown = sorted(set(options.only) - set(figures))
    if unknown:
        sys.stderr.write(f"no such figure: {', '.join(unknown)}; there are {', '.join(figures)}\n")
        return 2
    started, before = time.time(), load()
    results: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    with world() as here:
        facts = {"scale": options.scale, "seed": SEED, "reference": REFERENCE, "server": here.server.version()}
        for name in options.only or figures:
            said(name)
            load_then = load()
            try:
                result, judged = figures[name](here)
            except DriverError as error:
                # Hours of other figures are not lost with it.
                said(f"{name}: {error}")
                result, judged = {"error": str(error)}, [Verdict(f"{name}: measured", 0.0, "", "gate", holds=False)]
            results[name] = {**result, "load_before": load_then, "load_after": load()}
            verdicts += judged
            sys.stderr.write(table(judged) + "\n")
    return concluded(options.out, {**facts, "seconds": round(time.time() - started, 1)}, results, verdicts, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fleet", description="Measure the Postgres store beside the reference."
    )
    parser.add_argument("--scale", choices=SCALES, default="full", help="quick is a smoke run of some minutes")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="measure these figures only")
    parser.add_argument("--data", type=Path, help="the LoCoMo file; without it retrieval quality is not measured")
    parser.add_argument("--million", action="store_true", help="with a million rows too, which takes about an hour")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "fleet.json", help="the JSON result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
