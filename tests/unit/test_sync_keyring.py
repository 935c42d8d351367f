"""The file of named keys: what it holds, who is let in, and that nobody is by accident."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import InvalidInput, MnemosyneError, NotFound
from hermes_mnemosyne.sync import keyring as module
from hermes_mnemosyne.sync.keyring import Grant, Keyring, NamedKey
from hermes_mnemosyne.sync.signing import Signed, body_digest, derive, key_id, sign, verify

NOBODY = hashlib.sha256(b"nobody").hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


@pytest.fixture
def keyring(path: Path) -> Keyring:
    return Keyring(path)


def names(keyring: Keyring) -> list[str]:
    known = keyring.keys()
    return [key.name for key in known]


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Write the file anew with something in it changed."""
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))


def refused(keyring: Keyring) -> str:
    """Return the reason for which every question and every change is an error."""
    reasons = set()
    for ask in (
        keyring.keys,
        lambda: keyring.check_bearer("x"),
        lambda: keyring.find("0" * 16),
        lambda: keyring.revoke("a"),
        lambda: keyring.add("new"),
    ):
        with pytest.raises(MnemosyneError) as raised:
            ask()
        assert type(raised.value).__name__ == "ConfigError"
        reasons.add(str(raised.value))
    return max(reasons, key=len)


# -- who is let in ---------------------------------------------------------------------------------------------------------------


def test_a_new_key_is_let_in_with_its_rights_and_nobody_else(keyring: Keyring) -> None:
    full = keyring.add("laptop")
    reader = keyring.add("dashboard", rights=["read"], themes=["Work", " home "])
    writer = keyring.add("sensor", rights=["write"])
    assert len({full, reader, writer}) == 3
    assert keyring.check_bearer(full) == Grant("laptop", read=True, write=True, themes=None)
    assert keyring.check_bearer(reader) == Grant("dashboard", read=True, write=False, themes=frozenset({"work", "home"}))
    assert keyring.check_bearer(writer) == Grant("sensor", read=False, write=True, themes=None)
    for wrong in ("", full[:-1], full + "x", full.upper(), "\u732b", "\ud800", key_id(full), "laptop"):
        assert keyring.check_bearer(wrong) is None


def test_a_signed_request_is_verified_with_what_the_file_keeps(keyring: Keyring, path: Path) -> None:
    key = keyring.add("laptop")
    known = Keyring(path).find(key_id(key))
    assert known is not None
    assert known.signing == derive(key)
    digest = body_digest(b"")
    assert verify(known.signing, Signed(known.signing.id, "n", sign(key, "GET", "/", digest, "n")), "GET", "/", digest)
    assert keyring.find("0" * 16) is None
    assert keyring.find("") is None


def test_a_revoked_key_is_refused_at_once_by_whoever_has_the_file_open(keyring: Keyring, path: Path) -> None:
    server = Keyring(path)
    key, other = keyring.add("laptop"), keyring.add("tower")
    assert server.check_bearer(key) is not None
    assert keyring.revoke("laptop").name == "laptop"
    assert server.check_bearer(key) is None
    assert server.find(key_id(key)) is None
    assert server.check_bearer(other) is not None
    again = keyring.add("laptop")
    assert server.check_bearer(again) is not None
    assert server.check_bearer(key) is None


def test_a_file_without_keys_lets_nobody_in(keyring: Keyring) -> None:
    key = keyring.add("laptop")
    keyring.revoke("laptop")
    assert keyring.keys() == ()
    assert keyring.check_bearer(key) is None
    assert keyring.check_bearer("") is None


