"""The command `keys`: keys are shown once, listed without what lets in, and revoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_mnemosyne.sync.keyring import Grant, Keyring
from hermes_mnemosyne.sync.signing import key_id
from tests.integration.command import Result, Store, mnemosyne, process


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sync-keys.json"


@pytest.fixture
def keys(file: Path) -> Keys:
    return Keys(file)


class Keys:
    """The command on one file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, *arguments: str, terminal: bool = False) -> Result:
        return mnemosyne("keys", *arguments, "--keys-file", str(self.file), terminal=terminal)


def test_a_new_key_is_printed_alone_and_lets_in(keys: Keys, file: Path) -> None:
    done = keys("add", "laptop")
    assert (done.code, done.err) == (0, "")
    [key] = done.out.splitlines()
    assert Keyring(file).check_bearer(key) == Grant("laptop", read=True, write=True, themes=None)
    assert file.stat().st_mode & 0o777 == 0o600


def test_on_a_terminal_it_is_told_what_to_do_with_the_key(keys: Keys) -> None:
    lines = keys("add", "laptop", terminal=True).out.splitlines()
    assert len(lines) == 3
    assert "--api-key-file" in lines[2]


@pytest.mark.parametrize(
    ("options", "rights", "themes"),
    [
        ((), ["read", "write"], None),
        (("--read",), ["read"], None),
        (("--write",), ["write"], None),
        (("--read", "--write"), ["read", "write"], None),
        (("--theme", "Work"), ["read", "write"], ["work"]),
        (("--theme", "work", "--theme", "home", "--read"), ["read"], ["home", "work"]),
    ],
)
def test_rights_and_themes_are_those_asked_for(
    keys: Keys, options: tuple[str, ...], rights: list[str], themes: list[str] | None
) -> None:
    made = keys("add", "x", *options, "--json").json
    assert made["rights"] == rights
    assert made["themes"] == themes
    assert made["id"] == key_id(made["key"])
    assert made["file"] == str(keys.file)
    [listed] = keys("list", "--json").json["keys"]
    assert listed == {name: value for name, value in made.items() if name not in {"key", "file"}}


def test_a_theme_before_the_command_is_one_of_the_key(file: Path) -> None:
    made = mnemosyne("--theme", "work", "keys", "add", "x", "--keys-file", str(file), "--json").json
    assert made["themes"] == ["work"]


def test_keys_are_listed_without_what_lets_in(keys: Keys, file: Path) -> None:
    new = [keys("add", name, "--theme", "work").out.strip() for name in ("tower", "laptop")]
    for arguments in (("list",), ("list", "--json"), ()):
        done = keys(*arguments)
        assert done.code == 0
        assert not any(key in done.out for key in new)
    assert [line.split("  ")[0] for line in keys("list").out.splitlines()] == ["laptop", "tower"]
    assert keys("list", "--json").json["file"] == str(file)


def test_a_revoked_key_is_refused(keys: Keys, file: Path) -> None:
    key = keys("add", "laptop").out.strip()
    server = Keyring(file)
    assert server.check_bearer(key) is not None
    assert keys("revoke", "laptop").out == "revoked laptop\n"
    assert server.check_bearer(key) is None
    assert keys("revoke", "laptop").code == 1
    again = keys("add", "laptop", "--json").json
    assert keys("revoke", "laptop", "--json").json == {"name": "laptop", "id": again["id"], "status": "revoked"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("add",),
        ("revoke",),
        ("list", "laptop"),
        ("list", "--read"),
        ("revoke", "laptop", "--theme", "work"),
        ("revoke", "laptop", "--write"),
        ("add", "two words"),
        ("add", ""),
        ("add", "laptop"),
        ("add", "x", "--theme", " "),
        ("add", "x", "y"),
        ("change", "laptop"),
        ("add", "x", "--admin"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_changes_nothing(keys: Keys, file: Path, arguments: tuple[str, ...]) -> None:
    keys("add", "laptop")
    before = file.read_bytes()
    done = keys(*arguments)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert file.read_bytes() == before


def test_a_named_file_that_is_not_there_is_an_error_and_not_an_empty_list(keys: Keys, file: Path) -> None:
    assert keys("list").code == 2
    assert keys("revoke", "laptop").code == 1
    assert not file.exists()
    assert mnemosyne("keys", "list", "--keys-file", "").code == 2


@pytest.mark.parametrize("arguments", [("list",), ("add", "x"), ("revoke", "laptop")])
@pytest.mark.parametrize("harm", ["damaged", "open"])
def test_a_damaged_or_open_file_is_an_error_and_left_alone(keys: Keys, file: Path, arguments: tuple[str, ...], harm: str) -> None:
    keys("add", "laptop")
    if harm == "damaged":
        file.write_bytes(file.read_bytes()[:-20])
    else:
        file.chmod(0o644)
    before = file.read_bytes()
    done = keys(*arguments)
    assert (done.code, done.out) == (2, "")
    assert str(file) in done.err
    assert file.read_bytes() == before


def test_without_a_name_the_file_lies_beside_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.db")
    assert store("keys", "list", "--json").json == {"file": str(tmp_path / "m.keys.json"), "keys": []}
    assert "keys add NAME" in store("keys", "list", terminal=True).out
    assert list(tmp_path.iterdir()) == []
    key = store("keys", "add", "laptop").out.strip()
    assert [path.name for path in tmp_path.iterdir()] == ["m.keys.json"]
    assert Keyring(tmp_path / "m.keys.json").check_bearer(key) is not None


def test_the_file_of_the_default_store_and_of_a_postgres_have_places_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path / "data"))
    assert mnemosyne("keys", "--json").json["file"] == str(tmp_path / "data" / "mnemosyne.keys.json")
    of_postgres = mnemosyne("keys", "--json", "--dsn", "postgresql://u:hunter2@db/x").json["file"]
    assert of_postgres.endswith(".keys.json")
    assert "hunter2" not in of_postgres


def test_a_key_goes_through_a_pipe_into_a_file_that_a_client_takes(tmp_path: Path, file: Path) -> None:
    from hermes_mnemosyne.sync.secret import api_key

    done = process("keys", "add", "laptop", "--keys-file", str(file))
    assert (done.returncode, done.stderr) == (0, b"")
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_bytes(done.stdout)
    key = api_key(flag=secret, environ={})
    assert key is not None
    assert Keyring(file).check_bearer(key) is not None


def test_a_seal_key_and_the_names_of_a_theme_under_it(tmp_path: Path) -> None:
    first, second = (mnemosyne("keys", "seal-key", "--json").json for _ in range(2))
    path = tmp_path / "seal.key"
    path.touch(0o600)
    path.write_text(f"{first['key']}\n{second['key']}\n")
    names = mnemosyne("keys", "theme", "Work", "--seal-key-file", str(path), "--json").json
    assert [row["key"] for row in names] == [first["id"], second["id"]]
    assert mnemosyne("keys", "theme", "work", "--seal-key-file", str(path)).out.split() == [row["theme"] for row in names]
    assert "nobody can read" in mnemosyne("keys", "seal-key", terminal=True).out


@pytest.mark.parametrize("words", [("seal-key", "name"), ("seal-key", "--read"), ("theme",), ("theme", "work")])
def test_what_is_said_too_much_or_too_little_of_seal_keys_is_refused(words: tuple[str, ...]) -> None:
    done = mnemosyne("keys", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
