"""Printing: tables on a terminal, plain lines in a pipe, JSON on request; one line per error."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_GAP = "  "
_DEFAULT_COLUMNS = 100
_SMALLEST_CELL = 12
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def visible(text: str) -> str:
    """Return `text` harmless to a terminal: control characters escaped, line ends kept."""
    from hermes_mnemosyne.text import printable

    return printable(text)


def one_line(text: str) -> str:
    """Return `text` as one harmless line: each run of white space becomes one blank."""
    return visible(" ".join(text.split()))


def json_text(value: Any) -> str:
    """Return `value` as one line of JSON in ASCII; lone surrogates become U+FFFD, so that every parser takes it."""
    import json

    return json.dumps(_sound(value), ensure_ascii=True, allow_nan=False)


def complain(message: str) -> None:
    """Print one line about what went wrong on stderr."""
    stream = sys.stderr
    if stream is not None:
        _write(stream, f"mnemosyne: {one_line(message)}\n")
        stream.flush()


def _sound(value: Any) -> Any:
    """Return JSON data without lone surrogates, in keys too."""
    if isinstance(value, str):
        return _SURROGATE.sub(_REPLACEMENT, value)
    if isinstance(value, Mapping):
        return {_sound(str(key)): _sound(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_sound(item) for item in value]
    return value


def _write(stream: TextIO, text: str) -> None:
    """Write text to a stream of any encoding; what it cannot hold is escaped."""
    text = _SURROGATE.sub(_REPLACEMENT, text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if encoding.lower().replace("-", "") != "utf8":
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)


def width_of(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def cut_to(text: str, columns: int) -> str:
    """Return `text` in at most `columns` columns, a cut marked by an ellipsis."""
    if width_of(text) <= columns:
        return text
    kept, used = [], 1
    for char in text:
        used += width_of(char)
        if used > columns:
            break
        kept.append(char)
    return "".join(kept) + "…"


class Output:
    """Where one command prints its answer."""

    def __init__(self, stream: TextIO | None, *, json_mode: bool) -> None:
        """Print to `stream`, None when the process was started without one; `json_mode` is for the command to ask."""
        self._missing = stream is None
        self._stream = io.StringIO() if stream is None else stream
        self.json_mode = json_mode
        self.terminal = bool(getattr(stream, "isatty", lambda: False)())
        self._coloured = self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def json(self, value: Any) -> None:
        """Print one JSON value on a line of its own."""
        self._stream.write(json_text(value) + "\n")

    def line(self, text: str = "") -> None:
        """Print one line (or several) of harmless text."""
        _write(self._stream, text + "\n")

    def utf8(self, text: str) -> None:
        """Print text as UTF-8 whatever the encoding of the stream is: for data, not for people. Raises OSError."""
        if self._missing:
            raise OSError(errno.EBADF, "there is no standard output")
        binary = getattr(self._stream, "buffer", None)
        if binary is None:
            self._stream.write(text)
        else:
            self._stream.flush()
            binary.write(text.encode())

    def style(self, text: str, name: str) -> str:
        """Return `text` in a style where the terminal shows styles."""
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if self._coloured else text

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print rows: aligned under headers on a terminal, else one line each, complete, cells two blanks apart.

        On a terminal the last column takes what is left of the width, a cut being marked.
        """
        cells = [[one_line(cell) for cell in row] for row in rows]
        if not self.terminal:
            for row in cells:
                self.line(_GAP.join(cell or "-" for cell in row))
            return
        widths = [max(width_of(row[column]) for row in [list(headers), *cells]) for column in range(len(headers))]
        room = max(self.columns() - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1), _SMALLEST_CELL)
        self.line(self.style(_aligned(headers, widths), "bold"))
        for row in cells:
            self.line(_aligned([*row[:-1], cut_to(row[-1], room)], widths))

    def block(self, text: str, indent: str = "   ") -> None:
        """Print a text of several lines, indented and harmless."""
        for part in visible(text).split("\n"):
            self.line(f"{indent}{part}".rstrip())

    def columns(self) -> int:
        """Return the width of the terminal."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _DEFAULT_COLUMNS
        except (OSError, ValueError):
            return _DEFAULT_COLUMNS

    def flush(self) -> None:
        """Hand everything printed to the system."""
        self._stream.flush()

    def flush_quietly(self) -> None:
        """Hand over what was printed before an error that is about to be reported."""
        try:
            self._stream.flush()
        except OSError:
            return


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * (width - width_of(cell)) for cell, width in zip(cells[:-1], widths[:-1], strict=True)]
    return _GAP.join([*padded, cells[-1]])


class Progress:
    """A counter on stderr for long work, shown only on a terminal."""

    _EVERY = 500

    def __init__(self, what: str) -> None:
        """Count `what`, such as `records written`."""
        self._what = what
        self._count = 0
        self._shown = False
        self._stream = sys.stderr
        self._terminal = bool(getattr(self._stream, "isatty", lambda: False)())

    def step(self, number: int = 1) -> None:
        """Count `number` more."""
        before, self._count = self._count, self._count + number
        if self._terminal and before // self._EVERY != self._count // self._EVERY:
            self._stream.write(f"\r{self._count} {self._what}")
            self._stream.flush()
            self._shown = True

    def end(self) -> None:
        """Take the counter off the terminal."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
