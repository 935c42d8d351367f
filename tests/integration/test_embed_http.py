"""Embeddings from a real endpoint on the loopback interface, in good health and bad."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne._errors import EmbeddingError
from hermes_mnemosyne.embed.http import Endpoint, HttpEmbedder
from tests.integration import embedding_server as served
from tests.integration.embedding_server import EmbeddingServer

SHORT = 0.5
"""Seconds for calls that are meant to run out of time."""


class Time:
    """A clock that moves only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


Make = Callable[..., HttpEmbedder]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def make(server: EmbeddingServer, time: Time) -> Iterator[Make]:
    """Make embedders for the server that are closed after the test."""
    with contextlib.ExitStack() as stack:

        def embedder(**settings: Any) -> HttpEmbedder:
            endpoint = Endpoint(**{"url": server.url, "model": "toy", "dimension": server.dimension, **settings})
            made = HttpEmbedder(endpoint, clock=time, sleep=time.sleep, jitter=lambda: 0.5)
            stack.callback(made.close)
            return made

        yield embedder


def failure(embedder: HttpEmbedder, *texts: str, purpose: Any = "query", **options: Any) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        embedder.embed(texts or ("a text",), purpose, **options)
    return caught.value


def near(vector: Any, expected: list[float]) -> bool:
    return list(vector) == pytest.approx(expected, abs=1e-6)


# -- answers ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "path"), [("openai", "/v1/embeddings"), ("ollama", "/api/embed")])
def test_each_protocol_is_spoken_as_it_is_documented(server: EmbeddingServer, make: Make, protocol: str, path: str) -> None:
    vectors = make(protocol=protocol).embed(["one text", "another"], "document")
    assert near(vectors[0], server.vector("one text"))
    assert near(vectors[1], server.vector("another"))
    assert [(seen.path, seen.body) for seen in server.requests] == [(path, {"model": "toy", "input": ["one text", "another"]})]


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/v1/embeddings", "/api/embed", "/api/embed//"])
@pytest.mark.parametrize("base", ["", "/proxy/models"])
def test_the_address_may_end_like_those_of_either_protocol(server: EmbeddingServer, make: Make, base: str, ending: str) -> None:
    embedder = make(url=f"{server.url}{base}{ending}", protocol="openai")
    with contextlib.suppress(EmbeddingError):  # the server knows no page below another base
        embedder.embed(["a text"], "query")
    assert [seen.path for seen in server.requests] == [f"{base}/v1/embeddings"]


def test_no_texts_ask_nothing(server: EmbeddingServer, make: Make) -> None:
    assert make().embed([], "document") == []
    assert server.requests == []


def test_texts_of_one_call_share_requests_of_bounded_number_and_size(server: EmbeddingServer, make: Make) -> None:
    texts = [f"text number {number}" for number in range(70)]
    vectors = make().embed(texts, "document")
    assert [len(seen.texts) for seen in server.requests] == [32, 32, 6]
    assert all(near(vector, server.vector(text)) for vector, text in zip(vectors, texts, strict=True))
    server.requests.clear()
    make().embed(["\N{CJK UNIFIED IDEOGRAPH-4E00}" * 6000] * 30, "document")
    assert [len(seen.texts) for seen in server.requests] == [14, 14, 2]


def test_the_index_of_an_answer_tells_the_order(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.other_order)
    vectors = make(protocol="openai").embed(["first", "second", "third"], "document")
    assert all(near(vector, server.vector(text)) for vector, text in zip(vectors, ["first", "second", "third"], strict=True))


def test_an_answer_in_pieces_is_read(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.chunked)
    embedder = make()
    for _ in range(2):
        assert near(embedder.embed(["a text"], "query")[0], server.vector("a text"))
    assert {seen.connection for seen in server.requests} == {1}


