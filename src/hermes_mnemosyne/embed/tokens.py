"""Text to the numbers of a model's tokens: bounded in time for any text, and honest about what was left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hermes_mnemosyne._errors import EmbeddingError, MissingExtra

_WIDEST = 32
"""Characters per token beyond which a text is cut before it is tokenised; only long runs of blanks or unknown signs are wider."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_USUAL_UNKNOWN = ("<unk>", "[UNK]")


_OWN_TOKENS = 8
"""More than any model adds to a text."""


def surely_fits(text: str, limit: int) -> bool:
    """Tell without a tokenizer that a text has at most `limit` tokens: of ASCII, each takes a character at least."""
    return len(text) + _OWN_TOKENS <= limit and text.isascii()


class Tokens:
    """A tokenizer file (`tokenizer.json`), bounded to the first `limit` tokens of a text. Safe from any thread."""

    def __init__(self, path: Path, limit: int, *, special: bool) -> None:
        """Read the file; `special` adds the model's own tokens (beginning, end), which count towards the limit.

        Raises MissingExtra: the package tokenizers is not installed.
        Raises EmbeddingError: a word that the model does not know would be an error.
        """
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtra("local") from error
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        tokenizer.enable_truncation(limit)
        self._tokenizer: Any = tokenizer
        self._special = special
        self._characters = limit * _WIDEST
        self._unknown: int | None = self._find_unknown(path)

    def _find_unknown(self, path: Path) -> int | None:
        named = getattr(self._tokenizer.model, "unk_token", None)
        candidates = _USUAL_UNKNOWN if named is None else (named,)
        numbers = [number for token in candidates if (number := self._tokenizer.token_to_id(token)) is not None]
        if named is not None and not numbers:
            raise EmbeddingError(f"{path} is not a usable tokenizer: its vocabulary lacks its own unknown token {named!r}")
        return numbers[0] if numbers else None

    def _encoded(self, text: str) -> Any:
        # One text at a time: batches would start native threads, which take the agent's processors and do not survive a fork.
        clean = _SURROGATES.sub("\ufffd", text[: self._characters])
        return self._tokenizer.encode(clean, add_special_tokens=self._special)

    def known(self, text: str) -> list[int]:
        """Return the tokens of the text without the model's own ones and without unknown ones; may be empty."""
        if not text or text.isspace():  # some models have a token for blanks
            return []
        encoded = self._encoded(text)
        pairs = zip(encoded.ids, encoded.special_tokens_mask, strict=True)
        return [number for number, special in pairs if not special and number != self._unknown]

    def all(self, text: str) -> list[int]:
        """Return the tokens of the text with the model's own ones, as its network wants them."""
        numbers: list[int] = self._encoded(text).ids
        return numbers

    def cuts(self, text: str) -> bool:
        """Tell whether the text is longer than what the model sees."""
        return len(text) > self._characters or bool(self._encoded(text).overflowing)
