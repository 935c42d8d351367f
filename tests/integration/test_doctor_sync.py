"""What `doctor` says on the machine that serves others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hermes_mnemosyne import Memory
from hermes_mnemosyne.doctor import examine
from hermes_mnemosyne.store.operations import KeepState


def test_the_doctor_of_a_server_names_machines_with_a_wrong_clock(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "mnemosyne.db") as memory:
        for name, state in (("aa", {"skew": 0.2, "restamps": 0}), ("bb", {"skew": -400.0, "restamps": 3, "key": "laptop"})):
            op = memory.make(KeepState, key=f"client/{name}", value=state)
            memory.engine.store.apply([replace(op, theme="")])
        found = {check.detail: check.status for check in examine(memory).checks if check.name == "sync"}
        report = examine(memory)
    assert found == {
        "replica bb (laptop): its clock is 400 s behind this one": "warn",
        "replica bb (laptop): 3 edits made under a wrong clock got the right time": "off",
        "2 replicas have synced with this store": "ok",
    }
    assert report.ok


def test_the_doctor_of_a_store_that_syncs_with_nobody_says_so(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "mnemosyne.db") as memory:
        assert [check.status for check in examine(memory).checks if check.name == "sync"] == ["off"]
