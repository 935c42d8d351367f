"""Words that were seen in texts without secrets, so that ordinary text is not searched for every trigger again and again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

_MOST_WORDS = 16_384
_AROUND = ".,;:!?()\"'\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u2026\u2013\u2014-"
_PAUSE = 16


def lowered(text: str) -> str:
    """Return a text in lower case, place by place."""
    # U+0130 is the one character that grows; positions must agree with those of `text`. A final sigma is a sigma.
    return text.replace("\u0130", "I").lower().replace("\u03c2", "\u03c3")


class Familiar:
    """Short words of letters only that hold no trigger; a bounded number. Safe from any thread."""

    def __init__(self, triggers: Iterable[str], endings: Mapping[str, tuple[str, ...]], length: int) -> None:
        """Know no word yet.

        `triggers` are in lower case and without blanks. Where one has `endings`, it counts only in a word that ends so. Words of
        `length` characters are not kept.
        """
        unique = tuple(dict.fromkeys(triggers))
        self._ascii: Sequence[str] = [trigger for trigger in unique if trigger.isascii()]
        self._others: Sequence[str] = [trigger for trigger in unique if not trigger.isascii()]
        self._endings = endings
        self._length = length
        self._words: set[str] = set()
        self._pause = 0

    def unfamiliar(self, text: str) -> tuple[set[str], frozenset[str]]:
        """Return the words of a text that are not known to be harmless, and the triggers in them."""
        words = set(text.split()) - self._words
        joined = lowered(" ".join(words))
        found = [trigger for trigger in self._ascii if trigger in joined]
        if not joined.isascii():
            found += [trigger for trigger in self._others if trigger in joined]
        return words, frozenset(found)

    def learn(self, words: Collection[str], triggers: frozenset[str]) -> None:
        """Keep those words of a text without secrets that hold none of its triggers; where hardly any can be kept, pause a while."""
        if self._pause > 0:
            self._pause -= 1
            return
        if len(self._words) > _MOST_WORDS:
            self._words.clear()
        known = len(self._words)
        for word in words:
            core = word.strip(_AROUND)
            letters = core.replace("\u2019", "").replace("'", "")
            if (
                len(word) < self._length
                and (letters.isalpha() or not core)
                and not any(self._counts(trigger, word.lower(), core.lower()) for trigger in triggers)
            ):
                self._words.add(word)
        if (len(self._words) - known) * _PAUSE < len(words):
            self._pause = _PAUSE

    def _counts(self, trigger: str, word: str, core: str) -> bool:
        endings = self._endings.get(trigger)
        return trigger in word and (endings is None or core.endswith(endings))
