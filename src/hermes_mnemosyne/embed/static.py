"""Static models: the vector of a text is the mean of its tokens' vectors, rows of one table in a safetensors file.

A safetensors file is a JSON header and raw little-endian numbers, so rows are read straight from the file: no memory for the
table, no package to read it, and a file that is overwritten meanwhile gives an error rather than a crash. numpy, where it is
installed, makes it about twice as fast.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_mnemosyne._errors import EmbeddingError
from hermes_mnemosyne.embed.checked import checked
from hermes_mnemosyne.embed.loading import Lazy, ModelFile, check_time, deadline_of
from hermes_mnemosyne.embed.protocol import Family, Purpose, Vector
from hermes_mnemosyne.embed.tokens import Tokens, surely_fits

TABLE_NAMES = ("embeddings", "embedding.weight")
LIMIT = 512
"""Tokens of a text that count: what model2vec takes as well; the mean of more says little about any of them."""

_LONGEST_HEADER = 10_000_000
_FLOATS = {"F16": ("e", "<f2", 2), "F32": ("f", "<f4", 4), "F64": ("d", "<f8", 8), "I8": ("b", "<i1", 1)}
_INTEGERS = {"I32": ("i", 4), "I64": ("q", 8)}


@dataclass(frozen=True)
class Tensor:
    """Where a tensor of a safetensors file lies; `start` is counted in bytes from the beginning of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int


def tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name, from its header alone.

    Raises EmbeddingError: the file cannot be read, is none, or is cut short.
    """
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length)) if length <= _LONGEST_HEADER else {}
            whole = os.fstat(file.fileno()).st_size
        found = {
            name: Tensor(
                one["dtype"],
                tuple(one["shape"]),
                8 + length + one["data_offsets"][0],
                one["data_offsets"][1] - one["data_offsets"][0],
            )
            for name, one in header.items()
            if name != "__metadata__"
        }
    except OSError as error:
        raise EmbeddingError(f"{path} cannot be read: {error.strerror}") from error
    except (struct.error, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise EmbeddingError(f"{path} is not a safetensors file") from error
    if not found:
        raise EmbeddingError(f"{path} is not a safetensors file")
    if any(one.start + one.size > whole for one in found.values()):
        raise EmbeddingError(f"{path} is cut short: copy it again")
    return found


def table_of(path: Path) -> Tensor | None:
    """Return the table of token vectors of a safetensors file, None when it holds another kind of model.

    Raises EmbeddingError: the file cannot be read, or its numbers are of a kind that is not supported.
    """
    found = tensors(path)
    table = next((found[name] for name in TABLE_NAMES if name in found), None)
    if table is None:
        return None
    if table.dtype not in _FLOATS or len(table.shape) != 2:  # noqa: PLR2004 - tokens by dimensions
        raise EmbeddingError(f"{path}: token vectors of type {table.dtype} and shape {list(table.shape)} are not supported")
    if table.size != table.shape[0] * table.shape[1] * _FLOATS[table.dtype][2]:
        raise EmbeddingError(f"{path} is not a safetensors file: its sizes disagree")
    return table


class _Rows:
    """Sums of rows of the table, read from the open file."""

    def __init__(self, path: Path, dimension: int) -> None:
        table = table_of(path)
        if table is None or table.shape[1] != dimension:
            raise EmbeddingError(f"{path} does not hold token vectors of {dimension} dimensions any more")
        self._path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._handle)
        self._state = self._stamp()
        self._start, self._dimension = table.start, dimension
        code, self._kind, width = _FLOATS[table.dtype]
        self._row = struct.Struct(f"<{dimension}{code}")
        self._width = dimension * width
        found = tensors(path)
        # A smaller vocabulary of vectors than of tokens: the row of each token, and the weight of each token.
        self._mapping = self._numbers(found.get("mapping"), _INTEGERS)
        self._weights = self._numbers(found.get("weights"), {name: (code, width) for name, (code, _, width) in _FLOATS.items()})
        self._count = table.shape[0] if self._mapping is None else len(self._mapping)
        if self._weights is not None and len(self._weights) != self._count:
            raise EmbeddingError(f"{path}: {len(self._weights)} weights for {self._count} tokens")
        if self._mapping is not None and not all(0 <= row < table.shape[0] for row in self._mapping):
            raise EmbeddingError(f"{path}: its mapping names rows that it does not have")
        self._numpy: Any = _numpy()

    def _numbers(self, tensor: Tensor | None, kinds: dict[str, tuple[str, int]]) -> tuple[Any, ...] | None:
        if tensor is None:
            return None
        if tensor.dtype not in kinds or len(tensor.shape) != 1:
            raise EmbeddingError(f"{self._path}: numbers of type {tensor.dtype} and shape {list(tensor.shape)} are not supported")
        code, width = kinds[tensor.dtype]
        return struct.unpack(f"<{tensor.size // width}{code}", self._read(tensor.start, tensor.size // width * width))

    def _stamp(self) -> tuple[int, int]:
        found = os.fstat(self._handle)
        return found.st_mtime_ns, found.st_size

    def check(self) -> None:
        """Raise EmbeddingError when the file was written since it was opened: what it holds may be another model."""
        if self._stamp() != self._state:
            raise EmbeddingError(f"{self._path} was changed while it was used: start this program again")

    def _read(self, start: int, size: int) -> bytes:
        try:
            data = os.pread(self._handle, size, start)
        except OSError as error:
            raise EmbeddingError(f"{self._path} cannot be read: {error.strerror}", retryable=True) from error
        if len(data) != size:
            raise EmbeddingError(f"{self._path} is cut short: copy it again")
        return data

    def sum(self, tokens: Sequence[int]) -> list[float] | None:
        """Return the (weighted) sum of the tokens' rows, None when the table has none of them."""
        known = [token for token in tokens if token < self._count]
        if not known:
            return None
        rows = known if self._mapping is None else [self._mapping[token] for token in known]
        data = b"".join([self._read(self._start + row * self._width, self._width) for row in rows])
        weights = None if self._weights is None else [self._weights[token] for token in known]
        if self._numpy is None:
            return self._plain_sum(data, weights)
        table = self._numpy.frombuffer(data, dtype=self._kind).reshape(len(rows), self._dimension).astype("f4")
        summed: list[float] = (table.sum(0) if weights is None else self._numpy.asarray(weights, dtype="f4") @ table).tolist()
        return summed

    def _plain_sum(self, data: bytes, weights: list[float] | None) -> list[float]:
        rows = self._row.iter_unpack(data)
        if weights is None:
            return [sum(column) for column in zip(*rows, strict=True)]
        weighted = ([weight * value for value in row] for row, weight in zip(rows, weights, strict=True))
        return [sum(column) for column in zip(*weighted, strict=True)]


