"""The figures of vector search in SQLite: recall against the exact answer, time, and memory, with numpy and without.

    python -m benchmarks.vectors [--sizes N ...] [--queries N] [--out FILE]

The vectors are synthetic: clusters in 48 dimensions, turned into 384, with noise; half of the queries lie near a stored vector. One
row in a hundred belongs to a theme of its own, which is searched by itself too. Needs numpy for the exact answers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

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
from benchmarks.vectors_driver import SMALL_SHARE, SMALL_THEME

SEED = 2026
DIMENSION, INTRINSIC, CLUSTERS = 384, 48, 200
SPREAD, NOISE, NEAR = 1.0, 1.0, 0.6
LIMIT = 10
RECALL_GATE, MEMORY_GATE_MB = 0.97, 60.0
_SMALL_STORE = 10_000
# What is left for the vector leg of a recall that may take 60 ms without numpy.
_PLAIN_MS = 40.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """A store with vectors, the same one without, and the row number of each vector."""

    with_vectors: Path
    without: Path
    ids: dict[int, int]
    seconds: float


def synthetic(count: int, queries: int) -> tuple[Any, Any]:
    """Return unit vectors of rows and of queries."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    turn = rng.normal(size=(INTRINSIC, DIMENSION)) / np.sqrt(INTRINSIC)
    centres = rng.normal(size=(CLUSTERS, INTRINSIC))

    def drawn(number: int) -> Any:
        inner = centres[rng.integers(0, CLUSTERS, number)] + SPREAD * rng.normal(size=(number, INTRINSIC))
        return inner @ turn + NOISE * rng.normal(size=(number, DIMENSION))

    rows = drawn(count)
    near = rows[rng.integers(0, count, queries // 2)]
    near = near + NEAR * rng.normal(size=near.shape) * near.std(axis=1, keepdims=True)
    asked = np.concatenate([near, drawn(queries - len(near))])
    return tuple((made / np.linalg.norm(made, axis=1, keepdims=True)).astype("<f4") for made in (rows, asked))


def exact(rows: Any, queries: Any, chosen: Any = None) -> list[list[int]]:
    """Return the numbers of the nearest rows of each query, the chosen ones only."""
    import numpy as np

    numbers = np.arange(len(rows)) if chosen is None else np.flatnonzero(chosen)
    scores = queries @ rows[numbers].T
    return [numbers[np.argsort(-line, kind="stable")[:LIMIT]].tolist() for line in scores]


def driver(home: Path, *, plain: bool = False) -> Driver:
    """Start a process of its own for a store."""
    extra = {"BENCHMARK_WITHOUT_NUMPY": "1"} if plain else {}
    return Driver(sys.executable, ROOT / "benchmarks" / "vectors_driver.py", clean_environment(home, **extra))


def loaded(rows: Any) -> Loaded:
    """Return the stores of these vectors, made through the store's public methods once per schema."""
    schema = ROOT / "src" / "hermes_mnemosyne" / "store" / "sqlite" / "migrations"
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(schema.glob("*.sql"))) + rows.tobytes()).hexdigest()
    home = cache_dir() / "vectors" / f"{len(rows)}-{digest[:16]}"
    if not (home / "ids.json").exists():
        for old in (cache_dir() / "vectors").glob(f"{len(rows)}-*"):
            shutil.rmtree(old)
        home.mkdir(parents=True)
        rows.tofile(home / "vectors.f4")
        made = driver(home)
        made.call("open", path=str(home / "without.db"))
        made.call("fill", count=len(rows))
        made.call("close")
        made.stop()
        shutil.copy(home / "without.db", home / "with.db")
        made = driver(home)
        made.call("open", path=str(home / "with.db"))
        facts = made.call("attach", vectors=str(home / "vectors.f4"), dimension=DIMENSION)
        made.call("close")
        made.stop()
        (home / "ids.json").write_text(json.dumps(facts), encoding="utf-8")
    facts = json.loads((home / "ids.json").read_text(encoding="utf-8"))
    ids = {int(number): row for number, row in facts["ids"].items()}
    return Loaded(home / "with.db", home / "without.db", ids, facts["seconds"])


def share(found: list[list[int]], should: list[list[int]], ids: dict[int, int]) -> float:
    """Return how much of the exact answers was found."""
    kept = sum(len({*hits} & {ids[number] for number in numbers}) for hits, numbers in zip(found, should, strict=True))
    return round(kept / sum(map(len, should)), 4)


