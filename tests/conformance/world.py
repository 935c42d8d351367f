"""What the conformance tests write with: operations as an engine makes them, and what a store should answer."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hermes_mnemosyne.clock import HybridClock, now_text, uuid7
from hermes_mnemosyne.recall.analyse import TextAnalyser
from hermes_mnemosyne.recall.overlay import admits, frequencies, selected
from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    EditEntry,
    Forget,
    MergeRecord,
    MirrorChange,
    MirrorFile,
    Operation,
    Outcome,
    Retire,
    TurnText,
    Undo,
)
from hermes_mnemosyne.store.protocol import Filter, LexicalQuery, Reach, Store
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Entry, Origin, Turn

ANALYSER = TextAnalyser()
EVERYTHING = Reach(None, None)
HOME_A = Origin("file", "home-a/MEMORY.md")
HOME_B = Origin("file", "home-b/MEMORY.md")

_Op = TypeVar("_Op", bound=Operation)


class FixedKey:
    """A subject key that is always there."""

    def __init__(self, secret: bytes = b"secret") -> None:
        self.secret = secret

    def digest(self, purpose: str, *parts: str) -> str | None:
        return hmac.new(self.secret, json.dumps([purpose, *parts]).encode(), hashlib.sha256).hexdigest()


class NoKey:
    """A host that has lost its subject key."""

    def digest(self, purpose: str, *parts: str) -> str | None:  # noqa: ARG002 - the protocol
        return None


class World:
    """One store, and a writer with a clock of its own."""

    def __init__(self, store: Store, *, writer: str = "writer") -> None:
        self.store = store
        self.clock = HybridClock(writer)

    # -- making ------------------------------------------------------------------------------------------------------------------

    def make(self, kind: type[_Op], **fields: Any) -> _Op:
        head = {"op_id": uuid7(), "clock": self.clock.tick(), "at": now_text(), "theme": "alpha", **fields}
        return kind(**head)

    def adding(self, content: str, **fields: Any) -> AddEntry:
        return self.make(AddEntry, **{"uid": uuid7(), "content": content, **fields})

    def turns(self, *texts: str | TurnText, session: str = "s1", **fields: Any) -> CaptureTurns:
        made = tuple(text if isinstance(text, TurnText) else turn(text) for text in texts)
        return self.make(CaptureTurns, session_id=session, turns=made, **fields)

    def about(self, kind: type[_Op], uid: str, **fields: Any) -> _Op:
        """Make an operation on a row, in the theme and subject that the row has or had."""
        row = self.get(uid)
        was = [change.before for change in self.store.history(uid, EVERYTHING)]
        theme = row.theme if row else was[-1]["theme"] if was else "alpha"
        subject = row.subject if row else was[-1]["subject"] if was else ""
        return self.make(kind, uid=uid, theme=theme, subject=subject, **fields)

    # -- writing -----------------------------------------------------------------------------------------------------------------

    def apply(self, *ops: Operation) -> list[Outcome]:
        outcomes = self.store.apply(ops)
        assert [outcome.op_id for outcome in outcomes] == [op.op_id for op in ops]
        return outcomes

    def done(self, op: Operation) -> Outcome:
        outcome = self.apply(op)[0]
        assert outcome.status != "failed", outcome.error
        return outcome

    def late(self, op: Operation) -> Outcome:
        """Apply an operation that has waited in a spool."""
        return self.done(replace(op, spooled=True))

    def add(self, content: str, **fields: Any) -> str:
        return self.done(self.adding(content, **fields)).uid

    def edit(self, uid: str, **changes: Any) -> Outcome:
        return self.done(self.about(EditEntry, uid, changes=changes))

    def retire(self, uid: str) -> Outcome:
        return self.done(self.about(Retire, uid))

    def undo(self, uid: str) -> Outcome:
        return self.done(self.about(Undo, uid))

    def forget(self, uid: str) -> Outcome:
        return self.done(self.about(Forget, uid))

    def say(self, *texts: str | TurnText, **fields: Any) -> Outcome:
        return self.done(self.turns(*texts, **fields))

    def transcript(self, *texts: str | TurnText, **fields: Any) -> Outcome:
        return self.done(self.turns(*texts, transcript=True, **fields))

    def mirror(self, action: str, origin: Origin = HOME_A, **fields: Any) -> Outcome:
        return self.done(self.mirroring(action, origin, **fields))

    def mirroring(self, action: str, origin: Origin = HOME_A, **fields: Any) -> MirrorChange:
        return self.make(MirrorChange, **{"uid": uuid7(), "action": action, "target": "memory", "origin": origin, **fields})

    def file(self, *lines: str, origin: Origin = HOME_A, **fields: Any) -> Outcome:
        return self.done(self.filing(*lines, origin=origin, **fields))

    def filing(self, *lines: str, origin: Origin = HOME_A, **fields: Any) -> MirrorFile:
        pairs = tuple((uuid7(), line) for line in lines)
        return self.make(MirrorFile, **{"target": "memory", "origin": origin, "lines": pairs, **fields})

    def merge(self, records: Iterable[dict[str, Any]]) -> list[Outcome]:
        ops = [self.make(MergeRecord, theme=record["theme"], subject=record["subject"], record=record) for record in records]
        return self.apply(*ops) if ops else []

    # -- looking -----------------------------------------------------------------------------------------------------------------

    def get(self, uid: str) -> Entry | Turn | None:
        return self.store.read(uid, EVERYTHING)

    def entry(self, uid: str) -> Entry:
        row = self.get(uid)
        assert isinstance(row, Entry)
        return row

    def rows(self, **where: Any) -> list[Entry | Turn]:
        given = {"reach": EVERYTHING, "include_superseded": True, **where}
        return self.store.select(Filter(**given), limit=None, newest_first=False)

    def texts(self, **where: Any) -> list[str]:
        return [row.content for row in self.rows(**where)]

    def state(self, uid: str) -> str:
        return self.store.state(uid, EVERYTHING)

    def actions(self, uid: str) -> list[str]:
        return [change.action for change in self.store.history(uid, EVERYTHING)]

    def found(self, words: str, **where: Any) -> list[str]:
        """Return the contents found by any of some words, best first."""
        reach = where.pop("reach", EVERYTHING)
        candidates = self.store.lexical(any_of(words), Filter(reach=reach, **where))
        rows = self.store.load([candidate.id for candidate in candidates])
        return [rows[candidate.id].content for candidate in candidates]

    def exported(self, reach: Reach = EVERYTHING) -> list[dict[str, Any]]:
        return list(self.store.export(reach))


def turn(content: str, **fields: Any) -> TurnText:
    return TurnText(**{"uid": uuid7(), "role": "user", "content": content, **fields})


def any_of(words: str, *, limit: int = 1000) -> LexicalQuery:
    return LexicalQuery(required=tuple(dict.fromkeys(ANALYSER.entry_tokens(words, ()).split())), limit=limit)


def lines_of(records: Iterable[dict[str, Any]]) -> list[str]:
    return [json.dumps(record, sort_keys=True, ensure_ascii=False) for record in records]


# -- what a store should answer, worked out from its rows alone -------------------------------------------------------------------


def body_of(row: Entry | Turn) -> str:
    if isinstance(row, Entry):
        return ANALYSER.entry_tokens(row.content, row.tags)
    return ANALYSER.turn_tokens(row.content, row.speaker, row.occurred_at)


def sessions_of(rows: Sequence[Entry | Turn]) -> dict[tuple[str, str, str], list[Turn]]:
    """Return the turns of each session in order."""
    sessions: dict[tuple[str, str, str], list[Turn]] = {}
    for row in rows:
        if isinstance(row, Turn):
            sessions.setdefault((row.theme, row.subject, row.session_id), []).append(row)
    for turns in sessions.values():
        turns.sort(key=lambda row: (row.position, row.uid))
    return sessions


def contexts_of(rows: Sequence[Entry | Turn]) -> dict[str, str]:
    """Return the words that each turn borrows from the turns beside it."""
    borrowed = {}
    for turns in sessions_of(rows).values():
        for index, row in enumerate(turns):
            beside = [*turns[max(0, index - 1) : index], *turns[index + 1 : index + 2]]
            is_long = body_of(row).count(" ") >= 512
            borrowed[row.uid] = "" if is_long else " ".join(" ".join(body_of(other).split()[:64]) for other in beside)
    return borrowed


def expected_uids(rows: Sequence[Entry | Turn], query: LexicalQuery, where: Filter) -> set[str]:
    """Return the uids of the rows that a lexical query must find when its limit is large enough."""
    contexts = contexts_of(rows)
    return {
        row.uid
        for row in rows
        if admits(where, row) and selected(query, frequencies(f"{body_of(row)} {contexts.get(row.uid, '')}"))
    }


def hash_of(text: str) -> str:
    return content_hash(text)
