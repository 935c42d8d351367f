"""The four steps of the README, in the host's environment, up to a provider that is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from scripts.environments import ROOT
from tests.acceptance.harness.hosts import Home, Host, run
from tests.acceptance.harness.model import ScriptedModel
from tests.postgres.databases import PgDatabase

README = (ROOT / "README.md").read_text(encoding="utf-8")


def steps() -> list[list[str]]:
    """Return the commands of the README's steps."""
    [block] = re.findall(r"^```bash\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for line in block.splitlines() if line and not line.startswith("#")]


@pytest.fixture
def home(host: Host, model: ScriptedModel, bare_postgres: PgDatabase, tmp_path: Path) -> Home:
    """A home of the host as it is without us, but for the name of the database."""
    settings = {"plugins": {"pgvector": {"dsn": bare_postgres.dsn}}}
    return Home(tmp_path / "hermes", host, model.url, provider="", settings=settings)


def test_the_steps_of_the_readme_end_with_an_available_provider(home: Home, bare_postgres: PgDatabase) -> None:
    first, *others = steps()
    # Done for the host's environment already, with the wheel of this checkout.
    assert first == ["pip", "install", "hermes-mnemosyne[postgres]", "psycopg[binary]"]
    for words in others:
        command = [bare_postgres.admin_dsn if word.startswith("dbname=") else word for word in words]
        said = run([home.host.directory / "bin" / command[0], *command[1:]], home.environment, home.path)
    assert re.search(r"Provider: +pgvector", said)
    assert re.search(r"Status: +available", said)
    assert (home.path / "plugins" / "pgvector" / "__init__.py").exists()
    assert "pgvector" in home.pgvector("doctor")


def test_the_maintenance_commands_are_commands_of_the_host(home: Home, bare_postgres: PgDatabase) -> None:
    home.pgvector("install")
    home.pgvector("migrate", "--admin-dsn", bare_postgres.admin_dsn)
    home.hermes("config", "set", "memory.provider", "pgvector")
    assert "would forget 0" in home.hermes("pgvector", "prune", "--days", "30")
    assert bare_postgres.name in home.hermes("pgvector", "stats")


def test_the_installation_says_what_the_host_loads(home: Home) -> None:
    said = home.pgvector("install")
    assert "checked: Hermes loads it" in said
    assert "(the directory)" in said
