"""The host's memory files: which they are, what stands in them, and how an entry remembers that it came from one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hermes_mnemosyne.keys import SubjectKey
from hermes_mnemosyne.store.protocol import ContentKey
from hermes_mnemosyne.values import Origin, Target

SEPARATOR = "\n\u00a7\n"
FILES: dict[Target, str] = {"memory": "MEMORY.md", "user": "USER.md"}
DIRECTORY = "memories"
MOST_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """The entries of one file, in order, each once, and a stamp that changes with its content."""

    lines: tuple[str, ...]
    stamp: str


def parse(text: str) -> tuple[str, ...]:
    """Return the entries of a memory file: parts between lines that hold a section sign alone, trimmed, each once."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    return tuple(dict.fromkeys(entry for part in text.split(SEPARATOR) if (entry := part.strip())))


def read(home: Path, target: Target) -> MemoryFile | None:
    """Return the file of a target under a home; None for one that is missing, empty, too large or cannot be read."""
    path = home / DIRECTORY / FILES[target]
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        raw = path.read_bytes()
        lines = parse(raw.decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return MemoryFile(lines, hashlib.sha256(raw).hexdigest()[:32]) if lines else None


def key_of_home(home: Path) -> SubjectKey:
    """Return the key under which a home's files are known in a database of a fleet.

    It lies in the home and is no other home's: the same path on two hosts must not make two files one, or each host would retire
    what stands in the other's. It moves with the files, and does without the key of the fleet.
    """
    return SubjectKey(home.expanduser() / "mnemosyne" / "home.key")


def origin(home: Path, target: Target, key: ContentKey) -> Origin | None:
    """Return the origin of what came from a file: the home as a keyed hash, and the file's name; None without a usable key."""
    digest = key.digest("home", str(home.expanduser().resolve()))
    return None if digest is None else Origin("file", f"{digest[:32]}/{FILES[target]}")
