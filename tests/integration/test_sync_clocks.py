"""Machines whose clocks are wrong: they neither win for ever nor lose for ever, and both sides say whose clock it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the server is an extra")
pytest.importorskip("uvicorn", reason="the server is an extra")

from hermes_mnemosyne import Memory
from hermes_mnemosyne.sync.server.limits import Limits
from tests.integration.sync_faults import Machine, Tap, assert_same, doctor, well
from tests.integration.sync_world import in_thread

TEN_YEARS = 3652 * 86400.0
TEN_MINUTES = 600.0


@pytest.fixture
def there(tmp_path: Path) -> Memory:
    return Memory.open(tmp_path / "there" / "m.db", readable_themes="*")


@pytest.fixture
def desk(tmp_path: Path) -> Memory:
    return Memory.open(tmp_path / "desk" / "m.db", readable_themes="*")


@pytest.fixture
def tap(there: Memory) -> Iterator[Tap]:
    with in_thread(there, Limits()) as port, Tap(port) as found:
        yield found


def test_the_later_edit_counts_though_the_clock_of_one_machine_is_ten_years_ahead(
    tap: Tap, desk: Memory, there: Memory, tmp_path: Path
) -> None:
    wrong = Machine(tmp_path / "wrong" / "m.db", ahead=TEN_YEARS)
    uid = wrong.add("first, by the wrong clock")
    done = wrong.sync(tap.url)
    assert done["restamped"] == 1
    assert " s ahead of the server's: correct one" in done["warnings"][0]
    well(desk, tap.url)
    desk.update(uid, content="second, by the right clock")
    well(desk, tap.url)
    # It has not seen the second edit: that this one is later is told by its time alone.
    wrong("edit", uid, "third, by the wrong clock")
    wrong.sync(tap.url)
    assert there.get(uid).content == "third, by the wrong clock"
    well(desk, tap.url)
    desk.update(uid, content="fourth, by the right clock")
    well(desk, tap.url)
    wrong.sync(tap.url)
    assert wrong.text(uid) == desk.get(uid).content == there.get(uid).content == "fourth, by the right clock"
    # What lost is kept on all of them.
    for memory in (desk, there, Memory.open(wrong.path)):
        before = [change.before["content"] for change in memory.history(uid)]
        assert {"third, by the wrong clock"} <= set(before)
    assert_same(Memory.open(wrong.path), desk, there)
    assert_told(wrong, Machine(Path(there.path)), "ahead of")


def assert_told(client: Machine, served: Machine, way: str) -> None:
    """Both doctors say whose clock it is, and that edits got another time."""
    for machine, whose in ((client, "the server's"), (served, "this one")):
        found = "\n".join(doctor(machine))
        assert f" s {way} {whose}" in found
        assert "edits made under a wrong clock got the right time" in found


def test_a_clock_ten_minutes_behind_is_told_of_on_both_sides_and_loses_nothing_silently(
    tap: Tap, desk: Memory, there: Memory, tmp_path: Path
) -> None:
    slow = Machine(tmp_path / "slow" / "m.db", ahead=-TEN_MINUTES)
    uid = slow.add("first, by the slow clock")
    assert " s behind the server's: correct one" in slow.sync(tap.url)["warnings"][0]
    well(desk, tap.url)
    desk.update(uid, content="second, by the right clock")
    well(desk, tap.url)
    slow("edit", uid, "third, by the slow clock")
    slow.sync(tap.url)
    well(desk, tap.url)
    memories = desk, there, Memory.open(slow.path)
    for memory in memories:
        kept = {memory.get(uid).content, *(change.before["content"] for change in memory.history(uid))}
        assert {"second, by the right clock", "third, by the slow clock"} <= kept
    # What it has seen it is later than, whatever its clock says.
    slow("edit", uid, "fourth, by the slow clock")
    slow.sync(tap.url)
    well(desk, tap.url)
    assert [memory.get(uid).content for memory in memories] == ["fourth, by the slow clock"] * 3
    assert_same(*memories)
    assert any(" s behind the server's" in detail for detail in doctor(slow))
    assert any(" s behind this one" in detail for detail in doctor(Machine(Path(there.path))))


def test_a_clock_that_is_a_little_wrong_is_left_alone_and_loses_no_edit_that_saw_the_other(
    tap: Tap, desk: Memory, there: Memory, tmp_path: Path
) -> None:
    slow = Machine(tmp_path / "slow" / "m.db", ahead=-290.0)
    uid = slow.add("first")
    done = slow.sync(tap.url)
    assert (done["restamped"], done["warnings"]) == (0, [])
    well(desk, tap.url)
    desk.update(uid, content="second")
    well(desk, tap.url)
    slow.sync(tap.url)
    assert slow.text(uid) == "second"
    slow("edit", uid, "third")
    slow.sync(tap.url)
    well(desk, tap.url)
    assert desk.get(uid).content == there.get(uid).content == "third"


def test_an_edit_that_a_slow_clock_lets_lose_is_not_lost(tap: Tap, desk: Memory, there: Memory, tmp_path: Path) -> None:
    slow = Machine(tmp_path / "slow" / "m.db", ahead=-290.0)
    uid = slow.add("first")
    slow.sync(tap.url)
    well(desk, tap.url)
    desk.update(uid, content="by the right clock")
    well(desk, tap.url)
    slow("edit", uid, "by the slow clock")
    slow.sync(tap.url)
    well(desk, tap.url)
    for memory in (desk, there, Memory.open(slow.path)):
        assert memory.get(uid).content == "by the right clock"
        assert "by the slow clock" in {change.before["content"] for change in memory.history(uid)}


def test_a_clock_that_is_put_right_again_needs_no_waiting(tap: Tap, desk: Memory, tmp_path: Path) -> None:
    fast = Machine(tmp_path / "fast" / "m.db", ahead=TEN_YEARS)
    uid = fast.add("in ten years")
    fast.sync(tap.url)
    right = Machine(fast.path)
    right("edit", uid, "now")
    right.sync(tap.url)
    well(desk, tap.url)
    assert desk.get(uid).content == "now"
    desk.update(uid, content="a moment later")
    well(desk, tap.url)
    right.sync(tap.url)
    assert right.text(uid) == "a moment later"
    assert right.sync(tap.url)["warnings"] == []


def test_a_clock_that_was_wrong_while_nobody_could_be_reached_and_is_right_now_wins_nothing(
    tap: Tap, desk: Memory, there: Memory, tmp_path: Path
) -> None:
    fast = Machine(tmp_path / "fast" / "m.db", ahead=TEN_YEARS)
    uid = fast.add("first")
    right = Machine(fast.path)
    right.sync(tap.url)
    well(desk, tap.url)
    desk.update(uid, content="second")
    well(desk, tap.url)
    right.sync(tap.url)
    assert right.text(uid) == there.get(uid).content == "second"
    assert_same(Memory.open(fast.path), desk, there)
