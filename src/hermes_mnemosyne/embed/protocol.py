"""The Embedder protocol: all that the engine may ask of an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from array import array

Purpose = Literal["query", "document"]
Family = Literal["static", "transformer", "endpoint"]
"""What default weights of fusion depend on: averaged word vectors, a network on this machine, somebody's service."""

Vector: TypeAlias = "array[float]"
"""Float32 numbers (type code `f`), of unit length unless said otherwise."""


class Embedder(Protocol):
    """One model. Safe from any thread; loads what it needs at its first call, not before."""

    @property
    def name(self) -> str:
        """The name of the model, for people and for messages."""
        ...

    @property
    def dimension(self) -> int:
        """The length of its vectors."""
        ...

    @property
    def family(self) -> Family:
        """What kind of model it is."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether texts leave this machine."""
        ...

    def embed(self, texts: Sequence[str], purpose: Purpose, *, timeout: float | None = None) -> list[Vector]:
        """Return one vector of unit length per text, in order; an empty list for no texts.

        `timeout` bounds the whole call in seconds; None is what the model's settings say for the purpose. A query is tried once,
        documents as often as the settings say.

        Raises EmbeddingError: `retryable` when the same call may succeed later, `about_text` when a text is the cause, so that the
        other texts of a batch can be embedded without it (also for a vector that is zero, NaN or infinite).
        """
        ...

    def cuts(self, text: str) -> bool:
        """Tell whether the model sees only the beginning of a text."""
        ...

    def close(self) -> None:
        """Give back connections and memory; the next call takes them again."""
        ...
