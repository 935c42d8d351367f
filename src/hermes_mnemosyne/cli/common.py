"""What all subcommands share: options, the parser, exit codes, input, the opened memory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.cli.output import Output, complain
from hermes_mnemosyne.values import ALL_THEMES, DEFAULT_THEME

if TYPE_CHECKING:
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.settings import Effective

Handler = Callable[[argparse.Namespace, Output], int]
Commands = Any  # argparse keeps the type of add_subparsers() private

# As shells report a process that ended by SIGINT or SIGPIPE.
INTERRUPTED = 130
BROKEN_PIPE = 141
_HELP_WIDTH = 100


class Exit(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PARTLY = 3


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width: the same text everywhere, and no terminal is asked (that alone costs several imports)."""

    def __init__(self, prog: str) -> None:
        """Format the help of `prog`."""
        super().__init__(prog, max_help_position=28, width=_HELP_WIDTH)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line with the remedy, and which never guesses abbreviated options."""

    def __init__(self, **options: Any) -> None:
        """Take the options of argparse."""
        super().__init__(**{"formatter_class": HelpFormatter, "allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with the code for usage errors."""
        option, _, wrong = message.removeprefix("argument ").partition(": ")
        dashed = any(word.startswith("-") for word in message.removeprefix("unrecognized arguments: ").split())
        hint = "write -- before a text that begins with a dash, or " if dashed or "required" in message else ""
        if message.startswith("argument "):
            value = option.partition("/")[0]
            hint = f"write {value}=VALUE where the value begins with a dash, or " if wrong.startswith("expected") else ""
        complain(f"{message}: {hint}see '{self.prog} --help'")
        sys.exit(Exit.USAGE)


class VersionAction(argparse.Action):
    """Looks the version up only when it is asked for: reading package metadata is slow."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:  # noqa: A002  argparse names it
        """Declare the option without an argument."""
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the version and exit."""
        Output(sys.stdout, json_mode=False).line(f"{parser.prog} {version()}")
        parser.exit()


