"""One write transaction: change numbers, clocks, counters, tokens, history; the parts that all operations share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from hermes_mnemosyne._errors import SchemaMismatch
from hermes_mnemosyne.clock import HybridClock, is_stamp, now_text
from hermes_mnemosyne.store.operations import Operation
from hermes_mnemosyne.store.protocol import Analyser, ContentKey
from hermes_mnemosyne.store.writing.database import Database, Index, Result, Tokens
from hermes_mnemosyne.store.writing.rows import (
    TURN,
    Grave,
    dumps,
    entry_value,
    row_number,
    scope_of,
    shelf_of,
    snapshot,
    turn_value,
)
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Entry, Turn


class Rejected(Exception):
    """The operation cannot be done for a reason of its own; its text says why."""


# What an operation with wrong values raises; errors of the database itself end the transaction instead.
REJECTIONS: tuple[type[Exception], ...] = (Rejected, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the rules need to know of a kind of database.

    `sql` are the named statements of writing, `index` begins the full-text rows of a transaction, `schema` is the newest schema
    that this release knows, `rejections` are the driver's errors for a row that breaks a constraint. `many` makes one parameter of
    a list. Within `batched`, given the number of operations, statements need not be waited for one by one; `foresee` puts the
    answers to what operations will ask into `Transaction.foreseen`, where a way to the database is long; `prepared` is called with
    each text's tokens before the write lock is taken. `doubtful` tells that a writer may not learn of its commit and write
    again what it wrote directly: what would then stand there twice is recorded, as it is of spooled operations.
    """

    sql: Mapping[str, str]
    index: Callable[[Any], Index]
    schema: int
    rejections: tuple[type[Exception], ...]
    many: Callable[[Sequence[Any]], Any]
    batched: Callable[[Any, int], AbstractContextManager[None]] = lambda *_: nullcontext()
    foresee: Callable[[Transaction, Sequence[Operation]], None] | None = None
    prepared: Callable[[str], object] | None = None
    doubtful: bool = False


@dataclass
class Tools:
    """What the write transactions of one store share.

    `scopes` are the numbers of themes and subjects known so far.
    """

    dialect: Dialect

    analyser: Analyser
    key: ContentKey
    clock: HybridClock
    scopes: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass
class Live:
    """A live row as found: its number, value and the bytes of its content hash."""

    id: int
    value: Entry | Turn
    hash: bytes
    session: int = 0


