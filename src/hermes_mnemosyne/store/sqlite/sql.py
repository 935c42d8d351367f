"""Named SQL statements, read once from the `.sql` files beside this module."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def statements(name: str) -> dict[str, str]:
    """Return the statements of `queries/<name>.sql` by the name in their `-- name:` line."""
    text = (files(__package__) / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- name: *(\w+) *$", text, flags=re.MULTILINE)
    return {key: body.strip() for key, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def migrations() -> tuple[tuple[str, str], ...]:
    """Return (file name, SQL) of every migration in order."""
    folder = files(__package__) / "migrations"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return tuple((name, (folder / name).read_text(encoding="utf-8")) for name in names)
