"""No exception and no wait leaves a hook, and a provider costs nothing that stays."""

from __future__ import annotations

import contextvars
import gc
import inspect
import json
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne._errors import StoreFull
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.hermes.provider import MnemosyneProvider, boundary, capturing
from hermes_mnemosyne.hermes.provider import provider as provider_module
from tests.integration.provider_home import BOAT, QUESTION, REPLY, SESSION, HermesHome, answer_of, exchange, transcript

HOOKS: dict[str, Callable[[MnemosyneProvider], Any]] = {
    "system_prompt_block": lambda p: p.system_prompt_block(),
    "on_turn_start": lambda p: p.on_turn_start(1, BOAT),
    "prefetch": lambda p: p.prefetch(QUESTION, session_id=""),
    "queue_prefetch": lambda p: p.queue_prefetch(QUESTION, session_id=SESSION),
    "recall_status": lambda p: p.recall_status(),
    "handle_tool_call": lambda p: p.handle_tool_call("recall_memory", {"query": "boat"}),
    "sync_turn": lambda p: p.sync_turn(BOAT, REPLY, session_id=SESSION, messages=transcript((BOAT, REPLY))),
    "on_memory_write": lambda p: p.on_memory_write("add", "memory", BOAT, metadata={}),
    "on_pre_compress": lambda p: p.on_pre_compress(transcript((BOAT, REPLY))),
    "on_session_end": lambda p: p.on_session_end(transcript((BOAT, REPLY))),
    "on_session_switch": lambda p: p.on_session_switch(SESSION, parent_session_id="", reset=False, reason="compression"),
    "on_delegation": lambda p: p.on_delegation("task", "result", child_session_id="x"),
    "shutdown": lambda p: p.shutdown(),
    "is_available": lambda p: p.is_available(),
    "unavailable_reason": lambda p: p.unavailable_reason(),
    "identity_signature": lambda p: p.identity_signature(),
    "backup_paths": lambda p: p.backup_paths(),
    "get_status_config": lambda p: p.get_status_config({}),
    "get_config_schema": lambda p: p.get_config_schema(),
    "get_tool_schemas": lambda p: p.get_tool_schemas(),
}


@pytest.mark.parametrize("name", HOOKS)
def test_a_provider_that_was_never_initialised_answers_every_hook(name: str, home: Path) -> None:
    HOOKS[name](MnemosyneProvider())
    assert list(home.rglob("*")) == []


def test_every_hook_may_come_after_shutdown_and_in_any_order(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.shutdown()
    for call in [*HOOKS.values(), *reversed(HOOKS.values())]:
        call(provider)
    hermes.begin(provider)
    assert BOAT in hermes.said()


@pytest.mark.parametrize(
    "name", ["prefetch", "handle_tool_call", "sync_turn", "on_memory_write", "on_session_end", "system_prompt_block"]
)
def test_a_fault_of_our_own_is_counted_logged_and_hidden_from_the_host(
    hermes: HermesHome, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    provider = hermes.start()

    def broken(*_args: Any, **_kwargs: Any) -> None:
        raise ZeroDivisionError("a fault of our own")

    for method in ("recall", "submit", "counts"):
        monkeypatch.setattr(Memory, method, broken)
    before = boundary.failures().get(name, 0)
    HOOKS[name](provider)
    assert boundary.failures()[name] == before + 1
    assert "a fault of our own" in caplog.text
    assert "Traceback" in caplog.text


def test_what_goes_wrong_with_every_hook_is_counted_each_time_and_told_in_one_line(
    hermes: HermesHome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    provider = hermes.start()

    def full(*_args: Any, **_kwargs: Any) -> None:
        raise StoreFull("the disk is full: free some space")

    monkeypatch.setattr(Memory, "submit", full)
    monkeypatch.setattr(boundary._current(), "told", {})  # noqa: SLF001 - another test may have had this trouble before
    before = boundary.failures().get("sync_turn", 0)
    for number in range(20):
        provider.sync_turn(*exchange(number), session_id=SESSION)
    assert boundary.failures()["sync_turn"] == before + 20
    told = [record for record in caplog.records if "sync_turn failed" in record.message and record.levelname == "WARNING"]
    assert [record.message for record in told] == ["sync_turn failed: the disk is full: free some space"]
    assert "Traceback" not in caplog.text


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=60)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "user"]) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
MESSAGES = (
    st.lists(
        st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool", "system"]) | ANYTHING, "content": ANYTHING})
        | ANYTHING,
        max_size=4,
    )
    | ANYTHING
)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> MnemosyneProvider:
    provider = HermesHome(tmp_path_factory.mktemp("any")).start()
    provider.system_prompt_block()
    return provider


