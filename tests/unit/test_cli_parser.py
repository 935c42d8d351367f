"""The parser of the command line, alone and inside another program."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from hermes_mnemosyne.cli import add_subcommands, build_parser, run


def hosted() -> argparse.ArgumentParser:
    """Return a program that carries the commands under a word of its own, as the host does."""
    parser = argparse.ArgumentParser(prog="hermes")
    parser.add_argument("--config", default="the host's own")
    commands = parser.add_subparsers(dest="command")
    mounted = commands.add_parser("mnemosyne")
    add_subcommands(mounted)
    mounted.set_defaults(func=run)
    return parser


def test_the_commands_run_inside_another_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = str(tmp_path / "m.db")
    for words in (["remember", "The boat is called Perelandra"], ["recall", "boat"], ["status"]):
        args = hosted().parse_args(["mnemosyne", *words, "--db", db])
        assert args.command == "mnemosyne"
        assert args.func(args) == 0
    said = capsys.readouterr().out
    assert "Perelandra" in said
    assert db in said


def test_the_other_program_without_a_command_of_ours_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    args = hosted().parse_args(["mnemosyne"])
    assert args.func(args) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_help_inside_another_program_names_that_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        hosted().parse_args(["mnemosyne", "recall", "--help"])
    assert "usage: hermes mnemosyne recall" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--theme", "a", "list", "--theme", "b"], ["list", "--theme", "b"]])
def test_the_option_after_the_command_counts(words: list[str]) -> None:
    assert build_parser().parse_args(words).mnemosyne_theme == "b"


def test_options_are_never_guessed_from_their_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        build_parser().parse_args(["list", "--them", "x"])
    assert stop.value.code == 2
    assert "--them" in capsys.readouterr().err
