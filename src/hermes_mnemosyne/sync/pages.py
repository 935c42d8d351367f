"""The pages of one round, both ways: each page and how far it brought us is one transaction.

Whatever is lost on the way is asked for or sent again: a row that was taken in already changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.figures import REMOTES
from hermes_mnemosyne.store.operations import MergeRecord, Operation, Outcome, Received, Restamp
from hermes_mnemosyne.sync import state as states
from hermes_mnemosyne.sync.exchange import RemoteError
from hermes_mnemosyne.sync.remote import Pull, Remote
from hermes_mnemosyne.sync.sharing import Wanted, to_wire
from hermes_mnemosyne.sync.state import State
from hermes_mnemosyne.sync.summary import Summary
from hermes_mnemosyne.sync.terms import Terms
from hermes_mnemosyne.sync.vectors import attach
from hermes_mnemosyne.sync.wire import MAX_PAGE_BYTES, PAGE_RECORDS, Page, encode_page

if TYPE_CHECKING:
    from hermes_mnemosyne.sync.seal import Sealer

LOCK_SECONDS = 10.0
KEPT = (
    "url", "server", "mark", "pulled", "pushed", "theirs", "basis", "sharing", "healing", "include", "exclude", "turns", "sealed",
    "sealed_with",
)  # fmt: skip
"""What a page may change of a state; `skip` is the store's to add to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a round is done: under which `name` the remote is kept (empty: its URL), what is shared, how large a page may be.

    With a `sealer` the server is to read nothing, and with `reseal` all is sealed anew. `step` is told how many records a page had.
    """

    name: str = ""
    wanted: Wanted = field(default_factory=Wanted)
    sealer: Sealer | None = None
    reseal: bool = False
    limit: int = PAGE_RECORDS
    lock_wait: float = LOCK_SECONDS
    step: Callable[[int], None] = lambda _: None
    stop: threading.Event | None = None


class Pages:
    """What a round does page by page, under terms that were settled before."""

    _terms: Terms

    def __init__(self, memory: Memory, remote: Remote, options: Options) -> None:
        """Take a memory whose reach is everything, and a server. Raises StoreError."""
        self._memory = memory
        self._remote = remote
        self._options = options
        self._name = options.name or remote.url
        self._store = memory.engine.store
        self._state = states.load(memory, self._name)
        self._limit = options.limit
        self._bytes = MAX_PAGE_BYTES
        self._unsaved_mark = ""
        self.summary = Summary(self._name, remote.url)

    # -- pulling -----------------------------------------------------------------------------------------------------------------

    def _pull(self) -> None:
        if not self._terms.reads:
            return
        while True:
            state = self._state
            skip = tuple(pair for pair in state.theirs if pair[1] > state.pulled)
            page = self._remote.pull(
                Pull(
                    wanted=self._terms.wanted,
                    after=state.pulled,
                    replica=self._store.replica,
                    mark=state.mark,
                    limit=self._limit,
                    skip=skip,
                    model=self._terms.model,
                )
            )
            sharing = str(page.head.get("sharing") or "")
            if state.sharing not in {"", sharing} and state.pulled:
                self._state = replace(state, pulled=0, sharing=sharing)
                continue
            after = replace(
                state,
                pulled=page.head["position"],
                sharing=sharing,
                server=page.head["server"],
                mark=str(page.head.get("mark") or ""),
                theirs=tuple(pair for pair in skip if pair[1] > page.head["position"]),
            )
            self._take(page, after)
            if not page.head.get("more"):
                return

    def _take(self, page: Page, after: State) -> None:
        """Merge a page, and keep what it brought us to in the same transaction."""
        for line, why in page.set_aside:
            self.summary.refuse("set_aside", "here", f"line {line}", why)
        records = self.readable(page)
        if not page.records and not page.set_aside:
            # Nothing to be stored with: what was learned is kept at the end of the round, and the mark not shown before that.
            self._state = replace(after, mark=self._state.mark)
            self._unsaved_mark = after.mark
            return
        outcomes = self._merge(records, after.kept(*KEPT))
        self._report(records, outcomes)
        attach(self._store, self._terms.model, records, outcomes)
        self.summary.pulled += len(records)
        self._options.step(len(page.records))
        self._reload(after)

    def _reload(self, after: State) -> None:
        """Go on with what was kept: the store has added to it."""
        kept = states.load(self._memory, self._name)
        self._state = replace(after, skip=kept.skip)
        self._unsaved_mark = ""

    def readable(self, page: Page) -> list[dict[str, Any]]:
        """Return the records of a page that may be taken in."""
        return [record for record in page.records if self._admits(record)]

    def _admits(self, record: Mapping[str, Any]) -> bool:
        theme, uid = record.get("theme"), str(record.get("uid") or "")
        if not isinstance(theme, str) or not isinstance(record.get("subject", ""), str):
            self.summary.refuse("set_aside", "here", uid, "theme and subject must be text")
        elif not self._terms.sharing.admits(theme) or record.get("visibility") == "local":
            self.summary.refuse("refused", "here", uid, "it was not asked for")
        else:
            return True
        return False

    def _merge(self, records: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> list[Outcome]:
        """Merge records and return an outcome each; `state` is kept with them. Raises StoreError."""
        engine = self._memory.engine
        if any(record.get("state") == "forgotten" for record in records):
            engine.bind_key()
        ops: list[Operation] = [
            states.make(self._memory, MergeRecord, record=record, theme=record["theme"], subject=record.get("subject", "") or "")
            for record in records
        ]
        ops.append(self._reached(state))
        outcomes = states.apply(self._memory, ops)
        if any(outcome.uids for outcome in outcomes) and not engine.one_shot:
            engine.wake()
        return outcomes[:-1]

    def _reached(self, state: Mapping[str, Any]) -> Operation:
        """Return what keeps, with the rows of a page, how far it brought us."""
        return self._received(state)

    def _report(self, records: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome]) -> None:
        for record, outcome in zip(records, outcomes, strict=True):
            if outcome.status == "failed":
                self.summary.refuse("set_aside", "here", str(record.get("uid")), outcome.error)
            elif outcome.status == "refused":
                self.summary.refuse("refused", "here", str(record.get("uid")), ", ".join(outcome.notes) or "forgotten here")

    # -- pushing -----------------------------------------------------------------------------------------------------------------

    def _push(self) -> None:
        if not self._terms.writes:
            return
        while True:
            state = self._state
            changes = self._store.changes(
                state.pushed,
                self._terms.sharing,
                limit=self._limit,
                max_bytes=self._bytes,
                skip=state.skip,
                model=self._terms.model,
            )
            after = replace(state, pushed=changes.position)
            self.summary.position = changes.position
            if not changes.records:
                self._state = after
            elif not self._send(changes.records, after):
                continue
            if not changes.more:
                return

    def _send(self, records: Sequence[Mapping[str, Any]], after: State) -> bool:
        """Send a page; False when it was too large and smaller ones are to be tried. Raises RemoteError, StoreError."""
        head = {"replica": self._store.replica, "now": now_text(), "model": self._terms.model}
        try:
            answer = self._pushed(encode_page(head, self._outside(records)))
        except RemoteError as error:
            if error.word != "too-large":
                raise
            if len(records) > 1:
                self._limit, self._bytes = max(1, len(records) // 2), max(1, self._bytes // 2)
                return False
            if not error.proven:
                raise
            self.summary.refuse("refused", "there", str(records[0].get("uid")), f"larger than the server takes: {error}")
            self._state = after
            return True
        self._answered(answer, records, after)
        self.summary.pushed += len(records)
        self._options.step(len(records))
        return True

    def _outside(self, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return records as they are sent, one for each."""
        return [to_wire(record) for record in records]

    def _pushed(self, body: bytes) -> dict[str, Any]:
        """Send a page and return the answer. Raises RemoteError."""
        return self._remote.push(self._store.replica, self._state.mark, body)

    def _answered(self, answer: Mapping[str, Any], records: Sequence[Mapping[str, Any]], after: State) -> None:
        """Keep what became of a page that was sent; clocks that the server corrected are corrected here too."""
        for row in answer.get("refused") or ():
            self.summary.refuse("refused", "there", str(row.get("uid")), str(row.get("why")))
        for row in answer.get("set_aside") or ():
            # The head is line 1.
            number = int(row.get("line") or 0) - 2
            uid = str(records[number].get("uid")) if 0 <= number < len(records) else f"line {row.get('line')}"
            self.summary.refuse("set_aside", "there", uid, str(row.get("why")))
        theirs = after.theirs
        if not answer.get("mixed"):
            theirs = states.joined(theirs, (answer["first"], answer["last"]), after=after.pulled)
        after = replace(after, mark=answer["mark"], theirs=theirs)
        skip = tuple(pair for pair in after.skip if pair[1] > after.pushed)
        ops = [*self._restamps(answer), self._received({**after.kept(*KEPT), "skip": [list(pair) for pair in skip]})]
        outcomes = states.apply(self._memory, ops)
        restamped = sum(outcome.status == "updated" for outcome in outcomes[:-1])
        if restamped:
            self.summary.restamped += restamped
            self._memory.engine.clock.wind_back(self._store.last_clock())
        self._reload(after)

    def _restamps(self, answer: Mapping[str, Any]) -> list[Operation]:
        found: list[Operation] = []
        for record in answer.get("restamped") or ():
            was, uid, theme = record.get("was"), record.get("uid"), record.get("theme")
            if isinstance(was, str) and isinstance(uid, str) and isinstance(theme, str):
                plain = {name: value for name, value in record.items() if name != "was"}
                subject = str(record.get("subject") or "")
                found.append(
                    states.make(self._memory, Restamp, uid=uid, old_clock=was, record=plain, theme=theme, subject=subject)
                )
        return found

    def _received(self, state: Mapping[str, Any]) -> Operation:
        op: Operation = states.make(self._memory, Received, key=REMOTES + self._name, state=state)
        return op
