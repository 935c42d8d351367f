"""The server against its own description: whatever is sent, right or wrong, it answers as described, and never fails."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the server is an extra")

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_mnemosyne import Memory
from hermes_mnemosyne.sync.server.app import Options
from hermes_mnemosyne.sync.server.limits import Limits
from hermes_mnemosyne.sync.server.openapi import description
from tests.integration.sync_world import BEARER, Client, entry, page, serving

REPLICA = "0123456789abcdef"
OPERATIONS = [(path, method) for path, methods in description()["paths"].items() for method in methods]
# No NUL and no line ends in headers; in a query anything may come.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["\0", "\ufffd", "%00", "../..", "' OR 1=1 --", "\u202e", "x" * 5000, "9" * 400, "-1", "1e9", "NaN", "[]", "{}", "٣"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    yield from _serving(tmp_path_factory.mktemp("fuzz") / "m.db")


@pytest.fixture(scope="module")
def clear(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server of its own for rows in clear: the first sealed ones that came to it would shut it to these."""
    yield from _serving(tmp_path_factory.mktemp("clear") / "m.db")


def _serving(path: Path) -> Iterator[Client]:
    memory = Memory.open(path, readable_themes="*")
    memory.remember("something to be found")
    limits = Limits(rate=1e6, burst=10**6, failure_rate=1e6, failure_burst=10**6)
    with memory, serving(memory, options=Options(limits=limits)) as served:
        yield served


@pytest.fixture(autouse=True)
def _no_engine_stays() -> None:
    """Here the engine stays for all tests of the module."""


