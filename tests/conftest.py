"""What every test gets: a scrubbed environment, a home of its own, and no engine left over from the test before."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from scripts.environments import CACHE
from tests.postgres.fixtures import (  # noqa: F401 - fixtures are found where they are imported
    _postgres,
    bare_postgres,
    embed_url,
    new_database,
    new_postgres,
    postgres,
    postgres_pool,
    postgres_server,
    private_postgres,
    private_server,
    proxy,
)

if TYPE_CHECKING:
    from hermes_mnemosyne import Memory

# Settled before the scrubbing, and handed on to the worker processes that inherit the scrubbed environment.
os.environ["TEST_ENVIRONMENTS_DIR"] = str(CACHE)
FOREIGN_PREFIXES = ("HERMES_", "MNEMOSYNE_", "XDG_", "PG")
FOREIGN_ENDINGS = ("_API_KEY", "_PROXY")
OURS = "PG_TEST_"
for _name in [name for name in os.environ if name.startswith(FOREIGN_PREFIXES) or name.upper().endswith(FOREIGN_ENDINGS)]:
    if not _name.startswith(OURS):
        del os.environ[_name]

SLOW_START = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
# Packaged weights are installed here: a test that is about meaning says so, the others load no model.
os.environ["MNEMOSYNE_EMBEDDER"] = "none"
settings.register_profile("dev", max_examples=40, deadline=None, suppress_health_check=SLOW_START)
settings.register_profile("ci", settings.get_profile("dev"), database=None, print_blob=True)
settings.register_profile("full", settings.get_profile("dev"), max_examples=1000, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new, empty home directory that the test and its child processes live in."""
    directory = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(directory))
    return directory


@pytest.fixture(autouse=True)
def _no_engine_stays() -> Iterator[None]:
    """Close the engines that the process keeps, so that none outlives the files of its test."""
    yield
    registry = sys.modules.get("hermes_mnemosyne.registry")
    if registry is not None:
        registry.close_all()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """An open memory on a new file."""
    from hermes_mnemosyne import Memory

    with Memory.open(tmp_path / "mnemosyne.db") as opened:
        yield opened
