"""Recall by words and meaning through the public interface, and the speed of a backfill.

    python -m benchmarks.hybrid [--sizes N ...] [--queries N] [--out FILE]

The rows and the questions are those of `corpus.py`. The vectors of the rows are the clustered ones of `vectors.py`, for to embed
100,000 texts would take a quarter of an hour; those of the questions are computed by the packaged model within each recall. Without numpy the packaged
network cannot run: there the static model answers, with 256 of the 384 dimensions.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.corpus import Corpus
from benchmarks.harness import (
    ROOT,
    Driver,
    Times,
    Verdict,
    at_least,
    at_most,
    cache_dir,
    clean_environment,
    concluded,
    load,
)
from benchmarks.vectors import DIMENSION, synthetic

LIMIT = 5
WARM_UP = 20
_SMALL_STORE, _LARGE_STORE = 10_000, 100_000
_LIMITS = {_SMALL_STORE: ((25.0, "gate"), (15.0, "goal")), _LARGE_STORE: ((30.0, "goal"),)}
_PLAIN_LIMIT = 60.0
_NEAR_RAW = 0.8
_EMBEDDED = 1024


@dataclass(frozen=True, slots=True)
class System:
    """A way to recall: its name, the setting `embedder`, the dimension, and whether numpy is kept from it."""

    name: str
    embedder: str
    dimension: int
    plain: bool = False


SYSTEMS = (
    System("MiniLM", "packaged", 384),
    System("wordllama", "wordllama", 256),
    System("wordllama, without numpy", "wordllama", 256, plain=True),
    System("words alone", "none", 0),
)


def driver(home: Path, system: System) -> Driver:
    """Start a process of its own for a store."""
    extra = {"BENCHMARK_WITHOUT_NUMPY": "1"} if system.plain else {}
    return Driver(sys.executable, ROOT / "benchmarks" / "hybrid_driver.py", clean_environment(home, **extra))


def loaded(size: int, system: System) -> Path:
    """Return the store of a size and system, made once per schema."""
    schema = ROOT / "src" / "hermes_mnemosyne" / "store" / "sqlite" / "migrations"
    parts = [*(file.read_bytes() for file in sorted(schema.glob("*.sql"))), Corpus(size).fingerprint.encode()]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    home = cache_dir() / "hybrid" / f"{size}-{system.embedder}-{digest}"
    if not (home / "done").exists():
        for old in home.parent.glob(f"{size}-{system.embedder}-*"):
            shutil.rmtree(old)
        home.mkdir(parents=True)
        made = driver(home, System("", system.embedder, system.dimension))
        made.call("open", path=str(home / "store.db"), embedder=system.embedder)
        made.call("fill", count=size)
        if system.dimension:
            rows, _ = synthetic(size, 2)
            rows.tofile(home / "vectors.f4")
            made.call("attach", vectors=str(home / "vectors.f4"), dimension=DIMENSION, used=system.dimension)
            (home / "vectors.f4").unlink()
        made.call("close")
        made.stop()
        (home / "done").touch()
    return home / "store.db"


def asked(size: int, queries: list[str], system: System, work: Path) -> dict[str, Any]:
    """Ask every question once of a process that has answered some others."""
    store = loaded(size, system)
    process = driver(work, system)
    process.call("open", path=str(store), embedder=system.embedder)
    process.call("recall", queries=queries[:WARM_UP], limit=LIMIT)
    answer = process.call("recall", queries=queries[WARM_UP:], limit=LIMIT)
    process.call("close")
    process.stop()
    times = Times()
    times.add(answer["times"])
    return {**times.figures(), "degraded": answer["degraded"]}


def backfilled(system: System, work: Path) -> dict[str, float]:
    """Return the speed of the embedder alone and of a backfill, in texts per second."""
    process = driver(work, system)
    process.call("open", path=str(work / f"{system.embedder}.db"), embedder=system.embedder)
    speeds: dict[str, float] = process.call("embed", texts=Corpus(_EMBEDDED, seed=7).short(_EMBEDDED))
    process.call("close")
    process.stop()
    return speeds


def verdicts_of(size: int, system: System, found: dict[str, Any]) -> list[Verdict]:
    """Return the verdicts on one system at one size."""
    name = f"{system.name}, {size:,} rows: p50"
    if system.embedder == "packaged":
        judged = [at_most(name, found["p50"], limit, "ms", kind) for limit, kind in _LIMITS.get(size, ())]
    elif system.plain and size == _SMALL_STORE:
        judged = [at_most(name, found["p50"], _PLAIN_LIMIT, "ms")]
    else:
        judged = [Verdict(f"{name} [ms]", found["p50"], "", "info", None)]
    judged.append(Verdict(f"{system.name}, {size:,} rows: p95 [ms]", found["p95"], "", "info", None))
    if system.dimension:
        judged.append(at_most(f"{system.name}, {size:,} rows: answers without vectors", found["degraded"], 0, ""))
    return judged


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hybrid", description="Measure recall by words and meaning.")
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=[_SMALL_STORE, _LARGE_STORE], metavar="N", help="rows of the stores"
    )
    parser.add_argument("--queries", type=int, default=300, help="questions per store")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "hybrid.json", help="the JSON result")
    options = parser.parse_args(arguments)
    before = load()
    figures: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        for size in options.sizes:
            queries = [query.text for query in Corpus(size).queries(options.queries + WARM_UP)]
            for system in SYSTEMS:
                sys.stderr.write(f"-- {size:,} rows, {system.name}\n")
                found = figures[f"{size} {system.name}"] = asked(size, queries, system, work)
                verdicts += verdicts_of(size, system, found)
        for system in SYSTEMS[:2]:
            sys.stderr.write(f"-- backfill, {system.name}\n")
            speeds = figures[f"backfill {system.name}"] = backfilled(system, work)
            share = speeds["backfill"] / speeds["raw"]
            verdicts.append(
                at_least(f"{system.name}: backfill against the embedder alone", round(share, 3), _NEAR_RAW, "", "goal")
            )
            verdicts.append(Verdict(f"{system.name}: texts per second alone", round(speeds["raw"]), "", "info", None))
    return concluded(options.out, {"queries": options.queries}, figures, verdicts, before)


if __name__ == "__main__":
    sys.exit(main())