@given(data=st.data())
def test_whatever_a_host_sends_is_taken_without_an_exception(data: st.DataObject, started: MnemosyneProvider) -> None:
    faults = hook_failures()
    one = lambda: data.draw(ANYTHING)  # noqa: E731
    started.sync_turn(one(), one(), session_id=one(), messages=data.draw(MESSAGES))
    started.on_session_end(data.draw(MESSAGES))
    started.on_pre_compress(data.draw(MESSAGES))
    started.on_memory_write(one(), one(), one(), one())
    started.on_delegation(one(), one(), child_session_id=one())
    started.on_turn_start(one(), one())
    started.on_session_switch(one(), parent_session_id=one(), reset=data.draw(st.booleans()), reason=one())
    assert isinstance(started.prefetch(one(), session_id=one()), str)
    assert isinstance(json.loads(started.handle_tool_call("recall_memory", one())), dict)
    assert hook_failures() == faults


def hook_failures() -> dict[str, int]:
    return {name: number for name, number in boundary.failures().items() if name in HOOKS}


# -- nothing waits ---------------------------------------------------------------------------------------------------------------


def test_a_recall_that_hangs_is_left_behind(hermes: HermesHome, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = hermes.start()
    go_on = threading.Event()
    for limit in ("START_SECONDS", "PREFETCH_SECONDS", "TOOL_SECONDS"):
        monkeypatch.setattr(provider_module, limit, 0.05)

    def hanging(*_args: Any, **_kwargs: Any) -> None:
        assert go_on.wait(60)

    monkeypatch.setattr(Memory, "recall", hanging)
    try:
        for _ in range(boundary.HELPERS + 2):
            assert provider.prefetch(QUESTION) == ""
        assert "answer" in answer_of(provider, "recall_memory", query="boat")["error"]
        assert boundary.failures()["prefetch"] >= boundary.HELPERS
        provider.sync_turn(BOAT, REPLY, session_id=SESSION)
        monkeypatch.setattr(capturing, "LINEAGE_SECONDS", 0.05)
        provider.on_session_end(transcript((BOAT, REPLY), exchange(0)))
        assert provider.system_prompt_block()
    finally:
        go_on.set()
    assert hermes.said() == sorted([BOAT, REPLY, *exchange(0)])


def test_a_start_whose_store_hangs_goes_on_behind_the_hosts_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hermes = HermesHome(tmp_path / "hermes")
    monkeypatch.setattr(provider_module, "START_SECONDS", 0.05)
    go_on, done = threading.Event(), threading.Event()
    settle = provider_module.settle

    def hanging(session: Any) -> Any:
        assert go_on.wait(60)
        settled = settle(session)
        done.set()
        return settled

    monkeypatch.setattr(provider_module, "settle", hanging)
    provider = hermes.start()
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    go_on.set()
    assert done.wait(60)
    assert hermes.said() == sorted([BOAT, REPLY])


def test_a_contact_whose_store_hangs_at_the_start_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hermes = HermesHome(tmp_path / "hermes")
    monkeypatch.setattr(provider_module, "START_SECONDS", 0.05)
    monkeypatch.setattr(provider_module, "RETRY_SECONDS", 3600.0)
    settle = provider_module.settle

    def late(_session: Any) -> None:
        raise boundary.Overdue

    who = {"platform": "telegram", "gateway_session_key": "agent:main:telegram:dm:4711", "user_id": "4711"}
    monkeypatch.setattr(provider_module, "settle", late)
    provider = hermes.start(**who)
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    assert provider.prefetch(QUESTION) == ""
    monkeypatch.setattr(provider_module, "settle", settle)
    monkeypatch.setattr(provider_module, "START_SECONDS", 30.0)
    assert BOAT in hermes.start("20261201_080000_bbbbbb", **who).prefetch(QUESTION)


def test_hooks_write_beside_a_process_that_holds_the_lock(hermes: HermesHome) -> None:
    provider = hermes.start()
    blocker = sqlite3.connect(hermes.store, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        provider.sync_turn(BOAT, REPLY, session_id=SESSION)
        provider.on_memory_write("add", "memory", "CI is slow", {})
        later = hermes.start("20261201_080000_bbbbbb")
        assert BOAT in later.prefetch(QUESTION)
    finally:
        blocker.execute("ROLLBACK")
        blocker.close()
    assert hermes.said() == sorted([BOAT, REPLY])
    assert hermes.noted() == ["CI is slow"]


def test_the_helper_of_a_call_sees_the_callers_context() -> None:
    profile: contextvars.ContextVar[str] = contextvars.ContextVar("profile", default="none")
    profile.set("work")
    assert boundary.within(30, profile.get) == "work"


@pytest.mark.parametrize("content", [b"no database at all" * 500, b"SQLite format 3\0" + b"\0" * 4000])
def test_a_file_that_is_not_ours_is_left_alone_and_named(hermes: HermesHome, content: bytes) -> None:
    hermes.store.parent.mkdir(parents=True)
    hermes.store.write_bytes(content)
    provider = hermes.start()
    for name in ("sync_turn", "on_memory_write", "on_session_end", "prefetch"):
        HOOKS[name](provider)
    assert str(hermes.store) in provider.system_prompt_block()
    assert str(hermes.store) in answer_of(provider, "recall_memory", query="boat")["error"]
    assert hermes.store.read_bytes() == content


# -- nothing stays ---------------------------------------------------------------------------------------------------------------


def test_starting_again_and_many_providers_add_no_thread_and_no_connection(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn(*exchange(0), session_id=SESSION)
    provider.prefetch(QUESTION)
    hermes.memory()
    threads, connections = threading.active_count(), hermes.memory().stats()["store"]["connections"]
    others = []
    for number in range(200):
        hermes.begin(provider, f"20261130_124458_{number:06x}")
        others.append(hermes.start(f"20261130_134458_{number:06x}"))
        provider.prefetch(QUESTION)
    gc.collect()
    assert threading.active_count() <= threads
    assert hermes.memory().stats()["store"]["connections"] <= max(connections, 8)


def test_a_provider_binds_to_the_session_of_its_last_start(hermes: HermesHome) -> None:
    provider = hermes.start()
    hermes.begin(provider, "20261201_080000_bbbbbb", agent_identity="marketing")
    provider.sync_turn(BOAT, REPLY)
    assert {(turn.theme, turn.session_id) for turn in hermes.turns()} == {("marketing", "20261201_080000_bbbbbb")}


def test_many_threads_may_use_one_provider(hermes: HermesHome) -> None:
    provider = hermes.start()
    faults = boundary.failures()
    start = threading.Barrier(8)

    def use(number: int) -> None:
        start.wait()
        for step in range(5):
            provider.on_memory_write("add", "memory", f"Note {number} of step {step}", {})
            provider.sync_turn(*exchange(number * 10 + step), session_id=SESSION)
            provider.handle_tool_call("recall_memory", {"query": f"note {number}"})
            provider.prefetch(QUESTION)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hermes.noted()) == 40
    assert len(hermes.said()) == 80
    assert boundary.failures() == faults


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_uses_the_providers_of_its_parent(hermes: HermesHome) -> None:
    provider = hermes.start()
    provider.sync_turn(*exchange(0), session_id=SESSION)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            provider.sync_turn(*exchange(1), session_id=SESSION)
            found = provider.handle_tool_call("recall_conversation", {"query": "gulls lighthouse"})
            status = 0 if json.loads(found)["count"] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(hermes.said()) == 4


# -- what the host probes --------------------------------------------------------------------------------------------------------


def test_the_signatures_are_those_the_host_looks_for() -> None:
    parameters = {
        name: inspect.signature(getattr(MnemosyneProvider, name)).parameters
        for name in ("sync_turn", "on_memory_write", "prefetch", "on_session_switch")
    }
    assert "messages" in parameters["sync_turn"]
    assert list(parameters["on_memory_write"])[1:] == ["action", "target", "content", "metadata"]
    assert "session_id" in parameters["prefetch"]
    assert parameters["on_session_switch"]["kwargs"].kind is inspect.Parameter.VAR_KEYWORD


def test_settings_are_saved_into_the_hosts_configuration_and_keep_the_rest(hermes: HermesHome) -> None:
    hermes.path.mkdir()
    config = hermes.path / "config.yaml"
    config.write_text(
        "# mine\nmemory:\n  provider: mnemosyne  # active\nplugins:\n  mnemosyne:\n    future_key: 7\n", encoding="utf-8"
    )
    MnemosyneProvider().save_config({"prefetch_limit": "3"}, str(hermes.path))
    text = config.read_text(encoding="utf-8")
    for part in ("# mine", "provider: mnemosyne  # active", "future_key: 7", "prefetch_limit: 3"):
        assert part in text


def test_files_outside_the_home_are_named_for_its_backup(
    hermes: HermesHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(hermes.path))
    provider = hermes.start()
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    assert provider.backup_paths() == []
    hermes.configure(db=str(tmp_path / "elsewhere" / "mine.db"))
    hermes.begin(provider)
    provider.on_memory_write("add", "memory", "CI is slow", {})
    names = {Path(path).name for path in provider.backup_paths()}
    assert {"mine.db", "mine.key"} <= names


def test_the_identity_signature_changes_with_the_settings_of_identity_only(
    hermes: HermesHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(hermes.path))
    signatures = []
    for settings in ({}, {"prefetch_limit": 3}, {"identity_aliases": {"agent:main:telegram:dm:1": "hermes"}}):
        hermes.configure(**settings)
        signatures.append(json.dumps(MnemosyneProvider().identity_signature()))
    assert signatures[0] == signatures[1] != signatures[2]


def test_the_status_shows_place_and_counts(hermes: HermesHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(hermes.path))
    assert "first session" in MnemosyneProvider().get_status_config({})["store"]
    hermes.start().sync_turn(BOAT, REPLY, session_id=SESSION)
    hermes.memory()
    status = MnemosyneProvider().get_status_config({"note": "kept"})
    assert (status["database"], status["turns"], status["memories"], status["note"]) == (str(hermes.store), 2, 0, "kept")
