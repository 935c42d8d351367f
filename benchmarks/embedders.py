"""Stores with a chosen embedder: what benchmarks of retrieval open, through the public interface."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hermes_mnemosyne import Memory, MnemosyneError
from hermes_mnemosyne.settings import KEYS, resolve

WORDS = "none"
HELP = "none (words alone), auto, endpoint, packaged, the name of packaged weights, or a model directory; default: %(default)s"


@dataclass(frozen=True, slots=True)
class System:
    """What is measured: the embedder asked for, and the name under which results are printed."""

    embedder: str
    name: str


LEXICAL = System(WORDS, "words alone")


def open_memory(store: Path | str, theme: str, embedder: str) -> Memory:
    """Return a memory in a file or, by its DSN, in a Postgres; its embedder is a value of the setting, or a model directory."""
    known = next(key.choices for key in KEYS if key.name == "embedder")
    chosen = {"embedder": embedder} if embedder in known else {"embedder": "directory", "embed_dir": embedder}
    if isinstance(store, str):
        settings = resolve(flags={"dsn": store, **chosen}, provider="pgvector", strict=True).settings
    else:
        settings = resolve(flags={"db": store, **chosen}, strict=True).settings
    return Memory.open(store, theme=theme, settings=settings)


def embed_all(memory: Memory, embedder: str) -> None:
    """Wait until every row that should have a vector has one; nothing to do for words alone."""
    if embedder != WORDS:
        memory.embed_pending()


def usable(embedder: str) -> System:
    """Return the system of an embedder, named after its model. Raises MnemosyneError when it cannot be used here."""
    if embedder == WORDS:
        return LEXICAL
    with (
        tempfile.TemporaryDirectory(prefix="mnemosyne-probe-") as directory,
        open_memory(Path(directory) / "probe.db", "probe", embedder) as memory,
    ):
        memory.remember("A text to see whether the model answers.")
        embed_all(memory, embedder)
        return System(embedder, f"words and {memory.stats()['embedding']['embedder']}")


def chosen(embedder: str) -> System:
    """Return the system of an embedder; `auto` is words alone, and the reason is printed, where there is nothing else.

    Raises SystemExit when an embedder was named that cannot be used.
    """
    try:
        return usable(embedder)
    except MnemosyneError as error:
        if embedder != "auto":
            raise SystemExit(f"--embedder {embedder}: {error}") from error
        print(f"{LEXICAL.name}: {error}")
        return LEXICAL


def available() -> list[System]:
    """Return words alone and every model that the settings and the installed packages offer, each once."""
    names = next(key.choices for key in KEYS if key.name == "embedder")
    found: dict[str, System] = {LEXICAL.name: LEXICAL}
    for name in names:
        with contextlib.suppress(MnemosyneError):
            system = usable(name)
            found.setdefault(system.name, system)
    return list(found.values())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every benchmark of retrieval has."""
    parser.add_argument("--embedder", default="auto", help=HELP)
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the values of every question there")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="print the paired difference to a run saved before")
