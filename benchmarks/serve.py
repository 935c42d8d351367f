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


def timed(call: Callable[[Any], Any], items: Iterable[Any]) -> tuple[list[float], list[Any]]:
    """Return the seconds and the result of `call` for each item."""
    seconds, results = [], []
    for item in items:
        start = time.perf_counter()
        result = call(item)
        seconds.append(time.perf_counter() - start)
        results.append(result)
    return seconds, results


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
