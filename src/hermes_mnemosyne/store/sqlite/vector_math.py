"""Vectors as bytes and numbers, with numpy and without.

A vector is little-endian float32 of unit length. Its sketch has one bit per dimension, set where the number is positive, in whole
words of 64 bits.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from functools import cache
from operator import mul
from typing import Any

from hermes_mnemosyne._errors import InvalidInput

WORD_BITS = 64
# Beyond this many digits a score tells of float32's rounding only; equal vectors must have equal scores.
_DIGITS = 7
_UNIT = 1e-6
# Bytes to binary digits: a clear sign bit is a positive number.
_SIGNS = bytes(0x31 if byte < 0x80 else 0x30 for byte in range(256))  # noqa: PLR2004 - the sign bit


def packed(vector: Sequence[float]) -> tuple[bytes, bytes]:
    """Return the BLOB and the sketch of a vector, scaled to unit length.

    Raises InvalidInput for a vector that has no direction: empty, zero, NaN or infinite.
    """
    length = math.hypot(*vector)
    if not math.isfinite(length) or length == 0.0:
        raise InvalidInput("a vector must be finite and not zero")
    values = array("f", vector if abs(length - 1.0) < _UNIT else [value / length for value in vector])
    if sys.byteorder == "big":
        values.byteswap()
    blob = values.tobytes()
    return blob, sketch_of(blob)


def sketch_of(blob: bytes) -> bytes:
    """Return the sketch of a BLOB."""
    signs = blob[3::4].translate(_SIGNS)
    words = -(-len(signs) // WORD_BITS)
    return int(signs, 2).to_bytes(words * WORD_BITS // 8, "big")


def unpacked(blob: bytes) -> array[float]:
    """Return the numbers of a BLOB."""
    values = array("f")
    values.frombytes(blob)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def cosines(query: bytes, blobs: Sequence[bytes]) -> list[float]:
    """Return the cosine of each BLOB with that of a query; equal BLOBs have equal cosines, with numpy and without."""
    np = numpy_if_loaded()
    if np is None or not blobs:
        wanted = unpacked(query).tolist()
        return [round(min(1.0, max(-1.0, sum(map(mul, wanted, unpacked(blob))))), _DIGITS) for blob in blobs]
    matrix = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)
    scores = np.einsum("ij,j->i", matrix, np.frombuffer(query, dtype="<f4"), dtype=np.float64)
    found: list[float] = np.clip(scores.round(_DIGITS), -1.0, 1.0).tolist()
    return found


@cache
def numpy() -> Any:
    """Return numpy, imported at the first call, or None when it cannot be."""
    try:
        import numpy as np
    except ImportError:
        return None
    return np


def numpy_if_loaded() -> Any:
    """Return numpy if this process has it already: for few vectors it is not worth its time and memory."""
    return numpy() if sys.modules.get("numpy") else None
