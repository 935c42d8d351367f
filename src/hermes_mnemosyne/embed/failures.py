"""Why a call to an endpoint failed, with what the client itself needs to know to go on."""

from __future__ import annotations

from typing import Literal

from hermes_mnemosyne._errors import EmbeddingError

FailureKind = Literal["trouble", "unreachable", "silent", "elsewhere", "final"]
"""Where a call ended: nothing could be sent (`unreachable`), it was not answered in time (`silent`), this protocol is not spoken
under this address (`elsewhere`), no protocol could change it, like a denied access or another dimension (`final`), all else."""


class Failure(EmbeddingError):
    """The embedding endpoint could not do its part."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        about_text: bool = False,
        kind: FailureKind = "trouble",
        pause: float = 0.0,
    ) -> None:
        """Take what the endpoint asked to be left alone for: `pause` seconds."""
        super().__init__(message, retryable=retryable, about_text=about_text)
        self.kind: FailureKind = kind
        self.pause = pause
