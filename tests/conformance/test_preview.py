"""What a waiting operation would do, told without doing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.store.operations import AddEntry, CaptureTurns, EditEntry, MarkInjected, MirrorChange, MirrorFile, Operation
from hermes_mnemosyne.store.protocol import Preview
from tests.conformance.random_writes import STEPS, TEXTS, play
from tests.conformance.world import HOME_A, HOME_B, World, turn

TEXT = st.sampled_from(TEXTS)
WAITING = st.one_of(
    st.tuples(st.just("add"), TEXT, st.booleans()),
    st.tuples(st.sampled_from(["add", "replace", "remove"]), st.sampled_from([HOME_A, HOME_B]), TEXT, TEXT),
    st.tuples(st.just("file"), st.sampled_from([HOME_A, HOME_B]), st.sets(TEXT)),
    st.tuples(st.just("say"), st.lists(TEXT, min_size=1, max_size=4), st.booleans()),
)


def made(world: World, step: tuple[Any, ...]) -> Operation:
    match step:
        case "file", home, lines:
            return world.filing(*sorted(lines), origin=home)
        case "say", texts, is_transcript:
            return world.turns(*(turn(text) for text in texts), transcript=is_transcript)
        case "add", text, explicit:
            return world.adding(text, explicit=explicit)
        case action, home, old, text:
            return world.mirroring(action, home, old_text=old, content=text)
    raise AssertionError(step)


def texts_of(op: Operation) -> dict[str, str]:
    """Return the texts that an operation brings, by the uids that they would get."""
    match op:
        case MirrorFile():
            return dict(op.lines)
        case CaptureTurns():
            return {text.uid: text.content for text in op.turns}
        case AddEntry() | MirrorChange():
            return {op.uid: op.content}
    raise AssertionError(op)


@given(steps=STEPS, waiting=WAITING)
def test_a_preview_tells_what_the_operation_does(
    new_world: Callable[..., World], steps: list[tuple[Any, ...]], waiting: tuple[Any, ...]
) -> None:
    world = new_world()
    play(world, steps)
    op = made(world, waiting)
    rows, exported = world.rows(), world.exported()
    preview = world.store.preview(op)
    assert world.exported() == exported
    assert preview.gone <= {row.uid for row in rows}
    stay = [row.content for row in rows if row.uid not in preview.gone]
    come = [text for uid, text in texts_of(op).items() if uid in preview.new]
    world.done(op)
    assert sorted(world.texts()) == sorted([*stay, *come])


def test_other_operations_have_no_preview(world: World) -> None:
    uid = world.add("apple")
    for op in (
        world.make(EditEntry, uid=uid, changes={"content": "pear"}),
        world.make(MarkInjected, session_id="s", uids=(uid,)),
    ):
        assert world.store.preview(op) == Preview()


def test_in_an_empty_store_everything_is_new(world: World) -> None:
    add, capture = world.adding("apple"), world.turns("apple", "pear", transcript=True)
    assert world.store.preview(add).new == {add.uid}
    assert world.store.preview(capture).new == {text.uid for text in capture.turns}
