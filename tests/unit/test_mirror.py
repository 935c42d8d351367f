"""The host's memory files: what counts as an entry, which files say nothing, and what an origin tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes_mnemosyne.keys import SubjectKey
from hermes_mnemosyne.mirror import MOST_BYTES, origin, parse, read


@pytest.fixture
def memories(home: Path) -> Path:
    directory = home / "memories"
    directory.mkdir()
    return directory


@pytest.fixture
def key(tmp_path: Path) -> SubjectKey:
    return SubjectKey(tmp_path / "subject.key")


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("one\n§\ntwo", ("one", "two")),
        ("  one \n§\n\n two\n\n", ("one", "two")),
        ("one\n§\n \t\n§\n\n§\ntwo", ("one", "two")),
        ("one\n§\ntwo\n§\none", ("one", "two")),
        ("a line\nand another\n§\ntwo", ("a line\nand another", "two")),
        ("see § 5 and §\n§\ntwo", ("see § 5 and §", "two")),
        ("\ufeffone\n§\ntwo", ("one", "two")),
        ("one\r\n§\r\ntwo\r\nlines\r\n", ("one", "two\nlines")),
        ("", ()),
        ("\ufeff\n\n", ()),
    ],
)
def test_entries_are_what_stands_between_lines_with_a_section_sign(text: str, entries: tuple[str, ...]) -> None:
    assert parse(text) == entries


def test_a_file_is_read_with_a_stamp_that_follows_its_content(home: Path, memories: Path) -> None:
    file = memories / "USER.md"
    file.write_text("one\n§\ntwo", encoding="utf-8")
    first = read(home, "user")
    assert first is not None
    assert first.lines == ("one", "two")
    os.utime(file, (1, 1))
    assert read(home, "user") == first
    file.write_text("one\n§\ntow", encoding="utf-8")
    os.utime(file, (1, 1))
    changed = read(home, "user")
    assert changed is not None
    assert changed.stamp != first.stamp


def test_a_missing_file_says_nothing(home: Path) -> None:
    assert read(home, "memory") is None


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b" \n\n", b"\n\xc2\xa7\n", b"one\n\xff\xfe", b"x" * (MOST_BYTES + 1)])
def test_a_file_without_a_readable_entry_says_nothing(home: Path, memories: Path, content: bytes) -> None:
    (memories / "MEMORY.md").write_bytes(content)
    assert read(home, "memory") is None


def test_something_that_is_no_file_says_nothing_and_keeps_nobody_waiting(home: Path, memories: Path) -> None:
    (memories / "MEMORY.md").mkdir()
    os.mkfifo(memories / "USER.md")
    assert read(home, "memory") is None
    assert read(home, "user") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_says_nothing(home: Path, memories: Path) -> None:
    file = memories / "MEMORY.md"
    file.write_text("one", encoding="utf-8")
    file.chmod(0)
    assert read(home, "memory") is None


def test_an_origin_is_stable_for_a_home_however_it_is_named_and_differs_between_homes_and_files(
    home: Path, key: SubjectKey, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(home)
    here = origin(home, "memory", key)
    assert here is not None
    assert {origin(link, "memory", key), origin(Path("~"), "memory", key), origin(home / ".." / home.name, "memory", key)} == {
        here
    }
    others = {origin(home, "user", key), origin(tmp_path, "memory", key), here}
    assert len(others) == 3


def test_an_origin_does_not_show_the_home(home: Path, key: SubjectKey) -> None:
    found = origin(home, "memory", key)
    assert found is not None
    assert found.kind == "file"
    assert found.place.endswith("MEMORY.md")
    assert home.name not in found.place


def test_without_a_key_there_is_no_origin(home: Path, tmp_path: Path) -> None:
    assert origin(home, "memory", SubjectKey(tmp_path / "absent.key", create=False)) is None


def test_a_home_whose_name_is_no_valid_text_has_an_origin_and_is_read(tmp_path: Path, key: SubjectKey) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    (odd / "memories").mkdir(parents=True)
    (odd / "memories" / "MEMORY.md").write_text("one", encoding="utf-8")
    assert origin(odd, "memory", key) is not None
    assert read(odd, "memory") is not None
