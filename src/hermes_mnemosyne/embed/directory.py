"""A model that the user has on the disk: which kind it is, and what its files say about how to use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hermes_mnemosyne._errors import ConfigError, EmbeddingError
from hermes_mnemosyne.embed.loading import ModelFile
from hermes_mnemosyne.embed.onnx import LIMIT, OnnxFiles, OnnxModel, Pooling
from hermes_mnemosyne.embed.protocol import Embedder, Purpose
from hermes_mnemosyne.embed.static import StaticFiles, StaticModel, table_of

_USUAL_LIMIT = 512


def from_directory(path: Path) -> Embedder:
    """Return the model in a directory: of model2vec's form (config.json, model.safetensors, tokenizer.json), or a transformer as
    fastembed keeps it (config.json, tokenizer.json, model.onnx beside them or in onnx/).

    Only the small files are read; the model itself is loaded at its first use.

    Raises ConfigError: there is no such directory, or no model in it that can be used; the message says what is missing.
    """  # noqa: D205 - the two forms belong into the first sentence
    if not path.is_dir():
        raise ConfigError(f"{path} is not a directory: name the one that holds the model's files")
    tokenizer = path / "tokenizer.json"
    if not tokenizer.is_file():
        raise ConfigError(f"{path} holds no tokenizer.json: name the directory that holds the model's files")
    config = _json(path / "config.json")
    weights = path / "model.safetensors"
    try:
        table = table_of(weights) if weights.is_file() else None
    except EmbeddingError as error:
        raise ConfigError(str(error)) from error
    name = _name(path, config)
    if table is not None:
        return StaticModel(StaticFiles(name, ModelFile(weights), ModelFile(tokenizer), table.shape[1]))
    network = _network(path)
    if network is None and weights.is_file():
        raise ConfigError(f"{path} holds a transformer without its ONNX form: export it as model.onnx into the same directory")
    if network is None:
        raise ConfigError(f"{path} holds neither a model.safetensors with token vectors nor a model.onnx")
    return OnnxModel(
        OnnxFiles(
            name=name,
            network=ModelFile(network),
            tokenizer=ModelFile(tokenizer),
            dimension=_dimension(path, config),
            limit=_limit(path, config),
            pooling=_pooling(path),
            prefixes=_prefixes(path),
        )
    )


def _json(path: Path) -> dict[str, Any]:
    """Return the object in a file, an empty one when there is no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: copy it again") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is not a JSON object: copy it again")
    return found


def _name(path: Path, config: dict[str, Any]) -> str:
    """Return the model's name: its own, else the folder's. What config.json calls `_name_or_path` is often the model it came from."""
    own = config.get("name")
    if isinstance(own, str) and own.strip():
        return own.strip()
    real = path.resolve()
    if real.parent.name == "snapshots":  # the hub's cache: models--owner--name/snapshots/revision
        return real.parent.parent.name.removeprefix("models--").replace("--", "/")
    return real.name or "model"


def _network(path: Path) -> Path | None:
    for place in (path, path / "onnx"):
        if (place / "model.onnx").is_file():
            return place / "model.onnx"
    found = [one for place in (path, path / "onnx") for one in sorted(place.glob("*.onnx"))]
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise ConfigError(f"{path} holds several networks ({names}) and none of them is model.onnx: rename the one to use")
    return found[0] if found else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _dimension(path: Path, config: dict[str, Any]) -> int:
    found = _number(config.get("hidden_size")) or _number(config.get("dim"))
    if found is None:
        raise ConfigError(f"{path / 'config.json'} does not say how long the vectors are: hidden_size is missing")
    return found


def _limit(path: Path, config: dict[str, Any]) -> int:
    """Return how many tokens the model sees: what its makers chose, never more than it has positions for."""
    chosen = _number(_json(path / "sentence_bert_config.json").get("max_seq_length"))
    chosen = chosen or _number(_json(path / "tokenizer_config.json").get("model_max_length")) or _USUAL_LIMIT
    positions = _number(config.get("max_position_embeddings")) or chosen
    return min(chosen, positions, LIMIT)


def _pooling(path: Path) -> Pooling:
    config = _json(path / "1_Pooling" / "config.json")
    wanted = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    if not wanted or wanted == ["pooling_mode_mean_tokens"]:
        return "mean"
    if wanted == ["pooling_mode_cls_token"]:
        return "cls"
    raise ConfigError(
        f"{path / '1_Pooling/config.json'}: only the mean of the tokens or the first token can be used, not {', '.join(wanted)}"
    )


def _prefixes(path: Path) -> dict[Purpose, str]:
    """Return what stands before a query and before a document, from the prompts of sentence-transformers."""
    prompts = _json(path / "config_sentence_transformers.json").get("prompts")
    if not isinstance(prompts, dict):
        return {}
    names: tuple[tuple[Purpose, tuple[str, ...]], ...] = (("query", ("query",)), ("document", ("document", "passage")))
    found = {purpose: next((prompts[key] for key in keys if isinstance(prompts.get(key), str)), "") for purpose, keys in names}
    return {purpose: prefix for purpose, prefix in found.items() if prefix}
