"""Worker processes that begin on a line of input, the lines they print, and the errors they die of."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def started(script: Path, *arguments: object, user: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process of `script` that waits for `begin`; it is killed in the end, and a failed test shows its errors."""
    command = [sys.executable, str(script), *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, user=user) as process:
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            show_errors(process)


def show_errors(process: subprocess.Popen[str]) -> None:
    """Repeat what nobody has read of the errors of a process that has ended; pytest shows it when the test fails."""
    if process.stderr is None or process.stderr.closed:
        return
    # A child of the process may live on and keep the pipe open.
    os.set_blocking(process.stderr.fileno(), False)
    with contextlib.suppress(BlockingIOError):
        if left := os.read(process.stderr.fileno(), 1_000_000).decode(errors="replace"):
            sys.stderr.write(f"process {process.pid} ended with {process.returncode}:\n{left}\n")


def begin(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def lines_of(process: subprocess.Popen[str], most: int | None = None) -> list[str]:
    """Return the next lines; a line that a killed process did not finish is none."""
    assert process.stdout is not None
    lines: list[str] = []
    while most is None or len(lines) < most:
        line = process.stdout.readline()
        if not line.endswith("\n"):
            break
        lines.append(line.strip())
    return lines