def test_every_key_is_compared_whichever_it_is(keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [keyring.add(name) for name in ("a", "b", "c")]
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counted(left: Any, right: Any) -> bool:
        compared.append((len(left), len(right)))
        return compare(left, right)

    monkeypatch.setattr(module.hmac, "compare_digest", counted)
    for key in (*keys, "wrong", ""):
        keyring.check_bearer(key)
    assert compared == [(64, 64)] * 15


def test_keys_are_listed_by_name_without_what_lets_in(keyring: Keyring) -> None:
    key = keyring.add("b", themes=["y", "x"])
    keyring.add("a", rights=["read"])
    listed = list(map(NamedKey.shown, keyring.keys()))
    assert [one["name"] for one in listed] == ["a", "b"]
    assert listed[1] == {
        "name": "b",
        "id": key_id(key),
        "rights": ["read", "write"],
        "themes": ["x", "y"],
        "created_at": listed[1]["created_at"],
    }
    assert derive(key).request.hex() not in repr(keyring.keys())
    assert repr(derive(key).request) not in repr(keyring.keys())


# -- names and rights ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "Laptop-1", "ada@tower.example", "m\u00fcller", "\u732b", "a" * 64, "1_2.3+4"])
def test_names_of_machines_and_people_are_taken(keyring: Keyring, name: str) -> None:
    key = keyring.add(name)
    assert keyring.check_bearer(key) is not None
    assert keyring.revoke(name).name == name


def test_a_name_is_the_same_however_its_accents_are_written(keyring: Keyring) -> None:
    keyring.add("mu\u0308ller")
    with pytest.raises(InvalidInput):
        keyring.add("m\u00fcller")
    keyring.revoke("mu\u0308ller")


@pytest.mark.parametrize(
    "name", ["", " ", "two words", "-x", ".x", "_x", "a/b", "a\n", "\x1b[0m", "\ud800", "a" * 65, "a\0", "\u202ea"]
)
def test_what_is_no_name_is_refused_and_no_file_made(keyring: Keyring, path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        keyring.add(name)
    assert not path.exists()


def test_a_name_that_is_taken_is_refused_and_its_key_stays(keyring: Keyring) -> None:
    key = keyring.add("laptop")
    with pytest.raises(InvalidInput, match="revoke it first"):
        keyring.add("laptop", rights=["read"])
    assert keyring.check_bearer(key) == Grant("laptop", read=True, write=True, themes=None)


@pytest.mark.parametrize("rights", [[], ["admin"], ["read", "admin"], "read"])
def test_unknown_or_no_rights_are_refused(keyring: Keyring, path: Path, rights: Any) -> None:
    with pytest.raises(InvalidInput):
        keyring.add("laptop", rights=rights)
    assert not path.exists()


@pytest.mark.parametrize("themes", [[], [""], ["work", " "], ["\n"]])
def test_no_theme_and_blank_themes_are_refused(keyring: Keyring, path: Path, themes: list[str]) -> None:
    with pytest.raises(InvalidInput):
        keyring.add("laptop", themes=themes)
    assert not path.exists()


def test_revoking_what_is_not_there_says_so(keyring: Keyring) -> None:
    keyring.add("laptop")
    for name in ("tower", "", "\ud800", "LAPTOP"):
        with pytest.raises(NotFound):
            keyring.revoke(name)
    assert len(keyring.keys()) == 1


# -- the file --------------------------------------------------------------------------------------------------------------------


def test_the_file_is_private_whole_and_holds_no_key(keyring: Keyring, path: Path) -> None:
    before = os.umask(0)
    try:
        keys = [keyring.add(name) for name in ("laptop", "tower")]
        keyring.revoke("tower")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["keys.json"]
    content = path.read_text()
    assert not any(key in content or key.removeprefix("mnk_") in content for key in keys)
    assert json.loads(content)["format"] == 1


def test_missing_directories_are_made_private(tmp_path: Path) -> None:
    Keyring(tmp_path / "new" / "deep" / "keys.json").add("laptop")
    assert (tmp_path / "new" / "deep").stat().st_mode & 0o777 == 0o700


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "keys")
    keyring = Keyring(tmp_path / "link")
    keyring.add("laptop")
    assert (tmp_path / "link").is_symlink()
    assert len(Keyring(tmp_path / "real" / "keys").keys()) == 1
    (tmp_path / "real" / "keys").chmod(0o644)
    assert "chmod 600" in refused(keyring)


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
def test_what_the_superuser_writes_belongs_to_the_owner_of_the_place(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 2345)
    keyring = Keyring(tmp_path / "keys.json")
    keyring.add("laptop")
    info = keyring.path.stat()
    assert (info.st_uid, info.st_gid, info.st_mode & 0o777) == (1234, 2345, 0o600)
    os.chown(keyring.path, 1235, 2345)
    keyring.add("tower")
    assert keyring.path.stat().st_uid == 1235


def test_a_file_that_is_not_there_is_an_error_and_no_empty_one(keyring: Keyring, path: Path) -> None:
    for ask in (keyring.keys, lambda: keyring.check_bearer("x"), lambda: keyring.find("0" * 16)):
        with pytest.raises(MnemosyneError, match="there is no file of keys"):
            ask()
    with pytest.raises(NotFound):
        keyring.revoke("laptop")
    assert not path.exists()


def test_a_file_that_goes_or_is_damaged_while_a_server_runs_lets_nobody_in_until_it_is_back(keyring: Keyring, path: Path) -> None:
    key = keyring.add("laptop")
    good = path.read_bytes()
    assert keyring.check_bearer(key) is not None
    for harm in (path.unlink, lambda: path.write_bytes(good[:-10]), lambda: path.write_bytes(b""), lambda: path.chmod(0o644)):
        harm()
        for _ in range(2):
            with pytest.raises(MnemosyneError):
                keyring.check_bearer(key)
            with pytest.raises(MnemosyneError):
                keyring.find(key_id(key))
        path.unlink(missing_ok=True)
        path.write_bytes(good)
        path.chmod(0o600)
        assert keyring.check_bearer(key) is not None


def test_a_file_that_is_cut_off_at_any_byte_is_an_error(keyring: Keyring, path: Path) -> None:
    keyring.add("laptop", themes=["work"])
    good = path.read_bytes()
    for length in range(len(good) - 1):  # all but the last line end
        path.write_bytes(good[:length])
        with pytest.raises(MnemosyneError) as raised:
            keyring.keys()
        assert "damaged" in str(raised.value) or "another release" in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.update(format=2),
        lambda file: file.update(format="1"),
        lambda file: file.pop("format"),
        lambda file: file.pop("keys"),
        lambda file: file.update(keys={}),
        lambda file: file.update(keys=None),
        lambda file: file.update(more=1),
        lambda file: file["keys"].append(None),
        lambda file: file["keys"].append({}),
        lambda file: file["keys"].append(file["keys"][0]),
        lambda file: file["keys"].append({**file["keys"][0], "name": "b"}),
        lambda file: file["keys"].append({**file["keys"][0], "id": "f" * 16}),
        lambda file: file["keys"][0].update(expires="2020"),
        lambda file: file["keys"][0].update(name=""),
        lambda file: file["keys"][0].update(name=1),
        lambda file: file["keys"][0].update(id="F" * 16),
        lambda file: file["keys"][0].update(id="f" * 16 + "\n"),
        lambda file: file["keys"][0].update(sha256=""),
        lambda file: file["keys"][0].update(sha256=None),
        lambda file: file["keys"][0].update(request="00"),
        lambda file: file["keys"][0].update(answer=[]),
        lambda file: file["keys"][0].update(rights=[]),
        lambda file: file["keys"][0].update(rights="read"),
        lambda file: file["keys"][0].update(rights=["read", "everything"]),
        lambda file: file["keys"][0].update(rights=[["read"]]),
        lambda file: file["keys"][0].update(rights=None),
        lambda file: file["keys"][0].update(themes=[]),
        lambda file: file["keys"][0].update(themes="work"),
        lambda file: file["keys"][0].update(themes=[None]),
        lambda file: file["keys"][0].update(themes=[["work"]]),
        lambda file: file["keys"][0].update(created_at=None),
        *[
            lambda file, name=name: file["keys"][0].pop(name)
            for name in ("name", "id", "sha256", "rights", "themes", "created_at")
        ],
    ],
)
def test_a_file_with_anything_in_it_that_is_not_understood_is_an_error(
    keyring: Keyring, path: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    key = keyring.add("a", rights=["read"])
    changed(path, change)
    content = path.read_bytes()
    assert key not in refused(keyring)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [b"[]", b"null", b"{", b"\xff", b"\x00" * 100, b"[" * 100_000, b'{"format":1,"format":1,"keys":[]}', b" " * 5_000_000],
)
def test_what_is_no_file_of_keys_is_an_error_and_left_alone(keyring: Keyring, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    refused(keyring)
    assert path.read_bytes() == content


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o601])
def test_a_file_that_is_open_to_others_is_an_error(keyring: Keyring, path: Path, mode: int) -> None:
    keyring.add("laptop")
    path.chmod(mode)
    assert f"chmod 600 {path}" in refused(keyring)


