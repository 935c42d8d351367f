"""What a server answers to sealed records, asked by hand."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne.clock import HybridClock
from hermes_mnemosyne.sync import wire
from hermes_mnemosyne.sync.keyring import Keyring
from hermes_mnemosyne.sync.seal import SealKey
from tests.integration.sync_world import GZIP, Client, entry, page, serving

THEME, SLOT, KEY_ID = "aa" * 16, "cc" * 16, "0" * 16
CLOCK = HybridClock("aaaaaaaaaaaaaaaa")


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory.open(tmp_path / "m.db", readable_themes="*")


@pytest.fixture
def client(memory: Memory) -> Iterator[Client]:
    with serving(memory) as found:
        yield found


def sealed(uid: str = "u1", text: str = "one", **fields: Any) -> dict[str, Any]:
    box = base64.b64encode(text.encode().ljust(16, b".") + b"and more").decode()
    return {
        "type": "sealed", "uid": uid, "slot": "", "theme": THEME, "key": KEY_ID, "clock": CLOCK.tick(), "gone": "", "box": box, **fields,
    }  # fmt: skip


def push(client: Client, *records: dict[str, Any], **query: Any) -> dict[str, Any]:
    answer = client.http.post(
        "/v1/changes",
        params={"replica": client.replica, "mark": client.mark, "sealed": 1, **query},
        content=page(client.replica, records),
        headers={**client.headers, **GZIP},
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    client.mark = found["mark"]
    return found


def test_what_was_sealed_is_relayed_as_it_is(client: Client) -> None:
    assert client.get("/v1/status").json()["sealed"] is None
    record = sealed()
    answer = push(client, record)
    assert (answer["records"], answer["refused"], answer["set_aside"], answer["stale"], answer["misdated"]) == (1, [], [], [], [])
    found = client.pull(sealed=1)
    assert found.records == [{**record, "seq": answer["last"]}]
    assert client.get("/v1/status").json()["sealed"] is True
    assert client.pull(sealed=1, skip=f"{answer['first']}-{answer['last']}").records == []


def test_lines_that_are_no_sealed_record_are_set_aside_and_the_rest_is_kept(client: Client) -> None:
    bad = [
        entry("e1", "in clear"),
        sealed(theme="work"),
        sealed(box="?"),
        {"type": "sealed"},
        sealed(clock="late"),
        sealed(seq=[]),
    ]
    answer = push(client, *bad, sealed("u2"))
    assert [row["line"] for row in answer["set_aside"]] == [2, 3, 4, 5, 6]
    assert [record["uid"] for record in client.pull(sealed=1).records] == ["u1", "u2"]


def test_a_clear_record_is_never_kept_among_sealed_ones(client: Client, memory: Memory) -> None:
    push(client, entry("e1", "in clear"))
    assert memory.list() == []


def test_a_held_record_comes_back_until_it_is_named(client: Client) -> None:
    first, second = sealed(), sealed(text="two")
    push(client, first)
    answer = push(client, second, seen=0)
    assert [(record["uid"], record["box"]) for record in answer["stale"]] == [("u1", first["box"])]
    assert answer["first"] > answer["last"]
    tag = base64.b64decode(first["box"])[:16].hex()
    assert push(client, {**second, "over": [tag]}, seen=0)["stale"] == []
    assert client.pull(sealed=1).records[0]["box"] == second["box"]


def test_a_wrong_clock_comes_back_and_nothing_is_kept_of_it(client: Client) -> None:
    late = "0fff" + CLOCK.tick()[4:]
    answer = push(client, sealed(clock=late), sealed("u2"))
    [one] = answer["misdated"]
    assert (one["uid"], one["slot"], one["was"]) == ("u1", "", late)
    assert one["clock"] < late
    assert [record["uid"] for record in client.pull(sealed=1).records] == ["u2"]


def test_the_first_rows_decide_and_others_are_refused(client: Client, memory: Memory, tmp_path: Path) -> None:
    push(client, sealed())
    for path in ("/v1/changes", "/v1/digests"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]) == (409, "sealed")
    assert client.post(page(client.replica, [entry("e1", "in clear")])).json()["error"] == "sealed"
    assert memory.list() == []
    with serving(Memory.open(tmp_path / "other.db", readable_themes="*")) as other:
        other.push([entry("e1", "in clear")])
        assert other.get("/v1/status").json()["sealed"] is False
        assert other.get("/v1/changes", sealed=1).json()["error"] == "clear"
        answer = other.http.post(
            "/v1/changes",
            params={"replica": other.replica, "mark": other.mark, "sealed": 1},
            content=page(other.replica, [sealed()]),
            headers={**other.headers, **GZIP},
        )
        assert answer.json()["error"] == "clear"


def test_a_restart_changes_nothing_of_that(client: Client, memory: Memory) -> None:
    push(client, sealed())
    with serving(memory) as again:
        assert again.get("/v1/status").json()["sealed"] is True
        assert again.get("/v1/changes").status_code == 409


def test_rights_hold_for_keyed_names_of_themes(memory: Memory, tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.json")
    other = SealKey.of(bytes(32)).theme_id("work")
    narrow = ring.add("narrow", rights=["read", "write"], themes=[other])
    writer = ring.add("writer", rights=["write"])
    with serving(memory, keyring=ring) as client:
        push(client, sealed("u1"), sealed("u2", theme=other))
        limited = Client(client.http, replica="narrow").with_key(narrow)
        assert [record["uid"] for record in limited.pull(sealed=1).records] == ["u2"]
        answer = push(limited, sealed("u3"), sealed("u1", theme=other), sealed("u4", theme=other))
        assert [(row["uid"], row["why"]) for row in answer["refused"]] == [("u3", "forbidden"), ("u1", "forbidden")]
        assert [row[0] for row in limited.get("/v1/digests", sealed=1).json()["places"]] == [other]
        assert limited.get("/v1/digests", sealed=1, theme=THEME).json()["buckets"][0] == [0, "0" * 64]
        blind = Client(client.http, replica="writer").with_key(writer)
        held = sealed("u2", "other", theme=other)
        assert push(blind, held, seen=0)["stale"] == []
        assert blind.get("/v1/changes", sealed=1).status_code == 403


def test_rows_and_digests_are_those_of_sealed_records(client: Client) -> None:
    push(client, sealed("u1"), sealed("u1", slot=SLOT), sealed("u2", gone="row"), sealed("u3"))
    answer = client.http.post("/v1/rows", params={"sealed": 1}, json={"uids": ["u1", "u2", "none"]}, headers=client.headers)
    found = wire.read_page([answer.content], encoding="identity")
    assert [(record["uid"], record["slot"]) for record in found.records] == [("u1", ""), ("u1", SLOT), ("u2", "")]
    [[theme, subject, count, _]] = client.get("/v1/digests", sealed=1).json()["places"]
    assert (theme, subject, count) == (THEME, "", 3)
    assert len(client.get("/v1/digests", sealed=1, theme=THEME).json()["buckets"]) == 256


@pytest.mark.parametrize("query", [{"sealed": "yes"}, {"seen": "-1"}, {"seen": "x"}, {"seen": str(2**63)}])
def test_what_is_no_parameter_is_malformed(client: Client, query: dict[str, str]) -> None:
    answer = client.http.post(
        "/v1/changes", params={"replica": "r1", **query}, content=page("r1", []), headers={**client.headers, **GZIP}
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "malformed")
