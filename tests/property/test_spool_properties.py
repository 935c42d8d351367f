"""What is true of the spool for every text, order and split."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.spool import DrainReport, Spool
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
    Outcome,
    Retire,
    TurnText,
    Undo,
)
from hermes_mnemosyne.values import Origin

# Texts are cleaned before they come here, so there are no lone surrogates; everything else there may be.
characters = st.one_of(
    st.characters(codec="utf-8"),
    st.sampled_from("\x00\x01\x1b\x7f\n\r\t\"\\'%;-" + "\u200b\u202e\ufeff\ufffe" + "漢字かな한글" + "\U0001f469\u200d"),
)
texts = st.text(characters, max_size=40)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=3)
origins = st.builds(Origin, texts, texts)
targets = st.sampled_from(("memory", "user"))
heads = {"op_id": st.uuids().map(str), "clock": texts, "at": texts, "theme": texts, "subject": texts}
turn_texts = st.builds(
    TurnText,
    uid=texts,
    role=st.sampled_from(("user", "assistant", "system", "tool")),
    content=texts,
    speaker=texts,
    occurred_at=st.none() | texts,
    metadata=objects,
)
uid_tuples = st.lists(texts, max_size=3).map(tuple)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(
        AddEntry,
        **heads,
        uid=texts,
        content=texts,
        target=targets,
        tags=uid_tuples,
        importance=st.floats(0, 1),
        pinned=st.booleans(),
        valid_until=st.none() | texts,
        occurred_offset=st.none() | st.integers(-1_000, 1_000),
        metadata=objects,
        origin=origins,
        supersedes=st.none() | texts,
        explicit=st.booleans(),
    ),
    st.builds(EditEntry, **heads, uid=texts, changes=objects),
    st.builds(Retire, **heads, uid=texts),
    st.builds(Forget, **heads, uid=texts),
    st.builds(Undo, **heads, uid=texts),
    st.builds(
        MirrorChange,
        **heads,
        uid=texts,
        action=texts,
        target=targets,
        origin=origins,
        content=texts,
        old_text=texts,
        metadata=objects,
    ),
    st.builds(
        MirrorFile, **heads, target=targets, origin=origins, lines=st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
    ),
    st.builds(
        CaptureTurns, **heads, session_id=texts, turns=st.lists(turn_texts, max_size=3).map(tuple), transcript=st.booleans()
    ),
    st.builds(MarkInjected, **heads, session_id=texts, uids=uid_tuples, reset=st.booleans()),
    st.builds(MergeRecord, **heads, record=objects),
)
batches = st.lists(st.lists(operations, max_size=4), max_size=4)


@contextmanager
def a_spool() -> Iterator[Spool]:
    with tempfile.TemporaryDirectory() as directory:
        spool = Spool(Path(directory) / "mnemosyne.spool.db", max_bytes=10_000_000)
        yield spool
        spool.close()


def distinct(groups: Sequence[Sequence[Operation]]) -> list[Operation]:
    return list({op.op_id: replace(op, spooled=True) for group in reversed(groups) for op in reversed(group)}.values())[::-1]


@given(st.text(st.integers(0xD800, 0xDFFF).map(chr) | characters, max_size=20))
def test_a_text_that_was_not_cleaned_is_stored_or_refused_and_never_stops_the_queue(text: str) -> None:
    entry = partial(AddEntry, clock="0", at="0", uid="u")
    with a_spool() as spool:
        spool.append([entry(op_id="1", theme="hermes", content=text)])
        with suppress(InvalidInput):
            spool.append([entry(op_id="2", theme=text, content="")])
        spool.append([entry(op_id="3", theme="hermes", content="")])
        taken = [op.op_id for op in spool.pending()]
        assert (taken[0], taken[-1]) == ("1", "3")


@given(batches)
def test_every_operation_comes_back_as_it_went_in_and_in_order(groups: list[list[Operation]]) -> None:
    with a_spool() as spool:
        for group in groups:
            spool.append(group)
        assert spool.pending() == distinct(groups)
        for theme in {op.theme for group in groups for op in group}:
            assert spool.pending(theme) == [op for op in distinct(groups) if op.theme == theme]
            assert not spool.is_empty(theme)


@given(batches, st.sets(st.integers(0, 20)), st.integers(1, 5))
def test_a_drain_hands_over_everything_once_in_order_and_keeps_what_failed(
    groups: list[list[Operation]], bad: set[int], batch: int
) -> None:
    expected = distinct(groups)
    failing = {op.op_id for number, op in enumerate(expected) if number in bad}
    seen: list[Operation] = []

    def apply(ops: Sequence[Operation]) -> list[Outcome]:
        seen.extend(ops)
        return [Outcome(op_id=op.op_id, status="failed" if op.op_id in failing else "added", error="no") for op in ops]

    with a_spool() as spool:
        for group in groups:
            spool.append(group)
        report = spool.drain(apply, batch=batch)
        assert seen == expected
        assert report == DrainReport(applied=len(expected) - len(failing), quarantined=len(failing))
        assert [held.operation for held in spool.quarantined()] == [op for op in expected if op.op_id in failing]
        assert spool.is_empty()


@given(batches, st.sets(st.integers(0, 20)))
def test_a_cancel_takes_exactly_what_it_is_told_and_the_size_stays_true(groups: list[list[Operation]], gone: set[int]) -> None:
    expected = distinct(groups)
    erased = {op.op_id for number, op in enumerate(expected) if number in gone}
    with a_spool() as spool, a_spool() as other:
        for group in groups:
            spool.append(group)
        assert spool.cancel(lambda op: None if op.op_id in erased else op) == len(erased)
        kept = [op for op in expected if op.op_id not in erased]
        assert spool.pending() == kept
        other.append(kept)
        assert spool.status()["bytes"] == other.status()["bytes"]
        assert not spool.status()["erasure_pending"]
