"""The provider `pgvector` on a database: what a fleet's agents remember, read of each other, and leave as provenance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne.doctor import examine, of_server
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.hermes.provider import MnemosyneProvider
from tests.integration.provider_home import exchange, transcript
from tests.postgres.databases import PgDatabase
from tests.postgres.fleet_home import SESSION, FleetHome, drained, engine_of, eventually, noted, operator, said

psycopg = pytest.importorskip("psycopg")

BOAT = "Ada's sailing boat is called Perelandra and lies in the old harbour of Bergen."
REPLY = "That is good to know, I shall remember the boat and where it lies."
CHILD = "20261130_124459_aaaaaa"


@pytest.fixture
def fleet(tmp_path: Path, postgres: PgDatabase) -> FleetHome:
    return FleetHome(tmp_path / "hermes", postgres.dsn)


def started(fleet: FleetHome, session_id: str = SESSION, **kwargs: Any) -> MnemosyneProvider:
    """Return a provider whose session is complete."""
    provider = fleet.start(session_id, **kwargs)
    settle(provider)
    return provider


def settle(provider: MnemosyneProvider) -> None:
    """Wait until the provider's session is complete and what it wrote is in the database."""
    eventually(lambda: provider._settled)  # noqa: SLF001 - nothing shows it but what is remembered
    eventually(lambda: drained(engine_of(provider)))


def answer(provider: MnemosyneProvider, tool: str = "recall_memory", **args: Any) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(provider.handle_tool_call(tool, args))
    return reply


