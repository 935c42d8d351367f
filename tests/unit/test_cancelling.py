"""What a forget does to waiting operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes_mnemosyne.cancelling import Forgotten, eraser, forgotten
from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    EditEntry,
    Forget,
    MarkInjected,
    MergeRecord,
    MirrorChange,
    MirrorFile,
    Operation,
    Retire,
    TurnText,
    Undo,
)
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import Change, Entry, Origin, Turn

HEAD: dict[str, Any] = {"op_id": "op", "clock": "c", "at": "t", "theme": "alpha"}
FILE = Origin("file", "home/MEMORY.md")
ENTRY = Forgotten(
    theme="alpha", subject="", uids=frozenset({"u", "alias"}), digests=frozenset({content_hash("gone"), content_hash("was")})
)
TURN = replace(ENTRY, said=("s1", "user"))


def mirrored(action: str, **fields: str) -> MirrorChange:
    return MirrorChange(**HEAD, uid="new", action=action, target="memory", origin=FILE, **fields)  # type: ignore[arg-type]


def capture(*texts: TurnText, session_id: str = "s1", transcript: bool = False) -> CaptureTurns:
    return CaptureTurns(**HEAD, session_id=session_id, turns=texts, transcript=transcript)


def said(content: str, uid: str = "t", role: Any = "user") -> TurnText:
    return TurnText(uid=uid, role=role, content=content)


LEAVES: list[tuple[Forgotten, Operation]] = [
    (ENTRY, AddEntry(**HEAD, uid="new", content="gone ")),
    (ENTRY, AddEntry(**HEAD, uid="u", content="other")),
    (ENTRY, EditEntry(**HEAD, uid="alias", changes={"tags": ["a"]})),
    (ENTRY, EditEntry(**HEAD, uid="x", changes={"content": "was"})),
    (ENTRY, Retire(**HEAD, uid="u")),
    (ENTRY, Undo(**HEAD, uid="u")),
    (ENTRY, Forget(**HEAD, uid="alias")),
    (ENTRY, mirrored("add", content="gone")),
    (ENTRY, mirrored("remove", old_text="was")),
    (ENTRY, MergeRecord(**HEAD, record={"type": "entry", "uid": "u", "content": "x"})),
    (ENTRY, MergeRecord(**HEAD, record={"type": "entry", "uid": "x", "content": "gone"})),
    (ENTRY, MergeRecord(**HEAD, record={"type": "history", "uid": "x", "before": {"content": "gone"}})),
    (TURN, capture(said("gone", uid="u"))),
    (TURN, capture(said("gone"), transcript=True)),
    (TURN, MergeRecord(**HEAD, record={"type": "turn", "uid": "u", "content": "gone", "role": "user"})),
]

STAYS: list[tuple[Forgotten, Operation]] = [
    (ENTRY, AddEntry(**HEAD, uid="new", content="gone too")),
    (ENTRY, replace(AddEntry(**HEAD, uid="new", content="gone"), theme="beta")),
    (ENTRY, replace(AddEntry(**HEAD, uid="new", content="gone"), subject="contact")),
    (ENTRY, EditEntry(**HEAD, uid="x", changes={"tags": ["gone"]})),
    (ENTRY, Retire(**HEAD, uid="x")),
    (ENTRY, mirrored("remove", old_text="go")),
    (ENTRY, MarkInjected(**HEAD, session_id="s", uids=("u",))),
    (ENTRY, capture(said("gone"))),
    (ENTRY, capture(said("gone"), transcript=True)),
    (ENTRY, MergeRecord(**HEAD, record={"type": "turn", "uid": "x", "content": "gone", "role": "user"})),
    (TURN, AddEntry(**HEAD, uid="new", content="gone")),
    (TURN, mirrored("add", content="gone")),
    (TURN, capture(said("gone"))),
    (TURN, capture(said("gone"), session_id="s2", transcript=True)),
    (TURN, capture(said("gone", role="assistant"), transcript=True)),
]  # fmt: skip


@pytest.mark.parametrize(("gone", "op"), LEAVES)
def test_an_operation_that_holds_the_forgotten_row_leaves(gone: Forgotten, op: Operation) -> None:
    assert eraser(gone)(op) is None


@pytest.mark.parametrize(("gone", "op"), STAYS)
def test_an_operation_on_anything_else_stays_as_it_is(gone: Forgotten, op: Operation) -> None:
    assert eraser(gone)(op) == op


CHANGES: list[tuple[Forgotten, Operation, Operation]] = [
    (ENTRY, EditEntry(**HEAD, uid="x", changes={"content": "gone", "pinned": True}), EditEntry(**HEAD, uid="x", changes={"pinned": True})),
    (ENTRY, mirrored("replace", old_text="gone", content="new"), mirrored("add", content="new")),
    (ENTRY, mirrored("replace", old_text="go", previous_content="gone", content="new"), mirrored("add", content="new")),
    (ENTRY, mirrored("replace", old_text="old", content="gone"), mirrored("remove", old_text="old")),
    (ENTRY, MirrorFile(**HEAD, target="memory", origin=FILE, lines=(("1", "a"), ("2", "gone"))),
     MirrorFile(**HEAD, target="memory", origin=FILE, lines=(("1", "a"),))),
    (TURN, capture(said("gone", uid="u"), said("gone", uid="v")), capture(said("gone", uid="v"))),
    (TURN, capture(said("a"), said("gone"), transcript=True), capture(said("a"), transcript=True)),
]  # fmt: skip


@pytest.mark.parametrize(("gone", "op", "left"), CHANGES)
def test_what_an_operation_means_for_other_rows_stays(gone: Forgotten, op: Operation, left: Operation) -> None:
    assert eraser(gone)(op) == left


def test_all_versions_and_ids_of_a_row_are_to_be_forgotten() -> None:
    row = Entry(uid="u", theme="beta", subject="c", content="now")
    changes = [Change(uid="old", action="edited", at="", clock="", before={"theme": "beta", "subject": "c", "content": "then"})]
    gone = forgotten("asked", row, changes)
    assert gone == Forgotten(
        theme="beta",
        subject="c",
        uids=frozenset({"asked", "u", "old"}),
        digests=frozenset({content_hash("now"), content_hash("then")}),
    )


def test_a_turn_is_forgotten_with_its_session_and_role() -> None:
    live = forgotten("u", Turn(uid="u", theme="alpha", content="x", session_id="s", role="tool"), [])
    before = {"theme": "alpha", "subject": "", "content": "x", "session_id": "s", "role": "tool"}
    retired = forgotten("u", None, [Change(uid="u", action="retired", at="", clock="", before=before)])
    assert live == retired
    assert live is not None
    assert live.said == ("s", "tool")


def test_nothing_known_is_nothing_to_forget() -> None:
    assert forgotten("u", None, []) is None
