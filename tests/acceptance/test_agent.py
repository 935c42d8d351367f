"""Whole turns of the host's real agent with the provider `mnemosyne`, in one process per test."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.acceptance.harness.hosts import Home, hooks
from tests.acceptance.harness.model import ScriptedModel, call, lines, say

BOAT = "Ada's sailing boat is called Perelandra and lies in the old harbour of Bergen."
QUESTION = "Where does the sailing boat of Ada lie at the moment, in which harbour?"


def failures(*sessions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the hooks that raised; the host swallows what they raise."""
    return [hook for steps in sessions for hook in hooks(steps) if "error" in hook]


def memory(**arguments: Any) -> str:
    """Return the script line of a call of the host's own memory tool."""
    return call("memory", **arguments)


def test_what_was_remembered_reaches_the_model_before_it_answers(hermes: Home, model: ScriptedModel) -> None:
    hermes.mnemosyne("remember", BOAT, "--db", str(hermes.store))
    sessions = hermes.converse({"steps": [{"turn": QUESTION}, "end"]})
    assert "Perelandra" in model.recalled()
    assert "hermes" in model.shown()
    assert failures(*sessions) == []


def test_what_one_session_said_reaches_the_model_in_a_later_one(hermes: Home, model: ScriptedModel) -> None:
    noted = {"turn": lines(f"Please note for later: {BOAT}", say("I will think of it."))}
    sessions = hermes.converse({"steps": [noted, "end"]}, {"steps": [{"turn": QUESTION}, "end"]})
    assert "Perelandra" in model.recalled()
    assert failures(*sessions) == []


def test_an_unrelated_question_is_answered_without_recalled_memory(hermes: Home, model: ScriptedModel) -> None:
    hermes.mnemosyne("remember", BOAT, "--db", str(hermes.store))
    hermes.converse({"steps": [{"turn": "Which compiler flags give the smallest binary?"}, {"turn": "thanks a lot"}, "end"]})
    assert [model.recalled(number) for number in range(len(model.conversations))] == ["", ""]


def test_the_store_mirrors_what_the_memory_tool_leaves_in_its_files(hermes: Home, model: ScriptedModel) -> None:
    first = lines(
        memory(action="add", target="user", content="Name: Ada Lovelace"),
        ">>> next",
        memory(
            target="memory",
            operations=[{"action": "add", "content": "Project uses uv"}, {"action": "add", "content": "CI is slow on Mondays"}],
        ),
        ">>> next",
        memory(action="add", target="memory", content="Project uses uv"),
        say("noted"),
    )
    started = hermes.converse({"agent": {"session_id": "mirror"}, "steps": [{"turn": first}]})
    tool = next(one["function"] for one in model.conversations[0]["tools"] if one["function"]["name"] == "memory")
    # Newer hosts edit a span inside an entry instead of replacing the whole of it.
    spans = "patch" in tool["parameters"]["properties"]["action"]["enum"]
    change = "patch" if spans else "replace"
    again = lines(
        memory(action=change, target="memory", old_text="CI is slow on Mondays", content="CI takes 40 minutes"),
        ">>> next",
        memory(action="remove", target="memory", old_text="uses uv"),
        ">>> next",
        memory(action="remove", target="memory", old_text="no such entry"),
        ">>> next",
        memory(action="add", target="memory", content=""),
        ">>> next",
        memory(
            target="memory",
            operations=[{"action": "add", "content": "never kept"}, {"action": "remove", "old_text": "not there either"}],
        ),
        say("changed"),
    )
    ended = hermes.converse({"agent": {"session_id": "mirror", "resume": True}, "steps": [{"turn": again}, "end"]})

    assert hermes.memory_file("MEMORY.md") == ["CI takes 40 minutes"]
    entries = hermes.rows("entry")
    assert sorted((row["target"], row["content"]) for row in entries) == [
        ("memory", "CI takes 40 minutes"),
        ("user", "Name: Ada Lovelace"),
    ]
    assert failures(*started, *ended) == []