def test_a_text_is_cut_to_its_first_6000_characters(server: EmbeddingServer, make: Make) -> None:
    embedder = make()
    embedder.embed(["x" * 10_000_000], "document")
    assert [len(text) for text in server.texts] == [6000]
    assert embedder.cuts("x" * 6001)
    assert not embedder.cuts("x" * 6000)


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_text_is_refused_without_asking(server: EmbeddingServer, make: Make, text: str) -> None:
    assert failure(make(), "a text", text).about_text
    assert server.requests == []


def test_every_kind_of_text_arrives_as_it_can_be_stored(server: EmbeddingServer) -> None:
    embedder = HttpEmbedder(Endpoint(server.url, "toy", server.dimension))

    @given(st.text(st.characters(codec=None), min_size=1).filter(lambda text: not text.isspace()))
    def arrives(text: str) -> None:
        server.requests.clear()
        assert len(embedder.embed([text], "query")) == 1
        assert server.texts[0].encode()

    arrives()
    embedder.close()


# -- connections -----------------------------------------------------------------------------------------------------------------


def test_connections_are_kept(server: EmbeddingServer, make: Make) -> None:
    embedder = make()
    for _ in range(5):
        embedder.embed(["a text"], "query")
    assert [seen.connection for seen in server.requests] == [1] * 5


def test_after_closing_the_next_call_connects_anew(server: EmbeddingServer, make: Make) -> None:
    embedder = make()
    for _ in range(2):
        embedder.embed(["a text"], "query")
        embedder.close()
    assert [seen.connection for seen in server.requests] == [1, 2]


def test_a_connection_that_was_idle_for_long_is_not_trusted(server: EmbeddingServer, make: Make, time: Time) -> None:
    embedder = make()
    embedder.embed(["a text"], "query")
    time.now += 31
    embedder.embed(["a text"], "query")
    assert [seen.connection for seen in server.requests] == [1, 2]


def test_a_kept_connection_that_the_endpoint_closes_is_no_failure(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.drop_reused)
    embedder = make()
    for _ in range(4):
        assert len(embedder.embed(["a text"], "query")) == 1


def test_many_threads_share_an_embedder(server: EmbeddingServer, make: Make) -> None:
    embedder = make()
    start = threading.Barrier(8)
    right: list[bool] = []

    def ask(number: int) -> None:
        start.wait()
        texts = [f"thread {number} text {count}" for count in range(5)]
        right.extend(near(embedder.embed([text], "query")[0], server.vector(text)) for text in texts)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 40


