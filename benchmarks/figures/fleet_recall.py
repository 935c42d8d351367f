"""Figures: recall by words and meaning in every scope, and the nearest vectors against the exact answer."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.figures.fleet_world import Loaded, World, home_of, said
from benchmarks.fleet_corpus import KINDS, SEVEN, Kind, by_size, exact
from benchmarks.harness import Driver, Times, Verdict, at_least, at_most, chunks

_P95_GATE, _P95_GOAL = 50.0, 30.0
_LIMIT, _NEAREST = 5, 10
_WARM_UP = 5
_TURN = 20
_RECALL_GATE = 0.95
_QUERIES_PER_THEME = 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question is asked: by an agent of `theme` with a tool, in a scope."""

    name: str
    theme: str
    tool: str
    scope: str
    session: str = "bench"


def places(loaded: Loaded) -> list[Place]:
    """Return every kind of scope: themes of several sizes, a session, everything."""
    sizes = Counter(loaded.corpus.themes()[: loaded.corpus.entries]).most_common()
    if loaded.corpus.layout == "seven":
        chosen = [theme for theme in SEVEN if theme in dict(sizes)]
    else:
        chosen = [sizes[place][0] for place in dict.fromkeys((0, 3, len(sizes) // 4, len(sizes) - 1)) if place < len(sizes)]
    largest = sizes[0][0]
    found = [Place(f"theme of {dict(sizes)[theme]:,}", theme, "recall_memory", "current") for theme in chosen]
    found.append(Place("all", largest, "recall_memory", "all"))
    if loaded.corpus.turns:
        found += [
            Place("turns of the largest theme", largest, "recall_conversation", "current"),
            Place("turns of a session", largest, "recall_conversation", "session", f"{largest}-0"),
            Place("turns of all", largest, "recall_conversation", "all"),
        ]
    return found


def recall(world: World, loaded: Loaded, count: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Ask `count` questions of each kind in each scope through the tools of both providers, the systems taking turns."""
    name = f"recall, {loaded.corpus.layout}, {loaded.corpus.size:,} rows"
    figures: dict[str, Any] = {"store": loaded.facts, "scopes": {}}
    verdicts: list[Verdict] = []
    home, other_home = world.home("ours"), world.home("theirs")
    with world.ours(home) as engine, world.theirs() as peer:
        drivers = {"ours": (engine, world.configuration(loaded.ours), home_of(home))}
        if loaded.theirs is not None:
            drivers["theirs"] = (peer, world.configuration(loaded.theirs), str(other_home))
        for place in places(loaded):
            said(f"{place.name}")
            for driver, config, where in drivers.values():
                driver.call("open", config=config, home=where, identity=place.theme, session=place.session)
            figures["scopes"][place.name] = found = {kind: _asked(world, loaded, place, kind, count, drivers) for kind in KINDS}
            worst, kind = max((cells["ours"]["p95"], kind) for kind, cells in found.items())
            # Every kind must hold: the worst is shown, the file has them all.
            verdicts.append(at_most(f"{name}: p95, {place.name} (worst: {kind})", worst, _P95_GATE, "ms"))
            if loaded.theirs is not None:
                other, kind = max((cells["theirs"]["p95"], kind) for kind, cells in found.items())
                verdicts.append(
                    Verdict(f"{name}: p95 of the reference, {place.name} (worst: {kind}) [ms]", other, "", "info", None)
                )
    worst = max(cells["ours"]["p95"] for found in figures["scopes"].values() for cells in found.values())
    verdicts.append(at_most(f"{name}: p95, every scope and kind", worst, _P95_GOAL, "ms", "goal"))
    failed = [error for found in figures["scopes"].values() for cells in found.values() for error in cells["ours"]["errors"]]
    verdicts.append(at_most(f"{name}: kinds of questions with errors", float(len(failed)), 0, ""))
    return figures, verdicts


def _asked(
    world: World, loaded: Loaded, place: Place, kind: Kind, count: int, drivers: dict[str, tuple[Driver, Any, str]]
) -> dict[str, Any]:
    asked = loaded.corpus.questions(kind, count + _WARM_UP, f"{place.name}:{place.scope}")
    file = world.work / "asked.f4"
    file.write_bytes(loaded.clusters.queries(loaded.vectors(), [target for _, target in asked], len(asked)).tobytes())
    world.endpoint.teach([text for text, _ in asked], file, loaded.clusters.dimension)
    calls = [{"query": text, "scope": place.scope, "limit": _LIMIT} for text, _ in asked]
    times = {name: Times() for name in drivers}
    texts: dict[str, list[list[str]]] = {name: [] for name in drivers}
    errors: dict[str, list[str]] = {name: [] for name in drivers}
    for driver, _, _ in drivers.values():
        driver.call("tool", name=place.tool, calls=calls[:_WARM_UP])
    for some in chunks(calls[_WARM_UP:], _TURN):
        for name, (driver, _, _) in drivers.items():
            answer = driver.call("tool", name=place.tool, calls=some)
            times[name].add(answer["times"])
            texts[name] += answer["texts"]
            errors[name] += answer["errors"]
    targets = [target for _, target in asked[_WARM_UP:]]
    return {
        name: {
            **times[name].figures(),
            "hits": round(statistics.fmean(map(len, texts[name])), 2),
            "without_hits": sum(not found for found in texts[name]),
            "target_found": _found(loaded, place, targets, texts[name]),
            "errors": errors[name][:3],
        }
        for name in drivers
    }


def _found(loaded: Loaded, place: Place, targets: Sequence[int | None], texts: Sequence[Sequence[str]]) -> str:
    """Return how many questions whose row is within the scope found it."""
    reachable = found = 0
    themes = loaded.corpus.themes() if any(target is not None for target in targets) else []
    for target, hits in zip(targets, texts, strict=True):
        is_turn = target is not None and target >= loaded.corpus.entries
        if target is None or is_turn != (place.tool == "recall_conversation") or place.scope == "session":
            continue
        if place.scope == "all" or themes[target] == place.theme:
            reachable += 1
            found += any(_marked(text, target, loaded) for text in hits)
    return f"{found} of {reachable}"


def _marked(text: str, number: int, loaded: Loaded) -> bool:
    # A tool shows the beginning of a long text.
    return text.endswith(f" #{number}") or f"{loaded.corpus.corpus.row(number).text} #{number}".startswith(text.rstrip("\u2026 "))


def nearest(world: World, loaded: Loaded) -> tuple[dict[str, Any], list[Verdict]]:
    """Search in every theme and in all for the nearest vectors; hold what is found against the exact answer."""
    import numpy as np

    rows, themes = loaded.vectors(), np.array(loaded.corpus.themes())
    members = {str(theme): np.flatnonzero(themes == theme) for theme in np.unique(themes)}
    names: list[str | None] = [*members, None]
    asks = [
        {"theme": theme, "query": place}
        for place, theme in enumerate(theme for theme in names for _ in range(_QUERIES_PER_THEME))
    ]
    rng = np.random.default_rng(7)
    # Every second question lies near a row of the theme, the others anywhere.
    targets = [_target(rng, members, ask, len(rows)) for ask in asks]
    queries = loaded.clusters.queries(rows, targets, 1_000_003)
    file = world.work / "nearest.f4"
    file.write_bytes(queries.tobytes())
    home = world.home("nearest")
    with world.ours(home) as engine:
        config = world.configuration(loaded.ours, embed_dim=loaded.clusters.dimension)
        engine.call("connect", config=config, home=home_of(home), worker=False)
        engine.call("number")
        answer = engine.call("nearest", asks=asks, file=str(file), dimension=loaded.clusters.dimension, limit=_NEAREST)
    times = Times()
    times.add(answer["times"])
    everything = np.arange(len(rows))
    classes: dict[str, list[tuple[int, float, bool]]] = defaultdict(list)
    label = by_size([len(some) for some in members.values()])
    for place, (ask, hits) in enumerate(zip(asks, answer["hits"], strict=True)):
        numbers = members[ask["theme"]] if ask["theme"] else everything
        right = exact(rows, queries[place], numbers, _NEAREST)
        share = len({*right} & {*hits}) / len(right)
        classes[label(len(numbers)) if ask["theme"] else "all themes"].append((place, share, len(hits) < len(right)))
    return _nearest_verdicts(f"nearest, {loaded.corpus.layout}, {len(rows):,} rows x {loaded.clusters.dimension}", classes, times)


def _target(rng: Any, members: dict[str, Any], ask: dict[str, Any], rows: int) -> int | None:
    if ask["query"] % 2:
        return None
    return int(rng.choice(members[ask["theme"]])) if ask["theme"] else int(rng.integers(0, rows))


def _nearest_verdicts(
    name: str, classes: dict[str, list[tuple[int, float, bool]]], times: Times
) -> tuple[dict[str, Any], list[Verdict]]:
    figures: dict[str, Any] = {}
    verdicts = []
    for label, found in sorted(classes.items()):
        shares = [share for _, share, _ in found]
        figures[label] = {
            "recall": round(statistics.fmean(shares), 4),
            "worst": min(shares),
            "short": sum(short for _, _, short in found),
            **times.figures([place for place, _, _ in found]),
        }
        verdicts.append(at_least(f"{name}: recall@{_NEAREST}, {label}", figures[label]["recall"], _RECALL_GATE, ""))
        verdicts.append(Verdict(f"{name}: p95, {label} [ms]", figures[label]["p95"], "", "info", None))
    short = sum(part["short"] for part in figures.values())
    return figures, [*verdicts, at_most(f"{name}: answers with fewer rows than there are", float(short), 0, "")]
