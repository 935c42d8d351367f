"""Who is let in: by which key, by which name of the server, from which page."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the server is an extra")

from starlette.datastructures import Headers

from hermes_mnemosyne.sync.keyring import Keyring
from hermes_mnemosyne.sync.server.access import Access, Hosts, is_loopback
from hermes_mnemosyne.sync.server.answers import Refused
from hermes_mnemosyne.sync.server.limits import Rates
from hermes_mnemosyne.sync.server.notify import Notifier
from hermes_mnemosyne.sync.signing import authorization, body_digest, nonce_of

KEY = "correct-horse-battery-staple"


def refused(access: Access, header: str | None, *, peer: str = "127.0.0.1", is_secure: bool = False) -> Refused:
    with pytest.raises(Refused) as found:
        access.claim(Headers({} if header is None else {"authorization": header}), peer=peer, is_secure=is_secure)
    return found.value


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {KEY}", KEY, f"Bearer {KEY}x", 'Mnemosyne key="0"']
)
def test_every_wrong_key_is_refused_alike(header: str | None) -> None:
    found = refused(Access(KEY), header)
    assert (found.status, found.word, str(found)) == (401, "unauthorized", "a valid key is needed")
    assert nonce_of(found.headers["WWW-Authenticate"])


def test_two_headers_with_keys_are_none() -> None:
    raw = [(b"authorization", f"Bearer {KEY}".encode())] * 2
    with pytest.raises(Refused):
        Access(KEY).claim(Headers(raw=raw), peer="127.0.0.1", is_secure=False)


@pytest.mark.parametrize(("peer", "is_secure"), [("127.0.0.1", False), ("::1", False), ("192.0.2.7", True)])
def test_a_bearer_key_is_fine_over_tls_and_on_this_machine(peer: str, *, is_secure: bool) -> None:
    claim = Access(KEY).claim(Headers({"authorization": f"bearer {KEY}"}), peer=peer, is_secure=is_secure)
    assert claim.grant is not None
    assert (claim.grant.read, claim.grant.write, claim.grant.themes) == (True, True, None)


def test_a_bearer_key_in_clear_from_another_machine_is_refused_unless_a_proxy_ends_the_tls() -> None:
    assert refused(Access(KEY), f"Bearer {KEY}", peer="192.0.2.7").status == 401
    behind = Access(KEY, clear_is_safe=True)
    assert behind.claim(Headers({"authorization": f"Bearer {KEY}"}), peer="192.0.2.7", is_secure=False).grant is not None


def test_a_signed_request_is_taken_once_and_only_as_it_was_signed() -> None:
    access, digest = Access(KEY), body_digest(b"body")

    def settle(method: str = "POST", target: str = "/v1/changes?a=1", body: str = digest) -> bool:
        nonce = access.nonces.issue()
        header = authorization(KEY, "POST", "/v1/changes?a=1", digest, nonce)
        claim = access.claim(Headers({"authorization": header}), peer="192.0.2.7", is_secure=False)
        try:
            access.settle(claim, method, target, body)
        except Refused:
            return False
        with pytest.raises(Refused):
            access.settle(claim, method, target, body)
        return True

    assert settle()
    assert not settle(method="GET")
    assert not settle(target="/v1/changes?a=2")
    assert not settle(body=body_digest(b"other"))


def test_named_keys_have_their_rights_and_are_revoked_at_once(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.json")
    key = ring.add("reader", rights=["read"], themes=["Work"])
    access = Access(KEY, Keyring(tmp_path / "keys.json"))
    header = Headers({"authorization": f"Bearer {key}"})
    grant = access.claim(header, peer="127.0.0.1", is_secure=False).grant
    assert grant is not None
    assert (grant.name, grant.read, grant.write, grant.themes) == ("reader", True, False, frozenset({"work"}))
    ring.revoke("reader")
    with pytest.raises(Refused):
        access.claim(header, peer="127.0.0.1", is_secure=False)


def test_a_file_of_keys_that_is_damaged_lets_nobody_in_by_name_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    key = Keyring(path).add("reader")
    access = Access(KEY, Keyring(path))
    path.write_text("{")
    assert refused(access, f"Bearer {key}").status == 503
    assert access.claim(Headers({"authorization": f"Bearer {KEY}"}), peer="127.0.0.1", is_secure=False).grant is not None


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("127.0.0.1:8765", True), ("[::1]:8765", True), ("192.0.2.7", True), ("localhost:1", True), ("LOCALHOST", True),
        (socket.gethostname(), True), ("sync.example.org", True), ("sync.example.org.:443", True),
        ("evil.example", False), ("", False), ("[evil]", False), ("127.0.0.1.evil.example", False), ("a@127.0.0.1", False),
        ("sync.example.org:x", False),
    ],
)  # fmt: skip
def test_the_server_answers_to_addresses_and_its_own_names_only(host: str, *, is_known: bool) -> None:
    hosts = Hosts(["sync.example.org"], host="127.0.0.1")
    if is_known:
        hosts.check(Headers({"host": host}))
    else:
        with pytest.raises(Refused) as found:
            hosts.check(Headers({"host": host}))
        assert found.value.status == 421


@pytest.mark.parametrize(
    ("origin", "is_own"),
    [
        ("http://127.0.0.1:8765", True), ("https://sync.example.org", True), ("http://127.0.0.1:3000", False),
        ("http://evil.example", False), ("null", False), ("", False), ("file://", False),
    ],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(origin: str, *, is_own: bool) -> None:
    hosts = Hosts(["sync.example.org"], host="127.0.0.1")
    headers = Headers({"host": "127.0.0.1:8765", "origin": origin})
    if is_own:
        hosts.check(headers)
    else:
        with pytest.raises(Refused) as found:
            hosts.check(headers)
        assert found.value.status == 403


def test_a_request_that_a_browser_calls_foreign_is_refused_without_an_origin_too() -> None:
    with pytest.raises(Refused):
        Hosts([], host="127.0.0.1").check(Headers({"host": "127.0.0.1", "sec-fetch-site": "cross-site"}))


@pytest.mark.parametrize(
    ("host", "own"),
    [
        *((one, True) for one in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost")),
        *((one, False) for one in ("0.0.0.0", "::", "192.0.2.7", "example.org", "")),  # noqa: S104
    ],
)
def test_what_only_this_machine_can_reach(host: str, *, own: bool) -> None:
    assert is_loopback(host) is own


def test_rates_are_of_each_name_and_recover() -> None:
    now = 0.0
    rates = Rates(2.0, 3, clock=lambda: now)
    for _ in range(3):
        rates.demand("a")
    with pytest.raises(Refused) as found:
        rates.demand("a")
    assert (found.value.status, found.value.headers["Retry-After"]) == (429, "1")
    rates.demand("b")
    now = 1.0
    rates.demand("a")
    rates.demand("a")
    with pytest.raises(Refused):
        rates.demand("a")


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_service_manager_is_told(tmp_path: Path, *, is_abstract: bool) -> None:
    name = f"@mnemosyne-{tmp_path.name}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if is_abstract else name)
        manager.settimeout(10)
        Notifier({"NOTIFY_SOCKET": name}).tell("READY=1", "STATUS=x")
        assert manager.recv(100) == b"READY=1\nSTATUS=x"


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None), ({"WATCHDOG_USEC": "30000000"}, 15.0), ({"WATCHDOG_USEC": "0"}, None), ({"WATCHDOG_USEC": "x"}, None),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
    ],
)  # fmt: skip
def test_the_watchdog_is_answered_twice_as_often_as_it_asks(environ: dict[str, str], seconds: float | None) -> None:
    assert Notifier(environ).watchdog_seconds == seconds


def test_without_a_service_manager_nothing_is_told() -> None:
    Notifier({}).tell("READY=1")
    Notifier({"NOTIFY_SOCKET": "/nowhere/at/all"}).tell("READY=1")
