"""Rounds of clients against a real server: what travels, what happens when things go wrong on the way."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import Memory, registry
from hermes_mnemosyne._errors import StoreBusy
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.setting_keys import Settings, SyncSettings
from hermes_mnemosyne.store.operations import CaptureTurns, TurnText
from hermes_mnemosyne.store.protocol import EVERYTHING
from hermes_mnemosyne.sync import background, state, wire
from hermes_mnemosyne.sync.exchange import RemoteError
from hermes_mnemosyne.sync.lock import alone
from hermes_mnemosyne.sync.preview import lag, preview
from hermes_mnemosyne.sync.proof import verify_once
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.round import Options, sync_once
from hermes_mnemosyne.sync.server.limits import Limits
from hermes_mnemosyne.sync.sharing import wanted
from hermes_mnemosyne.sync.summary import Summary
from hermes_mnemosyne.sync.watch import Keeper, Schedule
from tests.integration.provider_home import BOAT, HermesHome
from tests.integration.sync_world import KEY, in_thread
from tests.postgres.databases import PgDatabase
from tests.postgres.proxy import Proxy

EVENTUALLY = 30.0


class World:
    """A server's memory, the port it is served at, and machines."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self.server = self.machine("server")
        self._remotes: list[Remote] = []

    def machine(self, name: str) -> Memory:
        return Memory.open(self.directory / name / "m.db", readable_themes="*")

    def remote(self, kind: type[Remote] = Remote, *, port: int = 0, stop: threading.Event | None = None) -> Any:
        remote = kind(f"http://127.0.0.1:{port or self.port}", KEY, attempts=1, stop=stop)
        self._remotes.append(remote)
        return remote

    def sync(self, memory: Memory, remote: Remote | None = None, **options: Any) -> Summary:
        return sync_once(memory, remote or self.remote(), Options(name="home", **options))

    def well(self, memory: Memory, **options: Any) -> Summary:
        summary = self.sync(memory, **options)
        assert summary.complete, summary
        assert not summary.errors, summary
        return summary

    def same(self, *memories: Memory) -> bool:
        found = [memory.engine.store.digests(wanted(None, None, turns=False).sharing()) for memory in (self.server, *memories)]
        return all(one == found[0] for one in found)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        with in_thread(self.server, Limits()) as self.port:
            yield

    def close(self) -> None:
        for remote in self._remotes:
            remote.close()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@pytest.fixture
def world(bare: World) -> Iterator[World]:
    with bare.serving():
        yield bare


def texts(memory: Memory) -> set[str]:
    return {row.content for row in memory.list(limit=1000, kinds=("entry", "turn"))}


# -- what travels ----------------------------------------------------------------------------------------------------------------


def test_what_one_machine_writes_the_other_has_after_a_round_of_each(world: World) -> None:
    laptop, desk = world.machine("laptop"), world.machine("desk")
    uid = laptop.remember("the cat is called Momo", tags=["pets"]).uid
    desk.remember("the staging database listens on 5433")
    first = world.well(laptop)
    assert (first.pulled, first.pushed) == (0, 1)
    second = world.well(desk)
    assert (second.pulled, second.pushed) == (1, 1)
    assert world.well(laptop).pulled == 1
    assert texts(laptop) == texts(desk) == texts(world.server)
    laptop.update(uid, content="the cat is called Mimi")
    world.well(laptop)
    world.well(desk)
    assert desk.get(uid).content == "the cat is called Mimi"
    desk.forget(uid)
    world.well(desk)
    world.well(laptop)
    assert laptop.engine.store.state(uid, EVERYTHING) == "forgotten"
    assert world.same(laptop, desk)


