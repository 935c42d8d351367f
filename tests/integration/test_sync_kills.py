"""Clients and servers that are killed, connections that break, requests that come again and late: nothing is lost, nothing twice."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the server is an extra")
pytest.importorskip("uvicorn", reason="the server is an extra")

from hermes_mnemosyne import Memory
from hermes_mnemosyne.sync.server.limits import Limits
from tests.integration.sync_faults import (
    SECONDS,
    Machine,
    Tap,
    Trap,
    Writer,
    assert_same,
    contents,
    dice,
    expected,
    quiet,
    replay,
    sync,
    well,
)
from tests.integration.sync_world import Server, in_thread, server

PAGE = 5


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Servers]:
    found = Servers(tmp_path / "server" / "m.db")
    with found.going():
        yield found


class Servers:
    """Server processes on one file, one after the other, behind one address."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stack = contextlib.ExitStack()
        self._running: Server | None = None
        self.tap = Tap(0)

    @contextlib.contextmanager
    def going(self) -> Iterator[None]:
        with self.tap, self._stack:
            self.start()
            yield
            self.stop()

    def start(self) -> None:
        self._running = self._stack.enter_context(_killable(self.path))
        self.tap.lead_to(self._running.port)

    def kill(self) -> None:
        if self._running is not None:
            self._running.process.kill()

    def await_end(self) -> None:
        assert self._running is not None
        self._running.process.wait(SECONDS)

    def stop(self) -> None:
        assert self._running is not None
        assert self._running.stop() == 0


@contextlib.contextmanager
def _killable(path: Path) -> Iterator[Server]:
    ended: list[bool] = []
    try:
        with server(path) as found:
            yield found
            ended.append(found.process.poll() is not None)
    except AssertionError:
        if not ended or not ended[0]:
            raise


