"""Keyed hashes that keep forgotten texts out: of a place by its present name and by those it had before it was given another."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hermes_mnemosyne.store.writing.database import View


@dataclass(frozen=True, slots=True)
class Session:
    """A session by its numbers and by its names."""

    scope: int
    number: int
    theme: str
    subject: str
    session_id: str


def names_of(view: View, scope: int, theme: str, subject: str) -> list[tuple[str, str]]:
    """Return the theme and subject of a scope, then those that rows in it were forgotten under."""
    found = view.db.execute(view.sql["former_names"], (scope,)).fetchone()
    former = [(before[0], before[1]) for before in json.loads(found[0])] if found else []
    return list(dict.fromkeys([(theme, subject), *former]))


def content_macs(view: View, place: tuple[int, str, str], target: str, digest: str) -> list[str]:
    """Return the keyed hashes of an entry's text in a scope with its theme and subject; none without a key."""
    made = [view.key.digest("content", theme, subject, target, digest) for theme, subject in names_of(view, *place)]
    return [mac for mac in made if mac is not None]


def capture_macs(view: View, session: Session, role: str, digest: str) -> list[str]:
    """Return the keyed hashes of a capture key without its occurrence number; none without a key."""
    names = names_of(view, session.scope, session.theme, session.subject)
    made = [view.key.digest("capture", theme, subject, session.session_id, role, digest) for theme, subject in names]
    return [mac for mac in made if mac is not None]


def forgotten_since(view: View, macs: list[str]) -> str:
    """Return the latest clock at which a text with one of these hashes was forgotten, empty when none was."""
    clocks = [view.db.execute(view.sql["forgotten_text"], (mac,)).fetchone()[0] for mac in macs]
    return max((clock for clock in clocks if clock is not None), default="")
