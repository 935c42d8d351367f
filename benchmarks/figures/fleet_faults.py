"""Figure: what the recall before a turn costs while the database or the embedder is away."""

from __future__ import annotations

from typing import Any

from benchmarks import server
from benchmarks.corpus import Corpus
from benchmarks.figures.fleet_world import World, home_of
from benchmarks.fleet_corpus import SEED
from benchmarks.harness import Driver, Times, Verdict, at_most

_DOWN_MS, _HANGING_MS = 50.0, 1_500.0
_ROWS, _CALLS, _CALLS_OF_REFERENCE = 300, 15, 2
_THEME = "fleet"


def faults(world: World) -> tuple[dict[str, Any], list[Verdict]]:
    """Ask for a prefetch with a hanging embedder, a hanging database, and without a database: in a session, and in one that starts then."""
    texts = Corpus(0, SEED + 3).short(_ROWS)
    ours, theirs = server.ours(world.server, "faults_ours"), server.theirs(world.server, "faults_theirs")
    home, figures = world.home("faults"), {}
    config, other = world.configuration(ours), world.configuration(theirs)
    with world.ours(home) as engine, world.theirs() as peer, world.ours(home) as late:
        engine.call("open", config=config, home=home_of(home), identity=_THEME)
        peer.call("open", config=other, home=str(world.home("theirs")), identity=_THEME)
        for driver in (engine, peer):
            driver.call("memory_write", texts=texts[:200])
        engine.call("connect", config=config, home=home_of(home), worker=True)
        for driver in (engine, peer):
            driver.call("settle", seconds=300.0)
        queries = [f"what about {' '.join(text.split()[2:5])}" for text in texts[:_CALLS]]
        figures["all well"] = _prefetched(engine, queries)
        figures["all well, the reference"] = _prefetched(peer, queries)
        world.endpoint.hang(hang=True)
        figures["hanging embedder"] = _prefetched(engine, queries)
        figures["hanging embedder, the reference"] = _prefetched(peer, queries[:1])
        world.endpoint.hang(hang=False)
        _prefetched(engine, queries)
        world.server.freeze()
        figures["hanging database"] = _prefetched(engine, queries)
        world.server.resume()
        _prefetched(engine, queries)
        world.server.stop()
        figures["database down"] = _prefetched(engine, queries)
        figures["database down, the reference"] = _prefetched(peer, queries[:_CALLS_OF_REFERENCE])
        started = late.call("open", config=config, home=home_of(home), identity=_THEME)
        figures["database down at the start"] = {"initialize_ms": round(1_000 * started, 2), **_prefetched(late, queries)}
        world.server.start()
    verdicts = [
        at_most("prefetch with the database down: longest", figures["database down"]["max"], _DOWN_MS, "ms"),
        at_most(
            "prefetch with the database down at the start: longest", figures["database down at the start"]["max"], _DOWN_MS, "ms"
        ),
        at_most("initialize with the database down", figures["database down at the start"]["initialize_ms"], _DOWN_MS, "ms"),
        at_most("prefetch with a hanging embedder: longest", figures["hanging embedder"]["max"], _HANGING_MS, "ms"),
    ]
    names = (
        "all well",
        "all well, the reference",
        "hanging embedder, the reference",
        "hanging database",
        "database down, the reference",
    )
    verdicts += [Verdict(f"prefetch, {name}: longest [ms]", figures[name]["max"], "", "info", None) for name in names]
    return figures, verdicts


def _prefetched(driver: Driver, queries: list[str]) -> dict[str, Any]:
    answer = driver.call("prefetch", queries=queries)
    times = Times()
    times.add(answer["times"])
    return {**times.figures(), "characters": answer["characters"]}
