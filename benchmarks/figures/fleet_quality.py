"""Figure: LoCoMo through Postgres against the SQLite store in the same run, by words alone and with the packaged model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import server
from benchmarks.embedders import LEXICAL, usable
from benchmarks.evaluation import paired, summary
from benchmarks.figures.fleet_world import World, said
from benchmarks.harness import Verdict, at_least, at_most
from benchmarks.locomo import measure

_NEAR = -2.0
_MODEL, _DIMENSION = "packaged", 384
_MEASURES = ("R@10", "MRR")


def quality(world: World, data: Path) -> tuple[dict[str, Any], list[Verdict]]:
    """Ask the questions of both stores; a store may be worse by two points at most."""
    figures: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    for system, dimension in ((LEXICAL, None), (usable(_MODEL), _DIMENSION)):
        said(system.name)
        database = server.ours(world.server, f"locomo_{system.embedder}", dimension=dimension)
        of_file = measure(data, system, relevance=False)
        of_server = measure(data, system, relevance=False, store=database.dsn)
        gains = paired(of_server.run, of_file.run)
        reached = summary(of_server.run)
        figures[system.name] = {
            "sqlite": summary(of_file.run),
            "postgres": reached,
            "gain": {name: {"points": gain.gain, "interval": gain.interval} for name, gain in gains.items()},
        }
        for name in _MEASURES:
            verdicts.append(at_least(f"LoCoMo, {system.name}: {name} against SQLite", gains[name].gain, _NEAR, "points"))
            verdicts.append(Verdict(f"LoCoMo, {system.name}: {name} [%]", reached["all"][name], "", "info", None))
        verdicts.append(at_most(f"LoCoMo, {system.name}: answers without the vectors", float(of_server.degraded), 0, ""))
    return figures, verdicts
