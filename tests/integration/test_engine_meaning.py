"""Memories found by meaning through a real endpoint: text first, vectors later, whatever the endpoint does meanwhile."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne._errors import EmbeddingError
from hermes_mnemosyne.backfill import Progress
from hermes_mnemosyne.embed.breaker import Limits
from hermes_mnemosyne.embed.fingerprint import PROBES
from hermes_mnemosyne.embed.http import HttpEmbedder
from hermes_mnemosyne.setting_keys import Settings
from hermes_mnemosyne.values import RecallResult
from tests.integration.embedding_server import EmbeddingServer, Reply, filled_with, hang, html, status, wrong_dimension

MEANT = {"concise": "short", "answers": "replies", "prefers": "wants", "keep": "wants", "it": "replies"}
MEMORY, QUESTION = "prefers concise answers", "keep it short"
OTHERS = ("the boat lies in Bergen", "seven copper kettles", "Tuesday is the day of the market", "her cello needs a new string")

Open = Callable[..., Memory]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        running.meanings |= MEANT
        yield running


@pytest.fixture
def opened(tmp_path: Path, server: EmbeddingServer) -> Iterator[Open]:
    """Open the same file with other settings; no worker embeds beside the test unless it says so."""
    memories: list[Memory] = []

    def make(*, worker: bool = False, **changes: Any) -> Memory:
        given: dict[str, Any] = {
            "embed_url": server.url, "embed_model": "words", "embed_dim": server.dimension, "embed_timeout": 20.0,
            "embed_write_retries": 0, "embed_write_backoff": 0.0, "embedder": "auto", **changes,
        }  # fmt: skip
        memory = Memory.open(tmp_path / "meaning.db", settings=Settings(**given))
        memory.engine.one_shot = not worker
        memories.append(memory)
        return memory

    yield make
    for memory in memories:
        memory.close()


def contents(result: RecallResult) -> list[str]:
    return [hit.content for hit in result.hits]


def filled(memory: Memory) -> str:
    """Store the memory that the question means among others, and return its id."""
    for text in OTHERS:
        memory.remember(text)
    return memory.remember(MEMORY).uid


# -- text first, vector later ----------------------------------------------------------------------------------------------------


def test_a_memory_is_found_by_what_it_means(opened: Open) -> None:
    memory = opened()
    filled(memory)
    memory.capture_turn("I like concise replies", session_id="s", speaker="Ada")
    counts = memory.embed_pending()
    assert (counts.stored, counts.pending) == (6, 0)
    found = memory.recall(QUESTION, kinds=("entry",))
    assert contents(found) == [MEMORY]
    assert found.degraded == ()
    assert contents(memory.recall(QUESTION, kinds=("turn",))) == ["I like concise replies"]


def test_a_hit_explains_what_meaning_and_words_gave(opened: Open) -> None:
    memory = opened()
    filled(memory)
    memory.embed_pending()
    explained = memory.recall(QUESTION, explain=True).hits[0].explain
    assert explained is not None
    assert set(explained["legs"]) == {"vector"}
    assert explained["evidence"]["likeness"] > 0.5
    assert explained["evidence"]["strength"] == 0.0
    assert set((memory.recall("concise answers", explain=True).hits[0].explain or {})["legs"]) == {"lexical", "vector"}


def test_meaning_alone_ranks_where_words_are_turned_off_and_words_step_in_when_it_fails(
    opened: Open, server: EmbeddingServer
) -> None:
    memory = opened(hybrid_search=False)
    filled(memory)
    memory.embed_pending()
    [hit] = memory.recall(QUESTION, explain=True).hits
    assert (hit.content, set((hit.explain or {})["legs"])) == (MEMORY, {"vector"})
    [by_name] = memory.recall("Bergen boat", explain=True).hits
    assert set((by_name.explain or {})["legs"]) == {"vector"}
    server.behave(status(500))
    fallen_back = memory.recall("copper kettles")
    assert (contents(fallen_back), fallen_back.degraded) == (["seven copper kettles"], ("vector",))


def test_a_hit_by_meaning_alone_needs_the_least_similarity(opened: Open) -> None:
    asked = f"{QUESTION} today"
    memory = opened()
    filled(memory)
    memory.embed_pending()
    [hit] = memory.recall(asked).hits
    assert hit.similarity is not None
    assert contents(opened(min_similarity=hit.similarity - 0.01).recall(asked)) == [MEMORY]
    demanding = opened(min_similarity=hit.similarity + 0.01)
    assert contents(demanding.recall(asked)) == []
    assert MEMORY in contents(demanding.recall("concise"))


def test_a_model_of_another_length_than_the_store_was_set_up_for_is_not_used(opened: Open) -> None:
    memory = opened()
    memory.engine.store.set_meta_once("embed_dim", "768")
    memory.remember(MEMORY)
    with pytest.raises(EmbeddingError, match="reembed"):
        memory.embed_pending()
    found = memory.recall("concise answers")
    assert (contents(found), found.degraded) == ([MEMORY], ("vector",))
    assert "reembed" in memory.stats()["embedding"]["problem"]
    assert memory.reembed().stored == 1
    assert contents(memory.recall(QUESTION)) == [MEMORY]


def test_writes_do_not_wait_for_an_embedder_that_hangs(opened: Open, server: EmbeddingServer) -> None:
    server.behave(hang)
    memory = opened(worker=True)
    filled(memory)
    assert server.waiting.acquire(timeout=30)  # the worker has asked, and waits
    assert memory.remember("the lid is brass").status == "added"
    assert contents(memory.recall("brass lid", embed_timeout=0.0)) == ["the lid is brass"]
    assert memory.stats()["embedding"]["pending"] == 6
    server.behave(None)
    server.released.set()


def test_the_worker_embeds_when_the_embedder_is_back(opened: Open, server: EmbeddingServer) -> None:
    server.behave(status(503), times=3)
    embedded = threading.Event()
    memory = opened(worker=True)
    attach = memory.engine.store.attach_vectors

    def seen(*arguments: Any, **options: Any) -> int:
        count = attach(*arguments, **options)
        embedded.set()
        return count

    memory.engine.store.attach_vectors = seen  # type: ignore[method-assign]
    filled(memory)
    assert embedded.wait(60)
    assert contents(memory.recall(QUESTION)) == [MEMORY]


def test_a_store_is_embedded_by_the_next_process_that_has_an_embedder(opened: Open) -> None:
    without = opened(embedder="none")
    filled(without)
    assert without.stats()["embedding"]["pending"] == 5
    without.close()
    assert opened().embed_pending().stored == 5


def test_a_command_embeds_what_it_has_written_before_it_ends(opened: Open, server: EmbeddingServer) -> None:
    memory = opened()
    memory.remember(MEMORY)
    memory.close()
    assert MEMORY in server.texts
    again = opened()
    asked = len(server.requests)
    again.recall("words alone", embed_timeout=0.0)
    again.close()
    assert not any(MEMORY in request.texts for request in server.requests[asked:])


# -- embedders that fail ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [status(500), status(401), html, wrong_dimension(3), filled_with(0.0)])
def test_recall_goes_on_by_words_and_says_so(opened: Open, server: EmbeddingServer, fault: Any) -> None:
    memory = opened()
    filled(memory)
    memory.embed_pending()
    server.behave(fault)
    found = memory.recall("copper kettles")
    assert contents(found) == ["seven copper kettles"]
    assert found.degraded == ("vector",)
    assert memory.stats()["embedding"]["problem"]
    server.behave(None)


def test_a_query_does_not_wait_for_an_embedder_that_hangs(opened: Open, server: EmbeddingServer) -> None:
    memory = opened()
    filled(memory)
    memory.embed_pending()
    server.behave(hang)
    found = memory.recall("copper kettles", embed_timeout=0.05)
    assert (contents(found), found.degraded) == (["seven copper kettles"], ("vector",))
    assert "did not answer" in memory.stats()["embedding"]["problem"]
    server.released.set()


def test_the_same_query_is_embedded_once(opened: Open, server: EmbeddingServer) -> None:
    memory = opened()
    filled(memory)
    memory.embed_pending()
    for _ in range(3):
        assert contents(memory.recall(QUESTION)) == [MEMORY]
    assert server.texts.count(QUESTION) == 1


@pytest.mark.parametrize(("code", "state"), [(400, "unembeddable"), (422, "unembeddable"), (500, "retrying")])
def test_one_text_that_cannot_be_embedded_does_not_keep_the_others(
    opened: Open, server: EmbeddingServer, code: int, state: str
) -> None:
    server.poison, server.poison_status = "kettles", code
    memory = opened()
    filled(memory)
    counts = memory.embed_pending()
    assert counts.stored == 4
    assert getattr(counts, state) == 1
    assert counts.pending == (1 if state == "retrying" else 0)
    assert contents(memory.recall("copper kettles")) == ["seven copper kettles"]
    server.poison = None
    assert memory.embed_pending().stored == 5


def test_a_text_that_fails_again_and_again_is_set_aside_until_it_is_tried_by_hand(opened: Open, server: EmbeddingServer) -> None:
    server.poison, server.poison_status = "kettles", 500
    memory = opened()
    filled(memory)
    counts = [memory.embed_pending() for _ in range(8)]
    assert (counts[0].retrying, counts[0].unembeddable) == (1, 0)
    assert (counts[-1].pending, counts[-1].unembeddable) == (0, 1)
    server.poison = None
    assert memory.embed_pending().stored == 5


def test_an_endpoint_that_takes_one_text_at_a_time_can_be_used(opened: Open, server: EmbeddingServer) -> None:
    def choosy(reply: Reply) -> None:
        if len(reply.vectors) > 1:
            status(422, "the largest batch is 1")(reply)

    server.behave(choosy)
    memory = opened()
    filled(memory)
    assert memory.embed_pending().stored == 5
    assert contents(memory.recall(QUESTION)) == [MEMORY]


def test_an_endpoint_that_refuses_every_text_makes_none_of_them_unembeddable(opened: Open, server: EmbeddingServer) -> None:
    memory = opened()
    memory.remember("first")
    memory.embed_pending()
    filled(memory)
    server.behave(status(400, "there is no such model"))
    with pytest.raises(EmbeddingError):
        memory.embed_pending()
    server.behave(None)
    counts = memory.embed_pending()
    assert (counts.stored, counts.unembeddable) == (6, 0)


def test_vectors_of_zeros_are_not_stored(opened: Open, server: EmbeddingServer) -> None:
    memory = opened()
    memory.remember("first")
    memory.embed_pending()
    memory.remember("second")
    server.behave(filled_with(0.0), times=1)
    counts = memory.embed_pending()
    assert (counts.stored, counts.unembeddable) == (1, 1)
    assert contents(memory.recall("second", embed_timeout=0.0)) == ["second"]


def test_the_key_of_the_endpoint_is_said_nowhere(
    opened: Open, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WORDS_KEY", "sk-right-and-secret")
    server.key = "sk-other"
    memory = opened(embed_api_key_env="WORDS_KEY")
    filled(memory)
    with pytest.raises(EmbeddingError) as failure:
        memory.embed_pending()
    said = f"{failure.value!r} {failure.value} {memory.stats()} {caplog.text} {memory.recall('kettles')}"
    assert "sk-right-and-secret" not in said
    server.key = "sk-right-and-secret"
    assert memory.embed_pending().stored == 5


# -- nobody waits ----------------------------------------------------------------------------------------------------------------


def test_an_endpoint_is_met_before_a_question_needs_it(opened: Open, server: EmbeddingServer) -> None:
    """To say which model it is may take an endpoint longer than a question may wait."""
    first = opened()
    filled(first)
    first.embed_pending()
    first.close()
    server.requests.clear()
    server.behave(hang)
    opened(worker=True).counts()
    assert server.waiting.acquire(timeout=60)
    assert server.texts == list(PROBES)
    server.behave(None)
    server.released.set()


def test_after_three_questions_in_vain_the_next_does_not_wait(
    opened: Open, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_mnemosyne.embedding._PATIENCE", Limits(failures=3, first_pause=7200.0, longest_pause=7200.0))
    server.behave(hang)
    memory = opened()
    filled(memory)
    for number in range(3):
        assert memory.recall(f"kettles {number}", embed_timeout=0.05).degraded == ("vector",)
    assert contents(memory.recall("copper kettles", embed_timeout=3600.0)) == ["seven copper kettles"]
    assert "3 times in a row" in memory.engine.embedding.problem
    assert memory.stats()["process"]["recalls_without_vector"] == 4
    server.released.set()


def test_closing_does_not_wait_for_an_embedder_that_hangs(opened: Open, server: EmbeddingServer) -> None:
    server.behave(hang)
    memory = opened(worker=True, embed_write_timeout=3600.0)
    filled(memory)
    assert server.waiting.acquire(timeout=30)
    closing = threading.Thread(target=memory.close)
    closing.start()
    closing.join(20)
    assert not closing.is_alive()
    server.released.set()


def test_a_question_does_not_wait_for_the_write_lock(opened: Open) -> None:
    memory = opened(busy_timeout=0.2)
    filled(memory)
    with contextlib.closing(sqlite3.connect(memory.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = memory.recall("copper kettles")
    assert contents(found) == ["seven copper kettles"]
    assert found.degraded == ()


def test_of_a_long_question_the_beginning_is_asked_for(opened: Open, server: EmbeddingServer) -> None:
    memory = opened()
    filled(memory)
    memory.embed_pending()
    pasted = f"{QUESTION} " * 2000
    memory.recall(pasted)
    asked = len(server.requests)
    assert memory.recall(f"{pasted} and more").degraded == ()
    assert len(server.requests) == asked


def test_a_question_is_answered_by_words_where_no_thread_can_be_started(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = opened()
    filled(memory)
    memory.embed_pending()
    start = threading.Thread.start

    def refused(self: threading.Thread) -> None:
        if self.name == "mnemosyne-asker":
            raise RuntimeError("can't start new thread")
        start(self)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        for _ in range(6):
            assert memory.recall("copper kettles").degraded == ("vector",)
    assert memory.recall("copper kettles").degraded == ()


@pytest.mark.parametrize("url", ["http://[::1", "http://[bad", "http://", "no address"])
def test_an_address_that_is_none_keeps_no_contact_from_being_remembered(tmp_path: Path, url: str) -> None:
    given = Settings(embed_url=url, embed_dim=8)
    with Memory.open(tmp_path / "contacts.db", theme="whatsapp-dm", subject="one", settings=given) as memory:
        memory.remember("seven copper kettles")
        assert contents(memory.recall("kettles")) == ["seven copper kettles"]


# -- what is left out ------------------------------------------------------------------------------------------------------------


def test_rows_left_out_by_a_setting_are_counted_apart_and_can_be_taken_in(opened: Open) -> None:
    memory = opened(embed_on_write=False)
    filled(memory)
    counts = memory.embed_pending()
    assert (counts.stored, counts.pending, counts.excluded) == (0, 0, 5)
    assert contents(memory.recall("copper kettles")) == ["seven copper kettles"]
    memory.close()
    again = opened()
    again.remember("written under the other setting")
    counts = again.embed_pending()
    assert (counts.stored, counts.excluded) == (1, 5)
    assert again.embed_pending(include_excluded=True).stored == 6


@pytest.mark.parametrize(("policy", "embedded"), [("all", 4), ("substantive_only", 3), ("none", 1)])
def test_the_policy_decides_which_turns_get_a_vector(opened: Open, policy: str, embedded: int) -> None:
    memory = opened(conversation_embed_policy=policy)
    memory.remember("an entry")
    memory.capture_turn("ok", session_id="s", role="user")
    memory.capture_turn("sure", session_id="s", role="assistant")
    memory.capture_turn("an answer of substance " * 8, session_id="s", role="assistant")
    counts = memory.embed_pending()
    assert (counts.stored, counts.excluded) == (embedded, 4 - embedded)


def test_rows_that_stay_on_this_machine_are_not_sent_to_another_one(
    opened: Open, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpEmbedder, "is_remote", True)
    memory = opened()
    filled(memory)
    memory.remember("a local secret about a boat", visibility="local")
    memory.capture_turn("said in private", session_id="s", visibility="local")
    for counts in (memory.embed_pending(), memory.embed_pending(include_excluded=True)):
        assert (counts.stored, counts.excluded, counts.pending) == (5, 2, 0)
    assert not any("secret" in text or "private" in text for text in server.texts)
    assert "a local secret about a boat" in contents(memory.recall("secret boat"))
    contact = Memory(memory.engine, theme="whatsapp-dm", subject="0" * 64, reach=memory.reach)
    assert contact.recall("what the contact asks").degraded == ()
    assert "what the contact asks" not in server.texts
    memory.close()
    assert opened(embed_local_rows=True).embed_pending(include_excluded=True).stored == 7


def test_a_secret_in_a_question_is_not_sent(opened: Open, server: EmbeddingServer) -> None:
    memory = opened()
    filled(memory)
    memory.recall("what is my password: hunter2-and-more for the boat?")
    assert not any("hunter2" in text for text in server.texts)


def test_a_hit_carries_how_alike_it_is(opened: Open) -> None:
    memory = opened()
    filled(memory)
    assert memory.recall("copper kettles").hits[0].similarity is None
    memory.embed_pending()
    assert memory.recall("seven copper kettles").hits[0].similarity == pytest.approx(1.0, abs=1e-4)
    assert 0.3 < (memory.recall(f"{QUESTION} today").hits[0].similarity or 0.0) < 0.99


# -- another model ---------------------------------------------------------------------------------------------------------------


def test_another_dimension_is_noticed_and_words_go_on(opened: Open) -> None:
    first = opened()
    uid = filled(first)
    first.embed_pending()
    first.close()
    with EmbeddingServer(32) as other:
        memory = opened(embed_url=other.url, embed_dim=32)
        assert "mnemosyne reembed" in memory.stats()["embedding"]["problem"]
        found = memory.recall("copper kettles")
        assert (contents(found), found.degraded) == (["seven copper kettles"], ("vector",))
        memory.update(uid, content="prefers long answers")
        with pytest.raises(EmbeddingError, match="mnemosyne reembed"):
            memory.embed_pending()
        memory.forget(uid)
        assert memory.reembed().stored == 4
        assert memory.recall("copper kettles").degraded == ()
        memory.close()


def test_a_model_that_changed_under_its_name_is_noticed(opened: Open) -> None:
    first = opened()
    filled(first)
    first.embed_pending()
    first.close()
    with EmbeddingServer() as other:
        other.meanings |= {
            word: f"{word}-of-another-model"
            for word in ["the", "on", "its", "my", "in", "he", "her", "we", "for", "were", "is", "and"]
        }
        vectors = other.vector
        other.vector = lambda text: vectors(text)[::-1]  # type: ignore[method-assign]
        memory = opened(embed_url=other.url)
        assert memory.recall(QUESTION).degraded == ("vector",)
        assert "mnemosyne reembed" in memory.stats()["embedding"]["problem"]
        assert memory.reembed().stored == 5
        assert memory.recall("copper kettles").degraded == ()
        memory.close()


def test_a_model_that_changes_while_a_process_runs_is_noticed_before_its_vectors_are_stored(
    opened: Open, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_mnemosyne.embedding._PROBED_SECONDS", 0.0)
    memory = opened()
    filled(memory)
    assert memory.embed_pending().stored == 5

    def other(reply: Reply) -> None:
        reply.vectors = [vector[::-1] for vector in reply.vectors]

    server.behave(other)
    memory.remember("the lid is brass")
    with pytest.raises(EmbeddingError, match="reembed"):
        memory.embed_pending()
    assert memory.recall("brass lid").degraded == ("vector",)
    assert memory.stats()["embedding"]["stored"] == 5
    server.behave(None)
    assert memory.embed_pending().stored == 6
    assert contents(memory.recall(QUESTION)) == [MEMORY]


def test_the_same_model_under_another_name_and_address_is_no_change(opened: Open) -> None:
    first = opened()
    filled(first)
    first.embed_pending()
    first.close()
    with EmbeddingServer() as other:
        other.meanings |= MEANT
        memory = opened(embed_url=other.url, embed_model="an-alias")
        assert contents(memory.recall(QUESTION)) == [MEMORY]
        assert memory.embed_pending().pending == 0
        assert not any(text in OTHERS for text in other.texts)
        memory.close()


def test_until_all_is_embedded_anew_the_old_vectors_are_used(opened: Open) -> None:
    old = opened()
    filled(old)
    for number in range(60):
        old.remember(f"filler {number}")
    old.embed_pending()

    def interrupted(progress: Progress) -> None:
        raise KeyboardInterrupt(progress.embedded)

    with EmbeddingServer(32) as other:
        memory = opened(embed_url=other.url, embed_dim=32)
        with pytest.raises(KeyboardInterrupt) as stopped:
            memory.reembed(report=interrupted)
        assert contents(old.recall(QUESTION)) == [MEMORY]
        assert old.recall(QUESTION).degraded == ()
        done = len(other.texts)
        assert memory.reembed().stored == 65
        assert len([text for text in other.texts[done:] if text not in PROBES]) == 65 - stopped.value.args[0]  # the rest was kept
        assert memory.recall("copper kettles").degraded == ()
        memory.close()


@pytest.mark.parametrize("each_time", [1, 40])
def test_those_who_write_on_do_not_keep_the_old_model(opened: Open, each_time: int) -> None:
    memory = opened()
    filled(memory)
    memory.embed_pending()
    written = 0

    def meanwhile(_: Progress) -> None:
        nonlocal written
        for _ in range(each_time):
            written += 1
            memory.remember(f"filler {written}")

    with EmbeddingServer(32) as other:
        changed = opened(embed_url=other.url, embed_dim=32)
        counts = changed.reembed(report=meanwhile)
        assert counts.stored >= 5
        assert counts.stored + counts.pending == 5 + written
        assert changed.recall("copper kettles").degraded == ()
        changed.close()


def test_one_text_that_fails_again_and_again_does_not_keep_the_old_model(opened: Open) -> None:
    old = opened()
    filled(old)
    old.embed_pending()
    with EmbeddingServer(32) as other:
        other.poison, other.poison_status = "kettles", 500
        memory = opened(embed_url=other.url, embed_dim=32)
        counts = memory.reembed()
        assert (counts.stored, counts.pending, counts.retrying) == (4, 1, 1)
        assert memory.recall(QUESTION).degraded == ()
        other.poison = None
        assert memory.embed_pending().stored == 5
        memory.close()


@pytest.mark.parametrize("setting", [{"embed_on_write": False}, {"conversation_embed_policy": "none"}])
def test_what_a_setting_says_of_new_rows_takes_no_vector_away_when_the_model_changes(
    opened: Open, setting: dict[str, Any]
) -> None:
    old = opened()
    filled(old)
    old.capture_turn("the kettles are at the market", session_id="s")
    old.embed_pending()
    old.close()
    with EmbeddingServer(32) as other:
        memory = opened(embed_url=other.url, embed_dim=32, **setting)
        memory.capture_turn("the boat is at the market", session_id="s")
        counts = memory.reembed()
        assert (counts.stored, counts.excluded, counts.pending) == (6, 1, 0)
        memory.close()


def test_an_endpoint_that_fails_altogether_changes_no_model(opened: Open) -> None:
    old = opened()
    filled(old)
    old.embed_pending()
    with EmbeddingServer(32) as other:
        memory = opened(embed_url=other.url, embed_dim=32)
        memory.engine.embedding.probes()
        other.behave(status(503))
        with pytest.raises(EmbeddingError):
            memory.reembed()
        assert old.recall(QUESTION).degraded == ()
        memory.close()


# -- processes and threads -------------------------------------------------------------------------------------------------------


def test_a_forked_child_asks_for_itself(opened: Open) -> None:
    memory = opened()
    filled(memory)
    memory.embed_pending()
    assert contents(memory.recall(QUESTION)) == [MEMORY]
    child = os.fork()
    if not child:
        same = contents(memory.recall("wants short replies")) == [MEMORY]
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_threads_ask_at_once(opened: Open) -> None:
    memory = opened()
    filled(memory)
    memory.embed_pending()
    memory.recall(QUESTION)
    wrong: list[Any] = []

    def ask(number: int) -> None:
        found = memory.recall(f"{QUESTION} {number % 3}")
        if "vector" not in found.degraded and MEMORY not in contents(found):
            wrong.append(found)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_closing_gives_the_connections_back(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[HttpEmbedder] = []
    close = HttpEmbedder.close
    monkeypatch.setattr(HttpEmbedder, "close", lambda self: (closed.append(self), close(self))[1])
    memory = opened()
    memory.recall("anything")
    memory.close()
    assert closed == [memory.engine.embedding.choice.embedder]


def test_settings_that_name_no_embedder_say_what_to_do(opened: Open) -> None:
    memory = opened(embedder="endpoint", embed_url=None)
    memory.remember("a kettle")
    found = memory.recall("kettle")
    assert (contents(found), found.degraded) == (["a kettle"], ("vector",))
    assert "embed_url" in memory.stats()["embedding"]["problem"]
    assert memory.stats()["ok"]


def test_the_share_of_meaning_can_be_set(opened: Open) -> None:
    memory = opened(vector_weight=0.0)
    filled(memory)
    memory.embed_pending()
    weighed = replace(memory.settings, vector_weight=1.0)
    assert weighed != memory.settings
    assert contents(memory.recall("concise")) == [MEMORY]
