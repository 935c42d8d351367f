"""The harness against the bare host, with a toy provider: a failure here is the host's or the harness', never Mnemosyne's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.environments import HOSTS
from tests.acceptance.harness.gateway import Gateway
from tests.acceptance.harness.hosts import Home, Host, hooks
from tests.acceptance.harness.model import ScriptedModel, call, lines, say

TOY = Path(__file__).parent / "toy"


@pytest.fixture(params=[host.name for host in HOSTS])
def toy_home(request: pytest.FixtureRequest, bare: Callable[[str], Host], model: ScriptedModel, tmp_path: Path) -> Home:
    made = Home(tmp_path / "hermes", bare(request.param), model.url, provider="toy")
    made.plug(TOY, "toy")
    return made


def test_an_agent_calls_tools_is_shown_what_is_recalled_and_hands_its_turns_over(toy_home: Home, model: ScriptedModel) -> None:
    [steps] = toy_home.converse(
        {"steps": [{"turn": lines("Keep it.", call("toy_keep", text="elephants"), say("kept"))}, {"turn": "And now?"}, "end"]}
    )
    assert "toy_keep" in steps[0]["result"]
    assert [step["result"] for step in steps[1:3]] == ["kept", "done"]
    assert model.tool_results(1) == [{"kept": "elephants", "by": "toy_keep"}]
    assert "elephants" in model.recalled()
    assert [hook["hook"] for hook in hooks(steps)].count("sync_turn") == 2
    assert hooks(steps)[-1]["hook"] == "shutdown"


@pytest.mark.full
def test_the_manager_calls_the_provider_that_the_loader_found(toy_home: Home) -> None:
    answer = toy_home.manage(("initialize_all", [], {"session_id": "s"}), ("handle_tool_call", ["toy_keep", {"text": "x"}], {}))
    assert "toy" in [row[0] for row in answer["discovered"]]
    assert answer["results"][1] == '{"kept": "x", "by": "toy_keep"}'


@pytest.mark.full
def test_a_server_hands_over_turns_and_can_be_killed_right_after_one(toy_home: Home) -> None:
    with Gateway(toy_home, kill="sync_turn:the last one") as gateway:
        assert gateway.chat(say("first"), key="agent:main:web:dm:1", session="s-1") == "first"
        gateway.wait_for_turns(1)
        gateway.chat_until_killed("the last one", key="agent:main:web:dm:1")
    assert toy_home.observed("initialize")[0]["kwargs"]["gateway_session_key"] == "agent:main:web:dm:1"
    assert len(toy_home.observed("sync_turn")) == 2
