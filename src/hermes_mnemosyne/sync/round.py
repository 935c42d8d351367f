"""One round: the server's rows come, then ours go, page by page; each page and how far it brought us is one transaction.

Whatever is lost on the way is asked for or sent again: a row that was taken in already changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hermes_mnemosyne._errors import StoreBusy, StoreError, StoreFull, StoreUnavailable
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.figures import REMOTES
from hermes_mnemosyne.store.operations import MergeRecord, NewReplica, Operation, Outcome, Received, Restamp
from hermes_mnemosyne.sync import state as states
from hermes_mnemosyne.sync.exchange import RemoteError, Stopped
from hermes_mnemosyne.sync.lock import alone
from hermes_mnemosyne.sync.remote import Pull, Remote
from hermes_mnemosyne.sync.sharing import Wanted, to_wire
from hermes_mnemosyne.sync.state import State
from hermes_mnemosyne.sync.summary import Summary
from hermes_mnemosyne.sync.terms import Terms, terms_of
from hermes_mnemosyne.sync.vectors import attach
from hermes_mnemosyne.sync.verify import Difference, differences
from hermes_mnemosyne.sync.wire import MAX_PAGE_BYTES, PAGE_RECORDS, Page, encode_page

LOCK_SECONDS = 10.0
_RESTARTS = 3
_HEALED_AT_ONCE = 500
_LARGE_SKEW = 300.0
# All that a page may change; `skip` is the store's to add to.
_KEPT = (
    "url", "server", "mark", "pulled", "pushed", "theirs", "basis", "sharing", "healing", "include", "exclude", "turns",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a round is done: under which `name` the remote is kept (empty: its URL), what is shared, how large a page may be.

    `step` is told how many records a page had.
    """

    name: str = ""
    wanted: Wanted = field(default_factory=Wanted)
    limit: int = PAGE_RECORDS
    lock_wait: float = LOCK_SECONDS
    step: Callable[[int], None] = lambda _: None
    stop: threading.Event | None = None


def sync_once(memory: Memory, remote: Remote, options: Options) -> Summary:
    """Do one round and return what it did; what went wrong stands in `errors`, and the next round goes on from there.

    Raises StoreError when the store cannot be used at all, StoreBusy while another round is under way on it.
    """
    with alone(memory.engine, wait=options.lock_wait, stop=options.stop):
        return Round(memory, remote, options).run()


