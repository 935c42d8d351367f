"""The Store protocol: all that the engine may ask of a database.

A store keeps rows, indexes and their consistency; it decides nothing about policy. Reads never take the write lock. Every method is
safe from any thread. Methods raise the errors of `_errors` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermes_mnemosyne.store.operations import Operation, Outcome
from hermes_mnemosyne.store.replicating import Replicating
from hermes_mnemosyne.values import Change, Entry, Kind, Target, Turn


class Analyser(Protocol):
    """Turns text into encoded index tokens (ASCII letters and digits, separated by single blanks); both stores share it."""

    version: int

    def entry_tokens(self, content: str, tags: Sequence[str]) -> str:
        """Return the tokens of an entry."""
        ...

    def turn_tokens(self, content: str, speaker: str, occurred_at: str | None) -> str:
        """Return the tokens of a turn, speaker and date in words included."""
        ...


class ContentKey(Protocol):
    """The subject key, asked for only when it is needed; None when there is no usable key."""

    def digest(self, purpose: str, *parts: str) -> str | None:
        """Return a keyed hash (hex) over the parts."""
        ...


@dataclass(frozen=True, slots=True)
class Reach:
    """The rows a caller may see.

    `themes` None is every theme but the `hidden` ones; `subject` None is every subject, `""` rows without one. Themes are the same
    whatever their case.
    """

    themes: frozenset[str] | None
    subject: str | None = ""
    hidden: frozenset[str] = frozenset()

    def admits(self, theme: str) -> bool:
        """Tell whether a theme is within reach."""
        name = theme.lower()
        if any(name == other.lower() for other in self.hidden):
            return False
        return self.themes is None or any(name == other.lower() for other in self.themes)

    def covers(self, theme: str, subject: str) -> bool:
        """Tell whether a row of this theme and subject is within reach."""
        return (self.subject is None or subject == self.subject) and self.admits(theme)


EVERYTHING = Reach(None, None)
"""Every theme and every subject: the reach of an operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions on rows; all of them hold inside every search leg. Times are fixed-width UTC, upper bounds exclusive.

    `now` hides entries whose `valid_until` is not later (None shows all). `exclude` are uids, `except_session` drops the turns of
    one session, `contains` is looked for as `text.holds` does.
    """

    reach: Reach
    kinds: tuple[Kind, ...] = ("entry", "turn")
    target: Target | None = None
    session_id: str | None = None
    except_session: str | None = None
    since: str | None = None
    until: str | None = None
    written_since: str | None = None
    written_until: str | None = None
    tags: tuple[str, ...] = ()
    contains: str | None = None
    now: str | None = None
    include_superseded: bool = False
    exclude: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalQuery:
    """Encoded terms to be searched.

    A row must hold one of `required` (all of them when `all_required`) or at least two of `paired`; all terms, `optional` ones too,
    raise the score. With `newest` set, only that many of the newest matching rows are scored.
    """

    required: tuple[str, ...]
    paired: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    all_required: bool = False
    newest: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row found by one leg: `id` is the store's row number, a greater `score` is better."""

    id: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingText:
    """A row whose vector for a model is missing.

    `text` is what is to be embedded: of a turn with its speaker and date, as it is indexed; of a very long one the beginning, which
    is more than any model sees. `role` (empty for entries) and `chars`, the length of the content alone, are what a setting may
    leave rows out by; a `local` row must not leave the machine.
    """

    id: int
    kind: Kind
    text: str
    role: str = ""
    chars: int = 0
    local: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorModel:
    """A model whose vectors a store holds or is about to hold.

    `key` is unique in the store. `probes` are the vectors of the probe texts by which the model is recognised under any name;
    `floor` is the cosine of texts that have nothing to do with each other. The `active` one is searched; there is at most one.
    """

    key: str
    name: str
    dimension: int
    probes: tuple[tuple[float, ...], ...] = ()
    floor: float = 0.0
    active: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorCounts:
    """Live rows by the state of their vector for one model.

    `pending` will be embedded, `retrying` (part of it) after a failure; `excluded` have none by setting; `unembeddable` have failed
    for a reason of their own; `cut` (part of `stored`) were longer than the model sees.
    """

    stored: int = 0
    pending: int = 0
    retrying: int = 0
    excluded: int = 0
    unembeddable: int = 0
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFailure:
    """A text that could not be embedded: why, and when it may be tried again (UTC text; None: not of itself)."""

    id: int
    reason: str
    retry_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows within reach."""

    entries: int = 0
    turns: int = 0
    by_target: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Row numbers beside a turn within its session."""

    previous: int | None
    next: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a waiting operation would do now: uids of texts that would be `new` rows, and of rows that would be `gone`."""

    new: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


class Store(Replicating, Protocol):
    """One database of memories."""

    @property
    def replica(self) -> str:
        """The random id of this store."""
        ...

    # -- writing -----------------------------------------------------------------------------------------------------------------

    def apply(self, ops: Sequence[Operation], *, wait: float = 5.0) -> list[Outcome]:
        """Apply operations in order in one transaction and return one outcome each.

        An operation that fails for a reason of its own gets an outcome `failed` and leaves no trace; the others stand.
        `wait` is in seconds. Raises StoreBusy, StoreFull, StoreUnavailable, StoreCorrupt: then nothing was written.
        """
        ...

    def preview(self, op: Operation) -> Preview:
        """Tell what an addition, a capture or a mirrored write would do, without doing it: for a recall before it is applied.

        A text is not new when a live row holds it or a tombstone keeps it out. A row is gone when the host's file was all that
        had written it, also where it would live on with another text.
        """
        ...

    def last_clock(self) -> str:
        """Return the greatest edit clock that the store holds, or an empty text."""
        ...

    # -- reading -----------------------------------------------------------------------------------------------------------------

    def read(self, uid: str, reach: Reach) -> Entry | Turn | None:
        """Return the live row of this uid or alias, None when there is none within reach."""
        ...

    def state(self, uid: str, reach: Reach) -> str:
        """Return `live`, `retired`, `forgotten` or `unknown`; out of reach is `unknown`."""
        ...

    def load(self, ids: Sequence[int]) -> dict[int, Entry | Turn]:
        """Return live rows by row number; missing ones are left out."""
        ...

    def select(self, where: Filter, *, limit: int | None = 50, offset: int = 0, newest_first: bool = True) -> list[Entry | Turn]:
        """Return live rows ordered by write time, then uid."""
        ...

    def history(self, uid: str, reach: Reach) -> list[Change]:
        """Return the changes of a row, oldest first; empty when unknown or forgotten."""
        ...

    def counts(self, reach: Reach) -> Counts:
        """Return the number of live rows within reach, by index alone."""
        ...

    def themes(self, reach: Reach) -> dict[str, Counts]:
        """Return the counts of every theme within reach."""
        ...

    def injected(self, theme: str, subject: str, session_id: str) -> frozenset[str]:
        """Return the uids marked as standing in the prompt of a session."""
        ...

    def file_stamp(self, theme: str, place: str) -> str:
        """Return the stamp kept for a mirrored file, empty when none."""
        ...

    # -- searching ---------------------------------------------------------------------------------------------------------------

    def together(self) -> AbstractContextManager[None]:
        """Let the searches of a block, in its thread, share what they look up; what others write meanwhile may be left out."""
        ...

    def size(self, where: Filter) -> int:
        """Return the number of rows within the reach, kinds and target of a filter; other conditions are ignored."""
        ...

    def session_turns(self, where: Filter) -> int:
        """Return the number of turns within reach of the filter's session, by index alone; other conditions are ignored."""
        ...

    def unindexed(self, reach: Reach) -> list[Entry | Turn]:
        """Return rows within reach that a search misses at this moment, because the index cannot be completed now."""
        ...

    def term_counts(self, terms: Sequence[str], where: Filter, *, ceiling: int) -> dict[str, int]:
        """Return in how many rows within reach and kinds each term stands, counted up to `ceiling`."""
        ...

    def lexical(self, query: LexicalQuery, where: Filter) -> list[Candidate]:
        """Return the best matching rows, best first, ties by row number."""
        ...

    def terms_in(self, ids: Sequence[int], terms: Sequence[str]) -> dict[int, frozenset[str]]:
        """Return which of the terms stand in the text itself (not its context) of each row."""
        ...

    def is_turn(self, number: int) -> bool:
        """Tell whether a row number is that of a turn; asks no database."""
        ...

    def speakers(self, reach: Reach) -> frozenset[str]:
        """Return the known speakers within reach; of very many those who have spoken most."""
        ...

    def neighbours(self, ids: Sequence[int]) -> dict[int, Neighbours]:
        """Return the neighbours of turns within their sessions; entries are left out."""
        ...

    # -- vectors -----------------------------------------------------------------------------------------------------------------

    def vector_models(self) -> list[VectorModel]:
        """Return the models of this store, the active one first."""
        ...

    def add_vector_model(self, model: VectorModel) -> None:
        """Make a model known, or renew the name, probes and floor of a known key. `active` counts only while no other model is.

        Raises InvalidInput when the dimension differs from that of the known model, or of its own probes.
        """
        ...

    def activate_vector_model(self, key: str) -> None:
        """Search the vectors of this model from now on; the others are removed, their vectors by upkeep. Raises NotFound."""
        ...

    def attach_vectors(
        self,
        model: str,
        vectors: Iterable[tuple[int, Sequence[float]]],
        *,
        cut: frozenset[int] = frozenset(),
        texts: Mapping[int, str] | None = None,
    ) -> int:
        """Store vectors of rows that still live, one per (row, model), and return how many; `cut` rows were not embedded whole.

        `texts` are what was embedded, as `pending_vectors` gave it: a row whose text has changed since is left out and stays
        pending. A model that is not known yet is made known by its first vector. What was noted of failures and exclusions of
        these rows is dropped. Raises InvalidInput for a zero, NaN or infinite vector or a dimension that differs from the
        model's other vectors; vectors before it may be stored already.
        """
        ...

    def pending_vectors(self, model: str, *, limit: int = 64, after: int = 0, now: str | None = None) -> list[PendingText]:
        """Return rows without a vector of this model, by row number, beginning after `after`.

        Excluded and unembeddable rows are left out, and those that failed and are not to be tried again before `now` (UTC text;
        None: they are not left out).
        """
        ...

    def note_failures(self, model: str, failures: Iterable[VectorFailure]) -> None:
        """Keep why rows have no vector and when they may be tried again; what was noted goes when the text changes.

        Rows that have a vector of the model, or none by setting, are left as they are. Raises NotFound for an unknown model.
        """
        ...

    def clear_failures(self, model: str) -> int:
        """Let every failed row be tried again and return how many."""
        ...

    def exclude_vectors(self, ids: Iterable[int]) -> int:
        """Leave rows that lack a vector of a model without one, by setting, and return how many; it goes when their text changes."""
        ...

    def include_vectors(self) -> int:
        """Let every excluded row be embedded and return how many."""
        ...

    def vector_counts(self, model: str) -> VectorCounts:
        """Return the live rows by the state of their vector."""
        ...

    def nearest(self, model: str, vector: Sequence[float], where: Filter, *, limit: int) -> list[Candidate]:
        """Return the rows nearest by cosine (the score), filters applied inside, ties by row number."""
        ...

    def cosines(self, model: str, vector: Sequence[float], ids: Sequence[int]) -> dict[int, float]:
        """Return the cosine of each of these rows that has a vector."""
        ...

    # -- moving ------------------------------------------------------------------------------------------------------------------

    def export(self, reach: Reach) -> Iterator[dict[str, Any]]:
        """Yield every authored record within reach in a stable order; `MergeRecord` takes each back."""
        ...

    # -- upkeep ------------------------------------------------------------------------------------------------------------------

    def upkeep(self, *, seconds: float, hurry: bool = True) -> bool:
        """Do due work (erasure, re-indexing, checkpoint) in small transactions; True when nothing is left.

        Without `hurry`, what would keep other writers waiting is put off until nothing has been forgotten for a while.
        """
        ...

    @property
    def is_behind(self) -> bool:
        """Whether this process has left so much to upkeep that it should come soon."""
        ...

    def due(self) -> bool:
        """Tell whether there is work for `upkeep`."""
        ...

    def prune(self) -> None:
        """Drop book-keeping that has served its time."""
        ...

    def reindex(self) -> int:
        """Rebuild the full-text index from the rows and return how many."""
        ...

    def check(self) -> list[str]:
        """Return what an integrity check finds wrong; empty when sound."""
        ...

    def meta(self, key: str) -> str | None:
        """Return a value that all processes on this store share, None when there is none."""
        ...

    def set_meta_once(self, key: str, value: str) -> None:
        """Record a shared value unless there is one already."""
        ...

    def stats(self, reach: Reach = EVERYTHING) -> dict[str, Any]:
        """Return figures for `stats` and `doctor`: schema, sizes, pending work, connections, and the rows within reach."""
        ...

    def close(self) -> None:
        """Close every connection; the store must not be used again."""
        ...

    def abandon(self) -> None:
        """Forget every connection without closing it, in a forked child; the next call opens new ones."""
        ...
