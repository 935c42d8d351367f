"""Where the API key comes from: one place, private, whole, and never "no key" by accident."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hermes_mnemosyne import MnemosyneError
from hermes_mnemosyne.sync.secret import MAX_KEY, api_key, read_private

KEY = "s3cret-Key/of+tests="


def written(path: Path, content: bytes | str = KEY + "\n", mode: int = 0o600) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def refusal(*, flag: str | Path | None = None, **environ: str) -> str:
    """Return why there is no key; it shows nothing of one."""
    with pytest.raises(MnemosyneError) as raised:
        api_key(flag=flag, environ=environ)
    assert type(raised.value).__name__ == "ConfigError"
    assert "s3cret" not in str(raised.value)
    return str(raised.value)


# -- places ----------------------------------------------------------------------------------------------------------------------


def test_without_any_place_there_is_no_key(tmp_path: Path) -> None:
    assert api_key(flag=None, environ={}) is None
    assert api_key(flag=None, environ={"CREDENTIALS_DIRECTORY": ""}) is None
    assert api_key(flag=None, environ={"CREDENTIALS_DIRECTORY": str(tmp_path)}) is None


def test_each_place_gives_the_key(tmp_path: Path, home: Path) -> None:
    path = written(tmp_path / "api-key")
    written(home / "mine")
    assert api_key(flag=path, environ={}) == KEY
    assert api_key(flag=str(path), environ={}) == KEY
    assert api_key(flag="~/mine", environ={}) == KEY
    assert api_key(flag=None, environ={"MNEMOSYNE_SYNC_KEY": KEY}) == KEY
    assert api_key(flag=None, environ={"MNEMOSYNE_SYNC_KEY_FILE": str(path)}) == KEY
    assert api_key(flag=None, environ={"MNEMOSYNE_SYNC_KEY_FILE": f"file:{path}"}) == KEY
    assert api_key(flag=None, environ={"CREDENTIALS_DIRECTORY": str(tmp_path)}) == KEY
    assert api_key(flag=None, environ={"CREDENTIALS_DIRECTORY": str(tmp_path)}, credential="other") is None


def test_two_places_are_an_error_even_where_they_agree_or_one_is_empty(tmp_path: Path) -> None:
    path = str(written(tmp_path / "k"))
    for value in (KEY, ""):
        assert "MNEMOSYNE_SYNC_KEY and MNEMOSYNE_SYNC_KEY_FILE" in refusal(MNEMOSYNE_SYNC_KEY=value, MNEMOSYNE_SYNC_KEY_FILE=path)
        assert "--api-key-file and MNEMOSYNE_SYNC_KEY" in refusal(flag=path, MNEMOSYNE_SYNC_KEY=value)
    assert "leave one out" in refusal(flag=path, MNEMOSYNE_SYNC_KEY_FILE=path)


def test_the_credential_is_asked_only_where_nothing_else_is_named(tmp_path: Path) -> None:
    written(tmp_path / "api-key", "of-systemd")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert api_key(flag=written(tmp_path / "named"), environ=environ) == KEY
    assert api_key(flag=None, environ={**environ, "MNEMOSYNE_SYNC_KEY": KEY}) == KEY
    assert "cannot be read" in refusal(flag=tmp_path / "missing", **environ)


# -- content ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_line_ends_after_the_key_are_dropped(tmp_path: Path, end: str) -> None:
    assert api_key(flag=written(tmp_path / "k", KEY + end), environ={}) == KEY
    assert api_key(flag=None, environ={"MNEMOSYNE_SYNC_KEY": KEY + end}) == KEY


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n", b"   \n", b"\t"])
def test_an_empty_key_is_an_error(tmp_path: Path, content: bytes) -> None:
    assert "empty" in refusal(flag=written(tmp_path / "k", content))
    assert "empty" in refusal(MNEMOSYNE_SYNC_KEY=content.decode())
    written(tmp_path / "api-key", content)
    assert "empty" in refusal(CREDENTIALS_DIRECTORY=str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        b"s3cret\ns3cret\n",
        b"\ns3cret",
        b"s3cret\rs3cret",
        b" s3cret",
        b"s3cret ",
        b"s3cret s3cret",
        b"s3cret\x00",
        b"s3cret\x1b[0m",
        b"s3cret\xc3\xa9",
        b"s3cret\xff",
        b"\xef\xbb\xbfs3cret",
        b"s3cret\x7f",
        b"s3cret" * MAX_KEY,
        b"s3cret" * 100_000,
    ],
    ids=lambda content: repr(content)[:30],
)
def test_what_is_no_key_on_one_line_is_an_error(tmp_path: Path, content: bytes) -> None:
    refusal(flag=written(tmp_path / "k", content))
    if b"\x00" not in content:
        refusal(MNEMOSYNE_SYNC_KEY=os.fsdecode(content))


# -- files -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", " ", "missing", "directory", "file/below", "dangling", "loop", "nul\0", "n" * 300])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    written(tmp_path / "file")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    refusal(flag=name)
    if "\0" not in name:
        refusal(MNEMOSYNE_SYNC_KEY_FILE=name)
        refusal(MNEMOSYNE_SYNC_KEY_FILE=f"file:{name}")


def test_a_credential_that_is_there_and_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "api-key").symlink_to("nowhere")
    assert "cannot be read" in refusal(CREDENTIALS_DIRECTORY=str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser reads everything")
def test_a_file_without_leave_is_an_error(tmp_path: Path) -> None:
    assert "Permission denied" in refusal(flag=written(tmp_path / "k", mode=0))


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_the_owner_alone_is_private_enough(tmp_path: Path, mode: int) -> None:
    assert api_key(flag=written(tmp_path / "k", mode=mode), environ={}) == KEY


@pytest.mark.parametrize("mode", [0o640, 0o440, 0o604, 0o644, 0o660, 0o620, 0o602, 0o601, 0o610, 0o777])
def test_a_file_that_is_open_to_others_is_an_error_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "k", mode=mode)
    assert f"chmod 600 {path}" in refusal(flag=path)
    assert f"mode {mode:03o}" in refusal(MNEMOSYNE_SYNC_KEY_FILE=str(path))


@pytest.mark.parametrize("mode", [0o440, 0o640, 0o400, 0o600])
def test_the_group_may_read_what_systemd_hands_over(tmp_path: Path, mode: int) -> None:
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    path = written(tmp_path / "api-key", mode=mode)
    assert api_key(flag=None, environ=environ) == KEY
    assert api_key(flag=path, environ=environ) == KEY


@pytest.mark.parametrize("mode", [0o444, 0o644, 0o660, 0o460, 0o450, 0o442])
def test_what_systemd_hands_over_is_closed_to_everybody_else(tmp_path: Path, mode: int) -> None:
    written(tmp_path / "api-key", mode=mode)
    assert "open to others" in refusal(CREDENTIALS_DIRECTORY=str(tmp_path))


def test_a_link_is_as_private_as_its_target(tmp_path: Path) -> None:
    link, target = tmp_path / "link", written(tmp_path / "target")
    link.symlink_to(target)
    assert api_key(flag=link, environ={}) == KEY
    target.chmod(0o644)
    assert f"chmod 600 {target}" in refusal(flag=link)


def test_a_link_out_of_the_credentials_is_no_credential(tmp_path: Path) -> None:
    (tmp_path / "credentials").mkdir()
    outside = written(tmp_path / "outside", mode=0o440)
    (tmp_path / "credentials" / "api-key").symlink_to(outside)
    assert "open to others" in refusal(CREDENTIALS_DIRECTORY=str(tmp_path / "credentials"))
    (tmp_path / "credentials2").mkdir()
    written(tmp_path / "credentials2" / "k", mode=0o440)
    assert "open to others" in refusal(flag=tmp_path / "credentials2" / "k", CREDENTIALS_DIRECTORY=str(tmp_path / "credentials"))


def test_credentials_behind_a_link_are_credentials(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    written(tmp_path / "real" / "api-key", mode=0o440)
    assert api_key(flag=None, environ={"CREDENTIALS_DIRECTORY": str(tmp_path / "link")}) == KEY


def test_a_pipe_delivers_a_key(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    writer = threading.Thread(target=lambda: pipe.write_text(KEY + "\n"))
    writer.start()
    assert api_key(flag=pipe, environ={}) == KEY
    writer.join()


def test_a_handle_of_the_process_delivers_a_key() -> None:
    reading, writing = os.pipe()
    os.write(writing, KEY.encode())
    os.close(writing)
    try:
        assert api_key(flag=f"/dev/fd/{reading}", environ={}) == KEY
    finally:
        os.close(reading)


def test_a_secret_of_another_kind_has_a_bound(tmp_path: Path) -> None:
    path = written(tmp_path / "k", b"\x00" * 32)
    assert read_private(path, environ={}, limit=32) == b"\x00" * 32
    with pytest.raises(MnemosyneError, match="longer than 31 bytes"):
        read_private(path, environ={}, limit=31)
