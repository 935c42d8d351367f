"""Places on disk: the default file, the pointer to the last one used, modes, network file systems."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from hermes_mnemosyne._errors import ConfigError, InvalidInput

FILE_NAME = "mnemosyne.db"
SETTINGS_NAME = "mnemosyne.yaml"
_OTHERS = 0o007
_SHARED_DIRECTORY = stat.S_ISGID | stat.S_IWGRP

# Types as the kernel names them; of `fuse.NAME` the NAME counts. A type that is not listed is taken for local.
_NETWORK_TYPES = frozenset((
    "acfs", "afs", "auristorfs", "beegfs", "blobfuse", "blobfuse2", "ceph", "cephfs", "cifs", "coda", "curlftpfs", "davfs",
    "davfs2", "ftpfs", "gcsfuse", "gfs", "gfs2", "glusterfs", "goofys", "gpfs", "juicefs", "lustre", "mfs", "moosefs",
    "mount-s3", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "rclone", "s3fs", "seaweedfs", "smb3", "smbfs",
    "smbnetfs", "sshfs", "weed",
))  # fmt: skip
# 9p is the root of some sandboxes and a folder of the host in virtual machines, where one kernel sees all users of the file;
# only these kinds reach a second kernel.
_REMOTE_9P = re.compile(r"(?:^|,)trans=(?:tcp|rdma)(?:,|$)|aname=drvfs", re.IGNORECASE)
_OCTAL = re.compile(r"\\([0-7]{3})")


def _value(environ: Mapping[str, str], name: str) -> str:
    """Return a variable; unset and empty are the same."""
    return environ.get(name, "").strip()


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError(
            f"no home directory is known for {text!r}: set HOME, or MNEMOSYNE_DATA_DIR to an absolute path"
        ) from error


def _home(environ: Mapping[str, str]) -> Path:
    """Return the home directory: `$HOME`, else that of the user database."""
    if given := _value(environ, "HOME"):
        return _expanded(given)
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        raise ConfigError("no home directory is known: set HOME, or MNEMOSYNE_DATA_DIR to an absolute path") from error


def _xdg(environ: Mapping[str, str], name: str, fallback: str) -> Path:
    given = _value(environ, name)
    # The XDG rules say that a relative path is to be ignored.
    if given and Path(given).is_absolute():
        return Path(given) / "mnemosyne"
    return _home(environ) / fallback / "mnemosyne"


def data_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return our directory under the XDG data directory."""
    return _xdg(os.environ if environ is None else environ, "XDG_DATA_HOME", ".local/share")


def state_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return our directory under the XDG state directory."""
    return _xdg(os.environ if environ is None else environ, "XDG_STATE_HOME", ".local/state")


def hermes_home(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return `$HERMES_HOME`, or `~/.hermes` where it exists, or None."""
    environ = os.environ if environ is None else environ
    if given := _value(environ, "HERMES_HOME"):
        return _expanded(given)
    home = _home(environ) / ".hermes"
    return home if home.is_dir() else None