def test_nothing_travels_twice_and_an_empty_round_changes_no_position(world: World) -> None:
    laptop, desk = world.machine("laptop"), world.machine("desk")
    for number in range(25):
        laptop.remember(f"fact {number}")
    assert world.well(laptop, limit=4).pushed == 25
    assert world.well(desk, limit=3).pulled == 25
    desk.remember("one more")
    assert (world.well(desk).pulled, world.well(desk).pushed) == (0, 0)
    before = laptop.engine.store.position(), world.server.engine.store.position()
    assert world.well(laptop).pulled == 1
    for memory in (laptop, desk, laptop):
        summary = world.well(memory)
        assert (summary.pulled, summary.pushed) == (0, 0)
    assert (laptop.engine.store.position() - 1, world.server.engine.store.position()) <= (before[0] + 1, before[1])


def test_turns_themes_and_local_rows_travel_as_asked_only(world: World) -> None:
    laptop, desk = world.machine("laptop"), world.machine("desk")
    laptop.remember("stays here", visibility="local")
    for theme in ("work", "play"):
        Memory.open(laptop.path, theme=theme).remember(f"about {theme}")
    laptop.submit(
        [laptop.make(CaptureTurns, session_id="s", turns=(TurnText(uid=uuid7(), role="user", content="said aloud"),))], hook=False
    )
    assert world.well(laptop, wanted=wanted(["work"], None, turns=False)).pushed == 1
    assert texts(world.server) == {"about work"}
    world.well(laptop, wanted=wanted(["*"], ["work"], turns=False))
    assert texts(world.server) == {"about work", "about play"}
    world.well(laptop, wanted=wanted(None, None, turns=True))
    assert texts(world.server) == {"about work", "about play", "said aloud"}
    world.well(desk, wanted=wanted(["play"], None, turns=False))
    assert texts(desk) == {"about play"}
    world.well(desk, wanted=wanted(None, None, turns=True))
    assert texts(desk) == texts(world.server)


def test_themes_of_contacts_travel_when_named_and_with_the_same_key_only(world: World) -> None:
    laptop = world.machine("laptop")
    contact = Memory.open(laptop.path, theme="whatsapp-dm", subject="f" * 64)
    contact.remember("a secret of a contact", visibility="synced")
    laptop.remember("ordinary")
    assert laptop.engine.bind_key()
    assert world.server.engine.bind_key()
    asked = wanted(["*", "whatsapp-dm"], None, turns=False)
    assert world.well(laptop).pushed == 1
    summary = world.well(laptop, wanted=asked)
    assert summary.pushed == 0 or "a secret of a contact" not in texts(world.server)
    assert any("subject key" in warning for warning in summary.warnings)
    assert "a secret of a contact" not in texts(world.server)
    summary = world.sync(laptop, wanted=wanted(["whatsapp-dm"], None, turns=False))
    assert "none of the themes" in summary.errors[0]


def test_themes_of_contacts_travel_with_the_same_key(bare: World) -> None:
    laptop = bare.machine("laptop")
    assert laptop.engine.bind_key()
    bare.server.engine.key.path.parent.mkdir(exist_ok=True)
    shutil.copy(laptop.engine.key.path, bare.server.engine.key.path)
    assert bare.server.engine.bind_key()
    Memory.open(laptop.path, theme="whatsapp-dm", subject="f" * 64).remember("a secret of a contact", visibility="synced")
    laptop.remember("ordinary")
    with bare.serving():
        bare.well(laptop, wanted=wanted(["*", "whatsapp-dm"], None, turns=False))
        desk = bare.machine("desk")
        desk.engine.key.path.parent.mkdir(exist_ok=True)
        shutil.copy(laptop.engine.key.path, desk.engine.key.path)
        assert desk.engine.bind_key()
        bare.well(desk, wanted=wanted(["*", "whatsapp-dm"], None, turns=False))
    assert texts(bare.server) == texts(desk) == {"ordinary", "a secret of a contact"}


def test_what_waits_in_the_spool_goes_too(world: World) -> None:
    laptop = world.machine("laptop")
    laptop.remember("at once")
    op = laptop.make(CaptureTurns, session_id="s", turns=(TurnText(uid=uuid7(), role="user", content="said meanwhile"),))
    laptop.engine.spool.append([replace(op, spooled=True)])
    world.well(laptop, wanted=wanted(None, None, turns=True))
    assert texts(world.server) == {"at once", "said meanwhile"}


