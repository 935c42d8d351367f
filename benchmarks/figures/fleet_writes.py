"""Figures: what hooks cost, how fast what they left is stored and embedded, and what a burst loses; beside the reference."""

from __future__ import annotations

import time
from typing import Any

from benchmarks import server
from benchmarks.corpus import Corpus
from benchmarks.figures.fleet_world import World, home_of, said
from benchmarks.fleet_corpus import SEED
from benchmarks.harness import Driver, Times, Verdict, at_least, at_most
from benchmarks.server import Database

# Bytes of a text, how many of them, and what the limit of 0.5 ms is for them.
_SIZES = ((300, 400, "gate"), (14_000, 120, "goal"))
_HOOK_MS = 0.5
_DRAIN_GATE, _DRAIN_GOAL = 15, 30
_PATIENCE = 900.0
_THEME = "fleet"
_HOOKS = ("memory_write", "sync_turn")
_ENTRIES = "SELECT count(*) FROM mnemosyne.entries"
_TURNS = "SELECT count(*) FROM mnemosyne.turns"


def hooks(world: World, share: float) -> tuple[dict[str, Any], list[Verdict]]:
    """Time the hooks; ours are killed after the last one, and what they took is counted once another process has drained it."""
    corpus = Corpus(0, SEED)
    ours, theirs = server.ours(world.server, "hooks_ours"), server.theirs(world.server, "hooks_theirs")
    home, figures = world.home("hooks"), {}
    expected = dict.fromkeys(_HOOKS, 0)
    with world.ours(home) as engine, world.theirs() as peer:
        engine.call("open", config=world.configuration(ours), home=home_of(home), identity=_THEME)
        peer.call(
            "open", config=world.configuration(theirs, write_queue_maxsize=0), home=str(world.home("theirs")), identity=_THEME
        )
        for size, full, _ in _SIZES:
            count = max(20, int(full * share))
            texts = corpus.sized(3 * count, size)
            for hook, some in zip(_HOOKS, (texts[:count], texts[count:]), strict=True):
                expected[hook] += len(some)
                for name, driver in (("ours", engine), ("theirs", peer)):
                    times = Times()
                    times.add(driver.call(hook, texts=some))
                    figures[f"{name}, {hook}, {size} bytes"] = times.figures()
        engine.kill()
        peer.call("settle", seconds=_PATIENCE)
    with world.ours(home) as engine:
        engine.call("connect", config=world.configuration(ours), home=home_of(home), worker=True)
        engine.call("settle", seconds=_PATIENCE)
    figures["stored by the reference"] = theirs.ask(
        "SELECT (SELECT count(*) FROM memory_entries) + (SELECT count(*) FROM conversations)"
    )
    lost = expected["memory_write"] - ours.ask(_ENTRIES) + expected["sync_turn"] - ours.ask(_TURNS)
    verdicts = []
    for size, _, kind in _SIZES:
        for hook in _HOOKS:
            found = figures[f"ours, {hook}, {size} bytes"]
            verdicts.append(at_most(f"{hook}, {size:,} bytes: p50", found["p50"], _HOOK_MS, "ms", kind))  # type: ignore[arg-type]
            verdicts.append(Verdict(f"{hook}, {size:,} bytes: p95 [ms]", found["p95"], "", "info", None))
            other = figures[f"theirs, {hook}, {size} bytes"]["p50"]
            verdicts.append(Verdict(f"{hook}, {size:,} bytes: p50 of the reference, not durable [ms]", other, "", "info", None))
    verdicts.append(at_most("hooks: texts lost by kill -9 after the last one", float(lost), 0, ""))
    return {**figures, "expected": expected, "lost": lost}, verdicts


