"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.environments import ROOT
from tests.integration.command import mnemosyne

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[list[str]]:
    return [shlex.split(line.removeprefix("$ ")) for line in block.splitlines() if line.startswith("$ ")]


def test_the_commands_of_a_first_look_work_in_order(home: Path) -> None:
    first, *_ = blocks("console")
    said = ""
    for words in commands(first):
        if words[0] == "mnemosyne":
            done = mnemosyne(*words[1:])
            assert done.code == 0, (words, done.err)
            said += done.out
    assert "5433" in said
    assert str(home) in said


def test_the_commands_for_hermes_are_those_that_install_names(home: Path) -> None:
    (home / ".hermes").mkdir()
    [install, setup] = commands(blocks("console")[1])
    done = mnemosyne(*install[1:])
    assert done.code == 0, done.err
    assert shlex.join(setup) in done.out


@pytest.mark.parametrize("program", blocks("python"))
def test_the_programs_run_and_print(program: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Momo" in done.stdout


def test_it_fits_on_one_screen() -> None:
    assert len(README.splitlines()) <= 80
