"""Clocks of records from a machine whose own is wrong: corrected once, by the first server that accepts them, as new versions.

Nothing else ever rewrites a clock. A clock is corrected when it is provably in the future, or when the sender's clock is wrong now and
the sender itself stamped the record since it was last heard of: before that it may have been right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne.clock import is_stamp

TOLERATED = 300_000
"""Milliseconds by which a clock may be wrong."""
FIRST_CONTACT = 24 * 3600 * 1000
"""Of a sender that was never heard of before, what it has stamped in the last day is taken for stamped by its present clock."""
_MILLIS, _TIME = 12, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Whose records these are; times in milliseconds.

    `now` is the server's time when the request came, `skew` how far the sender's clock is ahead of it, `since` when it was last heard
    of (None: never).
    """

    replica: str
    now: int
    skew: int = 0
    since: int | None = None

    def right(self, stamp: str) -> int | None:
        """Return the milliseconds that a stamp should have, None for one that is right."""
        millis = int(stamp[:_MILLIS], 16)
        latest = self.now + TOLERATED
        if abs(self.skew) > TOLERATED and stamp[_TIME + 1 :] == self.replica:
            first = self.now - FIRST_CONTACT if self.since is None else self.since
            if first + self.skew <= millis and (moved := millis - self.skew) <= latest:
                return max(0, moved)
        return self.now if millis > latest else None


def corrections(
    records: Iterable[Mapping[str, Any]], sender: Sender, tick: Callable[[], str], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the new clock of each clock in `records` that is wrong.

    `known` are corrections that were made before, of records that come again; `tick` gives rising stamps of the present.
    """
    found: dict[str, str] = {}
    late: list[str] = []
    for stamp in {stamp for record in records for stamp in _stamps(record)}:
        right = sender.right(stamp)
        if right is None:
            continue
        if stamp in known:
            found[stamp] = known[stamp]
        elif right == sender.now:
            late.append(stamp)
        else:
            found[stamp] = f"{right:0{_MILLIS}x}{stamp[_MILLIS:]}"
    for stamp in sorted(late):
        found[stamp] = tick()[:_TIME] + stamp[_TIME:]
    return found


def corrected(record: Mapping[str, Any], new: Mapping[str, str]) -> dict[str, Any]:
    """Return a record with its corrected clocks."""
    changed = {**record}
    clock, before = record.get("clock"), record.get("before")
    if isinstance(clock, str) and clock in new:
        changed["clock"] = new[clock]
    inner = before.get("clock") if isinstance(before, dict) else None
    if isinstance(before, dict) and isinstance(inner, str) and inner in new:
        changed["before"] = {**before, "clock": new[inner]}
    if isinstance(record.get("keeps_out"), list):
        changed["keeps_out"] = [
            [item[0], new.get(item[1], item[1]), *item[2:]] if _is_kept_out(item) else item for item in record["keeps_out"]
        ]
    return changed


def _stamps(record: Mapping[str, Any]) -> Iterable[str]:
    before = record.get("before")
    kept_out = record.get("keeps_out")
    found = [
        record.get("clock"),
        before.get("clock") if isinstance(before, dict) else None,
        *(item[1] for item in (kept_out if isinstance(kept_out, list) else ()) if _is_kept_out(item)),
    ]
    return [stamp for stamp in found if is_stamp(stamp)]


def _is_kept_out(item: object) -> bool:
    return isinstance(item, list) and len(item) > 1 and is_stamp(item[1])