def drain(world: World, count: int, reference_count: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Fill the spool while the database is down; then time a fresh process that stores and embeds it. The reference has it up."""
    texts = Corpus(0, SEED + 1).short(count)
    ours = server.ours(world.server, "drain_ours")
    home, figures = world.home("drain"), {}
    config = world.configuration(ours)
    with world.ours(home) as engine:
        # A host that has worked with the database before: it has the fleet's key.
        engine.call("open", config=config, home=home_of(home), identity=_THEME)
        engine.call("memory_write", texts=["The first write of this host."])
        engine.call("connect", config=config, home=home_of(home), worker=True)
        engine.call("settle", seconds=_PATIENCE)
    world.server.stop()
    with world.ours(home) as engine:
        engine.call("open", config=config, home=home_of(home), identity=_THEME)
        times = Times()
        times.add(engine.call("memory_write", texts=texts))
        figures["hooks while the database is down"] = times.figures()
        engine.kill()
    world.server.start()
    with world.ours(home) as engine:
        engine.call("connect", config=config, home=home_of(home), worker=True)
        taken = engine.call("settle", seconds=_PATIENCE)
    rows, vectors = ours.ask(_ENTRIES) - 1, ours.ask("SELECT count(*) FROM mnemosyne.vectors") - 1
    figures["ours"] = {
        "rows": rows, "vectors": vectors, **taken, "stored_per_second": round(rows / taken["stored"], 1),
        "embedded_per_second": round(vectors / taken["embedded"], 1),
    }  # fmt: skip
    figures["theirs"] = _reference_drain(world, texts[:reference_count])
    per_second = figures["theirs"]["embedded_per_second"]
    verdicts = []
    for what in ("stored", "embedded"):
        value = round(figures["ours"][f"{what}_per_second"] / per_second, 1)
        name = f"drain: rows per second {'stored' if what == 'stored' else 'stored and embedded'} against the reference's"
        if what == "stored":
            # A drain ends when the rows are stored and can be found by their words; vectors follow.
            verdicts.append(at_least(name, value, _DRAIN_GATE, "x"))
        verdicts.append(at_least(name, value, _DRAIN_GOAL, "x", "goal"))
        verdicts.append(Verdict(f"drain: rows per second {what}", figures["ours"][f"{what}_per_second"], "", "info", None))
    verdicts.append(Verdict("drain: rows per second of the reference", per_second, "", "info", None))
    verdicts.append(at_most("drain: rows lost", float(count - rows), 0, ""))
    return figures, verdicts


def _reference_drain(world: World, texts: list[str]) -> dict[str, Any]:
    theirs = server.theirs(world.server, "drain_theirs")
    with world.theirs() as peer:
        # Without a bound, or it would drop most of them.
        peer.call(
            "open", config=world.configuration(theirs, write_queue_maxsize=0), home=str(world.home("theirs")), identity=_THEME
        )
        begun = time.perf_counter()
        peer.call("memory_write", texts=texts)
        peer.call("settle", seconds=_PATIENCE)
        seconds = time.perf_counter() - begun
    rows = theirs.ask("SELECT count(*) FROM memory_entries WHERE embedding IS NOT NULL")
    return {"rows": rows, "seconds": seconds, "embedded_per_second": round(rows / seconds, 1)}


def burst(world: World, count: int, reference_count: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Let hooks come as fast as they can, with the database up, and count what is stored at the end."""
    texts = Corpus(0, SEED + 2).short(count)
    ours, theirs = server.ours(world.server, "burst_ours"), server.theirs(world.server, "burst_theirs")
    home = world.home("burst")
    figures: dict[str, Any] = {}
    with world.ours(home) as engine:
        engine.call("open", config=world.configuration(ours), home=home_of(home), identity=_THEME)
        figures["ours"] = _burst(engine, texts)
        engine.call("connect", config=world.configuration(ours), home=home_of(home), worker=True)
        figures["ours"] |= engine.call("settle", seconds=_PATIENCE)
    figures["ours"]["lost"] = _lost(ours, _ENTRIES, count)
    said("burst: the reference")
    with world.theirs() as peer:
        peer.call("open", config=world.configuration(theirs), home=str(world.home("theirs")), identity=_THEME)
        figures["theirs"] = _burst(peer, texts[:reference_count])
        peer.call("settle", seconds=_PATIENCE)
        peer.call("shut_down")
    figures["theirs"]["lost"] = _lost(theirs, "SELECT count(*) FROM memory_entries", reference_count)
    share = round(100 * figures["theirs"]["lost"] / reference_count, 1)
    return figures, [
        at_most(f"burst of {count:,} writes: lost", float(figures["ours"]["lost"]), 0, ""),
        Verdict(f"burst of {reference_count:,} writes: lost by the reference [%]", share, "", "info", None),
        Verdict("burst: p50 of a hook beside the drain [ms]", figures["ours"]["p50"], "", "info", None),
        Verdict("burst: p95 of a hook beside the drain [ms]", figures["ours"]["p95"], "", "info", None),
    ]


def _burst(driver: Driver, texts: list[str]) -> dict[str, Any]:
    times = Times()
    times.add(driver.call("memory_write", texts=texts))
    return {"writes": len(texts), **times.figures()}


def _lost(database: Database, query: str, count: int) -> int:
    return count - int(database.ask(query))
