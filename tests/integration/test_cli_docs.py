"""docs/cli.md, docs/json.md and the examples in the help texts say what the commands do."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_mnemosyne import Entry, Hit, Turn
from hermes_mnemosyne.cli import build_parser, build_pgvector_parser
from scripts.environments import ROOT
from tests.integration.command import Store, mnemosyne

PAGE = ROOT / "docs" / "cli.md"
OF_POSTGRES = {"migrate", "maintain", "prune", "cleanup", "remap"}
PGVECTOR_PAGE = ROOT / "docs" / "pgvector-cli.md"
HEAD = """# The command line

This page is made of the help texts of the commands: `python -m tests.integration.test_cli_docs` writes it anew, a test compares it.
For `--json` see [json.md](json.md). Exit codes: 0 done (also a recall without hits), 1 failed or not found, 2 usage, 3 partly done: run
again. The commands for a Postgres have a name of their own too, `hermes-pgvector`: [pgvector-cli.md](pgvector-cli.md).
"""
PGVECTOR_HEAD = """# The command `hermes-pgvector`

Maintenance of the memory that a fleet shares in Postgres. The database and all else are settings of `plugins.pgvector` in
`$HERMES_HOME/config.yaml`; `--config FILE` reads another file, a flag comes before both. `python -m hermes_mnemosyne.pgvector` and
`hermes pgvector` are the same; `mnemosyne --db postgresql://...` has these commands too.

`prune`, `cleanup` and `remap` only count until `--execute` is added. What they and `backfill` have done stands in the table
`mnemosyne.maintenance_log` (view `memory_maintenance_log`); dry runs do not. Exit codes: 0 done, 1 failed or not found, 2 usage, 3
partly done: run again. For `--json` see [json.md](json.md).

- `prune` and `cleanup` *forget*: no history, no copy stays ([privacy.md](privacy.md)).
- `remap` moves the rows of a theme in one transaction. Rows keep their ids, times and vectors, nothing is retired. A memory that the new
  theme has already becomes one with it. A theme that contacts share, such as `whatsapp-dm`, stands for those of its rows whose contact is not
  known; with `--new agent:main:telegram:dm:123` they become that contact's.

This page is made of the help texts, as [cli.md](cli.md) is.
"""


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the subcommands under their first names."""
    [action] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001 - argparse has no other way
    found: dict[str, argparse.ArgumentParser] = {}
    for name, one in action.choices.items():
        if one not in found.values():
            found[name] = one
    return found


def page(head: str = HEAD, parser: argparse.ArgumentParser | None = None) -> str:
    parser = parser or build_parser()
    parts = [head, f"## {parser.prog}\n\n```text\n{parser.format_help()}```\n"]
    parts += [f"## {name}\n\n```text\n{one.format_help()}```\n" for name, one in subparsers(parser).items()]
    return "\n".join(parts)


def examples(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for name, one in subparsers(parser).items():
        assert one.epilog is not None
        for line in one.epilog.splitlines()[1:]:
            yield name, line.strip().replace("%(prog)s", one.prog)


def test_the_page_of_commands_is_the_help_they_print() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert PGVECTOR_PAGE.read_text(encoding="utf-8") == page(PGVECTOR_HEAD, build_pgvector_parser())


@pytest.mark.parametrize("name", subparsers(build_parser()))
def test_every_command_prints_its_help_and_takes_the_common_options(name: str) -> None:
    done = mnemosyne(name, "--help")
    assert done.code == 0
    for word in ("--db", "--theme", "--config", "--json", "example:"):
        assert word in done.out


@pytest.mark.parametrize("line", [line for _, line in examples(build_pgvector_parser()) if line.startswith("hermes-pgvector")])
def test_every_example_of_the_maintenance_command_is_accepted(line: str) -> None:
    parsed = build_pgvector_parser().parse_args(shlex.split(line.partition(">")[0])[1:])
    assert callable(parsed.mnemosyne_handler)


@pytest.mark.parametrize(("name", "line"), list(examples(build_parser())))
def test_every_example_in_a_help_text_is_accepted(name: str, line: str, tmp_path: Path) -> None:
    for command in line.split("|"):
        words = shlex.split(command.partition(">")[0] if name in OF_POSTGRES else command)
        if words[0] == "mnemosyne":
            parsed = build_parser().parse_args(words[1:])
            assert callable(parsed.mnemosyne_handler)
    if "|" in line or name in {"install", "import", "sync", "sync-serve", *OF_POSTGRES} or "ID" in line:
        return
    words = shlex.split(line)[1:]
    store = Store(tmp_path / "m.db")
    uid = store.add("The staging database listens on port 5433")
    ran = store(
        *(uid if word.startswith("01938f2e") else str(tmp_path / word) if word.endswith(".jsonl") else word for word in words)
    )
    # The id of an example is one of the store, but never one of its quarantine; tests have no embedder to change the model to.
    assert ran.code == (1 if "quarantine" in words or name == "reembed" else 0), ran.err


def test_the_page_of_json_names_every_field() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    for kind in (Hit, Entry, Turn):
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind))
        assert f"| {kind.__name__} | {fields} |" in text


def test_the_page_of_json_names_every_command() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    assert [name for name in subparsers(build_parser()) if f"`{name}" not in text] == []


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PGVECTOR_PAGE.write_text(page(PGVECTOR_HEAD, build_pgvector_parser()), encoding="utf-8")
    sys.exit(0)
