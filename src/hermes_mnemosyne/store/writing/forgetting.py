"""Forget: a row, its versions, aliases, vectors, tokens and every copy of its texts go; a tombstone without text stays."""

from __future__ import annotations

import json

from hermes_mnemosyne.store.operations import SCRATCH_THEME, Forget, Operation, Outcome
from hermes_mnemosyne.store.writing.attribution import forget_task
from hermes_mnemosyne.store.writing.entries import own, own_grave, release_superseded
from hermes_mnemosyne.store.writing.rows import Grave
from hermes_mnemosyne.store.writing.transaction import Live, Transaction
from hermes_mnemosyne.values import TARGETS, Entry, Turn


def forget(tx: Transaction, op: Forget) -> Outcome:
    """Erase a live or retired row for good. A row that is forgotten already, or unknown, is `unknown`."""
    uid = tx.survivor(op.uid)
    grave = own_grave(tx, op, uid)
    row = own(tx, op, uid)
    if row is None and (grave is None or grave[4] == "forgotten"):
        return Outcome(op_id=op.op_id, uid=uid, status="unknown")
    clock = tx.stamp(op)
    erase(tx, op, uid, clock)
    return Outcome(op_id=op.op_id, uid=uid, status="forgotten", uids=(uid,))


def erase(tx: Transaction, op: Operation, uid: str, clock: str) -> None:
    """Erase every copy of a row's texts within its theme and subject and leave tombstones; `uid` is no alias."""
    row = tx.live(uid)
    grave = tx.db.execute(tx.sql["tombstone"], (uid,)).fetchone()
    session_id = _session_of(tx, row, uid)
    names = _names(tx, uid)
    digests = {digest for name in names for (digest,) in tx.db.execute(tx.sql["hashes_in_history"], (name,))}
    if row is not None:
        digests.add(row.hash)
        theme, subject, kind, visibility = row.value.theme, row.value.subject, row.value.kind, row.value.visibility
        occurrence = row.value.occurrence if isinstance(row.value, Turn) else 0
        capture = (row.session, row.value.role) if isinstance(row.value, Turn) else None
    else:
        _, theme, subject, kind, _, visibility, *_ = grave
        occurrence = grave[11] or 0
        capture = (grave[8], grave[9]) if grave[8] is not None else None
    scope = tx.scope(theme, subject)
    if row is not None:
        release_superseded(tx, uid, clock=clock, at=op.at)
        tx.remove_live(row)
    # What is retired may be known to other replicas although the row is not.
    shown: dict[str, str] = {}
    if kind == "entry":
        for digest in digests:
            for (retired,) in tx.db.execute(tx.sql["retired_with_text"], (scope, digest)).fetchall():
                shown |= dict.fromkeys(_names(tx, retired) - names, _visibility(tx, retired))
                names |= _names(tx, retired)
            _erase_versions(tx, scope, digest, names)
        macs = _entry_macs(tx, theme, subject, digests)
    else:
        macs = _turn_macs(tx, (theme, subject), capture, digests)
    trial = theme == SCRATCH_THEME and visibility == "local"
    for name in sorted(names):
        tx.db.execute(tx.sql["delete_history"], (name,))
        tx.db.execute(tx.sql["delete_injected"], (name,))
        if kind == "turn":
            forget_task(tx, name)
        if trial:
            tx.delete_tombstone(name)
            continue
        seen_by = shown.get(name, visibility)
        tx.save_tombstone(Grave(name, theme, subject, kind, "forgotten", seen_by, op.at, clock, None, None, None, None, scope))
        for mac in macs:
            tx.db.execute(tx.sql["insert_forgotten"], (mac, name, scope, clock, occurrence if name == uid else 0))
    session = capture[0] if capture is not None else tx.session(scope, session_id) if session_id else None
    if session is not None:
        _end_session(tx, session)
    tx.tally.erasures += 1


def _visibility(tx: Transaction, uid: str) -> str:
    grave = tx.grave(uid)
    return grave.visibility if grave is not None else "synced"


def _erase_versions(tx: Transaction, scope: int, digest: bytes, names: set[str]) -> None:
    """Erase a text where it stands in the history of other entries; that of `names` goes whole."""
    for version in tx.db.execute(tx.sql["versions_with_text"], (scope, digest)).fetchall():
        if version[0] not in names:
            tx.erase_version(scope, *version)


def _session_of(tx: Transaction, row: Live | None, uid: str) -> str:
    """Return the name of the session that an entry, live or retired, came from; empty for none and for a turn."""
    if row is not None:
        return row.value.session_id if isinstance(row.value, Entry) else ""
    last = tx.db.execute(tx.sql["last_change"], (uid,)).fetchone()
    return str(json.loads(last[2]).get("session_id", "")) if last else ""


def _end_session(tx: Transaction, number: int) -> None:
    """Forget a session that nothing is left of: its name may tell of a person."""
    tx.db.execute(tx.sql["delete_empty_session"], (number,))
    # What comes after in this transaction must not go into a session that is gone.
    tx.sessions = {name: known for name, known in tx.sessions.items() if known != number}


def _names(tx: Transaction, uid: str) -> set[str]:
    """Return a uid and its aliases."""
    return {uid, *(alias for (alias,) in tx.db.execute(tx.sql["aliases_of"], (uid,)).fetchall())}


def _entry_macs(tx: Transaction, theme: str, subject: str, digests: set[bytes]) -> list[str]:
    """Return the keyed hashes that keep the texts out, none without a key; a text that another entry holds stays welcome."""
    scope = tx.scope(theme, subject)
    made = [
        tx.key.digest("content", theme, subject, target, digest.hex())
        for digest in digests
        for target in TARGETS
        if tx.db.execute(tx.sql["entry_by_hash"], (scope, target, digest)).fetchone() is None
    ]
    return [mac for mac in made if mac is not None]


def _turn_macs(tx: Transaction, place: tuple[str, str], capture: tuple[int, str] | None, digests: set[bytes]) -> list[str]:
    """Return the keyed hashes of capture keys (session number and role) without their occurrences; none without a key."""
    if capture is None:
        return []
    number, role = capture
    name: str = tx.db.execute(tx.sql["session_name"], (number,)).fetchone()[0]
    made = [tx.key.digest("capture", *place, name, role, digest.hex()) for digest in digests]
    return [mac for mac in made if mac is not None]
