"""The host's API server with the provider `pgvector`: many agents on one database, which is killed while they are at work."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.harness.gateway import Gateway
from tests.acceptance.harness.hosts import Home, Host, wait_until
from tests.acceptance.harness.model import ScriptedModel, call, lines, say
from tests.postgres.databases import PgDatabase
from tests.postgres.server import PrivateServer

AGENTS = ("marketing", "engineering", "morning-report", "agent:main:telegram:dm:1", "agent:main:telegram:dm:2")
ROUNDS = 4


@pytest.fixture
def fleet(host: Host, model: ScriptedModel, private_postgres: PgDatabase, tmp_path: Path) -> Home:
    """A home of an agent of a fleet, as the four steps of the README leave it."""
    home = Home(
        tmp_path / "hermes",
        host,
        model.url,
        provider="pgvector",
        settings={"plugins": {"pgvector": {"dsn": private_postgres.dsn}}},
    )
    home.pgvector("install", "--hermes-home", str(home.path))
    return home


def contents(database: PgDatabase, table: str) -> list[str]:
    """Return the first lines of what a table of the store holds."""
    with psycopg.connect(database.admin_dsn) as db:
        query = {"turns": "SELECT content FROM mnemosyne.turns", "entries": "SELECT content FROM mnemosyne.entries"}[table]
        return [row[0].splitlines()[0] for row in db.execute(query)]


def waiting(home: Home) -> int:
    """Return how many writes wait in the spool, once it has been tried to drain it."""
    return int(home.pgvector_json("spool", "drain", "--json")["left"])


def test_every_turn_and_note_of_a_fleet_is_stored_once_though_its_database_dies(
    fleet: Home, private_server: PrivateServer, private_postgres: PgDatabase
) -> None:
    def talk(number: int, part: int) -> tuple[str, str]:
        key = AGENTS[number % len(AGENTS)]
        text = f"Remember for round {part} of agent {number}: the harbour master of Bergen wears hat number {part}{number}."
        note = f"Hat note {part}-{number}"
        keep = call("memory", action="add", target="memory", content=note)
        gateway.chat(
            lines(text, keep, say(f"A hat with the number {part}{number}, then, I will remember.")),
            key=key,
            session=f"s-{number}",
        )
        return text, note

    def turns() -> list[str]:
        return [line for line in contents(private_postgres, "turns") if line.startswith("Remember for round")]

    said: list[tuple[str, str]] = []
    with Gateway(fleet) as gateway, ThreadPoolExecutor(len(AGENTS)) as pool:
        # The 0.19 line gives no memory to an agent that begins while another one has the provider loaded for the first time.
        said.append(talk(0, ROUNDS))
        for part in range(ROUNDS):
            if part == 1:
                private_server.kill()
            if part == 2:
                private_server.start()
            said += pool.map(lambda number, part=part: talk(number, part), range(len(AGENTS)))
        gateway.wait_for_turns(len(said))
        # What contacts say while nobody can tell them apart waits for the running host, and not for the command line.
        wait_until(lambda: len(turns()) >= len(said), "the turns to be stored by the running host")
    assert [hook for hook in fleet.observed() if "error" in hook] == []
    wait_until(lambda: waiting(fleet) == 0, "the spool to be drained")
    assert Counter(turns()) == Counter(text for text, _ in said)
    # The agents share a home, and so its MEMORY.md: whoever begins a session later holds its lines too, each once.
    with psycopg.connect(private_postgres.admin_dsn) as db:
        notes = Counter(db.execute("SELECT scope, content FROM mnemosyne.entries WHERE content LIKE 'Hat note%'").fetchall())
    assert {note for _, note in notes} == {note for _, note in said}
    assert set(notes.values()) == {1}


def test_agents_of_a_fleet_find_what_their_theme_may_read_and_nothing_of_contacts(
    fleet: Home, model: ScriptedModel, private_postgres: PgDatabase
) -> None:
    secrets = {
        "marketing": "The budget of marketing for the word Zephyrous is kept in the top drawer of the desk.",
        "engineering": "The budget of engineering for the word Bucolic is kept in the server room downstairs.",
        "agent:main:telegram:dm:1": "My own budget for the word Umbrageous is kept behind the blue teapot at home.",
    }
    with Gateway(fleet) as gateway:
        for number, (key, text) in enumerate(secrets.items()):
            gateway.chat(lines(text, say("I shall keep the place and the word.")), key=key, session=f"first-{number}")
        gateway.wait_for_turns(len(secrets))
        wait_until(lambda: len(contents(private_postgres, "turns")) >= len(secrets), "the turns to be stored")
        search = lines(
            "Where is the budget kept, and for which word?",
            call("recall_conversation", query="budget word kept", scope="all"),
            call("recall_conversation", query="budget word kept", scope="whatsapp-dm"),
        )
        seen = {}
        for number, key in enumerate(secrets):
            before = len(model.conversations)
            gateway.chat(search, key=key, session=f"second-{number}")
            shown = "\n".join(model.shown(index) for index in range(before, len(model.conversations)))
            seen[key] = {word for word in ("Zephyrous", "Bucolic", "Umbrageous") if word in shown}
    assert seen["marketing"] == seen["engineering"] == {"Zephyrous", "Bucolic"}
    assert "Umbrageous" in seen["agent:main:telegram:dm:1"]


def test_the_host_starts_with_its_database_down_and_what_it_then_takes_in_follows(
    fleet: Home, private_server: PrivateServer, private_postgres: PgDatabase
) -> None:
    private_server.stop()
    text = "Remember this although the database is down: the lighthouse of Lindesnes has a red lamp."
    with Gateway(fleet) as gateway:
        gateway.chat(lines(text, say("A red lamp, I will remember that about Lindesnes.")), key="marketing", session="s-1")
        gateway.wait_for_turns(1)
        private_server.start()
        wait_until(lambda: text in contents(private_postgres, "turns"), "the turn to be stored by the running host")
    assert [hook for hook in fleet.observed() if "error" in hook] == []
