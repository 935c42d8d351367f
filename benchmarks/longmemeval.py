"""Retrieval quality on a LongMemEval file: `python -m benchmarks.longmemeval --data PATH`.

Each question has conversations of its own, so each gets a store of its own that is removed after it; the file is decoded one
question at a time. Every turn is captured with role, session and date, the question is asked once with limit 100. Two levels:

- session: the sessions of the results, each at the place of its best turn, against `answer_session_ids`;
- turn: the results against the turns marked `has_answer`.

Questions without an answer in the text (`_abs`) are left out of both, questions without a marked turn out of the second.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import plot
from benchmarks.embedders import LEXICAL, System, add_options, available, chosen, embed_all, open_memory
from benchmarks.evaluation import (
    DEPTH,
    Answer,
    Incomparable,
    Run,
    comparisons,
    fingerprint,
    load,
    measured,
    report,
    save,
)
from hermes_mnemosyne import Memory, RecallQuery

ABSTENTION = "_abs"
THEME = "longmemeval"
_FIELDS = (
    "question_id",
    "question_type",
    "question",
    "answer_session_ids",
    "haystack_session_ids",
    "haystack_dates",
    "haystack_sessions",
)
_DATES = ("%Y/%m/%d (%a) %H:%M", "%Y/%m/%d %H:%M", "%Y/%m/%d (%a)", "%Y/%m/%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d")


class NotLongMemEval(ValueError):
    """A file that is no list of questions of LongMemEval; the message says where."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a question's haystack; `session` is the id in the data, `place` which session of the haystack it is."""

    session: str
    place: int
    number: int
    role: str
    text: str
    at: str | None
    answers: bool

    @property
    def key(self) -> str:
        """An id unique within the question."""
        return f"{self.place}:{self.number}"


@dataclass(slots=True)
class Levels:
    """The answers at both levels, and what was left out."""

    session: list[Answer] = field(default_factory=list)
    turn: list[Answer] = field(default_factory=list)
    abstentions: int = 0
    unmarked: int = 0
    degraded: int = 0


def items(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the questions of a file, decoding one at a time. Raises NotLongMemEval, OSError."""
    text = path.read_text(encoding="utf-8")
    decoder = json.JSONDecoder()
    at = _next(text, 0)
    if text[at : at + 1] != "[":
        raise NotLongMemEval(f"{path} does not begin with a list of questions")
    at = _next(text, at + 1)
    while text[at : at + 1] != "]":
        try:
            item, end = decoder.raw_decode(text, at)
        except ValueError as error:
            raise NotLongMemEval(f"{path} cannot be read as JSON: {error}") from error
        missing = [name for name in _FIELDS if name not in item] if isinstance(item, Mapping) else list(_FIELDS)
        if missing:
            raise NotLongMemEval(f"{path} holds a question without {', '.join(missing)} at character {at}")
        yield item
        at = _next(text, end)
        if text[at : at + 1] == ",":
            at = _next(text, at + 1)


def _next(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def turns(item: Mapping[str, Any]) -> Iterator[Turn]:
    """Yield the turns of a question's haystack in its order; those without text are left out."""
    sessions = zip(item["haystack_session_ids"], item["haystack_dates"], item["haystack_sessions"], strict=True)
    for place, (session, date, said) in enumerate(sessions):
        at = when(date)
        for number, turn in enumerate(said):
            text = (turn.get("content") or "").strip()
            if text:
                yield Turn(session, place, number, turn["role"], text, at, bool(turn.get("has_answer")))


def when(text: str) -> str | None:
    """Return a date of the data in ISO form, taken for UTC, None when it cannot be read."""
    for form in _DATES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            continue
    return None


def measure(data: Path, system: System, *, limit: int | None = None) -> Levels:
    """Ask the first `limit` questions of a file (None: all), each of a store of its own. Raises NotLongMemEval, OSError."""
    found = Levels()
    for asked, item in enumerate(items(data)):
        if limit is not None and asked >= limit:
            break
        if str(item["question_id"]).endswith(ABSTENTION):
            found.abstentions += 1
            continue
        with (
            tempfile.TemporaryDirectory(prefix="mnemosyne-longmemeval-") as directory,
            open_memory(Path(directory) / "haystack.db", THEME, system.embedder) as memory,
        ):
            _ask(memory, item, system, found)
    return found


def _ask(memory: Memory, item: Mapping[str, Any], system: System, found: Levels) -> None:
    by_uid: dict[str, Turn] = {}
    for turn in turns(item):
        receipt = memory.capture_turn(turn.text, session_id=f"{turn.place}:{turn.session}", role=turn.role, occurred_at=turn.at)
        by_uid[receipt.uid] = turn
    embed_all(memory, system.embedder)
    started = time.perf_counter()
    result = memory.recall(RecallQuery(text=item["question"], limit=DEPTH, kinds=("turn",)))
    seconds = time.perf_counter() - started
    found.degraded += bool(result.degraded)
    got = [by_uid[hit.uid] for hit in result]

    key, category = str(item["question_id"]), item["question_type"]
    sessions = list(dict.fromkeys(turn.session for turn in got))
    values = measured(frozenset(item["answer_session_ids"]), sessions)
    found.session.append(Answer(key, category, values, seconds))

    marked = frozenset(turn.key for turn in by_uid.values() if turn.answers)
    if not marked:
        found.unmarked += 1
        return
    found.turn.append(Answer(key, category, measured(marked, [turn.key for turn in got]), seconds))


def runs(found: Levels, system: System, data: str) -> list[Run]:
    """Return a run per level that has answers."""
    levels = {"LongMemEval, session level": found.session, "LongMemEval, turn level": found.turn}
    return [Run(name, system.name, data, tuple(answers)) for name, answers in levels.items() if answers]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and write what is asked for; 2 for what cannot be done."""
    options = _parser().parse_args(arguments)
    if options.plot and not plot.installed():
        raise SystemExit(plot.INSTALL)
    try:
        saved = load(options.compare) if options.compare else {}
        return _measured(options, saved)
    except (Incomparable, NotLongMemEval, OSError) as error:
        raise SystemExit(str(error)) from error


def _measured(options: argparse.Namespace, saved: Mapping[str, Run]) -> int:
    data = fingerprint(options.data)
    system = chosen(options.embedder)
    reached: dict[System, list[Run]] = {}
    for each in dict.fromkeys((LEXICAL, system)):
        found = measure(options.data, each, limit=options.limit)
        reached[each] = runs(found, each, data)
        print("\n\n".join(report(run) for run in reached[each]))
        print(
            f"left out: {found.abstentions} without an answer in the text; at turn level {found.unmarked} without a marked turn"
        )
        print(f"answers without the vectors: {found.degraded}\n")
    last = reached[system]
    if system != LEXICAL and last:
        print(comparisons(last, {run.benchmark: run for run in reached[LEXICAL]}), end="\n\n")
    if options.compare:
        print(comparisons(last, saved), end="\n\n")
    if options.save:
        save(options.save, last)
    if options.plot and last:
        drawn = {other.name for other in reached}
        for other in available():
            if other.name not in drawn:
                reached[other] = runs(measure(options.data, other, limit=options.limit), other, data)
        plot.draw(options.plot, [part[0] for part in reached.values()], "R@5")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.longmemeval", description="Measure retrieval on a LongMemEval file."
    )
    parser.add_argument("--data", type=Path, required=True, help="the LongMemEval file; it is read and never copied")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N questions of the file")
    add_options(parser)
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="draw R@5 of sessions against latency of every embedder available"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
