"""The frozen values that cross the public interface.

Times are text: UTC, fixed width, microseconds, such as `2026-11-30T12:00:00.000000Z`, so that text order is time order.
Ids (`uid`) are random UUIDv7 text; nothing may be ordered by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["entry", "turn"]
Target = Literal["memory", "user"]
Role = Literal["user", "assistant", "system", "tool"]
Visibility = Literal["synced", "local"]

TARGETS: tuple[Target, ...] = ("memory", "user")
ROLES: tuple[Role, ...] = ("user", "assistant", "system", "tool")
VISIBILITIES: tuple[Visibility, ...] = ("synced", "local")
DEFAULT_THEME = "hermes"
ALL_THEMES = "*"
"""The reach of an operator's door on one's own store: every theme and every subject."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """Where an entry came from; an entry carries the set of its origins.

    `kind` is `file` (a mirrored MEMORY.md / USER.md), `hook` (the host's memory tool), `tool`, `api`, `cli`, `import` or
    `replica`. `place` tells which one: for `file` a keyed hash of the home and the file's name, else a short free text.
    """

    kind: str
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A durable memory. `importance` is 0 to 1; `subject` is empty outside bucket themes."""

    uid: str
    theme: str
    content: str
    subject: str = ""
    target: Target = "memory"
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    pinned: bool = False
    valid_until: str | None = None
    occurred_at: str | None = None
    occurred_offset: int | None = None
    superseded_by: str | None = None
    visibility: Visibility = "synced"
    origins: tuple[Origin, ...] = ()
    session_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: str = ""
    updated_at: str = ""
    seq: int = 0
    clock: str = ""
    kind: Literal["entry"] = "entry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a conversation.

    `position` orders the messages of a session; `occurrence` counts equal texts of a role within it from 1.
    """

    uid: str
    theme: str
    content: str
    subject: str = ""
    session_id: str = ""
    position: int = 0
    role: Role = "user"
    speaker: str = ""
    occurrence: int = 1
    occurred_at: str | None = None
    occurred_offset: int | None = None
    parent_session_id: str = ""
    visibility: Visibility = "synced"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: str = ""
    seq: int = 0
    clock: str = ""
    kind: Literal["turn"] = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One answer of a recall; `content` may be cut to the budget, then `cut` is true.

    `score` is the fused, boosted score (greater is better, comparable within one result only). `evidence` is the idf-weighted
    share (0 to 1) of the query's terms that the row holds, `similarity` the cosine of both texts' vectors (None without them).
    `explain` is filled on request.
    """

    uid: str
    kind: Kind
    theme: str
    content: str
    score: float
    evidence: float = 0.0
    similarity: float | None = None
    subject: str = ""
    target: Target | None = None
    role: Role | None = None
    speaker: str = ""
    session_id: str = ""
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    pinned: bool = False
    created_at: str = ""
    updated_at: str = ""
    occurred_at: str | None = None
    valid_until: str | None = None
    superseded_by: str | None = None
    origins: tuple[Origin, ...] = ()
    cut: bool = False
    explain: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """Everything that may be asked of a recall.

    `themes` narrows the reach of the engine (None: all of it). `since` and `until` bound the event time (`occurred_at`, else
    the write time), `written_since` and `written_until` the write time; a bare date is the user's local day, a naive date-time
    is UTC; upper bounds given as a day include it. `contains` keeps rows that hold this text literally, however accents are
    composed in either. `budget_chars` and `budget_tokens` (four characters each) bound the sum of the contents returned. `strict`
    applies the gate of prefetch.
    `embed_timeout` is how many seconds the query's vector may take (None: 3, or the setting if it is less).
    """

    text: str
    limit: int = 5
    kinds: tuple[Kind, ...] = ("entry", "turn")
    target: Target | None = None
    themes: tuple[str, ...] | None = None
    session_id: str | None = None
    since: str | None = None
    until: str | None = None
    written_since: str | None = None
    written_until: str | None = None
    tags: tuple[str, ...] = ()
    contains: str | None = None
    include_expired: bool = False
    include_superseded: bool = False
    exclude: frozenset[str] = frozenset()
    budget_chars: int | None = None
    budget_tokens: int | None = None
    strict: bool = False
    explain: bool = False
    embed_timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    """The hits of one recall, best first, and how they were found.

    `degraded` lists what could not be used, such as `vector` or `spool`; `notes` what a reader should know: `empty-query`,
    `bounded` (frequent words only: newest matches), `cut-query` (a long query was shortened), `cut-budget`. `searched` is the
    number of rows within themes, kinds and target, of a recall of turns also within its session. Both empty and `hits` empty means:
    nothing relevant is stored.
    """

    query: str
    hits: tuple[Hit, ...] = ()
    degraded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    searched: int = 0

    def __iter__(self) -> Iterator[Hit]:
        """Iterate over the hits, best first."""
        return iter(self.hits)

    def __len__(self) -> int:
        """Return the number of hits."""
        return len(self.hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a write did.

    `status` is `added`, `exists`, `updated`, `unchanged`, `retired`, `forgotten`, `restored`, `queued` (accepted, waits in the
    spool) or `refused` (a tombstone stands against it). `notes` says what was changed on the way, such as `masked:aws-key`.
    """

    uid: str
    status: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the history of a row, oldest first; `before` holds the fields as they were."""

    uid: str
    action: str
    at: str
    clock: str
    before: Mapping[str, Any] = field(default_factory=dict)
