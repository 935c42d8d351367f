"""What a reach and a filter leave, as far as it is the same for every store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hermes_mnemosyne.store.protocol import Filter, Reach
from hermes_mnemosyne.store.writing.rows import SHELVES, TURN

ALL_SHELVES = len(SHELVES) + 1


class ScopeRows:
    """The scopes within a reach: number, theme, subject, and how many rows of memory, user and turns each has."""

    def __init__(self, rows: Iterable[Any], reach: Reach) -> None:
        """Take the scopes of the reach's themes and subject; those that it hides are left out."""
        self.rows: list[tuple[int, str, str, int, int, int]] = [row for row in rows if not reach.hidden or reach.admits(row[1])]
        self.everything = reach.themes is None and reach.subject is None and not reach.hidden

    def ids(self) -> list[int]:
        """Return the scope numbers."""
        return [row[0] for row in self.rows]

    def shelves(self, where: Filter) -> list[int]:
        """Return the shelves that a filter's kinds and target leave."""
        kept: list[int] = []
        if "entry" in where.kinds:
            kept += [SHELVES[where.target]] if where.target else sorted(SHELVES.values())
        if "turn" in where.kinds:
            kept.append(TURN)
        return kept

    def sizes(self, where: Filter) -> dict[int, int]:
        """Return the number of rows of each of these shelves."""
        return {shelf: sum(row[3:][shelf] for row in self.rows) for shelf in self.shelves(where)}

    def size(self, where: Filter) -> int:
        """Return the number of rows on these shelves."""
        return sum(self.sizes(where).values())

    def filled(self, where: Filter) -> list[tuple[int, int]]:
        """Return the (scope, shelf) pairs that hold rows."""
        return [(row[0], shelf) for row in self.rows for shelf in self.shelves(where) if row[3:][shelf]]


def limits(where: Filter) -> dict[str, Any]:
    """Return those parameters of the filtering statements that no store writes in its own way."""
    return {
        "since": where.since,
        "until": where.until,
        "written_since": where.written_since,
        "written_until": where.written_until,
        "now": where.now,
        "superseded": where.include_superseded,
    }


def needs_rows(where: Filter) -> bool:
    """Tell whether conditions other than expiry need a look at the row itself."""
    return bool(where.since or where.until or where.written_since or where.written_until or where.contains or where.tags)
