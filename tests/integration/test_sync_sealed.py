"""Machines that sync through a server which cannot read: they end with the same memories, and it learns none of them."""

from __future__ import annotations

import base64
import contextlib
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import HybridClock
from hermes_mnemosyne.setting_keys import Settings, SyncSettings
from hermes_mnemosyne.store.protocol import EVERYTHING
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.sync import background, exchange
from hermes_mnemosyne.sync.exchange import RemoteError
from hermes_mnemosyne.sync.keyring import Keyring
from hermes_mnemosyne.sync.preview import preview
from hermes_mnemosyne.sync.proof import Proof, verify_once
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.round import Options, sync_once
from hermes_mnemosyne.sync.seal import Sealer, SealKey
from hermes_mnemosyne.sync.server.limits import Limits
from hermes_mnemosyne.sync.sharing import wanted
from hermes_mnemosyne.sync.summary import Summary
from hermes_mnemosyne.sync.watch import Keeper, Schedule
from tests.integration.sync_world import KEY, in_thread
from tests.postgres.databases import PgDatabase

OLD, NEW, STRANGE = (SealKey.of(bytes([number]) * 32) for number in (1, 2, 3))
ALL = Sharing(turns=True)


class World:
    """A server's memory, the port it is served at, and machines that seal."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self.server = self.machine("server")
        self.keyring = Keyring(directory / "server.keys.json")
        self._remotes: list[Remote] = []

    def machine(self, name: str, theme: str | None = None) -> Memory:
        return Memory.open(self.directory / name / "m.db", theme=theme, readable_themes="*")

    def remote(self, key: str = KEY, stop: threading.Event | None = None) -> Remote:
        self._remotes.append(Remote(f"http://127.0.0.1:{self.port}", key, attempts=1, stop=stop))
        return self._remotes[-1]

    def sync(self, memory: Memory, *keys: SealKey, sealed: bool = True, key: str = KEY, **options: Any) -> Summary:
        sealer = Sealer(keys or (OLD,)) if sealed else None
        return sync_once(memory, self.remote(key), Options(name="home", sealer=sealer, **options))

    def well(self, memory: Memory, *keys: SealKey, **options: Any) -> Summary:
        summary = self.sync(memory, *keys, **options)
        assert summary.complete, summary
        assert (summary.errors, summary.set_aside, summary.refused) == ([], 0, 0), summary
        return summary

    def settled(self, *memories: Memory) -> None:
        """Let all do rounds until nothing travels, and prove that they hold the same."""
        for _ in range(8):
            if not sum(self.well(memory).pushed for memory in memories):
                break
        else:
            pytest.fail("they never come to an end")
        for memory in memories:
            assert self.proof(memory).listed == []
        found = [memory.engine.store.digests(ALL) for memory in memories]
        assert all(one == found[0] for one in found)

    def proof(self, memory: Memory, *keys: SealKey, repair: bool = False, **options: Any) -> Proof:
        given = Options(name="home", sealer=Sealer(keys or (OLD,)), **options)
        return verify_once(memory, self.remote(), given, repair=repair)[0]

    def held(self) -> list[dict[str, Any]]:
        return list(self.server.engine.store.sealed.changes(0, Sharing(), limit=5000).records)

    def files(self) -> bytes:
        """Return every byte that the server's store has on disk."""
        while not self.server.engine.store.upkeep(seconds=10.0):
            pass
        return b"".join(path.read_bytes() for path in sorted((self.directory / "server").iterdir()) if path.is_file())

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        with in_thread(self.server, Limits(), self.keyring) as self.port:
            yield

    def close(self) -> None:
        for remote in self._remotes:
            remote.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with made.serving():
        yield made
    made.close()


@pytest.fixture
def machines(world: World) -> tuple[Memory, Memory]:
    return world.machine("laptop"), world.machine("desk")


def texts(memory: Memory) -> set[str]:
    return {row.content for row in memory.list(limit=1000, kinds=("entry", "turn"))}


# -- one memory ------------------------------------------------------------------------------------------------------------------


