"""One file under several processes: writing together, opening together, being killed."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sqlite3
from pathlib import Path

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne.store.sqlite.migrate import known
from tests.integration.engine_processes import finished, problems_of, rows_of, worker
from tests.integration.worker_processes import begin, lines_of

PROCESSES = 8


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mnemosyne.db"


def test_eight_processes_write_into_one_file_without_an_error(path: Path) -> None:
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(worker("write", path, name, 200)) for name in range(PROCESSES)]
        begin(*writers)
        uids = [uid for writer in writers for uid in finished(writer)]
    rows = rows_of(path)
    assert len(uids) == len(rows) == PROCESSES * 200
    assert set(uids) == set(rows)
    assert len({row.seq for row in rows.values()}) == len(rows)
    assert problems_of(path) == []


def test_eight_processes_open_and_make_a_fresh_file_at_once(path: Path) -> None:
    with contextlib.ExitStack() as stack:
        starters = [stack.enter_context(worker("start", path)) for _ in range(PROCESSES)]
        begin(*starters)
        assert [finished(starter) for starter in starters] == [["open", "written"]] * PROCESSES
    assert len(rows_of(path)) == PROCESSES
    with contextlib.closing(sqlite3.connect(path)) as db:
        rows, names = db.execute("SELECT count(*), count(DISTINCT number) FROM migrations").fetchone()
        assert rows == names == known()
    assert problems_of(path) == []


def test_hooks_of_several_processes_lose_no_turn(path: Path) -> None:
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(worker("capture", path, name, 60)) for name in range(4)]
        begin(*writers)
        acknowledged = [line.split() for writer in writers for line in lines_of(writer, 60)]
        begin(*writers)
        assert [finished(writer) for writer in writers] == [[]] * 4
    assert {status for status, _ in acknowledged} <= {"added", "queued"}
    with Memory.open(path) as memory:
        assert memory.engine.drain(wait=5.0).left == 0
    rows = rows_of(path)
    assert {uid for _, uid in acknowledged} == set(rows)
    assert len(rows) == 240


# -- kill -9 ---------------------------------------------------------------------------------------------------------------------


def killed_after(path: Path, lines: int, mode: str, *arguments: object) -> list[str]:
    """Run a worker, kill it when it has printed some lines, and return all that it printed."""
    with worker(mode, path, *arguments) as process:
        begin(process)
        printed = lines_of(process, lines)
        process.send_signal(signal.SIGKILL)
        printed += lines_of(process)
        process.wait()
    return printed


def changes_survive(path: Path, rounds: int, seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 - test data
    state: dict[str, str] = {}
    for number in range(rounds):
        for line in killed_after(path, source.randint(1, 60), "change", f"{seed}-{number}"):
            name, uid = line.split()
            state[uid] = name
        assert problems_of(path) == []
    with Memory.open(path) as memory:
        store, reach = memory.engine.store, memory.reach
        found = {uid: store.state(uid, reach) for uid in state}
    # The step that was under way when the process died may have been done as well, one per round.
    differing = [uid for uid, name in state.items() if found[uid] != name]
    assert len(differing) <= rounds
    assert {state[uid] for uid in differing} <= {"live"}


def test_what_was_acknowledged_survives_kill(path: Path) -> None:
    changes_survive(path, 4, seed=1)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10))
def test_what_was_acknowledged_survives_many_kills(path: Path, seed: int) -> None:
    changes_survive(path, 25, seed=100 + seed)


def test_a_killed_hook_loses_no_acknowledged_turn(path: Path) -> None:
    acknowledged = [line.split()[1] for line in killed_after(path, 40, "capture", "a", 10**6)]
    with Memory.open(path) as memory:
        memory.engine.drain(wait=5.0)
    assert set(acknowledged) <= set(rows_of(path))
    assert problems_of(path) == []


def exported(path: Path) -> list[str]:
    with Memory.open(path, readable_themes="*") as memory:
        return [json.dumps(record, sort_keys=True) for record in memory.export_records()]


def test_an_import_that_was_killed_is_completed_by_the_next(path: Path, tmp_path: Path) -> None:
    source, file = tmp_path / "source.db", tmp_path / "export.jsonl"
    with Memory.open(source) as memory:
        uids = [memory.remember(f"fact number {number} {'word ' * (number % 50)}").uid for number in range(900)]
        for uid in uids[::7]:
            memory.update(uid, content=f"edited {uid}")
        for uid in uids[1::9]:
            memory.forget(uid)
    lines = exported(source)
    file.write_text("\n".join(lines), encoding="utf-8")
    for stop in (1, 150, 420):
        killed_after(path, stop, "import", file)
        assert problems_of(path) == []
    with worker("import", path, file) as process:
        begin(process)
        assert len(finished(process)) == len(lines)
    assert exported(path) == lines


def test_a_file_whose_making_was_killed_is_made_by_the_next(path: Path) -> None:
    source = random.Random(3)  # noqa: S311 - test data
    for number in range(6):
        fresh = path.with_name(f"{number}.db")
        with worker("start", fresh) as process:
            begin(process)
            while not fresh.exists() and process.poll() is None:
                pass
            for _ in range(source.randint(0, 40_000)):
                pass
            process.send_signal(signal.SIGKILL)
            printed = lines_of(process)
            process.wait()
        with Memory.open(fresh) as memory:
            memory.remember("after")
            assert memory.engine.store.check() == []
        assert len(rows_of(fresh)) >= 1 + ("written" in printed)


def test_turns_that_were_queued_survive_a_termination(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember("first")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db, worker("capture", path, "a", 30) as process:
        db.execute("BEGIN IMMEDIATE")
        begin(process)
        lines = [line.split() for line in lines_of(process, 30)]
        process.send_signal(signal.SIGTERM)
        process.wait()
        db.execute("ROLLBACK")
    assert {status for status, _ in lines} == {"queued"}
    with Memory.open(path) as memory:
        assert memory.recall("turn", kinds=("turn",), limit=50).searched == 30
        assert memory.engine.drain(wait=5.0).left == 0
    assert {uid for _, uid in lines} < set(rows_of(path))
