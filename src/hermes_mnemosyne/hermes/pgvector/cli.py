"""`hermes pgvector ...`: the host executes this file at every start, without the package around it, so it imports nothing of ours."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path


def register_cli(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands to the host's parser, for the database of the provider `pgvector`."""
    _reach_package()
    from hermes_mnemosyne.cli import add_subcommands

    add_subcommands(parser)
    parser.set_defaults(mnemosyne_provider="pgvector")


def pgvector_command(args: argparse.Namespace) -> None:
    """Run a subcommand; the host ignores what a handler returns, so a failure leaves as the process's exit code."""
    _reach_package()
    from hermes_mnemosyne.cli import run

    code = run(args)
    if code:
        sys.exit(code)


def _reach_package() -> None:
    """Let a linked directory find its own package: last on the path, so that the host's versions win."""
    if find_spec("hermes_mnemosyne") is None:
        sys.path.append(str(Path(__file__).resolve().parents[3]))
