"""Drives this project's provider and engine on Postgres; see `benchmarks/serve.py` for the protocol."""

from __future__ import annotations

import itertools
import json
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.fleet_corpus import FleetCorpus, Layout, Stored
from benchmarks.provider_calls import SESSION, ProviderCalls
from benchmarks.serve import serve, timed

_ROWS = 500
_ATTACHED = 2_048
_POLL = 0.005


class Fleet(ProviderCalls):
    """One provider of one session, and the engine below it through the public interface."""

    def __init__(self) -> None:
        """Hold nothing until `open`, `begin` or `connect`."""
        self._memory: Any = None
        self._ids: dict[int, int] = {}
        self._numbers: dict[int, int] = {}

    # -- the provider --------------------------------------------------------------------------------------------------------------

    def register_memory_provider(self, provider: Any) -> None:
        """Take the provider, as the host's plugin context does."""
        self._provider = provider

    def open(self, config: dict[str, Any], home: str, identity: str, session: str = SESSION) -> float:
        """Register and initialise the provider as the host does; return the seconds that the latter took."""
        from hermes_mnemosyne.hermes.pgvector import register

        _configure(home, config)
        register(self)
        begun = time.perf_counter()
        self._provider.initialize(
            session_id=session,
            hermes_home=home,
            platform="cli",
            agent_context="primary",
            agent_identity=identity,
            agent_workspace="hermes",
        )
        return time.perf_counter() - begun

    # -- the engine ----------------------------------------------------------------------------------------------------------------

    def connect(self, config: dict[str, Any], home: str, *, worker: bool, theme: str = "fleet") -> None:
        """Open the memory of a home by its settings, as a process of an agent that starts; without a worker it does what it is told only."""
        from hermes_mnemosyne import Memory
        from hermes_mnemosyne.settings import resolve

        _configure(home, config)
        settings = resolve(hermes_home=home, provider="pgvector").settings
        self._memory = Memory.open(config["dsn"], theme=theme, readable_themes="*", settings=settings)
        self._memory.engine.one_shot = not worker

    def settle(self, seconds: float) -> dict[str, float]:
        """Wake the worker; return the seconds until the spool is empty, and until no row waits for a vector, on the wall and of the process."""
        engine = self._memory.engine
        begun, used = time.perf_counter(), time.process_time()
        engine.wake()
        found = {}
        for name, is_done in (
            ("stored", engine.spool.is_empty),
            ("embedded", lambda: engine.contact.is_there and not engine.backfill.has_work()),
        ):
            while not is_done() and time.perf_counter() - begun < seconds:
                time.sleep(_POLL if name == "stored" else 4 * _POLL)
            found |= {name: time.perf_counter() - begun, f"{name}_cpu": time.process_time() - used}
        return found

    def waiting(self) -> int:
        """Return how many operations wait in the spool."""
        return len(self._memory.engine.spool.pending(limit=1_000_000))

    def remember(self, texts: list[str]) -> dict[str, Any]:
        """Write texts one by one, each in a transaction of its own."""
        times, receipts = timed(self._memory.remember, texts)
        return {"times": times, "stored": sum(receipt.status == "stored" for receipt in receipts)}

    def apply(self, texts: list[str], batch: int) -> dict[str, float]:
        """Write texts in batches as a drain does; return the seconds."""
        from hermes_mnemosyne.clock import uuid7
        from hermes_mnemosyne.store.operations import AddEntry

        store = self._memory.engine.store
        batches = [texts[start : start + batch] for start in range(0, len(texts), batch)]
        ops = [[self._memory.make(AddEntry, uid=uuid7(), content=text) for text in some] for some in batches]
        times, _ = timed(lambda some: store.apply(some, wait=600.0), ops)
        return {"seconds": sum(times["wall"]), "cpu": sum(times["cpu"])}

    def fill(self, entries: int, turns: int, layout: Layout) -> dict[str, float]:
        """Store the rows of a corpus in batches; return the seconds in the store, the making of the texts left out."""
        store = self._memory.engine.store
        taken = {"seconds": 0.0, "cpu": 0.0}
        for ops in _batches(self._operations(FleetCorpus(entries, turns, layout))):
            times, _ = timed(lambda some: store.apply(some, wait=60.0), [ops])
            taken["seconds"] += times["wall"][0]
            taken["cpu"] += times["cpu"][0]
        return taken

    def _operations(self, corpus: FleetCorpus) -> Iterator[Any]:
        from dataclasses import replace

        from hermes_mnemosyne.store.operations import AddEntry, CaptureTurns, TurnText

        for row in corpus.rows():
            uid = _uid(row)
            if row.session:
                turn = TurnText(uid=uid, role=row.role, content=row.text)
                op = self._memory.make(CaptureTurns, session_id=row.session, turns=(turn,))
            else:
                op = self._memory.make(AddEntry, uid=uid, content=row.text)
            yield replace(op, theme=row.theme)

    def number(self) -> int:
        """Learn which row has which number; return how many there are."""
        import psycopg

        with psycopg.connect(self._memory.settings.dsn or self._memory.engine.place.dsn.text) as db:
            for uid, row in db.execute("SELECT uid, id FROM mnemosyne.entries UNION ALL SELECT uid, id FROM mnemosyne.turns"):
                number = int(uid.rsplit("-", 1)[1], 16)
                self._ids[number], self._numbers[row] = row, number
        return len(self._ids)

    def attach(self, file: str, dimension: int) -> dict[str, float]:
        """Give every row the vector of its number in the file, as if the model had made it; return the seconds in the store."""
        store, key = self._memory.engine.store, self._memory.engine.embedding.model().key
        seconds = 0.0
        with Path(file).open("rb") as source:
            for numbers in _batches(iter(range(len(self._ids))), _ATTACHED):
                pairs = []
                for number in numbers:
                    vector = array("f")
                    vector.frombytes(source.read(4 * dimension))
                    pairs.append((self._ids[number], vector))
                times, _ = timed(lambda some: store.attach_vectors(key, some), [pairs])
                seconds += times["wall"][0]
        return {"seconds": seconds}

    def upkeep(self) -> float:
        """Do all due upkeep, as the worker does; return the seconds."""
        begun = time.perf_counter()
        while not self._memory.engine.store.upkeep(seconds=10.0):
            pass
        return time.perf_counter() - begun

    def nearest(self, asks: list[dict[str, Any]], file: str, dimension: int, limit: int) -> dict[str, Any]:
        """Ask the store for the nearest rows to vectors of a file, each in a theme or in all (None); return numbers of rows."""
        from hermes_mnemosyne.store.protocol import Filter, Reach

        store, key = self._memory.engine.store, self._memory.engine.embedding.model().key
        vectors = array("f")
        vectors.frombytes(Path(file).read_bytes())

        def ask(asked: dict[str, Any]) -> Any:
            theme, place = asked["theme"], asked["query"] * dimension
            where = Filter(reach=Reach(frozenset({theme}) if theme else None, None))
            return store.nearest(key, vectors[place : place + dimension], where, limit=limit)

        times, found = timed(ask, asks)
        return {"times": times, "hits": [[self._numbers[candidate.id] for candidate in hits] for hits in found]}

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()


def _configure(home: str, config: dict[str, Any]) -> None:
    """Write the host's configuration; JSON is YAML."""
    Path(home).mkdir(parents=True, exist_ok=True)
    Path(home, "config.yaml").write_text(json.dumps({"plugins": {"pgvector": config}}), encoding="utf-8")


def _uid(row: Stored) -> str:
    return f"00000000-0000-7000-8000-{row.number:012x}"


def _batches(items: Iterator[Any], size: int = _ROWS) -> Iterator[list[Any]]:
    while some := list(itertools.islice(items, size)):
        yield some


if __name__ == "__main__":
    serve(Fleet())
