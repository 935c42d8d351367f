"""A database that is down, hangs, refuses or comes back: no hook waits, nothing is lost, nothing is stored twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne._errors import StoreUnavailable
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.hermes.provider import MnemosyneProvider
from scripts.environments import ROOT
from tests.integration.provider_home import exchange
from tests.postgres.databases import PgDatabase
from tests.postgres.fleet_home import SESSION, FleetHome, drained, engine_of, eventually, noted, said, seconds
from tests.postgres.proxy import Proxy
from tests.postgres.server import PrivateServer

pytest.importorskip("psycopg")

# The bound for one call is 0.05 s on a machine of its own; a test shares its machine, and what it shows is that nobody waits for a
# time-out, of which the shortest is a second.
QUICK = 0.5


@pytest.fixture
def fleet(tmp_path: Path, private_postgres: PgDatabase, proxy: Proxy) -> FleetHome:
    home = FleetHome(tmp_path / "hermes", proxy.dsn(private_postgres.dsn))
    home.configure(connect_timeout=2, statement_timeout=2, busy_timeout=2)
    return home


@pytest.fixture
def truth(private_postgres: PgDatabase) -> str:
    """The database by the way that no test disturbs."""
    return private_postgres.dsn


@pytest.fixture(autouse=True)
def _warm(tmp_path: Path) -> None:
    """Import what the first provider of a process imports."""
    provider = FleetHome(tmp_path / "warm", "host=127.0.0.1 port=9 user=a dbname=d").start()
    provider.sync_turn(*exchange(0), session_id=SESSION)
    provider.prefetch("How many gulls?")


def turns(*numbers: int) -> list[str]:
    return [text for number in numbers for text in exchange(number)]


def tell(provider: MnemosyneProvider, *numbers: int) -> None:
    for number in numbers:
        took, _ = seconds(lambda number=number: provider.sync_turn(*exchange(number), session_id=SESSION))  # type: ignore[misc]
        assert took < QUICK


def answer(provider: MnemosyneProvider, query: str, tool: str = "recall_conversation") -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(provider.handle_tool_call(tool, {"query": query}))
    return reply


@pytest.fixture(params=["refuses", "hangs"])
def trouble(request: pytest.FixtureRequest, proxy: Proxy) -> Iterator[str]:
    """What the database does while it is away."""
    yield request.param
    proxy.accept()
    proxy.flow()


def go_away(proxy: Proxy, trouble: str) -> None:
    if trouble == "refuses":
        proxy.refuse()
    else:
        proxy.hang()


def come_back(proxy: Proxy) -> None:
    proxy.accept()
    proxy.flow()


def test_a_session_that_starts_without_a_database_is_quick_and_works_once_it_is_back(
    fleet: FleetHome, truth: str, proxy: Proxy, trouble: str
) -> None:
    go_away(proxy, trouble)
    fleet.note("MEMORY.md", "Ada keeps gulls")
    took, provider = seconds(fleet.start)
    assert took < QUICK
    took, block = seconds(provider.system_prompt_block)
    assert took < QUICK
    assert "unverified" in block
    took, recalled = seconds(lambda: provider.prefetch("How many gulls does the keeper feed?"))
    assert (took < QUICK, recalled) == (True, "")
    tell(provider, 1, 2)
    provider.on_memory_write("add", "user", "Ada is the keeper", {})
    provider.on_session_end([])
    come_back(proxy)
    eventually(lambda: noted(truth) == ["Ada is the keeper", "Ada keeps gulls"] and said(truth) == turns(1, 2))
    eventually(lambda: "4 messages" in fleet.start().system_prompt_block())
    assert answer(provider, "gulls")["count"] > 0


def test_a_session_in_the_middle_goes_on_and_nothing_is_lost(fleet: FleetHome, truth: str, proxy: Proxy, trouble: str) -> None:
    provider = fleet.start()
    tell(provider, 1)
    eventually(lambda: drained(engine_of(provider)))
    go_away(proxy, trouble)
    # The first to ask a server that hangs may find out for all.
    took, _ = seconds(lambda: provider.prefetch("How many gulls does the keeper feed?"))
    assert took < 1.5 + QUICK
    for _ in range(3):
        took, _ = seconds(lambda: provider.prefetch("How many gulls does the keeper feed?"))
        assert took < QUICK
    tell(provider, 2, 3)
    assert said(truth) == turns(1)
    come_back(proxy)
    eventually(lambda: said(truth) == turns(1, 2, 3))


def test_tools_answer_at_once_from_what_waits_or_say_what_is_wrong(fleet: FleetHome, proxy: Proxy) -> None:
    proxy.refuse()
    provider = fleet.start()
    tell(provider, 4)
    took, found = seconds(lambda: answer(provider, "gulls number 4"))
    assert took < QUICK
    assert found["degraded"] == ["store"]
    assert {one["content"] for one in found["results"]} == set(exchange(4))
    took, nothing = seconds(lambda: answer(provider, "zebra"))
    assert took < QUICK
    assert (nothing["results"], nothing["count"]) == ([], 0)
    assert nothing["error"].startswith("pgvector unavailable")
    assert "safe" in nothing["error"]


def test_a_tool_waits_once_for_a_server_that_hangs(fleet: FleetHome, proxy: Proxy) -> None:
    proxy.hang()
    provider = fleet.start()
    seconds(lambda: answer(provider, "zebra"))
    took, nothing = seconds(lambda: answer(provider, "zebra"))
    assert took < QUICK
    assert nothing["error"].startswith("pgvector unavailable")
    proxy.flow()


def test_a_restart_loses_nothing_and_stores_nothing_twice(fleet: FleetHome, truth: str, private_server: PrivateServer) -> None:
    provider = fleet.start()
    for round_number in range(3):
        tell(provider, *range(10 * round_number, 10 * round_number + 5))
        private_server.kill()
        tell(provider, *range(10 * round_number + 5, 10 * round_number + 10))
        private_server.start()
        eventually(lambda: drained(engine_of(provider)))
    assert said(truth) == turns(*range(30))


def test_an_agent_that_is_killed_loses_nothing(fleet: FleetHome, truth: str, proxy: Proxy) -> None:
    fleet.start()
    done: list[int] = []
    for first, is_down in ((0, False), (1000, True)):
        if is_down:
            proxy.refuse()
        command = [sys.executable, "-m", "tests.postgres.fleet_worker", str(fleet.path), fleet.dsn, str(first), "1000"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                done.append(int(line))
                if len(done) % 30 == 0:
                    process.kill()
                    break
            done += [int(line) for line in process.stdout if line.strip().isdigit()]
    proxy.accept()
    provider = fleet.start("20261130_124458_000001")
    eventually(lambda: drained(engine_of(provider)))
    stored = said(truth)
    assert len(stored) == len(set(stored))
    # One more may have been accepted whose number nobody read any more.
    assert set(turns(*done)) <= set(stored)
    assert stored == turns(*sorted({int(text.split()[2].rstrip(":")) for text in stored}))


def test_the_api_queues_while_the_database_is_away_and_keeps_the_order(fleet: FleetHome, truth: str, proxy: Proxy) -> None:
    with Memory.open(fleet.dsn, theme="notes") as memory:
        assert memory.remember("Before the storm").status == "added"
        proxy.refuse()
        waiting = memory.remember("In the storm")
        assert waiting.status == "queued"
        assert memory.stats()["store"]["state"] == "unverified"
        assert [hit.content for hit in memory.recall("storm").hits] == ["In the storm"]
        with pytest.raises(StoreUnavailable):
            memory.recall("calm")
        proxy.accept()
        eventually(lambda: noted(truth) == ["Before the storm", "In the storm"])
        eventually(lambda: memory.engine.ready(1.0))
        assert memory.get(waiting.uid).content == "In the storm"
        assert memory.remember("After the storm").status == "added"


def test_a_wrong_password_is_told_without_showing_it(
    private_server: PrivateServer, private_postgres: PgDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private_server.ask_password("hermes")
    home = FleetHome(tmp_path / "wrong", f"{private_postgres.dsn} password=s3cret-w0rd")
    provider = home.start()
    eventually(lambda: engine_of(provider).contact.state == "away")
    monkeypatch.setenv("HERMES_HOME", str(home.path))
    shown = answer(provider, "zebra")["error"] + json.dumps(provider.get_status_config())
    assert "password" in shown
    assert "s3cret-w0rd" not in shown
    assert "unverified" in shown


def test_a_database_without_the_schema_is_told_with_the_command_to_run(private_server: PrivateServer, tmp_path: Path) -> None:
    home = FleetHome(tmp_path / "bare", private_server.dsn())
    provider = home.start()
    tell(provider, 1)
    eventually(lambda: engine_of(provider).contact.state == "away")
    assert "hermes-pgvector migrate" in answer(provider, "zebra")["error"]
    assert not engine_of(provider).spool.is_empty()


def test_the_spool_refuses_at_its_limit_and_goes_on_by_itself(fleet: FleetHome, truth: str, proxy: Proxy) -> None:
    fleet.configure(spool_max_bytes=4_000)
    proxy.refuse()
    provider = fleet.start()
    tell(provider, *range(20))
    engine = engine_of(provider)
    assert engine.spool.status()["refused"] > 0
    kept = [text for op in engine.spool.pending() for turn in getattr(op, "turns", ()) for text in [turn.content]]
    proxy.accept()
    eventually(lambda: drained(engine))
    tell(provider, 30)
    eventually(lambda: drained(engine))
    assert said(truth) == kept + turns(30)
