"""The host as a user has it: hermes-agent with Mnemosyne installed beside it, and a home of its own for each test."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.environments import ROOT, Environment, ensure, host_environment

DRIVERS = Path(__file__).resolve().parent.parent / "drivers"
Call = tuple[str, list[Any], dict[str, Any]]  # a method, its arguments, its keywords
PATIENCE = 120.0  # seconds that a process of the host gets


def run(command: list[str | Path], environment: Mapping[str, str], directory: Path, stdin: str = "") -> str:
    """Run a command that must succeed, and return what it printed."""
    done = attempt(command, environment, directory, stdin)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def attempt(
    command: list[str | Path], environment: Mapping[str, str], directory: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command that may fail."""
    return subprocess.run(
        command, env=environment, cwd=directory, input=stdin, text=True, capture_output=True, timeout=PATIENCE, check=False
    )


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for another process; fail with `what` was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(0.05)  # a process that is not ours gives no signal to wait for


@dataclass(frozen=True)
class Host:
    """An interpreter that has the host's packages and, unless it is the bare host, Mnemosyne."""

    name: str
    directory: Path

    @property
    def python(self) -> Path:
        """Return its interpreter."""
        return self.directory / "bin" / "python"

    @property
    def has_entry_points(self) -> bool:
        """Tell whether the host finds providers of installed packages by itself."""
        return self.name != "hermes-0.19"