@dataclass
class Tally:
    """What a transaction has changed so far and must write at its end; copied at a savepoint.

    `mixed` tells that a merge gave another row than the record that it was given.
    """

    seq: int
    clock: str
    rows: dict[tuple[int, int], int] = field(default_factory=dict)
    speakers: dict[tuple[int, str], int] = field(default_factory=dict)
    refused: int = 0
    erasures: int = 0
    mixed: bool = False
    done: list[str] = field(default_factory=list)

    def copy(self) -> Tally:
        """Return an independent copy."""
        return replace(self, rows=dict(self.rows), speakers=dict(self.speakers), done=list(self.done))


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The state of a transaction at a savepoint."""

    tally: Tally
    scopes: dict[tuple[str, str], int]
    sessions: dict[tuple[int, str], int]
    index: Index


class Transaction:
    """The state of one open write transaction. Operations are functions over it, in the modules beside this one."""

    def __init__(self, db: Database, tools: Tools) -> None:
        """Begin with the store's last change number and clock.

        Raises SchemaMismatch when a newer release has changed the schema meanwhile.
        """
        self.db = db
        self.dialect = tools.dialect
        self.sql = tools.dialect.sql
        self.analyser = tools.analyser
        self.key = tools.key
        self.clock = tools.clock
        seq, last, oldest_writer = db.execute(self.sql["sequence"]).fetchone()
        if oldest_writer > tools.dialect.schema:
            raise SchemaMismatch("a newer release has changed the schema: restart this process with it")
        self._start = (seq, last)
        self.tally = Tally(seq, last)
        self.scopes = dict(tools.scopes)
        self.sessions: dict[tuple[int, str], int] = {}
        self.foreseen: dict[Hashable, Any] = {}
        # Uids known to stand in no table: of them nothing need be asked.
        self.strangers: set[str] = set()
        self._without_gone: set[tuple[int, str]] = set()
        self.index = tools.dialect.index(db)
        self.clock.observe(last)

    # -- numbers and clocks ------------------------------------------------------------------------------------------------------

    def next_seq(self) -> int:
        """Return the next change number of this store."""
        self.tally.seq += 1
        return self.tally.seq

    @property
    def first_seq(self) -> int:
        """The first change number of this transaction, should it change anything."""
        return int(self._start[0]) + 1

    def wind_back(self) -> None:
        """Take the greatest clock that stands in a row for that of the store: a clock that ran ahead was corrected."""
        self.tally.clock = self.db.execute(self.sql["greatest_clock"]).fetchone()[0] or ""
        self.clock.wind_back(self.tally.clock)

    def stamp(self, op: Operation) -> str:
        """Return the edit clock of an operation.

        A direct operation is an edit made now: where the store holds a later clock, of another process or a machine that runs
        ahead, it takes the next one, so that it does not lose against what its author has just read. Spooled ones keep theirs.
        """
        stamp = op.clock
        if not is_stamp(stamp):
            raise Rejected(f"the operation's clock {stamp!r:.80} is no stamp")
        if not op.spooled and stamp <= self.tally.clock:
            self.clock.observe(self.tally.clock)
            stamp = self.clock.tick()
        self.tally.clock = max(self.tally.clock, stamp)
        return stamp

    def scope(self, theme: str, subject: str) -> int:
        """Return the number of a theme and subject, made when new."""
        number = self.scopes.get((theme, subject))
        if number is None:
            row = self.db.execute(self.sql["scope"], (theme, subject)).fetchone()
            number = int((row or self.db.execute(self.sql["insert_scope"], (theme, theme.lower(), subject)).fetchone())[0])
            self.scopes[theme, subject] = number
        return number

    def ask(self, name: str, parameters: tuple[Any, ...]) -> Any:
        """Return the only row that a statement finds; what was foreseen is asked for once."""
        return self.foreseen.pop((name, parameters), None) or self.db.execute(self.sql[name], parameters).fetchone()

    def expect(self, name: str, parameters: tuple[Any, ...], answer: Any) -> None:
        """Note what a statement will answer from now on, where answers are foreseen."""
        if self.dialect.foresee is not None:
            self.foreseen[name, parameters] = answer

    def count(self, row: int, change: int) -> None:
        """Note a row added (1) or removed (-1)."""
        place = scope_of(row), shelf_of(row)
        self.tally.rows[place] = self.tally.rows.get(place, 0) + change

    def finish(self) -> None:
        """Write the counters, then the full-text rows; the caller commits."""
        tally = self.tally
        for scope in {scope for scope, _ in tally.rows}:
            by_shelf = [tally.rows.get((scope, shelf), 0) for shelf in range(3)]
            if any(by_shelf):
                self.db.execute(self.sql["count_rows"], (*by_shelf, scope))
        for (scope, speaker), change in tally.speakers.items():
            if change:
                self.db.execute(self.sql["count_speaker"], (scope, speaker, change))
                if change < 0:
                    self.db.execute(self.sql["forget_silent_speakers"], (scope,))
        if tally.refused:
            self.db.execute(self.sql["count_meta"], ("refused", str(tally.refused)))
        if tally.erasures:
            self.db.execute(self.sql["count_meta"], ("erasures_pending", str(tally.erasures)))
        if tally.done:
            self.db.execute(self.sql["record_ops"], (self.dialect.many(tally.done), now_text()))
        if (tally.seq, tally.clock) != self._start:
            self.db.execute(self.sql["save_sequence"], (tally.seq, tally.clock))
        self.index.write()

    # -- finding -----------------------------------------------------------------------------------------------------------------

    def survivor(self, uid: str) -> str:
        """Return the uid that an alias leads to, else the uid itself."""
        if uid in self.strangers:
            return uid
        row = self.db.execute(self.sql["alias"], (uid,)).fetchone()
        return row[0] if row else uid

    def live(self, uid: str) -> Live | None:
        """Return the live row of a uid or alias."""
        if uid in self.strangers:
            return None
        for candidate in dict.fromkeys((uid, self.survivor(uid))):
            if row := self.db.execute(self.sql["entry_by_uid"], (candidate,)).fetchone():
                return Live(row[0], entry_value(row), row[21])
            if row := self.db.execute(self.sql["turn_by_uid"], (candidate,)).fetchone():
                return Live(row[0], turn_value(row), row[19], row[18])
        return None

    def live_entry(self, uid: str) -> tuple[Live, Entry] | None:
        """Return the live entry of a uid or alias with its value."""
        found = self.live(uid)
        return (found, found.value) if found and isinstance(found.value, Entry) else None

    # -- tokens ------------------------------------------------------------------------------------------------------------------

    def index_entry(self, row: int, entry: Entry, *, fresh: bool) -> None:
        """Write the tokens of an entry."""
        facets = " ".join(name for name, is_set in (("ve", entry.valid_until), ("sp", entry.superseded_by)) if is_set)
        if entry.session_id:
            facets += f" m{self.session(scope_of(row), entry.session_id)}"
        body = self.analyser.entry_tokens(entry.content, entry.tags)
        self.index.put(row, Tokens(body, "", facets, self.analyser.version), fresh=fresh)

    def index_turn(self, row: int, session: int, body: str, context: str, *, fresh: bool = True) -> None:
        """Write the tokens of a turn."""
        self.index.put(row, Tokens(body, context, f"n{session}", self.analyser.version), fresh=fresh)

    def renew_context(self, row: int) -> None:
        """Compute the neighbour column of a turn anew; long texts keep an empty one."""
        tokens = self.index.get(row)
        if tokens is None:
            return
        context = ""
        if not tokens.is_long:
            beside = self.db.execute(self.sql["beside"], (row,)).fetchone() or ()
            others = [self.index.get(number) for number in beside if number is not None]
            context = " ".join(other.lent for other in others if other and other.body)
        if context != tokens.context:
            self.index.put(row, replace(tokens, context=context), fresh=False)

    def lengthen_context(self, row: int, after: str, *, later: bool) -> str:
        """Give the last turn of a session its next neighbour's words, at once or by upkeep, and return what it lends to that one."""
        tokens = self.index.get(row)
        if tokens is None:
            return ""
        if after and not tokens.is_long and later and not self.index.is_cheap(row):
            self.db.execute(self.sql["insert_stale"], (row,))
        elif after and not tokens.is_long:
            context = f"{tokens.context} {after}" if tokens.context else after
            self.index.put(row, replace(tokens, context=context), fresh=False)
        return tokens.lent

    # -- history and graves ------------------------------------------------------------------------------------------------------

    def record(self, action: str, value: Entry | Turn, *, clock: str, at: str) -> Result:
        """Keep a copy of a row as it is before a change; no row is changed when it is kept already."""
        scope = self.scope(value.theme, value.subject)
        digest = bytes.fromhex(content_hash(value.content))
        fields = (value.uid, scope, action, at, clock, digest, dumps(snapshot(value)), self.next_seq())
        return self.db.execute(self.sql["insert_history"], fields)

    def erase_version(self, scope: int, uid: str, action: str, at: str, clock: str) -> None:
        """Erase a version that history holds or might come to hold."""
        self.db.execute(self.sql["erase_version"], (uid, scope, action, at, clock, self.next_seq()))

    def remove_live(self, row: Live) -> None:
        """Delete a live row with its tokens and vectors; neighbours of a turn lose its words."""
        beside = self.db.execute(self.sql["beside"], (row.id,)).fetchone() if isinstance(row.value, Turn) else None
        self.index.remove(row.id)
        if isinstance(row.value, Turn):
            self.db.execute(self.sql["delete_turn"], (row.id,))
            self.note_speaker(row.id, row.value.speaker, -1)
            for number in beside or ():
                if number is not None:
                    self.renew_context(number)
        else:
            self.db.execute(self.sql["delete_entry"], (row.id,))
        # After the row itself, whose lock ends what gives it a vector at this moment.
        self.delete_vectors(row.id)
        self.count(row.id, -1)

    def delete_vectors(self, row: int) -> None:
        """Delete the vectors of a row that goes or gets another text, and what was noted of why it has none."""
        for name in ("delete_vectors", "delete_missing", "delete_exclusion"):
            self.db.execute(self.sql[name], (row,))

    def bury(self, row: Live, state: str, *, clock: str, at: str) -> None:
        """Leave a tombstone for a row; a retired turn keeps its capture key, a forgotten one only a keyed hash elsewhere."""
        value = row.value
        scope = self.scope(value.theme, value.subject)
        capture: tuple[Any, Any, Any, Any] = (None, None, None, None)
        if state == "retired" and isinstance(value, Turn):
            capture = (row.session, value.role, row.hash, value.occurrence)
        place = value.theme, value.subject
        self.save_tombstone(Grave(value.uid, *place, value.kind, state, value.visibility, at, clock, *capture, scope))

    def grave(self, uid: str) -> Grave | None:
        """Return the tombstone of a uid."""
        row = None if uid in self.strangers else self.db.execute(self.sql["tombstone"], (uid,)).fetchone()
        return Grave(*row) if row else None

    def save_tombstone(self, grave: Grave) -> None:
        """Write a tombstone, in place of the one that there may be."""
        self.strangers.discard(grave.uid)
        self._without_gone.discard((grave.scope, grave.state))
        capture = grave.session, grave.role, grave.hash, grave.occurrence
        fields = (grave.uid, grave.scope, grave.kind, grave.state, grave.visibility, grave.at, grave.clock, self.next_seq())
        self.db.execute(self.sql["save_tombstone"], (*fields, *capture))

    def delete_tombstone(self, uid: str) -> None:
        """Take a tombstone away."""
        self.db.execute(self.sql["delete_tombstone"], (uid,))

    def withdraw(self, value: Entry | Turn, *, clock: str, at: str) -> None:
        """Note that a row which may stand on other replicas has become local: there it is to be forgotten."""
        scope = self.scope(value.theme, value.subject)
        aliases = self.db.execute(self.sql["aliases_of"], (value.uid,)).fetchall()
        for uid in (value.uid, *(alias for (alias,) in aliases)):
            self.db.execute(self.sql["insert_withdrawn"], (uid, scope, value.kind, at, clock, self.next_seq()))

    def is_withdrawn(self, uid: str) -> bool:
        """Tell whether a row of this uid has become local."""
        return uid not in self.strangers and self.db.execute(self.sql["withdrawn"], (uid,)).fetchone() is not None

    def note_speaker(self, row: int, speaker: str, change: int) -> None:
        """Count a turn of a named speaker."""
        if speaker:
            place = scope_of(row), speaker
            self.tally.speakers[place] = self.tally.speakers.get(place, 0) + change

    def has_gone(self, scope: int, state: str) -> bool:
        """Tell whether a scope has tombstones of this state."""
        if (scope, state) in self._without_gone:
            return False
        found = self.db.execute(self.sql["any_gone"], (scope, state)).fetchone() is not None
        if not found:
            self._without_gone.add((scope, state))
        return found

    # -- new rows ----------------------------------------------------------------------------------------------------------------

    def insert_turn(self, turn: Turn, session: int, derived: tuple[bytes, str, str]) -> int:
        """Insert a live turn and return its row number; `derived` are its content hash, its tokens and those of its neighbours."""
        self.strangers.discard(turn.uid)
        digest, body, context = derived
        scope = self.scope(turn.theme, turn.subject)
        seq = self.next_seq()
        row = row_number(scope, TURN, seq)
        self.db.execute(
            self.sql["insert_turn"],
            (
                row, turn.uid, scope, session, turn.position, turn.role, turn.speaker, turn.content, digest, turn.occurrence,
                turn.occurred_at, turn.occurred_offset, turn.parent_session_id, turn.visibility, dumps(dict(turn.metadata)),
                turn.created_at, seq, turn.clock,
            ),
        )  # fmt: skip
        self.index_turn(row, session, body, context)
        self.note_speaker(row, turn.speaker, 1)
        self.count(row, 1)
        return row

    def session(self, scope: int, session_id: str) -> int:
        """Return the number of a session, made when new."""
        number = self.sessions.get((scope, session_id))
        if number is None:
            row = self.db.execute(self.sql["session"], (scope, session_id)).fetchone()
            number = int((row or self.db.execute(self.sql["insert_session"], (scope, session_id)).fetchone())[0])
            self.sessions[scope, session_id] = number
        return number

    # -- savepoints --------------------------------------------------------------------------------------------------------------

    def save(self) -> Savepoint:
        """Begin a savepoint and return the state to go back to."""
        self.db.execute("SAVEPOINT operation")
        return Savepoint(self.tally.copy(), dict(self.scopes), dict(self.sessions), self.index.copy())

    def roll_back(self, mark: Savepoint) -> None:
        """Undo all since the savepoint."""
        self.db.execute("ROLLBACK TO operation")
        self.db.execute("RELEASE operation")
        self.foreseen.clear()
        self.strangers.clear()
        self.tally, self.scopes, self.sessions, self.index = mark.tally, mark.scopes, mark.sessions, mark.index

    def release(self) -> None:
        """Keep what was done since the savepoint."""
        self.db.execute("RELEASE operation")