def test_the_tools_answer_in_the_models_own_loop(hermes: Home, model: ScriptedModel) -> None:
    hermes.mnemosyne("remember", BOAT, "--db", str(hermes.store))
    said = "We decided to paint the kitchen of the summer house in pale green."
    asked = lines(
        call("recall_memory", query="sailing boat harbour"),
        call("recall_conversation", query="kitchen of the summer house", scope="all"),
        call("recall_memory", query="anything about submarines?"),
        call("recall_memory"),
    )
    _, steps = hermes.converse({"steps": [{"turn": said}, "end"]}, {"steps": [{"turn": asked}, "end"]})
    boat, kitchen, nothing, blank = model.tool_results()
    assert {"recall_memory", "recall_conversation"} <= set(steps[0]["result"])
    assert [row["content"] for row in boat["results"]] == [BOAT]
    assert boat["count"] == 1
    assert any("pale green" in row["content"] for row in kitchen["results"])
    assert nothing["results"] == []
    assert blank["error"] == "Missing required arg: query"
    assert failures(steps) == []


def test_each_turn_is_stored_once_through_compression_end_and_resumption(hermes: Home) -> None:
    said = [f"Fact number {number}: the lighthouse keeper of island {number} feeds {number + 3} gulls." for number in range(8)]
    turns = [{"turn": lines(text, say(f"I have understood that about the gulls of island {n}."))} for n, text in enumerate(said)]
    opened = {"session_id": "long-1"}
    first = hermes.converse({"agent": opened, "steps": [*turns[:5], "compress", turns[5], "end"]})
    second = hermes.converse({"agent": {**opened, "resume": True}, "steps": [turns[6], "rotate", turns[7], "end"]})
    stored = Counter(row["content"].splitlines()[0] for row in hermes.rows("turn") if row["role"] == "user")
    assert stored == dict.fromkeys(said, 1)
    answers = Counter(row["content"] for row in hermes.rows("turn") if row["role"] == "assistant")
    assert set(answers.values()) == {1}
    assert len(answers) == len(said)
    assert failures(*first, *second) == []


def test_what_was_compressed_away_is_recalled_in_the_same_session(hermes: Home, model: ScriptedModel) -> None:
    filler = [
        {"turn": f"Chapter {n} is about the history of bookbinding in the {n}th century. " + "leather " * 500}
        for n in range(12, 20)
    ]
    sessions = hermes.converse({"steps": [{"turn": BOAT}, *filler, "compress", {"turn": QUESTION}, "end"]})
    assert "Perelandra" in model.recalled()
    assert failures(*sessions) == []


def test_agents_of_the_host_that_work_without_memory_leave_no_trace(hermes: Home) -> None:
    hermes.converse(
        *({"agent": {"skip_memory": True, "platform": one}, "steps": [{"turn": BOAT}]} for one in ("cron", "subagent"))
    )
    assert hermes.rows() == []


@pytest.mark.parametrize("context", ["cron", "subagent", "flush"])
def test_only_the_primary_agent_writes(hermes: Home, context: str) -> None:
    started = {"session_id": "s-1", "platform": "cli", "agent_context": context, "agent_workspace": "hermes"}
    answer = hermes.manage(
        ("initialize_all", [], started),
        ("sync_all", [BOAT, "That is good to know, I will keep it in mind."], {"session_id": "s-1"}),
        ("flush_pending", [], {"timeout": 30}),
        ("!on_memory_write", ["add", "memory", BOAT], {}),
        ("on_session_end", [[{"role": "user", "content": BOAT}]], {}),
        ("shutdown_all", [], {}),
    )
    assert [hook for hook in answer["hooks"] if "error" in hook] == []
    assert hermes.rows() == []


def test_the_loader_lists_the_provider_as_available(hermes: Home) -> None:
    answer = hermes.manage(("get_all_tool_schemas", [], {}))
    [row] = [row for row in answer["discovered"] if row[0] == "mnemosyne"]
    assert row[2] is True
    assert [schema["name"] for schema in answer["results"][0]] == ["recall_memory", "recall_conversation"]