@contextmanager
def _made_once(target: Path) -> Iterator[Path | None]:
    """Give the place to make `target` in to the first of several test processes, and None to the others."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{target}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield None if target.exists() else target


def bare_host(name: str) -> tuple[Environment, Host] | None:
    """Return the cached environment of a host and the host in it; None when no interpreter here suits it."""
    environment = host_environment(name)
    if environment is None:
        return None
    ensure(environment)
    return environment, Host(name, environment.directory)


def build_wheel(directory: Path) -> Path:
    """Build the wheel of this checkout, once for all test processes that share `directory`."""
    target = directory / "wheel"
    with _made_once(target) as place:
        if place is not None:
            run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place], os.environ, ROOT)
    return next(target.glob("*.whl"))


def install_beside(environment: Environment, directory: Path) -> Host:
    """Do what `pip install hermes-mnemosyne[postgres]` does in the host's environment, without touching the cached one.

    The result is a thin environment on top: pip runs in it, sees the host's packages, installs the wheel and what is missing.
    """
    target = directory / environment.name
    host = Host(environment.name, target)
    wheel = build_wheel(directory)
    with _made_once(target) as place:
        if place is not None:
            run([environment.interpreter.path, "-m", "venv", "--without-pip", place], os.environ, directory)
            own, below = (next(one.glob("lib/python3*/site-packages")) for one in (place, environment.directory))
            (own / "host.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n", encoding="utf-8")
            script = (environment.directory / "bin" / "hermes").read_text(encoding="utf-8").splitlines(keepends=True)
            (place / "bin" / "hermes").write_text("".join([f"#!{host.python}\n", *script[1:]]), encoding="utf-8")
            (place / "bin" / "hermes").chmod(0o755)
            pip: list[str | Path] = [
                environment.python,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "--quiet",
                "--python",
                host.python,
            ]
            run([*pip, "install", f"hermes-mnemosyne[postgres] @ {wheel.as_uri()}", "psycopg[binary]"], os.environ, directory)
    return host


def install_elsewhere(directory: Path) -> Path:
    """Install Mnemosyne and what it needs into a directory, for another Python than this one, and make all of it read-only.

    So a package manager that links plugins into the host leaves them; compiled parts there do not load in the host's interpreter.
    """
    target = directory / "elsewhere"
    wheel = build_wheel(directory)
    other = "3.12" if sys.version_info[:2] != (3, 12) else "3.13"
    with _made_once(target) as place:
        if place is not None:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-compile"]
            run([*pip, "--only-binary", ":all:", "--python-version", other, "--target", place, wheel], os.environ, directory)
            for path in [place, *place.rglob("*")]:
                path.chmod(0o555 if path.is_dir() else 0o444)
    return target


@dataclass(frozen=True)
class Home:
    """A Hermes home of one test, and the ways to use it."""

    path: Path
    host: Host
    model_url: str
    provider: str = "mnemosyne"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the host's configuration."""
        import yaml

        config: dict[str, Any] = {
            "model": {
                "default": "scripted",
                "provider": "custom",
                "base_url": self.model_url,
                "api_key": "scripted-0123456789abcdef",
                "context_length": 131072,
            },
            # The review of a conversation would add requests of its own after some turns.
            "memory": {"provider": self.provider, "nudge_interval": 0},
            "security": {"tirith_enabled": False},
            "updates": {"check": False},
            **self.settings,
        }
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the host's processes: this home, and nothing of the machine's that they could reach out with."""
        return {
            **os.environ,
            "HERMES_HOME": str(self.path),
            "HOME": str(self.path),
            "PATH": f"{self.host.directory / 'bin'}:{os.defpath}",
            "NO_COLOR": "1",
            "NO_PROXY": "*",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "TERM": "dumb",
        }

    @property
    def store(self) -> Path:
        """Return where the provider keeps its file."""
        return self.path / "mnemosyne" / "mnemosyne.db"

    @property
    def log(self) -> Path:
        """Return the observer's log."""
        return self.path / "observed.jsonl"

    def plug(self, directory: Path, name: str) -> None:
        """Copy a plugin directory into the home."""
        shutil.copytree(directory, self.path / "plugins" / name, ignore=shutil.ignore_patterns("__pycache__"))

    def hermes(self, *arguments: str, stdin: str = "") -> str:
        """Run the host's command line, and return what it printed."""
        return run([self.host.python, self.host.directory / "bin" / "hermes", *arguments], self.environment, self.path, stdin)

    def mnemosyne(self, *arguments: str, stdin: str = "") -> str:
        """Run Mnemosyne's command line as installed in the host's environment, and return what it printed."""
        return run([self.host.directory / "bin" / "mnemosyne", *arguments], self.environment, self.path, stdin)

    def pgvector(self, *arguments: str) -> str:
        """Run `hermes-pgvector` as installed in the host's environment, and return what it printed."""
        return run([self.host.directory / "bin" / "hermes-pgvector", *arguments], self.environment, self.path)

    def pgvector_json(self, *arguments: str) -> Any:
        """Run `hermes-pgvector` and return what it printed as JSON, also where it ends with work left."""
        command: list[str | Path] = [self.host.directory / "bin" / "hermes-pgvector", *arguments]
        return json.loads(attempt(command, self.environment, self.path).stdout)

    def rows(self, kind: str = "all") -> list[dict[str, Any]]:
        """Return what the store holds, oldest first: live entries, turns or all of them, of every theme and subject."""
        if not self.store.exists():
            return []
        self.mnemosyne("spool", "drain", "--db", str(self.store))
        listed = self.mnemosyne("list", "--db", str(self.store), "--kind", kind, "--limit", "1000", "--json")
        rows: list[dict[str, Any]] = json.loads(listed)["entries"]
        return rows[::-1]

    def texts(self, kind: str) -> list[str]:
        """Return the contents of `rows`, sorted."""
        return sorted(row["content"] for row in self.rows(kind))

    def memory_file(self, name: str) -> list[str]:
        """Return the entries of one of the host's own memory files, sorted."""
        file = self.path / "memories" / name
        return sorted(file.read_text(encoding="utf-8").split("\n§\n")) if file.exists() else []

    def observed_command(self, *arguments: str, kill: str = "-") -> list[str | Path]:
        """Return the host's command under the observer."""
        return [self.host.python, DRIVERS / "observe.py", self.log, kill, *arguments]

    def observed_hermes(self, *arguments: str, kill: str = "-") -> subprocess.CompletedProcess[str]:
        """Run the host's command line under the observer."""
        return attempt(self.observed_command(*arguments, kill=kill), self.environment, self.path)

    def observed(self, hook: str | None = None) -> list[dict[str, Any]]:
        """Return what the observer has written so far, of one hook or of all."""
        text = self.log.read_text(encoding="utf-8") if self.log.exists() else ""
        # The last line may still be on its way.
        records = [json.loads(line) for line in text.split("\n")[:-1]]
        return [record for record in records if hook in (None, record["hook"])]

    def drive(self, driver: str, plan: Mapping[str, Any]) -> Any:
        """Run a driver in the host's interpreter, and return its answer, None when it was killed."""
        question, answer = self.path / "plan.json", self.path / "answer.json"
        question.write_text(json.dumps(plan), encoding="utf-8")
        done = attempt([self.host.python, DRIVERS / f"{driver}.py", question, answer], self.environment, self.path)
        assert done.returncode in (0, -signal.SIGKILL), f"{driver} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return json.loads(answer.read_text(encoding="utf-8")) if done.returncode == 0 else None

    def converse(self, *sessions: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
        """Hold the sessions of an agent plan, one after the other, in one process."""
        answers: list[list[dict[str, Any]]] = self.drive("converse", {"url": self.model_url, "sessions": sessions})
        return answers

    def manage(self, *calls: Call) -> dict[str, Any]:
        """Call methods of the host's memory manager in one process."""
        answer: dict[str, Any] = self.drive("manage", {"provider": self.provider, "kill": "-", "calls": calls})
        return answer

    def manage_until_killed(self, kill: str, *calls: Call) -> None:
        """Call methods of the host's memory manager in a process that dies right after the hook that `kill` names."""
        assert self.drive("manage", {"provider": self.provider, "kill": kill, "calls": calls}) is None, (
            "the process was not killed"
        )


def hooks(steps: list[dict[str, Any]], name: str | None = None) -> list[dict[str, Any]]:
    """Return the hooks of all steps of a session, of one name or of all."""
    return [hook for step in steps for hook in step["hooks"] if name in (None, hook["hook"])]
