"""Figure: `remember` one by one, beside the peer, and its cost while the store grows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.corpus import Corpus
from benchmarks.figures.stores import engine_store, write_windows
from benchmarks.harness import Times, Verdict, at_least, at_most, chunks, engine_driver, peer_driver

_TURN = 250
_SMALL, _COMPARED = 1_000, 4_000
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
    """Return the cost of a write at each size up to the corpus, and that in the full store against a small one, taking turns."""
    loaded = engine_store(corpus)
    small, full = Times(), Times()
    texts = Corpus(0, corpus.seed + 1).short(_SMALL + _COMPARED)
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        copy = loaded.copy_to(work / "full")
        with engine_driver(work / "small") as one, engine_driver(work / "full") as other:
            one.call("open", path=str(work / "small" / "mnemosyne.db"))
            other.call("open", path=str(copy.store))
            one.call("remember", texts=texts[:_SMALL])
            for some in chunks(texts[_SMALL:], _TURN):
                small.add(one.call("remember", texts=some)["times"])
                full.add(other.call("remember", texts=some)["times"])
            one.call("close")
            other.call("close")
    compared = {"small": small.figures(), "full": full.figures()}
    name = f"remember, cost of a write at {corpus.size:,} rows against {_SMALL:,} (p50)"
    ratio = round(compared["full"]["p50"] / compared["small"]["p50"], 2)
    return {**loaded.facts, "taking_turns": compared}, [at_most(name, ratio, _FLAT, "x")]
