"""Commands for a Postgres: migrate, maintain; prune, cleanup and remap, which only count until `--execute` is added."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_mnemosyne._errors import EmbeddingError, InvalidInput
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, effective_settings, number_between, opened, theme_of
from hermes_mnemosyne.cli.output import Output, Progress, complain, one_line

if TYPE_CHECKING:
    from hermes_mnemosyne.maintenance import Administration, Done
    from hermes_mnemosyne.store.postgres.finishing import Return
    from hermes_mnemosyne.store.postgres.migrate import Report

ROLE = "hermes"
_MOST_DAYS = 1_000_000
_MOST_DIMENSIONS = 16_000
_MOST_PARTITIONS = 1_024


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    _register_administration(commands)
    prune = add_command(
        commands,
        "prune",
        _prune,
        help="forget turns of conversations that are older than some days; never memories",
        example="%(prog)s --days 90\n%(prog)s --days 90 --execute",
    )
    prune.add_argument(
        "--days",
        type=number_between(-_MOST_DAYS, _MOST_DAYS),
        metavar="N",
        help="age in days (default: ttl_days; 0 forgets none)",
    )
    cleanup = add_command(
        commands,
        "cleanup",
        _cleanup,
        help="forget all that some themes hold",
        example="%(prog)s --identities old-bench,test\n%(prog)s --identities old-bench,test --execute",
    )
    cleanup.add_argument("--identities", required=True, metavar="A,B", help="the themes, separated by commas")
    _tables(cleanup)
    remap = add_command(
        commands,
        "remap",
        _remap,
        help="give all that a theme holds another theme; ids, times and vectors stay",
        example="%(prog)s --old Marketing-old --new marketing\n%(prog)s --old Marketing-old --new marketing --execute",
    )
    remap.add_argument(
        "--old", required=True, metavar="A", help="the theme; of one that contacts share, the rows whose contact is not known"
    )
    remap.add_argument("--new", required=True, metavar="B", help="its new theme, or a contact as the host names it")
    remap.add_argument("--force", action="store_true", help="merge more than ten memories that the new theme has already")
    for parser in (prune, cleanup, remap):
        parser.add_argument("--execute", action="store_true", help="do it; without this it is only counted")


def _register_administration(commands: Commands) -> None:
    migrate = add_command(
        commands,
        "migrate",
        _migrate,
        help="lay down or bring up to date the schema of a Postgres, and take over the tables of hermes-memory-pgvector",
        example="%(prog)s --admin-dsn 'dbname=memory user=postgres'\n"
        "%(prog)s --admin-dsn 'dbname=memory user=postgres' --dry-run > schema.sql",
    )
    migrate.add_argument("--admin-dsn", required=True, metavar="DSN", help="the database, as a role that may change its schema")
    migrate.add_argument("--runtime-role", default=ROLE, metavar="ROLE", help=f"the role of the agents (default: {ROLE})")
    migrate.add_argument(
        "--embed-dim",
        type=number_between(1, _MOST_DIMENSIONS),
        metavar="N",
        help="length of the vectors of a new store (default: 768)",
    )
    migrate.add_argument(
        "--partitions",
        type=number_between(0, _MOST_PARTITIONS),
        default=0,
        metavar="N",
        help="partitions of a new store (default: none)",
    )
    what = migrate.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="print the complete SQL for psql -f and change nothing")
    what.add_argument("--back", action="store_true", help="copy what is newer here into the old tables, for going back to 0.5.x")
    what.add_argument("--finish", action="store_true", help="drop the old tables after a verified copy; views take their names")
    maintain = add_command(
        commands,
        "maintain",
        _maintain,
        help="make the vector indexes that large themes need and drop those of no use; nobody has to wait meanwhile",
        example="%(prog)s --admin-dsn 'dbname=memory user=postgres'",
    )
    maintain.add_argument("--admin-dsn", metavar="DSN", help="the database, as the owner of its tables (default: as the agents)")
    maintain.add_argument("--dry-run", action="store_true", help="only print what there is to do")


def _tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tables", metavar="A,B", help="of memory_entries and conversations (default: both)")


# -- prune and cleanup -----------------------------------------------------------------------------------------------------------


def _prune(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.maintenance import prune

    with opened(args, out) as memory:
        days = memory.settings.ttl_days if args.days is None else args.days
        theme, progress = theme_of(args), Progress("turns forgotten")
        done = prune(memory, days, execute=args.execute, themes=None if theme is None else [theme], step=progress.step)
        progress.end()
        if out.json_mode:
            out.json({"days": days, **_object(done)})
            return _code(done)
        if days <= 0:
            out.line("nothing to prune: --days (or ttl_days) is 0")
            return Exit.DONE
        [(table, found)] = done.found.items()
        verb = f"forgot {done.forgotten[table]} of" if args.execute else "would forget"
        out.line(f"prune (>{days}d, dry_run={not args.execute}): {verb} {found} conversation rows")
        _tell_end(done, out)
    return _code(done)


def _cleanup(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.maintenance import cleanup, tables_of

    themes = list(dict.fromkeys(name.strip() for name in args.identities.split(",") if name.strip()))
    if not themes:
        raise InvalidInput("--identities is empty: name themes, separated by commas")
    tables = tables_of(args.tables)
    with opened(args, out) as memory:
        progress = Progress("rows forgotten")
        done = cleanup(memory, themes, tables, execute=args.execute, step=progress.step)
        progress.end()
        if out.json_mode:
            out.json({"identities": themes, **_object(done)})
            return _code(done)
        out.line(one_line(f"cleanup identities={themes} dry_run={not args.execute}"))
        out.line(f"of these, with a run of 10 or 11 digits: {_figures(done.personal)}")
        out.line(f"forgot: {_figures(done.forgotten)}" if args.execute else f"would forget: {_figures(done.found)}")
        _tell_end(done, out)
    return _code(done)


def _object(done: Done) -> dict[str, Any]:
    return {**asdict(done), "forgotten": dict(done.forgotten)}


def _tell_end(done: Done, out: Output) -> None:
    if done.executed:
        out.line(f"before: {_figures(done.found)}; now: {_figures(done.left)}")
    if done.stopped:
        complain(done.stopped)


def _figures(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{table} {count}" for table, count in counts.items()) or "nothing"


def _code(done: Done) -> int:
    return Exit.PARTLY if done.stopped else Exit.DONE


# -- remap -----------------------------------------------------------------------------------------------------------------------


def _remap(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.maintenance import remap

    with opened(args, out) as memory:
        found = remap(memory, args.old, args.new, execute=args.execute, force=args.force)
        moved = found.entries - found.duplicates
        if out.json_mode:
            out.json(
                {
                    "dry_run": not args.execute,
                    "memory_entries": {"moved": moved, "dropped_duplicates": found.duplicates},
                    "conversations": {"moved": found.turns},
                }
            )
            return Exit.DONE
        verb = "moved" if args.execute else "would move"
        out.line(
            f"{verb} {moved} memories and {found.turns} turns, {found.duplicates} memories that are there already become one with them"
        )
        if not args.execute:
            out.line("nothing was changed: add --execute to do it")
    return Exit.DONE


# -- the administrator -----------------------------------------------------------------------------------------------------------


def _migrate(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.maintenance import Wishes, administered, migrate

    wishes = Wishes(runtime_role=args.runtime_role, embed_dim=args.embed_dim, partitions=args.partitions)
    if args.dry_run:
        report = migrate(args.admin_dsn, wishes, dry_run=True)
        if out.json_mode:
            out.json({"applied": report.applied, "grants": report.grants, "notes": report.notes, "sql": report.sql})
        else:
            out.utf8(report.sql)
        return Exit.DONE
    # Where no database is named, that of the provider counts: beside it lies the key of the agents' contacts.
    args.mnemosyne_provider = "pgvector"
    settings = effective_settings(args).settings
    if args.back:
        with administered(args.admin_dsn, settings) as administration:
            return _print_return(administration.maintenance.give_back(), out)
    report = migrate(args.admin_dsn, wishes)
    progress = Progress("old rows copied")
    with administered(args.admin_dsn, settings) as administration:
        adoption = administration.adopt(progress.step)
        progress.end()
        vectors = _old_vectors(administration) if adoption.counts else _NO_VECTORS
        dropped = administration.maintenance.finish(args.runtime_role) if args.finish else []
    counts = {table: dict(found) for table, found in adoption.counts.items()}
    if out.json_mode:
        figures = {"adopted": counts, "forwarded": adoption.forwarded, "problems": adoption.problems, "dropped": dropped}
        figures |= {"vectors": vectors.taken}
        out.json({"applied": report.applied, "grants": report.grants, "notes": [*report.notes, *vectors.notes], **figures})
    else:
        _print_migration(report, counts, dropped, out)
        if vectors.taken:
            out.line(f"{vectors.taken} vectors taken over: the embedder makes the same ones")
        for note in vectors.notes:
            out.line(one_line(note))
        for problem in adoption.problems:
            complain(problem)
    return Exit.DONE if adoption.complete else Exit.PARTLY


class _Vectors(NamedTuple):
    """How many old vectors were taken over, and why no others."""

    taken: int
    notes: tuple[str, ...] = ()


_NO_VECTORS = _Vectors(0)


def _old_vectors(administration: Administration) -> _Vectors:
    """Take over what the embedder would make too. Without it nothing is lost: texts are embedded anew, in the background."""
    try:
        found = administration.adopt_vectors()
    except EmbeddingError as error:
        return _Vectors(0, (f"old vectors were not taken over: {error}",))
    if found is None or found.trusted or not found.compared:
        return _Vectors(0 if found is None else found.taken)
    different = f"of {found.compared} old vectors the least alike has a cosine of {found.least:.3f} with the embedder's"
    return _Vectors(0, (f"{different}: texts are embedded anew",))


def _print_migration(report: Report, counts: Mapping[str, Mapping[str, int]], dropped: Sequence[str], out: Output) -> None:
    out.line("applied migrations: " + (", ".join(report.applied) or "none, the schema is up to date"))
    for table, found in counts.items():
        out.line(
            f"{table}: " + (", ".join(f"{count} {word}" for word, count in sorted(found.items())) or "every row is here already")
        )
    if dropped:
        out.line(f"dropped: {', '.join(dropped)}; views answer under these names")
    for note in report.notes:
        out.line(one_line(note))
    for grant in report.grants:
        out.line(f"  {grant}")


def _print_return(done: Return, out: Output) -> int:
    if out.json_mode:
        out.json(asdict(done))
    else:
        out.line(f"given back: {done.entries} memories, {done.turns} turns")
        if done.unfit:
            out.line(f"{done.unfit} do not fit the old tables and are only here")
        if done.of_contacts:
            out.line(f"{done.of_contacts} of contacts stay here: the old package would show them to every contact")
    return Exit.PARTLY if done.unfit else Exit.DONE


def _maintain(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.maintenance import maintain

    args.mnemosyne_provider = "pgvector"
    dsn = effective_settings(args).settings.dsn if args.admin_dsn is None else args.admin_dsn
    if dsn is None:
        raise InvalidInput("maintain is for a Postgres database: name one with --admin-dsn")
    steps = maintain(dsn, dry_run=args.dry_run)
    if out.json_mode:
        shown = [{"action": step.action, "index": step.name, "theme": step.theme, "rows": step.rows} for step in steps]
        out.json({"dry_run": args.dry_run, "steps": shown})
        return Exit.DONE
    for step in steps:
        of_what = f" for theme {step.theme}" if step.theme else ""
        out.line(
            one_line(
                f"{'would ' if args.dry_run else ''}{step.action} {step.name}{of_what}"
                + (f" ({step.rows} rows)" if step.rows else "")
            )
        )
    if not steps:
        out.line("nothing to do: every index that is needed is there")
    return Exit.DONE
