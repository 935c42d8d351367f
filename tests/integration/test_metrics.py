"""The figures as Prometheus text: what docs/metrics.md lists is there, with the numbers that stats says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_mnemosyne import Memory
from hermes_mnemosyne.metrics import METRICS, exposition
from scripts.environments import ROOT
from tests.integration.command import mnemosyne

if TYPE_CHECKING:
    import pytest


def values(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_the_page_lists_every_metric_as_it_is() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for metric in METRICS:
        ending = "_total" if metric.kind == "counter" else ""
        label = f", by `{metric.label}`" if metric.label else ""
        assert f"| `mnemosyne_{metric.name}{ending}` | {metric.kind} | {metric.of} | {metric.help}{label} |" in text


def test_every_metric_of_the_alerts_exists() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8").partition("## Alerts")[2]
    known = {f"mnemosyne_{metric.name}{'_total' if metric.kind == 'counter' else ''}" for metric in METRICS}
    assert set(re.findall(r"\bmnemosyne_[a-z_]+", text)) <= known | {"mnemosyne_recall_seconds_bucket"}


def test_writes_and_recalls_are_counted(memory: Memory) -> None:
    memory.remember("The cat is Momo")
    memory.recall("cat")
    found = values(exposition(memory))
    assert found["mnemosyne_up"] == 1
    assert found['mnemosyne_entries{theme="hermes"}'] == 1
    assert found["mnemosyne_stored_total"] == 1
    assert found["mnemosyne_recalls_total"] == 1
    assert found["mnemosyne_recalls_degraded_total"] == 0
    for leg in ("recall", "words", "rows"):
        assert found[f'mnemosyne_recall_seconds_count{{leg="{leg}"}}'] >= 1
        assert found[f'mnemosyne_recall_seconds_bucket{{le="+Inf",leg="{leg}"}}'] >= 1
    assert memory.stats()["process"]["recall"]["recall"]["count"] == 1


def test_a_theme_of_any_name_is_a_label(memory: Memory) -> None:
    with Memory.open(memory.path, theme='quote" and \\ back') as other:
        other.remember("one")
        text = exposition(other)
    assert 'theme="quote\\" and \\\\ back"' in text


def test_the_command_prints_them(tmp_path: Path) -> None:
    store = str(tmp_path / "m.db")
    mnemosyne("--db", store, "remember", "The cat is Momo")
    done = mnemosyne("--db", store, "stats", "--prometheus")
    assert done.code == 0
    assert values(done.out)["mnemosyne_spool_waiting"] == 0


def test_without_the_extra_one_line_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = str(tmp_path / "m.db")
    mnemosyne("--db", store, "remember", "one")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    done = mnemosyne("--db", store, "stats", "--prometheus")
    assert done.code == 1
    assert done.err == "mnemosyne: this needs an optional part: pip install 'hermes-mnemosyne[metrics]'\n"
