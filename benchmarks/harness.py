"""What every figure needs: driver processes, the peer's environment, the machine's description, quantiles and verdicts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

ROOT = Path(__file__).resolve().parents[1]
PEER = "mnemosyne-memory"
PEER_VERSION = "3.15.1"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure held against its limit: a gate must hold, a goal is a best attempt; `info` has no limit."""

    name: str
    value: float | None
    limit: str
    kind: Literal["gate", "goal", "info"]
    holds: bool | None

    @property
    def word(self) -> str:
        """Return the verdict in one word."""
        return {None: "-", True: "holds", False: "MISSED"}[self.holds]


def at_most(name: str, value: float | None, limit: float, unit: str, kind: Literal["gate", "goal"] = "gate") -> Verdict:
    """Return the verdict on a figure that must not exceed `limit`; without a value the figure is missing."""
    return Verdict(name, value, f"<= {limit:g} {unit}".strip(), kind, None if value is None else value <= limit)


def at_least(name: str, value: float | None, limit: float, unit: str, kind: Literal["gate", "goal"] = "gate") -> Verdict:
    """Return the verdict on a figure that must reach `limit`; without a value the figure is missing."""
    return Verdict(name, value, f">= {limit:g} {unit}".strip(), kind, None if value is None else value >= limit)


class Times:
    """Seconds of calls, on the wall and of processor time, as a driver reports them."""

    def __init__(self) -> None:
        """Start without any."""
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def add(self, times: Mapping[str, Sequence[float]]) -> None:
        """Append what a driver reported."""
        self.wall += times["wall"]
        self.cpu += times["cpu"]

    def figures(self, chosen: Sequence[int] | None = None) -> dict[str, float]:
        """Return the quantiles of all calls, or of the chosen ones, with the median of the processor time."""
        picked = range(len(self.wall)) if chosen is None else chosen
        if not picked:
            return quantiles([])
        cpu = statistics.median(self.cpu[index] for index in picked)
        return {**quantiles([self.wall[index] for index in picked]), "cpu_p50": round(1_000 * cpu, 4)}


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p95, p99, mean and maximum in milliseconds, and the number of values."""
    if not seconds:
        return {"count": 0}
    ranked = sorted(seconds)
    cut = {f"p{p}": ranked[min(len(ranked) - 1, int(len(ranked) * p / 100))] for p in (50, 95, 99)}
    cut["p50"] = statistics.median(ranked)
    figures = {**cut, "mean": statistics.fmean(ranked), "max": ranked[-1]}
    return {"count": len(ranked), **{name: round(1_000 * value, 4) for name, value in figures.items()}}


def machine() -> dict[str, Any]:
    """Describe the machine and what runs on it."""
    model = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return {
        "cpu": model or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def load() -> list[float]:
    """Return the load averages of the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def cache_dir() -> Path:
    """Return the directory for the peer's environment and loaded databases; they are made once."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = base / "hermes-mnemosyne-bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def source_hash() -> str:
    """Return sixteen hex digits over the engine's source files, the key of its loaded stores."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in {".py", ".sql"}:
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def peer_python() -> Path:
    """Return the interpreter of the peer's own environment, installing the peer from the package index at first."""
    home = cache_dir() / f"peer-{PEER_VERSION}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{PEER}=={PEER_VERSION}"], check=True
        )
        (home / "ready").touch()
    return python


def clean_environment(home: Path, **extra: str) -> dict[str, str]:
    """Return an environment in which every file lands under `home` and nothing of the user's settings counts.

    No embedder, as the peer has none, unless `extra` or a program's own settings name one.
    """
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "HERMES_HOME": str(home / ".hermes"),
        "PYTHONHASHSEED": "0",
        "MNEMOSYNE_EMBEDDER": "none",
        **extra,
    }


