"""Import and export from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integration.command import COMMAND, Store, process

ANY_TEXT = st.text(
    st.characters(codec=None, categories=None, exclude_categories=()) | st.sampled_from("\x00\x1b\ud83c\udcff\u4e2d\u2028\r\n")
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "m.db")


@pytest.fixture
def filled(store: Store) -> Store:
    uid = store.add("The build server is 10.0.0.4", "--tag", "infra", "--theme", "work", "--meta", "n=1")
    store.add("Ünïcode 中文 \u2028 line separator", "--target", "user", "--pin", "--valid-until", "2999-01-01")
    store("edit", uid, "The build server is 10.0.0.5")
    store("retire", store.add("retired note"))
    store("forget", store.add("forgotten note"))
    store.add("newer", "--supersedes", store.add("older"))
    return store


def test_an_export_imported_into_an_empty_store_exports_the_same_bytes(filled: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other" / "m.db")
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    assert filled("export", str(first)).code == 0
    assert other("import", str(first)).code == 0
    assert other("export", str(second)).code == 0
    assert second.read_bytes() == first.read_bytes()
    assert "forgotten note" not in first.read_text(encoding="utf-8")


def test_an_import_into_the_same_store_and_again_adds_nothing(filled: Store, tmp_path: Path) -> None:
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    filled("export", str(first))
    for _ in range(2):
        done = filled("import", str(first), "--json")
        assert done.code == 0
        assert "added" not in done.json["counts"]
    filled("export", str(second))
    assert second.read_bytes() == first.read_bytes()


def test_an_export_is_the_same_on_standard_output_and_in_a_pipe(filled: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    filled("export", str(path))
    assert filled("export").out.encode() == path.read_bytes()
    piped = process("export", "--db", str(filled.path), environ={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert piped.stdout == path.read_bytes()
    other = tmp_path / "other.db"
    assert process("import", "-", "--db", str(other), stdin=piped.stdout).returncode == 0
    assert Store(other)("export").out.encode() == path.read_bytes()


def test_an_export_file_is_closed_to_others_and_replaced_as_a_whole(filled: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o644)
    done = filled("export", str(path), "--json")
    assert done.json == {"file": str(path), "records": len(path.read_text(encoding="utf-8").split("\n")) - 1}
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.glob(".x.jsonl*")) == []


def test_an_export_that_fails_leaves_the_old_file(filled: Store, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "such" / "x.jsonl"
    assert filled("export", str(missing)).code == 1
    before = filled.path.read_bytes()
    assert filled("export", str(filled.path)).code == 2
    assert filled.path.read_bytes() == before


def test_an_export_may_go_to_a_device(filled: Store) -> None:
    assert filled("export", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


def test_a_theme_narrows_an_export(filled: Store) -> None:
    records = [json.loads(line) for line in filled("export", "--theme", "work").out.splitlines()]
    assert records
    assert {record["theme"] for record in records} == {"work"}


@pytest.mark.parametrize(("name", "target"), [("MEMORY.md", "memory"), ("USER.md", "user"), ("notes.md", "memory")])
def test_memory_files_of_the_host_are_imported_by_their_names(store: Store, tmp_path: Path, name: str, target: str) -> None:
    file = tmp_path / name
    file.write_bytes("\ufeffLikes tea\r\n§\r\nTwo\nlines\n§\n\n§\nLikes tea\n".encode())
    assert store("import", str(file), "--json").json["counts"] == {"added": 2}
    assert store("import", str(file), "--json").json["counts"] == {"exists": 2}
    entries = store("list", "--json").json["entries"]
    assert {(entry["content"], entry["target"]) for entry in entries} == {("Likes tea", target), ("Two\nlines", target)}
    assert entries[0]["origins"] == [{"kind": "import", "place": name}]


def test_a_forgotten_text_does_not_come_back_by_an_import(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "MEMORY.md"
    file.write_text("the secret place\n§\nthe open place", encoding="utf-8")
    store("import", str(file))
    store("forget", *store.found("secret"))
    done = store("import", str(file), "--json")
    assert (done.code, done.json["counts"]) == (0, {"exists": 1, "refused": 1})
    assert store.found("secret") == []


def test_simple_objects_are_imported_with_their_fields(store: Store) -> None:
    lines = [
        {"content": "a", "target": "user", "tags": ["x"], "importance": 0.9, "pinned": True, "theme": "Work", "metadata": {"k": [1]}},
        {"memory": "b", "unknown": 1}, {"text": "c", "content": None, "occurred_at": "2026-01-02", "valid_until": None},
    ]  # fmt: skip
    done = store("import", "-", "--theme", "other", stdin="\n\n".join(map(json.dumps, lines)).encode())
    assert done.code == 0
    entries = {entry["content"]: entry for entry in store("list", "--json").json["entries"]}
    assert (entries["a"]["target"], entries["a"]["tags"], entries["a"]["pinned"], entries["a"]["theme"]) == (
        "user",
        ["x"],
        True,
        "work",
    )
    assert (entries["b"]["theme"], entries["c"]["theme"]) == ("other", "other")


def test_malformed_lines_are_reported_by_number_and_the_rest_goes_on(store: Store) -> None:
    lines = [
        b'{"content": "good one"}', b"", b"{broken", b"[1]", b'{"content": ""}', b'{"nothing": 1}', b'{"type": "poem"}',
        b'{"content": "x", "importance": 7}', b'{"type": "entry", "uid": 5}', b'{"content": NaN}', b"[" * 100_000, b"\xff\xfe\x00",
        b'{"content": "good two"}', b'{"content": "x", "theme": 5}', b'{"content": "x", "theme": "whatsapp-dm"}', b"5",
    ]  # fmt: skip
    done = store("import", "-", "--json", stdin=b"\n".join(lines))
    assert done.code == 3
    assert [problem["line"] for problem in done.json["problems"]] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16]
    assert (done.json["read"], done.json["failed"], done.json["counts"]) == (15, 13, {"added": 2})
    assert [line.split(":")[1] for line in done.err.splitlines()][:2] == [" line 3", " line 4"]
    assert len(store("list", "--json").json["entries"]) == 2


@given(line=st.binary(max_size=80) | JSON_VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_line_breaks_an_import(tmp_path_factory: pytest.TempPathFactory, line: bytes) -> None:
    store = Store(tmp_path_factory.mktemp("any") / "m.db")
    done = store("import", "-", stdin=line + b'\n{"content": "last"}')
    assert done.code in {0, 3}
    assert store.found("last")


FIELDS = (
    "uid", "theme", "subject", "target", "content", "tags", "importance", "pinned", "valid_until", "occurred_at", "occurred_offset",
    "superseded_by", "visibility", "origins", "session_id", "metadata", "created_at", "updated_at", "seq", "clock",
)  # fmt: skip

TIMES = st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z", fullmatch=True)


@given(field=st.sampled_from(FIELDS), value=JSON_VALUES | TIMES)
def test_no_value_in_an_export_record_breaks_an_import_or_the_store(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: object
) -> None:
    place = tmp_path_factory.mktemp("any")
    source, store = Store(place / "source.db"), Store(place / "m.db")
    source.add("from elsewhere")
    record = {**json.loads(source("export").out), field: value}
    done = store("import", "-", stdin=json.dumps(record).encode() + b'\n{"content": "last"}')
    assert done.code in {0, 3}
    assert store.found("last")
    assert store("list").code == 0
    exported = store("export")
    assert exported.code == 0
    other = Store(place / "other.db")
    assert other("import", "-", stdin=exported.out.encode()).code == 0
    assert other("export").out == exported.out


@pytest.mark.parametrize("field", ["created_at", "updated_at", "occurred_at", "valid_until"])
@pytest.mark.parametrize("day", ["2026-99-99", "0000-01-01", "0001-01-01", "2026-02-30", "9999-12-31"])
def test_no_day_of_an_imported_record_breaks_a_recall(store: Store, tmp_path: Path, field: str, day: str) -> None:
    source = Store(tmp_path / "source.db")
    source.add("from elsewhere")
    record = {**json.loads(source("export").out), field: f"{day}T23:59:59.999999Z"}
    assert store("import", "-", stdin=json.dumps(record).encode() + b'\n{"content": "from here"}').code in {0, 3}
    for command in (("recall", "elsewhere"), ("recall", "from", "--expired", "--explain"), ("list",), ("export",), ("doctor",)):
        assert store(*command).code == 0


@pytest.mark.parametrize("name", ["/nonexistent/file.jsonl", "/", "/dev/null/x"])
def test_a_file_that_cannot_be_read_is_an_error_in_one_line(store: Store, name: str) -> None:
    done = store("import", name)
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert name in done.err


def test_an_import_that_was_killed_can_be_repeated(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text("".join(f'{{"content": "memory number {number}"}}\n' for number in range(2000)), encoding="utf-8")
    reader, writer = os.pipe()
    os.write(writer, b"\n".join(file.read_bytes().splitlines()[:1000]) + b"\n")
    killed = subprocess.Popen([*COMMAND, "import", "-", "--db", str(store.path)], stdin=reader)
    os.close(reader)
    # The first batches are acknowledged by their being there; then the process dies in the middle of its input.
    while not (store.path.exists() and process("list", "--db", str(store.path)).stdout):
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.wait(timeout=30)
    os.close(writer)
    assert store("import", str(file)).code == 0
    assert store("import", str(file), "--json").json["counts"] == {"exists": 2000}
    assert len(store("list", "--limit", "5000", "--json").json["entries"]) == 2000
    assert store("doctor").code == 0
