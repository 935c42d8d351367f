"""Uses of the public names as a type checker has to understand them; checked by test_typing.py, never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

from hermes_mnemosyne import Change, Entry, Hit, Memory, MnemosyneError, RecallQuery, RecallResult, Receipt, Turn


def uses(memory: Memory) -> Sequence[Hit]:
    """Use each method once."""
    receipt = memory.remember("The cat is called Momo", tags=("cat",), importance=0.7, pinned=True, target="user")
    assert_type(receipt, Receipt)
    assert_type(memory.update(receipt.uid, content="The cat is called Mimi"), Receipt)
    assert_type(memory.retire(receipt.uid), Receipt)
    assert_type(memory.undo(receipt.uid), Receipt)
    assert_type(memory.get(receipt.uid), Entry | Turn)
    assert_type(memory.history(receipt.uid), list[Change])
    assert_type(memory.capture_turn("Hello", role="user", session_id="s"), Receipt)
    assert_type(memory.forget(receipt.uid), Receipt)
    for row in memory.list(limit=5):
        assert_type(row, Entry | Turn)
    result = memory.recall(RecallQuery(text="cat", limit=3))
    assert_type(result, RecallResult)
    assert_type(memory.recall("cat"), RecallResult)
    return list(result)


def opened() -> None:
    """Open and close."""
    with Memory.open("mnemosyne.db", theme="hermes", subject=None, readable_themes=("hermes",)) as memory:
        uses(memory)


def misuses(memory: Memory) -> None:
    """Each line is an error; an ignore that is not needed would be one too."""
    memory.remember(b"bytes")  # type: ignore[arg-type]
    memory.remember("text", target="other")  # type: ignore[arg-type]
    memory.recall(42)  # type: ignore[arg-type]
    memory.capture_turn("Hello", role="robot", session_id="s")  # type: ignore[arg-type]
    RecallQuery("text")  # type: ignore[call-arg]
    try:
        memory.close()
    except MnemosyneError as error:
        assert_type(error, MnemosyneError)
