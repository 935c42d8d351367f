"""Other packages that claim the names of this one: distributions in the same environment, and what calls them on this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "hermes-mnemosyne"
COMMANDS = {"mnemosyne": "mnemosyne", "pgvector": "hermes-pgvector"}
"""The command of each provider, which installs it."""

# Distributions that were made before this one and claim the same provider or command; each with the word that betrays its shim.
OLDER = {
    "mnemosyne-hermes": "mnemosyne_hermes",
    "mnemosyne-memory": "hermes_memory_provider",
    "hermes-memory-pgvector": "hermes_pgvector",
}
_UNIT_PLACES = ("/etc/systemd/system", "~/.config/systemd/user", "/etc/cron.d")
_OLDER_MODULE = re.compile(r"(?<![\w.])hermes_pgvector\b|-m\s+pgvector\b")
_MOST_UNIT_BYTES = 1_000_000


def rivals(provider: str = "mnemosyne") -> tuple[str, ...]:
    """Return a line for each other distribution of this environment that owns our command or our provider name."""
    claims: dict[str, list[str]] = {}
    for group, what in (("console_scripts", "command"), ("hermes_agent.memory_providers", "provider name")):
        for point in metadata.entry_points(group=group):
            owner = point.dist.name if point.dist else ""
            ours = COMMANDS[provider] if what == "command" else provider
            if owner and _canonical(owner) != DISTRIBUTION and point.name == ours:
                claims.setdefault(owner, []).append(f"{what} {ours}")
    for older in OLDER:
        if version_of(older) and not any(_canonical(owner) == older for owner in claims):
            claims[older] = []
    lines = []
    for owner, owned in sorted(claims.items()):
        owns = f" and owns the {' and the '.join(owned)}" if owned else ""
        lines.append(f"{owner} is installed here too{owns}: {_parting(owner)}")
    return tuple(lines)


def _parting(owner: str) -> str:
    """Return how to leave another distribution."""
    if _canonical(owner) != "hermes-memory-pgvector":
        return f"import its memories, then pip uninstall {owner}"
    # To uninstall it removes the command of the same name, whoever wrote it last.
    again = f"pip install --force-reinstall --no-deps {DISTRIBUTION}"
    return f"'python -m hermes_mnemosyne.pgvector migrate' takes its tables over, then pip uninstall -y {owner} and {again}"


def older_units(provider: str = "pgvector", places: Sequence[str] = _UNIT_PLACES) -> tuple[str, ...]:
    """Return a line for each unit or cron file that calls the module of hermes-memory-pgvector; none for another provider."""
    lines = []
    for place in places if provider == "pgvector" else ():
        for path in _files_below(Path(place).expanduser()):
            text = "\n".join(line for line in _start_of(path).splitlines() if not line.lstrip().startswith(("#", ";")))
            if _OLDER_MODULE.search(text):
                reload = ", then systemctl daemon-reload" if "systemd" in path.parts else ""
                lines.append(f"{path} calls the module of hermes-memory-pgvector: let it call hermes_mnemosyne.pgvector{reload}")
    return tuple(lines)


def _files_below(place: Path) -> list[Path]:
    """Return the files of a directory and of those one below it, such as `name.service.d`."""
    try:
        found = sorted(place.iterdir())
        return [path for path in found if path.is_file()] + [
            path for below in found if below.is_dir() for path in sorted(below.iterdir()) if path.is_file()
        ]
    except OSError:
        return []


def _start_of(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_UNIT_BYTES)
    except OSError:
        return ""


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def version_of(distribution: str) -> str:
    """Return the version of an installed distribution, empty where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
