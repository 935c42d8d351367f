"""Time, order and ids: UTC text, the hybrid logical clock, UUIDv7."""

from __future__ import annotations

import hashlib
import os
import random
import re
import threading
import time
from datetime import UTC, datetime

# Ids must differ, not be secret. Not the shared generator: programs that seed it alike would make the same ids.
_RANDOM = random.Random()  # noqa: S311
os.register_at_fork(after_in_child=_RANDOM.seed)
_MAX_COUNTER = 0xFFFF
_UTC_CHARS = len("2026-11-30T12:00:00.000000Z")
# The first digit leaves room: a clock that can be counted past its width would break the order of all later stamps.
_STAMP = re.compile(r"[0-9a-e][0-9a-f]{15}-[!-~]{1,64}")


def utc_text(moment: datetime) -> str:
    """Return an aware datetime as fixed-width UTC text with microseconds."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def now_text() -> str:
    """Return the present moment as fixed-width UTC text."""
    return f"{datetime.now(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def parse_utc(text: str) -> datetime:
    """Return the aware datetime of fixed-width UTC text. Raises ValueError for other text."""
    if len(text) != _UTC_CHARS or text[-1] != "Z":
        raise ValueError(f"no time of fixed width: {text!r}")
    return datetime.fromisoformat(text)


def uuid7() -> str:
    """Return a random UUIDv7 (RFC 9562: 48 bits of milliseconds, 74 random bits) in its canonical text form."""
    return _uuid7(time.time_ns() // 1_000_000, _RANDOM.getrandbits(80))


def _uuid7(millis: int, random_bits: int) -> str:
    value = millis << 80 | random_bits
    value = value & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid7_of(now: str, *parts: str) -> str:
    """Return the UUIDv7 of a moment (fixed-width UTC text) whose other bits are a hash of the parts: the same for the same parts."""
    millis = int(parse_utc(now).timestamp() * 1000)
    return _uuid7(millis, int.from_bytes(hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:10]))


def is_stamp(text: object) -> bool:
    """Tell whether `text` is a stamp of a hybrid logical clock."""
    return isinstance(text, str) and _STAMP.fullmatch(text) is not None


def renamed(stamp: str, before: str, after: str) -> str:
    """Return a stamp of the replica `before` as one of `after`; other stamps as they are."""
    return f"{stamp[: -len(before)]}{after}" if stamp.endswith(f"-{before}") else stamp


class HybridClock:
    """A hybrid logical clock (Kulkarni et al., 2014): wall milliseconds, a counter, and the replica that breaks ties.

    A stamp is text of fixed width, `mmmmmmmmmmmm` (hex milliseconds) `cccc` (hex counter) `-replica`, so that text order is clock
    order. Stamps of one clock rise strictly, also when the wall clock steps back.
    """

    def __init__(self, replica: str, last: str = "") -> None:
        """Continue after the stamp `last`."""
        self.replica = replica
        self._lock = threading.Lock()
        self._millis, self._counter = 0, 0
        self.observe(last)

    def tick(self) -> str:
        """Return the next stamp."""
        with self._lock:
            wall = time.time_ns() // 1_000_000
            if wall > self._millis:
                self._millis, self._counter = wall, 0
            elif self._counter < _MAX_COUNTER:
                self._counter += 1
            else:
                self._millis, self._counter = self._millis + 1, 0
            return f"{self._millis:012x}{self._counter:04x}-{self.replica}"

    def observe(self, stamp: str) -> None:
        """Make later stamps greater than `stamp`; an empty one is ignored."""
        if not stamp:
            return
        millis, counter = int(stamp[:12], 16), int(stamp[12:16], 16)
        with self._lock:
            self._millis, self._counter = max((self._millis, self._counter), (millis, counter))

    def wind_back(self, stamp: str) -> None:
        """Go on after `stamp`, though later stamps were given out: they were corrected."""
        with self._lock:
            self._millis, self._counter = 0, 0
        self.observe(stamp)

    def renew_lock(self) -> None:
        """Replace the lock in a forked child, where its holder may not exist."""
        self._lock = threading.Lock()

    def adopt(self, replica: str, last: str = "") -> None:
        """Go on as the clock of another replica, after its stamp `last`."""
        self.replica = replica
        self.observe(last)
