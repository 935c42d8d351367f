"""Named SQL statements, read once from the `.sql` files beside this module."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

# Not importlib.resources, which costs a command more to import than opening the store.
_HERE = Path(__file__).parent


def _read(name: str) -> str:
    return (_HERE / "queries" / name).read_text(encoding="utf-8")


@cache
def statements(name: str) -> dict[str, str]:
    """Return the statements of `queries/<name>.sql` by the name in their `-- name:` line.

    `@passes(row)` stands for the condition in `passes.sql`, as do the other conditions for what is spelled in one place.
    """
    text = _expanded(_read(f"{name}.sql"))
    parts = re.split(r"^-- name: *(\w+) *$", text, flags=re.MULTILINE)
    return {key: body.strip() for key, body in zip(parts[1::2], parts[2::2], strict=True)}


def _expanded(text: str) -> str:
    """Put the conditions in; those with an argument stand for it as `@row`."""
    text = re.sub(r"@(passes|lacks)\(([\w.]+)\)", lambda call: _read(f"{call[1]}.sql").replace("@row", call[2]), text)
    return re.sub(r"@(entry_passes|turn_passes)\b", lambda call: f"({_read(f'{call[1]}.sql')})", text)


@cache
def migrations() -> tuple[tuple[str, str], ...]:
    """Return (file name, SQL) of every migration in order."""
    return tuple((file.name, file.read_text(encoding="utf-8")) for file in sorted((_HERE / "migrations").glob("*.sql")))
