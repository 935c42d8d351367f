"""Pages of sealed records: kept as they are, in order, and relayed. What must be joined or dated anew goes back to who can read it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.store.operations import KeepState, Outcome
from hermes_mnemosyne.store.replicating import Feed, Sealed, Sharing
from hermes_mnemosyne.sync import seal
from hermes_mnemosyne.sync.keyring import Grant
from hermes_mnemosyne.sync.server.answers import conflict
from hermes_mnemosyne.sync.server.inbox import numbered
from hermes_mnemosyne.sync.wire import Page

_MODE = "mode"
_Corrections = Callable[[Sequence[Mapping[str, Any]]], Mapping[str, str]]


class SealedInbox:
    """The sealed records of a page by what is to be done with them.

    `taken` are to be kept; `misdated` have a clock that is wrong, and come again with the one that is named there.
    """

    def __init__(self, page: Page, grant: Grant, right: _Corrections) -> None:
        """Take a page, what the sender may do, and what gives the right clock of each wrong one."""
        self.taken: list[Sealed] = []
        self.refused: list[dict[str, Any]] = []
        self.set_aside: list[dict[str, Any]] = [{"line": line, "why": why} for line, why in page.set_aside]
        self.misdated: list[dict[str, Any]] = []
        read: list[Sealed] = []
        for line, record in numbered(page):
            try:
                sealed = replace(seal.from_wire(record), seq=0)
            except ValueError as error:
                self.set_aside.append({"line": line, "why": str(error)})
                continue
            if grant.themes is not None and sealed.theme not in grant.themes:
                self._refuse(sealed, "forbidden")
            else:
                read.append(sealed)
        self.corrections = right([{"clock": sealed.clock} for sealed in read])
        for sealed in read:
            if sealed.clock in self.corrections:
                clock = self.corrections[sealed.clock]
                self.misdated.append({"uid": sealed.uid, "slot": sealed.slot, "was": sealed.clock, "clock": clock})
            else:
                self.taken.append(sealed)

    def report(self, outcome: Outcome) -> frozenset[tuple[str, str]]:
        """Note what the store did not take, and return the slots whose sender must join what stands there first."""
        stale = set()
        for sealed, what in zip(self.taken, outcome.notes, strict=True):
            if what in {"forgotten", "forbidden"}:
                self._refuse(sealed, what)
            elif what == "stale":
                stale.add((sealed.uid, sealed.slot))
        return frozenset(stale)

    def _refuse(self, sealed: Sealed, why: str) -> None:
        self.refused.append({"uid": sealed.uid, "theme": sealed.theme, "why": why})


def held(feed: Feed, places: frozenset[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the records that stand in some slots. Raises StoreError."""
    if not places:
        return []
    records = feed.records_of([uid for uid, _ in places], Sharing())
    return [record for record in records if (record["uid"], record["slot"]) in places]


class Modes:
    """Whether the rows on a server are sealed or clear: the first that come decide. Safe from any thread."""

    def __init__(self, memory: Memory) -> None:
        """Take an open memory."""
        self._memory = memory
        self._lock = threading.Lock()
        self._known: bool | None = None

    def known(self) -> bool | None:
        """Return whether rows are sealed, None as long as none came. Raises StoreError."""
        if self._known is None:
            store = self._memory.engine.store
            self._known = store.sync_states(_MODE).get(_MODE, {}).get("sealed")
            if self._known is None and store.sealed.changes(0, Sharing(), limit=1).records:
                self._known = True
        return self._known

    def demand(self, *, is_sealed: bool) -> None:
        """Raise Refused (409) for a request of the other mode. Raises StoreError."""
        known = self.known()
        if known is True and not is_sealed:
            raise conflict("sealed", "the rows on this server are sealed: come with their seal key")
        if known is False and is_sealed:
            raise conflict("clear", "the rows on this server are not sealed: leave the seal key out, or use a server of its own")

    def settle(self, *, is_sealed: bool, has_rows: bool) -> None:
        """Let the first rows that come decide. Raises Refused (409) for those of the other mode, StoreError."""
        with self._lock:
            self.demand(is_sealed=is_sealed)
            if has_rows and self._known is None:
                engine = self._memory.engine
                op = self._memory.make(KeepState, key=_MODE, value={"sealed": is_sealed})
                engine.store.apply([replace(op, theme="", subject="")], wait=engine.settings.busy_timeout)
                self._known = is_sealed
