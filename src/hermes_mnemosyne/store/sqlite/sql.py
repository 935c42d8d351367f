"""Named SQL statements, read once from the `.sql` files beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hermes_mnemosyne.store.named import expanded, named

# Not importlib.resources, which costs a command more to import than opening the store.
_HERE = Path(__file__).parent


def _read(name: str) -> str:
    return (_HERE / "queries" / name).read_text(encoding="utf-8")


@cache
def statements(name: str) -> dict[str, str]:
    """Return the statements of `queries/<name>.sql` by name."""
    return named(expanded(_read(f"{name}.sql"), _read))


@cache
def migrations() -> tuple[tuple[str, str], ...]:
    """Return (file name, SQL) of every migration in order."""
    return tuple((file.name, file.read_text(encoding="utf-8")) for file in sorted((_HERE / "migrations").glob("*.sql")))
