"""Soft boosts: factors around 1 that reorder hits of similar relevance and never remove one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from hermes_mnemosyne.recall.periods import Period
from hermes_mnemosyne.values import ROLES, Entry, Turn

_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Boosts:
    """How strong each boost is.

    `recency` is the share of the score that great age takes away, half of it after `half_life_days` (0: age does not count).
    `importance` is what an importance of 1 adds and one of 0 takes, `pinned`, `speaker` and `period` what a pin, being the one
    speaker named in the query and having happened in a period that it names add; all as a share of the score.
    """

    half_life_days: float = 365.0
    recency: float = 0.1
    importance: float = 0.2
    pinned: float = 0.2
    speaker: float = 0.25
    period: float = 0.4


def recency(at: str, now: str, boosts: Boosts) -> float:
    """Return the factor for a row of the moment `at`, seen from `now` (both fixed-width UTC text)."""
    if not boosts.half_life_days or not at or not now:
        return 1.0
    age = max(0.0, (datetime.fromisoformat(now) - datetime.fromisoformat(at)).total_seconds() / _DAY)
    return float(1.0 - boosts.recency * (1.0 - 2.0 ** (-age / boosts.half_life_days)))


def boosts_of(
    row: Entry | Turn, speaker: str | None, now: str, boosts: Boosts, periods: Sequence[Period] = ()
) -> dict[str, float]:
    """Return the factors of one row by name; those that change nothing are left out.

    `speaker` is the one that is named, `periods` are those that the query names.
    """
    factors: dict[str, float] = {}
    if isinstance(row, Entry):
        factors["recency"] = recency(row.updated_at or row.created_at, now, boosts)
        factors["importance"] = 1.0 + boosts.importance * (2.0 * row.importance - 1.0)
        factors["pinned"] = 1.0 + boosts.pinned if row.pinned else 1.0
    else:
        factors["recency"] = recency(row.occurred_at or row.created_at, now, boosts)
        factors["speaker"] = 1.0 + boosts.speaker if speaker and row.speaker == speaker else 1.0
    if periods and any(period.holds(row.occurred_at or row.created_at) for period in periods):
        factors["period"] = 1.0 + boosts.period
    return {name: factor for name, factor in factors.items() if factor != 1.0}


def named_speaker(speakers: Iterable[str], words: frozenset[str], tokens_of: Callable[[str], str]) -> str | None:
    """Return the speaker of whom a query's `words` (encoded) hold a name, when there is exactly one.

    `tokens_of` analyses a name. Names of roles, such as `user`, name nobody.
    """
    named = [name for name in speakers if name.casefold() not in ROLES and not words.isdisjoint(tokens_of(name).split())]
    return named[0] if len(named) == 1 else None
