"""What a store keeps of each remote: how far both sides are, the mark, and how the last rounds went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.figures import REMOTES
from hermes_mnemosyne.store.operations import KeepState, Operation, Outcome

Interval = tuple[int, int]
_MOST_INTERVALS = 64
TOTALS = ("pulled", "pushed", "refused", "set_aside", "restamped")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One remote as the store knows it.

    `pulled` is the position in the server's changes, `pushed` that in our own. `skip` are intervals of our change numbers that the
    server sent us, `theirs` intervals of its numbers that we sent. `basis` tells the filters and rights that the positions hold for,
    `sharing` the same as the server says it. `healing` is set from the moment a mark was unknown until both sides were compared.
    `sealed` tells whether rows go there sealed (None: there was no round yet), `sealed_with` the key under which all of ours are.
    """

    url: str = ""
    server: str = ""
    mark: str = ""
    pulled: int = 0
    pushed: int = 0
    skip: tuple[Interval, ...] = ()
    theirs: tuple[Interval, ...] = ()
    basis: str = ""
    sharing: str = ""
    healing: bool = False
    sealed: bool | None = None
    sealed_with: str = ""
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    turns: bool = False
    last_try: str | None = None
    last_success: str | None = None
    last_error: str | None = None
    skew: float = 0.0
    totals: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> State:
        """Return the state that was kept; what another release wrote and this one does not know is left out."""
        known = {one.name for one in fields(cls)}
        values = {name: value for name, value in kept.items() if name in known}
        for name in ("skip", "theirs"):
            values[name] = tuple((int(first), int(last)) for first, last in values.get(name) or ())
        values["include"] = None if values.get("include") is None else tuple(values["include"])
        values["exclude"] = tuple(values.get("exclude") or ())
        return cls(**values)

    def kept(self, *names: str) -> dict[str, Any]:
        """Return these fields (none named: all) as they are kept."""
        chosen = names or tuple(one.name for one in fields(self))
        values = {name: getattr(self, name) for name in chosen}
        return {name: _plain(value) for name, value in values.items()}

    def anew(self) -> State:
        """Return the state before the first round, of a replica that the server does not know."""
        return replace(self, server="", mark="", pulled=0, pushed=0, skip=(), theirs=(), sharing="", healing=False)


def names_of(memory: Memory) -> list[str]:
    """Return the names of the remotes that the store knows. Raises StoreError."""
    return sorted(key.removeprefix(REMOTES) for key in memory.engine.store.sync_states(REMOTES))


def load(memory: Memory, name: str) -> State:
    """Return what the store keeps of a remote; of an unknown one an empty state. Raises StoreError."""
    return State.of(memory.engine.store.sync_states(REMOTES + name).get(REMOTES + name, {}))


def save(memory: Memory, name: str, state: State) -> None:
    """Keep a state. Raises StoreError."""
    apply(memory, [make(memory, KeepState, key=REMOTES + name, value=state.kept())])


def check_mode(name: str, *, is_sealed: bool, known: object) -> None:
    """Raise InvalidInput where a round is sealed and what is `known` of the remote is not, or the other way round."""
    if known is True and not is_sealed:
        raise InvalidInput(f"{name} is synced sealed: name the key file with --seal-key-file, nothing was sent")
    if known is False and is_sealed:
        raise InvalidInput(
            f"{name} is synced in clear: leave the seal key out, or sync with a server (and a --profile) of its own; nothing was sent"
        )


def make(memory: Memory, kind: type[Any], *, theme: str = "", subject: str = "", **values: Any) -> Any:
    """Return an operation of a theme and subject, of none where it is about the state."""
    return replace(memory.make(kind, **values), theme=theme, subject=subject)


def apply(memory: Memory, ops: Sequence[Operation]) -> list[Outcome]:
    """Write operations in one transaction; they are never queued, since they belong to a moment. Raises StoreError."""
    engine = memory.engine
    return engine.store.apply(ops, wait=engine.settings.busy_timeout)


def joined(intervals: Sequence[Interval], new: Interval, *, after: int) -> tuple[Interval, ...]:
    """Return intervals with one more, those that end at or before `after` left out; of very many the oldest are dropped.

    A row outside of them travels once more, which does no harm.
    """
    found: list[Interval] = []
    for first, last in sorted([*intervals, new]):
        if last <= after or first > last:
            continue
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found[-_MOST_INTERVALS:])


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value