def test_a_forked_child_has_connections_of_its_own(server: EmbeddingServer) -> None:
    program = f"""
import os
from hermes_mnemosyne.embed.http import Endpoint, HttpEmbedder
embedder = HttpEmbedder(Endpoint({server.url!r}, "toy", {server.dimension}))
embedder.embed(["parent"], "query")
child = os.fork()
embedder.embed(["child" if child == 0 else "parent"], "query")
embedder.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    connections = {text: {seen.connection for seen in server.requests if seen.texts == [text]} for text in ("parent", "child")}
    assert connections == {"parent": {1}, "child": {2}}


# -- which protocol --------------------------------------------------------------------------------------------------------------


def paths(server: EmbeddingServer) -> list[str]:
    return [seen.path for seen in server.requests]


def test_auto_finds_ollama_and_remembers_it(server: EmbeddingServer, make: Make) -> None:
    server.protocols = {"ollama"}
    embedder = make()
    for _ in range(3):
        embedder.embed(["a text"], "query")
    assert paths(server) == ["/v1/embeddings", "/api/embed", "/api/embed", "/api/embed"]


def test_auto_notices_when_another_server_answers_there_now(server: EmbeddingServer, make: Make) -> None:
    embedder = make()
    for protocol in ("ollama", "openai", "ollama"):
        server.protocols = {protocol}
        assert len(embedder.embed(["a text"], "query")) == 1


def test_auto_asks_once_when_it_knows_the_protocol(server: EmbeddingServer, make: Make) -> None:
    embedder = make()
    embedder.embed(["a text"], "query")
    server.behave(served.status(503))
    failure(embedder)
    assert paths(server) == ["/v1/embeddings"] * 2


@pytest.mark.parametrize("fault", [served.status(401), served.status(403), served.wrong_dimension(3)])
def test_auto_does_not_hide_a_denial_or_another_dimension_behind_the_other_protocol(
    server: EmbeddingServer, make: Make, fault: served.Behaviour
) -> None:
    server.behave(fault)
    assert not failure(make()).retryable
    assert paths(server) == ["/v1/embeddings"]


def test_auto_reports_the_failure_of_the_protocol_that_is_spoken(server: EmbeddingServer, make: Make) -> None:
    server.protocols = {"openai"}
    server.poison = "arsenic"
    assert failure(make(), "some arsenic").about_text
    server.protocols = {"ollama"}
    assert failure(make(), "some arsenic").about_text


@pytest.mark.parametrize("protocol", ["openai", "ollama"])
def test_a_named_protocol_is_the_only_one_that_is_tried(server: EmbeddingServer, make: Make, protocol: str) -> None:
    server.protocols = set()
    error = failure(make(protocol=protocol))
    assert "answered 404" in str(error)
    assert not error.retryable
    assert len(server.requests) == 1


def test_both_protocols_share_one_deadline(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.hang)
    assert failure(make(), timeout=SHORT).retryable
    assert len(server.requests) == 1


# -- bad answers -----------------------------------------------------------------------------------------------------------------


def test_another_dimension_is_named_in_the_words_of_the_setting(server: EmbeddingServer, make: Make) -> None:
    error = failure(make(dimension=768))
    assert str(error) == f"expected 768 (embed_dim), got {server.dimension}"
    assert not error.retryable
    assert not error.about_text


@pytest.mark.parametrize("number", [0.0, float("nan"), float("inf"), None], ids=str)
def test_a_vector_that_cannot_be_used_is_blamed_on_the_text(server: EmbeddingServer, make: Make, number: float | None) -> None:
    server.behave(served.filled_with(number))
    error = failure(make())
    assert error.about_text
    assert not error.retryable


@pytest.mark.parametrize(
    "fault",
    [
        served.html,
        served.huge,
        served.answering(""),
        served.answering(b"\xff\xfe\x00"),
        served.answering("[" * 100_000),
        served.answering("null"),
        served.answering('{"data": [1], "embeddings": 2}'),
        served.answering('{"data": [{"embedding": "AAAA"}], "embeddings": ["AAAA"]}'),
        served.answering('{"data": [{"embedding": [0.5], "index": 7}]}'),
    ],
)
def test_garbage_is_an_error_that_may_pass(server: EmbeddingServer, make: Make, fault: served.Behaviour) -> None:
    server.behave(fault)
    error = failure(make(), purpose="document")
    assert error.retryable
    assert not error.about_text
    assert len(server.requests) == 2  # once in each protocol, not again and again


def test_numbers_that_are_none_are_an_error(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.filled_with("a"))
    assert not failure(make()).about_text


@pytest.mark.parametrize("fault", [served.too_few, served.too_many, served.repeated_index])
def test_vectors_that_do_not_match_the_texts_are_never_given_to_them(
    server: EmbeddingServer, make: Make, fault: served.Behaviour
) -> None:
    server.behave(fault)
    failure(make(protocol="openai"), "one", "two")


def test_an_answer_that_is_cut_off_still_counts_when_it_is_whole(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.cut_off)
    assert len(make().embed(["a text"], "query")) == 1


@pytest.mark.parametrize("code", [400, 413, 422])
@pytest.mark.parametrize("texts", [("one",), ("one", "two")])
def test_a_refused_text_is_blamed_and_not_tried_again(
    server: EmbeddingServer, make: Make, code: int, texts: tuple[str, ...]
) -> None:
    server.behave(served.status(code))
    error = failure(make(protocol="openai"), *texts, purpose="document")
    assert (error.about_text, error.retryable, len(server.requests)) == (True, False, 1)


def test_a_batch_that_breaks_the_endpoint_can_be_halved_until_the_text_is_found(server: EmbeddingServer, make: Make) -> None:
    server.poison, server.poison_status = "arsenic", 500
    embedder = make(write_retries=0)
    error = failure(embedder, "one", "arsenic", purpose="document")
    assert (error.about_text, error.retryable) == (True, True)
    assert len(embedder.embed(["one"], "document")) == 1
    alone = failure(embedder, "arsenic", purpose="document")
    assert (alone.about_text, alone.retryable) == (False, True)


def test_a_batch_that_takes_too_long_can_be_halved_too(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.hang)
    error = failure(make(), "one", "two", purpose="document", timeout=SHORT)
    assert (error.about_text, error.retryable) == (True, True)


def test_the_reason_of_the_endpoint_is_told_on_one_short_line(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.status(404, "model toy not found,\n\x1b[31m try pulling it" + "!" * 1000))
    message = str(failure(make()))
    assert "(model toy not found, " in message
    assert message.isprintable()
    assert len(message) < 500


# -- time ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [served.hang, served.drip, served.drip_headers])
@pytest.mark.parametrize("purpose", ["query", "document"])
def test_no_call_outlives_its_deadline(server: EmbeddingServer, make: Make, fault: served.Behaviour, purpose: str) -> None:
    server.behave(fault)
    error = failure(make(timeout=SHORT, write_timeout=SHORT, write_retries=0), purpose=purpose)
    assert "within 0.5 s" in str(error)
    assert error.retryable


def test_the_thread_of_a_call_that_was_given_up_ends(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.drip_headers)
    failure(make(timeout=SHORT))
    for thread in [thread for thread in threading.enumerate() if thread.name == "mnemosyne-embed"]:
        thread.join(served.LONG)
        assert not thread.is_alive()
    assert not server.released.is_set()


def test_an_endpoint_that_accepts_nothing_is_given_up_in_time(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        error = failure(make(url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=SHORT))
    assert error.retryable


def test_no_time_asks_nothing(server: EmbeddingServer, make: Make) -> None:
    embedder = make()
    for _ in range(20):
        assert failure(embedder, timeout=0.0).retryable
    assert server.requests == []
    assert len(embedder.embed(["a text"], "query")) == 1


# -- trying again ----------------------------------------------------------------------------------------------------------------

LATER = [served.status(code) for code in (408, 425, 429, 500, 502, 503, 504)] + [served.drop]


@pytest.mark.parametrize("fault", LATER)
def test_documents_are_tried_again_after_growing_pauses(
    server: EmbeddingServer, make: Make, time: Time, fault: served.Behaviour
) -> None:
    server.behave(fault, times=2)
    assert len(make(protocol="openai").embed(["a text"], "document")) == 1
    assert time.slept == [0.1, 0.2]


@pytest.mark.parametrize("fault", LATER)
def test_a_query_is_tried_once(server: EmbeddingServer, make: Make, fault: served.Behaviour) -> None:
    server.behave(fault)
    assert failure(make(protocol="openai")).retryable
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [401, 403, 404, 405, 418, 501])
def test_what_cannot_succeed_later_is_not_tried_again(server: EmbeddingServer, make: Make, code: int) -> None:
    server.behave(served.status(code))
    failure(make(protocol="openai"), purpose="document")
    assert len(server.requests) == 1


def test_retries_end_where_the_settings_say(server: EmbeddingServer, make: Make) -> None:
    server.behave(served.status(503))
    assert failure(make(protocol="openai", write_retries=4), purpose="document").retryable
    assert len(server.requests) == 5


def test_an_endpoint_is_left_alone_for_as_long_as_it_asks(server: EmbeddingServer, make: Make, time: Time) -> None:
    server.behave(served.status(429, Retry_After="7"), times=1)
    assert len(make(protocol="openai").embed(["a text"], "document")) == 1
    assert time.slept == [7.0]


@pytest.mark.parametrize("value", ["31", "999999999999", formatdate(4_000_000_000, usegmt=True)])
def test_a_pause_beyond_the_deadline_is_not_waited_for(server: EmbeddingServer, make: Make, time: Time, value: str) -> None:
    server.behave(served.status(429, Retry_After=value))
    assert failure(make(protocol="openai"), purpose="document").retryable
    assert (len(server.requests), time.slept) == (1, [])


@pytest.mark.parametrize("value", ["soon", "-5", "", formatdate(0, usegmt=True)])
def test_a_pause_that_means_nothing_is_ignored(server: EmbeddingServer, make: Make, time: Time, value: str) -> None:
    server.behave(served.status(503, Retry_After=value), times=1)
    assert len(make(protocol="openai").embed(["a text"], "document")) == 1
    assert time.slept == [0.1]


def test_a_closed_port_is_an_error_that_may_pass(server: EmbeddingServer, make: Make) -> None:
    embedder = make()
    server.close()
    error = failure(embedder, purpose="document")
    assert error.retryable
    assert "cannot be reached: Connection refused" in str(error)


# -- the breaker -----------------------------------------------------------------------------------------------------------------


def test_an_endpoint_that_keeps_failing_is_left_alone_and_heals(server: EmbeddingServer, make: Make, time: Time) -> None:
    server.behave(served.status(503, "no model is loaded"))
    embedder = make(protocol="openai")
    for _ in range(3):
        failure(embedder)
    for _ in range(10):
        error = failure(embedder)
        assert error.retryable
        assert not error.about_text
    assert "failed 3 times in a row and is asked again in 0.8 s" in str(error)
    assert "no model is loaded" in str(error)
    assert len(server.requests) == 3
    server.behave(None)
    time.now += 1.0
    for _ in range(5):
        assert len(embedder.embed(["a text"], "query")) == 1


def test_texts_that_are_refused_do_not_count_against_the_endpoint(server: EmbeddingServer, make: Make) -> None:
    server.poison = "arsenic"
    embedder = make()
    for _ in range(30):
        assert failure(embedder, "arsenic").about_text
    assert len(embedder.embed(["a text"], "query")) == 1


def test_queries_that_take_too_long_do_not_keep_documents_from_being_embedded(server: EmbeddingServer, make: Make) -> None:
    embedder = make(timeout=SHORT)
    server.behave(served.hang)
    for _ in range(3):
        failure(embedder)
    server.behave(None)
    assert "in a row" in str(failure(embedder))
    assert len(embedder.embed(["a text"], "document")) == 1


def test_a_poisonous_text_found_by_halving_leaves_the_endpoint_in_use(server: EmbeddingServer, make: Make) -> None:
    server.poison, server.poison_status = "arsenic", 500
    embedder = make()
    waiting = [["arsenic", *[f"text {number}" for number in range(63)]]]
    done: list[str] = []
    failed: list[str] = []
    while waiting:
        texts = waiting.pop()
        try:
            done += texts[: len(embedder.embed(texts, "document"))]
        except EmbeddingError:
            if len(texts) == 1:
                failed += texts
            else:
                waiting += [texts[len(texts) // 2 :], texts[: len(texts) // 2]]
    assert failed == ["arsenic"]
    assert len(done) == 63


# -- secrets ---------------------------------------------------------------------------------------------------------------------

KEY = "plain-words-that-are-a-key"


def test_the_key_is_read_at_every_call(server: EmbeddingServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = make(api_key_env="TOY_KEY")
    for key in ("first", "second"):
        monkeypatch.setenv("TOY_KEY", key)
        embedder.embed(["a text"], "query")
    assert [seen.headers["Authorization"] for seen in server.requests] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_key_no_header_is_sent_and_one_warning_says_so(
    server: EmbeddingServer, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, value: str | None
) -> None:
    monkeypatch.delenv("TOY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("TOY_KEY", value)
    embedder = make(api_key_env="TOY_KEY")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            embedder.embed(["a text"], "query")
    assert all("Authorization" not in seen.headers for seen in server.requests)
    assert [record.getMessage().count("TOY_KEY") for record in caplog.records] == [1]


@pytest.mark.parametrize("extra", ["\n", "\r", "\0", "\x7f", "\N{EURO SIGN}", "\ud800"], ids=ascii)
def test_a_key_that_no_header_can_carry_is_an_error_that_names_only_the_variable(
    server: EmbeddingServer, make: Make, monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    monkeypatch.setattr(os, "environ", {"TOY_KEY": f"{KEY}{extra}X-Other: 1"})  # no real one can hold a NUL
    error = failure(make(api_key_env="TOY_KEY"))
    assert "TOY_KEY" in str(error)
    assert KEY not in told(error)
    assert server.requests == []


def test_a_key_put_where_its_name_belongs_is_not_repeated(make: Make) -> None:
    embedder = make(api_key_env=f"sk-{KEY}")
    assert KEY not in told(failure(embedder))


def told(error: BaseException | None) -> str:
    """Return all that a traceback would show of an error and its causes."""
    texts = []
    while error is not None:
        texts.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


@pytest.mark.parametrize(
    "fault",
    [None, served.html, served.hang, served.drop, served.status(500, f"your key {KEY} is fine"), served.redirect(f"/{KEY}")],
)
def test_neither_key_nor_password_is_in_any_message(
    server: EmbeddingServer,
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: served.Behaviour | None,
) -> None:
    monkeypatch.setenv("TOY_KEY", KEY)
    server.key = "another"
    server.behave(fault)
    url = server.url.replace("://", "://user:secret-word@") + "?token=query-word"
    embedder = make(url=url, api_key_env="TOY_KEY", timeout=SHORT)
    with caplog.at_level(logging.DEBUG):
        seen = [told(failure(embedder)) for _ in range(5)]
    everything = "\n".join([*seen, caplog.text, repr(embedder), repr(vars(embedder))])
    assert not [word for word in (KEY, "secret-word", "query-word") if word in everything]


def test_a_password_in_the_address_is_used(server: EmbeddingServer, make: Make) -> None:
    make(url=server.url.replace("://", "://user:p%40ss@")).embed(["a text"], "query")
    assert server.requests[0].headers["Authorization"] == "Basic dXNlcjpwQHNz"


@pytest.mark.parametrize(
    "url", ["", "localhost:11434", "ftp://u:secret-word@host", "http://u:secret-word@[::1", "http://", "http://a b"]
)
def test_an_address_that_is_none_is_an_error_that_names_the_setting(make: Make, url: str) -> None:
    error = failure(make(url=url))
    assert "embed_url" in str(error)
    assert not error.retryable
    assert "secret-word" not in told(error)


def test_a_redirect_is_not_followed_and_the_message_says_where_it_pointed(
    server: EmbeddingServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_KEY", KEY)
    with EmbeddingServer() as other:
        server.behave(served.redirect(other.url.replace("://", "://user:secret-word@") + "/v1/embeddings?token=query-word"))
        error = failure(make(api_key_env="TOY_KEY"))
        assert other.requests == []
        assert f"{other.url}/v1/embeddings" in str(error)
    assert not error.retryable
    assert "word" not in told(error)


@pytest.mark.parametrize("target", ["http://[", "", "//", "http://host:port/", "javascript:alert(1)"])
def test_a_redirect_to_nowhere_is_an_error_too(server: EmbeddingServer, make: Make, target: str) -> None:
    server.behave(served.redirect(target))
    assert not failure(make()).retryable


def test_settings_are_values() -> None:
    endpoint = Endpoint("http://host", "toy", 8)
    assert dataclasses.replace(endpoint, timeout=10.0) == endpoint
