"""One picture per run: quality against latency of every system measured. matplotlib is used by this module and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.evaluation import Run, averages, intervals

INSTALL = "a plot needs matplotlib: pip install matplotlib"
_LABEL_OFFSET = (6, 6)
_LABEL_ROOM = 1.5


def installed() -> bool:
    """Tell whether a plot can be drawn."""
    return find_spec("matplotlib") is not None


def draw(path: Path, runs: Sequence[Run], measure: str) -> None:
    """Write a PNG: the mean of a measure with its interval over the median time of an answer, one point per run."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for run in runs:
        mean, (low, high) = averages(run.answers)[measure], intervals(run.answers)[measure]
        at = run.latency["p50"]
        axes.errorbar(at, mean, yerr=[[mean - low], [high - mean]], fmt="o", capsize=4)
        axes.annotate(run.system, (at, mean), textcoords="offset points", xytext=_LABEL_OFFSET)
    first = runs[0]
    axes.set_title(f"{first.benchmark}, {len(first.answers)} questions")
    axes.set_xlabel("median time of an answer in ms")
    axes.set_ylabel(f"{measure} in percent, 95 % interval")
    axes.set_xlim(0, _LABEL_ROOM * max(run.latency["p50"] for run in runs))
    axes.margins(y=0.15)
    axes.grid(visible=True, alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140, format="png")
    plt.close(figure)