def test_what_one_machine_writes_the_other_reads(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    uid = laptop.remember("the cat is called Momo", tags=["pets"]).uid
    assert world.well(laptop).pushed == 1
    assert world.well(desk).pulled == 1
    assert (desk.get(uid).content, desk.get(uid).tags) == ("the cat is called Momo", ("pets",))
    assert texts(world.server) == set()
    before = world.server.engine.store.position()
    world.settled(laptop, desk)
    assert world.server.engine.store.position() == before


def test_edits_retirements_and_erasures_arrive_with_their_history(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    edited, retired, forgotten = (laptop.remember(f"text number {number}").uid for number in range(3))
    world.settled(laptop, desk)
    laptop.update(edited, content="another text")
    desk.retire(retired)
    desk.forget(forgotten)
    world.settled(laptop, desk)
    for memory in machines:
        states = [memory.engine.store.state(uid, EVERYTHING) for uid in (edited, retired, forgotten)]
        assert states == ["live", "retired", "forgotten"]
        assert [change.before["content"] for change in memory.engine.store.history(edited, EVERYTHING)] == ["text number 0"]
        assert texts(memory) == {"another text"}


def test_equal_texts_become_one_with_the_tags_of_both(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    uids = sorted(memory.remember("the same text", tags=[tag]).uid for memory, tag in zip(machines, "ab", strict=True))
    world.settled(laptop, desk)
    for memory in machines:
        [row] = memory.list()
        assert (row.uid, row.tags) == (uids[0], ("a", "b"))
        assert memory.get(uids[1]).uid == uids[0]
    late = world.machine("late")
    world.settled(late, laptop, desk)
    assert late.list()[0].tags == ("a", "b")
    desk.forget(uids[1])
    world.settled(desk, laptop, late)
    assert [row["gone"] for row in world.held()] == ["row", "row"]


def test_of_two_offline_edits_the_later_counts_and_the_other_is_in_the_history_of_both(
    world: World, machines: tuple[Memory, Memory]
) -> None:
    laptop, desk = machines
    uid = laptop.remember("first").uid
    world.settled(laptop, desk)
    laptop.update(uid, content="second")
    desk.engine.clock.observe(laptop.get(uid).clock)
    desk.update(uid, content="third")
    world.settled(laptop, desk)
    for memory in machines:
        assert memory.get(uid).content == "third"
        versions = {change.before["content"] for change in memory.engine.store.history(uid, EVERYTHING)}
        assert versions == {"first", "second"}


def test_a_version_that_came_to_the_server_meanwhile_is_joined_and_not_written_over(
    world: World, machines: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desk = machines
    uid = laptop.remember("first").uid
    world.settled(laptop, desk)
    laptop.update(uid, content="second")
    desk.engine.clock.observe(laptop.get(uid).clock)
    desk.update(uid, content="third")
    pushed: list[int] = []
    push = Remote.push

    def interrupted(remote: Remote, *arguments: Any) -> dict[str, Any]:
        if not pushed:
            pushed.append(1)
            world.well(laptop)
        return push(remote, *arguments)

    monkeypatch.setattr(Remote, "push", interrupted)
    world.well(desk)
    late = world.machine("late")
    world.settled(late)
    assert late.get(uid).content == "third"
    assert {change.before["content"] for change in late.engine.store.history(uid, EVERYTHING)} == {"first", "second"}
    world.settled(late, laptop, desk)


def test_offline_edits_of_what_was_forgotten_are_dropped(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    uid = laptop.remember("a secret").uid
    world.settled(laptop, desk)
    laptop.forget(uid)
    desk.update(uid, content="a secret, edited")
    world.well(laptop)
    assert world.sync(desk).complete
    world.settled(laptop, desk)
    assert all(memory.engine.store.state(uid, EVERYTHING) == "forgotten" for memory in machines)


def test_a_row_that_becomes_local_is_forgotten_elsewhere(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    uid = laptop.remember("mine alone").uid
    world.settled(laptop, desk)
    laptop.update(uid, visibility="local")
    world.well(laptop)
    world.well(desk)
    assert (laptop.get(uid).content, texts(desk)) == ("mine alone", set())
    assert [row["gone"] for row in world.held()] == ["row"]


def test_many_rows_go_in_pages_and_nothing_travels_twice(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    for number in range(25):
        laptop.remember(f"fact {number}")
    assert world.well(laptop, limit=4).pushed == 25
    assert world.well(desk, limit=3).pulled == 25
    assert (world.well(laptop).pulled, world.well(desk).pushed) == (0, 0)
    assert world.proof(desk).count == 0


def test_turns_and_themes_go_as_far_as_they_were_asked_for(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    laptop.capture_turn("the ferry sails at nine", session_id="s1")
    world.machine("laptop", "work").remember("in the theme of work")
    world.machine("laptop", "home").remember("in the theme of home")
    world.well(laptop, wanted=wanted(None, None, turns=True))
    world.well(desk, wanted=wanted(["work"], None, turns=False))
    assert texts(desk) == {"in the theme of work"}
    assert world.proof(desk, wanted=wanted(["work"], None, turns=False)).count == 0
    world.well(desk)
    assert texts(desk) == {"in the theme of work", "in the theme of home"}
    assert world.proof(desk).count == 0
    world.well(desk, wanted=wanted(None, None, turns=True))
    assert "the ferry sails at nine" in texts(desk)
    assert world.proof(desk, wanted=wanted(None, ["home"], turns=True)).count == 0


# -- what the server sees --------------------------------------------------------------------------------------------------------

CANARIES = ("zanzibar", "quetzal", "okapi", "narwhal", "pangolin", "axolotl")


def test_neither_the_wire_nor_the_servers_files_hold_a_word(
    world: World, machines: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desk = machines
    crossed: list[bytes] = []
    send = exchange.Exchanger.send

    def overheard(self: exchange.Exchanger, request: exchange.Request) -> exchange.Answer:
        crossed.extend((request.target.encode(), request.body))
        answer = send(self, request)
        chunks = answer.chunks

        def heard() -> Iterator[bytes]:
            for chunk in chunks():
                crossed.append(chunk)
                yield chunk

        monkeypatch.setattr(answer, "chunks", heard)
        return answer

    monkeypatch.setattr(exchange.Exchanger, "send", overheard)
    uid = world.machine("laptop", "quetzal").remember("the zanzibar plan", tags=["okapi"], metadata={"pangolin": 1}).uid
    laptop.capture_turn("of the axolotl", session_id="narwhal")
    alias = world.machine("desk", "quetzal").remember("the zanzibar plan").uid
    everything = wanted(None, None, turns=True)
    for memory in (laptop, desk, laptop, desk):
        world.well(memory, wanted=everything)
    laptop.update(uid, content="the okapi plan")
    laptop.retire(laptop.remember("quetzal feathers").uid)
    for memory in (laptop, desk):
        world.well(memory, wanted=wanted(["quetzal", "hermes"], ["okapi"], turns=True))
    world.proof(desk, wanted=everything)
    assert desk.get(alias).content == "the okapi plan"
    on_the_way = b"".join(crossed).lower()
    unpacked = b"".join(_unpacked(part) for part in crossed).lower()
    assert b"sealed" in unpacked
    for place in (on_the_way, unpacked, world.files().lower()):
        assert [word for word in CANARIES if word.encode() in place] == []


def _unpacked(part: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(part)
    except zlib.error:
        return part


def test_what_was_forgotten_leaves_the_servers_files(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    uid = laptop.remember("first words").uid
    laptop.update(uid, content="last words")
    world.settled(laptop, desk)
    boxes = [_box(row) for row in world.held()]
    assert len(boxes) == 2
    assert all(box in world.files() for box in boxes)
    desk.forget(uid)
    world.settled(laptop, desk)
    assert not any(box in world.files() for box in boxes)
    [grave] = world.held()
    assert (grave["uid"], grave["slot"], grave["gone"]) == (uid, "", "row")


def _box(row: dict[str, Any]) -> bytes:
    return base64.b64decode(row["box"])


# -- keys ------------------------------------------------------------------------------------------------------------------------


def test_what_a_key_does_not_open_is_told_by_its_name_and_the_rest_flows(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    laptop.remember("sealed with a strange key")
    world.well(laptop, STRANGE)
    desk.remember("sealed with the key of all")
    found = world.sync(desk)
    assert (found.complete, found.set_aside, found.pushed) == (True, 1, 1)
    assert any(STRANGE.id in warning and "1 records" in warning for warning in found.warnings)
    third = world.machine("third")
    assert world.sync(third).pulled == 1
    assert texts(third) == {"sealed with the key of all"}
    world.well(third, OLD, STRANGE)
    assert texts(third) == {"sealed with the key of all", "sealed with a strange key"}


def test_a_damaged_record_is_set_aside_and_sealed_again(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    laptop.remember("whole")
    laptop.remember("damaged on the server")
    world.well(laptop)
    _damage(world, 1)
    found = world.sync(desk)
    assert (found.complete, found.set_aside, texts(desk)) == (True, 1, {"whole"})
    assert world.sync(laptop, reseal=True).complete
    world.well(desk)
    assert texts(desk) == {"whole", "damaged on the server"}


def _damage(world: World, number: int) -> None:
    with contextlib.closing(sqlite3.connect(world.directory / "server" / "m.db")) as db, db:
        [uid] = db.execute("SELECT uid FROM sealed ORDER BY seq LIMIT 1 OFFSET ?", (number,)).fetchone()
        [box] = db.execute("SELECT box FROM sealed WHERE uid = ?", (uid,)).fetchone()
        db.execute("UPDATE sealed SET box = ? WHERE uid = ?", (bytes([box[0] ^ 1]) + box[1:], uid))


def test_a_new_first_key_seals_everything_anew(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    uid = laptop.remember("a text").uid
    laptop.update(uid, content="a later text")
    world.machine("desk", "work").remember("another text")
    desk.forget(desk.remember("no text").uid)
    world.settled(laptop, desk)
    count = len(world.held())
    assert {row["key"] for row in world.held()} == {OLD.id}
    world.well(desk, OLD, NEW)
    world.well(laptop, NEW, OLD)
    assert {row["key"] for row in world.held()} == {NEW.id}
    assert len(world.held()) == count
    world.well(desk, NEW, OLD)
    assert len(world.held()) == count
    assert world.proof(desk, NEW).count == world.proof(laptop, NEW).count == 0
    third = world.machine("third")
    world.well(third, NEW)
    assert texts(third) == texts(laptop) == {"a later text", "another text"}


def test_reseal_seals_everything_anew_when_it_is_asked_for(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, _ = machines
    laptop.remember("a text")
    world.well(laptop)
    assert world.well(laptop).pushed == 0
    assert world.well(laptop, reseal=True).pushed == 1


def test_a_key_for_some_themes_sends_and_gets_these_alone(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    narrow = world.keyring.add("desk", rights=["read", "write"], themes=[OLD.theme_id("work")])
    laptop.remember("at home")
    uid = world.machine("laptop", "work").remember("at work").uid
    desk.remember("of the desk")
    world.well(laptop)
    world.well(desk, key=narrow)
    assert texts(desk) == {"of the desk", "at work"}
    desk.update(uid, content="at work, edited")
    assert world.well(desk, key=narrow).pushed == 2
    world.well(laptop)
    assert texts(laptop) == {"at home", "at work, edited"}
    given = Options(name="home", sealer=Sealer([OLD]))
    assert verify_once(desk, world.remote(narrow), given, repair=False)[0].count == 0


def test_a_key_that_may_only_write_is_shown_nothing(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    uid = laptop.remember("a text").uid
    world.settled(laptop, desk)
    writer, reader = (world.keyring.add(right, rights=[right]) for right in ("write", "read"))
    laptop.update(uid, content="an earlier edit")
    desk.engine.clock.observe(laptop.get(uid).clock)
    desk.update(uid, content="a later edit")
    laptop.remember("of the laptop")
    world.well(desk)
    assert (world.well(laptop, key=writer).pulled, texts(laptop)) == (0, {"an earlier edit", "of the laptop"})
    assert (world.well(desk, key=reader).pushed, texts(desk)) == (0, {"a later edit", "of the laptop"})
    world.settled(laptop, desk)


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_postgres_seals_and_relays_like_a_file(tmp_path: Path, postgres: PgDatabase, side: str) -> None:
    world = World(tmp_path)
    pg = Memory.open(postgres.dsn, readable_themes="*")
    laptop, desk = (pg if side == "client" else world.machine("laptop")), world.machine("desk")
    world.server = pg if side == "server" else world.server
    with world.serving():
        uids = [memory.remember("the same text", tags=[tag]).uid for memory, tag in zip((laptop, desk), "ab", strict=True)]
        gone = laptop.remember("forgotten soon").uid
        world.settled(laptop, desk)
        desk.forget(gone)
        laptop.update(uids[0], content="another text")
        world.settled(laptop, desk)
        assert texts(laptop) == texts(desk) == {"another text"}
        assert {row["gone"] for row in world.held()} == {"", "row", "slot"}
    world.close()


def test_a_change_is_followed_and_an_agent_seals_by_setting(world: World, machines: tuple[Memory, Memory]) -> None:
    _, desk = machines
    for name, text in (("api", KEY), ("seal", "01" * 32)):
        (world.directory / name).touch(0o600)
        (world.directory / name).write_text(text)
    url = f"http://127.0.0.1:{world.port}"
    files = {"api_key_file": str(world.directory / "api"), "seal_key_file": str(world.directory / "seal")}
    agent = Memory.open(
        world.directory / "agent" / "m.db", settings=Settings(sync=SyncSettings(remote=url, interval=1.0, **files))
    )
    options = Options(name="home", sealer=Sealer([OLD]), stop=threading.Event())
    keeper = Keeper(desk, lambda stop: world.remote(stop=stop), options, Schedule(interval=None, report=lambda _: None))
    thread = threading.Thread(target=keeper.run)
    thread.start()
    agent.remember("by the agent")
    background.attach(agent.engine)
    pause = threading.Event()
    for _ in range(600):
        if "by the agent" in texts(desk):
            break
        pause.wait(0.05)
    keeper.stop()
    thread.join(30)
    agent.close()
    assert texts(desk) == {"by the agent"}


# -- clocks ----------------------------------------------------------------------------------------------------------------------


def test_a_clock_ten_years_ahead_is_corrected_where_it_was_sealed(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    ten_years = 10 * 365 * 86400 * 1000
    now = HybridClock("x").tick()
    ahead = f"{int(now[:12], 16) + ten_years:012x}0000-{laptop.engine.store.replica}"
    laptop.engine.clock.observe(ahead)
    uid = laptop.remember("from the future").uid
    gone = laptop.remember("forgotten in the future").uid
    laptop.update(uid, content="from the future, edited")
    laptop.forget(gone)
    assert laptop.get(uid).clock > ahead
    found = world.sync(laptop)
    assert found.complete
    assert found.restamped > 0
    assert laptop.get(uid).clock < ahead
    assert all(row["clock"] < ahead for row in world.held())
    world.settled(laptop, desk)
    assert desk.get(uid).clock == laptop.get(uid).clock
    assert desk.engine.store.state(gone, EVERYTHING) == "forgotten"
    desk.update(uid, content="edited now")
    world.settled(desk, laptop)
    assert laptop.get(uid).content == "edited now"


# -- proof and repair ------------------------------------------------------------------------------------------------------------


def test_verify_lists_what_differs_and_repair_mends_it(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    uids = [laptop.remember(f"fact {number}").uid for number in range(3)]
    world.settled(laptop, desk)
    with contextlib.closing(sqlite3.connect(world.directory / "server" / "m.db")) as db, db:
        db.execute("DELETE FROM sealed WHERE uid = ?", (uids[1],))
    [difference] = world.proof(laptop).listed
    assert (difference.uid, difference.theme, difference.there) == (uids[1], "hermes", "")
    assert world.proof(laptop, repair=True).count == 0
    assert world.proof(desk).count == 0
    world.settled(laptop, desk)


def test_a_server_that_was_emptied_gets_everything_back(world: World, tmp_path: Path, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    uid = laptop.remember("before").uid
    laptop.update(uid, content="after")
    desk.remember("another")
    world.settled(laptop, desk)
    other = World(tmp_path / "other")
    with other.serving():
        assert other.sync(laptop).healed > 0
        assert other.sync(desk).complete
        other.settled(laptop, desk)
        late = other.machine("late")
        other.settled(late, laptop, desk)
        assert texts(late) == {"after", "another"}
        assert [change.before["content"] for change in late.engine.store.history(uid, EVERYTHING)] == ["before"]
    other.close()


def test_a_dry_run_tells_what_would_travel(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    world.machine("laptop", "work").remember("a text")
    world.well(laptop)
    desk.remember("another")
    found = preview(desk, world.remote(), Options(name="home", sealer=Sealer([OLD])))
    assert (found["pull"]["themes"], found["push"]["themes"]) == ({"work": 1}, {"hermes": 1})
    assert texts(desk) == {"another"}


# -- sealed and clear ------------------------------------------------------------------------------------------------------------


def test_a_remote_that_was_sealed_is_never_sent_a_clear_row(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    laptop.remember("a text")
    world.well(laptop)
    with pytest.raises(InvalidInput, match="--seal-key-file"):
        world.sync(laptop, sealed=False)
    desk.remember("never seen by the server")
    with pytest.raises(InvalidInput, match="--seal-key-file"):
        world.sync(desk, sealed=False)
    assert texts(world.server) == set()


def test_a_remote_that_was_clear_is_never_sent_a_sealed_row(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, _ = machines
    laptop.remember("a text")
    assert world.sync(laptop, sealed=False).complete
    for memory in machines:
        with pytest.raises(InvalidInput, match="synced in clear"):
            world.sync(memory)
    assert world.held() == []


def test_a_server_refuses_what_does_not_suit_its_rows_whoever_asks(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, _ = machines
    laptop.remember("a text")
    world.well(laptop)
    remote = world.remote()
    for ask in (
        lambda: remote.digests(wanted(None, None, turns=False)),
        lambda: remote.rows("x", ["u"], wanted(None, None, turns=False)),
    ):
        with pytest.raises(RemoteError, match="sealed") as failure:
            ask()
        assert failure.value.word == "sealed"


def test_the_servers_own_memories_stay_there(world: World, machines: tuple[Memory, Memory]) -> None:
    laptop, desk = machines
    world.server.remember("the server's own")
    laptop.remember("a text")
    world.settled(laptop, desk)
    assert texts(desk) == {"a text"}
    assert texts(world.server) == {"the server's own"}
