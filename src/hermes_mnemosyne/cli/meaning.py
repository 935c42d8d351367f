"""Commands that give memories their vectors: backfill and reembed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import EmbeddingError
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, opened
from hermes_mnemosyne.cli.output import Output, Progress, complain, one_line

if TYPE_CHECKING:
    from hermes_mnemosyne.backfill import Progress as Done
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.store.protocol import VectorCounts


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
    add_command(
        commands,
        "reembed",
        _reembed,
        help="change the store's embedding model to the one that is configured; until it is done the old vectors are used",
        example="mnemosyne reembed",
    )


def _backfill(args: argparse.Namespace, out: Output) -> int:
    with opened(args, out) as memory:
        if args.dry_run:
            _print_figures(memory, out)
            return Exit.DONE
        # The embedder is asked once before a row is touched: one that is away is an error, not work that was done in part.
        memory.engine.embedding.model()
        return _run(lambda report: memory.embed_pending(include_excluded=args.include_excluded, report=report), memory, out)


def _reembed(args: argparse.Namespace, out: Output) -> int:
    with opened(args, out) as memory:
        memory.engine.embedding.probes()
        return _run(lambda report: memory.reembed(report=report), memory, out)


def _run(work: Callable[[Callable[[Done], None]], VectorCounts], memory: Memory, out: Output) -> int:
    progress = Progress("memories embedded")
    seen = 0

    def report(done: Done) -> None:
        nonlocal seen
        progress.step(done.embedded - seen)
        seen = done.embedded

    try:
        counts = work(report)
    except EmbeddingError as error:
        progress.end()
        complain(one_line(str(error)))
        _print_figures(memory, out)
        return Exit.PARTLY
    progress.end()
    _print_counts(counts, seen, out)
    return Exit.PARTLY if counts.pending else Exit.DONE


def _print_counts(counts: VectorCounts, embedded: int, out: Output) -> None:
    if out.json_mode:
        out.json({"embedded": embedded, **asdict(counts)})
        return
    out.line(f"{embedded} embedded; {sentence(asdict(counts))}")


def _print_figures(memory: Memory, out: Output) -> None:
    figures = memory.stats()["embedding"]
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
