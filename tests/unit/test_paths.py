"""Where files lie, and who may read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes_mnemosyne import paths


def test_the_default_file_follows_the_documented_order(home: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(home)}
    assert paths.default_file(environ=environ) == home / ".local/share/mnemosyne/mnemosyne.db"
    used = tmp_path / "used.db"
    used.touch()
    assert paths.remember_last_used(used, environ)
    assert paths.default_file(environ=environ) == used
    (home / ".hermes").mkdir()
    assert paths.default_file(environ=environ) == home / ".hermes/mnemosyne/mnemosyne.db"
    environ["HERMES_HOME"] = str(tmp_path / "profile")
    assert paths.default_file(environ=environ) == tmp_path / "profile/mnemosyne/mnemosyne.db"
    assert paths.default_file(environ=environ, home=tmp_path / "given") == tmp_path / "given/mnemosyne/mnemosyne.db"
    environ["MNEMOSYNE_DATA_DIR"] = str(tmp_path / "data")
    assert paths.default_file(environ=environ, home=tmp_path / "given") == tmp_path / "data/mnemosyne.db"
    assert paths.default_file(environ=environ, data_dir=tmp_path / "flag") == tmp_path / "flag/mnemosyne.db"


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_variable_counts_as_unset(home: Path, empty: str) -> None:
    environ = dict.fromkeys(["MNEMOSYNE_DATA_DIR", "HERMES_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"], empty) | {"HOME": str(home)}
    assert paths.default_file(environ=environ) == home / ".local/share/mnemosyne/mnemosyne.db"


def test_xdg_directories_count_when_absolute(home: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(home), "XDG_DATA_HOME": str(tmp_path), "XDG_STATE_HOME": "relative/state"}
    assert paths.data_directory(environ) == tmp_path / "mnemosyne"
    assert paths.state_directory(environ) == home / ".local/state/mnemosyne"


def test_nothing_is_made_by_asking(home: Path) -> None:
    paths.default_file()
    paths.last_used()
    assert list(home.iterdir()) == []


def test_a_pointer_to_a_file_that_went_is_ignored(home: Path, tmp_path: Path) -> None:
    used = tmp_path / "used.db"
    used.touch()
    assert paths.remember_last_used(used)
    assert paths.last_used() == used
    used.unlink()
    assert paths.last_used() is None
    (home / ".local/state/mnemosyne/last-used").write_bytes(b"\xff\0nonsense")
    assert paths.last_used() is None


def test_a_pointer_that_cannot_be_left_is_no_error(home: Path, tmp_path: Path) -> None:
    (home / ".local").write_text("in the way")
    assert not paths.remember_last_used(tmp_path / "x.db")


def test_new_directories_and_files_are_private(tmp_path: Path) -> None:
    made = paths.secure_directory(tmp_path / "a" / "b")
    assert [stat.st_mode & 0o777 for stat in (made.stat(), made.parent.stat())] == [0o700, 0o700]
    file = paths.secure_file(made / "f")
    assert file.stat().st_mode & 0o777 == 0o600
    old = os.umask(0)
    try:
        assert paths.secure_directory(tmp_path / "c").stat().st_mode & 0o777 == 0o700
        assert paths.secure_file(tmp_path / "c" / "f").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)


def test_modes_that_somebody_chose_are_respected_except_for_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    assert paths.secure_directory(tmp_path).stat().st_mode & 0o7777 == 0o2770
    assert paths.secure_file(tmp_path / "shared").stat().st_mode & 0o777 == 0o660
    file = tmp_path / "old"
    file.write_text("kept")
    file.chmod(0o644)
    assert paths.mode_problems(file)
    assert paths.secure_file(file).stat().st_mode & 0o777 == 0o640
    assert file.read_text() == "kept"
    assert paths.mode_problems(file) == []
    assert paths.mode_problems(tmp_path / "absent") == []


def test_a_file_in_the_way_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(OSError, match="f"):
        paths.secure_directory(tmp_path / "f" / "sub")


def test_an_atomic_write_replaces_through_links_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target, link = tmp_path / "t", tmp_path / "l"
    target.write_text("old")
    link.symlink_to(target)
    paths.write_atomically(link, b"new", mode=0o640)
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["l", "t"]


MOUNTS = r"""22 1 0:21 / / rw - ext4 /dev/sda1 rw
23 22 0:22 / /net rw shared:1 - nfs4 server:/x rw,vers=4.2
24 23 0:23 / /net/local rw - xfs /dev/sdb1 rw
25 22 0:24 / /with\040blank rw - fuse.sshfs me@host:/ rw
26 22 0:25 / /mnt/c rw - 9p C:\134 rw,aname=drvfs;path=C:\;uid=0
27 22 0:26 / /sandbox rw - 9p none rw,trans=fd
28 22 0:27 / /over rw - fuse.fuse-overlayfs fuse-overlayfs rw
29 22 0:28 / /vm rw - virtiofs share rw
30 22 0:29 / /win rw - cifs //host/share rw
31 22 0:30 / /twice rw - nfs server:/y rw
32 31 0:31 / /twice rw - tmpfs tmpfs rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("/var/x.db", False),
        ("/net/x.db", True),
        ("/network/x.db", False),
        ("/net/local/x.db", False),
        ("/with blank/deep/x.db", True),
        ("/mnt/c/x.db", True),
        ("/sandbox/x.db", False),
        ("/over/x.db", False),
        ("/vm/x.db", False),
        ("/win", True),
        ("/twice/x.db", False),
    ],
)
def test_network_file_systems_are_known_by_the_mount_that_covers_a_path(tmp_path: Path, path: str, *, remote: bool) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    assert paths.is_network_filesystem(path, mountinfo=table) is remote


def test_where_the_system_does_not_say_a_file_system_counts_as_local(tmp_path: Path) -> None:
    assert not paths.is_network_filesystem(tmp_path, mountinfo=tmp_path / "absent")
