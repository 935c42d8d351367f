"""Rows under the old names as rows of ours: cleaned, masked, of a subject, with an edit clock. Nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import now_text, parse_utc, utc_text
from hermes_mnemosyne.identity import BUCKETS, FALLBACK_THEME, default_visibility, is_bucket, session_reference, subject_of
from hermes_mnemosyne.masking import mask, mask_value
from hermes_mnemosyne.store.protocol import ContentKey
from hermes_mnemosyne.text import storable, storable_value
from hermes_mnemosyne.values import Origin, Visibility

ORIGIN = Origin("import", "hermes-memory-pgvector")
ENTRIES, TURNS = "memory_entries", "conversations"
_SESSIONS = ("session_id", "parent_session_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRow:
    """One row under an old name as this store would hold it.

    `subject` is None while it cannot be known for lack of the subject key. `part` is the target of an entry or the role of a turn,
    `said` tells that a person or agent said it just then, where False means that a file or transcript was read again.
    """

    relation: str
    id: int
    theme: str
    subject: str | None
    part: str
    content: str
    session_id: str
    parent_session_id: str
    metadata: Mapping[str, Any]
    created_at: str
    updated_at: str
    clock: str
    said: bool

    @property
    def visibility(self) -> Visibility:
        """Return the visibility that new rows of its theme have."""
        return default_visibility(self.theme)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads rows for the store with this replica id."""

    key: ContentKey
    replica: str

    def row(self, relation: str, fields: Mapping[str, Any], *, at: str | None = None, number: int | None = None) -> OldRow:
        """Return a row of its fields as Postgres writes them in JSON.

        `at` is when it was written, where that is known better than from the row itself, and `number` which of several writes it was.
        """
        now = now_text()
        theme = _text(fields.get("agent_identity"))
        theme = theme if theme.strip() else FALLBACK_THEME
        created = moment(fields.get("created_at" if relation == ENTRIES else "ts"), at or now)
        updated = moment(fields.get("updated_at"), created) if relation == ENTRIES else created
        metadata = _metadata(fields.get("metadata"))
        raw = _text(metadata.get("raw_identity")).strip() if is_bucket(theme) else ""
        if is_bucket(theme):
            metadata.pop("raw_identity", None)
        named = metadata.get("session_id") if relation == ENTRIES else fields.get("session_id")
        references = [self._reference(value, raw) for value in (named, fields.get("parent_session_id"))]
        for name in _SESSIONS:
            if raw and isinstance(metadata.get(name), str):
                metadata[name] = self._reference(metadata[name], raw) or ""
        subject = self._subject(theme, raw)
        return OldRow(
            relation=relation,
            id=int(fields["id"]),
            theme=theme,
            subject=None if None in references else subject,
            part=_text(fields.get("target" if relation == ENTRIES else "role")),
            content=mask(_text(fields.get("content")))[0],
            session_id=references[0] or "",
            parent_session_id=references[1] or "",
            metadata=metadata,
            created_at=created,
            updated_at=updated,
            clock=self.stamp(min(at or updated, now), int(fields["id"]) if number is None else number),
            said=metadata.get("source") != "bulk_import" if relation == ENTRIES else "session_id" in metadata,
        )

    def stamp(self, at: str, number: int) -> str:
        """Return the edit clock of a time; of several writes within a microsecond the one with the greater number is later."""
        since = parse_utc(at) - parse_utc("1970-01-01T00:00:00.000000Z")
        micros = max(0, (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
        return f"{micros // 1000:012x}{micros % 1000 * 64 + number % 64:04x}-{self.replica}"

    def _subject(self, theme: str, raw: str) -> str | None:
        # Without a raw identity nobody can say whose row it is: no contact sees it until `remap`.
        if not raw or raw.lower() in BUCKETS:
            return ""
        return subject_of(theme, {"gateway_session_key": raw}, self.key)

    def _reference(self, session_id: Any, raw: str) -> str | None:
        text = _text(session_id)
        return session_reference(text, self.key, {"gateway_session_key": raw} if raw else None)


def moment(value: Any, otherwise: str) -> str:
    """Return a time as Postgres writes it in JSON as UTC text; `otherwise` for one that no calendar has, such as infinity."""
    try:
        return utc_text(datetime.fromisoformat(value))
    except (TypeError, ValueError, OverflowError):
        return otherwise


def _text(value: Any) -> str:
    return storable(value)[0] if isinstance(value, str) else ""


def _metadata(value: Any) -> dict[str, Any]:
    try:
        cleaned = mask_value(storable_value(value)[0])[0]
    except InvalidInput:  # too deep, too large, or with numbers that JSON cannot write: the text counts
        return {}
    return dict(cleaned) if isinstance(cleaned, Mapping) else {"value": cleaned} if cleaned is not None else {}
