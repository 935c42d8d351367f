"""`hermes pgvector ...`: the host executes this file at every start, without the package around it, so it imports nothing of ours."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any


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


def register(ctx: Any) -> None:
    """Give the host a new provider, while it still loads the package around this file."""
    _reach_package()
    from hermes_mnemosyne.hermes.pgvector import register as give

    give(ctx)


def _reach_package() -> None:
    """Let a linked directory find its own package: last on the path, so that the host's versions win."""
    if find_spec("hermes_mnemosyne") is None:
        sys.path.append(str(Path(__file__).resolve().parents[3]))


# The host executes this file first, and takes a package that another of its threads is still loading, without `register`, for one
# that has no provider: the agent that begins then would have no memory.
if (_loading := sys.modules.get(__name__.rpartition(".")[0])) is not None:
    vars(_loading).setdefault("register", register)
