"""How a client asks a server: keys, signatures, refusals, second attempts, damage on the way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import now_text
from hermes_mnemosyne.sync import exchange, signing, wire
from hermes_mnemosyne.sync import remote as module
from hermes_mnemosyne.sync.address import Address, address_of
from hermes_mnemosyne.sync.exchange import RemoteError, Stopped
from hermes_mnemosyne.sync.remote import Pull, Remote
from hermes_mnemosyne.sync.sharing import Wanted, wanted
from tests.unit.sync_server_by_hand import Asked, Told, hand_server

KEY = "correct-horse-battery-staple"
STATUS = {"product": "mnemosyne", "protocol": 1, "replica": "abc", "position": 3, "now": "", "rights": ["read", "write"]}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.001)


class Connect:
    """Makes remotes and closes them at the end."""

    def __init__(self) -> None:
        self.made: list[Remote] = []

    def __call__(self, *args: Any, **options: Any) -> Remote:
        self.made.append(Remote(*args, **options))
        return self.made[-1]


@pytest.fixture
def connect() -> Iterator[Connect]:
    made = Connect()
    yield made
    for remote in made.made:
        remote.close()


def status(**fields: Any) -> Told:
    return Told(body=json.dumps({**STATUS, "now": now_text(), **fields}).encode())


def page(*records: dict[str, Any], after: int = 0, position: int = 1, **head: Any) -> Told:
    fields = {"server": "abc", "after": after, "position": position, "more": False, "mark": "m", "sharing": "s", **head}
    return Told(body=wire.encode_page(fields, records), headers={"Content-Encoding": "gzip"})


def refusal(code: int, word: str, **headers: str) -> Told:
    return Told(code, json.dumps({"error": word, "message": "a sentence"}).encode(), headers)


def in_turn(*answers: Told) -> Callable[[Asked], Told]:
    left = iter(answers)
    return lambda _: next(left)


# -- addresses -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("HTTPS://Memory.Example/", "https://memory.example"),
        ("https://memory.example:443", "https://memory.example"),
        ("http://[::1]:8765/", "http://[::1]:8765"),
        ("http://host/mnemosyne/", "http://host/mnemosyne"),
    ],
)
def test_a_url_has_one_spelling(url: str, same: str) -> None:
    assert address_of(url).url == same


@pytest.mark.parametrize(
    "url",
    [
        "",
        "memory.example",
        "ftp://host",
        "https://",
        "https://user:pass@host",
        "https://host?x=1",
        "https://host#x",
        "http://a b",
    ],
)
def test_what_is_no_url_of_a_server_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        address_of(url)
    assert "pass" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize(
    ("url", "readable"),
    [
        ("http://127.0.0.1:8765", False), ("http://127.9.9.9", False), ("http://localhost", False), ("http://[::1]", False),
        ("https://memory.example", False), ("http://memory.example", True), ("http://10.0.0.1", True), ("http://localhost.example", True),
    ],
)  # fmt: skip
def test_only_clear_http_to_another_host_can_be_read_on_the_way(url: str, readable: bool) -> None:  # noqa: FBT001
    assert address_of(url).is_readable is readable


# -- requests --------------------------------------------------------------------------------------------------------------------


def test_a_bearer_key_goes_to_this_machine_and_one_connection_serves_many_requests(connect: Connect) -> None:
    with hand_server(lambda _: status()) as server:
        remote = connect(server.url, KEY)
        assert remote.status()["replica"] == "abc"
        remote.status()
        remote.close()
    assert {asked.headers["Authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
    assert len(server.connections) == 1
    assert abs(remote.skew) < 60


def test_the_path_of_a_proxy_stands_before_those_of_the_protocol(connect: Connect) -> None:
    with hand_server(lambda _: status()) as server:
        connect(f"{server.url}/memory/").status()
    assert server.asked[0].target == "/memory/v1/status"
    assert "Authorization" not in server.asked[0].headers


def test_a_pull_says_all_that_it_wants(connect: Connect) -> None:
    ask = Pull(
        wanted=wanted(["Work", "a,b&c"], ["x"], turns=True),
        after=7,
        replica="r",
        mark="m",
        limit=5,
        wait=1.5,
        skip=((8, 9), (12, 12)),
    )
    with hand_server(lambda _: page({"type": "entry", "uid": "1"}, after=7, position=9)) as server:
        found = connect(server.url).pull(ask)
    assert [record["uid"] for record in found.records] == ["1"]
    assert server.asked[0].target == (
        "/v1/changes?replica=r&mark=m&after=7&limit=5&wait=1.5&skip=8-9%2C12-12&include=a%2Cb%26c&include=work&exclude=x&turns=1"
    )


def test_what_would_not_be_known_is_asked_for_without_a_name(connect: Connect) -> None:
    with hand_server(lambda _: page()) as server:
        connect(server.url).pull(Pull(wanted=Wanted()))
    assert "replica" not in server.asked[0].target


@pytest.mark.parametrize("code", [408, 429, 502, 503, 504])
def test_what_may_succeed_later_is_tried_again(code: int, connect: Connect) -> None:
    with hand_server(in_turn(refusal(code, "slow-down"), Told(code, b"<html>"), status())) as server:
        assert connect(server.url).status()["position"] == 3
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("code", "word"), [(400, "malformed"), (403, "forbidden"), (409, "cloned"), (413, "too-large"), (507, "full")]
)
def test_what_will_not_succeed_is_not_tried_again_and_has_its_word(code: int, word: str, connect: Connect) -> None:
    with hand_server(lambda _: refusal(code, word)) as server, pytest.raises(RemoteError, match="a sentence") as caught:
        connect(server.url, KEY).status()
    assert (caught.value.word, caught.value.proven, len(server.asked)) == (word, True, 1)


def test_a_pause_that_the_server_asks_for_is_kept_and_ends_when_told_to_stop(connect: Connect) -> None:
    stop = threading.Event()

    def answer(_: Asked) -> Told:
        stop.set()
        return refusal(429, "slow-down", **{"Retry-After": "25"})

    with hand_server(answer) as server, pytest.raises(Stopped):
        connect(server.url, stop=stop).status()
    assert len(server.asked) == 1


def test_a_pause_longer_than_patience_is_an_error_that_names_what_was_said(
    monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 1.0)
    with hand_server(lambda _: refusal(503, "unavailable", **{"Retry-After": "20"})) as server:
        with pytest.raises(RemoteError, match="a sentence") as caught:
            connect(server.url).status()
        assert caught.value.retryable


def test_an_answer_that_was_cut_off_is_asked_for_again(connect: Connect) -> None:
    whole = page({"type": "entry", "uid": "1"})
    with hand_server(in_turn(Told(body=whole.body, headers=whole.headers, cut=True), whole)) as server:
        assert len(connect(server.url).pull(Pull(wanted=Wanted())).records) == 1
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "told",
    [
        Told(body=b"<html>hello</html>"),
        Told(body=b"[1]"),
        Told(body=json.dumps({"product": "other"}).encode()),
        Told(404, b"nothing"),
        Told(301, b"", {"Location": "https://elsewhere.example"}),
        Told(200, b"x", {"Content-Encoding": "br"}),
        status(protocol=2),
        status(replica=None),
    ],
)
def test_what_is_no_server_of_ours_is_said_to_be_none(told: Told, connect: Connect) -> None:
    with hand_server(lambda _: told) as server, pytest.raises(RemoteError) as caught:
        connect(server.url).status()
    assert server.url in str(caught.value)
    assert len(server.asked) == 1


@pytest.mark.parametrize("head", [{"after": 9}, {"position": "1"}, {"position": -1}, {"server": None}, {"position": True}])
def test_a_page_that_does_not_answer_the_question_is_refused(head: dict[str, Any], connect: Connect) -> None:
    fields = {"after": 0, "position": 1, **head}
    with hand_server(lambda _: page(**fields)) as server, pytest.raises(RemoteError):
        connect(server.url).pull(Pull(wanted=Wanted()))


def test_nobody_listening_is_an_error_after_a_few_attempts(connect: Connect) -> None:
    with hand_server(lambda _: status()) as server:
        url = server.url
    with pytest.raises(RemoteError, match="cannot be reached") as caught:
        connect(url).status()
    assert caught.value.retryable


def test_a_silent_server_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch, connect: Connect) -> None:
    monkeypatch.setattr(exchange, "SILENT_SECONDS", 0.05)
    release = threading.Event()

    def answer(_: Asked) -> Told:
        release.wait(30)
        return status()

    with hand_server(answer) as server:
        with pytest.raises(RemoteError, match="silent"):
            connect(server.url, attempts=1).status()
        release.set()


def test_what_is_under_way_can_be_cut(connect: Connect) -> None:
    came, release = threading.Event(), threading.Event()

    def answer(_: Asked) -> Told:
        came.set()
        release.wait(30)
        return status()

    with hand_server(answer) as server:
        remote = connect(server.url)
        cutter = threading.Thread(target=lambda: (came.wait(30), remote.cut()))
        cutter.start()
        with pytest.raises(Stopped):
            remote.status()
        cutter.join()
        release.set()
        with pytest.raises(Stopped):
            remote.status()


def test_a_vector_that_cannot_be_read_does_not_keep_its_text_out(connect: Connect) -> None:
    with hand_server(
        lambda _: page({"type": "entry", "uid": "1", "vector": "?"}, {"uid": "2", "vector": wire.vector_text([0.5, 1.0])})
    ) as server:
        found = connect(server.url).pull(Pull(wanted=Wanted()))
    assert found.records == [{"type": "entry", "uid": "1"}, {"uid": "2", "vector": (0.5, 1.0)}]


# -- signed ----------------------------------------------------------------------------------------------------------------------


class Signer:
    """A server that takes signed requests only, each nonce once."""

    def __init__(self, key: str = KEY) -> None:
        self.key = key
        self.nonces = signing.Nonces()
        self.answers: list[Told] = []
        self.honest = True

    def __call__(self, asked: Asked) -> Told:
        signed = signing.parse_authorization(asked.headers.get("Authorization", ""))
        digest = signing.body_digest(asked.body)
        if (
            signed is None
            or not signing.verify(signing.derive(self.key), signed, asked.method, asked.target, digest)
            or not self.nonces.take(signed.nonce)
        ):
            return Told(
                401, b'{"error":"unauthorized"}', {"WWW-Authenticate": f"Bearer, {signing.challenge(self.nonces.issue())}"}
            )
        told = self.answers.pop(0) if self.answers else status()
        signature = signing.sign_answer(self.key, told.status, signing.body_digest(told.body), signed.nonce)
        headers = {**told.headers, signing.NONCE_HEADER: self.nonces.issue()}
        return Told(told.status, told.body, {**headers, signing.SIGNATURE_HEADER: signature if self.honest else "0" * 64})


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> Signer:
    """A server on this machine that the client takes for one on another."""
    monkeypatch.setattr(Address, "is_loopback", property(lambda _: False))
    return Signer()


def test_over_clear_http_the_key_never_crosses_the_wire(signer: Signer, connect: Connect) -> None:
    signer.answers = [status(), page({"type": "entry", "uid": "1"}), Told(body=b'{"protocol":1,"mark":"m","first":1,"last":0}')]
    with hand_server(signer) as server:
        remote = connect(server.url, KEY)
        remote.status()
        assert remote.pull(Pull(wanted=Wanted())).records
        assert remote.push("r", "", b"body")["mark"] == "m"
    assert len(server.asked) == 4, "one refusal brings the first nonce, every answer the next"
    assert all(KEY not in f"{asked.target}{asked.headers}{asked.body!r}" for asked in server.asked)


def test_a_nonce_that_grew_too_old_is_replaced(signer: Signer, connect: Connect) -> None:
    with hand_server(signer) as server:
        remote = connect(server.url, KEY)
        remote.status()
        signer.nonces = signing.Nonces()
        assert remote.status()["replica"] == "abc"


def test_a_wrong_key_is_refused_after_two_attempts(signer: Signer, connect: Connect) -> None:
    with hand_server(signer) as server, pytest.raises(RemoteError, match="api-key-file") as caught:
        connect(server.url, "another-key").status()
    assert caught.value.word == "unauthorized"
    assert len(server.asked) == 3


def test_an_answer_that_the_key_did_not_sign_counts_for_nothing(signer: Signer, connect: Connect) -> None:
    signer.honest = False
    with hand_server(signer) as server:
        with pytest.raises(RemoteError, match="not signed"):
            connect(server.url, KEY).status()
        signer.answers = [refusal(409, "cloned")]
        with pytest.raises(RemoteError) as caught:
            connect(server.url, KEY).status()
        assert not caught.value.proven


@pytest.mark.usefixtures("signer")
def test_a_server_that_wants_no_key_over_clear_http_is_not_trusted(connect: Connect) -> None:
    with hand_server(lambda _: status()) as server, pytest.raises(RemoteError, match="does not ask for the key"):
        connect(server.url, KEY).status()


def test_a_signed_refusal_is_believed(signer: Signer, connect: Connect) -> None:
    signer.answers = [refusal(409, "unknown-mark")]
    with hand_server(signer) as server, pytest.raises(RemoteError) as caught:
        connect(server.url, KEY).status()
    assert (caught.value.word, caught.value.proven) == ("unknown-mark", True)
