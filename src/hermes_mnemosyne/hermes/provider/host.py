"""What the host may bring, each name on its own: hosts differ, and a missing name must not cost another one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne.capture import skill_instruction

if TYPE_CHECKING:

    class Base:
        """The host's class of memory providers, of which only the methods we override are known."""
else:
    try:
        from agent.memory_provider import MemoryProvider as Base
    except ImportError:
        Base = object


def user_words(text: str) -> str:
    """Return a person's own words of a message, as the host itself takes them out of an expanded skill."""
    # Only where the host has loaded it already: its import is heavy.
    commands = sys.modules.get("agent.skill_commands")
    extract = getattr(commands, "extract_user_instruction_from_skill_message", None)
    if extract is None:
        return skill_instruction(text)
    own = extract(text)
    return own if isinstance(own, str) else ""


def recall_status(count: int) -> Any:
    """Return the host's value for its line about recalled memories; None where the host has none."""
    try:
        from agent.memory_provider import RecallStatus
    except ImportError:
        return None
    return RecallStatus(provider_label="Mnemosyne", count=count)


def hermes_home(given: Any = None) -> Path | None:
    """Return the home the host gave, else the one it would use, else the user's own."""
    if isinstance(given, str) and given.strip():
        return Path(given).expanduser()
    constants = sys.modules.get("hermes_constants")
    find = getattr(constants, "get_hermes_home", None)
    if find is not None:
        return Path(find())
    from hermes_mnemosyne.paths import hermes_home as default_home

    return default_home()


def files_in_prompt(home: Path) -> frozenset[str]:
    """Return for which targets the host shows its file in the prompt: `memory`, `user`, unless its configuration says no."""
    from hermes_mnemosyne._errors import ConfigError
    from hermes_mnemosyne.config_files import HERMES_CONFIG, read_mapping

    try:
        section = (read_mapping(home / HERMES_CONFIG) or {}).get("memory")
    except ConfigError:
        section = None
    if not isinstance(section, dict):
        section = {}
    switches = {"memory": "memory_enabled", "user": "user_profile_enabled"}
    return frozenset(target for target, key in switches.items() if section.get(key) is not False)
