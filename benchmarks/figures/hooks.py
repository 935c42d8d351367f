"""Figure: what the host waits for in the provider's write hooks."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.corpus import Corpus
from benchmarks.harness import ROOT, Driver, Times, Verdict, at_most, clean_environment

# Bytes of a text, how many of them, and the gate in milliseconds.
_CASES = ((300, 400, 0.5), (14_000, 120, 5.0))


def hooks(scale: float, seed: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Time `on_memory_write` and `sync_turn` on short and long texts; the first call, which opens the store, is told apart."""
    corpus = Corpus(0, seed)
    figures: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        driver = Driver(sys.executable, ROOT / "benchmarks" / "hooks_driver.py", clean_environment(home))
        try:
            driver.call("open", home=str(home / ".hermes"))
            for size, full_count, limit in _CASES:
                count = max(20, int(full_count * scale))
                texts = corpus.sized(3 * count, size)
                for hook, some in (("memory_write", texts[:count]), ("sync_turn", texts[count:])):
                    times = Times()
                    times.add(driver.call(hook, texts=some))
                    figures[f"{hook}_{size}_bytes"] = {
                        **times.figures(range(1, len(times.wall))),
                        "first_ms": round(1_000 * times.wall[0], 3),
                    }
                    name = f"{'on_' if hook == 'memory_write' else ''}{hook}, {size:,} bytes: p50"
                    verdicts.append(at_most(name, figures[f"{hook}_{size}_bytes"]["p50"], limit, "ms"))
            driver.call("stop")
            figures["stored"] = driver.call("stored", path=str(home / ".hermes" / "mnemosyne" / "mnemosyne.db"))
            # Each call of sync_turn stores two turns.
            figures["expected"] = {
                kind: n * sum(max(20, int(c * scale)) for _, c, _ in _CASES) for kind, n in (("entry", 1), ("turn", 2))
            }
        finally:
            driver.stop()
    lost = sum(max(0, figures["expected"][kind] - figures["stored"][kind]) for kind in figures["expected"])
    return figures, [*verdicts, at_most("hooks: texts lost", float(lost), 0, "")]
