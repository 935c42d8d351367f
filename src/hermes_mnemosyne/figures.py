"""The figures of a memory for `stats`: counts within its reach, and the state of every part."""

from __future__ import annotations

from typing import Any

from hermes_mnemosyne.core import Engine
from hermes_mnemosyne.store.protocol import Reach, Store

REMOTES = "remote/"
"""Begins the keys under which a store keeps what it knows of each server that it syncs with."""
CLIENTS = "client/"
"""Begins the keys under which a store that is served keeps what it knows of each replica that syncs with it."""
_OF_REMOTE = ("url", "last_success", "last_try", "last_error", "skew", "totals")


def figures_of(engine: Engine, theme: str, reach: Reach) -> dict[str, Any]:
    """Return the figures of an engine's store within a reach. Raises StoreError; not for a server that is away."""
    is_ready = engine.ready(engine.settings.busy_timeout)
    # Which key it expects is only known once it is open.
    store = engine.store if is_ready else None
    spool = engine.spool.status()
    local = {
        "ok": is_ready and not spool["quarantined"] and not engine.key.problems(),
        "path": str(engine.place),
        "theme": theme,
        "spool": spool,
        "waiting": engine.waiting.status()["count"],
        "process": engine.figures(),
    }
    if store is None:
        unverified = {"state": "unverified", "problem": engine.contact.problem or "the database has not answered"}
        return {**local, "themes": {}, "store": unverified, "sync": {}, "embedding": {}}
    themes = store.themes(reach).items()
    return {
        **local,
        "themes": {name: {"entries": counts.entries, "turns": counts.turns} for name, counts in themes},
        "store": store.stats(reach),
        "sync": remotes_of(store),
        "embedding": engine.embedding_figures(),
    }


def remotes_of(store: Store) -> dict[str, dict[str, Any]]:
    """Return of each server that a store syncs with how the last rounds went. Raises StoreError."""
    kept = store.sync_states(REMOTES)
    return {key.removeprefix(REMOTES): {name: state.get(name) for name in _OF_REMOTE} for key, state in sorted(kept.items())}


def clients_of(store: Store) -> dict[str, dict[str, Any]]:
    """Return what a store knows of each replica that syncs with it, by its id. Raises StoreError."""
    return {key.removeprefix(CLIENTS): state for key, state in sorted(store.sync_states(CLIENTS).items())}