class _Run:
    """One store searched by one process."""

    def __init__(self, stores: Loaded, work: Path, *, plain: bool) -> None:
        self.stores, self.work, self.plain = stores, work, plain

    def figures(self, rows: Any, queries: Any) -> dict[str, Any]:
        """Ask every query in the whole store, the small theme and through a filter."""
        import numpy as np

        small = np.arange(len(rows)) % SMALL_SHARE == 0
        tagged = np.arange(len(rows)) // SMALL_SHARE % 20 == 3  # noqa: PLR2004 - as the driver tags its rows
        asked = queries.tolist()
        process = driver(self.work, plain=self.plain)
        process.call("open", path=str(self.stores.with_vectors))
        process.call("warm_up")
        first = process.call("nearest", queries=asked[:1], limit=LIMIT)["times"]["wall"][0]
        figures: dict[str, Any] = {}
        for name, fields, chosen in (
            ("all", {}, None),
            ("theme of 1 %", {"theme": SMALL_THEME}, small),
            ("tag of 5 %", {"tags": ["tag3"]}, tagged),
        ):
            times = Times()
            answer = process.call("nearest", queries=asked, limit=LIMIT, **fields)
            times.add(answer["times"])
            should = exact(rows, queries, chosen)
            figures[name] = {**times.figures(), "recall": share(answer["hits"], should, self.stores.ids)}
            figures[name]["first"] = sum(
                hits[:1] == [self.stores.ids[numbers[0]]] for hits, numbers in zip(answer["hits"], should, strict=True)
            ) / len(should)
        figures["load_ms"] = round(1000 * first - figures["all"]["p50"], 1)
        figures["questions"] = {}
        for name, times_of in process.call("upkeep_questions", rounds=20).items():
            times = Times()
            times.add(times_of)
            figures["questions"][name] = times.figures()
        figures["memory"] = process.call("memory")
        process.call("close")
        process.stop()
        return figures


def memory_without(stores: Loaded, work: Path, *, plain: bool) -> dict[str, float]:
    """Return the memory of the same process on the same rows without vectors."""
    process = driver(work, plain=plain)
    process.call("open", path=str(stores.without))
    process.call("warm_up")
    memory: dict[str, float] = process.call("memory")
    process.call("close")
    process.stop()
    return memory


def measured(size: int, count: int, work: Path) -> tuple[dict[str, Any], list[Verdict]]:
    """Measure one size of store."""
    rows, queries = synthetic(size, count)
    stores = loaded(rows)
    figures: dict[str, Any] = {"rows": size, "attach_per_second": round(size / stores.seconds)}
    verdicts = []
    at = f"{size:,} x {DIMENSION}"
    for name, plain in (("numpy", False), ("plain", True)):
        found = _Run(stores, work, plain=plain).figures(rows, queries)
        bare = memory_without(stores, work, plain=plain)
        found["memory_above_mb"] = {key: round(found["memory"][key] - bare[key], 1) for key in bare}
        figures[name] = found
        which = f"{at}, {'numpy' if not plain else 'without numpy'}"
        verdicts += [
            at_least(f"{which}: recall@{LIMIT}, {part}", found[part]["recall"], RECALL_GATE, "")
            for part in ("all", "theme of 1 %")
        ]
        for part in ("all", "theme of 1 %", "tag of 5 %"):
            for quantile in ("p50", "p95"):
                value = found[part][quantile]
                is_gate = plain and size == _SMALL_STORE and part == "all" and quantile == "p50"
                text = f"{which}: {quantile}, {part} [ms]"
                verdicts.append(at_most(text, value, _PLAIN_MS, "ms") if is_gate else Verdict(text, value, "", "info", None))
        verdicts.append(Verdict(f"{which}: recall@{LIMIT}, tag of 5 %", found["tag of 5 %"]["recall"], "", "info", None))
        verdicts.append(Verdict(f"{which}: first search above the median [ms]", found["load_ms"], "", "info", None))
        for key, value in found["memory_above_mb"].items():
            verdicts.append(at_most(f"{which}: memory above none, {key}", value, MEMORY_GATE_MB, "MB"))
        for question, times in found["questions"].items():
            verdicts.append(Verdict(f"{which}: {question} p50 [ms]", times["p50"], "", "info", None))
    verdicts.append(Verdict(f"{at}: vectors attached per second", figures["attach_per_second"], "", "info", None))
    return figures, verdicts


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vectors", description="Measure vector search in SQLite.")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000], metavar="N", help="rows of the stores")
    parser.add_argument("--queries", type=int, default=400, help="queries per store")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "vectors.json", help="the JSON result")
    options = parser.parse_args(arguments)
    before = load()
    figures: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory() as directory:
        for size in options.sizes:
            sys.stderr.write(f"-- {size:,} vectors\n")
            figures[str(size)], judged = measured(size, options.queries, Path(directory))
            verdicts += judged
    facts = {"seed": SEED, "dimension": DIMENSION, "intrinsic": INTRINSIC, "queries": options.queries}
    return concluded(options.out, facts, figures, verdicts, before)


if __name__ == "__main__":
    sys.exit(main())