def version() -> str:
    """Return the version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("hermes-mnemosyne")
    except PackageNotFoundError:
        return "unknown (not installed)"


def common_options() -> argparse.ArgumentParser:
    """Return the parent parser of the options that every command takes, before or after its name.

    None has a default: a subcommand's default would overwrite what was given before its name. Their names in the namespace are
    our own: a program that carries the commands has a --config too.
    """
    parent = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS, formatter_class=HelpFormatter)
    group = parent.add_argument_group("common options")
    group.add_argument(
        "--db",
        dest="mnemosyne_db",
        metavar="PATH",
        help="the store, or postgresql://... (default: as 'mnemosyne config show' prints)",
    )
    group.add_argument("--dsn", dest="mnemosyne_dsn", metavar="DSN", help="the Postgres: a URL or libpq's key=value form")
    group.add_argument("--dsn-file", dest="mnemosyne_dsn_file", metavar="FILE", help="read the name of a Postgres from this file")
    group.add_argument(
        "--theme",
        dest="mnemosyne_theme",
        metavar="THEME",
        help=f"write to this theme (default {DEFAULT_THEME}) and read only it (default all)",
    )
    group.add_argument("--config", dest="mnemosyne_config", metavar="FILE", help="read settings from this YAML file")
    group.add_argument("--json", dest="mnemosyne_json", action="store_true", help="print JSON (docs/json.md)")
    return parent


def add_command(commands: Commands, name: str, handler: Handler, *, example: str, **options: Any) -> argparse.ArgumentParser:
    """Add one subcommand with the common options; `example` lines are shown below its help."""
    # The same commands belong to several programs.
    shown = "".join(f"\n  {line}" for line in example.replace(f"mnemosyne {name}", "%(prog)s").splitlines())
    options.setdefault("description", f"{options['help'][:1].upper()}{options['help'][1:]}.")
    parser: argparse.ArgumentParser = commands.add_parser(name, parents=[common_options()], epilog=f"example:{shown}", **options)
    parser.set_defaults(mnemosyne_handler=handler)
    return parser


def theme_of(args: argparse.Namespace) -> str | None:
    """Return the theme that was named, None when none was."""
    theme: str | None = getattr(args, "mnemosyne_theme", None)
    if theme is not None and not theme.strip():
        raise InvalidInput("the theme is blank: name one, or leave --theme out")
    return theme


@contextmanager
def opened(args: argparse.Namespace, out: Output, *, create: bool = False, existing: bool = False) -> Iterator[Memory]:
    """Open the memory that `args` name; on the way out the answer is flushed first, then due work is done.

    A store named with --db is made only by commands that bring something in (`create`): a mistyped name must not answer
    "nothing found". The default store is made by whichever command comes first, unless it must be `existing`.
    """
    import logging

    from hermes_mnemosyne.engine import Memory

    log = logging.getLogger("hermes_mnemosyne")
    if not log.handlers:
        # The answer tells what happened; a log that nobody configured would say it again on stderr, in other words.
        log.addHandler(logging.NullHandler())
    settings = effective_settings(args).settings
    theme = theme_of(args)
    named = any(getattr(args, name, None) is not None for name in ("mnemosyne_db", "mnemosyne_dsn", "mnemosyne_dsn_file"))
    memory = Memory.open(
        theme=theme or settings.theme,
        readable_themes=ALL_THEMES,
        settings=settings,
        create=not existing and (create or not named),
    )
    memory.engine.one_shot = True
    try:
        yield memory if theme is None else memory.within((theme,))
        out.flush()
    finally:
        memory.close()


def effective_settings(args: argparse.Namespace) -> Effective:
    """Return the settings that hold for `args`. Raises ConfigError, also for an unknown key."""
    import os

    from hermes_mnemosyne.dsn import is_dsn
    from hermes_mnemosyne.settings import resolve

    path, dsn = getattr(args, "mnemosyne_db", None), _dsn_of(args)
    if path is not None and not path.strip():
        raise InvalidInput("--db is empty: name a file, or leave the option out")
    if path is not None and dsn is not None:
        raise InvalidInput("--db and --dsn or --dsn-file both name a store: leave one out")
    provider = getattr(args, "mnemosyne_provider", "mnemosyne")
    if path is None and dsn is None and provider == "mnemosyne":
        path = os.environ.get("MNEMOSYNE_DB", "").strip() or None
        path = path if path is not None and is_dsn(path) else None
    if dsn is None and path is not None and is_dsn(path):
        path, dsn = None, path
    # Of a Postgres the settings are those of its provider.
    provider = "pgvector" if dsn is not None else "mnemosyne" if path is not None else provider
    flags = {"db": path, "dsn": dsn, "theme": theme_of(args), **getattr(args, "mnemosyne_settings", {})}
    return resolve(flags=flags, config_file=getattr(args, "mnemosyne_config", None), provider=provider, strict=True)


def _dsn_of(args: argparse.Namespace) -> str | None:
    """Return the DSN of `--dsn`, or that in the file of `--dsn-file`, where no list of processes shows its password."""
    name, given = getattr(args, "mnemosyne_dsn_file", None), getattr(args, "mnemosyne_dsn", None)
    if given is not None:
        if name is not None:
            raise InvalidInput("--dsn and --dsn-file both name a database: leave one out")
        if not given.strip():
            raise InvalidInput("--dsn is empty: name a database, or leave the option out")
        return str(given)
    if name is None:
        return None
    from pathlib import Path

    try:
        text = Path(name).expanduser().read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{name} cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'}): correct --dsn-file"
        ) from None
    if not text:
        raise InvalidInput(f"{name} is empty: write the database's dsn into it")
    return text


def text_of(value: str) -> str:
    """Return a text argument; `-` reads standard input, any bytes, without its last line end."""
    if value != "-":
        return value
    data = standard_input().read()
    text = data.decode("utf-8", "surrogateescape")
    return text.removesuffix("\n").removesuffix("\r")


def standard_input() -> BinaryIO:
    """Return the bytes of standard input. Raises InvalidInput when the process was started without one."""
    if sys.stdin is None:
        raise InvalidInput("there is no standard input to read '-' from: give the text or a file")
    return sys.stdin.buffer


def metadata_of(pairs: Sequence[str]) -> Mapping[str, Any]:
    """Return `KEY=VALUE` arguments as metadata; a value that is JSON is taken as such.

    Raises InvalidInput for an argument without a key.
    """
    import json

    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidInput(f"metadata is written KEY=VALUE, not {pair}")
        try:
            found[key.strip()] = json.loads(value, parse_constant=_no_number)
        except (ValueError, RecursionError):
            found[key.strip()] = value
    return found


def _no_number(name: str) -> Any:
    raise ValueError(name)


def number_between(low: int, high: int) -> Callable[[str], int]:
    """Return an argparse type for a whole number within bounds, both included."""

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{number} is not between {low} and {high}")
        return number

    return convert
