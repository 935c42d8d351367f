"""The commands around meaning: what they print, their exit codes, and that a command never waits for a model unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_mnemosyne.embed.packaged import packaged
from tests.integration.command import Result, mnemosyne
from tests.integration.embedding_server import EmbeddingServer, hang, status


class Store:
    """One file and its settings on the command line."""

    def __init__(self, directory: Path, server: EmbeddingServer) -> None:
        self.server = server
        self.file = directory / "mnemosyne.db"
        self.config = directory / "settings.yaml"
        self.configure(server)

    def configure(self, server: EmbeddingServer, **changes: object) -> None:
        keys = {
            "embedder": "endpoint", "embed_url": server.url, "embed_dim": server.dimension, "embed_write_retries": 0, **changes,
        }  # fmt: skip
        self.config.write_text("".join(f"{name}: {value}\n" for name, value in keys.items()), encoding="utf-8")

    def __call__(self, *arguments: str) -> Result:
        return mnemosyne(arguments[0], "--db", str(self.file), "--config", str(self.config), *arguments[1:])


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        running.meanings |= {"concise": "short", "brief": "short", "long": "short", "replies": "answers"}
        yield running


@pytest.fixture
def store(tmp_path: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.delenv("MNEMOSYNE_EMBEDDER")
    made = Store(tmp_path, server)
    made("remember", "concise answers")
    made("remember", "a boat in Bergen")
    return made


def test_a_command_finds_by_meaning_when_the_embedder_is_quick(store: Store) -> None:
    assert store.server.texts.count("concise answers") == 1
    found = store("recall", "brief", "--json", "--wait", "20").json
    assert [hit["content"] for hit in found["hits"]] == ["concise answers"]
    assert found["degraded"] == []


def test_a_command_does_not_wait_for_an_embedder_that_hangs(store: Store) -> None:
    store.server.behave(hang)
    found = store("recall", "boat")
    assert found.code == 0
    assert "a boat in Bergen" in found.out
    assert "degraded: vector" in found.out
    assert "--wait" in found.out
    store.server.released.set()


def test_remembering_with_the_embedder_down_works_and_backfill_completes_it(store: Store) -> None:
    store.server.behave(status(503))
    assert store("remember", "seven kettles").code == 0
    down = store("backfill")
    assert down.code == 1
    assert "503" in down.err
    assert store("backfill", "--dry-run", "--json").json["pending"] == 1
    store.server.behave(None)
    done = store("backfill", "--json")
    assert done.code == 0
    assert (done.json["stored"], done.json["pending"]) == (3, 0)
    assert store("backfill").code == 0


def test_a_backfill_that_leaves_rows_to_be_tried_again_says_that_it_is_partly_done(store: Store) -> None:
    store.server.poison, store.server.poison_status = "kettles", 500
    store("remember", "seven kettles")
    left = store("backfill")
    assert left.code == 3
    assert "1 wait" in left.out
    assert "1 of these failed" in left.out


def test_rows_that_were_left_out_are_named_and_taken_in_on_demand(store: Store) -> None:
    store.configure(store.server, embed_on_write="false")
    store("remember", "seven kettles")
    assert "1 are left out by setting" in store("stats").out
    assert store("backfill", "--json").json["excluded"] == 1
    assert store("backfill", "--include-excluded", "--json").json["stored"] == 3


def test_another_model_is_named_with_the_command_that_changes_it(store: Store) -> None:
    with EmbeddingServer(32) as other:
        store.configure(other)
        assert "mnemosyne reembed" in store("doctor").out
        assert "mnemosyne reembed" in store("stats").out
        refused = store("backfill")
        assert refused.code == 1
        assert "mnemosyne reembed" in refused.err
        assert store("doctor", "--json").json["ok"]
        changed = store("reembed", "--json")
        assert changed.code == 0
        assert changed.json["stored"] == 2
        assert "reembed" not in store("doctor").out


def test_without_an_embedder_the_commands_say_what_to_do(store: Store) -> None:
    store.config.write_text("embedder: none\n", encoding="utf-8")
    refused = store("backfill")
    assert refused.code == 1
    assert "embedder is none" in refused.err
    assert store("reembed").code == 1
    found = store("recall", "boat", "--json").json
    assert found["degraded"] == []


def test_the_start_shows_what_packaged_weights_find_by_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if packaged() is None:
        pytest.skip("the extra `local` is not installed")
    monkeypatch.setenv("MNEMOSYNE_EMBEDDER", "packaged")
    shown = mnemosyne("quickstart", "--db", str(tmp_path / "mnemosyne.db"))
    assert shown.code == 0
    assert "by meaning  how long should replies be? -> Ada prefers short answers" in shown.out


def test_the_start_says_why_nothing_is_found_by_meaning(store: Store) -> None:
    store.server.behave(status(503))
    shown = store("quickstart")
    assert shown.code == 0
    assert "by meaning  nothing: " in shown.out
    assert "503" in shown.out
