"""The corpus, the vectors and the embedding endpoint of the fleet benchmark, and how its answers are judged."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import endpoint
from benchmarks.figures import fleet_recall
from benchmarks.fleet_corpus import KINDS, SEVEN, Clusters, FleetCorpus, Kind, by_size, exact, theme_of

np = pytest.importorskip("numpy")


def test_a_small_fleet_is_the_beginning_of_a_large_one() -> None:
    small, large = FleetCorpus(30, 0, "seven"), FleetCorpus(60, 0, "seven")
    beginning = [(row.number, row.theme) for row in large.rows()][:30]
    assert [(row.number, row.theme) for row in small.rows()] == beginning


def test_seven_themes_have_the_shares_that_were_measured_before() -> None:
    counted = Counter(theme_of(number, "seven") for number in range(20_000))
    assert list(SEVEN) == [theme for theme, _ in counted.most_common()]
    assert counted["alpha"] / 20_000 == pytest.approx(0.4, abs=0.02)


def test_many_themes_are_skewed() -> None:
    counted = Counter(theme_of(number, "many") for number in range(5_000))
    assert len(counted) > 150
    assert counted.most_common(1)[0][1] > 20 * min(counted.values())


def test_turns_come_after_entries_in_sessions_of_one_theme() -> None:
    rows = list(FleetCorpus(10, 250, "seven").rows())
    assert not any(row.session for row in rows[:10])
    assert all(row.session.startswith(f"{row.theme}-") for row in rows[10:])
    assert max(Counter(row.session for row in rows[10:]).values()) == 100


def test_no_text_stands_twice() -> None:
    texts = [row.text for row in FleetCorpus(300, 300, "many").rows()]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("kind", KINDS)
def test_questions_of_a_kind_are_as_many_as_asked_for_and_the_same_every_time(kind: Kind) -> None:
    corpus = FleetCorpus(200, 0, "many")
    asked = corpus.questions(kind, 7, "a")
    assert len(asked) == 7
    assert asked == corpus.questions(kind, 7, "a")
    assert all((target is not None) == (kind in {"natural", "identifier"}) for _, target in asked)


def test_vectors_have_unit_length_and_do_not_depend_on_how_many_there_are() -> None:
    some, more = Clusters(16).rows(40), Clusters(16).rows(90)
    assert np.allclose(np.linalg.norm(more, axis=1), 1.0, atol=1e-5)
    assert np.array_equal(some, more[:40])


def test_a_question_lies_near_the_row_that_it_was_made_from() -> None:
    clusters = Clusters(64)
    rows = clusters.rows(500)
    query = clusters.queries(rows, [123, None])[0]
    assert exact(rows, query, np.arange(500), 3)[0] == 123


def test_the_exact_answer_is_that_of_a_full_sort() -> None:
    rows = Clusters(16).rows(200)
    numbers = np.arange(0, 200, 3)
    ranked = sorted(numbers.tolist(), key=lambda number: -float(rows[number] @ rows[7]))
    assert exact(rows, rows[7], numbers, 10) == ranked[:10]
    assert len(exact(rows, rows[7], numbers[:4], 10)) == 4


def test_classes_of_size_are_named_by_their_bounds() -> None:
    named = by_size([5, 150, 20_000])
    assert named(5) == "1 to 99 rows"
    assert named(150) == named(299) != named(20_000)


@pytest.fixture(scope="module")
def stub() -> Any:
    with endpoint.running() as running:
        yield running


def embedded(stub: endpoint.Endpoint, asked: str | list[str]) -> list[list[float]]:
    body = json.dumps({"model": "stub", "input": asked}).encode()
    request = urllib.request.Request(f"{stub.url}/v1/embeddings", body)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own server
        return [item["embedding"] for item in json.load(answer)["data"]]


def test_the_endpoint_answers_one_text_and_many_alike(stub: endpoint.Endpoint) -> None:
    one, two = embedded(stub, ["first", "second"])
    assert embedded(stub, "second") == [two]
    assert one != two
    assert len(one) == endpoint.DIMENSION


def test_the_endpoint_answers_what_it_was_taught(stub: endpoint.Endpoint, tmp_path: Path) -> None:
    taught = np.arange(2 * endpoint.DIMENSION, dtype="<f4") / 1_000
    (tmp_path / "v.f4").write_bytes(taught.tobytes())
    stub.teach(["a", "b"], tmp_path / "v.f4", endpoint.DIMENSION)
    assert embedded(stub, "b")[0] == pytest.approx(taught[endpoint.DIMENSION :].tolist())


def test_scopes_are_themes_of_every_size_sessions_and_everything() -> None:
    loaded: Any = SimpleNamespace(corpus=FleetCorpus(3_000, 500, "seven"))
    found = fleet_recall.places(loaded)
    assert {place.scope for place in found} == {"current", "session", "all"}
    assert {place.theme for place in found} >= {"alpha", "zeta"}
    assert all(place.session == "alpha-0" for place in found if place.scope == "session")