def test_several_remotes_of_one_store_are_independent(world: World, tmp_path: Path) -> None:
    laptop, other = world.machine("laptop"), World(tmp_path / "other")
    laptop.remember("for both")
    with other.serving():
        world.well(laptop)
        summary = sync_once(laptop, other.remote(), Options())
        assert summary.complete, summary
        assert texts(other.server) == {"for both"}
        other.server.remember("from the other")
        sync_once(laptop, other.remote(), Options())
        world.well(laptop)
    other.close()
    assert texts(world.server) == {"for both", "from the other"}
    assert state.names_of(laptop) == ["home", f"http://127.0.0.1:{other.port}"]


class Limited(Remote):
    """A key with other rights."""

    rights: tuple[str, ...] = ("read",)
    themes: tuple[str, ...] | None = None

    def status(self) -> dict[str, Any]:
        return {**super().status(), "rights": list(self.rights), "themes": None if self.themes is None else list(self.themes)}


def test_a_key_that_may_only_read_sends_nothing_and_one_that_may_more_makes_up_for_it(world: World) -> None:
    laptop, limited = world.machine("laptop"), world.remote(Limited)
    laptop.remember("mine")
    world.server.remember("theirs")
    summary = world.sync(laptop, limited)
    assert (summary.complete, summary.pulled, summary.pushed) == (True, 1, 0)
    limited.rights, limited.themes = ("read", "write"), ("work",)
    Memory.open(laptop.path, theme="work").remember("about work")
    summary = world.sync(laptop, limited)
    assert (summary.complete, summary.pushed, summary.refused) == (True, 1, 0)
    assert texts(world.server) == {"theirs", "about work"}
    world.well(laptop)
    assert texts(world.server) == texts(laptop)


def test_a_clock_that_is_wrong_here_is_told(world: World) -> None:
    class Elsewhen(Remote):
        def status(self) -> dict[str, Any]:
            found = super().status()
            self.skew = -400.0
            return found

    laptop = world.machine("laptop")
    summary = world.sync(laptop, world.remote(Elsewhen))
    assert any("400 s behind the server's" in warning for warning in summary.warnings)
    assert state.load(laptop, "home").skew == -400.0


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_postgres_syncs_like_a_file(bare: World, postgres: PgDatabase, side: str) -> None:
    pg, file = Memory.open(postgres.dsn, readable_themes="*"), bare.machine("laptop")
    uid = file.remember("written in the file").uid
    pg.remember("written in the database")
    assert pg.engine.finish(20)
    client, bare.server = (pg, file) if side == "client" else (file, pg)
    with bare.serving():
        bare.well(client)
        assert texts(pg) == texts(file) == {"written in the file", "written in the database"}
        pg.forget(uid)
        bare.well(client)
        assert texts(pg) == texts(file) == {"written in the database"}
        proof, _ = verify_once(client, bare.remote(), Options(name="home"), repair=False)
        assert proof.count == 0


# -- things that go wrong --------------------------------------------------------------------------------------------------------


class Losing(Remote):
    """A way on which the answers to the first `lost` pushes or pages get lost after the server did its part."""

    lost = 1

    def push(self, replica: str, mark: str, body: bytes) -> dict[str, Any]:
        answer = super().push(replica, mark, body)
        self._lose()
        return answer

    def _lose(self) -> None:
        if self.lost:
            self.lost -= 1
            raise RemoteError("the answer was lost", retryable=True)


def test_a_page_whose_answer_was_lost_is_sent_again_without_harm(world: World) -> None:
    laptop, desk = world.machine("laptop"), world.machine("desk")
    laptop.remember("kept")
    uid = laptop.remember("forgotten soon").uid
    losing = world.remote(Losing)
    summary = world.sync(laptop, losing)
    assert (summary.complete, len(summary.errors)) == (False, 1)
    assert state.load(laptop, "home").last_error == "the answer was lost"
    laptop.forget(uid)
    world.well(laptop)
    assert state.load(laptop, "home").last_error is None
    world.well(desk)
    assert texts(desk) == texts(world.server) == {"kept"}
    assert world.same(laptop, desk)


