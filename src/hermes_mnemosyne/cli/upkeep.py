"""Commands that look after a store: stats, doctor, spool, reindex."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import InvalidInput
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, effective_settings, opened
from hermes_mnemosyne.cli.meaning import sentence
from hermes_mnemosyne.cli.output import Output, one_line

if TYPE_CHECKING:
    from hermes_mnemosyne.doctor import Report
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.spool import Quarantined, Spool

_STYLES = {"ok": "green", "warn": "yellow", "off": "dim", "fail": "red"}


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    stats = add_command(
        commands,
        "stats",
        _stats,
        aliases=["status"],
        help="print how much is stored, by theme, and what is pending",
        example="mnemosyne stats --json",
    )
    stats.add_argument("--prometheus", action="store_true", help="print the figures as Prometheus text (docs/metrics.md)")
    add_command(
        commands,
        "doctor",
        _doctor,
        aliases=["diagnose"],
        help="check everything, with a real store, recall and forget; say what is degraded, why, and what to do",
        example="mnemosyne doctor",
    )
    spool = add_command(
        commands,
        "spool",
        _spool,
        help="look at the writes that wait for the store, write them now, deal with those that failed",
        example="mnemosyne spool\nmnemosyne spool drain\nmnemosyne spool quarantine retry 01938f2e-7c1a-7b6e-9d53-0f2a4c6e8b10",
    )
    spool.add_argument("action", nargs="?", choices=("status", "drain", "quarantine"), default="status", help="default: status")
    spool.add_argument("what", nargs="?", choices=("list", "retry", "drop"), help="with quarantine (default: list)")
    spool.add_argument("uid", nargs="?", metavar="ID", help="the operation to retry (default: all) or to drop")
    add_command(
        commands,
        "reindex",
        _reindex,
        help="rebuild the full-text index from the stored texts",
        example="mnemosyne reindex",
    )


def _stats(args: argparse.Namespace, out: Output) -> int:
    with opened(args, out) as memory:
        if args.prometheus:
            from hermes_mnemosyne.metrics import exposition

            text = exposition(memory)
            out.utf8(text)
            return Exit.DONE if "\nmnemosyne_up 1.0\n" in text else Exit.FAILED
        figures = memory.stats()
        if memory.engine.place.is_server and is_known(figures):
            from hermes_mnemosyne.maintenance import figures as of_database

            figures |= {"database": of_database(memory)}
        if out.json_mode:
            out.json(figures)
        elif is_known(figures):
            _print_stats(figures, out)
        else:
            out.line(f"{'store:':<16}{one_line(figures['path'])}")
            out.line(f"{'state:':<16}unverified: {one_line(figures['store']['problem'])}")
            out.line(f"{'spool:':<16}{_spool_sentence(figures['spool'])}")
    return Exit.DONE if is_known(figures) else Exit.FAILED


def is_known(figures: Mapping[str, Any]) -> bool:
    """Tell whether the figures are those of a store that answered."""
    return bool(figures["store"].get("state") != "unverified")


def _print_stats(figures: Mapping[str, Any], out: Output) -> None:
    store, spool = figures["store"], figures["spool"]
    for name, value in (
        ("store", figures["path"]),
        ("size", f"{store['bytes'] / 1e6:.1f} MB"),
        ("memories", f"{store['memory'] + store['user']} ({store['user']} about the user)"),
        ("turns", store["turns"]),
        ("kept aside", f"{store['retired']} retired, {store['superseded']} superseded, {store['expired']} expired"),
        ("forgotten", f"{store['forgotten']} ({store['erasures_pending']} not yet erased from every file)"),
        ("spool", _spool_sentence(spool)),
        ("meaning", _meaning(figures["embedding"])),
        ("state", "ok" if figures["ok"] else f"needs repair ('{_doctor_of(figures)}' says what)"),
    ):
        out.line(f"{name + ':':<16}{one_line(str(value))}")
    if "database" in figures:
        _print_database(figures["database"], out)
        return
    rows = [(theme, str(counts["entries"]), str(counts["turns"])) for theme, counts in figures["themes"].items()]
    if rows:
        out.line()
        out.table(("THEME", "MEMORIES", "TURNS"), rows)


def _doctor_of(figures: Mapping[str, Any]) -> str:
    return f"{'hermes-pgvector' if 'database' in figures else 'mnemosyne'} doctor"


def _print_database(figures: Mapping[str, Any], out: Output) -> None:
    for table, counts in figures["tables"].items():
        missing = f", {counts['unembeddable']} cannot be embedded" if counts["unembeddable"] else ""
        out.line(f"{table + ':':<16}{counts['rows']} rows, {counts['pending']} wait for a vector{missing}")
    if any(figures["forwarded"].values()):
        waiting = ", ".join(f"{count} {state}" for state, count in figures["forwarded"].items())
        out.line(f"{'old names:':<16}changes made under them: {waiting}")
    if figures["agents"]:
        out.line()
        rows = (
            (agent["theme"], agent["kind"], str(agent["memory_entries"]), str(agent["conversations"]))
            for agent in figures["agents"]
        )
        out.table(("THEME", "KIND", "MEMORIES", "TURNS"), rows)


def _spool_sentence(spool: Mapping[str, Any]) -> str:
    return f"{spool['count']} waiting, {spool['quarantined']} in quarantine, {spool['refused']} refused"


def _meaning(figures: Mapping[str, Any]) -> str:
    if figures["embedder"] is None:
        return f"off: {figures['why']}"
    return f"{figures['embedder']} ({figures['why']}): {figures['problem'] or sentence(figures)}"


def _doctor(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.doctor import examine
    from hermes_mnemosyne.paths import hermes_home

    with opened(args, out) as memory:
        report = examine(memory, effective=effective_settings(args), home=hermes_home())
        if out.json_mode:
            out.json(report.as_object())
        else:
            _print_checks(report, out)
    return Exit.DONE if report.ok else Exit.FAILED


def _print_checks(report: Report, out: Output) -> None:
    for check in report.checks:
        remedy = f": {check.remedy}" if check.remedy else ""
        out.line(f"{out.style(f'{check.status:<5}', _STYLES[check.status])} {check.name:<16} {one_line(check.detail + remedy)}")
    out.line("everything that must work works" if report.ok else "something needs repair: see the lines that say fail")


# -- spool -----------------------------------------------------------------------------------------------------------------------


def _spool(args: argparse.Namespace, out: Output) -> int:
    if args.action != "quarantine" and args.what is not None:
        raise InvalidInput(f"'{args.what}' goes with 'spool quarantine' only: see 'mnemosyne spool --help'")
    with opened(args, out) as memory:
        if args.action == "drain":
            return _drain(memory, out)
        if args.action == "quarantine":
            return _quarantine(memory.engine.spool, args, out)
        figures = memory.engine.spool.status()
        if out.json_mode:
            out.json(figures)
        else:
            for name, value in figures.items():
                shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                out.line(f"{name.replace('_', ' ') + ':':<18}{one_line(shown)}".rstrip())
    return Exit.DONE


def _drain(memory: Memory, out: Output) -> int:
    report = memory.engine.drain(wait=memory.settings.busy_timeout)
    if out.json_mode:
        out.json(asdict(report))
    else:
        out.line(f"{report.applied} written, {report.quarantined} put into quarantine, {report.left} left")
        if report.skipped_locked:
            out.line("another process is draining: look again in a moment")
        if report.stopped:
            out.line(f"stopped: {one_line(report.stopped)}")
    return Exit.PARTLY if report.left or report.quarantined else Exit.DONE


def _quarantine(spool: Spool, args: argparse.Namespace, out: Output) -> int:
    if args.what == "drop":
        if args.uid is None:
            raise InvalidInput("name the operation to be dropped: 'mnemosyne spool quarantine' lists them")
        spool.drop(args.uid)
        _tell(out, {"dropped": 1}, "dropped: its text is erased")
    elif args.what == "retry":
        count = spool.retry(args.uid)
        _tell(out, {"requeued": count}, f"{count} put back into the queue: 'mnemosyne spool drain' writes them now")
    else:
        _list_quarantine(spool.quarantined(), out)
    return Exit.DONE


def _tell(out: Output, value: Mapping[str, Any], text: str) -> None:
    if out.json_mode:
        out.json(value)
    else:
        out.line(text)


def _list_quarantine(rows: Sequence[Quarantined], out: Output) -> None:
    if out.json_mode:
        names = ("op_id", "theme", "error", "attempts", "queued_at", "quarantined_at", "bytes")
        shown = [{name: getattr(row, name) for name in names} | {"operation": _kind(row)} for row in rows]
        out.json({"quarantine": shown})
    elif rows:
        headers = ("ID", "WHAT", "THEME", "TRIES", "WHY")
        out.table(headers, ((row.op_id, _kind(row), row.theme, str(row.attempts), row.error) for row in rows))
    else:
        out.line("the quarantine is empty")


def _kind(row: Quarantined) -> str:
    return "unreadable" if row.operation is None else type(row.operation).__name__


# -- reindex ---------------------------------------------------------------------------------------------------------------------


def _reindex(args: argparse.Namespace, out: Output) -> int:
    with opened(args, out) as memory:
        count = memory.engine.store.reindex()
        _tell(out, {"reindexed": count}, f"indexed {count} rows anew")
    return Exit.DONE
