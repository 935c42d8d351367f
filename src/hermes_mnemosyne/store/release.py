"""Which release is running, for the ledgers of migrations."""

from __future__ import annotations


def release() -> str:
    """Return the release that is running."""
    # Imported here: it costs more than opening a store, and only a migration needs it.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hermes-mnemosyne")
    except PackageNotFoundError:
        return "unknown"
