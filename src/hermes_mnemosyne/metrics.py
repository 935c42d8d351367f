"""The figures of a memory as Prometheus text.

What the database, the spool and the pool hold is the same whoever asks. Counters of the process (recalls, writes, embeddings) are those
of the process that asks: an agent's own, when it calls `exposition`; of a command they are its own few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from hermes_mnemosyne._errors import MissingExtra
from hermes_mnemosyne.clock import parse_utc

if TYPE_CHECKING:
    from hermes_mnemosyne.engine import Memory

Figures = Mapping[str, Any]
_PREFIX = "mnemosyne"
_POOL = ("size", "available", "waiting", "errors")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `value` takes it from the figures of `Memory.stats`, None where they do not have it.

    With a `label` the value is a mapping from that label's values. `of` says whose it is: the `store`'s, this machine's `spool`, or the
    `process`'s.
    """

    name: str
    kind: Literal["gauge", "counter"]
    of: Literal["store", "spool", "process"]
    help: str
    value: Callable[[Figures], Any]
    label: str = ""


def _age(figures: Figures) -> float:
    oldest = figures["spool"]["oldest"]
    return max(0.0, (datetime.now(UTC) - parse_utc(oldest)).total_seconds()) if oldest else 0.0


def _rows(figures: Figures, kind: str) -> dict[str, int] | None:
    return {theme: counts[kind] for theme, counts in figures["themes"].items()} if _known(figures) else None


def _known(figures: Figures) -> bool:
    return "schema" in figures["store"]


def _of_store(name: str) -> Callable[[Figures], Any]:
    return lambda figures: figures["store"].get(name)


def _of_spool(name: str) -> Callable[[Figures], Any]:
    return lambda figures: figures["spool"].get(name)


def _of_vectors(name: str) -> Callable[[Figures], Any]:
    return lambda figures: figures["embedding"].get(name)


def _counted(*names: str) -> Callable[[Figures], Any]:
    return lambda figures: sum(figures["process"].get(name, 0) for name in names)


METRICS = (
    Metric("up", "gauge", "store", "whether the database answered", lambda figures: int(_known(figures))),
    Metric("entries", "gauge", "store", "live memories", lambda figures: _rows(figures, "entries"), "theme"),
    Metric("turns", "gauge", "store", "live turns", lambda figures: _rows(figures, "turns"), "theme"),
    Metric("store_bytes", "gauge", "store", "size of the tables and indexes, or of the file", _of_store("bytes")),
    Metric("refused_texts", "counter", "store", "texts that a tombstone has kept out", _of_store("refused")),
    Metric("erasures_pending", "gauge", "store", "erasures whose traces are not cleared away yet", _of_store("erasures_pending")),
    Metric("vectors_stored", "gauge", "store", "rows that have their vector", _of_vectors("stored")),
    Metric("vectors_pending", "gauge", "store", "rows that wait for a vector", _of_vectors("pending")),
    Metric("vectors_retrying", "gauge", "store", "pending rows that have failed before", _of_vectors("retrying")),
    Metric("vectors_unembeddable", "gauge", "store", "rows that cannot be embedded", _of_vectors("unembeddable")),
    Metric("spool_waiting", "gauge", "spool", "writes that wait for the database", _of_spool("count")),
    Metric("spool_oldest_seconds", "gauge", "spool", "age of the oldest of them", _age),
    Metric("spool_bytes", "gauge", "spool", "size of what waits", _of_spool("bytes")),
    Metric("spool_limit_bytes", "gauge", "spool", "size at which writes are refused", _of_spool("max_bytes")),
    Metric("spool_quarantined", "gauge", "spool", "writes that failed for a reason of their own", _of_spool("quarantined")),
    Metric("spool_refused", "counter", "spool", "writes that the spool had no room for", _of_spool("refused")),
    Metric("spooled", "counter", "process", "writes accepted into the spool", _counted("spooled")),
    Metric("stored", "counter", "process", "writes that reached the database", _counted("drained", "added", "updated")),
    Metric("retried", "counter", "process", "drains that stopped and are tried again", _counted("retried")),
    Metric("quarantined", "counter", "process", "writes put into quarantine", _counted("quarantined")),
    Metric("refused", "counter", "process", "writes refused for lack of room", _counted("refused")),
    Metric("embedded", "counter", "process", "rows that were given a vector", _counted("embedded")),
    Metric("embedding_errors", "counter", "process", "calls of the embedder that failed", _counted("embedding_errors")),
    Metric("database_failures", "counter", "process", "attempts to use the database that failed", _counted("failures")),
    Metric("recalls", "counter", "process", "recalls that were answered", _counted("recalls")),
    Metric("recalls_degraded", "counter", "process", "answers that lacked a part", _counted("recalls_degraded")),
    Metric("worker_failures", "counter", "process", "unexpected failures of the background worker", _counted("worker_failures")),
    Metric(
        "pool_connections",
        "gauge",
        "process",
        "connections of the pool: size, available; waiting requests; errors",
        lambda figures: figures["store"].get("pool") and {name: figures["store"]["pool"].get(name, 0) for name in _POOL},
        "state",
    ),
)
LATENCY = "recall_seconds"
"""The histogram of recalls by leg: `recall` is the whole, `words`, `vectors` and `rows` the database's parts, `embed` the query's vector."""


def exposition(memory: Memory) -> str:
    """Return the figures of a memory, within its reach, as Prometheus text. Raises MissingExtra, store errors."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError:
        raise MissingExtra("metrics") from None
    registry = CollectorRegistry()
    registry.register(_Collected(memory.stats()))
    return generate_latest(registry).decode()


class _Collected:
    """A collector of figures taken once."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Any]:
        """Yield the metrics that the figures have."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for metric in METRICS:
            value = metric.value(self._figures)
            if value is None:
                continue
            family = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
            labels = [metric.label] if metric.label else []
            made = family(f"{_PREFIX}_{metric.name}", metric.help, labels=labels)
            for label, number in value.items() if metric.label else [("", value)]:
                made.add_metric([label] if metric.label else [], float(number))
            yield made
        legs = HistogramMetricFamily(f"{_PREFIX}_{LATENCY}", "duration of recalls by leg", labels=["leg"])
        for leg, found in self._figures["process"].get("recall", {}).items():
            buckets = [*((bound, float(count)) for bound, count in found["buckets"].items()), ("+Inf", float(found["count"]))]
            legs.add_metric([leg], buckets=buckets, sum_value=found["seconds"])
        yield legs
