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
from hermes_mnemosyne.figures import CLIENTS, clients_of
from hermes_mnemosyne.store.operations import KeepSealed, KeepState, MergeRecord, Operation, Outcome, Received
from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.store.records import is_time
from hermes_mnemosyne.store.replicating import Feed
from hermes_mnemosyne.sync.clocks import Sender, corrected, corrections
from hermes_mnemosyne.sync.keyring import Grant
from hermes_mnemosyne.sync.server.answers import malformed
from hermes_mnemosyne.sync.server.asking import Filters, Place, Pull, fingerprint
from hermes_mnemosyne.sync.server.inbox import Inbox
from hermes_mnemosyne.sync.server.marks import NO_POSITION, Marks, cloned
from hermes_mnemosyne.sync.server.sealing import Modes, SealedInbox, held
from hermes_mnemosyne.sync.sharing import from_wire, to_wire
from hermes_mnemosyne.sync.vectors import attach, model_of
from hermes_mnemosyne.sync.wire import MAX_PAGE_BYTES, PROTOCOL, Page, WireError, encode_page, read_page

CAPABILITIES = ("gzip", "wait", "rows", "digests", "vectors", "restamp", "sealed")
MOST_UIDS = 1000
_MOST_RESTAMPS = 5000
# How old the note of a last contact may become before it alone is worth a write, in seconds.
_SEEN_AGAIN = 600.0
_Op = TypeVar("_Op", bound=Operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """One page that was sent: by whom, with which key, when its first byte came (seconds since the epoch).

    Of a sealed one `seen` tells how far its sender knows the sealed records here.
    """

    replica: str
    mark: str
    grant: Grant
    encoding: str
    body: bytes
    came: float
    sealed: bool = False
    seen: int | None = None


@dataclass(frozen=True, slots=True)
class _Sent:
    """A page on its way in: as it was read, with what is kept of its sender, and its clock."""

    pushed: Pushed
    page: Page
    kept: Mapping[str, Any]
    marks: Marks
    sender: Sender

    @property
    def before(self) -> dict[str, str]:
        """Clocks that were corrected before, of records that may come again."""
        is_told = self.marks.presented != Marks.of(self.kept).presented
        return {} if is_told else dict(self.kept.get("restamped") or {})

    def state(self, new: Mapping[str, str], *, is_fresh: bool) -> tuple[dict[str, Any], str]:
        """Return what is to be kept of the sender, and the mark of the answer; `new` are the clocks that were corrected."""
        # What the store gives the answer as its position is not known before; a mark without one is never given twice.
        after, mark = self.marks.issue(NO_POSITION, fresh=is_fresh)
        before = self.before
        state = {
            **after.kept(),
            "skip": [],
            "seen": now_text(),
            "key": self.pushed.grant.name,
            "skew": round(self.sender.skew / 1000, 3),
            "restamps": int(self.kept.get("restamps", 0)) + len(new.keys() - before.keys()),
            "restamped": dict(list({**before, **new}.items())[-_MOST_RESTAMPS:]),
        }
        return state, mark

    def answer(self, inbox: Inbox | SealedInbox, received: Outcome, mark: str, **more: Any) -> dict[str, Any]:
        """Return the answer."""
        counts = received.counts
        return {
            "protocol": PROTOCOL,
            "records": len(self.page.records) + len(self.page.set_aside),
            "refused": inbox.refused,
            "set_aside": inbox.set_aside,
            "first": counts["first"],
            "last": counts["last"],
            "mixed": bool(counts["mixed"]),
            "mark": mark,
            "now": now_text(),
            **more,
        }


class Exchange:
    """The server's part of sync on one memory. Safe from any thread; requests of one replica come one after the other."""

    def __init__(self, memory: Memory) -> None:
        """Take an open memory whose reach is everything."""
        self._memory = memory
        self._engine: Engine = memory.engine
        self.counters: Counter[str] = Counter()
        self._modes = Modes(memory)

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
            "sealed": self._modes.known(),
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
        feed = self._feed(ask.filters)
        own = model_of(self.store)
        model = own if ask.model is not None and ask.model == own else None
        changes = feed.changes(
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
            self._apply([self._make(KeepState, key=CLIENTS + ask.replica, value=state)])
        return mark

    def rows(self, grant: Grant, filters: Filters, uids: Sequence[str]) -> bytes:
        """Return a page with every record about these uids. Raises StoreError."""
        store = self.store
        records = self._feed(filters).records_of(uids, filters.within(grant))
        self.counters["records_sent"] += len(records)
        head = {"server": store.replica, "position": store.position(), "more": False, "now": now_text(), "model": None}
        return encode_page(head, map(to_wire, records))

    def digests(self, grant: Grant, filters: Filters, place: Place) -> dict[str, Any]:
        """Return the digests of a place. Raises StoreError."""
        feed = self._feed(filters)
        sharing = filters.within(grant)
        if place.theme is None:
            return {"places": [list(row) for row in feed.digests(sharing)]}
        if place.bucket is None:
            return {"buckets": [list(row) for row in feed.buckets(place.theme, place.subject, sharing)]}
        return {"rows": [list(row) for row in feed.bucket_rows(place.theme, place.subject, place.bucket, sharing)]}

    def _feed(self, filters: Filters) -> Feed:
        """Return the rows that are asked for: our own, or those that only others can read. Raises Refused (409), StoreError."""
        self._modes.demand(is_sealed=filters.sealed)
        return self.store.sealed if filters.sealed else self.store

    # -- in ----------------------------------------------------------------------------------------------------------------------

    def push(self, pushed: Pushed) -> dict[str, Any]:
        """Take in one page, in one transaction, and return the answer. Raises Refused, WireError, StoreError."""
        page = read_page([pushed.body], encoding=pushed.encoding)
        if page.head.get("replica") != pushed.replica:
            raise malformed("the head of the page names another replica than the request")
        self._drain()
        self._modes.settle(is_sealed=pushed.sealed, has_rows=bool(page.records))
        kept, marks = self._presented(pushed.replica, pushed.mark)
        sent = _Sent(pushed, page, kept, marks, _sender(pushed, page.head, kept))
        return self._push_sealed(sent) if pushed.sealed else self._push_clear(sent)

    def _push_clear(self, sent: _Sent) -> dict[str, Any]:
        page = sent.page
        inbox = Inbox(page, sent.pushed.grant)
        new = corrections((record for _, record in inbox.taken), sent.sender, self._engine.clock.tick, sent.before)
        state, mark = sent.state(new, is_fresh=bool(inbox.taken))
        records = [_with_vector(corrected(record, new)) for _, record in inbox.taken]
        outcomes = self._merged(records, CLIENTS + sent.pushed.replica, state)
        attach(self.store, page.head.get("model"), records, outcomes[:-1])
        inbox.report(outcomes[:-1])
        restamped = [
            {**record, "was": was["clock"]}
            for (_, was), record in zip(inbox.taken, records, strict=True)
            if record.get("clock") != was.get("clock")
        ]
        self._count(outcomes[:-1], inbox, len(restamped))
        plain = [{name: value for name, value in record.items() if name != "vector"} for record in restamped]
        return sent.answer(inbox, outcomes[-1], mark, restamped=plain)

    def _push_sealed(self, sent: _Sent) -> dict[str, Any]:
        """Keep what only others can read; what must be joined first, or dated anew, goes back."""
        grant = sent.pushed.grant
        inbox = SealedInbox(
            sent.page, grant, lambda records: corrections(records, sent.sender, self._engine.clock.tick, sent.before)
        )
        state, mark = sent.state(inbox.corrections, is_fresh=bool(inbox.taken))
        # Who may not read cannot join: there the later clock wins unseen.
        seen = sent.pushed.seen if grant.read else None
        ops = [
            self._make(KeepSealed, records=tuple(inbox.taken), seen=seen, themes=grant.themes),
            self._make(Received, key=CLIENTS + sent.pushed.replica, state=state),
        ]
        kept, received = self._apply(ops)
        stale = inbox.report(kept)
        self._count([kept], inbox, len(inbox.misdated))
        self.counters["records_received"] += len(inbox.taken) - 1
        found = held(self.store.sealed, stale) if grant.read else []
        return sent.answer(inbox, received, mark, restamped=[], stale=found, misdated=inbox.misdated)

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

    def _count(self, outcomes: Sequence[Outcome], inbox: Inbox | SealedInbox, restamped: int) -> None:
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
        kept = self.store.sync_states(CLIENTS + replica).get(CLIENTS + replica, {})
        return kept, Marks.of(kept).present(mark)

    def _drain(self) -> None:
        """Let what this machine has accepted count; a store that cannot be written now is read as it is."""
        with contextlib.suppress(StoreBusy, StoreFull, StoreUnavailable):
            if not self._engine.spool.is_empty():
                self._engine.drain()

    def replicas(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each replica, by its id. Raises StoreError."""
        return clients_of(self.store)


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
