"""The measures of retrieval quality, and the benchmarks of conversations on small made-up files."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import embedders, locomo, longmemeval, plot
from benchmarks.evaluation import (
    Answer,
    Incomparable,
    Run,
    averages,
    comparison,
    comparisons,
    intervals,
    load,
    measured,
    paired,
    report,
    save,
    summary,
)


def run(values: list[float], *, system: str = "words", benchmark: str = "toy", data: str = "d1", first: int = 0) -> Run:
    answers = [
        Answer(str(first + number), "even" if number % 2 == 0 else "odd", {"R@5": value}, 0.001)
        for number, value in enumerate(values)
    ]
    return Run(benchmark, system, data, tuple(answers))


# -- measures --------------------------------------------------------------------------------------------------------------------


def test_recall_is_the_share_of_the_evidence_among_the_first_results() -> None:
    got = ["x1", "a", "x2", "x3", "x4", "b", "x5"]
    values = measured(frozenset({"a", "b", "c"}), got)
    assert values["R@5"] == pytest.approx(1 / 3)
    assert values["R@10"] == pytest.approx(2 / 3)
    assert (values["hit@1"], values["hit@5"], values["MRR"]) == (0.0, 1.0, 0.5)


def test_nothing_found_measures_zero() -> None:
    assert set(measured(frozenset({"a"}), []).values()) == {0.0}


def test_a_repeated_or_unknown_result_keeps_its_place() -> None:
    assert measured(frozenset({"a"}), ["x", "x", "?", "a"], ["MRR"]) == {"MRR": 0.25}


def test_a_hit_below_the_first_hundred_has_no_rank() -> None:
    assert measured(frozenset({"a"}), [*map(str, range(100)), "a"], ["MRR"]) == {"MRR": 0.0}


def test_an_unknown_measure_is_refused() -> None:
    with pytest.raises(ValueError, match="no measure nDCG"):
        measured(frozenset({"a"}), ["a"], ["nDCG"])


# -- intervals and differences ---------------------------------------------------------------------------------------------------


def test_an_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    answers = run([1.0, 0.0] * 40).answers
    low, high = intervals(answers)["R@5"]
    assert low < averages(answers)["R@5"] == 50.0 < high
    assert intervals(answers) == intervals(answers)


def test_more_questions_make_a_narrower_interval() -> None:
    few, many = (intervals(run([1.0, 0.0] * count).answers)["R@5"] for count in (10, 200))
    assert many[1] - many[0] < few[1] - few[0]


def test_equal_values_have_an_interval_without_width() -> None:
    assert intervals(run([1.0] * 20).answers) == {"R@5": (100.0, 100.0)}


def test_a_constant_gain_per_question_is_certain_whatever_the_spread_of_the_questions() -> None:
    before = [number % 2 * 0.5 for number in range(60)]
    difference = paired(run([value + 0.1 for value in before], system="new"), run(before))["R@5"]
    assert (difference.gain, difference.interval, difference.questions) == (10.0, (10.0, 10.0), 60)


def test_only_common_questions_are_compared() -> None:
    assert paired(run([1.0] * 10), run([0.0] * 10, first=6))["R@5"].questions == 4


@pytest.mark.parametrize("other", [run([0.0], data="d2"), run([0.0], benchmark="else"), run([0.0], first=9)])
def test_runs_of_other_questions_are_not_compared(other: Run) -> None:
    with pytest.raises(Incomparable):
        paired(run([1.0]), other)


# -- saved runs and printing -----------------------------------------------------------------------------------------------------


def test_a_saved_run_comes_back_as_it_was(tmp_path: Path) -> None:
    runs = [run([0.5, 1.0]), run([0.0], benchmark="other")]
    save(tmp_path / "new" / "runs.json", runs)
    found = load(tmp_path / "new" / "runs.json")
    assert list(found) == ["toy", "other"]
    assert found["toy"].answers == runs[0].answers


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"runs": [{}]}', '{"runs": [1]}'])
def test_a_file_without_runs_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "none.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Incomparable, match=r"none\.json"):
        load(path)


def test_the_report_shows_systems_side_by_side_over_all_and_per_category() -> None:
    text = report(run([1.0] * 40), run([0.5] * 40, system="words and vectors"))
    assert "all (40)" in text
    assert "even (20)" in text
    assert text.count("words and vectors") == 4
    assert "50.0..50.0" in text


def test_the_comparison_shows_the_gain_with_its_sign() -> None:
    text = comparison(run([0.5] * 20, system="new"), run([0.75] * 20))
    assert "-25.0" in text
    assert "20 common questions" in text


def test_a_comparison_with_a_file_that_lacks_the_benchmark_says_what_it_has() -> None:
    with pytest.raises(Incomparable, match="there is toy"):
        comparisons([run([1.0], benchmark="else")], {"toy": run([1.0])})


def test_the_summary_is_json_and_has_the_latency() -> None:
    found = json.loads(json.dumps(summary(run([1.0, 0.0]))))
    assert found["all"] == {"R@5": 50.0}
    assert found["categories"]["odd"]["questions"] == 1
    assert found["latency_ms"]["p50"] == 1.0


# -- LoCoMo ----------------------------------------------------------------------------------------------------------------------


def conversation() -> dict[str, Any]:
    said = [
        "I adopted a rabbit called Clover.",
        "How lovely, rabbits are quiet.",
        "My piano recital went well.",
        "Congratulations!",
    ]
    turns = [
        {"dia_id": f"D1:{number}", "speaker": ("Ada", "Bo")[number % 2], "text": text} for number, text in enumerate(said, 1)
    ]
    return {"speaker_a": "Ada", "speaker_b": "Bo", "session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023"}


@pytest.fixture
def locomo_file(tmp_path: Path) -> Path:
    asked = [
        {"question": "What is the rabbit called?", "answer": "Clover", "category": 4, "evidence": ["D1:1"]},
        {"question": "How was the piano recital?", "answer": "well", "category": 1, "evidence": ["D:1:03; D1:4"]},
        {"question": "What is the horse called?", "category": 5, "evidence": ["D1:1"]},
        {"question": "Who won?", "answer": "nobody", "category": 4, "evidence": ["D"]},
    ]
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([{"sample_id": "toy-1", "conversation": conversation(), "qa": asked}]), encoding="utf-8")
    return path


def test_locomo_counts_questions_with_evidence_and_leaves_out_the_adversarial(locomo_file: Path) -> None:
    found = locomo.measure(locomo_file, embedders.LEXICAL)
    assert [answer.category for answer in found.run.answers] == ["4 single-hop", "1 multi-hop"]
    assert averages(found.run.answers)["hit@5"] == 100.0
    assert found.relevance["asked_own"] == 2
    assert found.degraded == 0


def test_locomo_saves_a_run_and_compares_with_it(locomo_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = str(tmp_path / "run.json")
    locomo.main(["--data", str(locomo_file), "--embedder", "none", "--save", saved])
    locomo.main(["--data", str(locomo_file), "--embedder", "none", "--compare", saved])
    assert "2 common questions" in capsys.readouterr().out


def test_an_embedder_that_cannot_be_used_is_said_before_anything_is_measured(locomo_file: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--embedder"):
        locomo.main(["--data", str(locomo_file), "--embedder", str(tmp_path / "no-such-model")])


# -- LongMemEval -----------------------------------------------------------------------------------------------------------------


def haystack(identifier: str, *, marked: bool = True) -> dict[str, Any]:
    answering = [
        {"role": "user", "content": "I bought a green kayak last week.", **({"has_answer": True} if marked else {})},
        {"role": "assistant", "content": "Enjoy the water!"},
        {"role": "user", "content": ""},
    ]
    filler = [{"role": "user", "content": "Suggest a soup."}, {"role": "assistant", "content": "Try leek and potato."}]
    return {
        "question_id": identifier,
        "question_type": "single-session-user",
        "question": "Which colour is the kayak that I bought?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "answer": "green",
        "answer_session_ids": ["s2"],
        "haystack_session_ids": ["s1", "s2", "s1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/22 (Mon) 10:00", "unknown"],
        "haystack_sessions": [filler, answering, filler],
    }


@pytest.fixture
def longmemeval_file(tmp_path: Path) -> Path:
    path = tmp_path / "longmemeval.json"
    asked = [haystack("q1"), haystack("q2_abs"), haystack("q3", marked=False)]
    path.write_text(json.dumps(asked, indent=2) + "\n", encoding="utf-8")
    return path


def test_longmemeval_is_measured_by_session_and_by_turn(longmemeval_file: Path) -> None:
    found = longmemeval.measure(longmemeval_file, embedders.LEXICAL)
    assert [answer.key for answer in found.session] == ["q1", "q3"]
    assert [answer.key for answer in found.turn] == ["q1"]
    assert (found.abstentions, found.unmarked) == (1, 1)
    assert averages(found.session)["hit@1"] == averages(found.turn)["hit@1"] == 100.0


def test_longmemeval_prints_both_levels_and_what_was_left_out(longmemeval_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert longmemeval.main(["--data", str(longmemeval_file), "--embedder", "none"]) == 0
    text = capsys.readouterr().out
    assert "session level: 2 questions" in text
    assert "turn level: 1 questions" in text
    assert "left out: 1 without an answer" in text


def test_a_haystack_keeps_its_order_dates_and_sessions_and_drops_empty_turns() -> None:
    found = list(longmemeval.turns(haystack("q1")))
    assert [turn.key for turn in found] == ["0:0", "0:1", "1:0", "1:1", "2:0", "2:1"]
    assert [turn.at for turn in found[::2]] == ["2023-05-20T02:21:00Z", "2023-05-22T10:00:00Z", None]
    assert [turn.answers for turn in found] == [False, False, True, False, False, False]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[{", '[{"question_id": "q1"}]', '[{"question_id": "q1"} {}'])
def test_a_file_that_is_no_longmemeval_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(longmemeval.NotLongMemEval, match=r"other\.json"):
        list(longmemeval.items(path))


def test_an_empty_list_of_questions_has_none(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text(" [ ] ", encoding="utf-8")
    assert list(longmemeval.items(path)) == []


# -- the plot --------------------------------------------------------------------------------------------------------------------


def test_without_matplotlib_a_plot_names_what_to_install(
    locomo_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "installed", lambda: False)
    with pytest.raises(SystemExit, match="pip install matplotlib"):
        locomo.main(["--data", str(locomo_file), "--plot", str(tmp_path / "plot.png")])


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_a_plot_is_a_png(tmp_path: Path) -> None:
    plot.draw(tmp_path / "new" / "plot.png", [run([1.0, 0.0]), run([1.0, 0.5], system="words and vectors")], "R@5")
    assert (tmp_path / "new" / "plot.png").read_bytes().startswith(b"\x89PNG")
