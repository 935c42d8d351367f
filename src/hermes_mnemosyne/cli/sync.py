"""The command that brings this store and a server to the same memories: sync."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import InvalidInput, MissingExtra, StoreBusy
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, opened, theme_of
from hermes_mnemosyne.cli.output import Output, Progress, complain, one_line

if TYPE_CHECKING:
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.sync.proof import Proof
    from hermes_mnemosyne.sync.remote import Remote
    from hermes_mnemosyne.sync.round import Options
    from hermes_mnemosyne.sync.summary import Summary

_LISTED = 10


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = add_command(
        commands,
        "sync",
        _sync,
        help="bring this store and a server ('mnemosyne sync-serve') to the same memories, or show how far they are",
        example="mnemosyne sync --remote https://memory.example --api-key-file ~/.config/mnemosyne/api-key\n"
        "mnemosyne sync --remote https://memory.example --watch\n"
        "mnemosyne sync --profile home --verify\n"
        "mnemosyne sync status",
    )
    parser.add_argument("action", nargs="?", choices=("round", "status"), default="round", help="default: round")
    parser.add_argument(
        "--remote", metavar="URL", help="the server (default: what --profile synced with last, else the setting sync.remote)"
    )
    parser.add_argument(
        "--profile", metavar="NAME", help="the name under which this store keeps how far they are (default: the URL)"
    )
    parser.add_argument(
        "--api-key-file",
        metavar="FILE",
        help="the file that holds the server's key (else MNEMOSYNE_SYNC_KEY, MNEMOSYNE_SYNC_KEY_FILE, the setting "
        "sync.api_key_file, $CREDENTIALS_DIRECTORY/api-key)",
    )
    parser.add_argument(
        "--seal-key-file",
        metavar="FILE",
        help="seal every row with the first key of this file, so that the server cannot read it (else MNEMOSYNE_SEAL_KEY_FILE, the "
        "setting sync.seal_key_file, $CREDENTIALS_DIRECTORY/seal-key); 'mnemosyne keys seal-key' makes a key",
    )
    parser.add_argument("--reseal", action="store_true", help="seal all rows anew, with the first key of the seal key file")
    parser.add_argument(
        "--include",
        nargs="+",
        action="extend",
        metavar="THEME",
        help="sync these themes only; '*' is every ordinary one (the default), a theme that contacts share must be named",
    )
    parser.add_argument("--exclude", nargs="+", action="extend", metavar="THEME", help="leave these themes out")
    parser.add_argument("--turns", action="store_true", default=None, help="sync the turns of conversations too")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--interval", metavar="TIME", help="go on with a round every TIME, such as 90s, 10m or 1h")
    mode.add_argument("--watch", action="store_true", help="go on with a round after each change, here or there")
    mode.add_argument("--dry-run", action="store_true", help="only say what would travel")
    mode.add_argument(
        "--verify", action="store_true", help="compare digests: prove that both sides hold the same, or list what differs"
    )
    parser.add_argument("--repair", action="store_true", help="with --verify: mend what differs")
    parser.add_argument("--existing", action="store_true", help="fail (exit code 1) where there is no database yet")


@dataclass(frozen=True)
class _Job:
    """What the handlers of one call share."""

    args: argparse.Namespace
    out: Output
    memory: Memory
    connect: Callable[[threading.Event], Remote]
    options: Options


def _sync(args: argparse.Namespace, out: Output) -> int:
    if theme_of(args) is not None:
        raise InvalidInput("sync is about every theme: leave --theme out, and name themes with --include")
    if args.reseal and (args.dry_run or args.action == "status" or (args.verify and not args.repair)):
        raise InvalidInput("--reseal is done by a round: leave --dry-run, --verify and status out")
    if args.repair and not args.verify:
        raise InvalidInput("--repair mends what --verify finds: add --verify")
    interval = _interval(args.interval)
    is_status = args.action == "status"
    with opened(args, out, create=not is_status, existing=args.existing) as memory:
        if args.existing or is_status:
            # Before anything is put beside it.
            memory.engine.store.position()
        if is_status:
            return _status(memory, out, args.profile)
        job = _job(args, out, memory)
        if args.verify:
            return _verify(job)
        if args.dry_run:
            return _preview(job)
        return _keep(job, interval) if args.watch or interval is not None else _once(job)


def _interval(text: str | None) -> float | None:
    from hermes_mnemosyne.settings import seconds_of

    if text is None:
        return None
    seconds = seconds_of(text)
    if not seconds >= 1:
        raise InvalidInput(f"--interval {text} is no time of 1 s or more: write 90s, 10m or 1h")
    return seconds


def _job(args: argparse.Namespace, out: Output, memory: Memory) -> _Job:
    from hermes_mnemosyne.sync.remote import Remote
    from hermes_mnemosyne.sync.round import Options
    from hermes_mnemosyne.sync.seal_keys import sealer_of
    from hermes_mnemosyne.sync.secret import client_key
    from hermes_mnemosyne.sync.sharing import wanted
    from hermes_mnemosyne.sync.state import load

    settings = memory.settings.sync
    name = args.profile or ""
    if args.profile is not None and not name.strip():
        raise InvalidInput("--profile is blank: name one, or leave the option out")
    url = args.remote or (load(memory, name).url if name else "") or settings.remote
    if not url:
        raise InvalidInput("no server is named: add --remote URL, or set sync.remote")
    key = client_key(flag=args.api_key_file, setting=settings.api_key_file, environ=os.environ)
    chosen = wanted(
        args.include if args.include is not None else settings.include,
        args.exclude if args.exclude is not None else settings.exclude,
        turns=settings.turns if args.turns is None else args.turns,
    )
    try:
        sealer = sealer_of(flag=args.seal_key_file, setting=settings.seal_key_file, environ=os.environ)
    except MissingExtra as error:
        raise InvalidInput(str(error)) from error
    if args.reseal and sealer is None:
        raise InvalidInput("--reseal needs a seal key: add --seal-key-file")
    remote = Remote(url, key)
    if remote.address.is_readable:
        what = "see who syncs when" if sealer is not None else "read what is synced"
        complain(f"warning: {remote.url} is reached in clear: others on the way can {what}; use https")
    options = Options(name=name, wanted=chosen, sealer=sealer, reseal=args.reseal)
    return _Job(args, out, memory, lambda stop: Remote(url, key, stop=stop), options)


# -- rounds ----------------------------------------------------------------------------------------------------------------------


def _once(job: _Job) -> int:
    from hermes_mnemosyne.sync.round import sync_once

    with _run(job) as (remote, options):
        try:
            summary = sync_once(job.memory, remote, options)
        except StoreBusy as error:
            complain(str(error))
            return Exit.PARTLY
    _print_summary(summary, job.out)
    if summary.errors or summary.stopped:
        return Exit.PARTLY if summary.has_moved else Exit.FAILED
    return Exit.PARTLY if summary.set_aside else Exit.DONE


@contextmanager
def _run(job: _Job) -> Iterator[tuple[Remote, Options]]:
    """Lend a connection that SIGTERM cuts, and options that show progress."""
    from dataclasses import replace

    stop = threading.Event()
    remote = job.connect(stop)
    progress = Progress("records")
    try:
        with _until_terminated(remote.cut):
            yield remote, replace(job.options, stop=stop, step=progress.step)
    finally:
        progress.end()
        remote.close()


def _keep(job: _Job, interval: float | None) -> int:
    from dataclasses import replace

    from hermes_mnemosyne.sync.watch import Keeper, Schedule

    def report(summary: Summary) -> None:
        if summary.has_moved or summary.errors or summary.warnings or interval is not None:
            _print_summary(summary, job.out)
            job.out.flush()

    # This process stays: what came gets its vectors here.
    job.memory.engine.one_shot = False
    options = replace(job.options, stop=threading.Event())
    keeper = Keeper(job.memory, job.connect, options, Schedule(interval=interval, report=report))
    with _until_terminated(keeper.stop):
        keeper.run()
    return Exit.DONE


@contextmanager
def _until_terminated(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and SIGINT: what is under way ends in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard, told = os.pipe()

    def listen() -> None:
        if os.read(heard, 1):
            stop()

    def handle(_number: int, _frame: object) -> None:
        # No more than this: the thread that is interrupted may hold the very lock that `stop` needs.
        os.write(told, b".")

    listener = threading.Thread(target=listen, name="mnemosyne-signals", daemon=True)
    listener.start()
    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(told)
        listener.join()
        os.close(heard)


def _print_summary(summary: Summary, out: Output) -> None:
    if out.json_mode:
        out.json(summary.as_object())
        return
    for text in summary.warnings:
        complain(f"warning: {text}")
    for row in summary.listed[:_LISTED]:
        complain(f"{row['what'].replace('_', ' ')} {row['where']}: {row['uid']}: {row['why']}")
    unlisted = summary.refused + summary.set_aside - min(len(summary.listed), _LISTED)
    if unlisted > 0:
        complain(f"{unlisted} more rows were refused or set aside: --json lists a hundred")
    for text in summary.errors:
        complain(text)
    counts = {"came": summary.pulled, "went": summary.pushed, "compared": summary.healed, "got another clock": summary.restamped}
    shown = ", ".join(f"{count} {word}" for word, count in counts.items() if count or word in {"came", "went"})
    end = "" if summary.complete else "; not complete, run again"
    out.line(f"{one_line(summary.name)}: {shown} in {summary.seconds:.2f} s{end}")


# -- looking ---------------------------------------------------------------------------------------------------------------------


def _preview(job: _Job) -> int:
    from hermes_mnemosyne.sync.preview import preview

    with _run(job) as (remote, options):
        found = preview(job.memory, remote, options)
    if job.out.json_mode:
        job.out.json(found)
        return Exit.DONE
    for theme in found["left_out"]:
        complain(f"warning: {theme}: left out, since both sides do not hold the same subject key")
    for word, part in (("would come", found["pull"]), ("would go", found["push"])):
        themes = ", ".join(f"{one_line(theme)} {count}" for theme, count in part["themes"].items())
        job.out.line(f"{part['records']} records {word}{f': {themes}' if themes else ''}")
    if found["spooled"]:
        job.out.line(f"{found['spooled']} writes wait in the spool and would go too")
    return Exit.DONE


def _verify(job: _Job) -> int:
    from hermes_mnemosyne.sync.proof import verify_once

    with _run(job) as (remote, options):
        try:
            proof, summary = verify_once(job.memory, remote, options, repair=job.args.repair)
        except StoreBusy as error:
            complain(str(error))
            return Exit.PARTLY
    _print_proof(proof, summary, job.out)
    if not proof.count:
        return Exit.DONE
    return Exit.PARTLY if job.args.repair else Exit.FAILED


def _print_proof(proof: Proof, summary: Summary, out: Output) -> None:
    if out.json_mode:
        rows = [one.as_object() for one in proof.listed]
        same = {"remote": summary.name, "url": summary.url, "same": not proof.count, "different": proof.count, "rows": rows}
        out.json({**same, "healed": summary.healed, "warnings": summary.warnings})
        return
    for text in summary.warnings:
        complain(f"warning: {text}")
    if not proof.count:
        out.line(
            f"{one_line(summary.name)}: both sides hold the same rows{f', {summary.healed} mended' if summary.healed else ''}"
        )
        return
    out.table(
        ("THEME", "ID", "KIND", "HERE", "THERE"),
        ([one.theme, one.uid, one.kind, one.here or "missing", one.there or "missing"] for one in proof.listed),
    )
    complain(f"{proof.count} rows differ: 'mnemosyne sync' sends and fetches what is new, --verify --repair mends the rest")


def _status(memory: Memory, out: Output, profile: str | None) -> int:
    from hermes_mnemosyne.sync.preview import lag
    from hermes_mnemosyne.sync.state import load, names_of

    names = names_of(memory)
    if profile is not None and profile not in names:
        raise InvalidInput(f"no remote is known as {profile}: 'mnemosyne sync status' lists them")
    rows: list[Mapping[str, Any]] = []
    for name in names if profile is None else [profile]:
        state = load(memory, name)
        rows.append(
            {
                "remote": name,
                **state.kept("url", "last_success", "last_try", "last_error", "skew", "totals"),
                "lag": lag(memory, state),
                "healing": state.healing,
            }
        )
    if out.json_mode:
        out.json(rows)
    elif not rows:
        out.line("this store syncs with no server: mnemosyne sync --remote URL")
    else:
        out.table(
            ("REMOTE", "LAST SUCCESS", "TO SEND", "CLOCK", "LAST ERROR"),
            (
                [row["remote"], row["last_success"] or "never", str(row["lag"]), f"{row['skew']:+.1f} s", row["last_error"] or ""]
                for row in rows
            ),
        )
    return Exit.DONE
