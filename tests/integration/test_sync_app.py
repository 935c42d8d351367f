"""The sync server's answers, in this process, on a real store."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("starlette", reason="the server is an extra")

from hermes_mnemosyne import Memory
from hermes_mnemosyne._errors import StoreBusy, StoreCorrupt, StoreFull, StoreUnavailable
from hermes_mnemosyne.clock import utc_text
from hermes_mnemosyne.sync import wire
from hermes_mnemosyne.sync.keyring import Keyring
from hermes_mnemosyne.sync.server.app import Options
from hermes_mnemosyne.sync.server.limits import Limits
from hermes_mnemosyne.sync.signing import authorization, body_digest, nonce_of, verify_answer
from scripts.environments import ROOT
from tests.integration.sync_world import BEARER, EVERYTHING, GZIP, KEY, Client, entry, page, records_of, serving


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "server" / "mnemosyne.db", readable_themes="*") as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "other" / "mnemosyne.db", readable_themes="*") as opened:
        yield opened


@pytest.fixture
def client(memory: Memory) -> Iterator[Client]:
    with serving(memory) as served:
        yield served


def contents(memory: Memory) -> list[str]:
    return sorted(row.content for row in memory.list(limit=None))


# -- who is let in ---------------------------------------------------------------------------------------------------------------


def test_health_is_open_and_says_nothing_private(client: Client) -> None:
    answer = client.http.get("/healthz", headers={"Host": "anything.example"})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/v1/status", "/v1/changes", "/v1/digests", "/v1/openapi.json", "/metrics"])
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Basic eDp5"])
def test_everything_else_needs_a_key_and_says_nothing_else(client: Client, path: str, header: str | None) -> None:
    answer = client.http.get(path, headers={} if header is None else {"Authorization": header})
    assert (answer.status_code, answer.json()) == (401, {"error": "unauthorized", "message": "a valid key is needed"})
    assert nonce_of(answer.headers["www-authenticate"])


def test_a_body_without_a_key_is_not_read(client: Client) -> None:
    answer = client.http.post("/v1/changes", content=b"x" * 1000)
    assert answer.status_code == 401


def test_rights_are_those_of_the_key(memory: Memory, tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.json")
    reader, writer = ring.add("reader", rights=["read"]), ring.add("writer", rights=["write"])
    with serving(memory, keyring=ring) as client:
        assert client.with_key(reader).get("/v1/status").json()["rights"] == ["read"]
        refused = client.with_key(reader).post(page(client.replica, []))
        assert (refused.status_code, refused.json()) == (403, {"error": "forbidden", "message": "this key may not do this"})
        for path in ("/v1/changes", "/v1/digests", "/metrics"):
            assert client.with_key(writer).get(path).status_code == 403
        ring.revoke("reader")
        assert client.with_key(reader).get("/v1/status").status_code == 401


def test_a_key_for_some_themes_sees_and_changes_only_these(memory: Memory, tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.json")
    key = ring.add("worker", themes=["Work"])
    with Memory.open(memory.path, theme="work", readable_themes="*") as work:
        work.remember("The deploy is on Friday")
    secret = memory.remember("The cat is called Momo").uid
    with serving(memory, keyring=ring) as client:
        narrow = client.with_key(key)
        assert [record["theme"] for record in narrow.pull().records] == ["work"]
        assert [record["theme"] for record in narrow.pull(include=["hermes", "work"]).records] == ["work"]
        assert [place[0] for place in narrow.get("/v1/digests").json()["places"]] == ["work"]
        found = narrow.http.post("/v1/rows", json={"uids": [secret]}, headers=narrow.headers)
        assert wire.read_page([found.content], encoding="identity").records == []
        assert "hermes" not in narrow.get("/metrics").text.replace("hermes_mnemosyne", "")
        narrow.mark = ""
        answer = narrow.push(
            [entry("u1", "stolen"), entry("u2", "fine", theme="work"), entry(secret, "stolen too", theme="work")]
        )
        assert answer["refused"] == [{"uid": "u1", "theme": "hermes", "why": "forbidden"}]
        assert answer["set_aside"] == [{"line": 4, "why": "it cannot be stored"}]
    assert contents(memory) == ["The cat is called Momo", "The deploy is on Friday", "fine"]


def test_a_page_of_another_site_and_a_foreign_name_are_refused(client: Client) -> None:
    assert client.http.get("/v1/status", headers={**BEARER, "Origin": "http://evil.example"}).status_code == 403
    assert client.http.get("/v1/status", headers={**BEARER, "Host": "evil.example"}).status_code == 421


def test_without_any_key_whoever_reaches_it_may_do_all(memory: Memory) -> None:
    with serving(memory, key=None) as client:
        assert client.http.get("/v1/status").json()["rights"] == ["read", "write"]


def test_signed_requests_are_answered_with_a_signature(memory: Memory) -> None:
    with serving(memory, peer="192.0.2.7") as client:
        assert client.get("/v1/status").status_code == 401  # the key itself, in clear, from another machine
        nonce = nonce_of(client.http.get("/v1/status").headers["www-authenticate"])
        body = page(client.replica, [entry("u1", "signed and sent")])
        for method, target, content, status in (
            ("GET", "/v1/status?x=%C3%A4", b"", 200),
            ("POST", f"/v1/changes?replica={client.replica}&mark=", body, 200),
            ("POST", f"/v1/changes?replica={client.replica}&mark=zz", body, 409),
        ):
            assert nonce is not None
            header = authorization(KEY, method, target, body_digest(content), nonce)
            headers = {"Authorization": header, **(GZIP if content else {}), "Accept-Encoding": "identity"}
            answer = client.http.request(method, target, content=content, headers=headers)
            assert answer.status_code == status
            if method == "GET":
                assert verify_answer(KEY, answer.headers["mnemosyne-signature"], status, body_digest(answer.content), nonce)
            assert client.http.request(method, target, content=content, headers=headers).status_code == 401
            nonce = answer.headers["mnemosyne-nonce"]


def test_who_tries_keys_without_end_is_slowed_down_and_others_are_not(memory: Memory) -> None:
    with serving(memory, options=Options(limits=Limits(failure_burst=3, failure_rate=0.001))) as client:
        codes = [client.with_key("wrong").get("/v1/status").status_code for _ in range(5)]
        assert codes == [401, 401, 401, 429, 429]
        assert client.get("/v1/status").status_code == 200


def test_one_client_cannot_ask_without_end(memory: Memory) -> None:
    with serving(memory, options=Options(limits=Limits(burst=2, rate=0.5))) as client:
        answers = [client.get("/v1/status") for _ in range(3)]
        assert [one.status_code for one in answers] == [200, 200, 429]
        assert answers[-1].json()["error"] == "slow-down"
        assert int(answers[-1].headers["retry-after"]) >= 1


# -- paths -----------------------------------------------------------------------------------------------------------------------


def test_the_status_says_who_the_server_is(client: Client, memory: Memory) -> None:
    memory.remember("something")
    status = client.get("/v1/status").json()
    assert (status["product"], status["protocol"], status["sealed"], status["themes"]) == ("mnemosyne", 1, None, None)
    assert (status["replica"], status["position"]) == (memory.engine.store.replica, memory.engine.store.position())


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/sync/push", "/sync/pull", "/sync/status", "/sync/"])
def test_the_old_products_paths_are_answered_with_a_sentence(client: Client, method: str, path: str) -> None:
    answer = client.http.request(method, path)
    assert answer.status_code == 410
    assert answer.json()["error"] == "gone"


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("GET", "/v2/status", 404), ("PUT", "/v1/changes", 405)]
)
def test_what_there_is_not_is_answered_in_json_too(client: Client, method: str, path: str, status: int) -> None:
    answer = client.http.request(method, path, headers=BEARER)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "message"}


def test_metrics_are_open_only_where_that_was_said(memory: Memory) -> None:
    memory.remember("something")
    with serving(memory, options=Options(open_metrics=True)) as client:
        client.pull()
        text = client.http.get("/metrics").text
        assert 'mnemosyne_entries{theme="hermes"} 1.0' in text
        assert 'mnemosyne_sync_requests_total{path="/v1/changes",status="200"} 1.0' in text
        assert f'mnemosyne_sync_replica_behind{{replica="{client.replica}"}} 0.0' in text
        assert client.http.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert client.http.get("/v1/status").status_code == 401


def test_the_page_of_metrics_names_those_of_the_server(client: Client) -> None:
    client.push([entry("u1", "x")])
    names = set(re.findall(r"^# TYPE (mnemosyne_sync_\w+?)(?:_created)? ", client.get("/metrics").text, re.MULTILINE))
    documented = set(
        re.findall(r"^\| `(mnemosyne_sync_\w+)`", (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert documented == {name if f"{name}_total" not in documented else f"{name}_total" for name in names}


# -- pages out -------------------------------------------------------------------------------------------------------------------


def test_a_store_is_pulled_in_pages_and_each_row_once(client: Client, memory: Memory) -> None:
    for number in range(25):
        memory.remember(f"fact number {number}")
    found, after, more = [], 0, True
    while more:
        got = client.pull(after, limit=7)
        found += [record["content"] for record in got.records]
        assert got.head["after"] == after
        after, more = got.head["position"], got.head["more"]
    assert found == [f"fact number {number}" for number in range(25)]


def test_an_empty_round_writes_nothing(client: Client, memory: Memory) -> None:
    memory.remember("something")
    after = client.pull().head["position"]
    client.pull(after)
    before = memory.engine.store.sync_states()
    with mock.patch.object(memory.engine.store, "apply", side_effect=AssertionError):
        assert client.pull(after).head["mark"] == client.mark
    assert memory.engine.store.sync_states() == before


def test_a_local_row_never_leaves(client: Client, memory: Memory) -> None:
    uid = memory.remember("mine alone, quercetin", visibility="local").uid
    memory.forget(memory.remember("mine alone too", visibility="local").uid)
    body = client.get("/v1/changes", turns=1).text + client.get("/v1/digests", theme="hermes", bucket=0).text
    body += client.http.post("/v1/rows", json={"uids": [uid]}, headers=BEARER).text
    assert "quercetin" not in body
    assert '"uid"' not in body


def test_themes_that_contacts_share_go_only_when_they_are_named(client: Client, memory: Memory) -> None:
    with Memory.open(memory.path, theme="whatsapp-dm", subject="abc") as contact:
        contact.remember("shared with one", visibility="synced")
    memory.remember("mine")
    assert [record["content"] for record in client.pull().records] == ["mine"]
    assert [record["content"] for record in client.pull(include=["*", "whatsapp-dm"]).records] == ["shared with one", "mine"]


def test_turns_go_by_wish(client: Client, memory: Memory) -> None:
    memory.capture_turn("hello there", session_id="s", role="user")
    assert client.pull().records == []
    assert [record["type"] for record in client.pull(turns=1).records] == ["turn"]
    assert client.pull().head["sharing"] != client.pull(turns=1).head["sharing"]


@pytest.mark.parametrize(
    "query",
    [
        {"after": "-1"}, {"after": "x"}, {"after": "9" * 30}, {"limit": "0"}, {"limit": "5001"}, {"limit": "1e3"}, {"wait": "56"},
        {"wait": "nan"}, {"wait": "-1"}, {"skip": "1"}, {"skip": "9-1"}, {"skip": ",".join(["1-1"] * 65)}, {"turns": "2"},
        {"replica": "a b"}, {"replica": "x" * 65}, {"mark": "x" * 65}, {"include": ""}, {"exclude": "x" * 2000}, {"after": "٣"},
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_named(client: Client, query: dict[str, str]) -> None:
    answer = client.get("/v1/changes", **query)
    assert (answer.status_code, answer.json()["error"]) == (400, "malformed")
    assert next(iter(query)) in answer.json()["message"]


def test_news_are_waited_for_without_a_thread(memory: Memory) -> None:
    with serving(memory, options=Options(limits=Limits(workers=1))) as client:
        after = client.pull().head["position"]
        found: list[Any] = []
        waiting = [
            threading.Thread(target=lambda: found.append(client.get("/v1/changes", after=after, wait=50))) for _ in range(5)
        ]
        for thread in waiting:
            thread.start()
        assert client.get("/v1/status").status_code == 200
        memory.remember("here it is")
        for thread in waiting:
            thread.join(40)
        assert [answer.text.count("here it is") for answer in found] == [1] * 5


def test_who_waits_is_answered_when_another_replica_pushes(client: Client) -> None:
    after = client.pull().head["position"]
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(client.get("/v1/changes", after=after, wait=50)))
    thread.start()
    Client(client.http, replica="another").push([entry("u1", "pushed meanwhile")])
    thread.join(40)
    assert "pushed meanwhile" in found[0].text


# -- pages in --------------------------------------------------------------------------------------------------------------------


def test_what_is_pushed_is_stored_once_however_often_it_comes(client: Client, memory: Memory, other: Memory) -> None:
    other.remember("The dog is called Rex", tags=("pets",))
    forgotten = other.remember("to be forgotten").uid
    client.push(records_of(other))
    other.forget(forgotten)
    first = client.push(records_of(other))
    again = client.push(records_of(other))
    assert (first["refused"], first["set_aside"]) == ([], [])
    assert first["first"] <= first["last"]
    assert again["first"] > again["last"]
    assert contents(memory) == ["The dog is called Rex"]
    assert memory.engine.store.state(forgotten, memory.reach) == "forgotten"
    assert memory.engine.store.digests(EVERYTHING) == other.engine.store.digests(EVERYTHING)


def test_the_client_may_skip_what_it_has_sent_itself(client: Client, memory: Memory) -> None:
    answer = client.push([entry("u1", "from the client")])
    memory.remember("from the server")
    got = client.pull(skip=f"{answer['first']}-{answer['last']}")
    assert [record["content"] for record in got.records] == ["from the server"]


def test_a_wrong_record_is_set_aside_with_its_line_and_the_rest_flows(client: Client, memory: Memory) -> None:
    records: list[Any] = [
        entry("u1", "the first"),
        {"type": "dream", "uid": "u2", "theme": "hermes", "clock": entry("x", "x")["clock"]},
        entry("u3", " "),
        entry("u4", "mine alone", visibility="local"),
        {"type": "entry", "uid": 5, "theme": "hermes"},
        entry("u6", "no clock", clock="yesterday"),
        entry("u7", "the last", surprising={"field": 1}),
    ]
    answer = client.push(records)
    assert [item["line"] for item in sorted(answer["set_aside"], key=lambda item: item["line"])] == [3, 4, 6, 7]
    assert answer["refused"] == [{"uid": "u4", "theme": "hermes", "why": "local"}]
    assert answer["records"] == 7
    assert contents(memory) == ["the first", "the last"]


def test_a_line_that_is_no_json_is_set_aside(client: Client, memory: Memory) -> None:
    lines = [json.dumps({"type": "page", "protocol": 1, "replica": client.replica}).encode(), b"{broken", b"[1]", b'{"a":NaN}']
    lines += [json.dumps(entry("u1", "the good one")).encode(), b"[" * 5000, b'{"type":"end","records":5}', b""]
    answer = client.post(gzip.compress(b"\n".join(lines))).json()
    assert [item["line"] for item in answer["set_aside"]] == [2, 3, 4, 6]
    assert contents(memory) == ["the good one"]


def test_forgotten_text_does_not_come_back(client: Client, memory: Memory, other: Memory) -> None:
    uid = other.remember("to be forgotten").uid
    records = records_of(other)
    client.push(records)
    memory.forget(uid)
    answer = client.push(records)
    assert answer["refused"] == [{"uid": uid, "theme": "hermes", "why": "forgotten"}]
    assert contents(memory) == []


@pytest.mark.parametrize(
    ("body", "headers", "status", "word"),
    [
        (b"", {}, 400, "malformed"),
        (b"", {"Content-Encoding": "identity"}, 400, "malformed"),
        (b"no gzip at all", {}, 400, "malformed"),
        (b"[]\n", {"Content-Encoding": "identity"}, 400, "malformed"),
        (b'"text"\n{}\n', {"Content-Encoding": "identity"}, 400, "malformed"),
        (page("0123456789abcdef", [])[:-9], {}, 400, "malformed"),
        (page("0123456789abcdef", []) + b"more", {}, 400, "malformed"),
        (gzip.compress(b'{"type":"page","protocol":1,"replica":"0123456789abcdef"}\n'), {}, 400, "malformed"),
        (page("another", []), {}, 400, "malformed"),
        (
            gzip.compress(b'{"type":"page","protocol":2,"replica":"0123456789abcdef"}\n{"type":"end","records":0}\n'),
            {},
            422,
            "protocol",
        ),
        (gzip.compress(b"[" * 1_000_000), {}, 400, "malformed"),
        (gzip.compress(b"x" * (wire.MAX_BODY_BYTES + 1)), {}, 413, "too-large"),
        (gzip.compress(gzip.compress(b"x" * 300_000_000, 9), 9), {}, 400, "malformed"),
        (b"{}", {"Content-Encoding": "br"}, 415, "encoding"),
        (b"{}", {"Content-Encoding": "gzip, gzip"}, 415, "encoding"),
    ],
)
def test_a_body_that_is_no_page_is_refused_as_a_whole(
    client: Client, memory: Memory, body: bytes, headers: dict[str, str], status: int, word: str
) -> None:
    answer = client.post(body, **headers)
    assert (answer.status_code, answer.json()["error"]) == (status, word)
    assert memory.engine.store.position() == 0
    assert client.push([entry("u1", "the next one is fine")])["first"] == 1


def test_a_body_of_many_records_is_refused_before_they_are_made(client: Client) -> None:
    answer = client.post(page(client.replica, [{}] * (wire.MAX_RECORDS + 1)))
    assert (answer.status_code, answer.json()["error"]) == (413, "too-large")


def test_a_body_longer_than_the_bound_is_refused_by_its_length_and_as_it_comes(memory: Memory) -> None:
    with serving(memory, options=Options(limits=Limits(body_bytes=1000))) as client:
        assert client.post(b"x" * 1001).status_code == 413
        pieces = iter([b"x" * 600, b"x" * 600])
        answer = client.http.post("/v1/changes", params={"replica": "r"}, content=pieces, headers=client.headers)
        assert (answer.status_code, answer.json()["error"]) == (413, "too-large")


def test_many_bodies_at_once_are_put_off_and_their_room_is_given_back(memory: Memory) -> None:
    with serving(memory, options=Options(limits=Limits(bodies_bytes=2000))) as client:
        answer = client.post(b"x" * 1001)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        for _ in range(10):
            client.push([entry("u1", "small")])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"uids":1}',
        b'{"uids":[1]}',
        b'{"uids":[""]}',
        json.dumps({"uids": ["x"] * 1001}).encode(),
        b"[" * 9999,
    ],
)
def test_a_wrong_list_of_ids_is_refused(client: Client, body: bytes) -> None:
    assert client.http.post("/v1/rows", content=body, headers=BEARER).status_code == 400


def test_rows_are_given_by_id(client: Client, memory: Memory) -> None:
    uid = memory.remember("the first").uid
    memory.update(uid, content="the second")
    body = gzip.compress(json.dumps({"replica": client.replica, "uids": [uid, "unknown"]}).encode())
    answer = client.http.post("/v1/rows", content=body, headers={**BEARER, **GZIP})
    types = [record["type"] for record in wire.read_page([answer.content], encoding="identity").records]
    assert sorted(types) == ["entry", "history"]


def test_digests_lead_to_the_rows(client: Client, memory: Memory) -> None:
    uid = memory.remember("something").uid
    [[theme, subject, rows, _]] = client.get("/v1/digests").json()["places"]
    assert (theme, subject, rows) == ("hermes", "", 1)
    buckets = client.get("/v1/digests", theme=theme, subject=subject).json()["buckets"]
    assert len(buckets) == 256
    [bucket] = [number for number, (count, _) in enumerate(buckets) if count]
    assert client.get("/v1/digests", theme=theme, bucket=bucket).json()["rows"][0][0] == uid
    assert client.get("/v1/digests", bucket=1).status_code == 400
    assert client.get("/v1/digests", theme=theme, bucket=256).status_code == 400


# -- marks -----------------------------------------------------------------------------------------------------------------------


def test_a_copy_of_a_replica_is_found_out(client: Client, memory: Memory) -> None:
    client.pull()
    copy = Client(client.http, mark=client.mark)
    client.push([entry("u1", "of the original")])
    client.pull()
    answer = copy.get("/v1/changes", replica=copy.replica, mark=copy.mark)
    assert (answer.status_code, answer.json()["error"]) == (409, "cloned")
    refused = copy.post(page(copy.replica, [entry("u2", "of the copy")]))
    assert (refused.status_code, refused.json()["error"]) == (409, "cloned")
    assert contents(memory) == ["of the original"]


def test_a_copy_of_the_server_itself_is_found_out(client: Client, memory: Memory) -> None:
    answer = client.get("/v1/changes", replica=memory.engine.store.replica)
    assert (answer.status_code, answer.json()["error"]) == (409, "cloned")


def test_an_emptied_server_is_found_out_and_can_be_filled_again(client: Client, other: Memory) -> None:
    client.push([entry("u1", "on the first server")])
    with serving(other) as fresh:
        fresh.mark = client.mark
        answer = fresh.get("/v1/changes", replica=fresh.replica, mark=fresh.mark, after=1)
        assert (answer.status_code, answer.json()["error"]) == (409, "unknown-mark")
        fresh.mark = ""
        fresh.push([entry("u1", "on the first server")])
        assert fresh.pull(after=1).records == []


def test_who_waits_with_a_wrong_mark_is_told_at_once(client: Client) -> None:
    assert client.get("/v1/changes", replica="r", mark="5.AAAAAAAAAAAAAAAA", wait=50).status_code == 409


def test_without_a_replica_nothing_is_remembered(client: Client, memory: Memory) -> None:
    answer = client.get("/v1/changes")
    assert wire.read_page([answer.content], encoding="identity").head["mark"] is None
    assert memory.engine.store.sync_states() == {}


# -- clocks ----------------------------------------------------------------------------------------------------------------------


def stamp(moment: datetime, replica: str) -> str:
    return f"{int(moment.timestamp() * 1000):012x}0000-{replica}"


def test_a_client_ten_years_ahead_gets_its_rows_back_with_right_clocks(client: Client, memory: Memory) -> None:
    wrong = datetime.now(UTC) + timedelta(days=3650)
    record = entry("u1", "from the future", stamp(wrong - timedelta(minutes=20), client.replica))
    body = page(client.replica, [record], now=utc_text(wrong))
    first = client.post(body).json()
    again = client.post(body).json()
    [back] = first["restamped"]
    assert (back["uid"], back["was"], back["content"]) == ("u1", record["clock"], record["content"])
    assert abs(int(back["clock"][:12], 16) / 1000 - (datetime.now(UTC) - timedelta(minutes=20)).timestamp()) < 120
    assert back["clock"].endswith(client.replica)
    assert again["restamped"] == first["restamped"]
    assert again["first"] > again["last"]
    assert [row.clock for row in memory.list()] == [back["clock"]]
    client.mark = again["mark"]
    assert client.pull().records[0]["clock"] == back["clock"]


def test_a_client_five_minutes_behind_is_left_alone_and_one_an_hour_behind_is_not(client: Client) -> None:
    now = datetime.now(UTC)
    behind = now - timedelta(minutes=4, seconds=50)
    assert client.push([entry("u1", "a little late", stamp(behind, client.replica))], now=utc_text(behind))["restamped"] == []
    behind = now - timedelta(hours=1)
    answer = client.push([entry("u2", "very late", stamp(behind + timedelta(minutes=1), client.replica))], now=utc_text(behind))
    [back] = answer["restamped"]
    assert int(back["clock"][:12], 16) / 1000 > now.timestamp()


def test_the_server_s_own_clock_is_not_carried_away(client: Client, memory: Memory) -> None:
    wrong = datetime.now(UTC) + timedelta(days=3650)
    client.push([entry("u1", "carried by another", stamp(wrong, "x" * 16))])
    uid = memory.remember("written afterwards").uid
    assert int(memory.get(uid).clock[:12], 16) / 1000 < (datetime.now(UTC) + timedelta(minutes=6)).timestamp()


# -- when the store cannot -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (StoreBusy("secret place"), 503, "unavailable"), (StoreFull("secret place"), 507, "full"),
        (StoreUnavailable("secret place"), 503, "unavailable"), (StoreCorrupt("secret place"), 503, "unavailable"),
        (ZeroDivisionError("secret place"), 500, "internal"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_store_is_said_without_its_place(
    client: Client, memory: Memory, error: Exception, status: int, word: str
) -> None:
    with mock.patch.object(memory.engine.store, "apply", side_effect=error):
        answer = client.post(page(client.replica, [entry("u1", "x")]))
    assert (answer.status_code, answer.json()["error"]) == (status, word)
    assert "secret place" not in answer.text
    assert ("retry-after" in answer.headers) is (status != 500)
    assert client.push([entry("u1", "the next one is fine")])["first"] == 1


def test_what_waits_in_the_spool_is_pulled_too(client: Client, memory: Memory) -> None:
    from hermes_mnemosyne.clock import uuid7
    from hermes_mnemosyne.store.operations import AddEntry

    memory.engine.spool.append([memory.make(AddEntry, uid=uuid7(), content="not yet stored")])
    assert [record["content"] for record in client.pull().records] == ["not yet stored"]
