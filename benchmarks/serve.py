"""The loop of a benchmark driver: calls come in as JSON lines on stdin, answers go out as JSON lines on stdout.

Both systems are driven the same way, each by a process of its own interpreter and environment, and each call is timed in that
process around the call alone. Standard library only: it also runs in the peer's environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any


def timed(call: Callable[[Any], Any], items: Iterable[Any]) -> tuple[dict[str, list[float]], list[Any]]:
    """Return the seconds of each call, on the wall and of its thread's own processor time, and the results.

    Processor time tells what a call costs when other programs keep the machine busy; limits are held against the wall.
    """
    times: dict[str, list[float]] = {"wall": [], "cpu": []}
    results = []
    for item in items:
        wall, cpu = time.perf_counter(), time.thread_time()
        result = call(item)
        times["cpu"].append(time.thread_time() - cpu)
        times["wall"].append(time.perf_counter() - wall)
        results.append(result)
    return times, results


def serve(system: Any) -> None:
    """Answer calls `{"call": method, ...arguments}` with `{"result": ...}` until stdin ends.

    What the system prints goes to stderr; an exception ends the process, which the harness reports.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # stdin is a text file here
    for line in sys.stdin:
        arguments = json.loads(line)
        result = getattr(system, arguments.pop("call"))(**arguments)
        answers.write(json.dumps({"result": result}) + "\n")
        answers.flush()
