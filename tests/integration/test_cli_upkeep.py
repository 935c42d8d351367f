"""Stats, doctor, spool, reindex, install, quickstart and config from the command line; pipes and signals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_mnemosyne import Memory
from hermes_mnemosyne.clock import now_text, uuid7
from hermes_mnemosyne.doctor import examine
from hermes_mnemosyne.store.operations import AddEntry, MergeRecord, Operation
from hermes_mnemosyne.store.sqlite import upkeep
from tests.integration.command import COMMAND, Store, mnemosyne, process


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "m.db")
    made.add("something to begin with")
    return made


def queued(path: Path, *kinds: type[Operation]) -> list[str]:
    """Leave operations in the spool of a store, as a hook does that finds the file locked, and return their ids."""
    with Memory.open(path) as memory:
        ops: list[Operation] = [
            memory.make(AddEntry, uid=uuid7(), content=f"queued at {now_text()}")
            if kind is AddEntry
            else memory.make(MergeRecord, record={"type": "poem"})
            for kind in kinds
        ]
        memory.engine.spool.append(ops)
        return [op.op_id for op in ops]


def test_stats_count_and_are_ok(store: Store) -> None:
    figures = store("stats", "--json").json
    assert figures["ok"] is True
    assert figures["themes"]["hermes"] == {"entries": 1, "turns": 0}
    shown = store("stats").out
    assert str(store.path) in shown
    assert "hermes" in shown


def test_doctor_stores_recalls_forgets_and_leaves_nothing(store: Store) -> None:
    before = store("list", "--json").json
    report = store("doctor", "--json").json
    assert report["ok"] is True
    assert all(set(check) == {"name", "status", "detail", "remedy"} for check in report["checks"])
    statuses = {check["name"]: check["status"] for check in report["checks"]}
    for name in ("store", "round trip", "integrity", "erasure", "subject key", "spool", "modes", "settings"):
        assert statuses[name] == "ok", (name, report)
    assert statuses["vectors"] == "off"
    assert store("list", "--json").json == before
    assert "everything that must work works" in store("doctor").out


def rows_by_table(path: Path) -> dict[str, int]:
    tables = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow'"
    with contextlib.closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute(tables)]
        return {name: db.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}  # noqa: S608


# The number of the trial theme and the counters of erasure are made once, and stay.
ONCE = {"scopes", "meta"}


def test_ten_runs_of_doctor_leave_the_rows_of_the_file_as_before(store: Store) -> None:
    states = [rows_by_table(store.path)]
    for _ in range(10):
        with Memory.open(store.path) as memory:
            assert examine(memory).ok
        states.append(rows_by_table(store.path))
    assert {name: count for name, count in states[-1].items() if name not in ONCE} == {
        name: count for name, count in states[0].items() if name not in ONCE
    }
    assert states[-1] == states[1]


def test_doctor_says_what_is_open_to_others(store: Store) -> None:
    store.path.chmod(0o644)
    store.path.parent.chmod(0o755)
    checks = [check for check in store("doctor", "--json").json["checks"] if check["name"] == "modes"]
    assert {check["status"] for check in checks} == {"warn"}
    assert any("chmod" in check["remedy"] for check in checks)


@pytest.mark.parametrize("content", [b"junk" * 1000, b"SQLite format 3\0" + b"\x5a" * 8000])
def test_doctor_fails_on_a_file_that_is_no_store_and_still_reports(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(content)
    done = Store(path)("doctor", "--json")
    assert done.code == 1
    assert done.json["ok"] is False
    assert any(check["name"] == "store" and check["status"] == "fail" for check in done.json["checks"])
    assert path.read_bytes() == content


def test_doctor_finds_a_damaged_page(store: Store) -> None:
    lines = [json.dumps({"content": f"text number {number} " * 20}) for number in range(200)]
    store("import", "-", stdin="\n".join(lines).encode())
    data = bytearray(store.path.read_bytes())
    for start in range(4096 * 3, len(data), 4096):
        data[start : start + 64] = b"\xa5" * 64
    store.path.write_bytes(data)
    done = store("doctor", "--json")
    assert done.code == 1
    assert done.json["ok"] is False


def test_a_changed_subject_key_is_repair_work(store: Store) -> None:
    store("doctor")
    key = store.path.with_suffix(".key")
    key.write_bytes(os.urandom(32))
    done = store("doctor", "--json")
    assert done.code == 1
    assert [check["status"] for check in done.json["checks"] if check["name"] == "subject key"] == ["fail"]
    assert store("stats", "--json").json["ok"] is False


def test_what_waits_in_the_spool_is_shown_and_drained(store: Store) -> None:
    queued(store.path, AddEntry, AddEntry)
    done = store("spool", "drain", "--json")
    assert (done.code, done.json["applied"], done.json["left"]) == (0, 2, 0)
    assert store("spool", "--json").json["count"] == 0
    assert len(store("list", "--json").json["entries"]) == 3


def test_a_write_that_fails_is_quarantined_shown_retried_and_dropped(store: Store) -> None:
    [failing] = queued(store.path, MergeRecord)
    store("spool", "drain")
    assert store("spool", "status", "--json").json["quarantined"] == 1
    [row] = store("spool", "quarantine", "--json").json["quarantine"]
    assert row["op_id"] == failing
    assert row["operation"] == "MergeRecord"
    assert failing in store("spool", "quarantine", "list").out
    assert store("doctor").code == 1
    assert store("spool", "quarantine", "retry", "--json").json == {"requeued": 1}
    assert store("spool", "drain").code == 3
    assert store("spool", "quarantine", "drop", "unknown").code == 1
    assert store("spool", "quarantine", "drop", failing).code == 0
    assert "empty" in store("spool", "quarantine").out
    assert store("doctor").code == 0


def test_reindex_keeps_everything_findable(store: Store) -> None:
    assert store("reindex", "--json").json == {"reindexed": 1}
    assert len(store.found("begin")) == 1


def test_the_effective_settings_name_their_places(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.path.with_name("mnemosyne.yaml").write_text("turn_min_chars: 12\n", encoding="utf-8")
    monkeypatch.setenv("MNEMOSYNE_THEME", "work")
    shown = store("config", "show", "--json").json
    assert shown["db"] == str(store.path)
    assert shown["settings"]["turn_min_chars"]["value"] == 12
    assert shown["settings"]["theme"] == {"value": "work", "source": "environment MNEMOSYNE_THEME"}
    assert "prefetch_limit" not in shown["settings"]
    assert "prefetch_limit" in store("config", "show", "--effective", "--json").json["settings"]
    assert "mnemosyne.yaml" in store("config").out
    store.add("for work")
    assert [entry["theme"] for entry in store("list", "--json").json["entries"]] == ["work", "hermes"]


@pytest.mark.parametrize("text", ["turn_min_char: 12\n", "turn_min_chars: many\n", "]:", "- a\n"])
def test_a_wrong_configuration_is_a_usage_error_for_every_command(store: Store, tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text, encoding="utf-8")
    for command in (("recall", "x"), ("remember", "x"), ("config", "show")):
        done = store(*command, "--config", str(file))
        assert done.code == 2
        assert str(file) in done.err


def test_a_password_in_the_settings_is_not_shown() -> None:
    done = mnemosyne("config", "show", "--db", "postgresql://ada:hunter2hunter2@db.example.org/memories", "--json")
    assert "hunter2hunter2" not in done.out + done.err


def test_quickstart_works_on_a_bare_machine_and_adds_nothing_the_second_time(home: Path) -> None:
    first, second = mnemosyne("quickstart"), mnemosyne("quickstart")
    assert (first.code, second.code) == (0, 0)
    assert str(home) in first.out
    assert "sample" in first.out
    assert "mnemosyne" in first.out.splitlines()[-1]
    stored = mnemosyne("list", "--json").json["entries"]
    assert {entry["theme"] for entry in stored} == {"quickstart"}
    again = mnemosyne("quickstart", "--json").json
    assert (again["ok"], again["remembered"]["status"]) == (True, "exists")
    assert mnemosyne("list", "--json").json["entries"] == stored


def test_quickstart_mirrors_the_notes_of_hermes(home: Path) -> None:
    notes = home / ".hermes" / "memories"
    notes.mkdir(parents=True)
    (notes / "MEMORY.md").write_text("The printer is called Bertha\n§\nDeploy on Tuesdays\n", encoding="utf-8")
    (notes / "USER.md").write_text("Ada likes tea", encoding="utf-8")
    for _ in range(2):
        assert mnemosyne("quickstart").code == 0
    entries = mnemosyne("list", "--json", "--theme", "hermes").json["entries"]
    assert {(entry["content"], entry["target"]) for entry in entries} == {
        ("The printer is called Bertha", "memory"), ("Deploy on Tuesdays", "memory"), ("Ada likes tea", "user"),
    }  # fmt: skip
    assert {origin["kind"] for entry in entries for origin in entry["origins"]} == {"file"}
    assert (home / ".hermes" / "mnemosyne" / "mnemosyne.db").exists()


def test_install_writes_checks_and_removes(tmp_path: Path) -> None:
    made = tmp_path / "hermes"
    assert mnemosyne("install", "--hermes-home", str(made)).code == 2
    made.mkdir()
    done = mnemosyne("install", "--hermes-home", str(made), "--json")
    assert done.json["action"] == "installed"
    assert (made / "plugins" / "mnemosyne" / "plugin.yaml").exists()
    assert any("hermes memory setup mnemosyne" in step for step in done.json["next_steps"])
    assert "up to date" in mnemosyne("install", "--hermes-home", str(made)).out
    assert mnemosyne("install", "--hermes-home", str(made), "--remove", "--json").json["action"] == "removed"
    assert not (made / "plugins" / "mnemosyne").exists()


def test_install_leaves_a_foreign_plugin_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "plugins" / "mnemosyne"
    foreign.mkdir(parents=True)
    (foreign / "__init__.py").write_text("# somebody else's\n", encoding="utf-8")
    done = mnemosyne("install", "--hermes-home", str(tmp_path))
    assert done.code == 1
    assert "--force" in done.err
    assert (foreign / "__init__.py").exists()


# -- processes -------------------------------------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_gets_no_complaint(store: Store, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"content": f"number {number} " + "x" * 200}) + "\n" for number in range(2000))
    (tmp_path / "many.jsonl").write_text(lines, encoding="utf-8")
    store("import", str(tmp_path / "many.jsonl"))
    running = subprocess.Popen(
        [*COMMAND, "list", "--limit", "5000", "--db", str(store.path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(timeout=30) == 141
    running.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output_is_one_line(store: Store) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "list", "--db", str(store.path)], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.startswith(b"mnemosyne: ")


def test_an_interrupt_ends_with_130_and_one_line(store: Store) -> None:
    running = subprocess.Popen(
        [*COMMAND, "import", "-", "--db", str(store.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdin is not None
    # Two batches: once their first rows are there, the command waits for more input.
    running.stdin.write(b"".join(b'{"content": "row %d"}\n' % number for number in range(2000)))
    running.stdin.flush()
    while len(store("list", "--json").json["entries"]) < 10:
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert err.count(b"\n") == 1


def test_the_module_and_the_version_run_as_processes() -> None:
    done = process("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(b"mnemosyne ")
    assert process("recall", "--help").returncode == 0
    assert process().returncode == 2


def test_a_recall_loads_nothing_that_it_does_not_need(store: Store) -> None:
    program = (
        "import sys\nfrom hermes_mnemosyne.cli import main\n"
        f"code = main(['recall', 'begin', '--db', {str(store.path)!r}])\n"
        "unwanted = {'urllib3', 'yaml', 'ruamel', 'numpy', 'asyncio', 'importlib.metadata', 'subprocess', 'http', 'email'}\n"
        "print(code, sorted(unwanted & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_doctor_tells_when_a_large_file_is_yet_to_be_written_anew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "COMPACTED_BYTES", 0)
    with Memory.open(store.path, theme="t") as memory:
        memory.forget(memory.remember("soon gone").uid)
        [found] = [check for check in examine(memory).checks if check.name == "erasure"]
        assert (found.status, found.remedy.split(",")[0]) == ("warn", "mnemosyne reindex")
        memory.engine.store.reindex()
        assert not memory.engine.store.stats()["compaction_due"]
