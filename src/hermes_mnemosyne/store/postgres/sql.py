"""Named SQL statements, read once from the `.sql` files beside this module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Self

from hermes_mnemosyne.store.named import expanded, named

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
    """Return the statements of `queries/<name>.sql` by name."""
    text = re.sub(r"^ *--(?! name:).*\n", "", expanded(_read(f"{name}.sql"), _read), flags=re.MULTILINE)
    return {key: Statement(body) for key, body in named(text).items()}
