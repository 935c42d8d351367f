"""The host's API server with the provider `mnemosyne`: many sessions in one process, and its sudden death."""

from __future__ import annotations

import pytest

from tests.acceptance.harness.gateway import Gateway
from tests.acceptance.harness.hosts import Call, Home
from tests.acceptance.harness.model import ScriptedModel, call, lines, say

SECRETS = {
    "agent:main:telegram:dm:1": "My bank card lies behind the blue teapot, please remember the word Umbrageous.",
    "agent:main:telegram:dm:2": "My bank card lies under the third stair, please remember the word Quixotic.",
    "marketing": "The bank card of marketing lies in the top drawer, please remember the word Zephyrous.",
    "engineering": "The bank card of engineering lies in the server room, please remember the word Bucolic.",
}
WORDS = {key: text.rstrip(".").rpartition(" ")[2] for key, text in SECRETS.items()}
SEARCH = lines(
    "Where does the bank card lie, and which word was I to remember?",
    call("recall_memory", query="bank card", scope="all"),
    call("recall_conversation", query="bank card", scope="all"),
    call("recall_conversation", query="bank card word remember"),
    call("recall_conversation", query="bank card", scope="session"),
    call("recall_memory", query="bank card", scope="marketing"),
    call("recall_conversation", query="bank card", scope="engineering"),
    call("recall_conversation", query="bank card", scope="whatsapp-dm"),
)


def test_sessions_of_a_server_never_see_each_other(hermes: Home, model: ScriptedModel) -> None:
    with Gateway(hermes) as gateway:
        for number, (key, text) in enumerate(SECRETS.items()):
            keep = call("memory", action="add", target="memory", content=f"Note {number}")
            gateway.chat(lines(text, keep, say("I shall keep the place and the word.")), key=key, session=f"first-{number}")
        gateway.wait_for_turns(len(SECRETS))
        for number, key in enumerate(SECRETS):
            before = len(model.conversations)
            gateway.chat(SEARCH, key=key, session=f"second-{number}")
            shown = "\n".join(model.shown(index) for index in range(before, len(model.conversations)))
            found = {word for word in WORDS.values() if word in shown}
            assert found == {WORDS[key]}, f"{key} was shown {found}"
            assert WORDS[key] in model.recalled(before)
    assert [hook for hook in hermes.observed() if "error" in hook] == []
    stored = hermes.mnemosyne("export", "--db", str(hermes.store))
    assert "telegram:dm:" not in stored


def test_a_conversation_whose_history_the_client_sends_is_stored_once(hermes: Home) -> None:
    first = "The lighthouse keeper of the northern island feeds eleven gulls every morning."
    second = "The lighthouse keeper of the southern island feeds a single, very old pelican."
    answer = "I have noted what you told me about the keeper."
    with Gateway(hermes) as gateway:
        gateway.chat(lines(first, say(answer)), key="sailors")
        history = ({"role": "user", "content": lines(first, say(answer))}, {"role": "assistant", "content": answer})
        gateway.chat(lines(second, say("And I have noted that about the pelican as well.")), key="sailors", history=history)
        gateway.wait_for_turns(2)
    turns = [row["content"].splitlines()[0] for row in hermes.rows("turn") if row["role"] == "user"]
    assert sorted(turns) == [first, second]


def killed_after(hermes: Home, number: int) -> None:
    """Let a server die right after it has taken over a turn, and look whether the turn and a note are in the store."""
    text = f"Remember the turn with the number {number}: the harbour master of Bergen wears a green hat."
    keep = call("memory", action="add", target="memory", content=f"Note {number}")
    with Gateway(hermes, kill=f"sync_turn:number {number}:") as gateway:
        gateway.chat_until_killed(
            lines(text, keep, say("A green hat, then, I will remember.")), key="harbour", session=f"s-{number}"
        )
    rows = hermes.rows()
    assert [row["content"].splitlines()[0] for row in rows if row["kind"] == "turn"].count(text) == 1
    assert f"Note {number}" in [row["content"] for row in rows if row["kind"] == "entry"]


def test_nothing_is_lost_when_the_server_is_killed_right_after_a_turn(hermes: Home) -> None:
    killed_after(hermes, 0)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_nothing_is_lost_over_two_hundred_kills_during_turns_and_notes(hermes: Home) -> None:
    begin: Call = ("initialize_all", [], {"session_id": "s-1", "platform": "cli", "agent_workspace": "hermes"})
    expected = []
    for number in range(100):
        text = f"Remember the turn with the number {number}: the harbour master of Bergen wears a green hat."
        hermes.manage_until_killed("sync_turn:", begin, ("sync_all", [text, "ok"], {}), ("flush_pending", [], {"timeout": 30}))
        hermes.manage_until_killed("on_memory_write:", begin, ("!on_memory_write", ["add", "memory", f"Note {number}"], {}))
        expected += [text, f"Note {number}"]
    assert sorted(row["content"] for row in hermes.rows()) == sorted(expected)
