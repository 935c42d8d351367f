"""Hosts and homes for the acceptance tests. Homes are removed by pytest's own rules for temporary directories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.environments import HOSTS
from tests.acceptance.harness.hosts import Home, Host, bare_host, install_beside, install_elsewhere
from tests.acceptance.harness.model import ScriptedModel

MAIN = HOSTS[0].name
EVERY_HOST = [pytest.param(host.name, marks=() if host.name == MAIN else pytest.mark.full) for host in HOSTS]

NewHome = Callable[..., Home]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A directory that all test processes of this run share."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "hosts"


@pytest.fixture(scope="session")
def elsewhere(shared: Path) -> Path:
    """A read-only place that no host knows, with Mnemosyne and what it needs, made for another Python."""
    return install_elsewhere(shared)


@pytest.fixture(scope="session")
def bare() -> Callable[[str], Host]:
    """The host without Mnemosyne, by name."""

    def find(name: str) -> Host:
        found = bare_host(name)
        if found is None:
            pytest.skip(f"{name} has no release for the Pythons of this machine")
        return found[1]

    return find


@pytest.fixture(scope="session")
def equipped(shared: Path) -> Callable[[str], Host]:
    """The host with Mnemosyne installed in its environment, by name."""

    def find(name: str) -> Host:
        found = bare_host(name)
        if found is None:
            pytest.skip(f"{name} has no release for the Pythons of this machine")
        return install_beside(found[0], shared)

    return find


@pytest.fixture(params=EVERY_HOST)
def host(request: pytest.FixtureRequest, equipped: Callable[[str], Host]) -> Host:
    """The host with Mnemosyne: 0.19 always, the newer one too in a full run."""
    return equipped(request.param)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """The scripted language model."""
    with ScriptedModel() as running:
        yield running


@pytest.fixture
def new_home(host: Host, model: ScriptedModel, tmp_path: Path) -> NewHome:
    """A maker of homes in which `mnemosyne install` has been run."""

    def make(name: str = "hermes", **settings: Any) -> Home:
        made = Home(tmp_path / name, host, model.url, settings=settings)
        made.mnemosyne("install", "--hermes-home", str(made.path))
        return made

    return make


@pytest.fixture
def hermes(new_home: NewHome) -> Home:
    """A home in which Mnemosyne is installed and active."""
    return new_home()