def test_a_copy_of_a_file_becomes_a_replica_of_its_own(bare: World) -> None:
    world, laptop = bare, bare.machine("laptop")
    laptop.remember("before the copy")
    with world.serving():
        world.well(laptop)
    registry.close_all()
    shutil.copytree(world.directory / "laptop", world.directory / "copy")
    laptop, copy = world.machine("laptop"), world.machine("copy")
    world.server = world.machine("server")
    assert laptop.engine.store.replica == copy.engine.store.replica
    laptop.remember("by the laptop")
    copy.remember("by the copy")
    with world.serving():
        # Which of the two is taken for the copy is no matter, as long as one is.
        summaries = [world.well(memory) for memory in (laptop, copy) * 3]
        assert sum(summary.new_replica is not None for summary in summaries) == 1
        assert laptop.engine.store.replica != copy.engine.store.replica
        assert texts(laptop) == texts(copy) == {"before the copy", "by the laptop", "by the copy"}
        assert all(one.engine.clock.replica == one.engine.store.replica for one in (laptop, copy))


def restored(world: World, act: Callable[[], None]) -> None:
    """Let the server's file be what it was before `act`."""
    registry.close_all()
    shutil.copytree(world.directory / "server", world.directory / "backup")
    world.server = world.machine("server")
    act()
    registry.close_all()
    shutil.rmtree(world.directory / "server")
    shutil.copytree(world.directory / "backup", world.directory / "server")
    world.server = world.machine("server")


def test_a_server_that_was_restored_is_healed(bare: World) -> None:
    def machines() -> tuple[Memory, Memory]:
        return bare.machine("laptop"), bare.machine("desk")

    laptop, desk = machines()
    for number in range(8):
        laptop.remember(f"old {number}")
    with bare.serving():
        bare.well(laptop)
        bare.well(desk)

    def act() -> None:
        laptop, desk = machines()
        rows = sorted(laptop.list(limit=100), key=lambda row: row.content)
        laptop.update(rows[0].uid, content="edited 0")
        laptop.forget(rows[1].uid)
        laptop.retire(rows[2].uid)
        desk.remember("new at the desk")
        with bare.serving():
            for memory in (laptop, desk, laptop):
                bare.well(memory)

    restored(bare, act)
    laptop, desk = machines()
    laptop.remember("after the restore")
    with bare.serving():
        bare.server.remember("on the restored server")
        summary = bare.well(laptop)
        assert summary.healed >= 4
        assert any("restored" in warning for warning in summary.warnings)
        bare.well(desk)
        assert bare.same(laptop, desk)
        assert "old 1" not in texts(bare.server)
        assert {"edited 0", "new at the desk", "after the restore", "on the restored server"} <= texts(bare.server)
        for memory in (laptop, desk, laptop):
            last = bare.well(memory)
        assert (last.pulled, last.pushed, last.healed) == (0, 0, 0)


def test_a_server_that_was_emptied_gets_everything_again(bare: World) -> None:
    laptop = bare.machine("laptop")
    for number in range(5):
        laptop.remember(f"fact {number}")
    with bare.serving():
        bare.well(laptop)
    registry.close_all()
    shutil.rmtree(bare.directory / "server")
    bare.server, laptop = bare.machine("server"), bare.machine("laptop")
    with bare.serving():
        assert bare.well(laptop, limit=2).healed == 5
        assert bare.same(laptop)
        assert (bare.well(laptop).pulled, bare.well(laptop).pushed) == (0, 0)


