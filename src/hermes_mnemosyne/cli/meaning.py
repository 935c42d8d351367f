"""Commands that give memories their vectors: backfill and reembed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import EmbeddingError, InvalidInput
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, number_between, opened
from hermes_mnemosyne.cli.output import Output, Progress, complain, one_line

if TYPE_CHECKING:
    from hermes_mnemosyne.backfill import Progress as Done
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.store.protocol import VectorCounts


_EMBEDDER = {
    "embed_url": ("URL", "its base URL"),
    "embed_model": ("NAME", "the model to ask for"),
    "embed_dim": ("N", "length of its vectors"),
    "embed_api_key_env": ("VARIABLE", "NAME of the variable that holds its token"),
    "embed_protocol": ("", "how to speak with it"),
}
_AT_ONCE, _MOST_AT_ONCE = 100, 10_000


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    backfill = add_command(
        commands,
        "backfill",
        _backfill,
        help="give every memory its vector that waits for one, as the background worker does",
        example="mnemosyne backfill --dry-run",
    )
    backfill.add_argument("--dry-run", action="store_true", help="only print how the memories stand")
    backfill.add_argument("--include-excluded", action="store_true", help="embed also what was left out by a setting")
    backfill.add_argument(
        "--tables", metavar="A,B", help="of a Postgres: only memory_entries, or only conversations (default: both)"
    )
    backfill.add_argument(
        "--batch-size", type=number_between(1, _MOST_AT_ONCE), metavar="N", help="of a Postgres: rows per step (default: 100)"
    )
    _embedder(backfill)
    reembed = add_command(
        commands,
        "reembed",
        _reembed,
        help="change the store's embedding model to the one that is configured; until it is done the old vectors are used",
        example="mnemosyne reembed",
    )
    reembed.add_argument(
        "--admin-dsn",
        metavar="DSN",
        help="of a Postgres: then also make the vector indexes, as the owner of its tables ('maintain')",
    )
    _embedder(reembed)


def _embedder(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the embedding endpoint, where it is another than the settings say")
    for name, (placeholder, words) in _EMBEDDER.items():
        choices = ("auto", "openai", "ollama") if name == "embed_protocol" else None
        option = f"--{name.replace('_', '-')}"
        group.add_argument(
            option, dest=f"mnemosyne_{name}", metavar=None if choices else placeholder, choices=choices, help=words
        )


def _with_embedder(args: argparse.Namespace) -> None:
    """Let the options of the endpoint count as settings."""
    args.mnemosyne_settings = {name: getattr(args, f"mnemosyne_{name}") for name in _EMBEDDER}


def _backfill(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.maintenance import tables_of

    _with_embedder(args)
    tables = tables_of(args.tables)
    with opened(args, out) as memory:
        is_server = memory.engine.place.is_server
        if args.dry_run:
            _print_figures(memory, out)
            return Exit.DONE
        if not is_server and (args.tables or args.batch_size):
            raise InvalidInput(
                "--tables and --batch-size are for a Postgres database: name one with --db postgresql://... or --dsn"
            )
        # The embedder is asked once before a row is touched: one that is away is an error, not work that was done in part.
        memory.engine.embedding.model()
        if is_server:
            return _backfill_tables(memory, tables, args, out)
        return _run(lambda report: memory.embed_pending(include_excluded=args.include_excluded, report=report), memory, out)


def _backfill_tables(memory: Memory, tables: Sequence[str], args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.maintenance import Backfilling, backfill

    progress = Progress("memories embedded")
    counted = _Counted(progress)
    done = backfill(
        memory, Backfilling(tables, args.batch_size or _AT_ONCE, include_excluded=args.include_excluded), report=counted.report
    )
    progress.end()
    if out.json_mode:
        counts = asdict(done.counts) if done.counts else memory.engine.embedding_figures()
        out.json({**done.tables, "embedded": counted.embedded, **counts})
    else:
        for table, figures in done.tables.items():
            out.line(f"{table}: " + ", ".join(f"{count} {name}" for name, count in figures.items()))
    if done.stopped:
        complain(one_line(done.stopped))
    return Exit.PARTLY if done.stopped or any(figures["remaining"] for figures in done.tables.values()) else Exit.DONE


def _reembed(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.maintenance import demand_database, maintain, settle_dimension

    if args.admin_dsn is not None:
        # To be told at the end of hours would be late.
        demand_database(args.admin_dsn)
    _with_embedder(args)
    with opened(args, out) as memory:
        is_server = memory.engine.place.is_server
        if args.admin_dsn and not is_server:
            raise InvalidInput("--admin-dsn is for a Postgres database: name one with --db postgresql://... or --dsn")
        memory.engine.embedding.probes()
        code = _run(lambda report: memory.reembed(report=report), memory, out, beside_writers=is_server)
        if is_server:
            settle_dimension(memory)
    if args.admin_dsn:
        maintain(args.admin_dsn)
    return code


class _Counted:
    """Shows how far a run is and remembers what it has embedded."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._round: Done | None = None
        self._before = self.embedded = 0

    def report(self, done: Done) -> None:
        """Take in what a run has done so far; it may begin anew to catch up with those who write."""
        if done is not self._round:
            self._round, self._before = done, self.embedded
        self._progress.step(self._before + done.embedded - self.embedded)
        self.embedded = self._before + done.embedded


def _run(
    work: Callable[[Callable[[Done], None]], VectorCounts], memory: Memory, out: Output, *, beside_writers: bool = False
) -> int:
    """Do the work and print how the rows stand; `beside_writers` those that others have written meanwhile are none of it."""
    progress = Progress("memories embedded")
    counted = _Counted(progress)
    try:
        counts = work(counted.report)
    except EmbeddingError as error:
        progress.end()
        complain(one_line(str(error)))
        _print_figures(memory, out)
        return Exit.PARTLY
    progress.end()
    _print_counts(counts, counted.embedded, out)
    return Exit.PARTLY if (counts.retrying if beside_writers else counts.pending) else Exit.DONE


def _print_counts(counts: VectorCounts, embedded: int, out: Output) -> None:
    if out.json_mode:
        out.json({"embedded": embedded, **asdict(counts)})
        return
    out.line(f"{embedded} embedded; {sentence(asdict(counts))}")


def _print_figures(memory: Memory, out: Output) -> None:
    figures = memory.engine.embedding_figures()
    if out.json_mode:
        out.json(figures)
        return
    out.line(f"embedder: {one_line(figures['embedder'] or 'none')} ({one_line(figures['why'])})")
    if figures["problem"]:
        out.line(out.style(one_line(figures["problem"]), "yellow"))
    out.line(sentence(figures))


def sentence(figures: Mapping[str, Any]) -> str:
    """Return how the memories stand as one line."""
    parts = [f"{figures['stored']} have a vector", f"{figures['pending']} wait for one"]
    names = {
        "retrying": "of these failed and are tried again",
        "excluded": "are left out by setting",
        "unembeddable": "cannot be embedded",
        "cut": "are longer than the model sees",
    }
    return ", ".join(parts + [f"{figures[name]} {words}" for name, words in names.items() if figures[name]])
