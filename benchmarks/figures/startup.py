"""Figure: what a process pays to import the package and to answer one recall on the command line."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.corpus import Corpus
from benchmarks.harness import Verdict, at_most, clean_environment, engine_driver

_IMPORT_LIMIT_MS, _RECALL_GOAL_MS = 50, 250
_SMALL_STORE = 200


def startup(rounds: int, seed: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Time whole processes; those that are compared take turns."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        environment = clean_environment(home)
        python = [sys.executable, "-c"]
        bare: list[float] = []
        package: list[float] = []
        for _ in range(rounds):
            bare.append(_wall([*python, "pass"], environment))
            package.append(_wall([*python, "import hermes_mnemosyne"], environment))
        importing = 1_000 * (statistics.median(package) - statistics.median(bare))
        figures: dict[str, Any] = {
            "bare_interpreter_ms": round(1_000 * statistics.median(bare), 1),
            "import_ms": round(importing, 1),
            "importtime": _slowest_imports(environment),
            "cli_recall": _cli_recall(home, environment, rounds, seed),
        }
    recall = figures["cli_recall"]["p50_ms"]
    return figures, [
        at_most("import hermes_mnemosyne, above a bare interpreter", figures["import_ms"], _IMPORT_LIMIT_MS, "ms"),
        at_most("mnemosyne recall, whole process, small store", recall, _RECALL_GOAL_MS, "ms", "goal"),
        at_most(
            "mnemosyne recall, the same with packaged weights installed",
            figures["cli_recall"]["p50_ms_with_weights_installed"],
            _RECALL_GOAL_MS,
            "ms",
            "goal",
        ),
    ]


def _wall(command: list[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _slowest_imports(environment: dict[str, str]) -> list[dict[str, Any]]:
    command = [sys.executable, "-X", "importtime", "-c", "import hermes_mnemosyne"]
    report = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stderr
    lines = re.findall(r"import time:\s+(\d+) \|\s+(\d+) \|\s+(\S+)", report)
    ranked = sorted(((int(own), int(whole), name) for own, whole, name in lines), reverse=True)
    return [{"module": name, "self_us": own, "cumulative_us": whole} for own, whole, name in ranked[:12]]


def _cli_recall(home: Path, environment: dict[str, str], rounds: int, seed: int) -> dict[str, Any]:
    corpus = Corpus(_SMALL_STORE, seed)
    store = home / "small" / "mnemosyne.db"
    store.parent.mkdir()
    with engine_driver(home) as driver:
        driver.call("open", path=str(store))
        driver.call("remember", texts=[row.text for row in corpus.main()])
        driver.call("close")
    queries = [query.text for query in corpus.queries(4 * rounds) if query.kind in {"natural", "identifier"}]
    program = str(Path(sys.executable).with_name("mnemosyne"))
    seconds: dict[str, list[float]] = {"none": [], "auto": []}
    hits = 0
    for query in queries[:rounds]:
        for embedder, taken in seconds.items():
            command = [program, "recall", "--db", str(store), "--theme", "main", "--json", "--", query]
            chosen = {**environment, "MNEMOSYNE_EMBEDDER": embedder}
            start = time.perf_counter()
            output = subprocess.run(command, env=chosen, check=True, capture_output=True, text=True).stdout
            taken.append(time.perf_counter() - start)
            hits += bool(json.loads(output)["hits"])
    p50 = {embedder: round(1_000 * statistics.median(taken), 1) for embedder, taken in seconds.items()}
    return {"p50_ms": p50["none"], "p50_ms_with_weights_installed": p50["auto"], "runs": rounds, "with_hits": hits}
