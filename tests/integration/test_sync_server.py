"""`mnemosyne sync-serve` as a process: what it refuses to start with, slow and idle connections, full disks, and how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

pytest.importorskip("starlette", reason="the server is an extra")
pytest.importorskip("uvicorn", reason="the server is an extra")

from hermes_mnemosyne import Memory
from hermes_mnemosyne.sync import wire
from hermes_mnemosyne.sync.keyring import Keyring
from hermes_mnemosyne.sync.server.limits import Limits
from tests.integration.command import Store, mnemosyne
from tests.integration.sync_world import BEARER, KEY, entry, in_thread, page, server

TLS = Path(__file__).parent / "tls"
REPLICA = "0123456789abcdef"


def refused(*arguments: str, code: int = 2) -> str:
    done = mnemosyne("sync-serve", *arguments)
    assert done.code == code, done.err
    assert len(done.err.splitlines()) == 1
    return done.err


# -- starting --------------------------------------------------------------------------------------------------------------------


def test_without_the_extra_one_line_names_it() -> None:
    with mock.patch("importlib.util.find_spec", return_value=None):
        assert "pip install 'hermes-mnemosyne[server]'" in refused()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])  # noqa: S104
def test_without_a_key_it_listens_for_this_machine_only(host: str) -> None:
    assert "--api-key-file" in refused("--host", host)


def test_an_unusable_key_is_never_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "key"
    empty.touch(0o600)
    assert "empty" in refused("--api-key-file", str(empty))
    assert "cannot be read" in refused("--api-key-file", str(tmp_path / "missing"))
    assert "keys add" in refused("--keys-file", str(tmp_path / "missing"))
    monkeypatch.setenv("MNEMOSYNE_SYNC_KEY", "x")
    assert "leave one out" in refused("--api-key-file", str(empty))


def test_what_it_cannot_listen_on_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert "name another --port" in refused("--db", str(tmp_path / "m.db"), "--port", str(port))
    assert "--host" in refused("--db", str(tmp_path / "m.db"), "--host", " ")


def test_a_certificate_that_cannot_be_used_is_said_in_one_line(tmp_path: Path) -> None:
    assert "--tls-cert" in refused("--tls-cert", str(tmp_path / "missing"))
    assert "--tls-cert" in refused("--tls-cert", str(TLS / "cert.pem"))
    assert "--tls-cert" in refused("--tls-key", str(TLS / "key.pem"))


def test_a_store_of_another_program_is_not_served(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    foreign.write_bytes(b"something else" * 100)
    assert str(foreign) in refused("--db", str(foreign), code=1)


def test_a_theme_is_no_option_of_the_server() -> None:
    assert "keys add" in refused("--theme", "work")


def test_the_first_line_says_where_and_with_which_keys(tmp_path: Path) -> None:
    Keyring(tmp_path / "keys.json").add("laptop")
    with server(tmp_path / "m.db", "--keys-file", str(tmp_path / "keys.json"), "--json") as running:
        assert running.request("GET", "/v1/status")[0] == 200
        assert running.request("GET", "/healthz", headers={"Authorization": "x"}) == (200, b'{"status":"ok"}')
    assert running.log == [line for line in running.log if " /v1/status 200 " in line]


def test_it_serves_over_tls(tmp_path: Path) -> None:
    with server(tmp_path / "m.db", "--tls-cert", str(TLS / "cert.pem"), "--tls-key", str(TLS / "key.pem")) as running:
        assert running.url.startswith("https://")
        unverified = ssl._create_unverified_context()  # noqa: S323, SLF001 - its certificate is of no authority
        connection = http.client.HTTPSConnection("127.0.0.1", running.port, timeout=30, context=unverified)
        connection.request("GET", "/v1/status", headers=BEARER)
        assert connection.getresponse().status == 200
        connection.close()


def test_no_secret_stands_in_the_log(tmp_path: Path) -> None:
    with server(tmp_path / "m.db") as running:
        status, answer = running.push(REPLICA, [entry("u1", "quercetin")])
        assert status == 200
        running.request("GET", f"/v1/changes?replica={REPLICA}&mark={answer['mark']}")
        running.request("GET", f"/{KEY}", headers={"Authorization": "Bearer another-secret"})
    log = "".join(running.log)
    assert "POST /v1/changes 200" in log
    for secret in (KEY, "another-secret", answer["mark"], "quercetin", REPLICA):
        assert secret not in log


# -- what comes over the wire ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/changes HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/changes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", b"A" * 100_000,
        b"GET /v1/changes HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_request_of_ours_hurts_nobody(memory: Memory, raw: bytes) -> None:
    with in_thread(memory, Limits(header_seconds=1.0)) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
            assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 2"))
        assert health(port) == 200


def health(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


@contextlib.contextmanager
def idle(port: int, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            found.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)))
            found[-1].sendall(sent)
        yield found


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTT", b"POST /v1/changes HTTP/1.1\r\nHost: localhost\r\nX-"])
def test_two_hundred_idle_connections_delay_nobody(tmp_path: Path, sent: bytes) -> None:
    with server(tmp_path / "m.db") as running, idle(running.port, 200, sent):
        assert health(running.port) == 200
        assert running.push(REPLICA, [entry("u1", "served all the same")])[0] == 200


def test_of_too_many_idle_connections_the_oldest_one_goes(memory: Memory) -> None:
    with in_thread(memory, Limits(idle_connections=5, header_seconds=60)) as port, idle(port, 6) as connections:
        assert health(port) == 200
        with contextlib.suppress(ConnectionError):
            assert connections[0].recv(1) == b""


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTT"])
def test_a_connection_without_a_request_is_closed_in_time(memory: Memory, sent: bytes) -> None:
    with (
        in_thread(memory, Limits(header_seconds=0.2)) as port,
        idle(port, 1, sent) as [connection],
        contextlib.suppress(ConnectionError),
    ):
        assert connection.recv(1) == b""


def test_a_connection_that_has_been_served_is_closed_in_time(memory: Memory) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with in_thread(memory, Limits(header_seconds=0.2, keep_alive_seconds=0.2)) as port, idle(port, 1, request) as [connection]:
        answer = b""
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200")


def head(length: int) -> bytes:
    return (
        f"POST /v1/changes?replica={REPLICA} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def test_a_body_that_stops_is_given_up(memory: Memory) -> None:
    with in_thread(memory, Limits(pause_seconds=0.2)) as port, idle(port, 1, head(1000) + b"x") as [connection]:
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")
        assert health(port) == 200


def test_a_body_that_trickles_is_given_up(memory: Memory) -> None:
    with in_thread(memory, Limits(pause_seconds=0.2, body_rate=1 << 20)) as port, idle(port, 1, head(100_000)) as [connection]:
        connection.settimeout(0.02)
        answer = b""
        for _ in range(1000):
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(65536)
                break
            connection.sendall(b"x")
        assert answer.startswith(b"HTTP/1.1 408")


def test_a_body_that_is_cut_off_changes_nothing(memory: Memory) -> None:
    body = page(REPLICA, [entry("u1", "never whole")])
    with in_thread(memory, Limits()) as port:
        with idle(port, 1, head(len(body)) + body[:-1]):
            pass
        assert health(port) == 200
    assert memory.list() == []


def test_who_does_not_take_an_answer_is_let_go_and_delays_nobody(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="hermes_mnemosyne")
    for number in range(40):
        memory.remember(f"{number} " + str(list(range(number * 7919, number * 7919 + 9000))))
    request = f"GET /v1/changes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
    with in_thread(memory, Limits(pause_seconds=0.3)) as port, idle(port, 1, request * 100) as [connection]:
        while "was not taken in time" not in caplog.text:
            assert health(port) == 200
        with contextlib.suppress(ConnectionError):
            while connection.recv(1 << 20):  # what the system had taken for it comes still, and then the end
                pass


# -- ending ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_page_under_way_is_answered_before_the_end(tmp_path: Path, number: int) -> None:
    body = page(REPLICA, [entry(f"u{index}", f"fact number {index}") for index in range(1000)])
    with server(tmp_path / "m.db") as running, idle(running.port, 1, head(len(body)) + body[:-100]) as [connection]:
        running.request("GET", "/v1/status")
        running.process.send_signal(number)
        with contextlib.suppress(ConnectionError):  # until nobody listens any more
            while True:
                socket.create_connection(("127.0.0.1", running.port), timeout=30).close()
        connection.sendall(body[-100:])
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 200
        found = json.loads(answer.read())
        assert (found["first"], found["last"]) == (1, 1000)
        assert running.stop() == 0
    assert Store(tmp_path / "m.db")("stats", "--json").json["store"]["memory"] == 1000


def test_who_waits_for_news_is_answered_at_the_end(tmp_path: Path) -> None:
    with server(tmp_path / "m.db") as running:
        found: list[tuple[int, bytes]] = []
        thread = threading.Thread(target=lambda: found.append(running.request("GET", "/v1/changes?wait=55")))
        thread.start()
        while b"requests_waiting 1.0" not in running.request("GET", "/metrics")[1]:
            pass
        assert running.stop() == 0
        thread.join(30)
    assert found[0][0] == 200
    assert wire.read_page([found[0][1]], encoding="gzip").records == []


def test_a_killed_server_has_what_it_has_answered_for(tmp_path: Path) -> None:
    with contextlib.suppress(AssertionError), server(tmp_path / "m.db") as running:
        assert running.push(REPLICA, [entry("u1", "acknowledged")])[0] == 200
        running.process.kill()
    assert Store(tmp_path / "m.db")("list", "--json").json["entries"][0]["content"] == "acknowledged"


def test_systemd_is_told_of_start_life_and_end(tmp_path: Path) -> None:
    name = f"mnemosyne-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(60)
        environ = {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "200000"}
        with server(tmp_path / "m.db", environ=environ) as running:
            assert manager.recv(1000).startswith(b"READY=1\n")
            assert [manager.recv(1000) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            running.stop()
        said = [manager.recv(1000) for _ in range(1)]
        while not said[-1].startswith(b"STOPPING=1"):
            said.append(manager.recv(1000))


# -- a full disk -----------------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_pages_loses_none_and_recovers(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    stored = 0
    with server(path) as running:
        assert running.push(REPLICA, [entry("u0", "before the disk was full")])[0] == 200
        used = max(file.stat().st_size for file in tmp_path.glob("m.db*"))
        _, hard = resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (used + 300_000, hard))
        status = 200
        while status == 200 and stored < 200:
            records = [entry(f"u{stored}-{index}", f"{stored} {index} " + "words to fill it " * 100) for index in range(50)]
            status, answer = running.push(f"replica{stored}", records)
            stored += status == 200
        assert status in {503, 507}, answer
        assert answer["error"] in {"full", "unavailable"}
        assert str(tmp_path) not in json.dumps(answer)
        assert health(running.port) == 200
        assert running.request("GET", "/v1/status")[0] == 200
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert running.push(f"replica{stored}", records)[0] == 200
    assert Store(path)("stats", "--json").json["store"]["memory"] == 1 + 50 * (stored + 1)
    assert mnemosyne("--db", str(path), "doctor").code == 0


def test_a_dsn_is_taken_from_the_credentials_of_the_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dsn").write_text("postgresql://user:secret-word@127.0.0.1:1/nowhere")
    (tmp_path / "dsn").chmod(0o600)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("MNEMOSYNE_BUSY_TIMEOUT", "0.2")
    done = mnemosyne("sync-serve", "--port", "0")
    assert done.code in {1, 2}
    assert "secret-word" not in done.err
    assert "127.0.0.1" in done.err
