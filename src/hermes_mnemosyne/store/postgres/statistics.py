"""How often words stand in the larger places, counted in the background: a search cannot count a frequent word in time."""

from __future__ import annotations

import time
from typing import Final

from hermes_mnemosyne.store.postgres.connections import Connections
from hermes_mnemosyne.store.postgres.database import Database
from hermes_mnemosyne.store.postgres.sql import statements

LEAST_ROWS: Final = 1_000
"""In places with fewer rows every word is counted when it is asked for."""
LISTED_ROWS: Final = 64
"""A word in fewer rows is rare: it is counted when it is asked for."""

# Of larger places a part is counted, which takes about a second.
_SAMPLED_ROWS = 20_000
_LEAST_SAMPLED = 24
# Written in one transaction, which holds the write lock for some milliseconds.
_SAVED_TERMS = 1_000
_LEAST_WAIT = 0.05


def due(db: Database) -> bool:
    """Tell whether words are to be counted anew."""
    return db.execute(statements("statistics")["due"], {"least": LEAST_ROWS, "limit": 1}).fetchone() is not None


def renew(connections: Connections, until: float) -> bool:
    """Count the words of the places that have changed by much, as far as time (`time.monotonic`) allows; True when none is left.

    A place takes a second or two. Raises StoreBusy and the other store errors.
    """
    sql = statements("statistics")
    with connections.reading() as db:
        places = db.execute(sql["due"], {"least": LEAST_ROWS, "limit": None}).fetchall()
    for place, rows in places:
        if time.monotonic() >= until:
            return False
        _renew(connections, place, rows, until)
    return True


def _renew(connections: Connections, place: int, rows: int, until: float) -> None:
    sql = statements("statistics")
    every = 1
    while rows > _SAMPLED_ROWS * every:
        every *= 2
    kind = "shelf" if place < 0 else "place"
    asked = {"place": place, "every": every, "least": max(LISTED_ROWS // every, _LEAST_SAMPLED if every > 1 else 1)}
    fresh, words = {}, 0
    with connections.reading() as db:
        if rows:
            fresh = {term: count * every for term, count in db.execute(sql[f"words_of_{kind}"], asked, prepare=False)}
            words = db.execute(sql[f"size_of_{kind}"], asked, prepare=False).fetchone()[0] * every
        known = dict(db.execute(sql["known"], (place,)).fetchall())
    changed = [(term, count) for term, count in fresh.items() if known.get(term) != count]
    for part in (changed[at : at + _SAVED_TERMS] for at in range(0, len(changed), _SAVED_TERMS)):
        with connections.writing(max(until - time.monotonic(), _LEAST_WAIT)) as db:
            db.execute(sql["save_terms"], (place, [term for term, _ in part], [count for _, count in part]))
    gone = [term for term in known if term not in fresh]
    with connections.writing(max(until - time.monotonic(), _LEAST_WAIT)) as db:
        if gone:
            db.execute(sql["drop_terms"], (place, gone))
        if rows:
            db.execute(sql["save_place"], (place, rows, words))
        else:
            db.execute(sql["drop_place"], (place,))
