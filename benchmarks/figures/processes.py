"""Figure: several processes that write into one file at once."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.corpus import Corpus
from benchmarks.harness import DriverError, Times, Verdict, at_least, at_most, engine_driver

_PROCESSES, _WRITES = 8, 200


def processes(seed: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Start eight processes on one fresh file, let them write at once, and count what is stored."""
    texts = Corpus(0, seed).short(_PROCESSES * _WRITES)
    times = Times()
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        store = Path(directory) / "shared" / "mnemosyne.db"
        store.parent.mkdir()
        drivers = [stack.enter_context(engine_driver(Path(directory, f"p{number}"))) for number in range(_PROCESSES)]
        # All open the file at the same moment, so that making the schema is part of the contest.
        for driver in drivers:
            driver.send("open", path=str(store))
        for driver in drivers:
            driver.receive()
        for number, driver in enumerate(drivers):
            driver.send("remember", texts=texts[number * _WRITES : (number + 1) * _WRITES])
        for driver in drivers:
            try:
                times.add(driver.receive()["times"])
            except DriverError as error:
                errors.append(str(error))
        rows = drivers[0].call("count")
    figures = {"processes": _PROCESSES, "writes_each": _WRITES, "rows": rows, "errors": errors, **times.figures()}
    name = f"{_PROCESSES} processes x {_WRITES} writes"
    return figures, [
        at_least(f"{name}: rows", float(rows), _PROCESSES * _WRITES, ""),
        at_most(f"{name}: errors", float(len(errors)), 0, ""),
        Verdict(f"{name}: p99 of a write, ms", figures.get("p99"), "", "info", None),
    ]
