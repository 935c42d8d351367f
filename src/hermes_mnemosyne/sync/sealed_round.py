"""A round with a server that cannot read: records are sealed before they go and opened when they come.

The server joins nothing. Where it holds a version that this store does not know, or another one of the same clock, it says so: this
side joins the two and sends what came of it. Where a clock is wrong, this side seals a new version with a corrected one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.figures import REMOTES
from hermes_mnemosyne.identity import is_bucket
from hermes_mnemosyne.store.operations import KeepState, Operation, Outcome
from hermes_mnemosyne.store.replicating import Sealed, Sharing
from hermes_mnemosyne.sync import seal
from hermes_mnemosyne.sync import state as states
from hermes_mnemosyne.sync.clocks import corrected
from hermes_mnemosyne.sync.exchange import RemoteError
from hermes_mnemosyne.sync.pages import KEPT, Options
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.round import Round
from hermes_mnemosyne.sync.seal import Sealer, SealError
from hermes_mnemosyne.sync.sealed_proof import Opened, SealedProof
from hermes_mnemosyne.sync.sealed_terms import CAPABILITY, Reading, sealed_terms
from hermes_mnemosyne.sync.state import State
from hermes_mnemosyne.sync.summary import Summary
from hermes_mnemosyne.sync.terms import Terms
from hermes_mnemosyne.sync.verify import Difference
from hermes_mnemosyne.sync.wire import Page

# Whoever else writes the same rows at the same time is given way to this often in a round.
_MOST_JOINS = 5
_MOST_PASSES = 3
# A page and what may come of it; of more all goes back.
_MOST_CHANGED, _MOST_BYTES = 10_000, 64 * 2**20
# Of these no clock can be corrected here.
_OF_THE_PAST = {"history", "alias"}


class SealedRound(Round):
    """One round with a server that cannot read what it relays."""

    def __init__(self, memory: Memory, remote: Remote, options: Options) -> None:
        """Take options that say what seals. Raises StoreError."""
        super().__init__(memory, remote, options)
        if options.sealer is None:
            raise InvalidInput("a sealed round needs a seal key: add --seal-key-file")
        self._sealer: Sealer = options.sealer
        self._unopened: Counter[str] = Counter()
        self._over: dict[tuple[str, str], str] = {}
        self._corrected: list[dict[str, Any]] = []
        self._merged: states.Interval | None = None
        self._joins = 0
        self._is_anew = False
        self._has_new = False

    def _agreed(self, server: Mapping[str, Any]) -> Terms:
        if CAPABILITY not in (server.get("capabilities") or ()):
            raise RemoteError(f"{self._remote.url} keeps no sealed rows: update the server")
        terms = sealed_terms(self._options.wanted, self._store, server, self._sealer)
        self._reading = Reading(sharing=terms.wanted.sharing(), subject_key=self._store.meta("subject_key"))
        return terms

    # -- what comes --------------------------------------------------------------------------------------------------------------

    def readable(self, page: Page) -> list[dict[str, Any]]:
        """Return the records of a page that open and were asked for."""
        return [record for _, record in self._opened(page.records) if record is not None and self._admits(record)]

    def _admits(self, record: Mapping[str, Any]) -> bool:
        # What was sealed comes from one of ours, and was looked through when it was opened.
        return record.get("visibility") != "local" and isinstance(record.get("subject"), str)

    def _opened(self, records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yield uid and record of what was asked for; None in place of a record that cannot be opened."""
        foreign = 0
        for sent in records:
            uid = str(sent.get("uid"))
            try:
                record = self._sealer.open(seal.from_wire(sent))
            except SealError as error:
                self._unopened[error.key] += 1
                self.summary.refuse("set_aside", "here", uid, str(error))
                yield uid, None
                continue
            except ValueError as error:
                self.summary.refuse("set_aside", "here", uid, str(error))
                yield uid, None
                continue
            if not self._reading.takes(record):
                continue
            if self._reading.is_foreign(record):
                foreign += 1
                continue
            record.pop("subject_key", None)
            yield uid, record
        if foreign:
            self.summary.warnings.append(f"{foreign} records of contacts were left out: they were sent with another subject key")

    def run(self) -> Summary:
        """Do the round."""
        summary = super().run()
        for key, count in sorted(self._unopened.items()):
            known = key in self._sealer.key_ids
            why = "are damaged, or were changed" if known else "need that key in the key file"
            summary.warnings.append(f"{count} records that are sealed with the key {key} could not be opened: they {why}")
        return summary

    def _merge(self, records: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> list[Outcome]:
        """Merge records; what came of them goes back unless it is what came: the server merges nothing by itself."""
        before = self._store.position()
        outcomes = super()._merge(records, state)
        now = self._store.position()
        came = {_text(record) for record in records}
        found = self._store.changes(before, Sharing(turns=True), limit=_MOST_CHANGED, max_bytes=_MOST_BYTES)
        is_plain = not found.more and all(_text(record) in came for record in found.records)
        self._merged = (before + 1, now) if is_plain and before < now <= found.position else None
        return outcomes

    def _reached(self, state: Mapping[str, Any]) -> Operation:
        known = states.load(self._memory, self._name).kept()
        skip = [list(pair) for pair in self._state.skip]
        op: Operation = states.make(self._memory, KeepState, key=REMOTES + self._name, value={**known, **state, "skip": skip})
        return op

    def _reload(self, after: State) -> None:
        super()._reload(after)
        if self._merged is not None:
            skip = states.joined(self._state.skip, self._merged, after=self._state.pushed)
            self._state, self._merged = replace(self._state, skip=skip), None

    # -- what goes ---------------------------------------------------------------------------------------------------------------

    def _outside(self, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [seal.to_wire(self._sealed(record)) for record in records]

    def _sealed(self, record: Mapping[str, Any]) -> Sealed:
        if is_bucket(record["theme"]):
            record = {**record, "subject_key": self._reading.subject_key}
        sealed = self._sealer.seal(record, anew=self._is_anew)
        over = self._over.get((sealed.uid, sealed.slot))
        return sealed if over is None else replace(sealed, over=(*sealed.over, over))

    def _pushed(self, body: bytes) -> dict[str, Any]:
        also = [("sealed", "1"), ("seen", str(self._state.pulled))]
        return self._remote.push(self._store.replica, self._state.mark, body, also)

    def _push(self) -> None:
        """Send what is new; after a change of the first key, or when it was asked for, everything, sealed anew."""
        first = self._sealer.key_ids[0]
        self._is_anew = self._options.reseal or self._state.sealed_with not in {"", first}
        if self._is_anew and self._terms.writes:
            self._state = replace(self._state, pushed=0, skip=())
        for _ in range(_MOST_PASSES):
            self._has_new = False
            super()._push()
            if not self._has_new:
                break
        if self._terms.writes:
            self._state = replace(self._state, sealed_with=first)
        self._is_anew = False

    def _answered(self, answer: Mapping[str, Any], records: Sequence[Mapping[str, Any]], after: State) -> None:
        stale = _list(answer, "stale")
        misdated = {str(one.get("was")): str(one.get("clock")) for one in _list(answer, "misdated")}
        wrong = [record for record in records if record["clock"] in misdated]
        later = [record for record in wrong if record["type"] in _OF_THE_PAST]
        self._restamp([{**corrected(record, misdated), "was": record["clock"]} for record in wrong])
        is_joining = bool(stale or later)
        # How far this side is counts only when nothing of the page is left to be sent.
        told = replace(after, pushed=self._state.pushed) if is_joining else after
        super()._answered({**answer, "restamped": ()}, records, told)
        if not is_joining:
            return
        self._joins += 1
        if self._joins > _MOST_JOINS:
            raise RemoteError(f"{self._remote.url}: others change the same rows all the time: run again", retryable=True)
        if stale:
            self._join(stale)
        if later:
            self._corrected = [corrected(record, misdated) for record in later]
            self._send_all(self._corrected)
            self._corrected = []
        self._joins -= 1
        self._state = replace(self._state, pushed=after.pushed)

    def _restamp(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Correct clocks here. It is a change like any other, and goes to the server as one."""
        rows = [record for record in records if record["type"] not in _OF_THE_PAST]
        if not rows:
            return
        outcomes = states.apply(self._memory, self._restamps({"restamped": rows}))
        self.summary.restamped += sum(outcome.status == "updated" for outcome in outcomes)
        self._memory.engine.clock.wind_back(self._store.last_clock())
        self._has_new = True

    def _join(self, stale: Sequence[Mapping[str, Any]]) -> None:
        """Take in what the server holds in place of what was sent, and send what came of both."""
        held: dict[tuple[str, str], Sealed] = {}
        for one in stale:
            try:
                sealed = seal.from_wire(one)
            except ValueError as error:
                raise RemoteError(f"{self._remote.url} returns what is no sealed record ({error}): update the server") from error
            held[sealed.uid, sealed.slot] = sealed
        ours = {one.uid for one in held.values() if any(first <= one.seq <= last for first, last in self._state.theirs)}
        others = [seal.to_wire(one) for one in held.values() if one.uid not in ours]
        records = [record for _, record in self._opened(others) if record and self._admits(record)]
        if records:
            self._report(records, self._merge(records, self._state.kept(*KEPT)))
            self._reload(self._state)
            self._has_new = True
        # What somebody sealed with a key that is not here stays as it is.
        places = {place for place, one in held.items() if one.key in self._sealer.key_ids}
        self._send_over({place: held[place].tag for place in places})

    def _send_over(self, tags: Mapping[tuple[str, str], str]) -> None:
        """Send what stands here in some slots, in place of the boxes with these tags."""
        again: dict[tuple[str, str], Mapping[str, Any]] = {}
        now = self._store.records_of(sorted({uid for uid, _ in tags}), self._terms.sharing)
        for record in (*now, *self._corrected):
            sealed = self._sealed(record)
            place = (sealed.uid, sealed.slot)
            if place in tags and sealed.tag != tags[place]:
                again[place] = record
        self._over = {place: tags[place] for place in again}
        try:
            if again:
                self._send_all(list(again.values()))
        finally:
            self._over = {}

    # -- proof -------------------------------------------------------------------------------------------------------------------

    def differences(self) -> Iterator[Difference]:
        """Yield the rows that differ. Raises RemoteError, StoreError."""
        return SealedProof(self._store, self._remote, self._terms, self._sealer, self._looked_into).differences()

    def _looked_into(self, uids: Sequence[str]) -> Opened:
        page = self._remote.rows(self._store.replica, uids, self._terms.wanted)
        wanted: set[str] = set()
        cannot: set[str] = set()
        for uid, record in self._opened(page.records):
            (cannot if record is None else wanted).add(uid)
        return Opened(frozenset(wanted), frozenset(cannot))


def _text(record: Mapping[str, Any]) -> str:
    """Return a record as text by which it is told from others."""
    return json.dumps(record, sort_keys=True)


def _list(answer: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = answer.get(name) or ()
    return [one for one in found if isinstance(one, Mapping)]
