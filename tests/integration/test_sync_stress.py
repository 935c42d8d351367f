"""Many clients at once, a watch through the restart of its server, full disks, rows that cannot be taken in."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from inspect import stack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the server is an extra")
pytest.importorskip("uvicorn", reason="the server is an extra")

from hermes_mnemosyne import Memory
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.sync import wire
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.server.limits import Limits
from hermes_mnemosyne.values import Entry
from tests.integration import sync_world
from tests.integration.command import Store
from tests.integration.sync_faults import SECONDS, Machine, Tap, assert_same, contents, doctor, in_threads, well
from tests.integration.sync_world import KEY, in_thread, server

CLIENTS = 50


@pytest.fixture
def there(tmp_path: Path) -> Memory:
    return Memory.open(tmp_path / "there" / "m.db", readable_themes="*")


# -- many at once ----------------------------------------------------------------------------------------------------------------


def assert_nothing_lost(*memories: Memory) -> None:
    """What fifty versions of one entry were tagged with is in the entry, or in its history."""
    for memory in memories:
        [common] = [row for row in memory.list(limit=CLIENTS + 1) if row.content == "all of them say this"]
        assert isinstance(common, Entry)
        before = [tag for change in memory.history(common.uid) for tag in change.before.get("tags", ())]
        assert {*common.tags, *before} == {f"tag{number}" for number in range(CLIENTS)}


def test_fifty_clients_at_once_all_end_with_the_same(tmp_path: Path, there: Memory) -> None:
    clients = [Memory.open(tmp_path / f"client{number}" / "m.db", readable_themes="*") for number in range(CLIENTS)]
    with in_thread(there, Limits()) as port:
        url = f"http://127.0.0.1:{port}"

        def write_and_meet(number: int) -> None:
            clients[number].remember(f"only client {number} knows this")
            clients[number].remember("all of them say this", tags=[f"tag{number}"])
            well(clients[number], url)

        in_threads(CLIENTS, write_and_meet)
        # By then all have sent all: nobody needs more than one round to have the rest.
        in_threads(CLIENTS, lambda number: well(clients[number], url))
        in_threads(CLIENTS, lambda number: well(clients[number], url))
        assert_same(there, *clients)
        assert_nothing_lost(there, *clients)
        assert set(contents(clients[0])) == {
            "all of them say this",
            *(f"only client {number} knows this" for number in range(CLIENTS)),
        }
        position = there.engine.store.position()
        in_threads(CLIENTS, lambda number: well(clients[number], url))
        assert there.engine.store.position() == position


@pytest.mark.full
def test_fifty_clients_that_edit_and_forget_the_same_rows_at_once_agree(tmp_path: Path, there: Memory) -> None:
    uids = [there.remember(f"row {number}").uid for number in range(10)]
    clients = [Memory.open(tmp_path / f"client{number}" / "m.db", readable_themes="*") for number in range(CLIENTS)]
    with in_thread(there, Limits()) as port:
        url = f"http://127.0.0.1:{port}"
        in_threads(CLIENTS, lambda number: well(clients[number], url))

        def change(number: int) -> None:
            uid = uids[number % len(uids)]
            if number == CLIENTS - 1:
                clients[number].forget(uid)
            else:
                clients[number].update(uid, content=f"row {number % len(uids)} as client {number} says")
            well(clients[number], url)

        in_threads(CLIENTS, change)
        in_threads(CLIENTS, lambda number: well(clients[number], url))
        in_threads(CLIENTS, lambda number: well(clients[number], url))
        assert_same(there, *clients)
        assert there.engine.store.state(uids[9], there.reach) == "forgotten"
        assert len(contents(there)) == len(uids) - 1
        assert not any(text.startswith("row 9") for memory in (there, *clients) for text in contents(memory))


# -- a command that stays --------------------------------------------------------------------------------------------------------


def test_a_watch_brings_changes_across_before_and_after_its_server_was_restarted(tmp_path: Path, there: Memory) -> None:
    here = Machine(tmp_path / "here" / "m.db")
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(server(Path(there.path)))
        tap = stack.enter_context(Tap(first.port))
        process = stack.enter_context(here.start("--json", "sync", "--profile", "home", "--remote", tap.url, "--watch"))
        stack.callback(process.kill)
        assert process.stdout is not None

        def brought(what: str) -> None:
            for line in process.stdout or ():
                if json.loads(line)[what]:
                    return
            raise AssertionError("the watch has ended")

        there.remember("there, before")
        brought("pulled")
        Store(here.path).add("here, before")
        brought("pushed")
        assert first.stop() == 0
        Store(here.path).add("here, meanwhile")
        there.remember("there, meanwhile")
        tap.lead_to(stack.enter_context(server(Path(there.path))).port)
        brought("pushed")
        there.remember("there, after")
        brought("pulled")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0
        assert set(here.sync(tap.url)) >= {"pulled", "pushed"}
    assert set(contents(there)) == {"there, before", "here, before", "here, meanwhile", "there, meanwhile", "there, after"}
    assert_same(there, Memory.open(here.path))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", [("--watch",), ("--interval", "1h")])
def test_a_command_that_stays_ends_though_the_signal_comes_while_it_holds_a_lock(
    tap: Tap, here: Store, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    wait, is_sent = threading.Condition.wait, threading.Event()

    def interrupted(self: threading.Condition, timeout: float | None = None) -> bool:
        # At this point of `Event.wait` its lock is held, and `Event.set` of the same event would wait for it.
        is_here = threading.current_thread() is threading.main_thread() and any("sync/watch" in one.filename for one in stack())
        if is_here and not is_sent.is_set():
            is_sent.set()
            os.kill(os.getpid(), signal.SIGTERM)
        return wait(self, timeout)

    monkeypatch.setattr(threading.Condition, "wait", interrupted)
    assert here("sync", "--remote", tap.url, *mode).code == 0
    assert is_sent.is_set()


# -- what cannot be taken in -----------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("MNEMOSYNE_SYNC_KEY", KEY)
    return Store(tmp_path / "here" / "m.db")


@pytest.fixture
def tap(there: Memory) -> Iterator[Tap]:
    with in_thread(there, Limits()) as port, Tap(port) as found:
        yield found


@pytest.mark.parametrize("side", ["here", "there"])
def test_one_row_that_cannot_be_taken_in_is_told_of_and_all_others_flow(
    tap: Tap, here: Store, there: Memory, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    bad = uuid7()
    pull, push = Remote.pull, Remote.push

    def poisoned(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*records[:1], {**records[0], "uid": bad, "importance": "much"}, *records[1:]] if records else records

    def pulled(self: Remote, ask: Any) -> wire.Page:
        page = pull(self, ask)
        return wire.Page(page.head, poisoned(page.records), page.set_aside)

    def pushed(self: Remote, replica: str, mark: str, body: bytes, also: Any = ()) -> dict[str, Any]:
        page = wire.read_page([body], encoding="gzip")
        return push(self, replica, mark, wire.encode_page(page.head, poisoned(page.records)), also)

    if side == "here":
        monkeypatch.setattr(Remote, "pull", pulled)
        for number in range(3):
            there.remember(f"fact {number}")
    else:
        monkeypatch.setattr(Remote, "push", pushed)
        for number in range(3):
            here.add(f"fact {number}")
    done = here("sync", "--profile", "home", "--remote", tap.url)
    assert (done.code, f"set aside {side}: " in done.err) == (3, True)
    assert side == "there" or bad in done.err
    monkeypatch.undo()
    monkeypatch.setenv("MNEMOSYNE_SYNC_KEY", KEY)
    assert any("1 rows could not be read or stored by one side" in detail for detail in doctor(Machine(here.path)))
    assert here("sync", "--profile", "home", "--remote", tap.url).code == 0
    assert here("sync", "--profile", "home", "--remote", tap.url, "--verify").code == 0
    assert set(contents(there)) == {"fact 0", "fact 1", "fact 2"}


def test_a_server_whose_disk_is_full_says_so_and_the_client_goes_on_when_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ("unshare", "-Urm", "sh", "-c", 'mount -t tmpfs -o size=24m tmpfs "$0" && exec "$@"', str(disk))
    if subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount a small disk")
    monkeypatch.setattr(sync_world, "COMMAND", (*mounted, *sync_world.COMMAND))
    here = Machine(tmp_path / "here" / "m.db", page=20)
    with server(disk / "m.db") as running:
        # Only the server sees its disk.
        within = Path(f"/proc/{running.process.pid}/root{disk}")
        here.sync(running.url)
        with Memory.open(here.path) as memory:
            for number in range(300):
                memory.remember(f"fact {number}: " + f"words to fill it {number} " * 100)
        ballast = within / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while shutil.disk_usage(within).free > 1 << 20:
                file.write(bytes(1 << 16))
        done = here.sync(running.url, codes=(3,))
        assert 0 < done["pushed"] < 300
        [error] = done["errors"]
        assert "(507)" in error
        assert str(disk) not in error
        [status] = here.json("sync", "status")
        assert status["last_error"] == error
        assert here.sync(running.url, codes=(1, 3))["errors"] == [error]
        assert running.request("GET", "/healthz")[0] == 200
        ballast.unlink()
        assert here.sync(running.url)["pushed"] >= 300 - done["pushed"]
        assert here.sync(running.url, "--verify")["same"]


def test_a_client_whose_disk_is_full_says_so_and_goes_on_when_it_is_not(tap: Tap, there: Memory, tmp_path: Path) -> None:
    here = Machine(tmp_path / "here" / "m.db", page=20)
    here.sync(tap.url)
    for number in range(100):
        there.remember(f"fact {number}: " + f"words to fill it {number} " * 100)
    used = max(file.stat().st_size for file in here.path.parent.glob("m.db*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (used + 100_000, hard))
    try:
        process = here.start("--json", "sync", "--profile", "home", "--remote", tap.url)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode in {1, 3}, (out, err)
    assert "Traceback" not in err
    assert "disk" in out + err
    here.sync(tap.url)
    assert here.sync(tap.url, "--verify")["same"]
    assert_same(there, Memory.open(here.path))
