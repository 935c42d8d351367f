"""The store mirrors the host's own memory: its files and the committed writes of its tool."""

from __future__ import annotations

import pytest

from hermes_mnemosyne.values import Entry
from tests.integration.provider_home import HermesHome


def contents(hermes: HermesHome) -> list[tuple[str, str]]:
    return sorted((entry.target, entry.content) for entry in hermes.entries())


def everything(hermes: HermesHome) -> list[Entry]:
    return sorted(hermes.entries(), key=lambda entry: entry.uid)


def test_the_files_are_in_the_store_after_a_start(hermes: HermesHome) -> None:
    hermes.note("MEMORY.md", "Project uses uv", "  CI is slow \n on Mondays  ", "", "Project uses uv")
    hermes.note("USER.md", "Name: Ada")
    hermes.start()
    assert contents(hermes) == [("memory", "CI is slow \n on Mondays"), ("memory", "Project uses uv"), ("user", "Name: Ada")]


def test_lines_changed_by_hand_are_changed_in_the_store(hermes: HermesHome) -> None:
    hermes.note("MEMORY.md", "Project uses uv", "CI is slow")
    hermes.start()
    hermes.note("MEMORY.md", "Project uses uv", "CI takes 40 minutes")
    hermes.start()
    assert contents(hermes) == [("memory", "CI takes 40 minutes"), ("memory", "Project uses uv")]


@pytest.mark.parametrize("left", ["missing", "empty", "unreadable"])
def test_a_file_that_says_nothing_removes_nothing(hermes: HermesHome, left: str) -> None:
    hermes.note("MEMORY.md", "Project uses uv")
    hermes.start()
    file = hermes.path / "memories" / "MEMORY.md"
    file.unlink()
    if left == "empty":
        file.write_text("\n\u00a7\n \n", encoding="utf-8")
    elif left == "unreadable":
        file.write_bytes(b"\xff\xfe\xff")
    hermes.start()
    assert contents(hermes) == [("memory", "Project uses uv")]


def test_an_unchanged_file_is_not_read_into_the_store_again(hermes: HermesHome) -> None:
    hermes.note("MEMORY.md", "Project uses uv", "CI is slow")
    hermes.start()
    memory = hermes.memory()
    [uid] = [entry.uid for entry in hermes.entries() if entry.content == "CI is slow"]
    memory.retire(uid)
    hermes.start()
    assert contents(hermes) == [("memory", "Project uses uv")]


def test_a_forgotten_line_does_not_come_back_from_the_file(hermes: HermesHome) -> None:
    hermes.note("MEMORY.md", "Project uses uv", "CI is slow")
    hermes.start()
    [uid] = [entry.uid for entry in hermes.entries() if entry.content == "CI is slow"]
    assert "still-in:MEMORY.md" in hermes.memory().forget(uid).notes
    hermes.note("MEMORY.md", "Project uses uv", "CI is slow", "A third line")
    hermes.start()
    assert contents(hermes) == [("memory", "A third line"), ("memory", "Project uses uv")]


def test_the_reading_of_files_is_a_setting(hermes: HermesHome) -> None:
    hermes.configure(bulk_sync_on_init=False)
    hermes.note("MEMORY.md", "Project uses uv")
    hermes.start()
    assert contents(hermes) == []


def test_the_files_are_never_read_into_a_theme_of_contacts(hermes: HermesHome) -> None:
    hermes.note("USER.md", "Name: Ada")
    hermes.start(platform="telegram", gateway_session_key="agent:main:telegram:dm:4711", user_id="4711")
    assert contents(hermes) == []


def test_secrets_in_files_are_masked_and_found_again(hermes: HermesHome) -> None:
    hermes.note("MEMORY.md", "The login is password=tremendous-secret on the server")
    hermes.start()
    before = everything(hermes)
    assert "tremendous-secret" not in before[0].content
    hermes.note("MEMORY.md", "The login is password=tremendous-secret on the server", "Another line")
    hermes.start()
    assert [entry.uid for entry in everything(hermes) if entry.content == before[0].content] == [before[0].uid]


