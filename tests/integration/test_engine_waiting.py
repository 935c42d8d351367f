"""A store that cannot be written now: who waits, who spools, what a recall sees, and what a drain makes of it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne._errors import ForeignFile, NotFound, StoreBusy, StoreError, StoreFull, StoreUnavailable
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.settings import resolve
from hermes_mnemosyne.store.operations import (
    AddEntry,
    CaptureTurns,
    EditEntry,
    Forget,
    MirrorChange,
    MirrorFile,
    Operation,
    Outcome,
    Retire,
    TurnText,
    Undo,
)
from hermes_mnemosyne.values import Origin, RecallResult
from tests.integration.engine_processes import locked, problems_of, rows_of

FILE = Origin("file", "home/MEMORY.md")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mnemosyne.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    """A memory that waits only a little for a busy file."""
    with Memory.open(
        path, settings=replace(resolve(environ={}, flags={"embedder": "none"}).settings, busy_timeout=0.2)
    ) as opened:
        opened.remember("the kettle is copper")
        yield opened


def hook(memory: Memory, *ops: Operation) -> list[Outcome]:
    return memory.submit(list(ops), hook=True)


def adding(memory: Memory, content: str, **fields: Any) -> AddEntry:
    return memory.make(AddEntry, uid=uuid7(), content=content, **fields)


def said(memory: Memory, *texts: str, **fields: Any) -> CaptureTurns:
    turns = tuple(TurnText(uid=uuid7(), role="user", content=text) for text in texts)
    return memory.make(CaptureTurns, **{"session_id": "s1", "turns": turns, **fields})


def settle(memory: Memory) -> None:
    """Wait until what is queued is stored."""
    assert memory.engine.finish(30.0)


def contents(result: RecallResult) -> list[str]:
    return sorted(hit.content for hit in result.hits)


# -- one process holds the lock ---------------------------------------------------------------------------------------------------


def test_an_api_write_waits_and_then_says_that_the_store_is_busy(memory: Memory, path: Path) -> None:
    uid = memory.list()[0].uid
    with locked(path):
        for write in (
            lambda: memory.remember("later"), lambda: memory.update(uid, content="x"), lambda: memory.retire(uid),
            lambda: memory.capture_turn("x"), lambda: memory.forget(uid),
        ):  # fmt: skip
            with pytest.raises(StoreBusy):
                write()
    assert [row.content for row in memory.list()] == ["the kettle is copper"]
    assert memory.remember("later").status == "added"


def test_an_api_write_goes_through_when_the_lock_is_given_back_in_time(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember("first")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as db:
            db.execute("BEGIN IMMEDIATE")
            writer = threading.Thread(target=memory.remember, args=("second",))
            writer.start()
            db.execute("COMMIT")
            writer.join()
        assert len(memory.list()) == 2


def test_readers_are_never_blocked(memory: Memory, path: Path) -> None:
    with locked(path):
        assert contents(memory.recall("kettle")) == ["the kettle is copper"]
        assert memory.get(memory.list()[0].uid)
        assert memory.counts().entries == 1
        assert memory.stats()["ok"]
        assert list(memory.export_records())


def test_the_latest_writes_are_recalled_while_another_process_holds_the_lock(memory: Memory, path: Path) -> None:
    changed = memory.remember("the lid is brass").uid
    gone = memory.remember("the ladle is brass").uid
    expired = memory.remember("the whisk is brass", valid_until="2001-01-01").uid
    assert len(memory.recall("brass").hits) == 2
    memory.update(changed, content="the lid is pewter")
    memory.retire(gone)
    memory.capture_turn("Is the colander pewter?", session_id="s")
    for number in range(30):
        memory.remember(f"the spoon {number} is of pewter")
    with Memory.open(path, theme="elsewhere") as other:
        other.remember("the urn is pewter")
    with locked(path):
        found = memory.recall("pewter", limit=50)
        assert len(found.hits) == 32
        assert {"the lid is pewter", "Is the colander pewter?"} <= set(contents(found))
        assert contents(memory.recall("brass", limit=50)) == []
        assert contents(memory.recall("pewter", kinds=("turn",))) == ["Is the colander pewter?"]
        assert contents(memory.recall("brass", include_expired=True)) == ["the whisk is brass"]
    assert set(contents(memory.recall("pewter", limit=50))) == set(contents(found))
    assert memory.get(expired).content == "the whisk is brass"
    assert problems_of(path) == []


def test_a_hook_is_queued_at_once_and_its_row_is_recalled(memory: Memory, path: Path) -> None:
    with locked(path):
        outcomes = hook(memory, adding(memory, "the pan is steel"), said(memory, "I bought a pan of iron"))
        assert [outcome.status for outcome in outcomes] == ["queued", "queued"]
        assert contents(memory.recall("pan")) == ["I bought a pan of iron", "the pan is steel"]
        assert memory.stats()["spool"]["count"] == 2
    settle(memory)
    assert memory.stats()["spool"]["count"] == 0
    assert contents(memory.recall("pan")) == ["I bought a pan of iron", "the pan is steel"]
    assert outcomes[0].uid in {row.uid for row in memory.list()}


def test_what_waits_stays_in_order_behind_earlier_writes(memory: Memory, path: Path) -> None:
    with locked(path):
        hook(memory, said(memory, "one"))
    hook(memory, said(memory, "two"))
    settle(memory)
    hook(memory, said(memory, "three"))
    rows = sorted(memory.list(kinds=("turn",)), key=lambda row: row.position)  # type: ignore[union-attr]
    assert [row.content for row in rows] == ["one", "two", "three"]


def test_an_api_write_drains_what_waits_before_it(memory: Memory, path: Path) -> None:
    with locked(path):
        hook(memory, adding(memory, "from a hook"))
    memory.remember("from the api")
    assert [row.content for row in memory.list(newest_first=False)] == ["the kettle is copper", "from a hook", "from the api"]


def test_a_drain_that_is_repeated_applies_once(memory: Memory, path: Path, tmp_path: Path) -> None:
    with locked(path):
        hook(memory, said(memory, "one"), said(memory, "two"), adding(memory, "three"))
        copy = tmp_path / "copy.spool.db"
        with (
            contextlib.closing(sqlite3.connect(memory.engine.spool.path)) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    settle(memory)
    before = list(memory.export_records())
    from hermes_mnemosyne.spool import Spool

    again = Spool(copy, max_bytes=10**6)
    report = again.drain(memory.engine.store.apply)
    again.close()
    assert report.applied == 3
    assert list(memory.export_records()) == before


# -- what a recall sees of the queue ----------------------------------------------------------------------------------------------


def test_edits_retirements_forgets_and_undos_that_wait_are_seen(memory: Memory, path: Path) -> None:
    uids = {name: memory.remember(f"the {name} is copper").uid for name in ("pan", "pot", "lid", "cup")}
    with locked(path):
        hook(memory, memory.make(EditEntry, uid=uids["pan"], changes={"content": "the pan is steel", "tags": ["wok"]}))
        hook(memory, memory.make(Retire, uid=uids["pot"]), memory.make(Forget, uid=uids["lid"]))
        hook(memory, memory.make(Retire, uid=uids["cup"]), memory.make(Undo, uid=uids["cup"]))
        assert contents(memory.recall("copper")) == ["the cup is copper", "the kettle is copper"]
        assert contents(memory.recall("steel")) == contents(memory.recall("wok")) == ["the pan is steel"]
    settle(memory)
    assert contents(memory.recall("copper")) == ["the cup is copper", "the kettle is copper"]
    assert contents(memory.recall("steel")) == ["the pan is steel"]


def mirrored(memory: Memory, action: str, **fields: Any) -> MirrorChange:
    return memory.make(MirrorChange, uid=uuid7(), action=action, target="memory", origin=FILE, **fields)


def file_of(memory: Memory, *lines: str) -> MirrorFile:
    return memory.make(MirrorFile, target="memory", origin=FILE, lines=tuple((uuid7(), line) for line in lines))


MIRRORED: list[tuple[Callable[[Memory], list[Operation]], list[str]]] = [
    (lambda memory: [mirrored(memory, "add", content="tea is green")], ["tea is black", "tea is green"]),
    (lambda memory: [mirrored(memory, "add", content="tea is black")], ["tea is black"]),
    (lambda memory: [mirrored(memory, "remove", old_text="black")], []),
    (lambda memory: [mirrored(memory, "replace", old_text="black", content="tea is red")], ["tea is red"]),
    (lambda memory: [mirrored(memory, "replace", old_text="unknown", content="tea is red")], ["tea is black", "tea is red"]),
    (
        lambda memory: [mirrored(memory, "add", content="tea is green"), mirrored(memory, "remove", old_text="green")],
        ["tea is black"],
    ),
    (
        lambda memory: [mirrored(memory, "remove", old_text="black"), mirrored(memory, "add", content="tea is white")],
        ["tea is white"],
    ),
    (lambda memory: [file_of(memory, "tea is green", "coffee")], ["tea is green"]),
    (lambda memory: [file_of(memory, "tea is green", "tea is black")], ["tea is black", "tea is green"]),
    (lambda memory: [file_of(memory)], ["tea is black"]),
]


@pytest.mark.parametrize("number", range(len(MIRRORED)))
def test_writes_of_the_hosts_memory_that_wait_are_seen_as_they_will_be(memory: Memory, path: Path, number: int) -> None:
    make, expected = MIRRORED[number]
    hook(memory, mirrored(memory, "add", content="tea is black"))
    with locked(path):
        assert {outcome.status for outcome in hook(memory, *make(memory))} == {"queued"}
        assert contents(memory.recall("tea")) == expected
    settle(memory)
    assert contents(memory.recall("tea")) == expected


def test_a_transcript_that_waits_shows_only_what_is_new(memory: Memory, path: Path) -> None:
    hook(memory, said(memory, "tea one", "tea two"))
    memory.forget(next(row.uid for row in memory.list(kinds=("turn",)) if row.content == "tea two"))
    with locked(path):
        hook(memory, said(memory, "tea one", "tea two", "tea three", transcript=True))
        hook(memory, said(memory, "tea one", "tea two", "tea three", transcript=True))
        assert contents(memory.recall("tea")) == ["tea one", "tea three"]
    settle(memory)
    assert contents(memory.recall("tea")) == ["tea one", "tea three"]


def test_a_text_that_was_forgotten_is_not_shown_by_what_waits(memory: Memory, path: Path) -> None:
    late = adding(memory, "the secret is perelandra")
    memory.forget(memory.remember("the secret is perelandra").uid)
    with locked(path):
        hook(memory, late, file_of(memory, "the secret is perelandra", "the pot is iron"))
        assert contents(memory.recall("secret perelandra pot")) == ["the pot is iron"]
    settle(memory)
    assert contents(memory.recall("secret perelandra pot")) == ["the pot is iron"]


def test_a_text_that_waits_and_is_stored_is_shown_once(memory: Memory, path: Path) -> None:
    with locked(path):
        hook(memory, adding(memory, "the kettle is copper"), adding(memory, "a pan"), adding(memory, "a pan"))
        assert contents(memory.recall("kettle pan")) == ["a pan", "the kettle is copper"]


def test_what_supersedes_in_the_queue_hides_the_older(memory: Memory, path: Path) -> None:
    old = memory.remember("the server is 10.0.0.4").uid
    with locked(path):
        hook(memory, adding(memory, "the server moved to 10.0.0.9", supersedes=old))
        assert contents(memory.recall("server")) == ["the server moved to 10.0.0.9"]
        assert len(memory.recall("server", include_superseded=True).hits) == 2


def test_what_waits_is_seen_within_its_own_theme_and_subject_only(memory: Memory, path: Path) -> None:
    with locked(path), Memory.open(path, theme="other", settings=memory.settings) as other:
        hook(other, adding(other, "the pan is theirs"))
        hook(memory, adding(memory, "the pan is ours"))
        assert contents(memory.recall("pan")) == ["the pan is ours"]
        assert contents(other.recall("pan")) == ["the pan is theirs"]
        with Memory.open(path, readable_themes="*", settings=memory.settings) as operator:
            assert contents(operator.recall("pan")) == ["the pan is ours", "the pan is theirs"]


# -- forgetting what waits --------------------------------------------------------------------------------------------------------


def test_a_forget_takes_the_text_out_of_the_queue_and_the_quarantine(memory: Memory, path: Path) -> None:
    with locked(path):
        hook(
            memory,
            adding(memory, "the secret is perelandra"),
            said(memory, "another thing"),
        )
    memory.engine.spool.append([replace(adding(memory, "the secret is perelandra"), target="nobody", spooled=True)])
    settle(memory)
    assert memory.stats()["spool"]["quarantined"] >= 1
    uid = memory.recall("perelandra").hits[0].uid
    memory.forget(uid)
    assert memory.engine.finish(10.0)
    spool = memory.engine.spool
    assert "perelandra" not in str([*spool.pending(), *spool.quarantined()])
    files = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    assert b"perelandra" not in files


def test_a_queued_text_can_be_forgotten_by_its_promised_id(memory: Memory, path: Path) -> None:
    with locked(path):
        (outcome,) = hook(memory, adding(memory, "the secret is perelandra"))
    memory.forget(outcome.uid)
    assert memory.recall("perelandra").hits == ()
    with pytest.raises(NotFound):
        memory.get(outcome.uid)


# -- no room ----------------------------------------------------------------------------------------------------------------------


def test_a_full_spool_refuses_and_keeps_what_it_has(path: Path) -> None:
    settings = replace(resolve(environ={}, flags={"embedder": "none"}).settings, spool_max_bytes=3000, busy_timeout=0.2)
    with Memory.open(path, settings=settings) as memory:
        memory.remember("first")
        kept: list[Outcome] = []

        def fill() -> None:
            for number in range(20):
                kept.extend(hook(memory, adding(memory, f"queued {number} {'x' * 300}")))

        with locked(path):
            with pytest.raises(StoreFull):
                fill()
            assert memory.stats()["spool"]["refused"] >= 1
            assert memory.stats()["process"]["refused"] >= 1
        settle(memory)
        assert {outcome.uid for outcome in kept} <= set(rows_of(path))
        (outcome,) = hook(memory, adding(memory, "there is room again"))
        assert outcome.status == "added"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root: sudo make test-full")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def filled(memory: Memory) -> list[str]:
    """Write until the disk is full, and return the ids of what was accepted."""
    accepted: list[str] = []

    def fill() -> None:
        for number in range(3000):
            accepted.append(memory.remember(f"entry {number} {'word ' * 500}").uid)  # noqa: PERF401 - it ends by an error

    with pytest.raises(StoreFull):
        fill()
    return accepted


def test_a_full_disk_refuses_and_loses_nothing_that_was_accepted(small_disk: Path) -> None:
    path = small_disk / "mnemosyne.db"
    with Memory.open(
        path, settings=replace(resolve(environ={}, flags={"embedder": "none"}).settings, busy_timeout=0.2)
    ) as memory:
        accepted = [memory.remember(f"before {number}").uid for number in range(20)]
        queued: list[Outcome] = []
        accepted += filled(memory)
        with contextlib.suppress(StoreFull):
            for number in range(3000):
                queued += hook(memory, adding(memory, f"hook {number} {'word ' * 500}"))
        assert set(accepted) <= set(rows_of(path))
        assert memory.recall("before", limit=3).hits
        assert problems_of(path) == []
        subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
        memory.remember("there is room again")
        settle(memory)
        assert {outcome.uid for outcome in queued} <= set(rows_of(path))
        assert memory.engine.store.check() == []


def test_a_forget_on_a_full_disk_is_done_or_said_not_to_be(small_disk: Path) -> None:
    path = small_disk / "mnemosyne.db"
    with Memory.open(
        path, settings=replace(resolve(environ={}, flags={"embedder": "none"}).settings, busy_timeout=0.2)
    ) as memory:
        uid = memory.remember("the secret is perelandra").uid
        filled(memory)
        try:
            memory.forget(uid)
        except StoreFull:
            assert memory.get(uid).content == "the secret is perelandra"
        else:
            assert memory.recall("perelandra").hits == ()
        subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
        with contextlib.suppress(NotFound):
            memory.forget(uid)
        assert memory.engine.finish(20.0)
        assert memory.engine.store.check() == []


# -- files that cannot be used ----------------------------------------------------------------------------------------------------


def test_a_place_that_may_only_be_read_is_a_typed_error(small_disk: Path) -> None:
    path = small_disk / "mnemosyne.db"
    with Memory.open(path) as memory:
        memory.remember("the kettle is copper")
    before = {file.name: file.read_bytes() for file in small_disk.iterdir()}
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    memory = Memory.open(path)
    for work in (
        lambda: memory.remember("x"),
        lambda: hook(memory, adding(memory, "x")),
        lambda: Memory.open(small_disk / "new.db").list(),
    ):
        with pytest.raises(StoreError):
            work()
    with contextlib.suppress(StoreUnavailable):
        assert memory.recall("kettle").hits
    memory.close()
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert {file.name: file.read_bytes() for file in small_disk.iterdir()} == before
    assert memory.path == path
    with Memory.open(path) as again:
        assert again.recall("kettle").hits


def foreign_database(path: Path, *, wal: bool = False) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        if wal:
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, content TEXT)")
        db.execute("INSERT INTO memories (content) VALUES ('of another program')")
        db.commit()


FOREIGN: dict[str, Callable[[Path], object]] = {
    "another database": foreign_database,
    "another database with a log": lambda path: foreign_database(path, wal=True),
    "a text": lambda path: path.write_text("these are notes\n" * 200),
    "a short text": lambda path: path.write_text("x"),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
    "a cut header": lambda path: path.write_bytes(b"SQLite format 3\0"),
    "a picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20),
}


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_a_file_of_another_program_is_refused_and_left_as_it_is(path: Path, kind: str) -> None:
    FOREIGN[kind](path)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    memory = Memory.open(path)
    for work in (
        lambda: memory.remember("x"),
        lambda: memory.recall("x"),
        memory.list,
        lambda: hook(memory, adding(memory, "x")),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            work()
        assert "--db" in str(caught.value)
        assert isinstance(caught.value, ForeignFile)
    memory.close()
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_an_empty_file_becomes_ours(path: Path) -> None:
    path.touch()
    with Memory.open(path) as memory:
        memory.remember("fact")
    assert len(rows_of(path)) == 1


def test_a_directory_in_the_place_of_the_file_is_a_typed_error(path: Path) -> None:
    path.mkdir()
    memory = Memory.open(path)
    with pytest.raises(StoreError):
        memory.remember("x")
    assert list(path.iterdir()) == []


def test_a_missing_file_is_not_made_by_a_reader(path: Path) -> None:
    memory = Memory.open(path, create=False)
    for work in (lambda: memory.recall("x"), memory.list, lambda: memory.remember("x"), memory.stats):
        with pytest.raises(StoreUnavailable):
            work()
    memory.close()
    assert list(path.parent.iterdir()) == []


def ledger(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


NEWER = (
    "INSERT INTO migrations SELECT 9999, '9999_later.sql', checksum, {oldest}, state, applied_at, '99.0' FROM migrations LIMIT 1"
)
CHANGED = "UPDATE migrations SET checksum = 'another'"


@pytest.mark.parametrize("statement", [NEWER.format(oldest=9999), CHANGED])
def test_a_schema_that_this_release_must_not_write_is_refused(path: Path, statement: str) -> None:
    with Memory.open(path) as memory:
        memory.remember("fact")
    ledger(path, statement)
    with Memory.open(path) as memory:
        with pytest.raises(StoreUnavailable, match="release"):
            memory.engine.store.check()
        receipt = memory.remember("x")
        assert receipt.status == "queued"
    assert len([name for name in path.parent.iterdir() if name.name.endswith("spool.db")]) == 1


def test_a_newer_schema_that_allows_this_release_is_written(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember("fact")
    ledger(path, NEWER.format(oldest=1))
    with Memory.open(path) as memory:
        assert memory.remember("another").status == "added"


def test_a_schema_that_changes_under_a_running_process_sends_its_writes_to_the_spool(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember("fact")
        ledger(path, NEWER.format(oldest=9999))
        assert memory.remember("one").status == "queued"
        assert hook(memory, adding(memory, "two"))[0].status == "queued"
        ledger(path, "DELETE FROM migrations WHERE number = 9999")
        memory.remember("three")
        assert len(memory.list()) == 4


def test_a_damaged_file_is_a_typed_error_and_stays(path: Path) -> None:
    with Memory.open(path) as memory:
        for number in range(200):
            memory.remember(f"fact {number} {'word ' * 50}")
    raw = bytearray(path.read_bytes())
    for place in range(len(raw) * 3 // 4 // 4096 * 4096, len(raw) - 4096, 4096):
        raw[place : place + 200] = b"\xff" * 200
    path.write_bytes(raw)
    with Memory.open(path) as memory:
        assert memory.engine.store.check() != []
        with contextlib.suppress(StoreError):
            memory.list(limit=None)
    assert path.stat().st_size >= len(raw)


def test_a_worker_that_died_is_healed_by_the_next_call(memory: Memory, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    died = threading.Event()
    upkeep = type(memory.engine.store).upkeep

    def dying(*arguments: Any, **named: Any) -> bool:
        if not died.is_set():
            died.set()
            raise ZeroDivisionError
        return upkeep(*arguments, **named)

    monkeypatch.setattr(type(memory.engine.store), "upkeep", dying)
    with locked(path):
        hook(memory, adding(memory, "queued"))
    assert died.wait(30.0)
    hook(memory, adding(memory, "next"))
    memory.forget(memory.remember("secret").uid)
    for thread in threading.enumerate():
        if thread.name == "mnemosyne-worker":
            thread.join(30.0)
    assert memory.stats()["spool"]["count"] == 0
    assert memory.stats()["store"]["erasures_pending"] == 0
    assert memory.stats()["process"]["worker_failures"] == 1


def test_a_hook_that_finds_store_and_spool_locked_is_held_and_stored_once_they_are_free(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.db") as memory:
        memory.remember("first")
        with locked(memory.path):
            assert memory.submit([adding(memory, "queued")], hook=True)[0].status == "queued"
            with locked(memory.engine.spool.path):
                assert memory.submit([adding(memory, "held one")], hook=True)[0].status == "queued"
                assert memory.submit([adding(memory, "held two")], hook=True)[0].status == "queued"
        assert memory.engine.finish(30)
        assert [row.content for row in memory.list(newest_first=False)] == ["first", "queued", "held one", "held two"]
