"""Whether a turn asks something: then the next turn is what it is worth."""

from __future__ import annotations

import re

_MARKS = ("?", "\uff1f", "\u061f")
# A mark that ends a word, not one inside an address.
_MARK = re.compile(r"\?(?=[\s\"')\]}*_!?.]|\Z)|[\uff1f\u061f]")
# A courtesy or the note of a picture may follow a question.
_TAIL = 200
# A longer text may end in a question, but is not one: an answer with an offer of more.
_LONGEST = 600


def asks(text: str) -> bool:
    """Tell whether a text is a question, by its question mark."""
    if len(text) > _LONGEST or not any(mark in text for mark in _MARKS):
        return False
    return _MARK.search(text, max(0, len(text) - _TAIL)) is not None
