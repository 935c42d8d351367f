"""Figures for `docs/scale.md`: how rates, sizes and latencies grow with the rows, and what several writing processes reach."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from benchmarks import server
from benchmarks.corpus import Corpus
from benchmarks.figures.fleet_recall import nearest, recall
from benchmarks.figures.fleet_world import Loaded, World, fill, home_of, said
from benchmarks.fleet_corpus import SEED, Clusters, FleetCorpus
from benchmarks.harness import Times, Verdict, chunks

_DIMENSION_OF_MILLION = 256
_MILLION = 1_000_000
_BATCH = 512


def growth(world: World, rows: int, questions: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Fill a database with `rows` entries in 200 themes and measure it; a million have shorter vectors, or it would take hours."""
    if rows < _MILLION:
        loaded = world.loaded(rows, 0, "many", reference=False)
    else:
        corpus, clusters = FleetCorpus(rows, 0, "many"), Clusters(_DIMENSION_OF_MILLION)
        file = clusters.save(rows, world.work / f"many_{rows}.f4")
        database = server.ours(world.server, f"ours_many_{rows}", dimension=_DIMENSION_OF_MILLION)
        loaded = Loaded(
            corpus,
            clusters,
            file,
            database,
            None,
            {"rows": rows, "ours": fill(world, database, corpus, file, _DIMENSION_OF_MILLION)},
        )
    near, judged = nearest(world, loaded)
    asked, more = recall(world, loaded, questions)
    facts = loaded.facts["ours"]
    name = f"{rows:,} rows x {loaded.clusters.dimension}"
    verdicts = [
        Verdict(f"{name}: {what}", facts[what], "", "info", None)
        for what in ("texts_per_second", "vectors_per_second", "index_seconds")
    ]
    verdicts.append(Verdict(f"{name}: database [MB]", facts["database_mb"], "", "info", None))
    # Gates are held against the figures of their own; here they are goals.
    verdicts += [Verdict(v.name, v.value, v.limit, "goal" if v.kind == "gate" else "info", v.holds) for v in (*judged, *more)]
    return {"nearest": near, "recall": asked}, verdicts


def writers(world: World, counts: tuple[int, ...], writes: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Let several processes write at once: texts one by one, each in a transaction of its own, and in batches as drains do."""
    figures: dict[str, Any] = {"cores": os.cpu_count()}
    verdicts: list[Verdict] = []
    for count in counts:
        said(f"{count} processes")
        database = server.ours(world.server, f"writers_{count}")
        texts = list(chunks(Corpus(0, SEED + 10 + count).short(2 * count * writes), writes))
        with contextlib.ExitStack() as stack:
            drivers = []
            for _ in range(count):
                home = world.home("writer")
                driver = stack.enter_context(world.ours(home))
                driver.call("connect", config=world.configuration(database), home=home_of(home), worker=False)
                driver.call("upkeep")
                drivers.append(driver)
            times, begun = Times(), time.perf_counter()
            for driver, some in zip(drivers, texts, strict=False):
                driver.send("remember", texts=some)
            for driver in drivers:
                times.add(driver.receive()["times"])
            one_by_one = count * writes / (time.perf_counter() - begun)
            begun = time.perf_counter()
            for driver, some in zip(drivers, texts[count:], strict=False):
                driver.send("apply", texts=some, batch=_BATCH)
            for driver in drivers:
                driver.receive()
            batched = count * writes / (time.perf_counter() - begun)
        rows = database.ask("SELECT count(*) FROM mnemosyne.entries")
        figures[str(count)] = {
            "rows": rows,
            "one_by_one_per_second": round(one_by_one, 1),
            "batched_per_second": round(batched, 1),
            **times.figures(),
        }
        database.drop()
        label = f"{count} processes" if count > 1 else "1 process"
        verdicts.append(Verdict(f"{label}: writes per second, one by one", round(one_by_one, 1), "", "info", None))
        verdicts.append(Verdict(f"{label}: writes per second, in batches", round(batched, 1), "", "info", None))
        verdicts.append(Verdict(f"{label}: p95 of a write [ms]", times.figures()["p95"], "", "info", None))
    return figures, verdicts
