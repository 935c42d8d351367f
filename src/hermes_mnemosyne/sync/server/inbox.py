"""The records of a page that was sent, by what is to be done with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hermes_mnemosyne.store.operations import Outcome
from hermes_mnemosyne.sync.keyring import Grant
from hermes_mnemosyne.sync.wire import Page

_SHARED = ("entry", "turn")


def numbered(page: Page) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a page with their lines; the head is line 1."""
    missing = {line for line, _ in page.set_aside}
    lines = (line for line in range(2, len(page.records) + len(missing) + 2) if line not in missing)
    yield from zip(lines, page.records, strict=True)


class Inbox:
    """The records of a page by what is to be done with them; `taken` holds the line of each, from 1, and the record."""

    def __init__(self, page: Page, grant: Grant) -> None:
        """Take a page and what its sender may do."""
        self.taken: list[tuple[int, dict[str, Any]]] = []
        self.refused: list[dict[str, Any]] = []
        self.set_aside: list[dict[str, Any]] = [{"line": line, "why": why} for line, why in page.set_aside]
        self._is_narrow = grant.themes is not None
        for line, record in numbered(page):
            theme, subject, uid = record.get("theme"), record.get("subject", ""), record.get("uid")
            if not isinstance(theme, str) or not theme or not isinstance(subject, str) or not isinstance(uid, str):
                self.set_aside.append({"line": line, "why": "uid, theme and subject must be text"})
            elif grant.themes is not None and theme.lower() not in grant.themes:
                self._refuse(record, "forbidden")
            elif record.get("type") in _SHARED and record.get("visibility") == "local":
                self._refuse(record, "local")
            else:
                self.taken.append((line, record))

    def _refuse(self, record: Mapping[str, Any], why: str) -> None:
        self.refused.append({"uid": record["uid"], "theme": record["theme"], "why": why})

    def report(self, outcomes: Sequence[Outcome]) -> None:
        """Note what the store did not take."""
        for (line, record), outcome in zip(self.taken, outcomes, strict=True):
            if outcome.status == "failed":
                # A key for some themes learns nothing of rows in others.
                why = "it cannot be stored" if self._is_narrow else outcome.error
                self.set_aside.append({"line": line, "why": why})
            elif outcome.status == "refused":
                self._refuse(record, outcome.notes[0] if outcome.notes else "refused")