def rows(postgres: PgDatabase, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(postgres.admin_dsn) as db:
        return list(db.execute(query).fetchall())


def test_turns_and_mirrored_writes_are_stored_once_and_recalled(fleet: FleetHome) -> None:
    provider = started(fleet)
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    provider.on_memory_write("add", "memory", "Ada prefers tea from Assam", {})
    provider.on_session_end(transcript((BOAT, REPLY)))
    settle(provider)
    assert said(fleet.dsn) == [BOAT, REPLY]
    assert noted(fleet.dsn) == ["Ada prefers tea from Assam"]
    assert "Assam" in provider.prefetch("What kind of tea does Ada prefer?")


def test_a_result_has_the_fields_of_the_reference(fleet: FleetHome) -> None:
    provider = started(fleet)
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    provider.on_memory_write("add", "user", "The boat Perelandra is blue", {})
    settle(provider)
    [memory] = answer(provider, query="Perelandra")["results"]
    assert set(memory) == {"id", "agent_identity", "target", "ts", "score", "content", "rrf_score"}
    assert (memory["agent_identity"], memory["target"], memory["score"]) == ("hermes", "user", None)
    turn, *_ = answer(provider, "recall_conversation", query="Perelandra")["results"]
    assert set(turn) == {"id", "agent_identity", "session_id", "role", "ts", "score", "content", "rrf_score"}
    assert (turn["role"], turn["session_id"]) == ("user", SESSION)


def test_agents_read_the_ordinary_themes_of_the_fleet_unless_that_is_narrowed(fleet: FleetHome, tmp_path: Path) -> None:
    marketing = started(fleet, gateway_session_key="marketing")
    marketing.on_memory_write("add", "memory", "The campaign Perelandra begins in May", {})
    settle(marketing)
    sales = started(fleet, "20261130_124458_b00000", gateway_session_key="sales")
    assert answer(sales, query="Perelandra")["count"] == 0
    assert answer(sales, query="Perelandra", scope="all")["results"][0]["agent_identity"] == "marketing"
    assert answer(sales, query="Perelandra", scope="Marketing")["count"] == 1
    narrow = FleetHome(tmp_path / "narrow", fleet.dsn)
    narrow.configure(readable_themes=["sales"])
    alone = started(narrow, "20261130_124458_c00000", gateway_session_key="sales")
    assert answer(alone, query="Perelandra", scope="all")["count"] == 0
    assert answer(alone, query="Perelandra", scope="marketing")["count"] == 0


def test_contacts_see_their_own_rows_alone_and_their_themes_cannot_be_named(fleet: FleetHome) -> None:
    ada, bob = ("agent:main:telegram:dm:4711", "agent:main:whatsapp:dm:4712")
    first = started(fleet, "20261130_124458_d00000", gateway_session_key=ada)
    first.sync_turn(BOAT, REPLY, session_id="20261130_124458_d00000")
    settle(first)
    second = started(fleet, "20261130_124458_e00000", gateway_session_key=bob)
    assert answer(first, "recall_conversation", query="Perelandra")["results"][0]["content"] == BOAT
    assert answer(second, "recall_conversation", query="Perelandra", scope="all")["count"] == 0
    main = started(fleet)
    assert answer(main, "recall_conversation", query="Perelandra", scope="all")["count"] == 0
    assert "whatsapp-dm" in answer(main, query="x", scope="whatsapp-dm")["error"]
    assert answer(main, query="x", scope="session")["error"]


def test_an_agent_that_is_named_like_a_theme_of_contacts_is_told_what_is_wrong(fleet: FleetHome) -> None:
    settle(started(fleet))
    provider = fleet.start("20261130_124458_c00000", gateway_session_key="WhatsApp-DM")
    engine = engine_of(provider)
    provider.sync_turn(BOAT, REPLY, session_id="20261130_124458_c00000")
    eventually(lambda: "no contact" in provider.system_prompt_block())
    assert "no contact" in answer(provider, query="Perelandra")["error"]
    settle(started(fleet, "20261130_124458_c00001", gateway_session_key="agent:main:telegram:dm:4711"))
    assert said(fleet.dsn) == []
    assert engine.waiting.status()["quarantined"] == 1
    with Memory.at(engine.place, settings=engine.settings) as memory:
        shown = [f"{check.detail}: {check.remedy}" for check in examine(memory, home=fleet.path).checks]
    assert any("name no contact" in text for text in shown)


def test_what_the_doctor_of_a_fleet_advises_is_of_its_command() -> None:
    assert of_server("run `mnemosyne reindex`, then mnemosyne doctor again") == (
        "run `hermes-pgvector reindex`, then hermes-pgvector doctor again"
    )
    assert of_server("hermes_mnemosyne stats; the schema mnemosyne") == "hermes_mnemosyne stats; the schema mnemosyne"


def test_a_host_with_another_key_says_so_and_its_contacts_wait(fleet: FleetHome, tmp_path: Path) -> None:
    settle(started(fleet))
    other = FleetHome(tmp_path / "other", fleet.dsn)
    provider = other.start("20261130_124458_f00000", gateway_session_key="agent:main:telegram:dm:4711")
    provider.sync_turn(BOAT, REPLY, session_id="20261130_124458_f00000")
    engine = engine_of(provider)
    eventually(lambda: engine.contact.is_there and engine.key.problems())
    assert said(fleet.dsn) == []
    assert engine.waiting.status()["count"] == 1
    right = engine_of(fleet.start()).key.path
    engine.key.path.write_bytes(right.read_bytes())
    again = other.start("20261130_124458_f00001", gateway_session_key="agent:main:telegram:dm:4711")
    settle(again)
    assert said(fleet.dsn) == [BOAT, REPLY]


def test_hosts_with_homes_of_one_path_do_not_retire_each_others_lines(fleet: FleetHome, tmp_path: Path) -> None:
    fleet.note("MEMORY.md", "A line of the first host", "A line of both hosts")
    settle(started(fleet))
    first, second = tmp_path / "first", tmp_path / "hermes"
    second.rename(first)
    fleet.note("MEMORY.md", "A line of the second host", "A line of both hosts")
    settle(started(fleet, "20261130_124458_a00000"))
    assert noted(fleet.dsn) == ["A line of both hosts", "A line of the first host", "A line of the second host"]
    fleet.note("MEMORY.md", "A line of the second host")
    settle(started(fleet, "20261130_124458_a00001"))
    assert noted(fleet.dsn) == ["A line of both hosts", "A line of the first host", "A line of the second host"]


def test_a_host_without_the_key_mirrors_its_own_files_all_the_same(fleet: FleetHome, tmp_path: Path) -> None:
    settle(started(fleet))
    other = FleetHome(tmp_path / "other", fleet.dsn)
    other.note("MEMORY.md", "A line of the other host")
    provider = started(other)
    provider.on_memory_write("add", "memory", "A write on the other host", {})
    settle(provider)
    assert noted(fleet.dsn) == ["A line of the other host", "A write on the other host"]


def test_the_key_of_the_fleet_may_lie_elsewhere(fleet: FleetHome, tmp_path: Path) -> None:
    fleet.configure(subject_key_file=str(tmp_path / "shared" / "fleet.key"))
    settle(started(fleet))
    assert (tmp_path / "shared" / "fleet.key").stat().st_mode & 0o777 == 0o600
    other = FleetHome(tmp_path / "other", fleet.dsn)
    other.configure(subject_key_file=str(tmp_path / "shared" / "fleet.key"))
    assert engine_of(started(other)).key.problems() == []


def test_agents_and_delegations_are_noted(fleet: FleetHome, postgres: PgDatabase) -> None:
    provider = started(fleet, gateway_session_key="agent-7")
    provider.on_delegation("Count the gulls of the old harbour", "There are many gulls in it", child_session_id=CHILD)
    settle(provider)
    assert rows(postgres, "SELECT theme, kind, first_seen <= last_seen FROM mnemosyne.agents") == [("agent-7", "worker", True)]
    [(parent, child, session, of_child, kind, attrs)] = rows(
        postgres, "SELECT parent_theme, child_theme, parent_session_id, child_session_id, kind, attrs FROM mnemosyne.agent_edges"
    )
    assert (parent, child, session, of_child, kind) == ("agent-7", None, SESSION, CHILD, "delegated")
    assert (attrs["task"], attrs["result_chars"]) == ("Count the gulls of the old harbour", 26)
    [(of_turn, text)] = rows(postgres, "SELECT parent_session_id, content FROM mnemosyne.turns")
    assert of_turn == SESSION
    assert text.startswith("[delegation] task: Count the gulls")


def test_the_turn_of_a_delegation_honours_sync_turns_and_its_words_stay_away_too(fleet: FleetHome, postgres: PgDatabase) -> None:
    fleet.configure(sync_turns=False)
    provider = started(fleet)
    provider.on_delegation("Count the gulls of the old harbour", "There are many gulls in it", child_session_id=CHILD)
    settle(provider)
    assert said(fleet.dsn) == []
    assert rows(postgres, "SELECT attrs ->> 'task' FROM mnemosyne.agent_edges") == [("",)]


def test_a_delegated_task_is_forgotten_with_its_turn(fleet: FleetHome, postgres: PgDatabase) -> None:
    provider = started(fleet)
    provider.on_delegation("Count the gulls of the old harbour", "There are many gulls in it", child_session_id=CHILD)
    settle(provider)
    with operator(fleet.dsn) as memory:
        [turn] = memory.list(kinds=("turn",))
        memory.forget(turn.uid)
    assert rows(postgres, "SELECT attrs ->> 'task' FROM mnemosyne.agent_edges") == [("",)]


def test_a_context_that_may_not_write_leaves_nothing(fleet: FleetHome, postgres: PgDatabase) -> None:
    provider = started(fleet, agent_context="cron")
    provider.sync_turn(BOAT, REPLY, session_id=SESSION)
    provider.on_delegation("Count the gulls of the old harbour", "There are many gulls in it", child_session_id=CHILD)
    settle(provider)
    assert said(fleet.dsn) == []
    assert rows(postgres, "SELECT count(*) FROM mnemosyne.agents") == [(0,)]


def test_the_prompt_counts_what_is_there(fleet: FleetHome) -> None:
    provider = started(fleet)
    provider.sync_turn(*exchange(1), session_id=SESSION)
    settle(provider)
    assert "2 messages" in started(fleet).system_prompt_block()


def test_many_providers_share_one_pool(fleet: FleetHome, postgres: PgDatabase) -> None:
    providers = [started(fleet, f"20261130_124458_{number:06x}") for number in range(20)]
    for number, provider in enumerate(providers):
        provider.sync_turn(*exchange(number), session_id=f"20261130_124458_{number:06x}")
    assert len({id(engine_of(provider)) for provider in providers}) == 1
    [(count,)] = rows(
        postgres, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'mnemosyne'"
    )
    assert count <= 4
    settle(providers[0])
    assert len(said(fleet.dsn)) == 40


def test_a_password_is_never_shown(fleet: FleetHome, tmp_path: Path) -> None:
    secret = "s3cret-w0rd"
    home = FleetHome(tmp_path / "secret", f"host=127.0.0.1 port=9 user=a dbname=d password={secret}")
    provider = home.start()
    shown = [provider.system_prompt_block(), provider.handle_tool_call("recall_memory", {"query": "x"})]
    memory = operator(home.dsn)
    shown += [memory.place, repr(memory.engine.place), json.dumps(memory.stats(), default=str)]
    assert all(secret not in text for text in shown)
    assert fleet.path != home.path
