"""The subject key: one per store, private, and known by its check value."""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from pathlib import Path

import pytest

from hermes_mnemosyne.keys import SubjectKey


def test_the_file_is_made_at_first_need_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "subject.key"
    key = SubjectKey(path)
    assert not path.parent.exists()
    digest = key.digest("subject", "telegram", "dm", "1")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size == 32
    assert [entry.name for entry in path.parent.iterdir()] == ["subject.key"]
    assert SubjectKey(path).digest("subject", "telegram", "dm", "1") == digest
    assert SubjectKey(path).problems() == []


def test_digests_are_frozen(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_bytes(bytes(range(32)))
    path.chmod(0o600)
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in (b"subject", b"a", b"\xc3\xa9"))
    assert SubjectKey(path).digest("subject", "a", "\u00e9") == hmac.new(bytes(range(32)), framed, hashlib.sha256).hexdigest()


def test_parts_cannot_be_confused(tmp_path: Path) -> None:
    key = SubjectKey(tmp_path / "k")
    shapes = [("ab", "c"), ("a", "bc"), ("abc",), ("", "abc"), ("abc", ""), ("a", "b", "c")]
    assert len({key.digest("p", *parts) for parts in shapes} | {key.digest("pa", "bc")}) == len(shapes) + 1


def test_many_threads_and_objects_get_one_key(tmp_path: Path) -> None:
    path, found, start = tmp_path / "k", [], threading.Barrier(12)

    def ask() -> None:
        key = SubjectKey(path)
        start.wait()
        found.append(key.digest("x"))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    assert len(set(found)) == 1
    assert None not in found


def test_without_leave_to_make_one_there_is_none(tmp_path: Path) -> None:
    key = SubjectKey(tmp_path / "k", create=False)
    assert key.digest("x") is None
    assert key.check_value() is None
    assert not (tmp_path / "k").exists()
    assert key.load(create=True)
    assert key.digest("x") is not None


def test_a_store_that_expects_a_key_gets_no_other_one(tmp_path: Path) -> None:
    check = SubjectKey(tmp_path / "right").check_value()
    assert check is not None
    missing = SubjectKey(tmp_path / "missing", expected=check)
    assert missing.digest("x") is None
    assert not (tmp_path / "missing").exists()
    assert "copy it from the host" in missing.problems()[0]
    other = SubjectKey(tmp_path / "other")
    assert other.digest("x") is not None
    other.expect(check)
    assert other.digest("x") is None
    assert "not the one" in other.problems()[0]
    right = SubjectKey(tmp_path / "right", expected=check)
    assert right.digest("x") is not None
    assert right.problems() == []


@pytest.mark.parametrize("size", [0, 31, 33, 5000])
def test_a_damaged_key_is_reported_and_never_replaced(tmp_path: Path, size: int) -> None:
    path = tmp_path / "k"
    path.write_bytes(b"x" * size)
    path.chmod(0o600)
    key = SubjectKey(path)
    assert key.digest("x") is None
    assert path.stat().st_size == size
    assert f"has {size} bytes" in key.problems()[0]


def test_a_key_that_arrives_later_is_found(tmp_path: Path) -> None:
    key = SubjectKey(tmp_path / "k", create=False)
    assert key.digest("x") is None
    SubjectKey(tmp_path / "k").load()
    assert key.digest("x") is not None


def test_open_modes_and_odd_files_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "k"
    SubjectKey(path).load()
    path.chmod(0o644)
    assert "chmod 600" in SubjectKey(path).problems()[0]
    assert SubjectKey(path).digest("x") is not None
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert SubjectKey(pipe).digest("x") is None
    assert SubjectKey(tmp_path).digest("x") is None
    assert "no regular file" in SubjectKey(pipe).problems()[0]


def test_a_place_that_cannot_be_written_gives_no_key_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    key = SubjectKey(tmp_path / "file" / "k")
    assert key.digest("x") is None
    assert key.problems()
