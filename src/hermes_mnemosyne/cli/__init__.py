"""The commands `mnemosyne` and `hermes-pgvector`: thin, no SQL, no ranking.

`main` and `pgvector_main` are the console scripts; `add_subcommands` and `run` let another argparse program (the host's
`hermes mnemosyne ...`) carry the same commands.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from hermes_mnemosyne._errors import InvalidInput, MnemosyneError
from hermes_mnemosyne.cli import keys, maintenance, meaning, memories, moving, reading, setup, sync, sync_serve, upkeep
from hermes_mnemosyne.cli.common import BROKEN_PIPE, INTERRUPTED, Exit, Parser, VersionAction, common_options
from hermes_mnemosyne.cli.output import Output, complain

DESCRIPTION = "Durable, searchable, private memory for AI agents."
PGVECTOR_DESCRIPTION = "Maintenance of the memory that a fleet of agents shares in Postgres."
_HANDLER = "mnemosyne_handler"
_GROUPS = (memories, reading, moving, upkeep, meaning, maintenance, sync, sync_serve, keys, setup)
_PGVECTOR_GROUPS = (setup, maintenance, upkeep, meaning, sync)


def build_parser(prog: str = "mnemosyne") -> argparse.ArgumentParser:
    """Return the complete parser of the command."""
    parser = Parser(
        prog=prog,
        description=DESCRIPTION,
        parents=[common_options()],
        epilog=f"example:\n  {prog} remember 'The cat is called Momo'",
    )
    parser.add_argument("--version", action=VersionAction, help="print the version and exit")
    add_subcommands(parser)
    return parser


def build_pgvector_parser(prog: str = "hermes-pgvector") -> argparse.ArgumentParser:
    """Return the parser of the maintenance command, whose store is the one that `plugins.pgvector` names."""
    parser = Parser(
        prog=prog,
        description=PGVECTOR_DESCRIPTION,
        parents=[common_options()],
        epilog=f"example:\n  {prog} stats",
    )
    parser.add_argument("--version", action=VersionAction, help="print the version and exit")
    parser.set_defaults(mnemosyne_provider="pgvector")
    _add_groups(parser, _PGVECTOR_GROUPS)
    return parser


def add_subcommands(parser: argparse.ArgumentParser) -> None:
    """Add every subcommand to `parser`, which may belong to another program; `run` executes what it parsed."""
    _add_groups(parser, _GROUPS)


def _add_groups(parser: argparse.ArgumentParser, groups: Sequence[ModuleType]) -> None:
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", prog=parser.prog, parser_class=Parser, dest="mnemosyne_command"
    )
    for group in groups:
        group.register(commands)


def run(args: argparse.Namespace) -> int:
    """Execute parsed arguments and return the exit code; expected errors become one line on stderr."""
    handler = getattr(args, _HANDLER, None)
    if handler is None:
        complain("no command given: see --help")
        return Exit.USAGE
    out = Output(sys.stdout, json_mode=getattr(args, "mnemosyne_json", False))
    try:
        code = int(handler(args, out))
        out.flush()
    except MnemosyneError as error:
        out.flush_quietly()
        complain(str(error))
        return Exit.USAGE if isinstance(error, InvalidInput) else Exit.FAILED
    except OSError as error:
        return _failed_io(error)
    except KeyboardInterrupt:
        return _interrupted()
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with `argv` (default: of the process) and return its exit code."""
    return _main(build_parser, argv)


def pgvector_main(argv: Sequence[str] | None = None) -> int:
    """Run the maintenance command with `argv` (default: of the process) and return its exit code."""
    return _main(build_pgvector_parser, argv)


def _main(build: Callable[[], argparse.ArgumentParser], argv: Sequence[str] | None) -> int:
    try:
        args = build().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else Exit.USAGE
    except OSError as error:  # from printing the version
        return _failed_io(error)
    except KeyboardInterrupt:
        return _interrupted()
    return run(args)


def _interrupted() -> int:
    complain("interrupted: what was acknowledged is stored")
    return INTERRUPTED


def _failed_io(error: OSError) -> int:
    """Report what could not be read or written and return the exit code; a reader that went away is told nothing."""
    _detach_stdout()
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    complain(
        f"{error.filename or 'input or output'}: {error.strerror or error}: check the path, its permissions and the free space"
    )
    return Exit.FAILED


def _detach_stdout() -> None:
    """Point stdout to nowhere, so that the interpreter's last flush cannot fail again."""
    if sys.stdout is None:
        return
    try:
        stdout = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stdout)
    os.close(nowhere)
