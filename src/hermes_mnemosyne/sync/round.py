"""One round: the server's rows come, then ours go; what has become of positions and of replica ids is found out on the way."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hermes_mnemosyne._errors import StoreBusy, StoreError, StoreFull, StoreUnavailable
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.store.operations import NewReplica
from hermes_mnemosyne.sync import state as states
from hermes_mnemosyne.sync.exchange import RemoteError, Stopped
from hermes_mnemosyne.sync.lock import alone
from hermes_mnemosyne.sync.pages import KEPT, Options, Pages
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.state import check_mode
from hermes_mnemosyne.sync.summary import Summary
from hermes_mnemosyne.sync.terms import Terms, terms_of
from hermes_mnemosyne.sync.verify import Difference, differences

__all__ = ["Options", "Round", "round_of", "sync_once"]

_RESTARTS = 3
_HEALED_AT_ONCE = 500
_LARGE_SKEW = 300.0


def sync_once(memory: Memory, remote: Remote, options: Options) -> Summary:
    """Do one round and return what it did; what went wrong stands in `errors`, and the next round goes on from there.

    Raises StoreError when the store cannot be used at all, StoreBusy while another round is under way on it, InvalidInput where
    rows would go in clear that went sealed before, or the other way round.
    """
    with alone(memory.engine, wait=options.lock_wait, stop=options.stop):
        return round_of(memory, remote, options).run()


def round_of(memory: Memory, remote: Remote, options: Options) -> Round:
    """Return a round that has not begun, sealed where the options say so. Raises StoreError."""
    if options.sealer is None:
        return Round(memory, remote, options)
    from hermes_mnemosyne.sync.sealed_round import SealedRound

    return SealedRound(memory, remote, options)


class Round(Pages):
    """One round. For one thread, under the lock of the store's rounds."""

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
        """Settle what may travel between a server and this store. Raises RemoteError, StoreError, InvalidInput as `agree` does."""
        asked = self._options.wanted
        terms = self.agree()
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
        self._state = replace(
            self._state,
            url=self._remote.url,
            include=asked.include,
            exclude=asked.exclude,
            turns=asked.turns,
            sealed=self._options.sealer is not None,
        )
        if self._state.basis != terms.basis:
            self._state = replace(self._state, basis=terms.basis, pulled=0, pushed=0)
        return terms

    def agree(self) -> Terms:
        """Ask the server who it is, and return what may travel between it and this store.

        Raises RemoteError, StoreError, and InvalidInput where one side is sealed and the other is not.
        """
        is_sealed = self._options.sealer is not None
        check_mode(self._name, is_sealed=is_sealed, known=self._state.sealed)
        server = self._remote.status()
        check_mode(self._name, is_sealed=is_sealed, known=server.get("sealed"))
        self._terms = self._agreed(server)
        return self._terms

    def _agreed(self, server: Mapping[str, Any]) -> Terms:
        """Return what may travel between this store and a server that has said who it is."""
        return terms_of(self._options.wanted, self._store, server)

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
            records = self.readable(page)
            outcomes = self._merge(records, self._state.kept(*KEPT))
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
