"""The command line on a machine whose clock is wrong, or whose pages are small.

    python sync_driver.py ARGUMENT...

`TEST_CLOCK_AHEAD` are the seconds by which this process's clock is ahead of the others, `TEST_PAGE_RECORDS` the records of a page.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from typing import Any

AHEAD = float(os.environ.get("TEST_CLOCK_AHEAD", "0"))
_time, _time_ns, _datetime = time.time, time.time_ns, dt.datetime


class _OfAnyKind(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, _datetime)


class _Elsewhen(_datetime, metaclass=_OfAnyKind):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _datetime.now(tz) + dt.timedelta(seconds=AHEAD)


def main() -> int:
    """Run a command."""
    if AHEAD:
        time.time = lambda: _time() + AHEAD
        time.time_ns = lambda: _time_ns() + int(AHEAD * 1e9)
        dt.datetime = _Elsewhen  # type: ignore[misc]
    if records := os.environ.get("TEST_PAGE_RECORDS"):
        from hermes_mnemosyne.sync import wire

        wire.PAGE_RECORDS = int(records)
    from hermes_mnemosyne.cli import main as command

    return command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
