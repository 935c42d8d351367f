"""Mnemosyne: durable, searchable, private memory for AI agents.

`Memory.open()` is the way in; everything else here is a value that it takes or returns, or an error that it raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_mnemosyne._errors import InvalidInput, MnemosyneError, NotFound, StoreBusy, StoreError, StoreUnavailable
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.values import Change, Entry, Hit, RecallQuery, RecallResult, Receipt, Turn

__all__ = [
    "Change",
    "Entry",
    "Hit",
    "InvalidInput",
    "Memory",
    "MnemosyneError",
    "NotFound",
    "RecallQuery",
    "RecallResult",
    "Receipt",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
    "Turn",
]

_ERRORS = frozenset({"InvalidInput", "MnemosyneError", "NotFound", "StoreBusy", "StoreError", "StoreUnavailable"})


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that importing the package costs next to nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "_errors" if name in _ERRORS else "engine" if name == "Memory" else "values"
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
