"""Commands that set things up: install, quickstart, config."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import EmbeddingError, InvalidInput
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, effective_settings, opened
from hermes_mnemosyne.cli.output import Output, visible
from hermes_mnemosyne.values import Origin

if TYPE_CHECKING:
    from hermes_mnemosyne.engine import Memory
    from hermes_mnemosyne.install import InstallReport
    from hermes_mnemosyne.values import Hit


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    install = add_command(
        commands,
        "install",
        _install,
        help="make Hermes find its memory provider: write the plugin directory, check it, print how to activate it",
        example="mnemosyne install\nmnemosyne install --hermes-home /srv/hermes",
    )
    install.add_argument("--hermes-home", metavar="DIR", help="the Hermes home (default: $HERMES_HOME, else ~/.hermes)")
    install.add_argument("--remove", action="store_true", help="take away what this command wrote")
    install.add_argument("--force", action="store_true", help="set a foreign plugin of this name aside")
    add_command(
        commands,
        "quickstart",
        _quickstart,
        help="see it work: open the default store, import what Hermes noted (or a sample), remember, recall",
        example="mnemosyne quickstart",
    )
    config = add_command(
        commands,
        "config",
        _config,
        help="print the store in use and its settings, each with the place it comes from",
        example="mnemosyne config show\nmnemosyne config show --effective --json",
    )
    config.add_argument("action", nargs="?", choices=("show",), default="show", help="default: show")
    config.add_argument("--effective", action="store_true", help="every setting, the defaults too")


# -- install ---------------------------------------------------------------------------------------------------------------------


def _install(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.install import install, remove

    home = _hermes_home(args)
    provider = getattr(args, "mnemosyne_provider", "mnemosyne")
    report = (remove if args.remove else install)(home, provider=provider, force=args.force)
    if out.json_mode:
        out.json(_report_object(report))
    else:
        _print_report(report, out)
    return Exit.DONE if report.ok else Exit.FAILED


def _hermes_home(args: argparse.Namespace) -> Path:
    from hermes_mnemosyne.paths import hermes_home

    if args.hermes_home is not None:
        home = Path(args.hermes_home).expanduser().absolute()
        if not args.hermes_home.strip():
            raise InvalidInput("--hermes-home is empty: name a directory, or leave the option out")
        if not home.is_dir():
            raise InvalidInput(f"{home} is no directory: check --hermes-home")
        return home
    found = hermes_home()
    if found is None:
        raise InvalidInput("there is no Hermes home: install hermes-agent first, or name its home with --hermes-home")
    return found


def _report_object(report: InstallReport) -> dict[str, Any]:
    check = report.verification
    return {
        "ok": report.ok,
        "action": report.action,
        "directory": str(report.directory),
        "verified": None
        if check is None
        else {
            "ok": check.ok,
            "by_host": check.by_host,
            "detail": check.detail,
            "source": check.source,
        },
        "backup": None if report.backup is None else str(report.backup),
        "warnings": report.warnings,
        "next_steps": report.next_steps,
    }


def _print_report(report: InstallReport, out: Output) -> None:
    words = {"nothing": "nothing to remove in", "unchanged": "up to date:"}
    out.line(f"{words.get(report.action, report.action)} {visible(str(report.directory))}")
    if report.backup is not None:
        out.line(f"the directory that stood there was kept as {visible(str(report.backup))}")
    if report.verification is not None and report.verification.ok:
        out.line(
            "checked: "
            + (f"Hermes loads it (the {report.verification.source})" if report.verification.by_host else "it can be imported")
        )
    for warning in report.warnings:
        out.line(out.style(f"warning: {visible(warning)}", "yellow"))
    if report.next_steps:
        out.line("next, to activate it:")
        for step in report.next_steps:
            out.line(f"  {visible(step)}")


# -- quickstart ------------------------------------------------------------------------------------------------------------------

_SAMPLE_THEME = "quickstart"
_SAMPLE = (
    "Ada prefers short answers with the command first",
    "The staging database listens on port 5433",
    "The team deploys on Tuesdays, never on Fridays",
)
_SAID = "Mnemosyne quickstart: this text was remembered and recalled on this machine"
_ASKED = "what did the quickstart remember on this machine?"
_MEANT = "how long should replies be?"
_EMBEDDED_AT_ONCE = 500


def _quickstart(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.paths import hermes_home
    from hermes_mnemosyne.store.protocol import Reach
    from hermes_mnemosyne.transfer import Source, import_texts, mirror_home

    home = hermes_home()
    with opened(args, out, create=True) as memory:
        mirrored = None if home is None else mirror_home(memory, home)
        sample = type(memory)(memory.engine, theme=_SAMPLE_THEME, subject="", reach=Reach(frozenset({_SAMPLE_THEME}), ""))
        counts = mirrored if mirrored is not None else import_texts(sample, _SAMPLE, Source(name=_SAMPLE_THEME)).counts
        receipt = sample.remember(_SAID, origin=Origin("cli", _SAMPLE_THEME))
        hits = [hit for hit in sample.recall(_ASKED, embed_timeout=0.0).hits if hit.uid == receipt.uid]
        alike, why = _found_by_meaning(sample)
        source = str(home) if mirrored is not None else "sample"
        if out.json_mode:
            out.json(
                {
                    "ok": bool(hits),
                    "db": memory.place,
                    "imported": {"from": source, "counts": counts},
                    "remembered": {"uid": receipt.uid, "status": receipt.status},
                    "hits": [asdict(hit) for hit in hits],
                    "by_meaning": [asdict(hit) for hit in alike],
                }
            )
        else:
            shown = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()) if count) or "nothing new"
            what = f"the notes of Hermes in {source}" if mirrored is not None else f"a small sample (theme {_SAMPLE_THEME})"
            out.line(f"store       {visible(memory.place)}")
            out.line(f"imported    {visible(what)}: {shown}")
            out.line(f"remembered  {receipt.uid}  {receipt.status}")
            for hit in hits:
                out.line(f"recalled    {hit.uid}  {visible(hit.content)}")
            for hit in alike:
                out.line(f"by meaning  {_MEANT} -> {visible(hit.content)}")
            if not alike:
                out.line(f"by meaning  nothing: {visible(why)}")
            _print_next(out, installed=home is not None)
    return Exit.DONE if hits else Exit.FAILED


def _found_by_meaning(sample: Memory) -> tuple[list[Hit], str]:
    """Return what a question finds that has no word in common with it, or why nothing can be found so."""
    embedding = sample.engine.embedding
    if not embedding.is_on:
        return [], embedding.choice.why
    pending = sample.engine.embedding_figures()["pending"]
    if pending > _EMBEDDED_AT_ONCE:
        return [], f"{pending} memories wait for their vectors: 'mnemosyne backfill' computes them"
    try:
        sample.remember(_SAMPLE[0])
        sample.embed_pending()
    except EmbeddingError as error:
        return [], str(error)
    return list(sample.recall(_MEANT, limit=1).hits), embedding.problem or "nothing is alike"


def _print_next(out: Output, *, installed: bool) -> None:
    command = _command()
    out.line()
    out.line("now type:")
    out.line(f"  {command} remember 'something worth keeping'")
    out.line(f"  {command} recall 'worth keeping'")
    out.line(f"  {command} install       # {'let Hermes use it' if installed else 'once hermes-agent is there'}")
    out.line(f"  {command} --help")


def _command() -> str:
    """Return how this command is started from where the user is: an environment of its own is often not on the PATH."""
    import shutil

    if shutil.which("mnemosyne") or Path(sys.argv[0]).name != "mnemosyne":
        return "mnemosyne"
    return visible(os.path.relpath(sys.argv[0]))


# -- config ----------------------------------------------------------------------------------------------------------------------


def _config(args: argparse.Namespace, out: Output) -> int:
    from hermes_mnemosyne.dsn import Dsn
    from hermes_mnemosyne.masking import mask, mask_value
    from hermes_mnemosyne.settings import shown
    from hermes_mnemosyne.stores import place_of

    effective = effective_settings(args)
    path = mask(str(place_of(effective.settings)))[0]
    rows = [
        (key, str(Dsn(value)) if key.name == "dsn" and value else value, source)
        for key, value, source in effective.rows()
        if args.effective or source != "default"
    ]
    if out.json_mode:
        settings = {key.name: {"value": mask_value(value)[0], "source": source} for key, value, source in rows}
        out.json({"db": path, "settings": settings, "warnings": effective.warnings})
        return Exit.DONE
    out.line(f"store: {visible(path)}")
    if rows:
        out.table(("SETTING", "VALUE", "FROM"), ((key.name, mask(shown(value))[0], source) for key, value, source in rows))
    else:
        out.line("every setting has its default ('mnemosyne config show --effective' prints them)")
    return Exit.DONE