def test_systemd_may_hand_the_file_over(tmp_path: Path) -> None:
    key = Keyring(tmp_path / "keys.json").add("laptop")
    (tmp_path / "keys.json").chmod(0o440)
    assert Keyring(tmp_path / "keys.json", environ={"CREDENTIALS_DIRECTORY": str(tmp_path)}).check_bearer(key) is not None
    refused(Keyring(tmp_path / "keys.json", environ={}))


@pytest.mark.parametrize("name", ["directory", "file/keys.json", "nul\0", "n" * 300, "loop"])
def test_a_place_that_cannot_hold_a_file_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    keyring = Keyring(tmp_path / name)
    for ask in (keyring.keys, lambda: keyring.check_bearer("x"), lambda: keyring.find("0" * 16), lambda: keyring.add("new")):
        with pytest.raises(MnemosyneError) as raised:
            ask()
        assert type(raised.value).__name__ == "ConfigError"


def test_a_write_that_fails_leaves_the_file_as_it_was(keyring: Keyring, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    key = keyring.add("laptop")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(MnemosyneError, match="make room"):
        keyring.add("tower")
    with pytest.raises(MnemosyneError, match="make room"):
        keyring.revoke("laptop")
    assert keyring.check_bearer(key) is not None
    assert [entry.name for entry in path.parent.iterdir()] == ["keys.json"]


# -- together --------------------------------------------------------------------------------------------------------------------

WORKER = """
import sys
from hermes_mnemosyne.sync.keyring import Keyring
keyring, me = Keyring(sys.argv[1]), sys.argv[2]
sys.stdin.readline()
for number in range(8):
    print(keyring.add(f"{me}-{number}"))
    if number % 2:
        keyring.revoke(f"{me}-{number}")
"""


def test_many_processes_add_and_revoke_and_no_change_is_lost(keyring: Keyring, path: Path) -> None:
    keyring.add("first")
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), f"w{n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    seen = 1
    while any(worker.poll() is None for worker in workers):
        keys = keyring.keys()  # never half a file
        assert any(key.name == "first" for key in keys)
        seen = max(seen, len(keys))
    keys = [line for worker in workers for line in worker.communicate()[0].split()]
    assert [worker.returncode for worker in workers] == [0] * 4
    assert set(names(keyring)) == {"first", *(f"w{n}-{number}" for n in range(4) for number in (0, 2, 4, 6))}
    assert len(keys) == 32
    assert sum(keyring.check_bearer(key) is not None for key in keys) == 16


def test_many_threads_share_one_keyring(keyring: Keyring) -> None:
    start, keys = threading.Barrier(8), []

    def add(number: int) -> None:
        start.wait()
        keys.append(keyring.add(f"t{number}"))
        assert keyring.check_bearer(keys[-1]) is not None

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keyring.keys()) == 8
    assert all(keyring.check_bearer(key) for key in keys)


def test_of_two_who_take_one_name_one_gets_it(path: Path) -> None:
    start, got = threading.Barrier(6), []

    def add() -> None:
        start.wait()
        try:
            got.append(Keyring(path).add("laptop"))
        except InvalidInput:
            got.append("")

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [key] = filter(None, got)
    assert Keyring(path).check_bearer(key) is not None
