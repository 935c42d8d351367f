"""Fixtures of the provider's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_mnemosyne.hermes.provider import capturing
from hermes_mnemosyne.hermes.provider import provider as provider_module
from tests.integration.provider_home import HermesHome


@pytest.fixture
def hermes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HermesHome:
    """A Hermes home whose providers wait until they are settled, so that a loaded machine does not decide what a test sees."""
    monkeypatch.setattr(provider_module, "START_SECONDS", 30.0)
    monkeypatch.setattr(capturing, "LINEAGE_SECONDS", 30.0)
    return HermesHome(tmp_path / "hermes")
