"""The command sync: exit codes, what it prints, status, watching, terminating."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.command import COMMAND, Store, mnemosyne
from tests.integration.sync_world import KEY, Server, server

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of this module; each has machines and themes of its own."""
    with server(tmp_path_factory.mktemp("server") / "m.db") as found:
        yield found


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def here(tmp_path: Path) -> Store:
    return Store(tmp_path / "here.db")


@pytest.fixture
def theme(tmp_path: Path) -> str:
    return tmp_path.name.lower()


def test_two_machines_have_the_same_memories_after_a_round_of_each(
    running: Server, here: Store, key: str, theme: str, tmp_path: Path
) -> None:
    there = Store(tmp_path / "there.db")
    uid = here.add("The cat is called Momo", "--theme", theme)
    done = here("sync", "--remote", running.url, "--api-key-file", key, "--include", theme, "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["ok"], done.json["pushed"], done.json["pulled"]) == (True, 1, 0)
    done = there("sync", "--remote", running.url, "--api-key-file", key, "--include", theme)
    assert (done.code, done.out.startswith(f"{running.url}: 1 came, 0 went in ")) == (0, True)
    assert there.found("Momo") == [uid]


def test_a_profile_remembers_its_server(running: Server, here: Store, key: str, theme: str) -> None:
    here.add("kept", "--theme", theme)
    arguments = ("--api-key-file", key, "--include", theme)
    assert here("sync", "--profile", "home", *arguments).code == 2
    assert here("sync", "--profile", "home", "--remote", running.url, *arguments).code == 0
    assert here("sync", "--profile", "home", *arguments).code == 0
    assert here("sync", "--profile", "home", *arguments, "--verify").code == 0
    [row] = here("sync", "status", "--json").json
    assert (row["remote"], row["url"], row["lag"], row["last_error"]) == ("home", running.url, 0, None)
    assert row["last_success"] == row["last_try"]
    here.add("waits", "--theme", theme)
    assert here("sync", "status", "--profile", "home", "--json").json[0]["lag"] == 1


def test_a_dry_run_says_what_would_travel_and_sends_nothing(running: Server, here: Store, key: str, theme: str) -> None:
    here.add("kept back", "--theme", theme)
    arguments = ("sync", "--remote", running.url, "--api-key-file", key, "--include", theme)
    done = here(*arguments, "--dry-run")
    assert (done.code, done.out) == (0, f"0 records would come\n1 records would go: {theme} 1\n")
    assert here("sync", "status").out.startswith("this store syncs with no server")
    done = here(*arguments, "--verify", "--json")
    assert (done.code, done.json["same"], done.json["different"], len(done.json["rows"])) == (1, False, 1, 1)
    assert here(*arguments, "--verify").code == 1
    done = here(*arguments, "--verify", "--repair", "--json")
    assert (done.code, done.json["same"]) == (0, True)


@pytest.mark.parametrize(
    "wrong",
    [
        ("sync",),
        ("sync", "--remote", "memory.example"),
        ("sync", "--remote", NOBODY, "--interval", "soon"),
        ("sync", "--remote", NOBODY, "--interval", "0"),
        ("sync", "--remote", NOBODY, "--repair"),
        ("sync", "--remote", NOBODY, "--watch", "--dry-run"),
        ("sync", "--remote", NOBODY, "--apikey-file", "x"),
        ("sync", "--remote", NOBODY, "--api-key-file", "/nowhere/key"),
        ("sync", "--remote", NOBODY, "--include", " "),
        ("sync", "--remote", NOBODY, "--profile", ""),
        ("--theme", "x", "sync", "--remote", NOBODY),
        ("sync", "status", "--profile", "unknown"),
    ],
)
def test_wrong_usage_is_told_in_one_line(here: Store, wrong: tuple[str, ...]) -> None:
    here.add("something")
    done = here(*wrong)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


def test_a_key_that_is_empty_is_an_error_and_never_no_key(here: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOSYNE_SYNC_KEY", "")
    assert here("sync", "--remote", NOBODY).code == 2


def test_a_wrong_key_and_a_server_that_is_away_fail_and_stand_in_the_status(
    running: Server, here: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOSYNE_SYNC_KEY", "another-key")
    done = here("sync", "--remote", running.url, "--json")
    assert (done.code, done.json["ok"]) == (1, False)
    assert "does not accept the key" in done.json["errors"][0]
    done = here("sync", "--remote", NOBODY, "--profile", "away")
    assert done.code == 1
    assert "cannot be reached" in done.err
    rows = here("sync", "status", "--json").json
    assert [row["last_success"] for row in rows] == [None, None]
    assert all(row["last_error"] for row in rows)
    report = here("doctor", "--json").json
    [check] = [check for check in report["checks"] if check["name"] == "sync" and "away" in check["detail"]]
    assert (check["status"], report["ok"]) == ("warn", True)
    assert here("stats", "--json").json["sync"]["away"]["last_error"]


def test_clear_http_to_another_host_comes_with_a_warning(here: Store) -> None:
    done = here("sync", "--remote", "http://host.invalid:8765", "--dry-run")
    assert done.code == 1
    assert "warning: http://host.invalid:8765 is reached in clear" in done.err


def test_where_a_database_must_exist_none_is_made(tmp_path: Path, home: Path) -> None:
    for arguments in (("--db", str(tmp_path / "new.db")), ()):
        done = mnemosyne(*arguments, "sync", "--remote", NOBODY, "--existing")
        assert (done.code, "there is no database" in done.err) == (1, True)
    assert not [path for path in (*tmp_path.rglob("*"), *home.rglob("*")) if path.suffix in {".db", ".lock"}]


def test_a_new_machine_begins_with_an_empty_database(running: Server, key: str, tmp_path: Path) -> None:
    done = mnemosyne(
        "--db", str(tmp_path / "new.db"), "sync", "--remote", running.url, "--api-key-file", key, "--include", "nothing"
    )
    assert done.code == 0


def test_inside_a_container_without_an_environment_the_file_of_the_agent_is_found(
    running: Server, key: str, theme: str, home: Path
) -> None:
    (home / ".hermes").mkdir()
    agent = Store(home / ".hermes" / "mnemosyne" / "mnemosyne.db")
    agent.path.parent.mkdir()
    assert mnemosyne("remember", "--theme", theme, "by the agent").code == 0
    assert agent.path.exists()
    done = mnemosyne("sync", "--existing", "--remote", running.url, "--api-key-file", key, "--include", theme, "--json")
    assert (done.code, done.json["pushed"]) == (0, 1)


def test_settings_name_the_server_the_key_and_the_themes(running: Server, here: Store, key: str, theme: str) -> None:
    here.add("kept", "--theme", theme)
    here.add("not asked for")
    (here.path.parent / "mnemosyne.yaml").write_text(
        f"sync:\n  remote: {running.url}\n  api_key_file: {key}\n  include: [{theme}]\n  turns: true\n"
    )
    done = here("sync", "--json")
    assert (done.code, done.json["pushed"]) == (0, 1)


@pytest.mark.parametrize("mode", [("--watch",), ("--interval", "1h")])
def test_a_command_that_stays_ends_in_order_when_terminated(
    running: Server, here: Store, key: str, theme: str, mode: tuple[str, ...]
) -> None:
    here.add("before", "--theme", theme)
    command = [
        *COMMAND, "--db", str(here.path), "sync", "--remote", running.url, "--api-key-file", key, "--include", theme, "--json", *mode,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["pushed"] == 1
        if mode == ("--watch",):
            here.add("meanwhile", "--theme", theme)
            assert json.loads(process.stdout.readline())["pushed"] == 1
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


# -- sealed ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def sealing(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A server of its own, and a seal key file."""
    path = tmp_path / "seal.key"
    path.touch(mode=0o600)
    path.write_text(mnemosyne("keys", "seal-key").out)
    with server(tmp_path / "sealed" / "m.db") as found:
        yield found, str(path)


def test_a_sealed_round_needs_the_key_ever_after(sealing: tuple[Server, str], here: Store, key: str, tmp_path: Path) -> None:
    running, seal = sealing
    there = Store(tmp_path / "there.db")
    uid = here.add("The cat is called Momo")
    clear = ("sync", "--remote", running.url, "--api-key-file", key)
    sealed = (*clear, "--seal-key-file", seal)
    assert here(*sealed, "--json").json["pushed"] == 1
    assert there(*sealed).code == 0
    assert there.found("Momo") == [uid]
    for store in (here, there, Store(tmp_path / "third.db")):
        done = store(*clear)
        assert (done.code, "--seal-key-file" in done.err, done.err.count("\n")) == (2, True, 1)
    assert here(*sealed, "--verify").code == 0
    assert here(*sealed, "--reseal", "--json").json["pushed"] == 1
    assert here(*sealed, "--dry-run", "--json").json["push"]["records"] == 0


def test_a_key_that_does_not_open_makes_a_round_partly_done(
    sealing: tuple[Server, str], here: Store, key: str, tmp_path: Path
) -> None:
    running, seal = sealing
    other = tmp_path / "other.key"
    other.touch(mode=0o600)
    other.write_text("ab" * 32)
    here.add("The cat is called Momo")
    arguments = ("sync", "--remote", running.url, "--api-key-file", key, "--seal-key-file")
    assert here(*arguments, seal).code == 0
    identity = mnemosyne("keys", "theme", "hermes", "--seal-key-file", seal, "--json").json[0]["key"]
    done = Store(tmp_path / "there.db")(*arguments, str(other))
    assert (done.code, f"the key {identity}" in done.err) == (3, True)


def test_wrong_uses_of_a_seal_key_are_told_in_a_line(here: Store, key: str, tmp_path: Path) -> None:
    arguments = ("sync", "--remote", NOBODY, "--api-key-file", key)
    for wrong in (("--reseal",), ("--seal-key-file", str(tmp_path / "none")), ("--seal-key-file", key), ("--seal-key-file", "")):
        done = here(*arguments, *wrong)
        assert (done.code, done.err.count("\n")) == (2, 1), wrong
    assert here("sync", "status", "--reseal").code == 2


def test_without_the_extra_a_line_names_it(here: Store, key: str, tmp_path: Path) -> None:
    seal = tmp_path / "seal.key"
    seal.touch(mode=0o600)
    seal.write_text("ab" * 32)
    hidden = tmp_path / "hidden" / "cryptography"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError")
    done = subprocess.run(
        [*COMMAND, "--db", str(here.path), "sync", "--remote", NOBODY, "--api-key-file", key, "--seal-key-file", str(seal)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(hidden.parent)},
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "hermes-mnemosyne[seal]" in done.stderr
