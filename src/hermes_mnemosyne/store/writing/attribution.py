"""Who has been seen, and who gave work to whom: provenance that is never searched. A store without such tables ignores it."""

from __future__ import annotations

import json

from hermes_mnemosyne.store.operations import Delegated, Outcome, SeenAgent
from hermes_mnemosyne.store.writing.transaction import Transaction


def seen(tx: Transaction, op: SeenAgent) -> Outcome:
    """Note that an agent of a theme is at work."""
    if "seen_agent" in tx.sql:
        tx.db.execute(tx.sql["seen_agent"], (op.theme, op.agent_kind, op.at))
    return Outcome(op_id=op.op_id, status="unchanged")


def forget_task(tx: Transaction, turn: str) -> None:
    """Erase the words of a task with the turn that holds them."""
    if "forget_task" in tx.sql:
        tx.db.execute(tx.sql["forget_task"], (turn,))


def delegated(tx: Transaction, op: Delegated) -> Outcome:
    """Note a delegation."""
    if "insert_edge" in tx.sql:
        is_forgotten = op.turn_uid and tx.db.execute(tx.sql["tombstone"], (op.turn_uid,)).fetchone()
        attrs = {
            "task": "" if is_forgotten else op.task,
            "result_chars": op.result_chars,
            **({"turn": op.turn_uid} if op.turn_uid else {}),
        }
        sessions = op.parent_session_id, op.child_session_id
        tx.db.execute(tx.sql["insert_edge"], (op.theme, op.child_theme, *sessions, op.at, json.dumps(attrs)))
    return Outcome(op_id=op.op_id, status="unchanged")
