"""What the server does with its store: pages out, pages in, digests. Every function here blocks; the app calls them in its threads."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hermes_mnemosyne._errors import StoreBusy, StoreFull, StoreUnavailable
from hermes_mnemosyne.clock import now_text, parse_utc
from hermes_mnemosyne.core import Engine
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.store.operations import KeepState, MergeRecord, Operation, Outcome, Received
from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.store.records import is_time
from hermes_mnemosyne.sync.keyring import Grant
from hermes_mnemosyne.sync.server.answers import malformed
from hermes_mnemosyne.sync.server.asking import Filters, Place, Pull, fingerprint
from hermes_mnemosyne.sync.server.clocks import Sender, corrected, corrections
from hermes_mnemosyne.sync.server.marks import NO_POSITION, Marks, cloned
from hermes_mnemosyne.sync.sharing import from_wire, to_wire
from hermes_mnemosyne.sync.vectors import attach, model_of
from hermes_mnemosyne.sync.wire import MAX_PAGE_BYTES, PROTOCOL, Page, WireError, encode_page, read_page

PREFIX = "client/"
"""Begins the keys under which the store keeps what the server knows of each replica."""
CAPABILITIES = ("gzip", "wait", "rows", "digests", "vectors", "restamp")
MOST_UIDS = 1000
_MOST_RESTAMPS = 5000
# How old the note of a last contact may become before it alone is worth a write, in seconds.
_SEEN_AGAIN = 600.0
_SHARED = ("entry", "turn")
_Op = TypeVar("_Op", bound=Operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """One page that was sent: by whom, with which key, when its first byte came (seconds since the epoch)."""

    replica: str
    mark: str
    grant: Grant
    encoding: str
    body: bytes
    came: float


class Exchange:
    """The server's part of sync on one memory. Safe from any thread; requests of one replica come one after the other."""

    def __init__(self, memory: Memory) -> None:
        """Take an open memory whose reach is everything."""
        self._memory = memory
        self._engine: Engine = memory.engine
        self.counters: Counter[str] = Counter()

    @property
    def store(self) -> Store:
        """The store. Raises StoreError."""
        return self._engine.store

    def position(self) -> int:
        """Return the last change number of the store. Raises StoreError."""
        return self.store.position()

    def status(self, grant: Grant) -> dict[str, Any]:
        """Return who the server is, for the holder of a key. Raises StoreError."""
        store = self.store
        return {
            "product": "mnemosyne",
            "protocol": PROTOCOL,
            "capabilities": list(CAPABILITIES),
            "replica": store.replica,
            "position": store.position(),
            "now": now_text(),
            "rights": [word for word, has in (("read", grant.read), ("write", grant.write)) if has],
            "themes": None if grant.themes is None else sorted(grant.themes),
            "model": model_of(self.store),
            "subject_key": store.meta("subject_key"),
            "sealed": False,
        }

    # -- out ---------------------------------------------------------------------------------------------------------------------

    def present(self, ask: Pull) -> None:
        """Raise Refused (409) for a mark that shows another file or another server than it was."""
        if ask.replica:
            self._presented(ask.replica, ask.mark)

    def pull(self, ask: Pull, grant: Grant, *, start: int, is_patient: bool) -> bytes | int:
        """Return the page that is asked for; up to `start` there is nothing for it, as is known already.

        With `is_patient` an empty page is not made: the position up to which there is nothing is returned. Raises Refused, StoreError.
        """
        self._drain()
        store, sharing = self.store, ask.filters.within(grant)
        own = model_of(self.store)
        model = own if ask.model is not None and ask.model == own else None
        changes = store.changes(
            max(ask.after, start),
            sharing,
            limit=ask.limit,
            max_bytes=MAX_PAGE_BYTES,
            skip=ask.skip,
            model=model,
        )
        if is_patient and not changes.records and not changes.more:
            return changes.position
        mark = self._issued(ask, grant, changes.position) if ask.replica else None
        head = {
            "server": store.replica,
            "after": ask.after,
            "position": changes.position,
            "more": changes.more,
            "mark": mark,
            "sharing": fingerprint(sharing),
            "now": now_text(),
            "model": model,
        }
        self.counters["records_sent"] += len(changes.records)
        return encode_page(head, map(to_wire, changes.records))

    def _issued(self, ask: Pull, grant: Grant, position: int) -> str:
        """Return the mark of an answer, kept first where it is a new one."""
        kept, marks = self._presented(ask.replica, ask.mark)
        after, mark = marks.issue(position)
        state = {**kept, **after.kept()}
        is_stale = time.time() - _seconds(kept.get("seen")) > _SEEN_AGAIN
        if state != kept or is_stale:
            if marks.presented != Marks.of(kept).presented:
                state["restamped"] = {}
            state |= {"seen": now_text(), "key": grant.name, "told": position}
            self._apply([self._make(KeepState, key=PREFIX + ask.replica, value=state)])
        return mark

    def rows(self, grant: Grant, filters: Filters, uids: Sequence[str]) -> bytes:
        """Return a page with every record about these uids. Raises StoreError."""
        store = self.store
        records = store.records_of(uids, filters.within(grant))
        self.counters["records_sent"] += len(records)
        head = {"server": store.replica, "position": store.position(), "more": False, "now": now_text(), "model": None}
        return encode_page(head, map(to_wire, records))

    def digests(self, grant: Grant, filters: Filters, place: Place) -> dict[str, Any]:
        """Return the digests of a place. Raises StoreError."""
        store = self.store
        sharing = filters.within(grant)
        if place.theme is None:
            return {"places": [list(row) for row in store.digests(sharing)]}
        if place.bucket is None:
            return {"buckets": [list(row) for row in store.buckets(place.theme, place.subject, sharing)]}
        return {"rows": [list(row) for row in store.bucket_rows(place.theme, place.subject, place.bucket, sharing)]}

    # -- in ----------------------------------------------------------------------------------------------------------------------

    def push(self, pushed: Pushed) -> dict[str, Any]:
        """Take in one page, in one transaction, and return the answer. Raises Refused, WireError, StoreError."""
        page = read_page([pushed.body], encoding=pushed.encoding)
        if page.head.get("replica") != pushed.replica:
            raise malformed("the head of the page names another replica than the request")
        self._drain()
        kept, marks = self._presented(pushed.replica, pushed.mark)
        sender = _sender(pushed, page.head, kept)
        before = {} if marks.presented != Marks.of(kept).presented else dict(kept.get("restamped") or {})
        inbox = _Inbox(page, pushed.grant)
        new = corrections((record for _, record in inbox.taken), sender, self._engine.clock.tick, before)
        # What the store gives the answer as its position is not known before; a mark without one is never given twice.
        after, mark = marks.issue(NO_POSITION, fresh=bool(inbox.taken))
        state = {
            **after.kept(),
            "skip": [],
            "seen": now_text(),
            "key": pushed.grant.name,
            "skew": round(sender.skew / 1000, 3),
            "restamps": int(kept.get("restamps", 0)) + len(new.keys() - before.keys()),
            "restamped": dict(list({**before, **new}.items())[-_MOST_RESTAMPS:]),
        }
        records = [_with_vector(corrected(record, new)) for _, record in inbox.taken]
        outcomes = self._merged(records, PREFIX + pushed.replica, state)
        attach(self.store, page.head.get("model"), records, outcomes[:-1])
        counts = outcomes[-1].counts
        inbox.report(outcomes[:-1])
        restamped = [
            {**record, "was": sent["clock"]}
            for (_, sent), record in zip(inbox.taken, records, strict=True)
            if record.get("clock") != sent.get("clock")
        ]
        self._count(outcomes[:-1], inbox, len(restamped))
        return {
            "protocol": PROTOCOL,
            "records": len(page.records) + len(page.set_aside),
            "refused": inbox.refused,
            "set_aside": inbox.set_aside,
            "restamped": [{name: value for name, value in record.items() if name != "vector"} for record in restamped],
            "first": counts["first"],
            "last": counts["last"],
            "mixed": bool(counts["mixed"]),
            "mark": mark,
            "now": now_text(),
        }

    def _merged(self, records: Iterable[Mapping[str, Any]], key: str, state: Mapping[str, Any]) -> list[Outcome]:
        end = self._make(Received, key=key, state=state)
        tick = self._engine.clock.tick
        ops: list[Operation] = []
        forgets = False
        for record in records:
            forgets = forgets or record.get("state") == "forgotten"
            theme, subject = record["theme"], record.get("subject", "")
            # Made by hand: of thousands `Memory.make` would be felt.
            ops.append(MergeRecord(op_id=end.op_id, clock=tick(), at=end.at, theme=theme, subject=subject, record=record))
        ops.append(end)
        if forgets:
            self._engine.bind_key()
        return self._apply(ops)

    def _apply(self, ops: Sequence[Operation]) -> list[Outcome]:
        return self.store.apply(ops, wait=self._engine.settings.busy_timeout)

    def _count(self, outcomes: Sequence[Outcome], inbox: _Inbox, restamped: int) -> None:
        self.counters["records_received"] += len(outcomes)
        self.counters["records_refused"] += len(inbox.refused)
        self.counters["records_set_aside"] += len(inbox.set_aside)
        self.counters["records_restamped"] += restamped
        if any(outcome.uids for outcome in outcomes):
            # For vectors, and to clear away what was forgotten.
            self._engine.wake()

    # -- inside ------------------------------------------------------------------------------------------------------------------

    def _make(self, kind: type[_Op], **fields: Any) -> _Op:
        return replace(self._memory.make(kind, **fields), theme="", subject="")

    def _presented(self, replica: str, mark: str) -> tuple[dict[str, Any], Marks]:
        """Return what is kept of a replica, and its marks after it presented one. Raises Refused (409), StoreError."""
        if replica == self.store.replica:
            raise cloned()
        kept = self.store.sync_states(PREFIX + replica).get(PREFIX + replica, {})
        return kept, Marks.of(kept).present(mark)

    def _drain(self) -> None:
        """Let what this machine has accepted count; a store that cannot be written now is read as it is."""
        with contextlib.suppress(StoreBusy, StoreFull, StoreUnavailable):
            if not self._engine.spool.is_empty():
                self._engine.drain()

    def replicas(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each replica, by its id. Raises StoreError."""
        return {key.removeprefix(PREFIX): state for key, state in self.store.sync_states(PREFIX).items()}


class _Inbox:
    """The records of a page by what is to be done with them; `taken` holds the line of each, from 1, and the record."""

    def __init__(self, page: Page, grant: Grant) -> None:
        self.taken: list[tuple[int, dict[str, Any]]] = []
        self.refused: list[dict[str, Any]] = []
        self.set_aside: list[dict[str, Any]] = [{"line": line, "why": why} for line, why in page.set_aside]
        self._is_narrow = grant.themes is not None
        missing = {line for line, _ in page.set_aside}
        lines = (line for line in range(2, len(page.records) + len(missing) + 2) if line not in missing)
        for line, record in zip(lines, page.records, strict=True):
            theme, subject, uid = record.get("theme"), record.get("subject", ""), record.get("uid")
            if not isinstance(theme, str) or not theme or not isinstance(subject, str) or not isinstance(uid, str):
                self.set_aside.append({"line": line, "why": "uid, theme and subject must be text"})
            elif grant.themes is not None and theme.casefold() not in grant.themes:
                self._refuse(record, "forbidden")
            elif record.get("type") in _SHARED and record.get("visibility") == "local":
                self._refuse(record, "local")
            else:
                self.taken.append((line, record))

    def _refuse(self, record: Mapping[str, Any], why: str) -> None:
        self.refused.append({"uid": record["uid"], "theme": record["theme"], "why": why})

    def report(self, outcomes: Sequence[Outcome]) -> None:
        """Note what the store did not take."""
        for (line, record), outcome in zip(self.taken, outcomes, strict=True):
            if outcome.status == "failed":
                # A key for some themes learns nothing of rows in others.
                why = "it cannot be stored" if self._is_narrow else outcome.error
                self.set_aside.append({"line": line, "why": why})
            elif outcome.status == "refused":
                self._refuse(record, outcome.notes[0] if outcome.notes else "refused")


def _sender(pushed: Pushed, head: Mapping[str, Any], kept: Mapping[str, Any]) -> Sender:
    """Return whose records a page holds, by the clock that its head tells."""
    now, told = round(pushed.came * 1000), head.get("now")
    skew = 0
    if isinstance(told, str) and is_time(told):
        skew = round(parse_utc(told).timestamp() * 1000) - now
    since = round(_seconds(kept.get("seen")) * 1000) if "seen" in kept else None
    return Sender(replica=pushed.replica, now=now, skew=skew, since=since)


def _with_vector(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as the store takes it; a vector that is none is computed anew, the text counts."""
    try:
        return from_wire(record)
    except WireError:
        return {name: value for name, value in record.items() if name != "vector"}


def _seconds(text: Any) -> float:
    return parse_utc(text).timestamp() if isinstance(text, str) and is_time(text) else 0.0