def right(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the description allows."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "integer":
            return st.integers(schema["minimum"], schema["maximum"])
        case "number":
            return st.sampled_from([0, 0.0, 0.001, 1e-05, 0.0123456789012345])  # it waits for as long as that
        case "array":
            return st.lists(right(schema["items"]), max_size=3)
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"].replace("$", r"\Z"))
        case _:
            return st.text(st.characters(exclude_categories=["Cs"]), min_size=schema.get("minLength", 0), max_size=60)


def queries(path: str, method: str, *, is_right: bool) -> st.SearchStrategy[dict[str, Any]]:
    named = {one["name"]: one for one in description()["paths"][path][method]["parameters"] if one["in"] == "query"}
    values = {
        name: right(one["schema"]) if is_right else right(one["schema"]) | TEXTS | st.lists(TEXTS, max_size=3)
        for name, one in named.items()
    }
    needed = {name: values[name] for name, one in named.items() if one["required"] and is_right}
    return st.fixed_dictionaries(needed, optional={name: value for name, value in values.items() if name not in needed})


def check(answer: Any, path: str, method: str) -> None:
    """The answer is one that the description has."""
    assert answer.status_code < 500, answer.text
    described = description()["paths"][path][method]["responses"]
    kind = answer.headers["content-type"].partition(";")[0]
    if answer.status_code == 200:
        [(media, content)] = described["200"]["content"].items()
        assert kind == media
        if "schema" in content:
            fields = answer.json()
            assert set(content["schema"].get("required", [])) <= set(fields)
    else:
        assert answer.status_code in range(400, 500)
        assert kind == "application/json"
        assert set(answer.json()) >= {"error", "message"}


def send(client: Client, path: str, method: str, query: dict[str, Any], body: bytes = b"", **headers: str) -> Any:
    return client.http.request(method, path, params=query, content=body, headers={**BEARER, **headers})


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_what_the_description_allows_is_served(client: Client, path: str, method: str, data: st.DataObject) -> None:
    query = data.draw(queries(path, method, is_right=True))
    body = b""
    if path == "/v1/changes" and method == "post":
        query |= {"replica": REPLICA, "mark": ""}
        body = page(
            REPLICA,
            data.draw(st.lists(st.builds(entry, st.text("ab", min_size=1, max_size=3), st.text("xy", min_size=1)), max_size=3)),
        )
    elif path == "/v1/rows":
        body = gzip.compress(
            json.dumps({"uids": data.draw(st.lists(st.text("ab", min_size=1, max_size=3), max_size=5))}).encode()
        )
    if path == "/v1/digests" and "theme" not in query:
        query = {name: value for name, value in query.items() if name not in {"subject", "bucket"}}
    if query.get("mark"):
        query["mark"] = ""
    if "skip" in query:
        query["skip"] = ""
    answer = send(client, path, method, query, body, **({"Content-Encoding": "gzip"} if body else {}))
    check(answer, path, method)
    # The first rows that came have decided whether those of a server are sealed.
    assert answer.status_code == 200 or answer.json()["error"] in {"clear", "sealed"}, answer.text


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_what_it_does_not_allow_is_refused_as_described(client: Client, path: str, method: str, data: st.DataObject) -> None:
    query = data.draw(queries(path, method, is_right=False))
    if "wait" in query:
        query["wait"] = data.draw(st.sampled_from(["0", "0.01", "-1", "x", "56"]))
    body = (
        data.draw(st.binary(max_size=200) | st.builds(lambda value: json.dumps(value).encode(), JSON))
        if method == "post"
        else b""
    )
    encoding = data.draw(st.sampled_from(["identity", "gzip", "", "br", "x" * 200]))
    check(send(client, path, method, query, body, **{"Content-Encoding": encoding}), path, method)


FIELDS = ("type", "uid", "theme", "subject", "content", "clock", "target", "tags", "importance", "origins", "visibility", "metadata",
          "survivor", "before", "action", "at", "state", "kind", "keeps_out", "role", "session_id", "occurrence", "content_hash",
          "created_at", "superseded_by", "vector", "pinned", "valid_until", "occurred_at")  # fmt: skip
KNOWN = st.sampled_from(
    ["entry", "turn", "alias", "history", "tombstone", "hermes", "a", "b", "018000000000" + "0000-aaaaaaaaaaaaaaaa", "e" * 16 + "-x", "memory",
     "retired", "forgotten", "synced", "user", "2026-11-30T12:00:00.000000Z", "0" * 64, "AAAAAA==", 0, 1, 0.5, True, None, [], {}]
)  # fmt: skip


@settings(max_examples=150)
@given(
    records=st.lists(st.dictionaries(st.sampled_from(FIELDS) | TEXTS, KNOWN | JSON, max_size=12), max_size=4),
    now=KNOWN | JSON,
    model=KNOWN | JSON,
)
def test_whatever_records_come_each_is_taken_or_named(clear: Client, records: list[dict[str, Any]], now: Any, model: Any) -> None:
    base = {"type": "entry", "uid": "a", "theme": "hermes", "content": "x", "clock": "018000000000" + "0000-aaaaaaaaaaaaaaaa"}
    sent = [{**base, **record} for record in records]
    answer = send(
        clear,
        "/v1/changes",
        "post",
        {"replica": REPLICA},
        page(REPLICA, sent, now=now, model=model),
        **{"Content-Encoding": "gzip"},
    )
    check(answer, "/v1/changes", "post")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["records"] == len(sent)
    assert all(2 <= item["line"] < len(sent) + 2 for item in found["set_aside"])


@settings(max_examples=150)
@given(data=st.data())
def test_a_page_damaged_anywhere_is_refused_or_named(client: Client, data: st.DataObject) -> None:
    body = bytearray(gzip.decompress(page(REPLICA, [entry("a", "one"), entry("b", "two")])))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        match data.draw(st.sampled_from("dic")):
            case "d":
                del body[place : place + data.draw(st.integers(1, 30))]
            case "i":
                body[place:place] = data.draw(st.binary(max_size=10))
            case _:
                body[place] = data.draw(st.integers(0, 255))
        if not body:
            body += b"x"
    check(send(client, "/v1/changes", "post", {"replica": REPLICA}, bytes(body)), "/v1/changes", "post")


def test_every_path_of_the_server_is_described(client: Client) -> None:
    for path, methods in description()["paths"].items():
        for method in {"get", "post", "put"} - set(methods):
            assert send(client, path, method, {}).status_code == 405
    answer = client.get("/v1/openapi.json")
    assert answer.json() == json.loads(json.dumps(description()))
