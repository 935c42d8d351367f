"""Figure: lexical recall beside the peer, same texts, same questions, same run, answers judged by the oracle."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.corpus import SHARES, Corpus, Query
from benchmarks.figures.stores import Loaded, engine_store, peer_store
from benchmarks.harness import Driver, Times, Verdict, at_most, chunks, drop_page_cache, engine_driver, peer_driver
from benchmarks.oracle import Oracle

_LIMIT = 5
_TURN = 40
_SMALL_THEME_QUERIES = 200
_P95_GOAL_MS = 25.0


class _Answers:
    """What one system answered in one pass."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.times = Times()
        self.hits: list[list[int]] = []
        self.bounded = 0

    def ask(self, driver: Driver, queries: Sequence[Query], **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = driver.call("recall", queries=[query.text for query in queries], limit=_LIMIT, **more)
        self.times.add(answer["times"])
        # An id that is not of the corpus, such as a row the system made up, counts as a wrong hit.
        self.hits += [[self._loaded.numbers.get(uid, -1) for uid in hits] for hits in answer["hits"]]
        self.bounded += answer.get("bounded", 0)
        return answer

    def figures(self, queries: Sequence[Query], oracle: Oracle) -> dict[str, Any]:
        by_kind: dict[str, list[int]] = defaultdict(list)
        for index, query in enumerate(queries):
            by_kind[query.kind].append(index)
        scores = oracle.score(queries, self.hits)
        correct = sum(score.correct for score in scores.values())
        return {
            "all": {**self.times.figures(), "correct": round(correct / len(queries), 4), "bounded": self.bounded},
            "by_kind": {
                kind: {**self.times.figures(by_kind[kind]), **scores[kind].as_json()} for kind in SHARES if kind in scores
            },
        }


def recall(corpus: Corpus, count: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Ask `count` questions cold and `count` others warm, the systems taking turns.

    Cold: a fresh process and no page of the files in the system's cache at its start. Warm: the same process afterwards. No
    question is asked twice, so that no cache of answers counts.
    """
    passes = {"cold": corpus.queries(count, "cold"), "warm": corpus.queries(count, "warm")}
    oracle = Oracle(corpus.main(), [query for queries in passes.values() for query in queries])
    kept_engine, kept_peer = engine_store(corpus), peer_store(corpus)
    figures: dict[str, Any] = {"rows": corpus.size, "engine": {}, "peer": {"store": kept_peer.facts}}
    with tempfile.TemporaryDirectory() as directory:
        ours, theirs = kept_engine.copy_to(Path(directory, "engine")), kept_peer.copy_to(Path(directory, "peer"))
        drop_page_cache(Path(directory))
        with engine_driver(ours.home) as engine, peer_driver(theirs.home, keep_all=True) as peer:
            engine.call("open", path=str(ours.store))
            peer.call("open", path=str(theirs.store))
            for name, queries in passes.items():
                mine, other = _Answers(ours), _Answers(theirs)
                for some in chunks(queries, _TURN):
                    mine.ask(engine, some)
                    other.ask(peer, some)
                figures["engine"][name] = mine.figures(queries, oracle)
                figures["peer"][name] = other.figures(queries, oracle)
            figures["engine"]["small_themes"] = _small_themes(corpus, ours, engine)
            engine.call("close")
    return figures, _verdicts(corpus.size, figures)


def _small_themes(corpus: Corpus, loaded: Loaded, engine: Driver) -> dict[str, Any]:
    answers = _Answers(loaded)
    leaks = found = 0
    asked = corpus.theme_queries(_SMALL_THEME_QUERIES)
    for theme, query in asked:
        answer = answers.ask(engine, [query], theme=theme)
        leaks += sum(other != theme for other in answer["themes"])
        found += query.target in answers.hits[-1]
    return {**answers.times.figures(), "found": round(found / len(asked), 4), "hits_of_other_themes": leaks}


def _verdicts(size: int, figures: dict[str, Any]) -> list[Verdict]:
    ours, theirs = figures["engine"]["warm"], figures["peer"]["warm"]
    at = f"{size:,} rows"
    ratio = ours["all"]["p50"] / theirs["all"]["p50"]
    verdicts = [at_most(f"recall, {at}: p50 against the peer's", round(ratio, 4), 0.2, "x")]
    cpu = round(ours["all"]["cpu_p50"] / theirs["all"]["cpu_p50"], 4)
    verdicts.append(Verdict(f"recall, {at}: the same of processor time", cpu, "", "info", None))
    verdicts += [
        Verdict(f"recall, {at}: p50 against the peer's, {kind}", _ratio(ours, theirs, kind), "", "info", None) for kind in SHARES
    ]
    verdicts.append(at_most(f"recall, {at}: p95", ours["all"]["p95"], _P95_GOAL_MS, "ms", "goal"))
    verdicts.append(at_most(f"recall, {at}: p95, frequent words", ours["by_kind"]["frequent"]["p95"], _P95_GOAL_MS, "ms", "goal"))
    verdicts.append(Verdict(f"recall, {at}: correct answers", ours["all"]["correct"], "", "info", None))
    verdicts.append(Verdict(f"recall, {at}: correct answers of the peer", theirs["all"]["correct"], "", "info", None))
    leaks = figures["engine"]["small_themes"]["hits_of_other_themes"]
    verdicts.append(at_most(f"recall, {at}: hits out of reach in small themes", float(leaks), 0, ""))
    return verdicts


def _ratio(ours: dict[str, Any], theirs: dict[str, Any], kind: str) -> float:
    return round(float(ours["by_kind"][kind]["p50"] / theirs["by_kind"][kind]["p50"]), 4)
