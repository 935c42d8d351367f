"""What a round would do, without doing it: nothing is written here, and the server remembers nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.sync import state as states
from hermes_mnemosyne.sync.remote import Pull, Remote
from hermes_mnemosyne.sync.round import Options, round_of
from hermes_mnemosyne.sync.sharing import Wanted


def preview(memory: Memory, remote: Remote, options: Options) -> dict[str, Any]:
    """Return how many records would be pulled and pushed, by type and theme. Raises RemoteError, Stopped, StoreError.

    Some that would travel stand on the other side already; only a round finds that out.
    """
    store = memory.engine.store
    known = states.load(memory, options.name or remote.url)
    one = round_of(memory, remote, options)
    terms = one.agree()
    if known.basis != terms.basis:
        known = replace(known, pulled=0, pushed=0)
    pulled, pushed = _Tally(), _Tally()
    after, more = known.pulled, terms.reads and not terms.is_empty
    while more:
        page = remote.pull(Pull(wanted=terms.wanted, after=after, limit=options.limit, skip=known.theirs))
        if known.sharing not in {"", page.head.get("sharing")} and after == known.pulled > 0:
            known, after = replace(known, sharing="", pulled=0), 0
            continue
        pulled.add(one.readable(page))
        after, more = page.head["position"], bool(page.head.get("more"))
        options.step(len(page.records))
    after, more = known.pushed, terms.writes and not terms.is_empty
    while more:
        changes = store.changes(after, terms.sharing, limit=options.limit, skip=known.skip)
        pushed.add(changes.records)
        after, more = changes.position, changes.more
        options.step(len(changes.records))
    return {
        "remote": options.name or remote.url,
        "url": remote.url,
        "pull": pulled.as_object(),
        "push": pushed.as_object(),
        "left_out": sorted(terms.left_out),
        "spooled": memory.engine.spool.status()["count"],
    }


def lag(memory: Memory, state: states.State) -> int:
    """Return how many of our records wait to be sent. Raises StoreError."""
    store = memory.engine.store
    sharing = Wanted(include=state.include, exclude=state.exclude, turns=state.turns).sharing()
    after, more, count = state.pushed, store.position() > state.pushed, 0
    while more:
        changes = store.changes(after, sharing, limit=5000, skip=state.skip)
        count += len(changes.records)
        after, more = changes.position, changes.more
    return count


class _Tally:
    """Records by type and by theme."""

    def __init__(self) -> None:
        self._types: Counter[str] = Counter()
        self._themes: Counter[str] = Counter()

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        for record in records:
            self._types[str(record.get("type"))] += 1
            self._themes[str(record.get("theme"))] += 1

    def as_object(self) -> dict[str, Any]:
        return {
            "records": self._types.total(),
            "types": dict(sorted(self._types.items())),
            "themes": dict(sorted(self._themes.items())),
        }
