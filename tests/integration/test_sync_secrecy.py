"""What crosses the wire, read byte by byte: nothing that is local, of a theme left out, or a key."""

from __future__ import annotations

import base64
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("starlette", reason="the server is an extra")
pytest.importorskip("uvicorn", reason="the server is an extra")

from hermes_mnemosyne import Memory
from hermes_mnemosyne.sync.proof import verify_once
from hermes_mnemosyne.sync.remote import Remote
from hermes_mnemosyne.sync.round import Options
from hermes_mnemosyne.sync.server.limits import Limits
from hermes_mnemosyne.sync.sharing import wanted
from tests.integration.command import Store
from tests.integration.sync_faults import Tap, assert_same, contents, quiet, replay, well
from tests.integration.sync_world import KEY, in_thread, server

NAME = "memory.test"


class Secrets:
    """Words that must not be read on the way, and a writer who puts them wherever there is room."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def word(self, text: str) -> str:
        self.words.append(f"canary-{len(self.words)}-{text}")
        return self.words[-1]

    def write(self, memory: Memory, **fields: Any) -> str:
        """Add a row, edit it, retire one and forget one, each with words of its own; every id is a secret too."""
        uid = memory.remember(
            self.word("first"), tags=[self.word("tag")], metadata={self.word("key"): self.word("value")}, **fields
        ).uid
        memory.update(uid, content=self.word("second"), tags=[self.word("tag")])
        retired = memory.remember(self.word("retired"), **fields).uid
        memory.retire(retired)
        forgotten = memory.remember(self.word("forgotten"), **fields).uid
        memory.forget(forgotten)
        self.words += [uid, retired, forgotten]
        return uid

    def assert_unread(self, tap: Tap, *, but: str) -> None:
        """Prove that none was read, by the same eyes that did read `but`."""
        read = tap.read()
        assert but.encode() in read
        for word in self.words:
            assert word.encode() not in read, word


@pytest.fixture
def there(tmp_path: Path) -> Memory:
    return Memory.open(tmp_path / "there" / "m.db", readable_themes="*")


@pytest.fixture
def here(tmp_path: Path) -> Memory:
    return Memory.open(tmp_path / "here" / "m.db", readable_themes="*")


@pytest.fixture
def tap(there: Memory) -> Iterator[Tap]:
    with in_thread(there, Limits()) as port, Tap(port) as found:
        yield found


def prove(memory: Memory, tap: Tap, *, repair: bool = False, **options: Any) -> int:
    remote = Remote(tap.url, KEY)
    with contextlib.closing(remote):
        return verify_once(memory, remote, Options(name="home", **options), repair=repair)[0].count


def test_nothing_of_a_local_row_crosses_the_wire_in_either_direction(tap: Tap, here: Memory, there: Memory) -> None:
    secrets = Secrets()
    shared = here.remember("shared by this machine").uid
    for memory in (here, there):
        secrets.write(memory, visibility="local")
    quiet(tap.url, here)
    secrets.write(here, visibility="local")
    here.update(shared, content="shared and edited")
    quiet(tap.url, here)
    assert prove(here, tap) == 0
    # Whoever asks for a row by its id gets no other answer than for one that there never was.
    remote = Remote(tap.url, KEY)
    with contextlib.closing(remote):
        local = [row.uid for row in there.list() if row.visibility == "local"]
        assert remote.rows("0123456789abcdef", local, wanted(["*"], None, turns=True)).records == []
    secrets.words = [word for word in secrets.words if word not in local]
    secrets.assert_unread(tap, but="shared and edited")


def test_nothing_of_a_local_row_crosses_the_wire_when_a_server_is_healed(here: Memory, tmp_path: Path) -> None:
    secrets = Secrets()
    here.remember("shared by this machine")
    secrets.write(here, visibility="local")
    for name in ("first", "second"):
        # The second one knows nothing of the mark that the first one gave.
        emptied = Memory.open(tmp_path / name / "m.db", readable_themes="*")
        with in_thread(emptied, Limits()) as port, Tap(port) as tap:
            assert well(here, tap.url).healed == (name == "second")
            assert prove(here, tap, repair=True) == 0
            secrets.assert_unread(tap, but="shared by this machine")


def test_nothing_of_a_theme_that_is_left_out_crosses_the_wire(tap: Tap, here: Memory, there: Memory) -> None:
    secrets = Secrets()
    for memory in (here, there):
        for theme, subject in (("diary", ""), ("whatsapp-dm", "f" * 64)):
            secrets.write(Memory.open(memory.path, theme=theme, subject=subject), visibility="synced")
    here.remember("shared by this machine")
    asked = wanted(None, ["diary"], turns=False)
    for _ in range(3):
        well(here, tap.url, wanted=asked)
    assert prove(here, tap, wanted=asked) == 0
    secrets.assert_unread(tap, but="shared by this machine")


def test_a_row_that_becomes_local_is_forgotten_elsewhere_and_nothing_of_its_later_life_travels(
    tap: Tap, here: Memory, there: Memory
) -> None:
    secrets = Secrets()
    uid = here.remember("shared at first").uid
    quiet(tap.url, here)
    here.update(uid, visibility="local")
    quiet(tap.url, here)
    assert there.engine.store.state(uid, there.reach) == "forgotten"
    here.update(uid, content=secrets.word("edited in private"), tags=[secrets.word("tag")])
    quiet(tap.url, here)
    assert prove(here, tap) == 0
    here.update(uid, content="shared again", tags=[])
    here.update(uid, visibility="synced")
    quiet(tap.url, here)
    assert contents(there) == {"shared again": 1}
    here.forget(here.list()[0].uid)
    quiet(tap.url, here)
    assert contents(there) == {}
    secrets.assert_unread(tap, but="shared again")


def test_a_row_that_becomes_local_while_the_other_side_edits_it_is_forgotten_there_and_kept_here(
    tap: Tap, here: Memory, there: Memory
) -> None:
    uid = here.remember("shared at first").uid
    quiet(tap.url, here)
    here.update(uid, visibility="local")
    there.update(uid, content="edited there meanwhile")
    quiet(tap.url, here)
    assert here.list()[0].content == "shared at first"
    assert contents(there) == {}
    assert_same(here, there)


# -- keys ------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a name, which could be anybody's, be that of this machine."""
    resolve = socket.getaddrinfo

    def resolved(host: Any, *arguments: Any, **options: Any) -> Any:
        return resolve("127.0.0.1" if host == NAME else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


@pytest.mark.usefixtures("_resolving")
def test_over_clear_http_to_another_host_the_key_never_crosses_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOSYNE_SYNC_KEY", KEY)
    here = Store(tmp_path / "here.db")
    here.add("the cat is called Momo")
    with server(tmp_path / "there" / "m.db", "--allowed-host", NAME) as running, Tap(running.port) as tap:
        url = f"http://{NAME}:{tap.port}"
        done = here("sync", "--remote", url)
        assert (done.code, "in clear" in done.err) == (0, True)
        for more in ([], ["--verify"], ["--dry-run"]):
            assert here("sync", "--remote", url, *more).code == 0
        with mock.patch.dict("os.environ", MNEMOSYNE_SYNC_KEY="another-key-" + KEY):
            done = here("sync", "--remote", url)
            assert (done.code, "does not accept the key" in done.err) == (1, True)
        read = tap.read()
        assert here("sync", "--remote", tap.url).code == 0
        assert f"Bearer {KEY}".encode() in tap.read()
    assert b"the cat is called Momo" in read
    assert b"Authorization: Mnemosyne key=" in read
    assert b"authorization: bearer" not in read.lower()
    for spelled in (KEY.encode(), KEY.encode().hex().encode(), base64.b64encode(KEY.encode()).rstrip(b"=")[:-1]):
        assert spelled not in read


@pytest.mark.usefixtures("_resolving")
def test_signed_requests_that_were_overheard_open_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "here" / "m.db", readable_themes="*") as here:
        here.remember("the cat is called Momo")
        with server(tmp_path / "there" / "m.db", "--allowed-host", NAME) as running, Tap(running.port) as tap:
            well(here, f"http://{NAME}:{tap.port}")
            overheard = [one for method in ("GET", "POST") for one in tap.requests(method) if b"Authorization" in one]
            assert len(overheard) >= 3
            assert [replay(running.port, one) for one in overheard] == [401] * len(overheard)
