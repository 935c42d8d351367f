"""Machines that write at random, and meet at random through a server that cannot read, come to hold the same and lose nothing."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne._errors import NotFound
from hermes_mnemosyne.store.protocol import EVERYTHING
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync.remote import Remote
from tests.integration.test_sync_sealed import World

WRITES = ("add", "add", "add", "edit", "edit", "edit", "retire", "undo", "tag")
ERASURES = ("forget", "local")
WORDS = [f"word{number}" for number in range(6)]
RUNS = [*range(6), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(6, 60))]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with made.serving():
        yield made
    made.close()


class Net:
    """Three machines and chance."""

    def __init__(self, world: World, seed: int, *, with_erasures: bool) -> None:
        self.world = world
        self.chance = random.Random(seed)  # noqa: S311 - a test that can be repeated
        self.machines = [world.machine(name) for name in ("one", "two", "three")]
        self.writes = WRITES + (ERASURES if with_erasures else ())
        self.accepted: set[str] = set()
        self.forgotten: set[str] = set()
        self.uids: list[str] = []
        self.depth = 0

    def step(self) -> None:
        machine = self.chance.choice(self.machines)
        if self.chance.random() < 0.3:
            self.round(machine)
        else:
            self.write(machine, self.chance.choice(self.writes))

    def write(self, machine: Memory, what: str) -> None:
        text = self.chance.choice(WORDS)
        if what == "add":
            self.uids.append(machine.remember(text, tags=[self.chance.choice("abc")]).uid)
            self.accepted.add(text)
            return
        rows = [row.uid for row in machine.list(limit=100)]
        if what == "undo":
            rows = [uid for uid in self.uids if machine.engine.store.state(uid, EVERYTHING) == "retired"]
        if not rows:
            return
        uid = self.chance.choice(sorted(rows))
        if what == "edit":
            machine.update(uid, content=text)
            self.accepted.add(text)
        elif what == "tag":
            machine.update(uid, tags=[self.chance.choice("xyz")])
        elif what == "local":
            machine.update(uid, visibility="local")
        elif what == "forget":
            machine.forget(uid)
        elif what == "retire":
            machine.retire(uid)
        else:
            # Its last version may not have come yet.
            with contextlib.suppress(NotFound):
                machine.undo(uid)

    def round(self, machine: Memory) -> None:
        summary = self.world.sync(machine, limit=self.chance.choice([2, 7, 1000]))
        assert summary.complete, summary
        assert not summary.set_aside, summary

    def settle(self) -> None:
        for _ in range(12):
            before = [machine.engine.store.position() for machine in (self.world.server, *self.machines)]
            for machine in self.machines:
                self.round(machine)
            if before == [machine.engine.store.position() for machine in (self.world.server, *self.machines)]:
                return
        pytest.fail("they never come to an end")


def shared(memory: Memory) -> dict[str, Any]:
    """Return the shared rows of a machine by uid."""
    found: dict[str, Any] = {}
    for record in memory.engine.store.changes(0, Sharing(turns=True), limit=100_000).records:
        if record["type"] == "entry":
            found[record["uid"]] = {name: value for name, value in record.items() if name != "seq"}
        elif record["type"] == "tombstone":
            found[record["uid"]] = (record["state"], record["clock"] if record["state"] == "retired" else "")
    return found


def kept(memory: Memory) -> set[str]:
    """Return every text that a machine holds, in rows or in history."""
    records = memory.engine.store.changes(0, Sharing(turns=True), limit=100_000).records
    return {record.get("content") or record.get("before", {}).get("content") for record in records}


@pytest.mark.parametrize("with_erasures", [False, True])
@pytest.mark.parametrize("seed", RUNS)
def test_they_hold_the_same_in_the_end(world: World, seed: int, with_erasures: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    net = Net(world, seed, with_erasures=with_erasures)
    push = Remote.push

    def interrupted(remote: Remote, *arguments: Any) -> dict[str, Any]:
        # Another machine comes between what was pulled and what is pushed.
        if not net.depth and net.chance.random() < 0.3:
            net.depth += 1
            others = [machine for machine in net.machines if machine.engine.store.replica != arguments[0]]
            net.round(net.chance.choice(others))
            net.depth -= 1
        return push(remote, *arguments)

    monkeypatch.setattr(Remote, "push", interrupted)
    for _ in range(40):
        net.step()
    net.settle()
    first, *others = net.machines
    for other in others:
        assert shared(other) == shared(first)
    for machine in net.machines:
        assert world.proof(machine).listed == []
        if not with_erasures:
            assert kept(machine) >= net.accepted
    late = world.machine("late")
    world.well(late)
    assert shared(late) == shared(first)
    if not with_erasures:
        assert kept(late) >= net.accepted
