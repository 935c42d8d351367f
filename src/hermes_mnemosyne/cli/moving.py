"""Commands that move memories: import, export."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, opened, standard_input
from hermes_mnemosyne.cli.output import Output, Progress, complain, visible
from hermes_mnemosyne.values import TARGETS, Target

if TYPE_CHECKING:
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.transfer import Report

_FORMATS = ("jsonl", "markdown")
_FILE_MODE = 0o600
_SHOWN_PROBLEMS = 20


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    reader = add_command(
        commands,
        "import",
        _import,
        help="store what a file holds: MEMORY.md, USER.md, or JSON lines (of 'export', or objects with a \"content\")",
        example="mnemosyne import ~/.hermes/memories/USER.md\n"
        "mnemosyne import memories.jsonl\n"
        "mnemosyne export --db a.db | mnemosyne import - --db b.db",
    )
    reader.add_argument("file", metavar="FILE", help="the file, '-' for standard input")
    reader.add_argument("--format", choices=_FORMATS, help="how to read it (default: .md is markdown, all else JSON lines)")
    reader.add_argument("--target", choices=TARGETS, help="for what names none (default: user for USER.md, else memory)")
    writer = add_command(
        commands,
        "export",
        _export,
        help="write every memory, turn, history line and tombstone as JSON lines, lossless and in a stable order",
        example="mnemosyne export memories.jsonl\nmnemosyne export | gzip > memories.jsonl.gz",
    )
    writer.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="the file (mode 0600, replaced as a whole), default standard output"
    )


# -- import ----------------------------------------------------------------------------------------------------------------------


def _import(args: argparse.Namespace, out: Output) -> int:
    path = Path(args.file)
    markdown = (args.format or ("markdown" if path.suffix.lower() == ".md" else "jsonl")) == "markdown"
    target: Target = args.target or ("user" if path.name.upper() == "USER.MD" else "memory")
    with _reading(args.file) as file, opened(args, out, create=True) as memory:
        report = (_import_markdown if markdown else _import_jsonl)(memory, file, path.name, target)
        _print_report(report, out)
    if not report.problems:
        return Exit.DONE
    return Exit.PARTLY if report.counts else Exit.FAILED


@contextmanager
def _reading(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield standard_input()
        return
    with Path(name).open("rb") as file:
        yield file


def _import_jsonl(memory: Memory, file: Iterable[bytes], name: str, target: Target) -> Report:
    from hermes_mnemosyne.transfer import Source, import_lines

    progress = Progress("lines read")
    try:
        return import_lines(memory, file, Source(name=name, target=target), step=progress.step)
    finally:
        progress.end()


def _import_markdown(memory: Memory, file: BinaryIO, name: str, target: Target) -> Report:
    from hermes_mnemosyne.mirror import parse
    from hermes_mnemosyne.transfer import Source, import_texts

    text = file.read().decode("utf-8", "surrogateescape")
    return import_texts(memory, parse(text), Source(name=name, target=target))


def _print_report(report: Report, out: Output) -> None:
    for problem in report.problems[:_SHOWN_PROBLEMS]:
        complain(f"line {problem.line}: {problem.reason}")
    if len(report.problems) > _SHOWN_PROBLEMS:
        complain(f"{len(report.problems) - _SHOWN_PROBLEMS} more lines could not be taken in: --json names them all")
    counts = dict(sorted(report.counts.items()))
    if out.json_mode:
        problems = [{"line": problem.line, "reason": problem.reason} for problem in report.problems]
        out.json({"read": report.read, "counts": counts, "failed": len(problems), "problems": problems})
    else:
        failed = [f"{len(report.problems)} failed"] if report.problems else []
        out.line(
            f"read {report.read}: " + ", ".join([*(f"{count} {word}" for word, count in counts.items()), *failed] or ["nothing"])
        )


# -- export ----------------------------------------------------------------------------------------------------------------------


def _export(args: argparse.Namespace, out: Output) -> int:
    with opened(args, out) as memory:
        lines = _lines(memory.export_records())
        if args.file == "-":
            for line in lines:
                out.utf8(line)
            return Exit.DONE
        path = Path(args.file)
        progress = Progress("records written")
        count = 0
        with _replacing(path, protected=memory.path) as file:
            for line in lines:
                file.write(line.encode())
                count += 1
                progress.step()
        progress.end()
        if out.json_mode:
            out.json({"file": str(path), "records": count})
        else:
            out.line(f"wrote {count} records to {visible(str(path))}")
    return Exit.DONE


def _lines(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    import json

    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
    return (encode(record) + "\n" for record in records)


@contextmanager
def _replacing(path: Path, *, protected: Path | None) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` only when it is complete and on disk; a device or pipe is written as it is."""
    import tempfile

    place = Path(os.path.realpath(path))
    if protected is not None and place.exists() and protected.exists() and place.samefile(protected):
        raise InvalidInput(f"{path} is the store itself: name another file")
    if place.exists() and not place.is_file():
        with place.open("wb") as file:
            yield file
        return
    handle, fresh = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), _FILE_MODE)
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(fresh).replace(place)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
