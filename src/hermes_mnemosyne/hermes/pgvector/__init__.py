"""The Hermes plugin directory of the provider `pgvector`: found by its mention of register_memory_provider and MemoryProvider.

As in the directory above it, every import is absolute and everything but the registration lies elsewhere.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def register(ctx: Any) -> None:
    """Give the host a new provider."""
    _reach_package()
    from hermes_mnemosyne.hermes.provider import MnemosyneProvider

    ctx.register_memory_provider(MnemosyneProvider("pgvector"))


def _reach_package() -> None:
    """Let a linked directory find its own package: last on the path, so that the host's versions win."""
    if find_spec("hermes_mnemosyne") is None:
        sys.path.append(str(Path(__file__).resolve().parents[3]))