def default_file(
    *,
    environ: Mapping[str, str] | None = None,
    home: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """Return the database file to use when none is named; nothing is created.

    In order: `data_dir` or `$MNEMOSYNE_DATA_DIR`; the Hermes home (`home` when given, as a provider does); the file that a
    provider of this user used last; the XDG data directory. Raises ConfigError when no home directory is known.
    """
    environ = os.environ if environ is None else environ
    chosen = os.fspath(data_dir) if data_dir else _value(environ, "MNEMOSYNE_DATA_DIR")
    if chosen:
        return _expanded(chosen) / FILE_NAME
    hermes = _expanded(os.fspath(home)) if home else hermes_home(environ)
    if hermes is not None:
        return hermes / "mnemosyne" / FILE_NAME
    return last_used(environ) or data_directory(environ) / FILE_NAME


# -- the pointer -----------------------------------------------------------------------------------------------------------------


def _pointer(environ: Mapping[str, str] | None) -> Path:
    return state_directory(environ) / "last-used"


def last_used(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the database file that a provider of this user used last, if it still exists."""
    try:
        text = _pointer(environ).read_text(encoding="utf-8").strip()
        path = Path(text)
        return path if text and path.is_absolute() and path.is_file() else None
    except (OSError, ValueError):
        return None


def remember_last_used(path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> bool:
    """Leave a pointer to the database file `path` for later commands of this user; tell whether it stands.

    The pointer is a convenience: a state directory that cannot be written is no error.
    """
    try:
        pointer = _pointer(environ)
        text = os.fspath(Path(path).absolute())
        with contextlib.suppress(FileNotFoundError, ValueError):
            if pointer.read_text(encoding="utf-8") == text:
                return True
        secure_directory(pointer.parent)
        write_atomically(pointer, text.encode())
    except (OSError, ConfigError, UnicodeEncodeError):
        return False
    return True


def named_file(path: object) -> str:
    """Return a path that a caller gave for a database as text. Raises InvalidInput for what cannot name a file.

    It must not be taken for "none was given": that would be another database.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text or not _encodable(text):
        raise InvalidInput("the place of a memory is the path of a file: leave it out for the default one")
    return text


def _encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


# -- modes -----------------------------------------------------------------------------------------------------------------------


def secure_directory(path: str | os.PathLike[str]) -> Path:
    """Make the directory and its missing parents, each with mode 0700; existing ones keep theirs. Raises OSError."""
    path = Path(path)
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        path = directory
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is no directory")
    return path


def file_mode(directory: str | os.PathLike[str]) -> int:
    """Return the mode for new files: 0600, or 0660 in a directory that was set up for a group (setgid and group-writable)."""
    mode = Path(directory).stat().st_mode
    return 0o660 if mode & _SHARED_DIRECTORY == _SHARED_DIRECTORY else 0o600


def secure_file(path: str | os.PathLike[str]) -> Path:
    """Make an empty file that only its owner (or the directory's group) can read, or close an existing one to others.

    Raises OSError.
    """
    path = Path(path)
    mode = file_mode(path.parent)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        present = path.stat()
        if present.st_mode & _OTHERS and present.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(present.st_mode) & ~_OTHERS)
        return path
    try:
        os.fchmod(handle, mode)
    finally:
        os.close(handle)
    return path


def mode_problems(path: str | os.PathLike[str]) -> list[str]:
    """Return one line with the remedy if others than owner and group have access to `path`."""
    try:
        mode = stat.S_IMODE(Path(path).stat().st_mode)
    except OSError:
        return []
    return [f"{path} is open to everybody (mode {mode:03o}): chmod o-rwx it"] if mode & _OTHERS else []


def write_atomically(path: str | os.PathLike[str], data: bytes, *, mode: int = 0o600) -> None:
    """Replace the content of `path` as a whole: a reader sees the old or the new one. Raises OSError."""
    path = Path(os.path.realpath(path))
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


# -- file systems ----------------------------------------------------------------------------------------------------------------


def is_network_filesystem(path: str | os.PathLike[str], *, mountinfo: str | os.PathLike[str] = "/proc/self/mountinfo") -> bool:
    """Tell whether `path` (or its nearest existing parent) lies on a network file system, where SQLite's WAL is unsafe.

    False where the system does not say (no `/proc`) and for types that are not known.
    """
    try:
        table = Path(mountinfo).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    target = os.path.realpath(path)
    best, remote = -1, False
    for line in table.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if not separator or len(fields) < 5 or not kinds:  # noqa: PLR2004 - the fifth field is the mount point
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later covers the earlier.
        if inside and len(point) >= best:
            best, remote = len(point), _is_remote(kinds)
    return remote


def _is_remote(kinds: list[str]) -> bool:
    kind = kinds[0].lower()
    if kind == "9p":
        return any(_REMOTE_9P.search(options) for options in kinds[1:])
    if kind.startswith("fuse."):
        kind = kind.removeprefix("fuse.")
    return kind in _NETWORK_TYPES
