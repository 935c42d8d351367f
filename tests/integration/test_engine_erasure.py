"""Forget means forgotten: once due work is done, no file beside the store holds a byte of the text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.recall.analyse import TextAnalyser
from hermes_mnemosyne.settings import resolve
from hermes_mnemosyne.store.operations import AddEntry, MirrorChange, MirrorFile
from hermes_mnemosyne.store.sqlite import upkeep
from hermes_mnemosyne.store.sqlite.connections import Connections
from hermes_mnemosyne.store.sqlite.store import SqliteStore
from hermes_mnemosyne.values import Origin
from tests.conformance.world import ANALYSER, FixedKey, World
from tests.integration.engine_processes import finished, locked, worker
from tests.integration.worker_processes import begin

WORD = "perelandra"
OTHERS = ("Δελφίνι", "ポーチドエッグ")
TEXT = f"the boat is called {WORD} and {' '.join(OTHERS)} said so"
FILE = Origin("file", "home/MEMORY.md")


def needles() -> set[bytes]:
    """Return every form in which the words may stand in a file: as written, and as index tokens."""
    found = {word.encode() for word in (WORD, WORD.title(), *OTHERS)}
    for word in (WORD, *OTHERS):
        found.update(token.encode() for token in TextAnalyser().entry_tokens(word, ()).split() if len(token) > 4)
    return found


def leftovers(directory: Path) -> list[str]:
    """Return the files that hold one of the words, with the word."""
    return [
        f"{file.name}: {needle!r}"
        for file in sorted(directory.rglob("*"))
        if file.is_file()
        for needle in sorted(needles())
        if needle in file.read_bytes()
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mnemosyne.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory.open(
        path, settings=replace(resolve(environ={}, flags={"embedder": "none"}).settings, busy_timeout=0.5)
    ) as opened:
        for number in range(30):
            opened.remember(f"filler {number} {'word ' * (number * 13 % 90)}")
        yield opened


def is_wiped(memory: Memory) -> bool:
    assert memory.engine.finish(60.0)
    assert leftovers(memory.path.parent) == []
    stats = memory.stats()
    assert (stats["store"]["erasures_pending"], stats["spool"]["erasure_pending"]) == (0, False)
    return memory.engine.store.check() == []


def live(memory: Memory) -> str:
    return memory.remember(TEXT, tags=[WORD, *OTHERS], metadata={WORD: [TEXT, {"deep": OTHERS[0]}]}).uid


def edited(memory: Memory) -> str:
    uid = live(memory)
    for number in range(4):
        memory.update(uid, content=f"{TEXT} {number}", tags=[f"{WORD}{number}"])
    memory.update(uid, content="a harmless text", tags=[], metadata={})
    return uid


def retired(memory: Memory) -> str:
    uid = edited(memory)
    memory.retire(uid)
    return uid


def back_again(memory: Memory) -> str:
    uid = retired(memory)
    memory.undo(uid)
    memory.undo(uid)
    memory.undo(uid)
    return uid


def merged(memory: Memory) -> str:
    uid = live(memory)
    other = memory.remember(f"another {TEXT}").uid
    memory.update(other, content=TEXT)
    return uid


def long_text(memory: Memory) -> str:
    return memory.remember(" ".join(f"{TEXT} {number}" for number in range(3000))).uid


def superseding(memory: Memory) -> str:
    old = memory.remember("the boat has no name").uid
    return memory.remember(TEXT, supersedes=old).uid


def turn(memory: Memory) -> str:
    memory.capture_turn("what is its name?", session_id="s", speaker="Ada")
    uid = memory.capture_turn(TEXT, session_id="s", speaker=WORD, metadata={"x": TEXT}).uid
    memory.capture_turn("a good name", session_id="s", speaker="Ada")
    return uid


def retired_turn(memory: Memory) -> str:
    uid = turn(memory)
    memory.retire(uid)
    return uid


CASES: dict[str, Callable[[Memory], str]] = {
    made.__name__: made for made in (live, edited, retired, back_again, merged, long_text, superseding, turn, retired_turn)
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_no_byte_of_a_forgotten_text_is_left_in_any_file(memory: Memory, case: str) -> None:
    uid = CASES[case](memory)
    assert leftovers(memory.path.parent) != []
    memory.recall(WORD)
    assert memory.forget(uid).status == "forgotten"
    assert is_wiped(memory)
    assert memory.recall(f"{WORD} {' '.join(OTHERS)}").hits == ()


def test_a_text_in_queue_and_quarantine_is_wiped(memory: Memory, path: Path) -> None:
    uid = live(memory)
    with locked(path):
        ops = [
            memory.make(AddEntry, uid=uuid7(), content=TEXT, tags=(WORD,)),
            memory.make(MirrorFile, target="memory", origin=FILE, lines=((uuid7(), TEXT), (uuid7(), "a harmless line"))),
            memory.make(MirrorChange, uid=uuid7(), action="replace", target="memory", origin=FILE, old_text=TEXT, content="new"),
        ]
        assert {outcome.status for outcome in memory.submit(ops, hook=True)} == {"queued"}
    broken = replace(memory.make(AddEntry, uid=uuid7(), content=TEXT), target="nobody", spooled=True)  # type: ignore[arg-type]
    memory.engine.spool.append([broken])
    assert memory.engine.finish(30.0)
    assert memory.stats()["spool"]["quarantined"] == 1
    memory.forget(uid)
    assert is_wiped(memory)
    assert {"a harmless line", "new"} <= {row.content for row in memory.list(limit=None)}


def test_a_text_that_waits_while_the_store_is_busy_is_wiped(memory: Memory, path: Path) -> None:
    with locked(path):
        (outcome,) = memory.submit([memory.make(AddEntry, uid=uuid7(), content=TEXT)], hook=True)
        assert leftovers(path.parent) != []
    memory.forget(outcome.uid)
    assert is_wiped(memory)


def test_a_command_that_forgets_and_ends_leaves_nothing(path: Path) -> None:
    with Memory.open(path) as memory:
        for number in range(300):
            memory.remember(f"filler {number} {'word ' * 40}")
        uid = live(memory)
        memory.update(uid, content=f"{TEXT} again")
    with worker("forget", path, uid) as process:
        begin(process)
        assert finished(process) == ["forgotten"]
    assert leftovers(path.parent) == []


def test_an_erasure_that_was_cut_off_is_finished_at_the_next_start(path: Path) -> None:
    import signal

    with Memory.open(path) as memory:
        uid = live(memory)
    with worker("forget", path, uid) as process:
        begin(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "forgotten\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    with Memory.open(path) as memory:
        memory.recall("anything")
        assert is_wiped(memory)


def test_forgetting_while_an_erasure_is_under_way_is_another_round(memory: Memory) -> None:
    first, second = live(memory), memory.remember(f"another {TEXT}").uid
    memory.forget(first)
    memory.engine.store.upkeep(seconds=0.0)
    memory.forget(second)
    assert is_wiped(memory)


def test_two_processes_that_erase_at_once_count_each_erasure_once(path: Path) -> None:
    from hermes_mnemosyne.keys import SubjectKey
    from hermes_mnemosyne.store.sqlite.store import SqliteStore

    with Memory.open(path) as memory:
        other = SqliteStore(path, TextAnalyser(), SubjectKey(path.with_name("mnemosyne.key")))
        for _ in range(3):
            memory.forget(live(memory))
            while not (other.upkeep(seconds=5.0) & memory.engine.store.upkeep(seconds=5.0)):
                pass
            assert other.stats()["erasures_pending"] == 0
        other.close()
        assert is_wiped(memory)


def test_a_reader_that_stays_holds_an_erasure_up_and_it_shows(memory: Memory) -> None:
    uid = live(memory)
    records = memory.export_records()
    next(iter(records))
    memory.forget(uid)
    assert not memory.engine.store.upkeep(seconds=0.2)
    assert memory.stats()["store"]["erasures_pending"] >= 1
    list(records)
    assert is_wiped(memory)


def test_a_file_too_large_to_be_compacted_at_once_is_compacted_by_reindexing(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "COMPACTED_BYTES", 0)
    monkeypatch.setattr(upkeep, "COPIED_IN_MEMORY", 0)
    memory.forget(live(memory))
    assert memory.engine.finish(30.0)
    assert memory.stats()["store"]["compaction_due"] == 1
    memory.engine.store.reindex()
    assert memory.stats()["store"]["compaction_due"] == 0
    assert is_wiped(memory)


def test_an_erasure_that_another_has_finished_does_not_count_off_the_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(SqliteStore(path, ANALYSER, FixedKey()))
    other = SqliteStore(path, ANALYSER, FixedKey())
    early, late = world.add("early text"), world.add(TEXT)
    assert len(world.found("boat text")) == 2
    world.forget(early)
    compact = upkeep.compact
    written_anew: list[str] = []

    def noted(connections: Connections) -> None:
        written_anew.append(world.state(late))
        compact(connections)

    def overtaken(connections: Connections) -> None:
        # Meanwhile the other finishes this round, and the next is begun.
        monkeypatch.setattr(upkeep, "compact", noted)
        compact(connections)
        while not other.upkeep(seconds=5):
            pass
        world.forget(late)
        world.store.upkeep(seconds=5, hurry=False)

    monkeypatch.setattr(upkeep, "compact", overtaken)
    while not world.store.upkeep(seconds=5):
        pass
    assert written_anew == ["live", "forgotten"]
    assert other.stats()["erasures_pending"] == 0
    assert leftovers(path.parent) == []
    other.close()
    world.store.close()


def many_are_wiped(memory: Memory, rows: int, seed: int) -> None:
    """Forget single rows out of many, written to several themes in turn, so that pages split and rows move."""
    source = random.Random(seed)  # noqa: S311 - test data
    themes = [Memory.open(memory.path, theme=f"theme-{number}", settings=memory.settings) for number in range(5)]
    uids = []
    for number in range(rows):
        one = source.choice(themes)
        text = f"secret{number}x " + "word " * source.choice([3, 40, 300, 900])
        if source.random() < 0.3:
            uids.append((number, one, one.capture_turn(text, session_id=f"s{source.randint(0, 9)}").uid))
        else:
            uids.append((number, one, one.remember(text).uid))
    source.shuffle(uids)
    for number, one, uid in uids[: rows // 4]:
        if source.random() < 0.3 and one.get(uid).kind == "entry":
            one.update(uid, content=f"secret{number}x edited " + "word " * source.choice([5, 500]))
    gone = uids[: rows // 3]
    for _, one, uid in gone:
        one.forget(uid)
    assert memory.engine.finish(120.0)
    for one in themes:
        one.close()
    everything = b"".join(file.read_bytes() for file in memory.path.parent.iterdir() if file.is_file())
    assert [number for number, _, _ in gone if b"secret%dx" % number in everything] == []
    assert all(b"secret%dx" % number in everything for number, _, _ in uids[rows // 3 :])


def test_of_many_rows_each_forgotten_one_is_wiped(memory: Memory) -> None:
    many_are_wiped(memory, 400, seed=1)


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(8))
def test_of_very_many_rows_each_forgotten_one_is_wiped(memory: Memory, seed: int) -> None:
    many_are_wiped(memory, 3000, seed=10 + seed)
