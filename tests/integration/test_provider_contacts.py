"""Contacts of messaging platforms share themes and nothing else; and who cannot be told apart has to wait."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from hermes_mnemosyne.hermes.provider import MnemosyneProvider
from tests.integration.provider_home import BOAT, QUESTION, REPLY, SESSION, HermesHome, answer_of, transcript

ADA = {
    "platform": "telegram",
    "gateway_session_key": "agent:main:telegram:dm:4711",
    "chat_type": "dm",
    "user_id": "4711",
    "chat_id": "4711",
}
BOB = {
    "platform": "signal",
    "gateway_session_key": "agent:main:signal:dm:+491701234567",
    "chat_type": "dm",
    "user_id": "+491701234567",
}
ROOM = {
    "platform": "telegram",
    "gateway_session_key": "agent:main:telegram:group:-100200:7:4711",
    "chat_type": "group",
    "thread_id": "7",
}
HALL = {
    "platform": "telegram",
    "gateway_session_key": "agent:main:telegram:group:-100200:8:4711",
    "chat_type": "group",
    "thread_id": "8",
}
# No name that the random digits of an id could spell.
CONTACTS = {"olga": ADA, "bob": BOB, "corridor": ROOM, "balcony": HALL}


def contact(hermes: HermesHome, who: dict[str, Any], session: str = SESSION) -> MnemosyneProvider:
    return hermes.start(session, **{"chat_id": "-100200", **who} if who in (ROOM, HALL) else who)


def tell(provider: MnemosyneProvider, text: str = BOAT, session: str = SESSION) -> None:
    provider.sync_turn(text, REPLY, session_id=session)


def test_no_contact_sees_another_ones_memory_on_any_way(hermes: HermesHome) -> None:
    for number, (name, who) in enumerate(CONTACTS.items()):
        provider = contact(hermes, who, f"20261130_12445{number}_aaaaaa")
        tell(
            provider,
            f"The sailing boat Perelandra of {name} lies in the harbour number {number}.",
            f"20261130_12445{number}_aaaaaa",
        )
        provider.on_memory_write("add", "memory", f"{name} keeps the key of Perelandra under the stone {number}", {})
    hermes.start().on_memory_write("add", "memory", "The owner's boat Perelandra needs paint", {})
    for name, who in CONTACTS.items():
        provider = contact(hermes, who, "20261201_080000_bbbbbb")
        shown = [provider.prefetch("Where does the sailing boat Perelandra lie, in which harbour?")]
        shown += [
            provider.handle_tool_call(tool, {"query": "Perelandra", "scope": scope, "limit": 20})
            for tool in ("recall_memory", "recall_conversation")
            for scope in ("current", "all", "session", "hermes", "whatsapp-dm", "external-group", "_bench")
        ]
        text = "\n".join(shown)
        assert name in text
        assert all(other not in text for other in [*CONTACTS, "owner"] if other != name)
        assert "1 memories and 2 messages" in provider.system_prompt_block()


def test_the_owner_sees_no_contacts_memory(hermes: HermesHome) -> None:
    hermes.configure(readable_themes=["*"])
    tell(contact(hermes, ADA))
    owner = hermes.start("20261201_080000_bbbbbb")
    assert owner.prefetch(QUESTION) == ""
    for scope in ("all", "whatsapp-dm"):
        assert "Perelandra" not in owner.handle_tool_call("recall_conversation", {"query": "Perelandra", "scope": scope})


def test_a_contact_stays_within_its_theme_whatever_the_owner_may_read(hermes: HermesHome) -> None:
    hermes.configure(readable_themes=["*", "hermes"])
    hermes.start().on_memory_write("add", "memory", BOAT, {})
    provider = contact(hermes, ADA)
    for scope in ("all", "hermes"):
        assert answer_of(provider, "recall_memory", query="Perelandra", scope=scope)["results"] == []


def test_an_alias_gives_the_owners_own_chat_the_main_theme(hermes: HermesHome) -> None:
    hermes.configure(identity_aliases={ADA["gateway_session_key"]: "hermes"})
    tell(contact(hermes, ADA))
    assert BOAT in hermes.start("20261201_080000_bbbbbb").prefetch(QUESTION)


def test_rows_of_contacts_stay_on_this_machine_and_name_nobody(hermes: HermesHome) -> None:
    provider = contact(hermes, ADA, "agent:main:telegram:dm:4711")
    tell(provider, session="agent:main:telegram:dm:4711")
    provider.on_session_end(transcript((BOAT, REPLY)))
    provider.on_memory_write(
        "add", "memory", "Likes gulls", {"session_id": "agent:main:telegram:dm:4711", "platform": "telegram"}
    )
    provider.prefetch("Who feeds the gulls of the lighthouse?")
    rows = [*hermes.turns(), *hermes.entries()]
    assert len(rows) == 3
    assert {row.visibility for row in rows} == {"local"}
    assert "4711" not in repr(rows)
    close()
    for file in hermes.path.rglob("*"):
        assert not file.is_file() or b"telegram:dm" not in file.read_bytes(), file


# -- without the key -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["missing", "another", "torn"])
def test_without_the_right_key_nothing_is_recalled_and_nothing_is_lost(
    hermes: HermesHome, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(contact(hermes, ADA))
    hermes.memory()
    close()
    key = hermes.store.with_suffix(".key")
    right = key.read_bytes()
    key.unlink()
    if fault != "missing":
        key.write_bytes(b"x" * (32 if fault == "another" else 7))
        key.chmod(0o600)

    provider = contact(hermes, ADA, "20261201_080000_bbbbbb")
    assert provider.prefetch(QUESTION) == ""
    for tool in ("recall_conversation", "recall_memory"):
        reply = answer_of(provider, tool, query="Perelandra")
        assert reply["results"] == []
        assert "key" in reply["error"]
    assert "key" in provider.system_prompt_block()
    tell(provider, "The gulls of Bergen steal the fish from the market every day.", "20261201_080000_bbbbbb")
    provider.on_session_end(transcript(("The gulls of Bergen steal the fish from the market every day.", REPLY)))
    provider.on_memory_write("add", "user", "Likes gulls", {})
    assert [turn.content for turn in hermes.turns()] == [BOAT, REPLY]
    monkeypatch.setenv("HERMES_HOME", str(hermes.path))
    assert provider.get_status_config({})["waiting for the key"] == 3

    close()
    key.write_bytes(right)
    key.chmod(0o600)
    again = contact(hermes, ADA, "20261202_080000_cccccc")
    assert "gulls" in again.prefetch("What do the gulls of Bergen steal from the market?")
    assert answer_of(again, "recall_memory", query="gulls")["count"] == 1
    assert len(hermes.turns()) == 4
    assert len({turn.subject for turn in hermes.turns()}) == 1
    waiting = hermes.store.with_name("mnemosyne.waiting.db")
    assert b"telegram:dm" not in waiting.read_bytes()


def test_what_waited_for_the_key_names_nobody_in_the_store(hermes: HermesHome) -> None:
    hermes.start()
    hermes.memory()
    close()
    key = hermes.store.with_suffix(".key")
    right = key.read_bytes()
    key.unlink()
    who = {**ADA, "parent_session_id": "agent:main:telegram:dm:4711:parent"}
    session = "agent:main:telegram:dm:4711"
    provider = contact(hermes, who, session)
    tell(provider, session=session)
    provider.on_session_end(transcript((BOAT, REPLY)))
    provider.on_memory_write("add", "memory", "Likes gulls", {"session_id": session})
    provider.on_delegation("Count the gulls", "There are many", child_session_id=f"{session}:child")
    close()
    key.write_bytes(right)
    key.chmod(0o600)
    hermes.start()
    assert len(hermes.turns()) == 3
    close()
    for file in hermes.path.rglob("*"):
        assert not file.is_file() or b"4711" not in file.read_bytes(), file


def test_the_memory_tool_of_the_owner_waits_for_the_key_too(hermes: HermesHome) -> None:
    hermes.start().on_memory_write("add", "memory", "CI is slow", {})
    hermes.memory()
    close()
    key = hermes.store.with_suffix(".key")
    right = key.read_bytes()
    key.unlink()
    provider = hermes.start()
    provider.on_memory_write("replace", "memory", "CI takes 40 minutes", {"old_text": "CI is slow"})
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    assert hermes.noted() == ["CI is slow"]
    assert hermes.said() == sorted([BOAT, REPLY])
    close()
    key.write_bytes(right)
    key.chmod(0o600)
    hermes.start()
    assert hermes.noted() == ["CI takes 40 minutes"]


def close() -> None:
    """End the engines of this process, as its end would."""
    from hermes_mnemosyne import registry

    registry.close_all()


def test_the_spool_of_contacts_holds_hashes_only(hermes: HermesHome) -> None:
    provider = contact(hermes, ADA)
    blocker = sqlite3.connect(hermes.store, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    tell(provider)
    waiting = hermes.store.with_name("mnemosyne.spool.db").read_bytes()
    blocker.execute("ROLLBACK")
    blocker.close()
    assert b"Perelandra" in waiting or b"Perelandra" in hermes.store.with_name("mnemosyne.spool.db-wal").read_bytes()
    assert b"4711" not in waiting
    assert hermes.said() == sorted([BOAT, REPLY])
