"""What a store keeps for others and cannot read: the later clock wins, unseen versions go back, to be forgotten beats everything."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.store.feed import bucket_of, digest_of
from hermes_mnemosyne.store.operations import KeepSealed, Outcome, Received
from hermes_mnemosyne.store.replicating import Sealed, Sharing
from tests.conformance.world import World

ALL = Sharing()
WORK, HOME = "aa" * 16, "bb" * 16
SLOT = "cc" * 16


def stamp(number: int) -> str:
    return f"0180000000{number:02x}0000-aaaaaaaaaaaaaaaa"


def box(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest() + text.encode()


def sealed(uid: str = "u1", clock: int = 1, text: str = "one", **fields: Any) -> Sealed:
    return Sealed(
        **{"uid": uid, "slot": "", "theme": WORK, "key": "0" * 16, "clock": stamp(clock), "gone": "", "box": box(text), **fields}
    )


def keep(world: World, *records: Sealed, **fields: Any) -> tuple[str, ...]:
    return kept(world, *records, **fields)[0].notes


def kept(world: World, *records: Sealed, **fields: Any) -> list[Outcome]:
    return world.apply(
        world.make(KeepSealed, theme="", records=records, **fields), world.make(Received, theme="", key="client/x", state={})
    )


def held(world: World, uid: str = "u1") -> list[tuple[str, str, str, bytes]]:
    records = world.store.sealed.records_of([uid], ALL)
    return sorted((one["slot"], one["clock"], one["gone"], base64.b64decode(one["box"])) for one in records)


def test_a_record_comes_out_as_it_went_in_with_its_change_number(world: World) -> None:
    one = sealed(gone="slot", slot=SLOT)
    assert keep(world, one) == ("kept",)
    [record] = world.store.sealed.changes(0, ALL).records
    assert record == {
        "type": "sealed", "uid": "u1", "slot": SLOT, "theme": WORK, "key": "0" * 16, "clock": stamp(1), "gone": "slot",
        "box": base64.b64encode(one.box).decode(), "seq": world.store.position(),
    }  # fmt: skip


def test_the_same_box_again_changes_nothing(world: World) -> None:
    keep(world, sealed())
    position = world.store.position()
    assert keep(world, sealed(), seen=0) == ("exists",)
    assert world.store.position() == position


def test_the_later_clock_wins_in_whatever_order(world: World) -> None:
    assert keep(world, sealed(clock=2, text="two"), sealed(clock=1), sealed("u2", 1), sealed("u2", 2, "two")) == (
        "kept",
        "older",
        "kept",
        "kept",
    )
    assert held(world) == [("", stamp(2), "", box("two"))]
    assert held(world, "u2") == [("", stamp(2), "", box("two"))]


def test_a_version_that_its_sender_does_not_know_stays_until_the_sender_names_it(world: World) -> None:
    keep(world, sealed())
    seen = world.store.position()
    keep(world, sealed(clock=2, text="two"), seen=seen)
    late = sealed(clock=3, text="three")
    assert keep(world, late, seen=seen) == ("stale",)
    assert held(world) == [("", stamp(2), "", box("two"))]
    joined = sealed(clock=3, text="three", over=(sealed(clock=2, text="two").tag,))
    assert keep(world, joined, seen=seen) == ("kept",)


def test_of_equal_clocks_neither_is_thrown_away_unread(world: World) -> None:
    keep(world, sealed())
    other = sealed(text="other")
    assert keep(world, other) == ("stale",)
    assert keep(world, sealed(text="both", over=(other.tag,))) == ("stale",)
    assert keep(world, sealed(text="both", over=(sealed().tag,))) == ("kept",)


def test_slots_of_a_uid_stand_beside_each_other(world: World) -> None:
    assert keep(world, sealed(), sealed(slot=SLOT, text="before")) == ("kept", "kept")
    assert [row[0] for row in held(world)] == ["", SLOT]


def test_to_be_forgotten_beats_everything_and_drops_every_box_of_the_uid(world: World) -> None:
    keep(world, sealed(clock=9), sealed(slot=SLOT, text="before"), sealed("u2", text="another"))
    [outcome, _] = kept(world, sealed(clock=2, text="grave", gone="row"), seen=0)
    assert (outcome.status, outcome.notes, outcome.uids) == ("forgotten", ("kept",), ("u1",))
    assert held(world) == [("", stamp(2), "row", box("grave"))]
    assert keep(world, sealed(clock=50), sealed(slot=SLOT), sealed(slot=SLOT, gone="slot")) == ("forgotten", "forgotten", "older")
    assert held(world, "u2") == [("", stamp(1), "", box("another"))]


def test_a_slot_that_has_ended_takes_nothing_any_more(world: World) -> None:
    keep(world, sealed(slot=SLOT))
    assert keep(world, sealed(slot=SLOT, text="", gone="slot")) == ("kept",)
    assert keep(world, sealed(slot=SLOT), sealed(slot=SLOT, clock=9)) == ("stale", "stale")
    assert [row[2] for row in held(world)] == ["slot"]


def test_what_ends_a_slot_does_not_drop_a_version_that_its_sender_does_not_know(world: World) -> None:
    keep(world, sealed(clock=9))
    end = sealed(clock=5, text="alias", gone="slot")
    assert keep(world, end) == ("stale",)
    assert keep(world, sealed(clock=5, text="alias", gone="slot", over=(sealed(clock=9).tag,))) == ("kept",)


def test_a_record_sealed_anew_takes_the_place_of_what_it_names(world: World) -> None:
    keep(world, sealed(), sealed(slot=SLOT, text="before"))
    other = "dd" * 16
    row = sealed(text="anew", key="1" * 16, theme=HOME, over=(sealed().tag,))
    version = sealed(slot=other, text="before anew", key="1" * 16, theme=HOME, moved=(SLOT,))
    assert keep(world, row, version, seen=0) == ("kept", "kept")
    assert [(slot, text) for slot, _, _, text in held(world)] == [("", box("anew")), (other, box("before anew"))]


def test_a_key_for_some_themes_changes_nothing_of_another_one(world: World) -> None:
    keep(world, sealed(theme=HOME))
    assert keep(world, sealed(clock=5), sealed("u2"), themes=frozenset({WORK})) == ("forbidden", "kept")


def test_a_page_tells_which_change_numbers_it_was_given(world: World) -> None:
    [_, received] = kept(world, sealed(), sealed("u2"))
    assert (received.counts["last"] - received.counts["first"], received.counts["mixed"]) == (1, 0)
    assert world.store.sync_states()["client/x"]["skip"] == [[received.counts["first"], received.counts["last"]]]


def test_sealed_rows_and_clear_ones_do_not_meet(world: World) -> None:
    uid = world.add("a text in clear")
    keep(world, sealed(uid, 0x7F), sealed("u2"))
    assert [record["type"] for record in world.store.changes(0, ALL).records] == ["entry"]
    assert world.texts() == ["a text in clear"]
    assert len(world.store.sealed.changes(0, ALL).records) == 2
    assert world.store.sealed.changes(0, ALL).position == world.store.position()


def test_pages_are_bounded_and_together_are_everything(world: World) -> None:
    keep(world, *(sealed(f"u{number}", text="x" * 1000) for number in range(30)))
    for options in ({"limit": 7}, {"max_bytes": 4000}, {"limit": 1}):
        found: list[str] = []
        after, more = 0, True
        while more:
            page = world.store.sealed.changes(after, ALL, **options)
            assert len(page.records) <= 7
            found += [record["uid"] for record in page.records]
            after, more = page.position, page.more
        assert found == [f"u{number}" for number in range(30)]
        assert after == world.store.position()


def test_a_reader_leaves_out_what_it_has_sent_and_themes_that_are_not_its_own(world: World) -> None:
    keep(world, sealed("u1"), sealed("u2", theme=HOME), sealed("u3"))
    last = world.store.position()
    feed = world.store.sealed
    assert [one["uid"] for one in feed.changes(0, ALL, skip=[(last, last)]).records] == ["u1", "u2"]
    assert [one["uid"] for one in feed.changes(0, Sharing(include=frozenset({HOME}))).records] == ["u2"]
    assert [one["uid"] for one in feed.changes(0, Sharing(exclude=frozenset({HOME}))).records] == ["u1", "u3"]
    assert feed.records_of(["u1", "u2"], Sharing(exclude=frozenset({WORK})))[0]["uid"] == "u2"
    assert feed.changes(last, ALL).records == ()


def test_digests_count_the_state_of_each_row_once_and_nothing_else(world: World) -> None:
    keep(
        world,
        *(sealed("u1"), sealed("u1", slot=SLOT), sealed("u2", gone="row", text="grave"), sealed("u3", gone="slot", text="alias")),
        sealed("u4", theme=HOME),
    )
    rows = [("u1", "sealed", "live", stamp(1)), ("u2", "sealed", "forgotten", "")]
    feed = world.store.sealed
    assert feed.digests(ALL)[0] == (WORK, "", 2, digest_of(rows))
    assert [row[0] for row in feed.digests(ALL)] == [WORK, HOME]
    parts = feed.buckets(WORK, "", ALL)
    assert parts[bucket_of("u1")] == (1, digest_of(rows[:1]))
    assert sum(count for count, _ in parts) == 2
    assert feed.bucket_rows(WORK, "", bucket_of("u2"), ALL) == rows[1:]
    assert feed.bucket_rows(HOME, "", bucket_of("u4"), Sharing(include=frozenset({WORK}))) == []


def test_who_cannot_read_takes_retired_rows_for_live_ones(world: World) -> None:
    uid = world.add("a text")
    world.retire(uid)
    [(_, state, clock)] = [row[1:] for row in world.store.bucket_rows("alpha", "", bucket_of(uid), ALL)]
    assert state == "retired"
    blind = Sharing(blind=True)
    assert world.store.bucket_rows("alpha", "", bucket_of(uid), blind) == [(uid, "entry", "live", clock)]
    assert world.store.digests(blind)[0][3] == digest_of([(uid, "entry", "live", clock)])


VERSIONS = st.lists(
    st.builds(
        lambda uid, clock, text, gone, slot: sealed(uid, clock, text, gone=gone, slot="" if gone == "row" else slot),
        st.sampled_from(["u1", "u2"]), st.integers(1, 4), st.sampled_from(["a", "b"]), st.sampled_from(["", "", "slot", "row"]),
        st.sampled_from(["", SLOT]),
    ),
    max_size=12,
)  # fmt: skip


@given(versions=VERSIONS, pages=st.integers(1, 5))
def test_nothing_that_is_not_answered_for_is_lost(
    new_world: Callable[..., World], versions: Sequence[Sealed], pages: int
) -> None:
    world = new_world()
    for start in range(0, len(versions), pages):
        keep(world, *versions[start : start + pages])
    for uid in ("u1", "u2"):
        rows = world.store.sealed.records_of([uid], ALL)
        if any(one.gone == "row" for one in versions if one.uid == uid):
            assert [row["gone"] for row in rows] == ["row"]
            continue
        for slot in {one.slot for one in versions if one.uid == uid}:
            [row] = [row for row in rows if row["slot"] == slot]
            same = [one for one in versions if (one.uid, one.slot) == (uid, slot)]
            ended = [one for one in same if one.gone]
            assert row["clock"] == max(one.clock for one in (ended if row["gone"] else same))


@pytest.mark.parametrize("count", [3000])
def test_a_page_of_thousands_is_one_transaction(world: World, count: int) -> None:
    notes = keep(world, *(sealed(f"u{number}") for number in range(count)))
    assert set(notes) == {"kept"}
    assert world.store.sealed.digests(ALL)[0][2] == count
