"""The provider with an embedder: recall by meaning before a turn and in the tools, and an embedder that keeps no agent waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne.hermes.provider import MnemosyneProvider, boundary
from hermes_mnemosyne.hermes.provider import provider as provider_module
from hermes_mnemosyne.settings import resolve
from tests.integration.embedding_server import EmbeddingServer, hang, status
from tests.integration.provider_home import BOAT, REPLY, HermesHome, answer_of

MEMORY = "prefers concise answers"
QUESTION = "please keep every reply brief and to the point"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    monkeypatch.delenv("MNEMOSYNE_EMBEDDER")
    with EmbeddingServer() as running:
        running.meanings |= {
            "concise": "short", "brief": "short", "reply": "answers", "keep": "prefers", "please": "prefers", "every": "answers",
            "to": "short", "the": "short", "point": "short", "and": "short",
        }  # fmt: skip
        yield running


@pytest.fixture
def provider(hermes: HermesHome, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> MnemosyneProvider:
    """A started provider whose memory is embedded; a loaded machine does not decide what is recalled in time."""
    monkeypatch.setattr(provider_module, "PREFETCH_SECONDS", 30.0)
    monkeypatch.setattr("hermes_mnemosyne.hermes.provider.prefetch.EMBED_SECONDS", 20.0)
    hermes.configure(embed_url=server.url, embed_dim=server.dimension, embed_timeout=20.0, embed_write_retries=0)
    started = hermes.start()
    started.on_memory_write("add", "user", MEMORY, {})
    started.on_memory_write("add", "memory", BOAT, {})
    with Memory.open(hermes.store, settings=resolve(hermes_home=hermes.path).settings) as memory:
        assert memory.embed_pending().stored == 2
    return started


def test_a_turn_gets_what_its_message_means(provider: MnemosyneProvider) -> None:
    assert MEMORY in provider.prefetch(QUESTION)
    answer = answer_of(provider, "recall_memory", query="brief reply")
    assert [result["content"] for result in answer["results"]] == [MEMORY]
    assert "degraded" not in answer


@pytest.mark.parametrize("fault", [hang, status(503), status(401)])
def test_an_embedder_that_fails_leaves_what_words_find(
    provider: MnemosyneProvider, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, fault: object
) -> None:
    monkeypatch.setattr("hermes_mnemosyne.hermes.provider.prefetch.EMBED_SECONDS", 0.05)
    monkeypatch.setattr("hermes_mnemosyne.engine.EMBED_WAIT", 0.05)
    server.behave(fault)  # type: ignore[arg-type]
    before = boundary.failures()
    assert BOAT in provider.prefetch("In which harbour does the sailing boat Perelandra lie?")
    answer = answer_of(provider, "recall_memory", query="boat Perelandra")
    assert [result["content"] for result in answer["results"]] == [BOAT]
    assert answer["degraded"] == ["vector"]
    assert boundary.failures() == before
    server.released.set()


def test_hooks_store_while_the_embedder_hangs(hermes: HermesHome, provider: MnemosyneProvider, server: EmbeddingServer) -> None:
    server.behave(hang)
    provider.sync_turn(BOAT, REPLY)
    provider.on_memory_write("add", "memory", "the lid is brass", {})
    server.behave(None)
    server.released.set()
    assert hermes.said() == sorted([BOAT, REPLY])
    assert "the lid is brass" in hermes.noted()
