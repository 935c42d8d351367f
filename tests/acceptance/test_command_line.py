"""The host's command line with the provider `mnemosyne`, as processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.environments import HOSTS
from tests.acceptance.harness.hosts import Home, Host
from tests.acceptance.harness.model import ScriptedModel, call, lines, say

BOAT = "Ada's sailing boat is called Perelandra and lies in the old harbour of Bergen."
QUESTION = "Where does the sailing boat of Ada lie at the moment, in which harbour?"


def test_status_says_that_the_provider_is_active_and_available(hermes: Home) -> None:
    said = hermes.hermes("memory", "status")
    assert "mnemosyne" in said
    assert "← active" in said
    assert "Status:    available ✓" in said


def test_the_providers_own_commands_are_commands_of_the_host(hermes: Home) -> None:
    hermes.hermes("mnemosyne", "remember", BOAT)
    assert "Perelandra" in hermes.hermes("mnemosyne", "recall", "sailing boat")
    assert str(hermes.store) in hermes.hermes("mnemosyne", "status")


def test_a_one_shot_turn_is_stored_once_and_recalled_by_the_next(hermes: Home, model: ScriptedModel) -> None:
    spoken = f"Please keep this in mind for our holidays: {BOAT}"
    wish = call("memory", action="add", target="user", content="Wants to sail")
    done = hermes.observed_hermes("-z", lines(spoken, wish, say("I shall keep that in mind for the holidays.")))
    assert done.returncode == 0
    assert [hook for hook in hermes.observed() if "error" in hook] == []
    assert hermes.texts("entry") == ["Wants to sail"]
    assert [row["content"].splitlines()[0] for row in hermes.rows("turn") if row["role"] == "user"] == [spoken]
    assert hermes.hermes("-z", lines(QUESTION, say("In Bergen."))).strip() == "In Bergen."
    assert "Perelandra" in model.recalled()


@pytest.mark.full
def test_a_quiet_chat_is_stored_once(hermes: Home) -> None:
    done = hermes.observed_hermes("chat", "-q", lines(BOAT, say("What a fine boat that must be, in Bergen.")), "-Q")
    assert "What a fine boat" in done.stdout
    said = sorted(hermes.rows("turn"), key=lambda row: row["position"])
    assert [row["content"].splitlines()[0] for row in said] == [BOAT, "What a fine boat that must be, in Bergen."]


@pytest.fixture(params=[host.name for host in HOSTS])
def linked(
    request: pytest.FixtureRequest, bare: Callable[[str], Host], elsewhere: Path, model: ScriptedModel, tmp_path: Path
) -> Home:
    """A home of the bare host, whose plugin directory is a link into a read-only place that its interpreter does not know."""
    made = Home(tmp_path / "hermes", bare(request.param), model.url)
    (made.path / "plugins").mkdir()
    (made.path / "plugins" / "mnemosyne").symlink_to(elsewhere / "hermes_mnemosyne" / "hermes")
    return made


def test_a_link_to_the_plugin_directory_in_another_read_only_place_is_enough(linked: Home, model: ScriptedModel) -> None:
    assert "Status:    available ✓" in linked.hermes("memory", "status")
    sessions = linked.converse({"steps": [{"turn": BOAT}, "end"]}, {"steps": [{"turn": QUESTION}, "end"]})
    assert "Perelandra" in model.recalled()
    assert [hook for steps in sessions for step in steps for hook in step["hooks"] if "error" in hook] == []


def test_a_host_that_reads_entry_points_needs_no_directory(
    equipped: Callable[[str], Host], model: ScriptedModel, tmp_path: Path
) -> None:
    newer = [host.name for host in HOSTS][1]
    made = Home(tmp_path / "hermes", equipped(newer), model.url)
    assert not (made.path / "plugins").exists()
    assert "Status:    available ✓" in made.hermes("memory", "status")
    made.converse({"steps": [{"turn": BOAT}, "end"]}, {"steps": [{"turn": QUESTION}, "end"]})
    assert "Perelandra" in model.recalled()


def starts(*homes: Home, rounds: int) -> list[Any]:
    """Start a session in each home, round by round, and return what the shared store exports after each round."""
    exports = []
    for number in range(rounds):
        for home in homes:
            begin = {"session_id": f"s-{number}", "platform": "cli", "agent_workspace": "hermes"}
            home.manage(("initialize_all", [], begin), ("prefetch_all", [QUESTION], {}), ("shutdown_all", [], {}))
        exports.append(homes[0].mnemosyne("export", "--db", str(homes[0].path.parent / "shared.db")))
    return exports


def test_homes_with_different_files_share_a_theme_in_peace(new_home: Callable[..., Home], tmp_path: Path) -> None:
    shared = {"plugins": {"mnemosyne": {"db": str(tmp_path / "shared.db")}}}
    homes = [new_home(name, **shared) for name in ("one", "two")]
    for home, notes in zip(
        homes, (["Only one knows this", "Both know this"], ["Only two knows that", "Both know this"]), strict=True
    ):
        (home.path / "memories").mkdir(exist_ok=True)
        (home.path / "memories" / "MEMORY.md").write_text("\n§\n".join(notes), encoding="utf-8")
    first, *later = starts(*homes, rounds=10)
    for text in ("Only one knows this", "Only two knows that", "Both know this"):
        assert text in first
    assert set(later) == {first}