def test_healing_that_was_interrupted_goes_on_with_the_next_round(bare: World) -> None:
    laptop = bare.machine("laptop")
    for number in range(5):
        laptop.remember(f"fact {number}")
    with bare.serving():
        bare.well(laptop)
    registry.close_all()
    shutil.rmtree(bare.directory / "server")
    bare.server, laptop = bare.machine("server"), bare.machine("laptop")
    with bare.serving():
        broken = bare.sync(laptop, bare.remote(Losing), limit=2)
        assert broken.errors
        assert state.load(laptop, "home").healing
        bare.well(laptop)
        assert not state.load(laptop, "home").healing
        assert bare.same(laptop)


def test_an_edit_of_what_was_forgotten_elsewhere_is_dropped_and_reported(world: World) -> None:
    laptop, desk = world.machine("laptop"), world.machine("desk")
    uid = laptop.remember("a secret").uid
    world.well(laptop)
    world.well(desk)
    laptop.forget(uid)
    desk.update(uid, content="a secret, edited")
    world.well(laptop)
    world.well(desk)
    world.well(laptop)
    assert texts(laptop) == texts(desk) == texts(world.server) == set()
    assert world.same(laptop, desk)


def test_a_clock_that_ran_ahead_is_corrected_on_both_sides(world: World) -> None:
    laptop = world.machine("laptop")
    ahead = f"{int(laptop.engine.clock.tick()[:12], 16) + 10 * 365 * 86_400_000:012x}0000-x"
    laptop.engine.clock.observe(ahead)
    uid = laptop.remember("from the future").uid
    wrong = laptop.get(uid).clock
    summary = world.well(laptop)
    assert summary.restamped == 1
    assert laptop.get(uid).clock == world.server.get(uid).clock < wrong
    assert world.same(laptop)
    laptop.update(uid, content="edited in the present")
    assert laptop.get(uid).clock < wrong
    world.well(laptop)
    assert world.server.get(uid).content == "edited in the present"
    world.well(laptop)
    again = world.well(laptop)
    assert (again.pulled, again.pushed, again.restamped) == (0, 0, 0)


class Narrow(Remote):
    """A server that takes no page of more than `most` records."""

    most = 2

    def push(self, replica: str, mark: str, body: bytes) -> dict[str, Any]:
        records = wire.read_page([body], encoding="gzip").records
        if len(records) > self.most or any("too much" in record.get("content", "") for record in records):
            raise RemoteError("smaller, please", word="too-large", proven=True)
        return super().push(replica, mark, body)


def test_pages_that_are_too_large_are_made_smaller_and_a_row_that_is_stays_here(world: World) -> None:
    laptop = world.machine("laptop")
    for number in range(9):
        laptop.remember(f"fact {number}" if number != 4 else "too much")
    summary = world.sync(laptop, world.remote(Narrow))
    assert (summary.complete, summary.pushed, summary.refused) == (True, 8, 1)
    assert texts(world.server) == texts(laptop) - {"too much"}


def test_a_row_that_cannot_be_stored_is_set_aside_and_the_rest_flows(world: World) -> None:
    class Poisoned(Remote):
        def pull(self, ask: Any) -> wire.Page:
            page = super().pull(ask)
            page.records[1:1] = [{**page.records[0], "uid": uuid7(), "importance": "much"}, {"type": "entry", "theme": 7}]
            return wire.Page(page.head, page.records, [(9, "no JSON")])

    world.server.remember("one")
    world.server.remember("two")
    laptop = world.machine("laptop")
    summary = world.sync(laptop, world.remote(Poisoned))
    assert summary.complete
    assert summary.set_aside == 3
    assert texts(laptop) == {"one", "two"}
    assert state.load(laptop, "home").totals["set_aside"] == 3


def test_a_row_that_nobody_asked_for_is_not_taken_in(world: World) -> None:
    class Pushy(Remote):
        def pull(self, ask: Any) -> wire.Page:
            page = super().pull(ask)
            other = {"uid": uuid7(), "theme": "whatsapp-dm", "subject": "x"}
            local = {"uid": uuid7(), "visibility": "local"}
            extra = [{**record, **fields} for record in page.records for fields in (other, local)]
            return wire.Page(page.head, page.records + extra, [])

    world.server.remember("wanted")
    laptop = world.machine("laptop")
    summary = world.sync(laptop, world.remote(Pushy))
    assert (summary.refused, texts(laptop)) == (2, {"wanted"})