class Round:
    """One round. For one thread, under the lock of the store's rounds."""

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

    def run(self) -> Summary:
        """Do the round."""
        began = time.monotonic()
        try:
            self._drain()
            self.meet()
            self._settle()
        except (RemoteError, StoreError) as error:
            self.summary.errors.append(str(error))
        except Stopped:
            self.summary.stopped = True
        else:
            self.summary.complete = True
        self.summary.seconds = time.monotonic() - began
        self.summary.skew = self._remote.skew
        self._note()
        return self.summary

    # -- before the first page ---------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Let what this machine has accepted through any door be a change of the store."""
        engine = self._memory.engine
        try:
            left = 0 if engine.spool.is_empty() else engine.drain(wait=engine.settings.busy_timeout).left
        except (StoreBusy, StoreFull, StoreUnavailable) as error:
            self.summary.warnings.append(f"what waits in the spool stays there for now: {error}")
            return
        if left:
            self.summary.warnings.append(f"{left} writes wait in the spool: 'mnemosyne spool' tells why")

    def meet(self) -> Terms:
        """Ask the server who it is, and settle what may travel between it and this store. Raises RemoteError, StoreError."""
        asked = self._options.wanted
        self._terms = terms = terms_of(asked, self._store, self._remote.status())
        self.summary.wanted = terms.wanted
        if terms.left_out:
            names = ", ".join(sorted(terms.left_out))
            self.summary.warnings.append(f"{names}: left out, since both sides do not hold the same subject key")
        if terms.is_empty:
            raise RemoteError(
                f"{self._remote.url}: none of the themes asked for may travel: check --include and the key's themes"
            )
        if abs(self._remote.skew) > _LARGE_SKEW:
            ahead = "ahead of" if self._remote.skew > 0 else "behind"
            self.summary.warnings.append(f"the clock here is {abs(self._remote.skew):.0f} s {ahead} the server's: correct one")
        self._state = replace(self._state, url=self._remote.url, include=asked.include, exclude=asked.exclude, turns=asked.turns)
        if self._state.basis != terms.basis:
            self._state = replace(self._state, basis=terms.basis, pulled=0, pushed=0)
        return terms

    def _settle(self) -> None:
        for left in reversed(range(_RESTARTS)):
            try:
                if self._state.healing:
                    self._heal()
                self._pull()
                self._push()
            except RemoteError as error:
                if not left or not error.proven or error.word not in {"cloned", "unknown-mark"}:
                    raise
                if error.word == "cloned":
                    self._rename()
                else:
                    self._state = replace(self._state.anew(), healing=True)
                    states.save(self._memory, self._name, self._state)
            else:
                return

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
        records = [record for record in page.records if self._admits(record)]
        if not page.records and not page.set_aside:
            # Nothing to be stored with: what was learned is kept at the end of the round, and the mark not shown before that.
            self._state = replace(after, mark=self._state.mark)
            self._unsaved_mark = after.mark
            return
        outcomes = self._merge(records, after.kept(*_KEPT))
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
        ops.append(states.make(self._memory, Received, key=REMOTES + self._name, state=state))
        outcomes = states.apply(self._memory, ops)
        if any(outcome.uids for outcome in outcomes) and not engine.one_shot:
            engine.wake()
        return outcomes[:-1]

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
            answer = self._remote.push(self._store.replica, self._state.mark, encode_page(head, map(to_wire, records)))
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
        ops = [*self._restamps(answer), self._received({**after.kept(*_KEPT), "skip": [list(pair) for pair in skip]})]
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

    # -- when positions are worth nothing ----------------------------------------------------------------------------------------

    def _rename(self) -> None:
        """Take a new replica id: this file is a copy of another one, or was restored."""
        [outcome] = states.apply(self._memory, [states.make(self._memory, NewReplica)])
        self._memory.engine.clock.adopt(outcome.uid, self._store.last_clock())
        self.summary.new_replica = outcome.uid
        self.summary.warnings.append(
            "this store is a copy, or was restored: it has a new replica id and syncs from the beginning"
        )
        self._state = self._state.anew()

    def _heal(self) -> None:
        """Find by digests what each side lacks, and go on from here: the server was restored or emptied."""
        there, here = self._remote.status()["position"], self._store.position()
        self.summary.warnings.append("the server was restored or emptied: both sides are compared")
        self.mend(self.differences())
        if not self._state.mark and self._terms.writes:
            self._send((), self._state)
        self._state = replace(self._state, pulled=there, pushed=here, healing=False)
        states.save(self._memory, self._name, self._state)

    def differences(self) -> Iterator[Difference]:
        """Yield the rows that differ. Raises RemoteError, StoreError."""
        return differences(self._store, self._terms.sharing, self._remote, self._terms.wanted)

    def mend(self, found: Iterable[Difference]) -> None:
        """Take what is only there, or otherwise there, and send what the server lacks. Raises RemoteError, StoreError."""
        batch: list[Difference] = []
        for one in found:
            batch.append(one)
            if len(batch) >= _HEALED_AT_ONCE:
                self._mend(batch)
                batch = []
        if batch:
            self._mend(batch)

    def _mend(self, batch: Sequence[Difference]) -> None:
        there = [one.uid for one in batch if one.there]
        if there and self._terms.reads:
            page = self._remote.rows(self._store.replica, there, self._terms.wanted)
            records = [record for record in page.records if self._admits(record)]
            outcomes = self._merge(records, self._state.kept(*_KEPT))
            self._report(records, outcomes)
            self._reload(self._state)
        if self._terms.writes:
            rows = self._store.records_of([one.uid for one in batch], self._terms.sharing, model=self._terms.model)
            for start in range(0, len(rows), self._limit):
                self._send_all(rows[start : start + self._limit])
        self.summary.healed += len(batch)

    def _send_all(self, records: Sequence[Mapping[str, Any]]) -> None:
        if not self._send(records, self._state):
            half = max(1, len(records) // 2)
            self._send_all(records[:half])
            self._send_all(records[half:])

    # -- after the last page -----------------------------------------------------------------------------------------------------

    def _note(self) -> None:
        """Keep how the round went. A store that cannot be written has said so already."""
        now = now_text()
        problem = "; ".join(self.summary.errors) or None
        totals = {name: self._state.totals.get(name, 0) + getattr(self.summary, name) for name in states.TOTALS}
        state = replace(
            self._state,
            mark=self._unsaved_mark or self._state.mark,
            last_try=now,
            last_error=problem,
            last_success=now if self.summary.complete else self._state.last_success,
            skew=round(self._remote.skew, 3),
            totals=totals,
        )
        try:
            states.save(self._memory, self._name, state)
        except StoreError as error:
            if str(error) not in self.summary.errors:
                self.summary.errors.append(str(error))
            self.summary.complete = False
        else:
            self._state, self._unsaved_mark = state, ""
