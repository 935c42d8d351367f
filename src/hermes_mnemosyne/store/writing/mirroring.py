"""Operations of the mirror: what the host does to its own memory files, done to the entries that came from them."""

from __future__ import annotations

from dataclasses import replace

from hermes_mnemosyne.store.operations import AddEntry, MirrorChange, MirrorFile, Outcome
from hermes_mnemosyne.store.writing.database import View
from hermes_mnemosyne.store.writing.entries import add, change, is_kept_out, retire_row, save
from hermes_mnemosyne.store.writing.transaction import Live, Rejected, Transaction
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Entry, Origin


def mirror_change(tx: Transaction, op: MirrorChange) -> Outcome:
    """Apply one committed write of the host's memory tool."""
    if op.action not in {"add", "replace", "remove"}:
        raise Rejected(f"unknown action {op.action!r}: add, replace or remove")
    if op.action != "add" and not (op.old_text.strip() or op.previous_content.strip()):
        raise Rejected(f"{op.action} needs a text to match: old_text is blank")
    if op.action != "remove" and not op.content.strip():
        raise Rejected(f"{op.action} needs a content: it is blank")
    uid = None if op.action == "add" else matching(tx, op, tx.scope(op.theme, op.subject))
    row = tx.live(uid) if uid else None
    if row is None:
        if op.action == "remove":
            return Outcome(op_id=op.op_id, status="unchanged", notes=("no entry of this file holds that text",))
        return add(tx, _as_add(op))
    entry = row.value
    assert isinstance(entry, Entry)
    if op.action == "replace":
        digest, clock = content_hash(op.content), tx.stamp(op)
        if digest == row.hash.hex():
            return Outcome(op_id=op.op_id, uid=entry.uid, status="unchanged")
        kept_out = is_kept_out(tx, op, op.target, digest, clock=clock, explicit=True)
        if set(entry.origins) == {op.origin} and clock > entry.clock and not kept_out:
            return change(tx, op, row, replace(entry, content=op.content), clock)
    dropped = drop_origin(tx, op, row)
    return dropped if op.action == "remove" else add(tx, _as_add(op))


def _as_add(op: MirrorChange) -> AddEntry:
    return AddEntry(
        op_id=op.op_id, clock=op.clock, at=op.at, theme=op.theme, subject=op.subject, spooled=op.spooled, uid=op.uid,
        content=op.content, target=op.target, visibility=op.visibility, session_id=op.session_id, metadata=op.metadata,
        origin=op.origin,
    )  # fmt: skip


def matching(view: View, op: MirrorChange, scope: int) -> str | None:
    """Return the uid of the row of this file that a replace or remove means, None when there is none."""
    db, sql = view.db, view.sql
    place = (op.origin.place, scope, op.target)
    for text in (op.previous_content, op.old_text):
        if text.strip():
            digest = bytes.fromhex(content_hash(text))
            if found := db.execute(sql["mirrored_exactly"], (*place, digest)).fetchone():
                return str(found[0])
    if op.old_text.strip() and (found := db.execute(sql["mirrored_containing"], (*place, op.old_text)).fetchone()):
        return str(found[0])
    return None


def drop_origin(tx: Transaction, op: MirrorChange | MirrorFile, row: Live) -> Outcome:
    """Take this file's origin from an entry, and retire it when nothing else wrote it."""
    entry = row.value
    assert isinstance(entry, Entry)
    clock = tx.stamp(op)
    if clock <= entry.clock:
        return Outcome(op_id=op.op_id, uid=entry.uid, status="unchanged", notes=("a later edit stands",))
    left: tuple[Origin, ...] = tuple(origin for origin in entry.origins if origin != op.origin)
    if left:
        save(tx, row, replace(entry, origins=left, clock=clock))
        return Outcome(op_id=op.op_id, uid=entry.uid, status="updated", uids=(entry.uid,))
    retire_row(tx, row, clock=clock, at=op.at)
    return Outcome(op_id=op.op_id, uid=entry.uid, status="retired", uids=(entry.uid,))


def mirror_file(tx: Transaction, op: MirrorFile) -> Outcome:
    """Bring the origins of one mirrored file into line with its present lines; a file without lines removes nothing."""
    scope = tx.scope(op.theme, op.subject)
    counts = {"added": 0, "joined": 0, "dropped": 0, "refused": 0, "kept": 0}
    present = {bytes.fromhex(content_hash(text)): (uid, text) for uid, text in op.lines if text.strip()}
    place = (op.origin.place, scope, op.target)
    mirrored = {digest: uid for uid, digest in tx.db.execute(tx.sql["mirrored"], place).fetchall()}
    uids: list[str] = []
    for digest, uid in mirrored.items():
        if digest in present or not present:
            counts["kept"] += 1
            continue
        row = tx.live(uid)
        assert row is not None
        outcome = drop_origin(tx, op, row)
        uids += outcome.uids
        counts["dropped"] += bool(outcome.uids)
    for digest, (uid, text) in present.items():
        if digest in mirrored:
            continue
        outcome = add(
            tx,
            AddEntry(
                op_id=op.op_id, clock=op.clock, at=op.at, theme=op.theme, subject=op.subject, spooled=op.spooled, uid=uid,
                content=text, target=op.target, visibility=op.visibility, origin=op.origin, explicit=False,
            ),
        )  # fmt: skip
        uids += outcome.uids
        counts[{"added": "added", "exists": "joined", "refused": "refused"}[outcome.status]] += 1
    if op.stamp:
        tx.db.execute(tx.sql["save_stamp"], (scope, op.origin.place, op.stamp))
    status = "updated" if uids else "unchanged"
    return Outcome(op_id=op.op_id, status=status, uids=tuple(uids), counts=counts)
