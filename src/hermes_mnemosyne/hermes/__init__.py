"""The Hermes plugin directory: a host finds it by its mention of register_memory_provider and MemoryProvider.

A host may execute this directory under a name of its own, from a link, with an interpreter that does not have Mnemosyne on its
path. So every import is absolute, and everything but the registration lies in the subpackage `provider`.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def register(ctx: Any) -> None:
    """Give the host a new provider."""
    _reach_package()
    from hermes_mnemosyne.hermes.provider import MnemosyneProvider

    ctx.register_memory_provider(MnemosyneProvider())


def _reach_package() -> None:
    """Let a linked directory find its own package: last on the path, so that the host's versions win."""
    if find_spec("hermes_mnemosyne") is None:
        sys.path.append(str(Path(__file__).resolve().parents[2]))
