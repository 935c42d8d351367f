"""The figures of a server as Prometheus text: those of its memory, and what it has done and knows of replicas."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from hermes_mnemosyne._errors import MissingExtra
from hermes_mnemosyne.clock import parse_utc
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.metrics import exposition
from hermes_mnemosyne.store.records import is_time
from hermes_mnemosyne.sync.server.exchange import Exchange

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "mnemosyne_sync_"
_MOST_REPLICAS = 200
_COUNTERS = {
    "records_sent": "records sent to replicas",
    "records_received": "records that replicas sent and the store was asked to merge",
    "records_refused": "records refused: forgotten here, out of the key's themes, or local",
    "records_set_aside": "records that could not be read or stored",
    "records_restamped": "records whose clock was corrected",
}


def text_of(
    memory: Memory, exchange: Exchange, answers: Mapping[tuple[str, str], int], now: Mapping[str, int], *, with_replicas: bool
) -> str:
    """Return the figures of a memory within its reach, of what was exchanged, of `answers` by path and status, of what is under way.

    Raises MissingExtra, StoreError.
    """
    try:
        from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
    except ImportError:
        raise MissingExtra("metrics") from None
    registry = CollectorRegistry()
    for name, what in _COUNTERS.items():
        Counter(_PREFIX + name, what, registry=registry).inc(exchange.counters[name])
    requests = Counter(_PREFIX + "requests", "requests answered", ["path", "status"], registry=registry)
    for (path, status), count in sorted(answers.items()):
        requests.labels(path, status).inc(count)
    for name, value in now.items():
        Gauge(f"{_PREFIX}{name}", name.replace("_", " "), registry=registry).set(value)
    if with_replicas:
        _add_replicas(registry, exchange.replicas(), exchange.position())
    return exposition(memory) + generate_latest(registry).decode()


def _add_replicas(registry: Any, replicas: Mapping[str, Mapping[str, Any]], position: int) -> None:
    """Add how each replica stands: rows behind as far as the server has told it, age of the last contact, error of its clock."""
    from prometheus_client import Gauge

    Gauge(_PREFIX + "replicas", "replicas that have ever asked", registry=registry).set(len(replicas))
    behind = Gauge(
        _PREFIX + "replica_behind", "change numbers that a replica has not been told of", ["replica"], registry=registry
    )
    silent = Gauge(_PREFIX + "replica_silent_seconds", "age of the last contact, by ten minutes", ["replica"], registry=registry)
    skew = Gauge(_PREFIX + "replica_skew_seconds", "how far a replica's clock was ahead", ["replica"], registry=registry)
    for name, state in _newest(replicas.items()):
        behind.labels(name).set(max(0, position - max(0, int(state.get("told", 0)))))
        if isinstance(state.get("seen"), str) and is_time(state["seen"]):
            silent.labels(name).set(max(0.0, time.time() - parse_utc(state["seen"]).timestamp()))
        skew.labels(name).set(float(state.get("skew", 0)))


def _newest(states: Iterable[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, Mapping[str, Any]]]:
    return sorted(states, key=lambda pair: str(pair[1].get("seen", "")), reverse=True)[:_MOST_REPLICAS]
