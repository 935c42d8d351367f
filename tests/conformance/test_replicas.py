"""Stores that take in each other's changes, in whatever order and however often, hold the same in the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_mnemosyne.clock import HybridClock
from hermes_mnemosyne.store.operations import EditEntry, KeepState, MergeRecord, NewReplica, Operation, Outcome, Received, Restamp
from hermes_mnemosyne.store.protocol import Store
from hermes_mnemosyne.store.replicating import Sharing
from hermes_mnemosyne.values import Entry
from tests.conformance.random_writes import STEPS, play
from tests.conformance.world import EVERYTHING, World

ALL = Sharing(turns=True)


class Replica(World):
    """A store that syncs with others, remembering how far."""

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(store, writer=name)
        self.name = name

    def receive(self, records: Sequence[dict[str, Any]], sender: str, **state: Any) -> list[Outcome]:
        ops: list[Operation] = [
            self.make(MergeRecord, theme=record["theme"], subject=record["subject"], record=record) for record in records
        ]
        outcomes = self.apply(*ops, self.make(Received, theme="", key=sender, state=state))
        assert [outcome for outcome in outcomes if outcome.status == "failed"] == []
        return outcomes

    def kept(self, other: str) -> dict[str, Any]:
        return self.store.sync_states().get(other, {})

    def pull(self, other: Replica, *, limit: int = 7, pages: int = 1_000, sharing: Sharing = ALL) -> None:
        """Take in what has changed at another replica since the last time."""
        for _ in range(pages):
            state = self.kept(other.name)
            skip = [tuple(pair) for pair in other.kept(self.name).get("skip", [])]
            page = other.store.changes(state.get("after", 0), sharing, limit=limit, skip=skip)
            self.receive(page.records, other.name, after=page.position)
            if not page.more:
                return

    def forget_cursor(self, other: Replica) -> None:
        self.done(self.make(KeepState, theme="", key=other.name, value=None))


def meet(*replicas: Replica) -> None:
    """Let every two of them exchange all that there is, until nothing is left to be said."""
    for _ in range(12):
        before = [replica.store.position() for replica in replicas]
        for one in replicas:
            for other in replicas:
                if one is not other:
                    one.pull(other, limit=500)
        if before == [replica.store.position() for replica in replicas]:
            return
    pytest.fail("they never come to an end")


def shared(replica: Replica) -> dict[str, Any]:
    """Return what a replica holds of what is shared, but for what each gives a row itself."""
    found: dict[str, Any] = {}
    for record in replica.store.changes(0, ALL, limit=100_000, max_bytes=1 << 40).records:
        kind, uid = record["type"], record["uid"]
        if kind == "history":
            found[f"history {uid} {record['clock']} {record['action']}"] = record["before"].get("content")
        elif kind == "tombstone":
            found[f"tombstone {uid}"] = (record["state"], record["clock"] if record["state"] == "retired" else "")
        elif kind == "alias":
            found[f"alias {uid}"] = record["survivor"]
        else:
            found[f"{kind} {uid}"] = record
    # What is forgotten has no use for aliases.
    forgotten = {key[10:] for key, value in found.items() if key.startswith("tombstone ") and value[0] == "forgotten"}
    return {key: value for key, value in found.items() if not (key.startswith("alias ") and value in forgotten)}


def states(replica: Replica) -> list[tuple[str, ...]]:
    """Return what the digests are of."""
    places = [place[:2] for place in replica.store.digests(ALL)]
    parts = [(place, part) for place in places for part, (count, _) in enumerate(replica.store.buckets(*place, ALL)) if count]
    return sorted(row for place, part in parts for row in replica.store.bucket_rows(*place, part, ALL))


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {key: (one.get(key), other.get(key)) for key in {*one, *other} if one.get(key) != other.get(key)}


@pytest.fixture
def replicas(open_store: Callable[..., Store]) -> Callable[[int], list[Replica]]:
    return lambda count: [Replica(open_store(), f"r{number}") for number in range(count)]


def same(*replicas: Replica) -> None:
    first = shared(replicas[0])
    for replica in replicas[1:]:
        assert differences(first, shared(replica)) == {}
        assert states(replica) == states(replicas[0])
        assert replica.store.digests(ALL) == replicas[0].store.digests(ALL)
        assert replica.store.check() == []


# -- what two machines agree on --------------------------------------------------------------------------------------------------


def test_a_change_arrives_once_and_nothing_comes_back(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    uid = one.add("apple", tags=("r",))
    other.pull(one)
    assert other.entry(uid).tags == ("r",)
    positions = one.store.position(), other.store.position()
    one.pull(other)
    other.pull(one)
    assert (one.store.position(), other.store.position()) == positions
    assert one.store.changes(0, ALL, skip=[(1, 99)]).records == ()


def test_the_later_edit_wins_and_both_replicas_keep_the_other_in_history(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    uid = one.add("apple")
    meet(one, other)
    one.edit(uid, content="pear")
    other.clock.observe(one.clock.tick())
    other.edit(uid, content="plum")
    meet(one, other)
    same(one, other)
    for replica in (one, other):
        assert replica.entry(uid).content == "plum"
        assert {"apple", "pear"} <= {change.before["content"] for change in replica.store.history(uid, EVERYTHING)}


def test_a_forget_wins_against_a_later_edit_and_no_text_is_left(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    uid = one.add("apple")
    meet(one, other)
    one.forget(uid)
    other.clock.observe(one.clock.tick())
    other.edit(uid, content="pear")
    meet(one, other)
    same(one, other)
    for replica in (one, other):
        assert replica.texts() == []
        assert replica.store.history(uid, EVERYTHING) == []
        assert replica.state(uid) == "forgotten"


@pytest.mark.parametrize("later", ["edit", "retire"])
def test_of_a_retirement_and_an_edit_the_later_counts(replicas: Callable[[int], list[Replica]], later: str) -> None:
    one, other = replicas(2)
    uid = one.add("apple")
    meet(one, other)
    first, second = (one, other) if later == "edit" else (other, one)
    if later == "edit":
        first.retire(uid)
        second.clock.observe(first.clock.tick())
        second.edit(uid, content="pear")
    else:
        first.edit(uid, content="pear")
        second.clock.observe(first.clock.tick())
        second.retire(uid)
    meet(one, other)
    same(one, other)
    assert one.state(uid) == other.state(uid) == ("live" if later == "edit" else "retired")
    for replica in (one, other):
        known = {change.before["content"] for change in replica.store.history(uid, EVERYTHING)}
        assert ("apple" if later == "edit" else "pear") in known


def test_equal_texts_of_two_machines_become_one_entry_and_both_uids_lead_to_it(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    uids = one.add("apple", tags=("r",)), other.add("apple", tags=("g",))
    meet(one, other)
    same(one, other)
    for replica in (one, other):
        assert replica.texts() == ["apple"]
        for uid in uids:
            assert (replica.entry(uid).uid, replica.entry(uid).tags) == (min(uids), ("g", "r"))
    other.edit(max(uids), content="pear")
    meet(one, other)
    assert one.entry(min(uids)).content == one.entry(max(uids)).content == "pear"
    one.forget(max(uids))
    meet(one, other)
    same(one, other)
    assert {replica.state(uid) for replica in (one, other) for uid in uids} == {"forgotten"}


def test_local_rows_and_their_graves_never_travel(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    uid = one.add("a secret apple", visibility="local")
    gone = one.add("another secret", visibility="local")
    one.edit(gone, content="a secret of old")
    one.retire(gone)
    one.forget(one.add("forgotten secret", visibility="local"))
    assert one.store.changes(0, ALL).records == ()
    assert one.store.records_of([uid, gone], ALL) == []
    assert one.store.digests(ALL) == []
    meet(one, other)
    assert other.texts() == []


def test_a_row_that_becomes_local_is_forgotten_elsewhere_and_stays_here(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    uid = one.add("apple")
    meet(one, other)
    one.edit(uid, visibility="local")
    other.clock.observe(one.clock.tick())
    other.edit(uid, content="an apple of theirs")
    meet(one, other)
    assert (one.texts(), one.entry(uid).visibility) == (["apple"], "local")
    assert (other.texts(), other.state(uid)) == ([], "forgotten")
    again = one.edit(uid, visibility="synced").uid
    meet(one, other)
    assert other.entry(again).content == "apple"
    assert one.store.digests(ALL) == other.store.digests(ALL)


def test_a_row_that_was_local_travels_once_it_is_shared(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    uid = one.add("apple", visibility="local")
    one.edit(uid, content="pear")
    one.add("plum")
    meet(one, other)
    one.edit(uid, visibility="synced")
    meet(one, other)
    same(one, other)
    assert sorted(other.texts()) == ["pear", "plum"]


def test_what_a_row_said_while_it_was_local_stays_here_when_it_is_shared(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    uid = one.add("apple")
    meet(one, other)
    one.edit(uid, visibility="local")
    one.edit(uid, content="a private pear", tags=("private",))
    one.edit(uid, content="plum", tags=())
    uid = one.edit(uid, visibility="synced").uid
    one.edit(uid, content="cherry")
    meet(one, other)
    assert (one.texts(), other.texts()) == (["cherry"], ["cherry"])
    assert "private" not in str(list(one.store.changes(0, ALL).records) + one.store.records_of([uid], ALL))
    assert [change.before["content"] for change in other.store.history(uid, EVERYTHING)] == ["plum"]
    assert "a private pear" in [change.before["content"] for change in one.store.history(uid, EVERYTHING)]
    same(one, other)


def test_what_is_shared_is_chosen_by_theme_and_kind(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    one.add("apple")
    one.add("pear", theme="Beta")
    one.say("a turn")
    found = [record["type"] + " " + record["theme"] for record in one.store.changes(0, Sharing()).records]
    assert found == ["entry alpha", "entry Beta"]
    other.pull(one, sharing=Sharing(include=frozenset({"beta"}), turns=True))
    assert other.texts() == ["pear"]
    assert [place[0] for place in one.store.digests(Sharing(exclude=frozenset({"BETA"})))] == ["alpha"]


def test_pages_are_bounded_by_rows_and_by_bytes(replicas: Callable[[int], list[Replica]]) -> None:
    (one,) = replicas(1)
    uids = [one.add(f"{number} " + "x" * 1_000) for number in range(20)]
    seen, after = [], 0
    while True:
        page = one.store.changes(after, ALL, limit=15, max_bytes=4_000)
        assert 0 < len(page.records) <= 3
        seen += [record["uid"] for record in page.records]
        after = page.position
        if not page.more:
            break
    assert seen == uids
    assert one.store.changes(after, ALL).records == ()


def test_a_text_that_is_forgotten_with_a_local_row_is_forgotten_elsewhere_where_it_was_shared(
    replicas: Callable[[int], list[Replica]],
) -> None:
    one, other = replicas(2)
    shared_one = one.add("apple")
    meet(one, other)
    one.retire(shared_one)
    meet(one, other)
    local = one.add("apple", visibility="local")
    one.forget(local)
    meet(one, other)
    assert one.state(shared_one) == other.state(shared_one) == "forgotten"
    assert (one.state(local), other.state(local)) == ("forgotten", "unknown")
    same(one, other)


def test_a_shared_row_stays_retired_where_a_local_one_holds_its_text(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    uid = one.add("apple")
    meet(one, other)
    one.retire(uid)
    local = one.add("apple", visibility="local")
    assert (one.undo(uid).status, one.undo(uid).uid, one.state(uid)) == ("exists", local, "retired")
    meet(one, other)
    same(one, other)


def test_buckets_find_the_row_that_differs(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    for number in range(30):
        one.add(f"text {number}")
    meet(one, other)
    uid = one.add("only here")
    assert one.store.digests(ALL) != other.store.digests(ALL)
    mine, theirs = (replica.store.buckets("alpha", "", ALL) for replica in (one, other))
    [bucket] = [number for number in range(256) if mine[number] != theirs[number]]
    rows = set(one.store.bucket_rows("alpha", "", bucket, ALL)) - set(other.store.bucket_rows("alpha", "", bucket, ALL))
    assert [(row[0], row[1], row[2]) for row in rows] == [(uid, "entry", "live")]
    assert [record["uid"] for record in one.store.records_of([uid], ALL)] == [uid]


def test_a_corrected_clock_replaces_the_one_that_was_sent(replicas: Callable[[int], list[Replica]]) -> None:
    (one,) = replicas(1)
    one.clock.observe(f"{0x0400_0000_0000:012x}0000-ahead")
    uid = one.add("apple")
    sent = one.entry(uid)
    right = HybridClock("server").tick()
    record = {**one.store.records_of([uid], ALL)[0], "clock": right}
    op = one.make(Restamp, uid=uid, old_clock=sent.clock, record=record)
    assert one.done(op).status == "updated"
    assert one.entry(uid).clock == right == one.store.last_clock()
    assert one.apply(op)[0].status == "unchanged"


def test_a_new_replica_id_drops_what_was_known_of_others(replicas: Callable[[int], list[Replica]]) -> None:
    one, other = replicas(2)
    other.add("apple")
    one.pull(other)
    before = one.store.replica
    assert one.kept("r1") != {}
    assert one.done(one.make(NewReplica, theme="")).uid == one.store.replica != before
    assert one.kept("r1") == {}


# -- any sequence ----------------------------------------------------------------------------------------------------------------


@dataclass
class Net:
    """Replicas that write, meet, lose track and are copied, as a list of steps says."""

    replicas: list[Replica]
    skewed: dict[int, int] = field(default_factory=dict)

    def step(self, what: str, who: int, whom: int, steps: Any, pages: int) -> None:
        one, other = self.replicas[who % len(self.replicas)], self.replicas[whom % len(self.replicas)]
        match what:
            case "write":
                play(one, steps)
            case "pull" if one is not other:
                one.pull(other, limit=3, pages=pages)
            case "repeat" if one is not other:
                one.forget_cursor(other)
                one.pull(other, limit=5, pages=pages)
            case "shuffle" if one is not other:
                records = list(other.store.changes(0, ALL, limit=1_000).records)
                random.Random(pages).shuffle(records)  # noqa: S311 - any order will do
                one.merge(records)
            case "jump":
                one.clock.observe(f"{(1 << 41) + who * 1_000_000 + pages:012x}0000-{one.name}")
            case "hide":
                rows = one.rows()
                if rows:
                    row = rows[pages % len(rows)]
                    if isinstance(row, Entry):
                        one.done(one.about(EditEntry, row.uid, changes={"visibility": "local" if pages % 2 else "synced"}))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "pull", "pull", "repeat", "shuffle", "jump", "hide"]),
        st.integers(0, 2),
        st.integers(0, 2),
        STEPS,
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=12,
)


def accepted(replica: Replica) -> set[str]:
    """Return every text that a replica holds, live or in history."""
    texts = {row.content for row in replica.rows()}
    for record in replica.store.changes(0, ALL, limit=100_000, max_bytes=1 << 40).records:
        if record["type"] == "history":
            texts.add(record["before"].get("content", ""))
    return texts


WRITES = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["add", "edit", "equal", "retire", "forget", "meet"]), st.integers(0, 9)),
    max_size=25,
)


@settings(max_examples=15, deadline=None)
@given(writes=WRITES)
def test_no_text_is_lost_and_none_that_was_forgotten_survives(open_store: Callable[..., Store], writes: Any) -> None:
    net = [Replica(open_store(), f"r{number}") for number in range(3)]
    written: dict[str, set[str]] = {}  # texts by the uid that they were written under
    for number, (who, what, which) in enumerate(writes):
        one, text = net[who], f"text {number}"
        rows = one.rows()
        # One after the other in time, as people would do it, though on different machines.
        for other in net:
            one.clock.observe(other.clock.tick())
        if what == "add" or (what != "meet" and not rows):
            written.setdefault(one.add(text), set()).add(text)
        elif what == "meet":
            meet(one, net[which % 3])
        else:
            row = rows[which % len(rows)]
            if what == "equal":
                text = rows[-1].content
            if what in ("edit", "equal"):
                written.setdefault(one.edit(row.uid, content=text).uid, set()).add(text)
            elif what == "retire":
                one.retire(row.uid)
            else:
                one.forget(row.uid)
    meet(*net)
    same(*net)
    for replica in net:
        held = accepted(replica)
        gone = {uid for uid in written if replica.state(uid) == "forgotten"}
        live = {text for uid, texts in written.items() if uid not in gone for text in texts}
        assert live - held - {text for uid in gone for text in written[uid]} == set()
        only_gone = {text for uid in gone for text in written[uid]} - live
        assert only_gone & held == set()


@settings(max_examples=15, deadline=None)
@given(events=EVENTS)
def test_replicas_that_have_met_hold_the_same_whatever_happened(open_store: Callable[..., Store], events: Any) -> None:
    net = Net([Replica(open_store(), f"r{number}") for number in range(3)])
    for event in events:
        net.step(*event)
    meet(*net.replicas)
    same(*net.replicas)
