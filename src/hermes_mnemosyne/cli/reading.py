"""Commands that read memories: recall, list, show, history."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, number_between, opened, text_of
from hermes_mnemosyne.cli.output import Output, one_line
from hermes_mnemosyne.values import TARGETS, Entry, Hit, Kind, RecallQuery, RecallResult, Turn

if TYPE_CHECKING:
    from hermes_mnemosyne import Memory

_KINDS: dict[str, tuple[Kind, ...]] = {"entry": ("entry",), "turn": ("turn",), "all": ("entry", "turn")}
_MOST_HITS = 100
_MOST_ROWS = 1_000_000
# A model that is not loaded within this time is not waited for: the answer by words is there, and says so.
_EMBED_WAIT = 0.15
_LONGEST_WAIT = 600
_NOTES = {
    "empty-query": "the query is empty: nothing was searched",
    "bounded": "the words are frequent: only the newest matches were ranked",
    "cut-query": "the query was shortened",
    "cut-budget": "hits were cut or left out to keep the budget",
}


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    _register_recall(commands)
    _register_list(commands)
    show = add_command(
        commands,
        "show",
        _show,
        help="print everything known of one memory",
        example="mnemosyne show 01938f2e-7c1a-7b6e-9d53-0f2a4c6e8b10",
    )
    history = add_command(
        commands,
        "history",
        _history,
        help="print how one memory changed, oldest change first",
        example="mnemosyne history 01938f2e-7c1a-7b6e-9d53-0f2a4c6e8b10",
    )
    for parser in (show, history):
        parser.add_argument("uid", metavar="ID", help="the id, as every listing prints it")


def _register_recall(commands: Commands) -> None:
    parser = add_command(
        commands,
        "recall",
        _recall,
        aliases=["search"],
        help="find memories and turns by meaning and words, best first",
        example="mnemosyne recall 'which port has the staging database?'\nmnemosyne recall deploy key --since 2026-01-01 --json",
    )
    parser.add_argument("words", nargs="+", metavar="QUERY", help="what to look for, '-' to read it from standard input")
    parser.add_argument(
        "--limit", type=number_between(1, _MOST_HITS), default=5, metavar="N", help="at most so many hits (default 5)"
    )
    parser.add_argument("--contains", metavar="TEXT", help="only rows that hold this text literally")
    parser.add_argument("--session", metavar="ID", help="only turns and entries of this conversation")
    parser.add_argument("--until", metavar="WHEN", help="only what happened until then; a bare day includes the day")
    parser.add_argument("--budget", type=number_between(1, _MOST_ROWS), metavar="CHARS", help="at most so many characters in all")
    parser.add_argument("--expired", action="store_true", help="also what is no longer valid")
    parser.add_argument("--superseded", action="store_true", help="also what a newer memory replaced")
    parser.add_argument("--explain", action="store_true", help="say of each hit how it was found and ranked")
    parser.add_argument(
        "--wait",
        type=number_between(0, _LONGEST_WAIT),
        metavar="SECONDS",
        help=f"wait so long for the embedding model to be loaded or to answer (default {_EMBED_WAIT}, then words alone)",
    )
    _add_filters(parser, kind="all")


def _register_list(commands: Commands) -> None:
    parser = add_command(
        commands,
        "list",
        _list,
        help="list memories, newest first",
        example="mnemosyne list --target user --limit 20\nmnemosyne list --kind turn --theme support",
    )
    parser.add_argument(
        "--limit", type=number_between(1, _MOST_ROWS), default=50, metavar="N", help="at most so many rows (default 50)"
    )
    parser.add_argument("--offset", type=number_between(0, _MOST_ROWS), default=0, metavar="N", help="leave out the first N rows")
    _add_filters(parser, kind="entry")


def _add_filters(parser: argparse.ArgumentParser, *, kind: str) -> None:
    parser.add_argument(
        "--kind", choices=tuple(_KINDS), default=kind, help=f"durable memories, turns of conversations, or both (default {kind})"
    )
    parser.add_argument("--target", choices=TARGETS, help="only notes of the agent (memory) or about the user (user)")
    parser.add_argument(
        "--tag", action="append", dest="tags", default=[], metavar="TAG", help="only with this tag; repeat for more"
    )
    parser.add_argument("--since", metavar="WHEN", help="only what happened since; a bare day is your day, a naive time is UTC")


def _query_text(args: argparse.Namespace) -> tuple[str, int]:
    """Return the query and the limit; `search QUERY N` is the spelling of earlier memory tools."""
    words, limit = list(args.words), int(args.limit)
    if args.mnemosyne_command == "search" and len(words) > 1 and words[-1].isdecimal():
        limit = int(words.pop())
        if not 1 <= limit <= _MOST_HITS:
            raise InvalidInput(f"the number of hits is 1 to {_MOST_HITS}: put quotation marks around the query")
    return (text_of(words[0]) if len(words) == 1 else " ".join(words)), limit


def _recall(args: argparse.Namespace, out: Output) -> int:
    text, limit = _query_text(args)
    query = RecallQuery(
        text=text,
        limit=limit,
        kinds=_KINDS[args.kind],
        target=args.target,
        session_id=args.session,
        since=args.since,
        until=args.until,
        tags=tuple(args.tags),
        contains=args.contains,
        include_expired=args.expired,
        include_superseded=args.superseded,
        budget_chars=args.budget,
        explain=args.explain,
        embed_timeout=_EMBED_WAIT if args.wait is None else float(args.wait),
    )
    with opened(args, out) as memory:
        result = memory.recall(query)
        if out.json_mode:
            out.json(_result_object(result))
        else:
            _print_result(result, out, memory.engine.embedding.problem)
    return Exit.DONE


def _result_object(result: RecallResult) -> dict[str, Any]:
    return {
        "query": result.query,
        "degraded": result.degraded,
        "notes": result.notes,
        "searched": result.searched,
        "hits": [dataclasses.asdict(hit) for hit in result.hits],
    }


def _print_result(result: RecallResult, out: Output, problem: str) -> None:
    if out.terminal:
        for number, hit in enumerate(result.hits, 1):
            _print_hit(number, hit, out)
    else:
        out.table((), ((hit.uid, hit.kind, hit.theme, day_of(hit), f"{hit.score:.3f}", _marked(hit)) for hit in result.hits))
    if not result.hits and "empty-query" not in result.notes:
        out.line(f"searched {result.searched} memories, nothing relevant")
    for note in result.notes:
        out.line(out.style(f"note: {_NOTES.get(note, note)}", "dim"))
    for part in result.degraded:
        reason = f"{one_line(problem)}; --wait gives it time" if part == "vector" else "'mnemosyne doctor' says why"
        out.line(out.style(f"degraded: {part} could not be used ({reason})", "yellow"))
    if not out.terminal:
        for hit in result.hits:
            _print_reasons(hit, out)


def _print_hit(number: int, hit: Hit, out: Output) -> None:
    facts = [hit.kind, hit.theme, hit.target or hit.role or "", day_of(hit), f"score {hit.score:.3f}", hit.uid]
    out.line(f"{out.style(f'{number}.', 'bold')} {out.style('  '.join(fact for fact in facts if fact), 'dim')}")
    out.block(_marked(hit))
    _print_reasons(hit, out)


def _print_reasons(hit: Hit, out: Output) -> None:
    from hermes_mnemosyne.cli.output import json_text

    if hit.explain is not None:
        out.line(out.style(f"   why {hit.uid}: {json_text(hit.explain)}", "dim"))


def _marked(hit: Hit) -> str:
    speaker = f"{hit.speaker or hit.role}: " if hit.kind == "turn" else ""
    marks = (" […]" if hit.cut else "") + (f" (superseded by {hit.superseded_by})" if hit.superseded_by else "")
    return f"{speaker}{hit.content}{marks}"


def day_of(row: Hit | Entry | Turn) -> str:
    """Return the local day on which something happened or was written."""
    return local_time(row.occurred_at or row.created_at)[:10]


def local_time(utc: str | None) -> str:
    """Return fixed-width UTC text as local time to the minute, an empty text for none."""
    if not utc:
        return ""
    # Not strptime, whose import alone takes as long as all of argparse.
    try:
        return datetime.fromisoformat(utc).astimezone().isoformat(" ", "minutes")[:16]
    except (OverflowError, ValueError, OSError):  # at the ends of the calendar there is no local time
        return f"{utc[:10]} {utc[11:16]}"


def _list(args: argparse.Namespace, out: Output) -> int:
    with opened(args, out) as memory:
        rows = _rows(memory, args)
        if out.json_mode:
            out.json({"entries": [dataclasses.asdict(row) for row in rows]})
        elif rows:
            headers = ("ID", "KIND", "THEME", "TARGET", "DAY", "TEXT")
            out.table(headers, ((row.uid, row.kind, row.theme, _target(row), day_of(row), _listed(row)) for row in rows))
        else:
            out.line("nothing is stored that matches")
    return Exit.DONE


def _rows(memory: Memory, args: argparse.Namespace) -> list[Entry | Turn]:
    return memory.list(
        kinds=_KINDS[args.kind],
        target=args.target,
        tags=tuple(args.tags),
        since=args.since,
        limit=args.limit,
        offset=args.offset,
    )


def _target(row: Entry | Turn) -> str:
    return row.target if isinstance(row, Entry) else row.role


def _listed(row: Entry | Turn) -> str:
    return row.content if isinstance(row, Entry) else f"{row.speaker or row.role}: {row.content}"


def _show(args: argparse.Namespace, out: Output) -> int:
    with opened(args, out) as memory:
        row = memory.get(args.uid)
        if out.json_mode:
            out.json(dataclasses.asdict(row))
        else:
            _print_row(row, out)
    return Exit.DONE


def _print_row(row: Entry | Turn, out: Output) -> None:
    shown = {name: value for name, value in dataclasses.asdict(row).items() if name not in ("content", "occurred_offset")}
    for name, value in shown.items():
        if value not in (None, "", (), {}, []):
            out.line(f"{name.replace('_', ' ') + ':':<19}{_field(name, value)}")
    out.line()
    out.block(row.content, indent="")


def _field(name: str, value: Any) -> str:
    from hermes_mnemosyne.cli.output import json_text

    if name == "origins":
        return one_line(", ".join(" ".join(filter(None, (origin["kind"], origin["place"]))) for origin in value))
    if isinstance(value, str):
        return local_time(value) if name in {"created_at", "updated_at", "occurred_at", "valid_until"} else one_line(value)
    if name == "tags":
        return one_line(", ".join(value))
    return json_text(value)


def _history(args: argparse.Namespace, out: Output) -> int:
    with opened(args, out) as memory:
        changes = memory.history(args.uid)
        if out.json_mode:
            out.json({"uid": args.uid, "changes": [dataclasses.asdict(change) for change in changes]})
        else:
            out.table(("WHEN", "WHAT", "BEFORE"), ((local_time(c.at), c.action, _before(c.before)) for c in changes))
    return Exit.DONE


def _before(fields: Mapping[str, Any]) -> str:
    from hermes_mnemosyne.cli.output import json_text

    content = fields.get("content")
    rest = {name: value for name, value in fields.items() if name != "content"}
    return " ".join(
        filter(None, (str(content) if content is not None else "", json_text(rest) if rest and content is None else ""))
    )