def test_two_rounds_on_one_store_never_overlap(world: World) -> None:
    laptop = world.machine("laptop")
    with alone(laptop.engine, wait=0), pytest.raises(StoreBusy, match="under way"):
        world.sync(laptop, lock_wait=0.0)
    world.well(laptop)


def test_a_cut_network_costs_nothing_but_another_round(world: World) -> None:
    laptop, desk = world.machine("laptop"), world.machine("desk")
    for number in range(60):
        laptop.remember(f"fact {number}")
    with Proxy(("127.0.0.1", world.port)) as proxy:
        remote = world.remote(port=proxy.port)
        pages = 0

        def step(_: int) -> None:
            nonlocal pages
            pages += 1
            if pages in {2, 4}:
                proxy.cut()

        for memory in (laptop, desk):
            for _ in range(10):
                if world.sync(memory, remote, limit=10, step=step).complete:
                    break
        remote.close()
    assert world.same(laptop, desk)


# -- proof and preview -----------------------------------------------------------------------------------------------------------


def test_a_proof_lists_what_differs_and_repair_mends_it(world: World) -> None:
    laptop = world.machine("laptop")
    for number in range(5):
        laptop.remember(f"fact {number}")
    world.well(laptop)
    proof, _ = verify_once(laptop, world.remote(), Options(name="home"), repair=False)
    assert proof.count == 0
    # What deltas would never tell: positions that say that all has travelled, while it has not.
    lost = laptop.remember("never sent").uid
    known = state.load(laptop, "home")
    state.save(laptop, "home", replace(known, pushed=laptop.engine.store.position()))
    unseen = world.server.remember("never fetched").uid
    state.save(laptop, "home", replace(state.load(laptop, "home"), pulled=world.server.engine.store.position()))
    proof, _ = verify_once(laptop, world.remote(), Options(name="home"), repair=False)
    assert {(one.uid, bool(one.here), bool(one.there)) for one in proof.listed} == {(lost, True, False), (unseen, False, True)}
    proof, summary = verify_once(laptop, world.remote(), Options(name="home"), repair=True)
    assert (proof.count, summary.healed) == (0, 2)
    assert texts(laptop) == texts(world.server)


def test_a_preview_says_what_would_travel_and_changes_nothing(world: World) -> None:
    laptop = world.machine("laptop")
    laptop.remember("mine")
    world.server.remember("theirs")
    world.server.remember("theirs too")
    found = preview(laptop, world.remote(), Options(name="home", limit=1))
    assert (found["pull"]["records"], found["push"]["records"]) == (2, 1)
    assert found["pull"]["themes"] == {"hermes": 2}
    assert texts(laptop) == {"mine"}
    assert state.names_of(laptop) == []
    assert world.server.engine.store.sync_states() == {}
    world.well(laptop)
    found = preview(laptop, world.remote(), Options(name="home"))
    assert (found["pull"]["records"], found["push"]["records"]) == (0, 0)
    laptop.remember("more")
    assert lag(laptop, state.load(laptop, "home")) == 1


# -- again and again -------------------------------------------------------------------------------------------------------------


class Rounds:
    """What a keeper reports, and waiting for it."""

    def __init__(self) -> None:
        self.seen: list[Summary] = []
        self._changed = threading.Condition()

    def __call__(self, summary: Summary) -> None:
        with self._changed:
            self.seen.append(summary)
            self._changed.notify_all()

    def until(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, EVENTUALLY), self.seen


@contextlib.contextmanager
def keeping(world: World, memory: Memory, *, port: int = 0, interval: float | None = None) -> Iterator[Rounds]:
    rounds = Rounds()
    options = Options(name="home", stop=threading.Event())
    connect = lambda stop: world.remote(port=port, stop=stop)  # noqa: E731
    keeper = Keeper(memory, connect, options, Schedule(interval=interval, report=rounds))
    thread = threading.Thread(target=keeper.run)
    thread.start()
    try:
        yield rounds
    finally:
        keeper.stop()
        thread.join(EVENTUALLY)
    assert not thread.is_alive()


