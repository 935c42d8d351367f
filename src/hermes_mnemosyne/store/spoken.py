"""The text of a row as the analyser and an embedder get it."""

from __future__ import annotations


def spoken(content: str, speaker: str = "", occurred_at: str | None = None) -> str:
    """Return the text of an entry, or of a turn with its speaker and the day in words (of UTC text), as the index holds it."""
    head = [speaker] if speaker else []
    if occurred_at:
        from hermes_mnemosyne.times import date_words  # entries need no calendar

        head.append(date_words(occurred_at))
    return " ".join([*head, content])
