"""Named SQL statements as the stores keep them in `.sql` files, with conditions that are spelled in one place."""

from __future__ import annotations

import re
from collections.abc import Callable


def named(text: str) -> dict[str, str]:
    """Return the statements of a file by the name in their `-- name:` line."""
    parts = re.split(r"^-- name: *(\w+) *$", text, flags=re.MULTILINE)
    return {key: body.strip() for key, body in zip(parts[1::2], parts[2::2], strict=True)}


def expanded(text: str, read: Callable[[str], str]) -> str:
    """Put conditions in: `@passes(row)` stands for that in `passes.sql`, about this row, `@entry_passes` for that in its file."""
    text = re.sub(r"@(passes|lacks)\(([\w.]+)\)", lambda call: read(f"{call[1]}.sql").replace("@row", call[2]), text)
    return re.sub(r"@(entry_passes|turn_passes)\b", lambda call: f"({read(f'{call[1]}.sql')})", text)
