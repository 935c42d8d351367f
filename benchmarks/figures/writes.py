"""Figure: `remember` one by one, beside the peer, and its cost while the store grows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.corpus import Corpus
from benchmarks.figures.stores import engine_store, write_windows
from benchmarks.harness import Times, Verdict, at_least, at_most, chunks, engine_driver, peer_driver

_TURN = 250
# A write may cost half as much again in a full store as in one of 1,000 rows before it counts as growing: the noise of a
# shared machine is of this size.
_FLAT = 1.5


def throughput(count: int, seed: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Write `count` short texts one by one into fresh stores of both systems, taking turns."""
    texts = Corpus(0, seed).short(count)
    ours, theirs = Times(), Times()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        with engine_driver(work / "engine") as engine, peer_driver(work / "peer") as peer:
            engine.call("open", path=str(work / "engine" / "mnemosyne.db"))
            peer.call("open", path=str(work / "peer" / "mnemosyne.db"))
            for some in chunks(texts, _TURN):
                ours.add(engine.call("remember", texts=some)["times"])
                theirs.add(peer.call("remember", texts=some)["times"])
            engine.call("close")
    ratio = sum(theirs.wall) / sum(ours.wall)
    figures = {
        "texts": count,
        "engine": {**ours.figures(), "per_second": round(count / sum(ours.wall), 1), "by_rows": write_windows(ours)},
        "peer": {**theirs.figures(), "per_second": round(count / sum(theirs.wall), 1), "by_rows": write_windows(theirs)},
        "throughput_ratio": round(ratio, 1),
        "throughput_ratio_of_cpu": round(sum(theirs.cpu) / sum(ours.cpu), 1),
    }
    return figures, [at_least(f"remember, {count:,} short texts: throughput against the peer", round(ratio, 1), 40, "x")]


def growth(corpus: Corpus) -> tuple[dict[str, Any], list[Verdict]]:
    """Return the cost of a write at each size up to the corpus, texts of every length, 201 themes in the file."""
    facts = engine_store(corpus).facts
    windows = facts["write_ms_by_rows_in_the_big_theme"]
    first, last = next(iter(windows)), next(reversed(windows))
    ratio = windows[last]["p50"] / windows[first]["p50"] if last != first else None
    name = f"remember, cost of a write at {int(last):,} rows against {int(first):,} (p50)"
    return facts, [at_most(name, None if ratio is None else round(ratio, 2), _FLAT, "x")]
