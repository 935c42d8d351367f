"""Stores with a chosen embedder: what benchmarks of retrieval open, through the public interface."""

from __future__ import annotations

import argparse
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


def open_memory(path: Path, theme: str, embedder: str) -> Memory:
    """Return a memory whose embedder is a value of the setting of this name, or a model directory."""
    known = next(key.choices for key in KEYS if key.name == "embedder")
    chosen = {"embedder": embedder} if embedder in known else {"embedder": "directory", "embed_dir": embedder}
    return Memory.open(path, theme=theme, settings=resolve(flags={"db": path, **chosen}, strict=True).settings)


def embed_all(memory: Memory, embedder: str) -> None:
    """Wait until every row that should have a vector has one; nothing to do for words alone."""
    if embedder != WORDS:
        memory.embed_pending()


def why_not(embedder: str) -> str | None:
    """Return why an embedder cannot be used here, None when it can."""
    with tempfile.TemporaryDirectory(prefix="mnemosyne-probe-") as directory:
        try:
            with open_memory(Path(directory) / "probe.db", "probe", embedder) as memory:
                memory.remember("A text to see whether the model answers.")
                embed_all(memory, embedder)
        except MnemosyneError as error:
            return str(error)
    return None


def chosen(embedder: str) -> System | None:
    """Return the system of an embedder; None, and the reason on the terminal, when it is words alone or `auto` finds none.

    Raises SystemExit when an embedder was named that cannot be used.
    """
    if embedder == WORDS:
        return None
    reason = why_not(embedder)
    if reason is None:
        return System(embedder, f"words and {embedder}")
    if embedder != "auto":
        raise SystemExit(f"--embedder {embedder}: {reason}")
    print(f"words alone: {reason}")
    return None


def available() -> list[System]:
    """Return words alone and every embedder that the settings and the installed packages offer, by its own name."""
    aliases = {WORDS, "auto", "packaged"}
    names = [name for key in KEYS if key.name == "embedder" for name in key.choices if name not in aliases]
    return [LEXICAL, *(System(name, f"words and {name}") for name in names if why_not(name) is None)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every benchmark of retrieval has."""
    parser.add_argument("--embedder", default="auto", help=HELP)
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the values of every question there")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="print the paired difference to a run saved before")