def intact(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def kills(tmp_path: Path, running: Servers, side: str, count: int) -> int:
    """Let a client and a server, both written to, meet in rounds of which one side is killed, at a random byte and a little after.

    Return how many rounds did not come to their end.
    """
    chance = dice(side)
    client = Machine(tmp_path / "client" / "m.db", page=PAGE)
    here, there = (Memory.open(path, readable_themes="*") for path in (client.path, running.path))
    ours, theirs = Writer(chance, "client"), Writer(chance, "server")

    def write() -> None:
        ours.write(here, 12)
        theirs.write(there, 12)

    write()
    client.sync(running.tap.url)
    replica = here.engine.store.replica
    write()
    before = running.tap.passed
    client.sync(running.tap.url)
    usual = running.tap.passed - before
    broken = 0
    for _ in range(count):
        write()
        broken += killed_round(chance, running, client, side, usual)
    for _ in range(5):
        if not (done := client.sync(running.tap.url))["pulled"] + done["pushed"]:
            break
    assert client.sync(running.tap.url, "--verify")["same"]
    assert_same(here, there)
    assert contents(here) == contents(there) == expected([ours, theirs])
    assert here.engine.store.replica == replica
    for path in (client.path, running.path):
        intact(path)
        assert Machine(path).json("doctor")["ok"]
    return broken


def killed_round(chance: random.Random, running: Servers, client: Machine, side: str, usual: int) -> bool:
    reached = threading.Event()
    running.tap.trap = Trap(chance.randrange(1, usual), reached.set)
    with client.start("sync", "--profile", "home", "--remote", running.tap.url) as process:
        ended = threading.Thread(target=lambda: (process.wait(SECONDS), reached.set()))
        ended.start()
        assert reached.wait(SECONDS)
        # Bytes pass when little is done; what is done between them is met a moment later.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0, 0.03))
        running.tap.trap = None
        if side == "client":
            process.kill()
        else:
            running.kill()
            running.await_end()
            running.start()
        out, err = process.communicate(timeout=SECONDS)
        ended.join(SECONDS)
    assert process.returncode in {0, 1, 3, -9}, (out, err)
    assert "Traceback" not in err, err
    return process.returncode != 0


@pytest.mark.parametrize("side", ["client", "server"])
def test_whichever_side_is_killed_both_hold_the_same_in_the_end_and_every_row_once(
    tmp_path: Path, running: Servers, side: str
) -> None:
    kills(tmp_path, running, side, 2)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("side", ["client", "server"])
def test_hundreds_of_kills_change_nothing_of_that(tmp_path: Path, running: Servers, side: str) -> None:
    broken = kills(tmp_path, running, side, 250)
    # A client asks a server that comes back again, so that few of its rounds fail.
    assert broken > 100 or side == "server"


# -- connections that break ------------------------------------------------------------------------------------------------------


@pytest.fixture
def there(tmp_path: Path) -> Memory:
    return Memory.open(tmp_path / "there" / "m.db", readable_themes="*")


@pytest.fixture
def here(tmp_path: Path) -> Memory:
    return Memory.open(tmp_path / "here" / "m.db", readable_themes="*")


@pytest.fixture
def tap(there: Memory) -> Iterator[Tap]:
    with in_thread(there, Limits()) as port, Tap(port) as found:
        yield found


def cuts(tap: Tap, here: Memory, there: Memory, count: int) -> None:
    chance = dice()
    ours, theirs = Writer(chance, "here"), Writer(chance, "there")
    well(here, tap.url)
    replica = here.engine.store.replica
    broken = 0
    for number in range(count):
        ours.write(here)
        theirs.write(there)
        way = number % 2 == 0
        tap.trap = Trap(chance.randrange(1, 4000), cut=True, ways=(way,))
        summary = sync(here, tap.url, attempts=1, limit=PAGE)
        tap.trap = None
        assert summary.complete is not bool(summary.errors)
        broken += bool(summary.errors)
    assert broken > count / 3
    quiet(tap.url, here)
    assert_same(here, there)
    assert contents(here) == contents(there) == expected([ours, theirs])
    assert here.engine.store.replica == replica


def test_a_network_that_breaks_at_any_byte_of_a_request_or_an_answer_loses_nothing(tap: Tap, here: Memory, there: Memory) -> None:
    cuts(tap, here, there, 30)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_network_that_breaks_a_thousand_times_loses_nothing(tap: Tap, here: Memory, there: Memory) -> None:
    cuts(tap, here, there, 1000)


def test_a_round_goes_on_by_itself_where_a_connection_broke_once(tap: Tap, here: Memory, there: Memory) -> None:
    here.remember("mine")
    there.remember("theirs")
    tap.trap = Trap(1500, cut=True)
    well(here, tap.url)
    assert tap.trap is None
    assert_same(here, there)


# -- requests that come again, and late ------------------------------------------------------------------------------------------


def without_mark(request: bytes) -> bytes:
    """Return a request as of a replica that begins anew."""
    first, _, rest = request.partition(b"\r\n")
    target, _, _ = first.partition(b"&mark=")
    return target + b"&mark= HTTP/1.1\r\n" + rest


@pytest.mark.parametrize("spelled", [bytes, without_mark])
def test_requests_that_come_again_and_out_of_order_bring_nothing_back(
    tap: Tap, here: Memory, there: Memory, spelled: Callable[[bytes], bytes]
) -> None:
    uid, gone = here.remember("first version").uid, here.remember("forgotten later").uid
    well(here, tap.url)
    here.update(uid, content="second version")
    well(here, tap.url)
    here.forget(gone)
    here.retire(here.remember("retired later").uid)
    well(here, tap.url)
    there.update(uid, content="third version")
    well(here, tap.url)
    before = tap.requests("POST /v1/changes")
    assert len(before) == 3
    chance = dice()
    for _ in range(3):
        for request in chance.sample(before, len(before)):
            # Of a replica that has moved on an earlier request is refused, or it is taken and changes nothing.
            assert replay(tap.port, spelled(request)) in {200, 409}
    assert contents(there) == {"third version": 1}
    quiet(tap.url, here)
    assert contents(there) == {"third version": 1}
    assert_same(here, there)
    assert here.get(uid).content == there.get(uid).content == "third version"
    assert there.engine.store.state(gone, there.reach) == "forgotten"


def test_a_request_that_comes_twice_at_once_does_its_work_once(tap: Tap, here: Memory, there: Memory) -> None:
    for number in range(20):
        here.remember(f"fact {number}")
    well(here, tap.url)
    [request] = tap.requests("POST /v1/changes")
    position = there.engine.store.position()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(replay(tap.port, without_mark(request)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert found == [200] * 8
    assert there.engine.store.position() == position
    quiet(tap.url, here)
    assert_same(here, there)


# -- files that are copied and put back ------------------------------------------------------------------------------------------


def copied(source: Path, target: Path) -> Path:
    """Copy a file as people do, with what lies beside it, while it is open."""
    shutil.copytree(source.parent, target)
    return target / source.name


@pytest.mark.parametrize("first", ["original", "copy"])
def test_a_file_that_is_copied_while_both_go_on_loses_no_row_of_either(
    tap: Tap, here: Memory, there: Memory, tmp_path: Path, first: str
) -> None:
    chance = dice()
    ours, theirs = Writer(chance, "original"), Writer(chance, "copy")
    shared = here.remember("edited by both").uid
    ours.write(here, 10)
    well(here, tap.url)
    ours.write(here, 3)
    copy = Memory.open(copied(Path(here.path), tmp_path / "copy"), readable_themes="*")
    assert copy.engine.store.replica == here.engine.store.replica
    order = (here, copy) if first == "original" else (copy, here)
    for number in range(4):
        ours.write(here)
        theirs.write(copy)
        here.update(shared, content=f"edited by the original {number}")
        copy.update(shared, content=f"edited by the copy {number}")
        for memory in order:
            well(memory, tap.url)
    quiet(tap.url, *order)
    assert_same(here, copy, there)
    assert here.engine.store.replica != copy.engine.store.replica
    left = contents(here)
    assert left == contents(copy) == contents(there)
    assert left - expected([ours, theirs]) == {here.get(shared).content: 1}
    assert not expected([ours, theirs]) - left
    assert here.get(shared).content.endswith(" 3")


def test_a_client_and_a_server_that_are_both_put_back_have_all_that_either_still_knows(
    here: Memory, there: Memory, tmp_path: Path
) -> None:
    other = Memory.open(tmp_path / "other" / "m.db", readable_themes="*")
    with in_thread(there, Limits()) as port, Tap(port) as tap:
        uid, gone = here.remember("old").uid, here.remember("forgotten after the backups").uid
        quiet(tap.url, here, other)
        backups = copied(Path(here.path), tmp_path / "backup-here"), copied(Path(there.path), tmp_path / "backup-there")
        here.update(uid, content="edited after the backups")
        here.forget(gone)
        here.remember("added after the backups")
        quiet(tap.url, here, other)
    here, there = (Memory.open(path, readable_themes="*") for path in backups)
    here.remember("added by the file that was put back")
    with in_thread(there, Limits()) as port, Tap(port) as tap:
        quiet(tap.url, here, other)
        quiet(tap.url, here)
        assert_same(here, there, other)
        assert set(contents(here)) == {
            "edited after the backups", "added after the backups", "added by the file that was put back",
        }  # fmt: skip
