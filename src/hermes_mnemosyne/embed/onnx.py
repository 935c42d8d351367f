"""Transformers in ONNX form, run on one thread of the processor."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hermes_mnemosyne._errors import EmbeddingError, MissingExtra
from hermes_mnemosyne.embed.checked import checked
from hermes_mnemosyne.embed.loading import Lazy, ModelFile, check_time, deadline_of
from hermes_mnemosyne.embed.protocol import Family, Purpose, Vector
from hermes_mnemosyne.embed.tokens import Tokens, surely_fits

Pooling = Literal["mean", "cls"]

LIMIT = 1024
"""Tokens of a text that any model sees at most: the memory of a run grows with their square."""

_TEXTS_PER_RUN = 16
_TOKENS_PER_RUN = 256
"""Texts and tokens in one run, a longer text being a run of its own: more are slower on one thread, and take more memory."""

_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_QUIET = 3
"""Errors only: warnings about the machine would go to the agent's terminal."""


@dataclass(frozen=True)
class OnnxFiles:
    """A transformer as it lies on the disk; `limit` is in tokens, `prefixes` stand before a text according to its purpose."""

    name: str
    network: ModelFile
    tokenizer: ModelFile
    dimension: int
    limit: int = 256
    pooling: Pooling = "mean"
    prefixes: Mapping[Purpose, str] = field(default_factory=dict)


class _Network:
    """The session of onnxruntime and the tokenizer that belongs to it."""

    def __init__(self, files: OnnxFiles) -> None:
        try:
            self._numpy: Any = importlib.import_module("numpy")
            runtime: Any = importlib.import_module("onnxruntime")
        except ImportError as error:
            raise MissingExtra("local") from error
        self.tokens = Tokens(files.tokenizer.verified(), min(files.limit, LIMIT), special=True)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # it would keep the memory of the largest run for ever
        options.log_severity_level = _QUIET
        self._session: Any = runtime.InferenceSession(
            str(files.network.verified()), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._pooling = files.pooling
        self._inputs = {one.name for one in self._session.get_inputs()}
        if not {"input_ids"} <= self._inputs <= _INPUTS:
            raise EmbeddingError(f"{files.network.path} does not take tokens of a text: its inputs are {sorted(self._inputs)}")
        states = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        self.errors: tuple[type[Exception], ...] = (
            states.Fail,
            states.InvalidArgument,
            states.RuntimeException,
            states.NotImplemented,
        )

    def run(self, rows: Sequence[Sequence[int]]) -> Any:
        """Return the pooled vectors of texts given as tokens, one row each."""
        numpy = self._numpy
        numbers = numpy.zeros((len(rows), max(map(len, rows))), dtype=numpy.int64)
        mask = numpy.zeros_like(numbers)
        for line, row in enumerate(rows):
            numbers[line, : len(row)] = row
            mask[line, : len(row)] = 1
        given = {"input_ids": numbers, "attention_mask": mask, "token_type_ids": numpy.zeros_like(numbers)}
        output = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        if output.ndim != 3:  # noqa: PLR2004 - texts by dimensions: pooled inside the model
            return output
        if self._pooling == "cls":
            return output[:, 0]
        return (output * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)


class OnnxModel:
    """An embedder that runs a transformer: milliseconds per text, a few hundred megabytes once it is loaded."""

    family: Family = "transformer"
    is_remote: bool = False

    def __init__(self, files: OnnxFiles) -> None:
        """Take the files; they are read at the first call."""
        self._files = files
        self._loaded = Lazy(files.name, self._load)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._files.name

    @property
    def dimension(self) -> int:
        """The length of its vectors."""
        return self._files.dimension

    def _load(self) -> _Network:
        return _Network(self._files)

    def embed(self, texts: Sequence[str], purpose: Purpose, *, timeout: float | None = None) -> list[Vector]:
        """Return one vector of unit length per text, in order, within `timeout` seconds (a run that has begun is finished).

        Raises EmbeddingError: the model cannot be loaded or run; not in time (`retryable`); a text has no known token (`about_text`).
        """
        if not texts:
            return []
        deadline = deadline_of(timeout)
        network = self._loaded.get(deadline)
        prefix = self._files.prefixes.get(purpose, "")
        rows = []
        for text in texts:
            check_time(deadline, self.name)
            if not network.tokens.known(text):
                raise EmbeddingError(f"{self.name} knows no word of the text", about_text=True)
            rows.append(network.tokens.all(prefix + text))
        vectors: dict[int, Vector] = {}
        for batch in _batches(rows):
            check_time(deadline, self.name)
            try:
                pooled = network.run([rows[place] for place in batch]).tolist()
            except network.errors as error:
                raise EmbeddingError(f"{self.name} cannot be run: {error}") from error
            vectors.update(
                (place, checked(one, self.dimension, name=self.name)) for place, one in zip(batch, pooled, strict=True)
            )
        return [vectors[place] for place in range(len(rows))]

    def cuts(self, text: str) -> bool:
        """Tell whether the text is longer than what the model sees."""
        whole = self._files.prefixes.get("document", "") + text
        return not surely_fits(whole, min(self._files.limit, LIMIT)) and self._loaded.get(None).tokens.cuts(whole)

    def close(self) -> None:
        """Let go of the network; the next call loads it again."""
        self._loaded.drop()


def _batches(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the places of rows of similar length, so that little is computed for padding."""
    batch: list[int] = []
    for place in sorted(range(len(rows)), key=lambda place: len(rows[place])):
        if len(batch) == _TEXTS_PER_RUN or (len(batch) + 1) * len(rows[place]) > _TOKENS_PER_RUN:
            if batch:
                yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
