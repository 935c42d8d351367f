"""Which rows go to a remote and come from it, and how a row is written on the wire."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.identity import BUCKETS, is_bucket
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync.wire import WireError, vector_of, vector_text
from hermes_mnemosyne.values import ALL_THEMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person asked for: themes (None: every ordinary one), themes left out, and whether turns go too.

    A theme that contacts share goes only when it is named; `*` among named ones stands for every ordinary theme.
    """

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    turns: bool = False

    @property
    def named_buckets(self) -> frozenset[str]:
        """The themes shared by contacts that were named."""
        return frozenset(name.lower() for name in self.include or () if is_bucket(name))

    def without_buckets(self) -> Wanted:
        """Return the same without themes that contacts share."""
        if self.include is None:
            return self
        return Wanted(include=tuple(name for name in self.include if not is_bucket(name)), exclude=self.exclude, turns=self.turns)

    def sharing(self) -> Sharing:
        """Return the rows that this means."""
        return sharing_of(self.include, self.exclude, turns=self.turns)

    def query(self) -> list[tuple[str, str]]:
        """Return the parameters by which a server is told."""
        include = [] if self.include is None or set(self.include) == {ALL_THEMES} else sorted(self.include)
        return [
            *(("include", name) for name in include),
            *(("exclude", name) for name in sorted(self.exclude)),
            ("turns", str(int(self.turns))),
        ]


def wanted(include: Iterable[str] | None, exclude: Iterable[str] | None, *, turns: bool) -> Wanted:
    """Return what was asked for, names of themes as they are stored. Raises InvalidInput for a blank name."""
    names = None if include is None else tuple(dict.fromkeys(map(_theme, include)))
    return Wanted(include=names or None, exclude=tuple(dict.fromkeys(map(_theme, exclude or ()))), turns=turns)


def sharing_of(include: Iterable[str] | None, exclude: Iterable[str] = (), *, turns: bool) -> Sharing:
    """Return the rows that some themes mean; of those that contacts share only the named ones."""
    names = None if include is None else frozenset(name.lower() for name in include)
    everything = names is None or ALL_THEMES in names
    hidden = BUCKETS - (names or frozenset())
    return Sharing(
        include=None if everything else names, exclude=frozenset(name.lower() for name in exclude) | hidden, turns=turns
    )


def digest_of(*parts: Any) -> str:
    """Return what tells JSON values from others: with other filters or rights a position is worth nothing."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def to_wire(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of a store as it is sent."""
    vector = record.get("vector")
    return {**record, "vector": vector_text(vector)} if vector is not None and not isinstance(vector, str) else dict(record)


def from_wire(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record that was received as a store takes it; a vector that is none is computed anew, the text counts."""
    if record.get("vector") is None:
        return dict(record)
    try:
        return {**record, "vector": vector_of(record["vector"])}
    except WireError:
        return {name: value for name, value in record.items() if name != "vector"}


def _theme(name: str) -> str:
    if not name.strip():
        raise InvalidInput("a theme is blank: name one, or leave the option out")
    return name.strip().lower()


def narrowed(wanted: Wanted, themes: Iterable[str] | None) -> Wanted:
    """Return what was asked for as far as a key for some themes (None: for all) lets it."""
    if themes is None:
        return wanted
    allowed = tuple(name.lower() for name in themes)
    named = {name.lower() for name in wanted.include or (ALL_THEMES,)}
    kept = (name for name in allowed if name in named or (ALL_THEMES in named and not is_bucket(name)))
    return Wanted(include=tuple(kept), exclude=wanted.exclude, turns=wanted.turns)
