"""What a model answers, made safe to store: the right length, finite, not zero, of unit length."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from hermes_mnemosyne._errors import EmbeddingError
from hermes_mnemosyne.embed.protocol import Vector

_UNIT = 1e-7
"""A length this near to one is one in float32."""
_NOTHING = 1e-30
"""Below this length a direction is noise: float32 keeps next to nothing of such numbers."""


def checked(values: Sequence[float], dimension: int, *, name: str) -> Vector:
    """Return the raw vector `values` as float32 numbers of unit length; `name` is the model, for messages.

    Raises EmbeddingError: without a flag when there are not `dimension` numbers, `about_text` when the vector is zero, NaN or infinite.
    """
    if len(values) != dimension:
        raise EmbeddingError(f"expected {dimension} (embed_dim), got {len(values)}")
    try:
        length = math.hypot(*values)
    except OverflowError:  # an integer beyond the range of floating point
        length = math.inf
    except TypeError as error:
        raise EmbeddingError(f"{name} returned a vector of something else than numbers") from error
    if not math.isfinite(length):
        raise EmbeddingError(f"{name} returned a vector that is not finite", about_text=True)
    if length < _NOTHING:
        raise EmbeddingError(f"{name} returned a vector of zeros", about_text=True)
    # Most models answer unit vectors: to divide by one takes longer than all the rest.
    return array("f", values if abs(length - 1.0) < _UNIT else [value / length for value in values])
