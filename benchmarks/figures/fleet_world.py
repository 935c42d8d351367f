"""What every figure of the fleet works with: one server, one endpoint, and processes of both systems."""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import endpoint, server
from benchmarks.endpoint import DIMENSION, Endpoint
from benchmarks.fleet_corpus import Clusters, FleetCorpus, Layout
from benchmarks.harness import ROOT, Driver, clean_environment
from benchmarks.server import Database, Server

# Bytes of an entry that the reference can store for sure.
_LONGEST_ENTRY = 2_400


@dataclass
class World:
    """One run of the benchmark."""

    server: Server
    endpoint: Endpoint
    work: Path
    _loaded: dict[tuple[int, int, Layout], Loaded] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def home(self, name: str) -> Path:
        """Return a fresh directory for a process."""
        return self.work / f"{name}-{next(self._numbers)}"

    def configuration(self, database: Database, **more: Any) -> dict[str, Any]:
        """Return the configuration that both providers are given for a database."""
        endpoint_of_both = {
            "embed_url": self.endpoint.url,
            "embed_model": "stub",
            "embed_protocol": "openai",
            "embed_dim": DIMENSION,
        }
        return {"dsn": database.dsn, **endpoint_of_both, **more}

    @contextlib.contextmanager
    def ours(self, home: Path | None = None) -> Iterator[Driver]:
        """Run a process of ours."""
        home = home or self.home("ours")
        environment = clean_environment(home, MNEMOSYNE_EMBEDDER="endpoint")
        with _stopped(Driver(sys.executable, ROOT / "benchmarks" / "fleet_driver.py", environment)) as driver:
            yield driver

    @contextlib.contextmanager
    def theirs(self) -> Iterator[Driver]:
        """Run a process of the reference."""
        environment = clean_environment(self.home("theirs"))
        with _stopped(
            Driver(server.reference_python(), ROOT / "benchmarks" / "peer" / "pgvector_driver.py", environment)
        ) as driver:
            yield driver

    def loaded(self, entries: int, turns: int, layout: Layout, *, reference: bool) -> Loaded:
        """Return databases of both systems that hold a corpus, with indexes and statistics; each is made once per run."""
        key = entries, turns, layout
        if key not in self._loaded:
            self._loaded[key] = _load(self, FleetCorpus(entries, turns, layout), reference=reference)
        return self._loaded[key]


@dataclass
class Loaded:
    """A corpus in both systems; `file` holds its vectors."""

    corpus: FleetCorpus
    clusters: Clusters
    file: Path
    ours: Database
    theirs: Database | None
    facts: dict[str, Any]

    def vectors(self) -> Any:
        """Return the vectors of the rows, without reading them all."""
        import numpy as np

        return np.memmap(self.file, dtype="<f4", mode="r").reshape(-1, self.clusters.dimension)


@contextlib.contextmanager
def world() -> Iterator[World]:
    """Start the server and the endpoint, and remove all at the end."""
    with Server() as one, endpoint.running() as stub, tempfile.TemporaryDirectory(prefix="mnemosyne-fleet-") as directory:
        yield World(one, stub, Path(directory))


@contextlib.contextmanager
def _stopped(driver: Driver) -> Iterator[Driver]:
    try:
        yield driver
    finally:
        driver.stop()


def home_of(driver_home: Path) -> str:
    """Return the Hermes home below the home of a process."""
    return str(driver_home / ".hermes")


def said(text: str) -> None:
    """Tell whoever waits how far it is."""
    sys.stderr.write(f"   {time.strftime('%H:%M:%S')} {text}\n")


def _load(world: World, corpus: FleetCorpus, *, reference: bool) -> Loaded:
    name = f"{corpus.layout}_{corpus.entries}_{corpus.turns}"
    clusters = Clusters(DIMENSION)
    file = clusters.save(corpus.size, world.work / f"{name}.f4")
    ours = server.ours(world.server, f"ours_{name}")
    facts: dict[str, Any] = {
        "rows": corpus.size,
        "entries": corpus.entries,
        "turns": corpus.turns,
        "ours": fill(world, ours, corpus, file),
    }
    theirs = None
    if reference:
        said(f"{name}: the reference")
        theirs = server.theirs(world.server, f"theirs_{name}")
        facts["theirs"] = _fill_reference(theirs, corpus, clusters)
    return Loaded(corpus, clusters, file, ours, theirs, facts)


def _settle(database: Database) -> None:
    """Leave a database as one that was loaded long ago: nothing is vacuumed or written out while it is measured."""
    database.run("VACUUM ANALYZE")
    database.run("CHECKPOINT")


def fill(world: World, database: Database, corpus: FleetCorpus, file: Path, dimension: int = DIMENSION) -> dict[str, Any]:
    """Load a corpus through the store in batches, make its indexes and statistics; return rates, times and sizes."""
    from hermes_mnemosyne import maintenance

    home = world.home("fill")
    facts: dict[str, Any] = {}
    with world.ours(home) as driver:
        driver.call("connect", config=world.configuration(database, embed_dim=dimension), home=home_of(home), worker=False)
        said(f"{corpus.layout}, {corpus.size:,} rows: texts")
        taken = driver.call("fill", entries=corpus.entries, turns=corpus.turns, layout=corpus.layout)
        facts["texts_per_second"] = round(corpus.size / taken["seconds"])
        facts["cpu_ms_per_text"] = round(1_000 * taken["cpu"] / corpus.size, 4)
        if driver.call("number") != corpus.size:
            raise RuntimeError("rows were lost while loading")
        said("vectors")
        facts["vectors_per_second"] = round(corpus.size / driver.call("attach", file=str(file), dimension=dimension)["seconds"])
        said("maintain")
        begun = time.monotonic()
        facts["indexes"] = [step.name for step in maintenance.maintain(database.admin_dsn)]
        facts["index_seconds"] = round(time.monotonic() - begun, 1)
        facts["upkeep_seconds"] = round(driver.call("upkeep"), 2)
        driver.call("close")
    _settle(database)
    return {**facts, **server.sizes(database)}


def _fill_reference(database: Database, corpus: FleetCorpus, clusters: Clusters) -> dict[str, Any]:
    def lines(turns: bool) -> Iterator[tuple[Any, ...]]:  # noqa: FBT001 - which of two tables
        blocks = itertools.chain.from_iterable(clusters.blocks(corpus.size))
        for row, vector in zip(corpus.rows(), blocks, strict=False):
            if turns and row.session:
                yield row.session, row.theme, row.role, row.text, vector
            elif not turns and not row.session:
                # Its unique index holds no longer ones: it loses them.
                yield row.theme, "memory", row.text.encode()[:_LONGEST_ENTRY].decode(errors="ignore"), vector

    begun = time.monotonic()
    with server.without_vector_indexes(database):
        server.copy_reference(database, "memory_entries", lines(turns=False))
        if corpus.turns:
            server.copy_reference(database, "conversations", lines(turns=True))
        copied = time.monotonic()
    _settle(database)
    return {
        "copy_seconds": round(copied - begun, 1),
        "index_seconds": round(time.monotonic() - copied, 1),
        **server.sizes(database),
    }