def peer_environment(home: Path, *, keep_all: bool = False) -> dict[str, str]:
    """Return the peer's environment: keyword search only, no model; `keep_all` lifts the limit above which it deletes rows."""
    extra = {"MNEMOSYNE_NO_EMBEDDINGS": "1", "MNEMOSYNE_LLM_ENABLED": "false", "MNEMOSYNE_DATA_DIR": str(home / "data")}
    if keep_all:
        extra["MNEMOSYNE_WM_MAX_ITEMS"] = "10000000"
    return clean_environment(home, **extra)


class DriverError(RuntimeError):
    """A driver process ended; its last lines of stderr are in the message."""


class Driver:
    """A driver process, answering one call at a time."""

    def __init__(self, python: Path | str, script: Path, environment: Mapping[str, str]) -> None:
        """Start the process."""
        self._errors = Path(environment["HOME"]) / f"{script.parent.name}-{script.stem}.stderr"
        with self._errors.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                [str(python), str(script)],
                env=dict(environment),
                cwd=environment["HOME"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
            )
        self._calls, self._answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)

    def send(self, call: str, **arguments: Any) -> None:
        """Start a call without waiting for its answer."""
        try:
            self._calls.write(json.dumps({"call": call, **arguments}) + "\n")
            self._calls.flush()
        except BrokenPipeError as error:
            raise self._ended() from error

    def receive(self) -> Any:
        """Wait for the answer of the call that was sent."""
        line = self._answers.readline()
        if not line:
            raise self._ended()
        return json.loads(line)["result"]

    def call(self, call: str, **arguments: Any) -> Any:
        """Make a call and return its result."""
        self.send(call, **arguments)
        return self.receive()

    def stop(self) -> None:
        """Close stdin and wait for the end of the process, unless it has ended."""
        if self._process.poll() is None:
            self._process.communicate(timeout=60)

    def kill(self) -> None:
        """End the process at once, as kill -9 does."""
        self._process.kill()
        self._process.wait()

    def _ended(self) -> DriverError:
        code = self._process.wait()
        tail = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
        return DriverError(f"driver ended with {code}: " + " | ".join(tail))


@contextlib.contextmanager
def engine_driver(home: Path) -> Iterator[Driver]:
    """Run a driver of this project's engine."""
    driver = Driver(sys.executable, ROOT / "benchmarks" / "engine_driver.py", clean_environment(home))
    try:
        yield driver
    finally:
        driver.stop()


@contextlib.contextmanager
def peer_driver(home: Path, *, keep_all: bool = False) -> Iterator[Driver]:
    """Run a driver of the peer."""
    driver = Driver(peer_python(), ROOT / "benchmarks" / "peer" / "driver.py", peer_environment(home, keep_all=keep_all))
    try:
        yield driver
    finally:
        driver.stop()


def drop_page_cache(directory: Path) -> None:
    """Ask the system to forget the cached pages of every file below `directory`, so that the next read is cold."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Cut a sequence into pieces of at most `size`."""
    return (items[start : start + size] for start in range(0, len(items), size))


def table(verdicts: Sequence[Verdict]) -> str:
    """Return verdicts as a text table."""
    rows = [("figure", "value", "limit", "kind", "verdict")]
    rows += [(v.name, "missing" if v.value is None else f"{v.value:.4g}", v.limit, v.kind, v.word) for v in verdicts]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def verdicts_json(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return verdicts as JSON-ready objects."""
    return [{**asdict(verdict), "verdict": verdict.word} for verdict in verdicts]


def concluded(
    out: Path, facts: Mapping[str, Any], figures: Mapping[str, Any], verdicts: Sequence[Verdict], before: Sequence[float]
) -> int:
    """Write a run's result with the machine and its load since `before`, print the table, and return 1 when a gate is missed."""
    after = load()
    report = {
        **facts, "machine": machine(), "load_before": before, "load_after": after, "verdicts": verdicts_json(verdicts), "figures": figures,
    }  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(verdicts))
    print(f"\nload {before} -> {after}; written to {out}")
    return int(any(verdict.kind == "gate" and verdict.holds is False for verdict in verdicts))
