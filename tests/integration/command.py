"""Runs the command line: in this process for speed, as a process of its own where pipes, locales or signals matter."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

COMMAND = (sys.executable, "-m", "hermes_mnemosyne")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def mnemosyne(*arguments: str, stdin: bytes = b"", terminal: bool = False) -> Result:
    """Run a command in this process."""
    from hermes_mnemosyne.cli import main

    out, err = (Terminal() if terminal else io.StringIO()), io.StringIO()
    source = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    with mock.patch("sys.stdin", source), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    assert "Traceback" not in err.getvalue()
    assert all(line.startswith("mnemosyne: ") for line in err.getvalue().splitlines()), err.getvalue()
    return Result(code, out.getvalue(), err.getvalue())


def process(
    *arguments: str | bytes, stdin: bytes = b"", environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a process of its own."""
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, check=False, timeout=60, env={**os.environ, **(environ or {})}
    )


class Store:
    """Commands on one database file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, *arguments: str, stdin: bytes = b"", terminal: bool = False) -> Result:
        return mnemosyne("--db", str(self.path), *arguments, stdin=stdin, terminal=terminal)

    def add(self, text: str, *options: str) -> str:
        done = self("remember", "--json", *options, "--", text)
        assert done.code == 0, done.err
        uid: str = done.json["uid"]
        return uid

    def found(self, *query: str) -> list[str]:
        return [hit["uid"] for hit in self("recall", "--json", *query).json["hits"]]
