"""The spool: order, limits, quarantine, replay, forgetting, damage."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_mnemosyne._errors import (
    ForeignFile,
    InvalidInput,
    MnemosyneError,
    NotFound,
    SchemaMismatch,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from hermes_mnemosyne.clock import now_text, uuid7
from hermes_mnemosyne.spool import DrainReport, Spool
from hermes_mnemosyne.store.operations import AddEntry, CaptureTurns, Operation, Outcome, Retire, TurnText

CANARY = "the-canary-sings-at-dawn"


def add(content: str = "a text", *, theme: str = "hermes") -> AddEntry:
    return AddEntry(op_id=uuid7(), clock="0", at=now_text(), theme=theme, uid=uuid7(), content=content)


def contents(ops: Sequence[Operation]) -> list[str]:
    return [op.content for op in ops if isinstance(op, AddEntry)]


class FakeStore:
    """A store that knows ids, and misbehaves for texts that it is told of."""

    def __init__(self) -> None:
        self.taken: list[AddEntry] = []
        self.replayed: list[str] = []
        self.fails: dict[str, str] = {}
        self.raises: dict[str, MnemosyneError] = {}
        self.calls = 0

    def apply(self, ops: Sequence[Operation]) -> list[Outcome]:
        self.calls += 1
        for op in ops:
            if isinstance(op, AddEntry) and op.content in self.raises:
                raise self.raises[op.content]
        return [self._one(op) for op in ops]

    def _one(self, op: Operation) -> Outcome:
        assert isinstance(op, AddEntry)
        if op.content in self.fails:
            return Outcome(op_id=op.op_id, status="failed", error=self.fails[op.content])
        if any(op.op_id == known.op_id for known in self.taken):
            self.replayed.append(op.op_id)
            return Outcome(op_id=op.op_id, status="replayed")
        self.taken.append(op)
        return Outcome(op_id=op.op_id, status="added")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mnemosyne.spool.db"


@pytest.fixture
def spool(path: Path) -> Iterator[Spool]:
    opened = Spool(path, max_bytes=1_000_000)
    yield opened
    opened.close()


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def all_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()))


# -- in and out ------------------------------------------------------------------------------------------------------------------


def test_looking_at_an_absent_spool_finds_it_empty_and_creates_nothing(spool: Spool, store: FakeStore, path: Path) -> None:
    assert spool.is_empty()
    assert spool.is_empty("hermes")
    assert spool.pending() == []
    assert spool.quarantined() == []
    assert spool.problems() == []
    assert spool.drain(store.apply) == DrainReport()
    assert spool.cancel(lambda _: None) == 0
    assert spool.retry() == 0
    assert spool.scrub()
    assert spool.status()["count"] == 0
    spool.append([])
    assert list(path.parent.iterdir()) == []


def test_what_was_appended_waits_marked_as_spooled_in_order_and_survives_reopening(spool: Spool, path: Path) -> None:
    ops = [add("one"), add("two", theme="other"), add("three")]
    spool.append(ops[:1])
    spool.append(ops[1:])
    spool.close()
    again = Spool(path, max_bytes=1_000_000)
    assert again.pending() == [replace(op, spooled=True) for op in ops]
    assert contents(again.pending("hermes")) == ["one", "three"]
    assert contents(again.pending(limit=2)) == ["one", "two"]
    assert not again.is_empty("other")
    assert again.is_empty("third")
    again.close()


def test_all_files_are_closed_to_others_whatever_the_umask(spool: Spool, store: FakeStore, path: Path) -> None:
    spool.append([add()])
    spool.drain(store.apply)
    spool.append([add()])
    names = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert set(names) >= {path.name, f"{path.name}-wal", f"{path.name}.lock"}
    assert set(names.values()) == {0o600}


def test_an_id_that_waits_already_is_not_queued_twice(spool: Spool) -> None:
    op = add()
    spool.append([op])
    spool.append([op, add("another")])
    assert contents(spool.pending()) == ["a text", "another"]


def test_a_batch_is_accepted_as_a_whole_or_not_at_all(spool: Spool) -> None:
    with pytest.raises(InvalidInput, match="JSON"):
        spool.append([add(), replace(add(), metadata={"when": object()})])
    assert spool.is_empty()


def test_a_drain_hands_over_in_order_and_in_batches(spool: Spool, store: FakeStore) -> None:
    spool.append([add(str(number)) for number in range(150)])
    assert spool.drain(store.apply, batch=64) == DrainReport(applied=150)
    assert contents(store.taken) == [str(number) for number in range(150)]
    assert store.calls == 3
    assert spool.is_empty()


def test_a_drain_of_one_theme_leaves_the_others(spool: Spool, store: FakeStore) -> None:
    spool.append([add("one"), add("two", theme="other"), add("three")])
    assert spool.drain(store.apply, theme="hermes") == DrainReport(applied=2)
    assert contents(store.taken) == ["one", "three"]
    assert contents(spool.pending()) == ["two"]


def test_a_drain_whose_time_is_over_leaves_everything(spool: Spool, store: FakeStore) -> None:
    spool.append([add("one")])
    assert spool.drain(store.apply, until=0.0) == DrainReport(left=1)
    assert store.calls == 0


@pytest.mark.parametrize("error", [StoreBusy(), StoreFull(), StoreUnavailable(), SchemaMismatch()])
def test_a_store_that_is_away_ends_the_drain_and_loses_nothing(spool: Spool, store: FakeStore, error: StoreError) -> None:
    store.raises = {"three": error}
    spool.append([add("one"), add("two"), add("three"), add("four")])
    report = spool.drain(store.apply, batch=2)
    assert report == DrainReport(applied=2, left=2, stopped=str(error))
    store.raises = {}
    assert spool.drain(store.apply) == DrainReport(applied=2)
    assert contents(store.taken) == ["one", "two", "three", "four"]


def test_a_drain_that_breaks_after_the_store_committed_only_repeats_itself(spool: Spool, store: FakeStore) -> None:
    def torn(ops: Sequence[Operation]) -> list[Outcome]:
        store.apply(ops)
        raise KeyboardInterrupt

    spool.append([add("one"), add("two")])
    with pytest.raises(KeyboardInterrupt):
        spool.drain(torn)
    assert spool.drain(store.apply) == DrainReport(applied=2)
    assert contents(store.taken) == ["one", "two"]
    assert len(store.replayed) == 2


def test_a_second_drain_steps_back_while_one_is_under_way(spool: Spool, store: FakeStore, path: Path) -> None:
    reports: list[DrainReport] = []
    other = Spool(path, max_bytes=1_000_000)

    def apply(ops: Sequence[Operation]) -> list[Outcome]:
        reports.extend((spool.drain(store.apply), other.drain(store.apply)))
        return store.apply(ops)

    spool.append([add()])
    assert spool.drain(apply) == DrainReport(applied=1)
    assert reports == [DrainReport(left=1, skipped_locked=True)] * 2
    other.close()


def test_appending_and_looking_go_on_while_a_drain_is_under_way(spool: Spool, store: FakeStore) -> None:
    seen: list[list[str]] = []

    def apply(ops: Sequence[Operation]) -> list[Outcome]:
        if not seen:
            spool.append([add("later")])
            seen.append(contents(spool.pending()))
        return store.apply(ops)

    spool.append([add("first")])
    assert spool.drain(apply) == DrainReport(applied=2)
    assert seen == [["first", "later"]]
    assert contents(store.taken) == ["first", "later"]


# -- limits ----------------------------------------------------------------------------------------------------------------------


def test_at_its_limit_it_refuses_and_counts_and_keeps_what_it_accepted(path: Path, store: FakeStore) -> None:
    spool = Spool(path, max_bytes=2_000)
    accepted = [add("x" * 300), add("y" * 300)]
    spool.append(accepted)
    held = spool.status()["bytes"]
    for _ in range(2):
        with pytest.raises(StoreFull, match="spool_max_bytes"):
            spool.append([add("z" * 2_000)])
    spool.close()
    with contextlib.closing(Spool(path, max_bytes=2_000)) as again:
        status = again.status()
    assert (status["count"], status["bytes"], status["max_bytes"], status["refused"]) == (2, held, 2_000, 2)
    assert 600 < held <= 2_000
    assert spool.drain(store.apply) == DrainReport(applied=2)
    assert spool.status()["bytes"] == 0
    spool.append([add("z" * 1_000)])
    assert not spool.is_empty()
    spool.close()


def test_quarantined_operations_count_towards_the_limit(path: Path, store: FakeStore) -> None:
    spool = Spool(path, max_bytes=2_000)
    store.fails = {"x" * 1_200: "no"}
    spool.append([add("x" * 1_200)])
    spool.drain(store.apply)
    with pytest.raises(StoreFull):
        spool.append([add("y" * 1_200)])
    spool.close()


def test_a_held_write_lock_gives_a_typed_error_and_the_readers_go_on(spool: Spool, path: Path) -> None:
    spool.append([add("one")])
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        spool.append([add("two")], wait=0.0)
    assert contents(spool.pending()) == ["one"]
    assert spool.problems() == []
    holder.execute("ROLLBACK")
    holder.close()
    spool.append([add("two")])
    assert contents(spool.pending()) == ["one", "two"]


def test_a_missing_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with contextlib.closing(Spool(tmp_path / "absent" / "mnemosyne.spool.db", max_bytes=1_000)) as spool:
        spool.append([add()])
    assert stat.S_IMODE((tmp_path / "absent").stat().st_mode) == 0o700


def test_a_file_in_the_place_of_the_directory_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(StoreUnavailable):
        Spool(tmp_path / "taken" / "mnemosyne.spool.db", max_bytes=1_000).append([add()])


def test_a_batch_is_bounded_by_bytes_but_holds_at_least_one_operation(spool: Spool, store: FakeStore) -> None:
    large = "x" * 3_000_000
    roomy = Spool(spool.path, max_bytes=100_000_000)
    for name in ("one", "two", "three"):
        roomy.append([add(name + large)])
    batches: list[int] = []

    def apply(ops: Sequence[Operation]) -> list[Outcome]:
        batches.append(len(ops))
        return store.apply(ops)

    assert roomy.drain(apply, batch=100).applied == 3
    assert batches == [1, 1, 1]
    roomy.close()


# -- quarantine ------------------------------------------------------------------------------------------------------------------


def test_an_operation_that_fails_goes_to_quarantine_and_the_rest_goes_on(spool: Spool, store: FakeStore) -> None:
    store.fails = {"two": "the text is too odd"}
    spool.append([add("one"), add("two"), add("three")])
    assert spool.drain(store.apply) == DrainReport(applied=2, quarantined=1)
    [held] = spool.quarantined()
    assert (held.error, held.attempts, held.theme) == ("the text is too odd", 1, "hermes")
    assert held.quarantined_at >= held.queued_at
    assert isinstance(held.operation, AddEntry)
    assert held.operation.content == "two"
    assert spool.is_empty()
    assert spool.pending() == []
    assert spool.status()["quarantined"] == 1
    assert "quarantine" in spool.problems()[0]


def test_a_retried_operation_takes_its_old_place(spool: Spool, store: FakeStore) -> None:
    store.fails = {"one": "no", "two": "no"}
    spool.append([add("one"), add("two")])
    spool.drain(store.apply)
    spool.append([add("three")])
    first, second = spool.quarantined()
    assert spool.retry(first.op_id) == 1
    assert contents(spool.pending()) == ["one", "three"]
    assert spool.retry() == 1
    assert contents(spool.pending()) == ["one", "two", "three"]
    store.fails = {"two": "still no"}
    assert spool.drain(store.apply) == DrainReport(applied=2, quarantined=1)
    [held] = spool.quarantined()
    assert (held.op_id, held.attempts, held.error) == (second.op_id, 2, "still no")


def test_a_dropped_operation_leaves_no_trace(spool: Spool, store: FakeStore, path: Path) -> None:
    store.fails = {CANARY: "no"}
    spool.append([add(CANARY)])
    spool.drain(store.apply)
    assert CANARY.encode() in all_bytes(path)
    spool.drop(spool.quarantined()[0].op_id)
    assert spool.quarantined() == []
    assert CANARY.encode() not in all_bytes(path)


def test_retry_and_drop_know_only_what_is_in_quarantine(spool: Spool) -> None:
    op = add()
    spool.append([op])
    for call in (spool.retry, spool.drop):
        with pytest.raises(NotFound):
            call(op.op_id)
    assert not spool.is_empty()


@pytest.mark.parametrize("error", [StoreCorrupt("bad page"), StoreError("odd"), InvalidInput("no such field")])
def test_one_operation_that_breaks_a_batch_is_isolated(spool: Spool, store: FakeStore, error: MnemosyneError) -> None:
    store.raises = {"13": error}
    spool.append([add(str(number)) for number in range(20)])
    assert spool.drain(store.apply) == DrainReport(applied=19, quarantined=1)
    assert contents(store.taken) == [str(number) for number in range(20) if number != 13]
    assert [held.error for held in spool.quarantined()] == [str(error)]


def test_a_broken_store_does_not_send_the_whole_queue_into_quarantine(spool: Spool, store: FakeStore) -> None:
    texts = [str(number) for number in range(10)]
    store.raises = dict.fromkeys(texts, StoreCorrupt("bad page"))
    spool.append([add(text) for text in texts])
    assert spool.drain(store.apply) == DrainReport(left=10, stopped="bad page")
    assert spool.quarantined() == []


def test_a_queued_operation_of_a_later_release_goes_to_quarantine_unread(spool: Spool, store: FakeStore, path: Path) -> None:
    spool.append([add("one"), add("two"), add("three")])
    with sqlite3.connect(path) as db:
        db.execute("UPDATE operation SET body = replace(body, 'AddEntry', 'AddDream') WHERE id = 1")
        db.execute("UPDATE operation SET body = '{' WHERE id = 2")
    db.close()
    assert contents(spool.pending()) == ["three"]
    assert spool.drain(store.apply) == DrainReport(applied=1, quarantined=2)
    assert [held.operation for held in spool.quarantined()] == [None, None]


# -- forgetting ------------------------------------------------------------------------------------------------------------------


def test_a_cancelled_text_is_gone_from_the_queue_and_the_quarantine_and_every_byte(
    spool: Spool, store: FakeStore, path: Path
) -> None:
    failing = f"failing {CANARY}"
    store.fails = {failing: f"cannot store {failing!r}"}
    spool.append([add(failing)])
    spool.drain(store.apply)
    spool.append([add(f"{number} {CANARY} {'x' * number}") for number in range(0, 6_000, 400)])
    kept = [add(f"kept {number} {'y' * 500}") for number in range(5)]
    spool.append(kept)
    assert CANARY.encode() in all_bytes(path)
    assert spool.cancel(lambda op: None if isinstance(op, AddEntry) and CANARY in op.content else op) == 16
    assert CANARY.encode() not in all_bytes(path)
    assert spool.quarantined() == []
    assert contents(spool.pending()) == contents(kept)
    assert not spool.status()["erasure_pending"]


def test_a_rewritten_operation_keeps_its_place_and_id_and_nothing_of_the_old_text(spool: Spool, path: Path) -> None:
    turns = tuple(TurnText(uid=uuid7(), role="user", content=text) for text in ("before", CANARY, "after"))
    capture = CaptureTurns(op_id=uuid7(), clock="0", at=now_text(), theme="hermes", session_id="s", turns=turns)

    def without(op: Operation) -> Operation | None:
        if isinstance(op, CaptureTurns):
            return replace(op, op_id="another", turns=tuple(turn for turn in op.turns if turn.content != CANARY))
        return op

    spool.append([capture, add("last")])

    def failing(ops: Sequence[Operation]) -> list[Outcome]:
        return [Outcome(op_id=op.op_id, status="failed", error=f"no {CANARY}") for op in ops]

    spool.drain(failing)
    spool.retry(spool.quarantined()[1].op_id)
    assert spool.cancel(without) == 1
    assert CANARY.encode() not in all_bytes(path)
    [held] = spool.quarantined()
    assert (held.op_id, held.error) == (capture.op_id, "")
    assert isinstance(held.operation, CaptureTurns)
    assert [turn.content for turn in held.operation.turns] == ["before", "after"]
    assert spool.cancel(without) == 0


def test_a_cancel_that_meets_nothing_needs_no_write_lock(spool: Spool, path: Path) -> None:
    spool.append([add("one")])
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert spool.cancel(lambda op: op) == 0
    holder.execute("ROLLBACK")
    holder.close()


def test_an_operation_cancelled_while_it_is_applied_does_not_come_back_as_quarantine(spool: Spool, path: Path) -> None:
    def apply(ops: Sequence[Operation]) -> list[Outcome]:
        spool.cancel(lambda _: None)
        return [Outcome(op_id=op.op_id, status="failed", error="no") for op in ops]

    spool.append([add(CANARY)])
    spool.drain(apply)
    assert spool.quarantined() == []
    assert CANARY.encode() not in all_bytes(path)


def test_nothing_of_the_drained_texts_stays_in_the_files(spool: Spool, store: FakeStore, path: Path) -> None:
    for number in range(200):
        spool.append([add(f"{CANARY} {number} {'z' * (number * 37 % 3_000)}")])
    spool.drain(store.apply)
    assert CANARY.encode() not in all_bytes(path)


def test_an_erasure_that_a_reader_hinders_shows_and_is_completed_later(spool: Spool, store: FakeStore, path: Path) -> None:
    spool.append([add(CANARY)])
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM totals").fetchall()
    assert spool.cancel(lambda _: None) == 1
    assert not spool.scrub(wait=0.0)
    assert spool.status()["erasure_pending"]
    reader.execute("COMMIT")
    reader.close()
    assert spool.drain(store.apply) == DrainReport()
    assert not spool.status()["erasure_pending"]
    assert CANARY.encode() not in all_bytes(path)


# -- damage ----------------------------------------------------------------------------------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database " * 300)


def short_garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xff!")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5_000])


def overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4_096:] = b"\xa5" * (len(data) - 4_096)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [garbage, short_garbage, truncated, overwritten])
@pytest.mark.parametrize("use", ["append", "is_empty", "status"])
def test_a_damaged_file_is_kept_under_a_visible_name_and_a_new_one_begun(
    path: Path, damage: Callable[[Path], None], use: str
) -> None:
    before = Spool(path, max_bytes=1_000_000)
    before.append([add(f"{number} {'x' * 300}") for number in range(50)])
    before.close()
    damage(path)
    damaged = path.read_bytes()
    spool = Spool(path, max_bytes=1_000_000)
    match use:
        case "is_empty":
            spool.is_empty()
        case "status":
            spool.status()
    spool.append([add("after")])
    assert contents(spool.pending())[-1] == "after"
    [aside] = spool.status()["damaged"]
    assert Path(aside).read_bytes() == damaged
    assert aside in spool.problems()[0]
    assert Path(aside).parent == path.parent
    spool.close()


def test_what_can_still_be_read_of_a_damaged_file_is_taken_over(path: Path, store: FakeStore) -> None:
    texts = [f"{number} {'x' * 300}" for number in range(200)]
    with_all = Spool(path, max_bytes=1_000_000)
    with_all.append([add(text) for text in texts])
    with_all.close()
    # An index that lacks rows which the table has: found by a search through it, not by reading the table.
    data = bytearray(path.read_bytes())
    with sqlite3.connect(path) as db:
        [(root,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'operation_queue'")
        [(size,)] = db.execute("PRAGMA page_size")
    db.close()
    data[(root - 1) * size : root * size] = b"\xa5" * size
    path.write_bytes(data)
    spool = Spool(path, max_bytes=1_000_000)
    assert not spool.is_empty("hermes")
    assert len(spool.problems()) == 1
    assert spool.drain(store.apply) == DrainReport(applied=200)
    assert contents(store.taken) == texts
    spool.close()


def test_an_open_spool_follows_when_another_process_sets_the_file_aside(spool: Spool, path: Path) -> None:
    spool.append([add("one")])
    other = Spool(path, max_bytes=1_000_000)
    path.rename(path.with_name("moved"))
    Path(f"{path}-wal").rename(path.with_name("moved-wal"))
    other.append([add("two")])
    spool.append([add("three")])
    assert contents(spool.pending()) == contents(other.pending()) == ["two", "three"]
    other.close()
    assert contents(spool.pending()) == ["two", "three"]


def test_a_spool_whose_file_was_deleted_is_empty_and_goes_on(spool: Spool, path: Path) -> None:
    spool.append([add("one")])
    for file in path.parent.iterdir():
        file.unlink()
    assert spool.is_empty()
    spool.append([add("two")])
    assert contents(spool.pending()) == ["two"]


def test_an_empty_file_is_a_new_spool(spool: Spool, path: Path) -> None:
    path.touch()
    assert spool.is_empty()
    spool.append([add("one")])
    assert spool.problems() == []


def test_a_database_of_another_program_is_left_alone(spool: Spool, path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE precious (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(ForeignFile):
        spool.append([add()])
    assert path.read_bytes() == before


def test_a_spool_of_a_later_release_is_left_alone(spool: Spool, path: Path) -> None:
    spool.append([add()])
    spool.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(SchemaMismatch, match="upgrade"):
        spool.append([add()])


# -- threads ---------------------------------------------------------------------------------------------------------------------


def test_threads_share_one_spool(spool: Spool, store: FakeStore) -> None:
    start = threading.Barrier(8)

    def run(name: int) -> None:
        start.wait()
        for number in range(25):
            spool.append([add(f"{name}:{number}")], wait=30.0)
            spool.is_empty(wait=30.0)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spool.drain(store.apply)
    taken = contents(store.taken)
    assert len(taken) == 200
    for name in range(8):
        assert [text for text in taken if text.startswith(f"{name}:")] == [f"{name}:{number}" for number in range(25)]


def test_a_closed_spool_opens_again_when_it_is_used(spool: Spool) -> None:
    spool.append([Retire(op_id=uuid7(), clock="0", at=now_text(), theme="hermes", uid="u")])
    spool.close()
    spool.close()
    assert not spool.is_empty()
    spool.abandon()
    assert not spool.is_empty()
