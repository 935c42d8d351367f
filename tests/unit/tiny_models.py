"""Models of a few words in directories of both forms, written byte by byte: no package is needed to make them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "dog", "tree", "house", "query", "document")
ROWS = tuple(tuple(1.0 if row == column else 0.125 * (row % 3) for column in range(len(WORDS))) for row in range(len(WORDS)))
CODES = {"F16": "e", "F32": "f", "F64": "d", "I8": "b", "I32": "i", "I64": "q", "BF16": "h"}
Tensors = Mapping[str, tuple[str, Sequence[int], Sequence[float]]]


def tokenizer(*, special: bool) -> dict[str, object]:
    """Return a tokenizer of whole words; `special` puts [CLS] and [SEP] around a text."""
    around = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    around.append({"SpecialToken": {"id": "[SEP]", "type_id": 0}})
    template = {
        "type": "TemplateProcessing",
        "single": around,
        "pair": [*around, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [WORDS.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")},
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": {"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None}
        | {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": template if special else None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: number for number, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }


def safetensors(tensors: Tensors) -> bytes:
    """Return a safetensors file of tensors given as type, shape and numbers."""
    header, data = {}, b""
    for name, (dtype, shape, numbers) in tensors.items():
        packed = struct.pack(f"<{len(numbers)}{CODES[dtype]}", *numbers)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    written = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return struct.pack("<Q", len(written)) + written + data


def flat(rows: Sequence[Sequence[float]]) -> list[float]:
    return [value for row in rows for value in row]


def static_directory(path: Path, tensors: Tensors | None = None) -> Path:
    """Write a static model of `WORDS` whose vectors are `ROWS`, or of other tensors."""
    path.mkdir(parents=True)
    shape = (len(ROWS), len(ROWS[0]))
    (path / "model.safetensors").write_bytes(safetensors(tensors or {"embeddings": ("F32", shape, flat(ROWS))}))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer(special=False)), encoding="utf-8")
    (path / "config.json").write_text(json.dumps({"model_type": "model2vec"}), encoding="utf-8")
    return path


def _field(number: int, value: int | bytes | str) -> bytes:
    """Return one field of a protocol buffer."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _value(name: str, kind: int, axes: Sequence[str]) -> bytes:
    shape = b"".join(_field(1, _field(2, axis)) for axis in axes)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def network(*, inputs: Sequence[str] = ("input_ids", "attention_mask")) -> bytes:
    """Return a network in ONNX form that looks up the row of each token: its output is texts by tokens by dimensions."""
    real, integer = 1, 7
    table = _field(1, len(ROWS)) + _field(1, len(ROWS[0])) + _field(2, real) + _field(8, "table")
    table += _field(9, struct.pack(f"<{len(ROWS) * len(ROWS[0])}f", *flat(ROWS)))
    node = _field(1, "table") + _field(1, inputs[0]) + _field(2, "last_hidden_state") + _field(4, "Gather")
    graph = _field(1, node) + _field(2, "tiny") + _field(5, table)
    graph += b"".join(_field(11, _value(name, integer, ("texts", "tokens"))) for name in inputs)
    graph += _field(12, _value("last_hidden_state", real, ("texts", "tokens", "dimensions")))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 13))


def onnx_directory(path: Path, *, inside: str = "model.onnx") -> Path:
    """Write a network over `WORDS` as fastembed lays it out."""
    (path / inside).parent.mkdir(parents=True)
    (path / inside).write_bytes(network())
    (path / "tokenizer.json").write_text(json.dumps(tokenizer(special=True)), encoding="utf-8")
    write_json(path / "config.json", {"hidden_size": len(ROWS[0]), "max_position_embeddings": 64})
    return path


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