def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


@dataclass(frozen=True)
class StaticFiles:
    """A static model as it lies on the disk."""

    name: str
    weights: ModelFile
    tokenizer: ModelFile
    dimension: int


class StaticModel:
    """An embedder that averages token vectors: tens of microseconds per text, next to no memory."""

    family: Family = "static"
    is_remote: bool = False

    def __init__(self, files: StaticFiles) -> None:
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

    def _load(self) -> tuple[Tokens, _Rows]:
        tokens = Tokens(self._files.tokenizer.verified(), LIMIT, special=False)
        return tokens, _Rows(self._files.weights.verified(), self._files.dimension)

    def embed(self, texts: Sequence[str], purpose: Purpose, *, timeout: float | None = None) -> list[Vector]:  # noqa: ARG002 - one kind of vector for both
        """Return one vector of unit length per text, in order, within `timeout` seconds.

        Raises EmbeddingError: the model cannot be loaded, or its file has changed; not in time (`retryable`); a text has no known
        token (`about_text`).
        """
        if not texts:
            return []
        deadline = deadline_of(timeout)
        tokens, rows = self._loaded.get(deadline)
        vectors = []
        for text in texts:
            check_time(deadline, self.name)
            summed = rows.sum(tokens.known(text))
            if summed is None:
                raise EmbeddingError(f"{self.name} knows no word of the text", about_text=True)
            vectors.append(checked(summed, self.dimension, name=self.name))
        rows.check()
        return vectors

    def cuts(self, text: str) -> bool:
        """Tell whether only the beginning of the text counts."""
        return not surely_fits(text, LIMIT) and self._loaded.get(None)[0].cuts(text)

    def close(self) -> None:
        """Close the file and let go of the tokenizer; the next call takes them again."""
        self._loaded.drop()
