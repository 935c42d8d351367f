"""Loaded stores of both systems, made once per corpus and kept in the benchmark's cache."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.corpus import MAIN_THEME, Corpus, Row
from benchmarks.harness import PEER_VERSION, Driver, Times, cache_dir, chunks, engine_driver, peer_driver, source_hash

# Rows of the big theme between two visits to the small ones.
_STEP = 500
_PEER_BATCH = 500


@dataclass(frozen=True, slots=True)
class Loaded:
    """A home directory with a loaded store; `numbers` maps the system's ids to row numbers of the corpus."""

    home: Path
    numbers: dict[str, int]
    facts: dict[str, Any]

    @property
    def store(self) -> Path:
        """Return the database file."""
        return self.home / "store" / "mnemosyne.db"

    def copy_to(self, home: Path) -> Loaded:
        """Return a copy below `home`, so that reads which write leave the kept store as it was."""
        shutil.copytree(self.home, home)
        return Loaded(home, self.numbers, self.facts)


def engine_store(corpus: Corpus) -> Loaded:
    """Return this project's store holding every theme of a corpus, written row by row; those of other sources are deleted."""
    kept = cache_dir() / "engine" / corpus.fingerprint
    current = kept / source_hash()
    for old in kept.iterdir() if kept.exists() else ():
        if old != current:
            shutil.rmtree(old)
    return _kept(current, corpus, _load_engine)


def peer_store(corpus: Corpus) -> Loaded:
    """Return the peer's store holding the big theme, loaded by its batch interface: one by one would take hours."""
    return _kept(cache_dir() / f"peer-{PEER_VERSION}-stores" / corpus.fingerprint, corpus, _load_peer)


def _kept(home: Path, corpus: Corpus, load: Any) -> Loaded:
    record = home / "loaded.json"
    if not record.exists():
        shutil.rmtree(home, ignore_errors=True)
        (home / "store").mkdir(parents=True)
        numbers, facts = load(corpus, home)
        record.write_text(json.dumps({"numbers": numbers, "facts": facts}), encoding="utf-8")
    kept = json.loads(record.read_text(encoding="utf-8"))
    return Loaded(home, kept["numbers"], kept["facts"])


def _load_engine(corpus: Corpus, home: Path) -> tuple[dict[str, int], dict[str, Any]]:
    numbers: dict[str, int] = {}
    times = Times()
    others = list(corpus.others())
    start = time.monotonic()
    with engine_driver(home) as driver:
        driver.call("open", path=str(home / "store" / "mnemosyne.db"))
        for step, rows in enumerate(chunks(list(corpus.main()), _STEP)):
            times.add(_write(driver, rows, MAIN_THEME, numbers))
            by_theme: dict[str, list[Row]] = defaultdict(list)
            for row in others[step * _STEP // 2 : (step + 1) * _STEP // 2]:
                by_theme[row.theme].append(row)
            for theme, some in by_theme.items():
                _write(driver, some, theme, numbers)
            _progress("engine", len(numbers), start)
        driver.call("close")
    return numbers, {
        "rows": len(numbers),
        "rows_in_the_big_theme": corpus.size,
        "load_seconds": round(time.monotonic() - start, 1),
        "file_mib": _file_mib(home),
        "write_ms_by_rows_in_the_big_theme": write_windows(times),
    }


def _write(driver: Driver, rows: Any, theme: str, numbers: dict[str, int]) -> dict[str, list[float]]:
    answer = driver.call("remember", texts=[row.text for row in rows], theme=theme)
    numbers.update(zip(answer["ids"], (row.number for row in rows), strict=True))
    times: dict[str, list[float]] = answer["times"]
    return times


def write_windows(times: Times) -> dict[str, dict[str, float]]:
    """Return the cost of a write around each size on the way: the last tenth, at most 1,000 writes, before each mark."""
    marks = [mark for mark in (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000) if mark <= len(times.wall)]
    return {str(mark): times.figures(range(mark - min(1_000, mark // 2), mark)) for mark in marks}


def _load_peer(corpus: Corpus, home: Path) -> tuple[dict[str, int], dict[str, Any]]:
    numbers: dict[str, int] = {}
    start = time.monotonic()
    with peer_driver(home, keep_all=True) as driver:
        driver.call("open", path=str(home / "store" / "mnemosyne.db"))
        for rows in chunks(list(corpus.main()), _PEER_BATCH):
            ids = driver.call("bulk", texts=[row.text for row in rows])
            numbers.update(zip(ids, (row.number for row in rows), strict=True))
            _progress("peer", len(numbers), start)
    return numbers, {
        "rows": len(numbers),
        "load_seconds": round(time.monotonic() - start, 1),
        "file_mib": _file_mib(home),
        "loaded_by": f"beam.remember_batch, {_PEER_BATCH} rows a call, MNEMOSYNE_WM_MAX_ITEMS raised so that no row is deleted",
    }


def _file_mib(home: Path) -> float:
    return round(sum(path.stat().st_size for path in (home / "store").iterdir() if path.is_file()) / 2**20, 1)


def _progress(name: str, rows: int, start: float) -> None:
    if sys.stderr.isatty() or rows % 10_000 == 0:
        sys.stderr.write(f"{name}: {rows:,} rows, {time.monotonic() - start:.0f} s\n")
