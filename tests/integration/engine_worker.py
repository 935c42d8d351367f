"""A process of the engine tests: `python engine_worker.py MODE PATH [ARGUMENT...]`.

It waits for a line on its input, and prints one line per acknowledged step, so that its parent knows what must have survived.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from hermes_mnemosyne import Memory


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def write(path: str, name: str, count: str) -> None:
    with Memory.open(path) as memory:
        for number in range(int(count)):
            receipt = memory.remember(f"entry {name} {number} {'word ' * (number * 7 % 120)}")
            say(receipt.uid)


def capture(path: str, name: str, count: str) -> None:
    """Store turns and entries through the hooks' door, never waiting."""
    from hermes_mnemosyne.clock import uuid7
    from hermes_mnemosyne.store.operations import CaptureTurns, TurnText

    memory = Memory.open(path)
    for number in range(int(count)):
        turn = TurnText(uid=uuid7(), role="user", content=f"turn {name} {number}")
        (outcome,) = memory.submit([memory.make(CaptureTurns, session_id=name, turns=(turn,))], hook=True)
        say(f"{outcome.status} {turn.uid}")
    sys.stdin.readline()


def change(path: str, seed: str) -> None:
    """Edit, retire, undo, forget and add without end, telling what was done."""
    import random

    source = random.Random(seed)  # noqa: S311 - no secret
    memory = Memory.open(path)
    live: list[str] = []
    for number in range(10**6):
        step = source.random()
        if step < 0.5 or not live:
            live.append(memory.remember(f"text {seed} {number}").uid)
            say(f"live {live[-1]}")
            continue
        uid = source.choice(live)
        if step < 0.7:
            memory.update(uid, content=f"edited {seed} {number}")
            say(f"live {uid}")
        elif step < 0.85:
            live.remove(uid)
            memory.retire(uid)
            say(f"retired {uid}")
        else:
            live.remove(uid)
            memory.forget(uid)
            say(f"forgotten {uid}")


def import_file(path: str, file: str) -> None:
    with Memory.open(path, readable_themes="*") as memory:
        records = (json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines())
        for outcome in memory.import_records(records):
            say(outcome.uid)


def start(path: str) -> None:
    """Open a file, which makes or migrates it."""
    with Memory.open(path) as memory:
        memory.stats()
        say("open")
        memory.remember(f"from {os.getpid()}")
        say("written")


def forget(path: str, uid: str) -> None:
    """Forget a row and end at once, as a command does."""
    memory = Memory.open(path)
    say(memory.forget(uid).status)


MODES: dict[str, Callable[..., None]] = {
    "write": write, "capture": capture, "change": change, "import": import_file, "start": start, "forget": forget,
}  # fmt: skip


if __name__ == "__main__":
    sys.stdin.readline()
    MODES[sys.argv[1]](*sys.argv[2:])
