"""Every authored record in a stable order: the same rows give the same lines, whatever their row numbers here."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hermes_mnemosyne.store.writing.rows import snapshot
from hermes_mnemosyne.values import Entry, Turn

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Source:
    """A store at one moment: `stream` yields the rows of a named statement, `load` returns live rows by row number."""

    stream: Callable[..., Iterable[Any]]
    load: Callable[[Sequence[int]], Mapping[int, Entry | Turn]]


def records(source: Source, within: Collection[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield entries, turns, aliases, history and tombstones of these themes and subjects."""
    for name, kind in (("export_entries", "entry"), ("export_turns", "turn")):
        ids = (row[0] for row in source.stream(name))
        while some := list(islice(ids, _BATCH)):
            rows = source.load(some)
            for number in some:
                value = rows[number]
                if (value.theme, value.subject) in within:
                    yield {"type": kind, **snapshot(value)}
    for uid, survivor, clock, theme, subject in source.stream("export_aliases"):
        if (theme, subject) in within:
            yield {"type": "alias", "uid": uid, "survivor": survivor, "clock": clock, "theme": theme, "subject": subject}
    for uid, action, at, clock, text, theme, subject in source.stream("export_history"):
        if (theme, subject) in within:
            yield {
                "type": "history", "uid": uid, "action": action, "at": at, "clock": clock, "theme": theme, "subject": subject,
                "before": json.loads(text),
            }  # fmt: skip
    for row in source.stream("export_tombstones"):
        uid, theme, subject, kind, state, visibility, at, clock, session_id, role, digest, occurrence = row
        if (theme, subject) not in within:
            continue
        record = {
            "type": "tombstone", "uid": uid, "theme": theme, "subject": subject, "kind": kind, "state": state,
            "visibility": visibility, "at": at, "clock": clock,
        }  # fmt: skip
        if session_id is not None:
            record |= {"session_id": session_id, "role": role, "content_hash": digest.lower(), "occurrence": occurrence}
        macs = [list(found) for found in source.stream("export_forgotten", (uid,))]
        yield record | ({"keeps_out": macs} if macs else {})
