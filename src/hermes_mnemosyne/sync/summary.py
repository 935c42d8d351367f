"""What a round did, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hermes_mnemosyne.sync.sharing import Wanted

_MOST_LISTED = 100


@dataclass(slots=True)
class Summary:
    """One round: records that travelled, and what did not go smoothly.

    `refused` rows were not taken by one side (such as edits of what was forgotten there), `set_aside` ones cannot be read or stored; of
    both the first hundred are listed, and counted all. `complete` tells that nothing is left to travel; `position` is how far our own
    changes were looked through, `wanted` what could travel.
    """

    name: str
    url: str
    pulled: int = 0
    pushed: int = 0
    restamped: int = 0
    healed: int = 0
    refused: int = 0
    set_aside: int = 0
    listed: list[dict[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    new_replica: str | None = None
    skew: float = 0.0
    seconds: float = 0.0
    position: int = 0
    wanted: Wanted | None = None
    complete: bool = False
    stopped: bool = False

    @property
    def has_moved(self) -> bool:
        """Whether anything travelled."""
        return bool(self.pulled or self.pushed or self.healed)

    def refuse(self, what: str, where: str, uid: str, why: str) -> None:
        """Count a row that was `refused` or `set_aside`, `here` or `there`, and list it."""
        setattr(self, what, getattr(self, what) + 1)
        if len(self.listed) < _MOST_LISTED:
            self.listed.append({"what": what, "where": where, "uid": uid, "why": why})

    def as_object(self) -> dict[str, Any]:
        """Return all of it as JSON data."""
        return {
            "remote": self.name,
            "url": self.url,
            "ok": self.complete and not self.errors,
            "pulled": self.pulled,
            "pushed": self.pushed,
            "restamped": self.restamped,
            "healed": self.healed,
            "refused": self.refused,
            "set_aside": self.set_aside,
            "rows": self.listed,
            "errors": self.errors,
            "warnings": self.warnings,
            "new_replica": self.new_replica,
            "skew": round(self.skew, 3),
            "seconds": round(self.seconds, 3),
            "complete": self.complete,
        }
