"""The engines of this process: one per store and settings, made at first use, shared by everything that asks.

The table hangs on `sys`, so that a second copy of this module (a host may load the package under another name) finds the same one.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_mnemosyne.core import Engine
    from hermes_mnemosyne.settings import Settings
    from hermes_mnemosyne.stores import Place

_NAME = "_hermes_mnemosyne_engines"


class _Table:
    """Engines by (place, settings) with the number of open memories on each."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.engines: dict[tuple[str, Any], Engine] = {}
        self.users: dict[tuple[str, Any], int] = {}

    def renew(self) -> None:
        """Go on in a forked child: engines renew themselves, this lock may be held by a thread that is not there."""
        self.lock = threading.RLock()


def _table() -> _Table:
    known: _Table | None = getattr(sys, _NAME, None)
    if known is not None:
        return known
    made = _Table()
    # In one step, since several threads may be the first.
    known = vars(sys).setdefault(_NAME, made)
    if known is made:
        os.register_at_fork(after_in_child=made.renew)
        atexit.register(close_all)
    return known


def borrow(place: Place | Path, settings: Settings, *, create: bool = True) -> Engine:
    """Return the engine of a store, made now when there is none, and count one user more."""
    from hermes_mnemosyne.core import Engine
    from hermes_mnemosyne.stores import FilePlace

    if isinstance(place, Path):
        place = FilePlace(place)
    if place.file is not None:
        place = FilePlace(Path(place.key))

    table = _table()
    # By their text: another copy of the package has another class of settings.
    key = (place.key, (repr(settings), create))
    with table.lock:
        engine = table.engines.get(key)
        if engine is None:
            engine = table.engines[key] = Engine(place, settings, create=create)
        table.users[key] = table.users.get(key, 0) + 1
    return engine


def give_back(engine: Engine) -> None:
    """Count one user less and close the engine when none is left."""
    table = _table()
    with table.lock:
        for key, known in table.engines.items():
            if known is engine:
                table.users[key] -= 1
                if table.users[key] > 0:
                    return
                del table.engines[key], table.users[key]
                break
        else:
            return
    engine.close()


def close_all() -> None:
    """Close every engine, at the end of the process."""
    table = _table()
    with table.lock:
        engines = list(table.engines.values())
        table.engines.clear()
        table.users.clear()
    for engine in engines:
        engine.close()
