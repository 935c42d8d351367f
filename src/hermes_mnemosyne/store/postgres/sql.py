"""Named SQL statements, read once from the `.sql` files beside this module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Self

_HERE = Path(__file__).parent / "queries"


class Statement(str):  # noqa: SLOT000 - text cannot have slots that are not empty
    """A statement with `$n` placeholders; `names` are its parameters in order where the file spells them `:name`.

    `copy` is the COPY that does the same for many rows, empty where there is none.
    """

    names: tuple[str, ...]
    copy: str

    def __new__(cls, text: str) -> Self:
        """Return the text with its named parameters numbered."""
        names: list[str] = []

        def number(found: re.Match[str]) -> str:
            if found[1] not in names:
                names.append(found[1])
            return f"${names.index(found[1]) + 1}"

        made = super().__new__(cls, re.sub(r"(?<![:\w]):([a-z_][a-z_0-9]*)", number, text))
        made.names = tuple(names)
        plain = re.fullmatch(r"INSERT INTO ([\w.]+ \([^()]*\))\s+VALUES \([$\d, \n]*\)", made)
        made.copy = f"COPY {plain[1]} FROM STDIN" if plain else ""
        return made


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


@cache
def statements(name: str) -> Mapping[str, Statement]:
    """Return the statements of `queries/<name>.sql` by the name in their `-- name:` line.

    `@passes(row)` stands for the condition in `passes.sql`, as do the other conditions for what is spelled in one place.
    """
    text = re.sub(r"^ *--(?! name:).*\n", "", _expanded(_read(f"{name}.sql")), flags=re.MULTILINE)
    parts = re.split(r"^-- name: *(\w+) *$", text, flags=re.MULTILINE)
    return {key: Statement(body.strip()) for key, body in zip(parts[1::2], parts[2::2], strict=True)}


def _expanded(text: str) -> str:
    """Put the conditions in; those with an argument stand for it as `@row`."""
    text = re.sub(r"@(passes)\(([\w.]+)\)", lambda call: _read(f"{call[1]}.sql").replace("@row", call[2]), text)
    return re.sub(r"@(entry_passes|turn_passes)\b", lambda call: f"({_read(f'{call[1]}.sql')})", text)
