"""Marks: random words by which a server and a replica notice that one of them is not who it was.

The server gives a replica a new mark whenever it tells it of a new position; the replica presents the last one it got. What a mark
is worth:
- the last presented one, or one given in answer to it: this replica goes on;
- an earlier one, or one given to another holder of the same mark: of this replica id there are two, or its file was restored;
- one that was never given: the server was restored or emptied.

All here is plain data: the state of one replica, as the store keeps it, in and out.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne.sync.server.answers import Refused, conflict

_MARK = re.compile(r"([0-9a-f]{1,12})\.[A-Za-z0-9_-]{16}")
_RANDOM_BYTES = 12
# An answer may be lost many times before one arrives; only the last ones can be presented.
_KEPT = 64
NO_POSITION = -1


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one replica: the one it presented last, those given since, and how many were ever given.

    Each is a pair of mark and position; an empty mark means that none was presented.
    """

    presented: tuple[str, int] = ("", NO_POSITION)
    given: tuple[tuple[str, int], ...] = ()
    count: int = 0

    @classmethod
    def of(cls, state: Mapping[str, Any] | None) -> Marks:
        """Return the marks of a kept state."""
        if not state or "presented" not in state:
            return cls()
        mark, position = state["presented"]
        return cls((mark, position), tuple((word, at) for word, at in state["given"]), state["count"])

    def kept(self) -> dict[str, Any]:
        """Return the part of a state that `of` reads."""
        return {"presented": list(self.presented), "given": [list(pair) for pair in self.given], "count": self.count}

    def present(self, mark: str) -> Marks:
        """Return the marks after a request that bore this one. Raises Refused: 409 `cloned` or `unknown-mark`."""
        if not mark:
            # The first contact, or one whose answer was lost, or a beginning anew after `unknown-mark`.
            return Marks(count=self.count)
        if mark == self.presented[0]:
            return self
        for pair in self.given:
            if pair[0] == mark:
                # The others were given to another holder of the mark before, or were lost: who presents one of them now is a copy.
                return Marks(presented=pair, count=self.count)
        found = _MARK.fullmatch(mark)
        if found is not None and int(found[1], 16) <= self.count:
            raise cloned()
        raise conflict("unknown-mark", "the server was restored or emptied: compare digests and begin anew without a mark")

    def issue(self, position: int, *, fresh: bool = False) -> tuple[Marks, str]:
        """Return the marks and the mark of an answer that tells of a position: the same one while there is no other position.

        With `fresh` it is a new one: what a replica brings in makes it another one than a copy of it.
        """
        if not fresh and position != NO_POSITION:
            for word, at in (self.presented, *self.given):
                if word and at == position:
                    return self, word
        count = self.count + 1
        mark = f"{count:x}.{secrets.token_urlsafe(_RANDOM_BYTES)}"
        return Marks(self.presented, (*self.given, (mark, position))[-_KEPT:], count), mark


def cloned() -> Refused:
    """Return the refusal of a copied or restored file."""
    return conflict("cloned", "this replica id has moved on: the file is a copy or was restored; it takes a new replica id")
