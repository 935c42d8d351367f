"""Proof that a store and a server hold the same rows, and the repair of what differs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.sync.exchange import RemoteError
from hermes_mnemosyne.sync.lock import alone
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.round import Options, round_of
from hermes_mnemosyne.sync.summary import Summary
from hermes_mnemosyne.sync.verify import Difference

_MOST_LISTED = 1000


@dataclass(slots=True)
class Proof:
    """Whether both sides hold the same rows: how many differ, of which the first thousand are listed."""

    count: int = 0
    listed: list[Difference] = field(default_factory=list)

    @classmethod
    def of(cls, found: Iterable[Difference]) -> Proof:
        """Count differences."""
        proof = cls()
        for one in found:
            proof.count += 1
            if len(proof.listed) < _MOST_LISTED:
                proof.listed.append(one)
        return proof


def verify_once(memory: Memory, remote: Remote, options: Options, *, repair: bool) -> tuple[Proof, Summary]:
    """Compare a store with a server; with `repair` do a round first, then mend what differs still, and compare again.

    Without it nothing is written on either side. Raises RemoteError, Stopped, StoreError.
    """
    with alone(memory.engine, wait=options.lock_wait, stop=options.stop):
        one = round_of(memory, remote, options)
        if not repair:
            one.meet()
            return Proof.of(one.differences()), one.summary
        summary = one.run()
        if summary.errors:
            raise RemoteError("; ".join(summary.errors))
        one.mend(one.differences())
        return Proof.of(one.differences()), summary
