"""Bringing memories in: JSON lines of an export, simple JSON objects, and the host's memory files.

Everything here may be repeated: what is there is found again, what was forgotten stays forgotten.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne import mirror
from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.drafts import draft_of
from hermes_mnemosyne.identity import default_visibility, kind_of
from hermes_mnemosyne.store.operations import AddEntry, MergeRecord, MirrorFile, Operation
from hermes_mnemosyne.text import storable_value
from hermes_mnemosyne.values import TARGETS, Origin, Target

if TYPE_CHECKING:
    from hermes_mnemosyne.engine import Memory

_BATCH = 200
_LONGEST_LINE = 64 * 1024 * 1024
_FIELDS = frozenset(
    {"content", "target", "tags", "importance", "pinned", "valid_until", "occurred_at", "metadata", "session_id", "visibility"}
)
_AUTHORED = ("content", "tags", "metadata", "speaker")
# Other memory tools name the text so.
_TEXT_NAMES = ("content", "memory", "text")


@dataclass(frozen=True, slots=True)
class Problem:
    """A line (counted from 1) that could not be taken in, and why."""

    line: int
    reason: str


@dataclass(slots=True)
class Report:
    """What became of the lines read: `counts` by the status words of a Receipt."""

    read: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the lines come from: `name` becomes the place of the origin, `target` holds for lines that name none."""

    name: str
    target: Target = "memory"


def import_lines(memory: Memory, lines: Iterable[bytes], source: Source, *, step: Callable[[int], None] | None = None) -> Report:
    """Take in JSON lines: export records, and objects with a `content`. A wrong line is reported and the rest goes on.

    Simple objects go to the theme of `memory` unless they name one. `step` is told of every batch how many lines it had.
    Raises StoreBusy, StoreFull and other store errors; what was counted until then is stored.
    """
    report = Report()

    def operations() -> Iterator[tuple[int, Operation]]:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            report.read += 1
            try:
                yield number, _operation(memory, _parsed(line), source)
            except InvalidInput as error:
                report.problems.append(Problem(number, str(error)))

    _submit(memory, operations(), report, step)
    report.problems.sort(key=lambda problem: problem.line)
    return report


def import_texts(memory: Memory, texts: Iterable[str], source: Source) -> Report:
    """Take in plain texts, numbered from 1. Raises StoreBusy, StoreFull and other store errors."""
    report = Report()

    def operations() -> Iterator[tuple[int, Operation]]:
        for number, text in enumerate(texts, 1):
            report.read += 1
            try:
                yield number, _simple(memory, {"content": text}, source)
            except InvalidInput as error:
                report.problems.append(Problem(number, str(error)))

    _submit(memory, operations(), report, None)
    return report


def mirror_home(memory: Memory, home: Path) -> Counter[str] | None:
    """Mirror MEMORY.md and USER.md of a Hermes home, as its provider does when a session starts; None where there is none.

    Counts are `added`, `joined` (was there, has one more origin), `kept`, `dropped`, `refused` (was forgotten).
    Raises InvalidInput when the subject key cannot be used, and store errors.
    """
    counts: Counter[str] | None = None
    for target in TARGETS:
        file = mirror.read(home, target)
        if file is None:
            continue
        counts = Counter() if counts is None else counts
        is_server = memory.engine.place.is_server
        key = mirror.key_of_home(home) if is_server else memory.engine.key
        origin = mirror.origin(home, target, key) if is_server or memory.engine.bind_key() else None
        if origin is None:
            raise InvalidInput("; ".join(key.problems()) or "the subject key cannot be made: check the directory's mode")
        lines = tuple((uuid7(), memory.clean(line)[0]) for line in file.lines)
        visibility = default_visibility(memory.theme, memory.settings.visibility)
        op = memory.make(MirrorFile, target=target, origin=origin, lines=lines, visibility=visibility, stamp=file.stamp)
        for outcome in memory.submit([op], hook=False):
            if outcome.status == "failed":
                raise InvalidInput(outcome.error)
            counts.update(outcome.counts)
    return counts


def _submit(
    memory: Memory, operations: Iterator[tuple[int, Operation]], report: Report, step: Callable[[int], None] | None
) -> None:
    """Submit in batches, so that an import that is killed keeps what it had, and no other writer waits for long."""
    batch: list[tuple[int, Operation]] = []

    def flush() -> None:
        outcomes = memory.submit([op for _, op in batch], hook=False)
        for (number, _), outcome in zip(batch, outcomes, strict=True):
            if outcome.status == "failed":
                report.problems.append(Problem(number, outcome.error))
            else:
                report.counts[outcome.status] += 1
        if step is not None:
            step(len(batch))
        batch.clear()

    for item in operations:
        batch.append(item)
        if len(batch) >= _BATCH:
            flush()
    flush()


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _parsed(line: bytes) -> Mapping[str, Any]:
    if len(line) > _LONGEST_LINE:
        raise InvalidInput(f"the line has more than {_LONGEST_LINE // 2**20} MiB: split it")
    try:
        record = json.loads(line.decode("utf-8-sig", "surrogateescape"), parse_constant=_constant)
    except RecursionError:
        raise InvalidInput("nested too deeply: flatten it") from None
    except ValueError as error:
        raise InvalidInput(f"no JSON: {error}") from None
    if not isinstance(record, dict):
        raise InvalidInput(f"a JSON {type(record).__name__}, not an object: write one object per line")
    return record


def _operation(memory: Memory, record: Mapping[str, Any], source: Source) -> Operation:
    if "type" not in record:
        return _simple(memory, record, source)
    cleaned = _cleaned(memory, storable_value(record)[0])
    theme, subject = (str(cleaned.get(name) or "") for name in ("theme", "subject"))
    return replace(memory.make(MergeRecord, record=cleaned), theme=theme, subject=subject)


def _cleaned(memory: Memory, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its authored fields masked, as the store of another release may not have done; hashes stay."""
    authored = {name: memory.clean_value(record[name])[0] for name in _AUTHORED if name in record}
    before = record.get("before")
    if isinstance(before, dict):
        authored["before"] = _cleaned(memory, before)
    return {**record, **authored}


def _simple(memory: Memory, record: Mapping[str, Any], source: Source) -> Operation:
    name = next((name for name in _TEXT_NAMES if record.get(name) is not None), None)
    if name is None:
        raise InvalidInput('neither an export record (with a "type") nor an object with a "content"')
    fields = {key: value for key, value in record.items() if key in _FIELDS and value is not None}
    fields.setdefault("target", source.target)
    content = fields.pop("content", record[name])
    draft = draft_of(content, fields, memory.clean, memory.clean_value)
    theme = _theme(record.get("theme"), memory)
    if kind_of(theme) in {"dm", "group"}:
        raise InvalidInput(f"theme {theme} is shared by contacts and takes export records only: name another theme")
    visibility = fields.get("visibility") or default_visibility(theme, memory.settings.visibility)
    origin = Origin("import", memory.clean(source.name)[0])
    op = memory.make(AddEntry, uid=uuid7(), origin=origin, visibility=visibility, explicit=False, **draft.values)
    return replace(op, theme=theme)


def _theme(value: Any, memory: Memory) -> str:
    if value is None or value == "":
        return memory.theme
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput("a theme is a name of visible characters")
    return memory.clean(value.strip().lower())[0]
