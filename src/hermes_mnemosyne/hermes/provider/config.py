"""What the host asks about the provider itself: availability, settings, status, places."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_mnemosyne import settings as table
from hermes_mnemosyne._errors import InvalidInput, MissingExtra, MnemosyneError
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.hermes.provider import host, waiting
from hermes_mnemosyne.hermes.provider.boundary import failures, within
from hermes_mnemosyne.paths import SETTINGS_NAME
from hermes_mnemosyne.store.protocol import Counts
from hermes_mnemosyne.stores import Place, place_of
from hermes_mnemosyne.text import one_line

STATUS_SECONDS = 2.0
THEME_CHARS = 60
_HEADING = "# Mnemosyne memory"
_IDENTITY_KEYS = (
    "db",
    "data_dir",
    "dsn",
    "subject_key_file",
    "allowed_themes",
    "identity_aliases",
    "bench_mode",
    "readable_themes",
    "write_contexts",
)


def effective(name: str, home: Path | None) -> table.Effective:
    """Return the settings of a provider. Raises ConfigError for a file that cannot be read."""
    return table.resolve(hermes_home=home, provider=name)


def database(settings: table.Settings, home: Path | None) -> Place:
    """Return the place of the database. Raises ConfigError, also when no home directory is known; InvalidInput, MissingExtra."""
    return place_of(settings, hermes_home=home)


def why_unavailable(name: str) -> str:
    """Return why the provider cannot be used, empty when it can; nothing is opened or created."""
    home = host.hermes_home()
    try:
        place = database(effective(name, home).settings, home).beside("spool.db").parent
    except (InvalidInput, MissingExtra) as error:
        return str(error)
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is no directory: move it away, or name another database with MNEMOSYNE_DB"
    if not os.access(place, os.R_OK | os.X_OK):
        return f"{place} cannot be read: correct its owner or mode"
    return ""


def identity_signature(name: str) -> dict[str, Any]:
    """Return a value that changes with the settings that decide whose memory an agent uses."""
    home = host.hermes_home()
    settings = effective(name, home).settings
    values = {key: getattr(settings, key) for key in _IDENTITY_KEYS}
    text = json.dumps({"home": str(home), **values}, sort_keys=True, default=str)
    return {name: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]}


def backup_paths(name: str) -> list[str]:
    """Return the files outside the home that a backup of it must include."""
    home = host.hermes_home()
    settings = effective(name, home).settings
    place = database(settings, home)
    # The key above all: without it the rows of contacts cannot be read from the copy.
    pattern = place.beside("*")
    found = {path for one in (pattern.name, SETTINGS_NAME) for path in pattern.parent.glob(one)}
    if settings.subject_key_file:
        found.add(Path(settings.subject_key_file).expanduser())
    inside = None if home is None else home.resolve()
    return sorted(str(path) for path in found if path.is_file() and (inside is None or not path.resolve().is_relative_to(inside)))


def status(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lines that the host prints about the provider: where its memories lie, how many, and what is degraded."""
    home = host.hermes_home()
    resolved = effective(name, home)
    place = database(resolved.settings, home)
    lines: dict[str, Any] = {**{key: value for key, value in given.items() if key != "dsn"}, "database": str(place)}
    if place.exists():
        try:
            lines.update(within(STATUS_SECONDS, lambda: _figures(place, resolved.settings)))
        except (MnemosyneError, OSError) as error:
            lines["store"] = str(error)
    else:
        lines["store"] = "made at the first session"
    if resolved.warnings:
        lines["settings"] = "; ".join(resolved.warnings)
    return lines


def _figures(place: Place, settings: table.Settings) -> dict[str, Any]:
    memory = Memory.at(place, theme=settings.theme, settings=settings)
    spool = memory.engine.spool.status()
    lines: dict[str, Any] = {}
    if memory.engine.ready(STATUS_SECONDS - 0.5):
        counts = memory.counts()
        lines |= {"theme": settings.theme, "memories": counts.entries, "turns": counts.turns}
    else:
        lines["store"] = f"unverified: {memory.engine.contact.problem or 'the database does not answer'}"
    for what in ("count", "quarantined", "refused"):
        if spool[what]:
            lines[{"count": "waiting"}.get(what, what)] = spool[what]
    if held := waiting.held(memory.engine):
        lines["waiting for the key"] = held
    if problems := memory.engine.key.problems():
        lines["key"] = "; ".join(problems)
    if counted := failures():
        lines["failures"] = ", ".join(f"{what} {number}" for what, number in sorted(counted.items()))
    return lines


def shown_theme(theme: str) -> str:
    """Return the name of a theme for a prompt: whoever calls an agent names it, and it is neither a text nor a new line there."""
    return one_line(theme, limit=THEME_CHARS).replace("`", "'")


def prompt_block(theme: str, counts: Counts | None, *, unverified: bool = False) -> str:
    """Return the text for the system prompt: whose memory this is, how much it holds (None: not known), and how to recall."""
    if unverified:
        held = (
            "The database has not answered yet (unverified); what is said is kept and follows, and recall works once it answers."
        )
    elif counts is None:
        held = "How many memories it holds is unknown at the moment."
    else:
        held = f"It holds {counts.entries} memories and {counts.turns} messages of earlier conversations."
    return (
        f"{_HEADING}\nYour durable memory is the theme `{shown_theme(theme)}`. {held} What is relevant to a message is recalled before it. "
        "To look further, call recall_memory (facts, preferences, notes) or recall_conversation (what was said earlier)."
    )


def keyless_block(theme: str, reason: str) -> str:
    """Return the text for the system prompt while the contact of a shared theme cannot be told."""
    return f"{_HEADING}\nNothing can be recalled from the theme `{shown_theme(theme)}` here: {reason}. What is said is kept until that is told."


def trouble_block(reason: str) -> str:
    """Return the text for the system prompt while the store cannot be used."""
    return f"{_HEADING}\nYour durable memory cannot be used at the moment: {reason}" if reason else ""
