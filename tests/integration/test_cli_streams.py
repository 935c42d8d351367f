"""The command line without standard streams, and with ones that cannot be written."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from tests.integration.command import COMMAND, Store, mnemosyne, process

# Closed before the interpreter starts, as `command >&-` in a shell does; then the interpreter has no stream at all.
CLOSING = "import os, sys; os.closerange(int(sys.argv[1]), int(sys.argv[2])); os.execv(sys.executable, sys.argv[3:])"
ANSWERS = [
    ("recall", "river"),
    ("list",),
    ("list", "--json"),
    ("stats",),
    ("doctor",),
    ("config", "show"),
    ("spool",),
    ("--version",),
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "m.db")
    made.add("The river is called Inn")
    return made


def without(streams: range, store: Store, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    closing = [sys.executable, "-c", CLOSING, str(streams.start), str(streams.stop)]
    return subprocess.run([*closing, *COMMAND, "--db", str(store.path), *arguments], capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("arguments", [("remember", "-"), ("recall", "-"), ("import", "-"), ("edit", "x", "-")], ids=" ".join)
def test_reading_from_a_standard_input_that_is_not_there_is_a_usage_error_in_one_line(
    store: Store, arguments: tuple[str, ...]
) -> None:
    done = without(range(1), store, *arguments)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"standard input" in done.stderr


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_an_answer_without_a_standard_output_is_no_failure(store: Store, arguments: tuple[str, ...]) -> None:
    done = without(range(1, 2), store, *arguments)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_text_is_stored_without_any_standard_stream(store: Store) -> None:
    assert without(range(3), store, "remember", "The lake is called Achensee").returncode == 0
    assert len(store.found("lake")) == 1
    assert store("doctor").code == 0


def test_an_export_without_a_standard_output_fails_instead_of_losing_the_data(store: Store, tmp_path: Path) -> None:
    done = without(range(1, 2), store, "export")
    assert done.returncode == 1
    assert b"standard output" in done.stderr
    assert without(range(1, 2), store, "export", str(tmp_path / "out.jsonl")).returncode == 0
    assert (tmp_path / "out.jsonl").stat().st_size


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_a_full_output_is_one_line_whatever_is_printed(store: Store, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "--db", str(store.path), *arguments], stdout=full, stderr=subprocess.PIPE, check=False, env=os.environ
        )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr


def test_an_interrupt_while_the_arguments_are_read_is_one_line() -> None:
    with mock.patch("hermes_mnemosyne.cli.build_parser", side_effect=KeyboardInterrupt):
        done = mnemosyne("list")
    assert done.code == 130
    assert done.err.count("\n") == 1


def test_a_write_that_waits_for_a_newer_release_says_so_once(store: Store) -> None:
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute(
            "INSERT INTO migrations SELECT 9999, '9999_later.sql', checksum, 9999, state, applied_at, '99.0' FROM migrations LIMIT 1"
        )
    done = process("--db", str(store.path), "remember", "The lake is called Achensee", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "queued"
    assert done.stderr == b""
    refused = process("--db", str(store.path), "list")
    assert (refused.returncode, refused.stderr.count(b"\n")) == (1, 1)
    assert b"upgrade" in refused.stderr
