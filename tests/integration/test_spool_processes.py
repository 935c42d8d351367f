"""The spool between real processes: sharing, kill -9, forks, a full disk."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from hermes_mnemosyne._errors import StoreFull
from hermes_mnemosyne.spool import DrainReport, Spool
from hermes_mnemosyne.store.operations import AddEntry, Operation, Outcome
from tests.integration.spool_worker import Recorder, operation
from tests.integration.worker_processes import begin, lines_of, started

WORKER = Path(__file__).with_name("spool_worker.py")
PLENTY = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mnemosyne.spool.db"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record.db"


def worker(mode: str, path: Path, argument: str | Path, count: int) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """A worker process that waits for a line on its input before it begins."""
    return started(WORKER, mode, path, argument, count)


def recorded(record: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(record)) as db:
        return [op_id for (op_id,) in db.execute("SELECT op_id FROM record ORDER BY number")]


def is_sound(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def drain_all(path: Path, record: Path) -> None:
    spool = Spool(path, max_bytes=100_000_000)
    recorder = Recorder(record)
    report = spool.drain(recorder.apply)
    recorder.db.close()
    assert (report.left, report.quarantined, report.skipped_locked, report.stopped) == (0, 0, False, "")
    assert spool.problems() == []
    spool.close()
    assert is_sound(path)


def in_order(op_ids: list[str], name: str) -> bool:
    numbers = [int(op_id.split(":")[1]) for op_id in op_ids if op_id.startswith(f"{name}:")]
    return numbers == sorted(numbers)


def test_eight_processes_append_while_one_drains_and_each_operation_arrives_once_in_order(path: Path, record: Path) -> None:
    with contextlib.ExitStack() as stack:
        drainer = stack.enter_context(worker("drain", path, record, PLENTY))
        appenders = [stack.enter_context(worker("append", path, f"process{number}", 50)) for number in range(8)]
        for process in (drainer, *appenders):
            begin(process)
        # Its output must be taken, or it stands still.
        reader = threading.Thread(target=lines_of, args=(drainer,))
        reader.start()
        acknowledged = [line for process in appenders for line in lines_of(process)]
        assert [process.wait() for process in appenders] == [0] * 8
        drainer.kill()
        reader.join()
    drain_all(path, record)
    arrived = recorded(record)
    assert len(arrived) == len(acknowledged) == 400
    assert set(arrived) == set(acknowledged)
    assert all(in_order(arrived, f"process{number}") for number in range(8))


def kill_an_appender(path: Path, name: str, after: int) -> list[str]:
    """Return what a process had acknowledged when it was killed in the midst of appending."""
    with worker("append", path, name, PLENTY) as process:
        begin(process)
        lines = lines_of(process, after)
        process.send_signal(signal.SIGKILL)
        return lines + lines_of(process)


def kill_a_drainer(path: Path, record: Path, after: int) -> None:
    with worker("drain", path, record, 1) as process:
        begin(process)
        lines_of(process, after)
        process.send_signal(signal.SIGKILL)
        lines_of(process)


def killings(path: Path, record: Path, count: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - any points of time will do
    acknowledged: list[str] = []
    for number in range(count):
        acknowledged += kill_an_appender(path, f"appender{number}", chance.randint(1, 30))
        assert is_sound(path)
        kill_a_drainer(path, record, chance.randint(1, 8))
        assert is_sound(path)
    drain_all(path, record)
    arrived = recorded(record)
    assert set(acknowledged) <= set(arrived)
    # What was committed and not acknowledged is the one operation that each process was killed at.
    assert len(arrived) <= len(acknowledged) + count
    assert all(in_order(arrived, f"appender{number}") for number in range(count))


def test_what_was_acknowledged_survives_kill_9_of_appenders_and_drainers(path: Path, record: Path) -> None:
    killings(path, record, 5, seed=1)


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(10))
def test_what_was_acknowledged_survives_hundreds_of_kills(path: Path, record: Path, seed: int) -> None:
    killings(path, record, 25, seed=seed)


def test_a_killed_drainer_leaves_no_lock_behind(path: Path, record: Path) -> None:
    with worker("append", path, "one", 20) as process:
        begin(process)
        assert len(lines_of(process)) == 20
    with worker("drain", path, record, 1) as drainer:
        begin(drainer)
        assert lines_of(drainer, 1) == ["before"]
        os.kill(drainer.pid, signal.SIGSTOP)
        spool = Spool(path, max_bytes=100_000_000)
        assert spool.drain(lambda _: []).skipped_locked
        drainer.kill()
        drainer.wait()
    spool.close()
    drain_all(path, record)
    assert recorded(record) == [f"one:{number}" for number in range(20)]


def garbage(path: Path) -> None:
    path.write_bytes(b"garbage " * 5_000)


def torn(path: Path) -> None:
    """A file that opens, with a schema, and all of its other pages lost."""
    with contextlib.closing(Spool(path, max_bytes=100_000_000)) as spool:
        spool.append([operation(f"lost:{number}", "x" * 1_000) for number in range(20)])
    with contextlib.closing(sqlite3.connect(path)) as db:
        [(size,)] = db.execute("PRAGMA page_size")
    data = path.read_bytes()
    path.write_bytes(data[:size] + b"\xa5" * (len(data) - size))


@pytest.mark.parametrize("damage", [garbage, torn])
def test_several_processes_that_meet_a_damaged_file_set_it_aside_once_and_lose_nothing(
    path: Path, record: Path, damage: Callable[[Path], None]
) -> None:
    damage(path)
    damaged = path.read_bytes()
    with contextlib.ExitStack() as stack:
        appenders = [stack.enter_context(worker("append", path, f"process{number}", 20)) for number in range(4)]
        begin(*appenders)
        acknowledged = [line for process in appenders for line in lines_of(process)]
        assert [process.wait() for process in appenders] == [0] * 4
    assert len(acknowledged) == 80
    spool = Spool(path, max_bytes=100_000_000)
    [aside] = spool.status()["damaged"]
    # What a person may still want to look into is as it was: nobody took a file of the new spool for one of the old.
    assert Path(aside).read_bytes() == damaged
    recorder = Recorder(record)
    assert spool.drain(recorder.apply) == DrainReport(applied=80)
    assert sorted(recorded(record)) == sorted(acknowledged)
    recorder.db.close()
    spool.close()


class Children:
    """Forked children."""

    def __init__(self) -> None:
        self.running: list[int] = []

    def fork(self, work: Callable[[], object]) -> None:
        child = os.fork()
        if child:
            self.running.append(child)
            return
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)

    def exit_codes(self) -> list[int]:
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in self.running]
        self.running = []
        return codes

    def kill(self) -> None:
        for child in self.running:
            os.kill(child, signal.SIGKILL)
        self.exit_codes()


@pytest.fixture
def children() -> Iterator[Children]:
    forked = Children()
    yield forked
    forked.kill()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_that_forks_under_load_loses_nothing_on_either_side(path: Path, children: Children) -> None:
    spool = Spool(path, max_bytes=100_000_000)

    def load(name: str) -> None:
        for n in range(50):
            spool.append([operation(f"{name}:{n}", "x" * 500)], wait=60.0)

    threads = [threading.Thread(target=load, args=(f"parent{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()

    def work(name: str) -> None:
        spool.abandon()
        for n in range(10):
            spool.append([operation(f"{name}:{n}", "y" * 500)], wait=60.0)

    for number in range(8):
        children.fork(partial(work, f"child{number}"))
    assert children.exit_codes() == [0] * 8
    for thread in threads:
        thread.join()
    waiting = [op.op_id for op in spool.pending()]
    expected = {f"parent{number}:{n}" for number in range(4) for n in range(50)}
    expected |= {f"child{number}:{n}" for number in range(8) for n in range(10)}
    assert len(waiting) == 280
    assert set(waiting) == expected
    spool.close()
    assert is_sound(path)


@pytest.mark.parametrize("ends", ["parent", "child"])
def test_what_one_side_of_a_fork_appends_survives_the_closing_of_the_other(path: Path, ends: str, children: Children) -> None:
    spool = Spool(path, max_bytes=100_000_000)
    spool.append([operation("before:0", "x")])
    from_parent, to_child = os.pipe()
    from_child, to_parent = os.pipe()

    def work() -> None:
        spool.append([operation("child:0", "x")])
        os.write(to_parent, b".")
        os.read(from_parent, 1)
        if ends == "child":
            spool.close()
        else:
            spool.append([operation("child:1", "x")])
            # An exit without closing, as after a kill.

    children.fork(work)
    os.read(from_child, 1)
    if ends == "parent":
        spool.append([operation("parent:0", "x")])
        spool.close()
    os.write(to_child, b".")
    assert children.exit_codes() == [0]
    spool.append([operation("parent:1", "x")])
    spool.close()
    for handle in (from_parent, to_child, from_child, to_parent):
        os.close(handle)
    with contextlib.closing(Spool(path, max_bytes=100_000_000)) as left:
        waiting = {op.op_id for op in left.pending()}
    expected = {"before:0", "child:0", "parent:1"} | ({"parent:0", "child:1"} if ends == "parent" else set())
    assert waiting == expected


def test_a_child_forked_during_a_drain_does_not_hold_the_lock_of_its_parent(path: Path, record: Path, children: Children) -> None:
    spool = Spool(path, max_bytes=100_000_000)
    spool.append([operation(f"one:{number}", "x") for number in range(3)])
    recorder = Recorder(record)

    def apply(_: Sequence[Operation]) -> list[Outcome]:
        children.fork(signal.pause)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spool.drain(apply)
    assert spool.drain(recorder.apply) == DrainReport(applied=3)
    recorder.db.close()
    spool.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("a small file system needs root and mount")
    if subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], check=False, capture_output=True
    ).returncode:
        pytest.skip("this system does not let root mount a tmpfs")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_on_a_full_disk_new_writes_are_refused_and_counted_and_accepted_ones_drain_once_there_is_room(
    small_disk: Path, record: Path
) -> None:
    path = small_disk / "mnemosyne.spool.db"
    spool = Spool(path, max_bytes=100_000_000)
    accepted: list[str] = []

    def fill() -> None:
        while len(accepted) < 1_000:
            op_id = f"one:{len(accepted)}"
            spool.append([operation(op_id, "x" * 3_000)])
            accepted.append(op_id)

    with pytest.raises(StoreFull):
        fill()
    assert len(accepted) > 10
    with pytest.raises(StoreFull):
        spool.append([operation("two:0", "x" * 3_000)])
    assert spool.status()["refused"] == 2
    assert spool.problems() == []
    assert [op.op_id for op in spool.pending()] == accepted
    # In another process, too.
    other = Spool(path, max_bytes=100_000_000)
    assert [op.op_id for op in other.pending()] == accepted
    other.close()
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    recorder = Recorder(record)
    assert spool.drain(recorder.apply) == DrainReport(applied=len(accepted))
    assert recorded(record) == accepted
    last = operation("three:0", "x")
    spool.append([last])
    assert [op.content for op in spool.pending() if isinstance(op, AddEntry)] == [last.content]
    recorder.db.close()
    spool.close()