def test_a_watch_syncs_after_a_change_here_or_there(world: World) -> None:
    laptop = world.machine("laptop")
    with keeping(world, laptop) as rounds:
        rounds.until(lambda: len(rounds.seen) > 0)
        laptop.remember("written here")
        rounds.until(lambda: "written here" in texts(world.server))
        world.server.remember("written there")
        rounds.until(lambda: "written there" in texts(laptop))
    assert not [summary for summary in rounds.seen if summary.errors]


def test_a_watch_survives_an_outage(world: World) -> None:
    laptop = world.machine("laptop")
    with Proxy(("127.0.0.1", world.port)) as proxy, keeping(world, laptop, port=proxy.port) as rounds:
        rounds.until(lambda: len(rounds.seen) > 0)
        proxy.refuse()
        laptop.remember("written meanwhile")
        rounds.until(lambda: any(summary.errors for summary in rounds.seen))
        proxy.accept()
        rounds.until(lambda: "written meanwhile" in texts(world.server))


def test_rounds_at_intervals_go_on_until_stopped(world: World) -> None:
    laptop = world.machine("laptop")
    with keeping(world, laptop, interval=0.05) as rounds:
        rounds.until(lambda: len(rounds.seen) >= 3)


def test_an_agents_process_syncs_in_the_background_by_setting(world: World) -> None:
    key_file = world.directory / "key"
    key_file.write_text(KEY)
    key_file.chmod(0o600)
    sync = SyncSettings(remote=f"http://127.0.0.1:{world.port}", interval=1.0, api_key_file=str(key_file))
    memory = Memory.open(world.directory / "agent" / "m.db", settings=Settings(sync=sync))
    memory.remember("by the agent")
    background.attach(memory.engine)
    background.attach(memory.engine)
    done = threading.Event()
    for _ in range(600):
        if "by the agent" in texts(world.server):
            break
        done.wait(0.05)
    assert "by the agent" in texts(world.server)
    for _ in range(600):
        if memory.engine.figures()["sync"]["rounds"]:
            break
        done.wait(0.05)
    figures = memory.stats()
    assert figures["process"]["sync"]["problem"] == ""
    assert figures["sync"][sync.remote]["last_error"] is None
    memory.close()
    assert [thread.name for thread in threading.enumerate() if thread.name == "mnemosyne-sync"] == []


def test_a_failure_in_the_background_is_counted_and_shown(bare: World) -> None:
    sync = SyncSettings(remote="http://127.0.0.1:1", interval=1.0)
    memory = Memory.open(bare.directory / "agent" / "m.db", settings=Settings(sync=sync))
    background.attach(memory.engine)
    done = threading.Event()
    for _ in range(600):
        if memory.engine.figures()["sync"]["failures"]:
            break
        done.wait(0.05)
    assert "cannot be reached" in memory.engine.figures()["sync"]["problem"]
    assert "cannot be reached" in memory.stats()["sync"]["http://127.0.0.1:1"]["last_error"]
    memory.close()


def test_a_provider_whose_settings_name_a_server_syncs_what_the_agent_keeps(world: World, hermes: HermesHome) -> None:
    key_file = world.directory / "key"
    key_file.write_text(KEY)
    key_file.chmod(0o600)
    url = f"http://127.0.0.1:{world.port}"
    hermes.configure(sync={"remote": url, "interval": "1s", "api_key_file": str(key_file)})
    world.server.remember("from the server")
    provider = hermes.start()
    provider.on_memory_write("add", "memory", BOAT)
    done = threading.Event()
    for _ in range(600):
        if BOAT in texts(world.server) and "from the server" in hermes.noted():
            break
        done.wait(0.05)
    provider.shutdown()
    assert BOAT in texts(world.server)
    assert "from the server" in hermes.noted()