def test_two_homes_on_one_theme_leave_each_others_lines_alone(
    hermes: HermesHome, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = HermesHome(tmp_path_factory.mktemp("other"))
    for home in (hermes, other):
        home.configure(db=str(hermes.store))
    hermes.note("MEMORY.md", "Only the first knows this", "Both know this")
    other.note("MEMORY.md", "Only the second knows that", "Both know this")
    states = []
    for _ in range(20):
        hermes.start()
        other.start()
        states.append(everything(hermes))
    assert [entry.content for entry in sorted(states[0], key=lambda entry: entry.content)] == [
        "Both know this",
        "Only the first knows this",
        "Only the second knows that",
    ]
    assert all(state == states[0] for state in states)
    hermes.note("MEMORY.md", "Only the first knows this")
    hermes.start()
    assert ("memory", "Both know this") in contents(hermes)
    other.note("MEMORY.md", "Only the second knows that")
    other.start()
    assert ("memory", "Both know this") not in contents(hermes)


# -- writes of the tool ----------------------------------------------------------------------------------------------------------


def test_additions_replacements_and_removals_leave_the_present_state(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.on_memory_write("add", "user", "Name: Ada", {"write_origin": "assistant_tool"})
    provider.on_memory_write("add", "memory", "CI is slow on Mondays", {})
    provider.on_memory_write("add", "memory", "Project uses uv", {})
    provider.on_memory_write("replace", "memory", "CI takes 40 minutes", {"old_text": "CI is slow"})
    provider.on_memory_write("remove", "memory", "", {"old_text": "uses uv"})
    assert contents(hermes) == [("memory", "CI takes 40 minutes"), ("user", "Name: Ada")]


def test_an_addition_that_comes_twice_is_one_entry(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.on_memory_write("add", "memory", "Project uses uv", {})
    provider.on_memory_write("add", "memory", "Project uses uv", {})
    assert contents(hermes) == [("memory", "Project uses uv")]


def test_the_whole_text_of_the_entry_counts_before_a_part_of_it(hermes: HermesHome) -> None:
    provider = hermes.start()
    for text in ("The cat is called Momo and sleeps a lot", "The cat is called Momo", "Momo"):
        provider.on_memory_write("add", "memory", text, {})
    provider.on_memory_write("remove", "memory", "", {"old_text": "Momo"})
    provider.on_memory_write("remove", "memory", "", {"old_text": "cat", "previous_content": "The cat is called Momo"})
    assert contents(hermes) == [("memory", "The cat is called Momo and sleeps a lot")]


def test_a_replacement_into_a_text_that_exists_leaves_one_entry(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.on_memory_write("add", "memory", "Project uses uv", {})
    provider.on_memory_write("add", "memory", "Project uses pip", {})
    provider.on_memory_write("replace", "memory", "Project uses uv", {"old_text": "uses pip"})
    assert contents(hermes) == [("memory", "Project uses uv")]


def test_a_replacement_without_a_match_is_an_addition(hermes: HermesHome) -> None:
    hermes.start().on_memory_write("replace", "memory", "Project uses uv", {"old_text": "no such text"})
    assert contents(hermes) == [("memory", "Project uses uv")]


@pytest.mark.parametrize("old_text", ["", "   ", None])
def test_a_removal_that_names_nothing_is_refused(hermes: HermesHome, old_text: str | None) -> None:
    provider = hermes.start()
    provider.on_memory_write("add", "memory", "Project uses uv", {})
    provider.on_memory_write("remove", "memory", "", {"old_text": old_text})
    provider.on_memory_write("remove", "memory", "", None)
    assert contents(hermes) == [("memory", "Project uses uv")]


@pytest.mark.parametrize("content", ["", "  \n"])
@pytest.mark.parametrize("action", ["add", "replace"])
def test_a_write_without_content_is_refused(hermes: HermesHome, action: str, content: str) -> None:
    provider = hermes.start()
    provider.on_memory_write("add", "memory", "Project uses uv", {})
    provider.on_memory_write(action, "memory", content, {"old_text": "uv"})
    assert contents(hermes) == [("memory", "Project uses uv")]


@pytest.mark.parametrize(("action", "target"), [("add", "notes"), ("rename", "memory"), ("", ""), (None, None), ([], {})])
def test_a_write_of_an_unknown_kind_changes_nothing(hermes: HermesHome, action: str, target: str) -> None:
    hermes.start().on_memory_write(action, target, "Project uses uv", {})
    assert contents(hermes) == []


def test_a_mirrored_write_and_the_file_that_follows_are_one_entry(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.on_memory_write("add", "memory", "Project uses uv", {})
    before = everything(hermes)
    hermes.note("MEMORY.md", "Project uses uv")
    hermes.start()
    assert [entry.uid for entry in everything(hermes)] == [before[0].uid]
    hermes.note("MEMORY.md", "Something else")
    hermes.start()
    assert contents(hermes) == [("memory", "Something else")]


def test_what_a_person_remembered_by_other_means_survives_the_removal_from_the_file(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.on_memory_write("add", "memory", "Project uses uv", {})
    hermes.memory().remember("Project uses uv")
    provider.on_memory_write("remove", "memory", "", {"old_text": "Project uses uv"})
    assert contents(hermes) == [("memory", "Project uses uv")]


def test_of_the_hosts_metadata_only_what_names_nobody_is_kept(hermes: HermesHome) -> None:
    metadata = {
        "write_origin": "assistant_tool", "execution_context": "foreground", "platform": "telegram", "tool_name": "memory",
        "session_id": "agent:main:telegram:dm:4711", "task_id": "t-1", "tool_call_id": "call_1", "user_id": "4711", "user_name": "Ada",
    }  # fmt: skip
    hermes.start().on_memory_write("add", "memory", "Project uses uv", metadata)
    [entry] = hermes.entries()
    assert set(entry.metadata) == {"write_origin", "execution_context", "platform", "tool_name"}
    assert "4711" not in repr(entry)
