"""Databases that hermes-memory-pgvector itself has made and filled, and the parts of ours that adopt them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.environments import Environment, ensure, host_environment
from tests.migration.world import World
from tests.postgres.databases import PgDatabase
from tests.postgres.fixtures import RUNTIME_ROLE

DRIVER = Path(__file__).with_name("old_driver.py")


@dataclass(frozen=True)
class OldPackage:
    """A release of hermes-memory-pgvector in its own environment, at work on one database under the runtime role."""

    environment: Environment
    database: PgDatabase

    def migrate(self) -> None:
        """Make its tables, as its administrator does."""
        self._run([self.environment.directory / "bin" / "hermes-pgvector", "migrate", "--admin-dsn", self.database.admin_dsn])

    def migrate_first_only(self) -> None:
        """Make what its very first release made."""
        import psycopg

        found = next(self.environment.directory.glob("lib/*/site-packages/hermes_pgvector/migrations/001_*.sql"))
        with psycopg.connect(self.database.admin_dsn, autocommit=True) as db:
            db.execute(found.read_bytes())
            db.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON memory_entries, conversations TO {RUNTIME_ROLE}")
            db.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {RUNTIME_ROLE}")

    def does(self, *steps: dict[str, Any]) -> list[Any]:
        """Let it do something, and return what it answers."""
        lines = "".join(f"{json.dumps(step)}\n" for step in steps)
        said = self._run([self.environment.python, DRIVER, self.database.dsn], lines)
        return [json.loads(line.removeprefix("answer: ")) for line in said.splitlines() if line.startswith("answer: ")]

    def _run(self, command: list[str | Path], lines: str = "") -> str:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def environment(name: str) -> Environment:
    found = host_environment(name)
    if found is None:
        pytest.skip(f"no interpreter here suits {name}")
    return ensure(found)


@pytest.fixture(params=["legacy-0.5.4", pytest.param("legacy-1.0.0", marks=pytest.mark.full)])
def old(request: pytest.FixtureRequest, bare_postgres: PgDatabase) -> OldPackage:
    """The old package, and a database with its tables."""
    package = OldPackage(environment(request.param), bare_postgres)
    package.migrate()
    return package


@pytest.fixture
def first_old(bare_postgres: PgDatabase) -> OldPackage:
    """The old package, and a database with the tables of its first migration only."""
    package = OldPackage(environment("legacy-0.5.4"), bare_postgres)
    package.migrate_first_only()
    return package


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Opens our store on a database, as the administrator unless told otherwise."""
    with ExitStack() as opened:
        yield lambda database, **options: opened.enter_context(World.open(database, tmp_path / "key", **options))
