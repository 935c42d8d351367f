"""Keep records that only other replicas can read: the later clock wins, and to be forgotten beats everything.

This store cannot join two versions. It takes one in place of another only where its sender knows the other one: else the sender is
told, joins the two, and sends what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hermes_mnemosyne.store.operations import KeepSealed, Outcome
from hermes_mnemosyne.store.replicating import Sealed
from hermes_mnemosyne.store.writing.transaction import Transaction

KEPT, EXISTS, OLDER, STALE, FORGOTTEN, FORBIDDEN = "kept", "exists", "older", "stale", "forgotten", "forbidden"


@dataclass(frozen=True, slots=True)
class _Held:
    """What stands in a slot, but for its box."""

    theme: str
    clock: str
    gone: str
    key: str
    tag: str
    seq: int


@dataclass(slots=True)
class _Page:
    """One page on its way into the store: what is held of each uid, by slot, and whether a text was dropped."""

    tx: Transaction
    op: KeepSealed
    held: dict[str, dict[str, _Held]]
    changed: list[str] = field(default_factory=list)
    is_erasing: bool = False

    def take(self, one: Sealed) -> str:
        """Keep a record, or tell why not."""
        about = self.held.setdefault(one.uid, {})
        if self.op.themes is not None and any(held.theme not in self.op.themes for held in about.values()):
            return FORBIDDEN
        held = about.get(one.slot)
        if held is not None and (held.tag, held.key, held.clock, held.gone) == (one.tag, one.key, one.clock, one.gone):
            return EXISTS
        is_forgotten = any(row.gone == "row" for row in about.values())
        if is_forgotten and one.gone != "row":
            # What has ended in a slot says nothing that a tombstone does not say.
            return OLDER if one.gone else FORGOTTEN
        if one.gone == "row" and not is_forgotten:
            self._drop(one.uid, *about)
        elif held is not None and (why := self._stands(held, one)):
            return why
        self._put(one)
        return KEPT

    def _stands(self, held: _Held, one: Sealed) -> str:
        """Tell why what stands in the slot of a record stays there; empty where it does not."""
        is_ending = bool(one.gone and not held.gone)
        if held.gone and not one.gone:
            return STALE
        if held.tag in one.over and (is_ending or one.clock >= held.clock):
            return ""
        if one.clock < held.clock:
            return STALE if is_ending else OLDER
        is_unseen = self.op.seen is not None and held.seq > self.op.seen
        return STALE if is_unseen or (one.clock == held.clock and not is_ending) else ""

    def _put(self, one: Sealed) -> None:
        about = self.held[one.uid]
        was_erasing = self.is_erasing
        self._drop(one.uid, *(slot for slot in (one.slot, *one.moved) if slot in about))
        # What was only replaced stands in a version of its own.
        self.is_erasing = was_erasing or (self.is_erasing and bool(one.gone or one.moved))
        seq = self.tx.next_seq()
        fields = (one.uid, one.slot, one.theme, one.key, one.clock, one.gone, one.box, seq)
        self.tx.db.execute(self.tx.sql["insert_sealed"], fields)
        about[one.slot] = _Held(one.theme, one.clock, one.gone, one.key, one.tag, seq)
        self.changed.append(one.uid)

    def _drop(self, uid: str, *slots: str) -> None:
        for slot in slots:
            self.tx.db.execute(self.tx.sql["delete_sealed"], (uid, slot))
            self.is_erasing = self.is_erasing or not self.held[uid].pop(slot).gone


def keep(tx: Transaction, op: KeepSealed) -> Outcome:
    """Keep the records of a page; the notes of the outcome tell what became of each."""
    page = _Page(tx, op, {})
    uids = sorted({one.uid for one in op.records})
    for uid, slot, *held in tx.db.execute(tx.sql["sealed_about"], (tx.dialect.many(uids),)).fetchall():
        page.held.setdefault(uid, {})[slot] = _Held(*held)
    notes = tuple(page.take(one) for one in op.records)
    if page.is_erasing:
        tx.tally.erasures += 1
    status = "forgotten" if page.is_erasing else "updated" if page.changed else "unchanged"
    return Outcome(op_id=op.op_id, status=status, uids=tuple(dict.fromkeys(page.changed)), notes=notes)
