"""Applying operations: order, batches, replays, change numbers, clocks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.clock import HybridClock, uuid7
from hermes_mnemosyne.store.operations import AddEntry, EditEntry, Forget, MarkInjected, MergeRecord, Operation, Retire, Undo
from tests.conformance.world import EVERYTHING, World, turn


def test_nothing_to_apply_is_nothing_done(world: World) -> None:
    assert world.store.apply([]) == []


def test_operations_of_a_batch_see_those_before_them(world: World) -> None:
    add = world.adding("first")
    edit = world.make(EditEntry, uid=add.uid, changes={"content": "second"})
    outcomes = world.apply(add, edit, world.adding("second"), world.make(Retire, uid=add.uid), world.make(Undo, uid=add.uid))
    assert [outcome.status for outcome in outcomes] == ["added", "updated", "exists", "retired", "restored"]
    assert world.texts() == ["second"]


@pytest.mark.parametrize("place", range(4))
def test_an_operation_that_fails_leaves_no_trace_and_the_others_stand(world: World, place: int) -> None:
    ops: list[Operation] = [world.adding(f"text {number}", theme=f"t{number}") for number in range(3)]
    ops.insert(place, world.adding("bad", theme="never", supersedes=uuid7(), session_id="never"))
    outcomes = world.apply(*ops)
    assert [outcome.status for outcome in outcomes] == ["failed" if index == place else "added" for index in range(4)]
    assert outcomes[place].error
    assert sorted(world.texts()) == ["text 0", "text 1", "text 2"]
    assert "never" not in world.store.themes(EVERYTHING)
    assert world.store.check() == []


def test_an_operation_that_fails_alone_leaves_no_trace(world: World) -> None:
    assert world.apply(world.adding("bad", theme="never", supersedes=uuid7()))[0].status == "failed"
    assert (world.rows(), world.store.themes(EVERYTHING)) == ([], {})
    assert world.add("good", theme="never")
    assert world.store.check() == []


BAD_VALUES = [
    {"importance": 7.0}, {"target": "nobody"}, {"visibility": "public"}, {"metadata": {1: object()}}, {"content": "lone \ud800"},
    {"tags": ("\udfff",)}, {"importance": "high"}, {"occurred_offset": "x" * 3, "target": None}, {"pinned": 5},
]  # fmt: skip


@pytest.mark.parametrize("fields", BAD_VALUES)
def test_values_that_no_store_can_hold_fail_and_the_batch_stands(world: World, fields: dict[str, object]) -> None:
    outcomes = world.apply(
        world.adding("before"),
        world.adding("bad") if not fields else replace(world.adding("bad"), **fields),
        world.adding("after"),
    )
    assert [outcome.status for outcome in outcomes] == ["added", "failed", "added"]
    assert world.store.check() == []


@pytest.mark.parametrize("clock", ["", "0", "zzz", "g" * 16 + "-a", "f" * 16 + "-a", "0" * 16, "0" * 17 + "-a", "é"])
@pytest.mark.parametrize("spooled", [True, False])
def test_a_clock_that_is_none_fails_and_later_writes_go_on(world: World, clock: str, *, spooled: bool) -> None:
    op = replace(world.adding("bad"), clock=clock, spooled=spooled)
    assert world.apply(op)[0].status == "failed"
    assert world.add("good")
    assert world.texts() == ["good"]


def kinds_of(world: World) -> list[Operation]:
    uid = world.add("a text", tags=("a",))
    other = world.add("another text")
    gone = world.add("a third text")
    world.retire(gone)
    return [
        world.adding("new text"),
        world.make(EditEntry, uid=uid, changes={"content": "edited", "tags": ("b",)}),
        world.make(Retire, uid=other),
        world.make(Undo, uid=gone),
        world.mirroring("add", content="mirrored"),
        world.filing("line one", "line two"),
        world.turns("said", "said"),
        world.turns("said", "said", "again", transcript=True, session="s2"),
        world.make(MarkInjected, session_id="s", uids=(uid,)),
        world.make(Forget, uid=uid),
    ]


def test_a_spooled_operation_takes_effect_once(world: World) -> None:
    for op in kinds_of(world):
        waited = replace(op, spooled=True)
        assert world.done(waited).status != "replayed"
        before = world.exported()
        assert world.done(waited).status == "replayed"
        assert [outcome.status for outcome in world.apply(waited, waited)] == ["replayed", "replayed"]
        assert world.exported() == before


def test_a_spooled_operation_that_failed_may_be_tried_again(world: World) -> None:
    late = replace(world.adding("text"), spooled=True, target="nobody")  # type: ignore[arg-type]
    assert world.apply(late)[0].status == "failed"
    assert world.apply(replace(late, target="memory"))[0].status == "added"


def test_a_twin_in_one_batch_is_replayed(world: World) -> None:
    op = replace(world.turns("said"), spooled=True)
    assert [outcome.status for outcome in world.apply(op, op)] == ["added", "replayed"]
    assert world.texts() == ["said"]


def seqs(world: World) -> dict[str, int]:
    return {row.uid: row.seq for row in world.rows()}


def test_change_numbers_rise_and_never_repeat(world: World) -> None:
    seen: set[int] = set()
    highest = 0
    before: dict[str, int] = {}
    for op in [*kinds_of(world), world.adding("x"), world.turns("y", "z"), *kinds_of(world)]:
        world.apply(op)
        now = seqs(world)
        assert len(set(now.values())) == len(now)
        changed = {uid: seq for uid, seq in now.items() if before.get(uid) != seq}
        assert all(seq > highest for seq in changed.values())
        assert not seen.intersection(changed.values())
        seen.update(changed.values())
        highest = max([highest, *now.values()])
        before = now


def test_several_rows_that_one_operation_changes_get_numbers_of_their_own(world: World) -> None:
    first, second = world.add("one"), world.add("two")
    newer = world.add("newer", supersedes=first)
    world.done(world.make(AddEntry, uid=uuid7(), content="newer", supersedes=second))
    world.forget(newer)
    assert len(set(seqs(world).values())) == 2


def test_the_clock_of_the_store_follows_the_greatest_it_has_seen(world: World) -> None:
    assert world.store.last_clock() == ""
    world.add("one")
    assert world.store.last_clock() == world.entry(world.rows()[0].uid).clock
    ahead = "0fffffffffff0000-ahead"
    world.late(replace(world.adding("two"), clock=ahead))
    assert world.store.last_clock() == ahead
    world.add("three")
    assert world.store.last_clock() > ahead
    assert max(world.entry(row.uid).clock for row in world.rows()) == world.store.last_clock()


def test_a_merged_record_moves_the_clock_and_a_wrong_one_does_not(world: World) -> None:
    world.add("one")
    (record,) = world.exported()
    ahead = {**record, "uid": uuid7(), "content": "two", "clock": "0fffffffffff0000-ahead"}
    world.merge([ahead])
    assert world.store.last_clock() == ahead["clock"]
    wrong = {**record, "uid": uuid7(), "content": "three", "clock": "0ffffffffffffff0-ahead", "importance": "high"}
    assert world.merge([wrong])[0].status == "failed"
    assert world.store.last_clock() == ahead["clock"]


@given(st.lists(st.sampled_from(["add", "edit", "retire", "undo"]), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_late_edits_of_one_row_end_alike_in_any_order(new_world: Callable[..., World], steps: list[str], random: object) -> None:
    world = new_world()
    uid = world.add("text 0")
    ops = [world.make(EditEntry, uid=uid, changes={"content": f"text {number}"}) for number, _ in enumerate(steps, 1)]
    random.shuffle(ops)  # type: ignore[attr-defined]
    for op in ops:
        world.late(op)
    assert world.texts() == [f"text {len(steps)}"]
    kept = [change.before["content"] for change in world.store.history(uid, EVERYTHING)]
    assert {*kept, f"text {len(steps)}"} == {f"text {number}" for number in range(len(steps) + 1)}
    assert world.found("text") == world.texts()


def test_threads_that_write_at_once_all_succeed(world: World) -> None:
    start = threading.Barrier(8)
    failures: list[BaseException] = []

    def write(name: int) -> None:
        writer = World(world.store, writer=f"w{name}")
        start.wait()
        try:
            for number in range(10):
                writer.add(f"entry {name} {number}")
                writer.say(turn(f"turn {name} {number}"), session=f"s{name % 2}")
        except BaseException as error:  # noqa: BLE001 - told by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(world.rows()) == 160
    assert len(set(seqs(world).values())) == 160
    assert world.store.check() == []


def test_two_stores_on_one_database_see_each_other(new_world: Callable[..., World]) -> None:
    one, two = new_world("same"), new_world("same")
    uid = one.add("fact")
    two.edit(uid, content="changed by two")
    one.edit(uid, content="changed by one")
    assert two.texts() == ["changed by one"]
    assert one.store.replica == two.store.replica
    late = replace(one.adding("late"), spooled=True)
    assert [one.apply(late)[0].status, two.apply(late)[0].status] == ["added", "replayed"]


def test_an_unknown_record_type_fails(world: World) -> None:
    op = world.make(MergeRecord, record={"type": "dream", "uid": uuid7(), "clock": HybridClock("x").tick()})
    assert world.apply(op)[0].status == "failed"
