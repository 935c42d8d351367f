"""What the pages under docs/ say is true: examples run, links lead somewhere, tables and figures are those of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import hermes_mnemosyne
from hermes_mnemosyne import drafts, engine, identity, settings
from hermes_mnemosyne.recall import analyse, gate, meaning, pipeline, plan
from scripts.environments import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
LINKING = [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md"]
PACKAGE = ROOT / "src" / "hermes_mnemosyne"

FENCE = re.compile(
    r"(?:^<!-- not executed: (?P<why>[^\n]+) -->\n+)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# In the expected output of a command: an elision, an id, a day with or without a time, a decimal, white space.
LOOSE = re.compile(rf"(?P<any>\.\.\.)|(?P<id>{ID.pattern})|(?P<day>\d{{4}}-\d\d-\d\d)|(?P<number>\d+\.\d+)|(?P<blank>\s+)")
PATTERNS = {"any": r".*?", "day": r"\d{4}-\d\d-\d\d", "number": r"\d+\.\d+", "blank": r"\s+"}
COMMAND = re.compile(r"(?:\w+=\S* )*mnemosyne\b|.*\| *mnemosyne\b")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `why` says why it is not executed, if it is not."""

    page: Path
    line: int
    kind: str
    text: str
    why: str


def blocks(page: Path, *kinds: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = [
        Block(page, text.count("\n", 0, match.start("text")) + 1, match["kind"], match["text"], match["why"] or "")
        for match in FENCE.finditer(text)
    ]
    return [block for block in found if block.kind in kinds]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def rows(page: str, header: str) -> list[list[str]]:
    """Return the cells of the table below a header line."""
    _, found, rest = (DOCS / page).read_text(encoding="utf-8").partition(f"{header}\n")
    assert found, f"{page} has no table {header}"
    lines = [line for line in rest.split("\n\n")[0].splitlines() if not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


# -- examples --------------------------------------------------------------------------------------------------------------------


class Session:
    """The commands of one page, run one after the other; an id that the page shows stands for the one that was really given."""

    def __init__(self, directory: Path) -> None:
        self.ids: dict[str, str] = {}
        bin_directory = directory / "bin"
        bin_directory.mkdir()
        script = bin_directory / "mnemosyne"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hermes_mnemosyne "$@"\n', encoding="utf-8")
        script.chmod(0o755)
        self.environ = {**os.environ, "PATH": f"{bin_directory}{os.pathsep}{os.environ.get('PATH', '')}"}

    def run(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.replace("\\\n", " ").partition("\n")
            if COMMAND.match(command):
                self._check(block, command, expected.strip())

    def _check(self, block: Block, command: str, expected: str) -> None:
        real = ID.sub(lambda match: self.ids.get(match.group(), match.group()), command)
        done = subprocess.run(["sh", "-c", real], env=self.environ, capture_output=True, text=True, timeout=60, check=False)
        where = f"{block.page.name}:{block.line}: $ {command}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, where
        if expected:
            shown: list[str] = []
            match = re.fullmatch(self._pattern(expected, shown), done.stdout.strip(), re.DOTALL)
            assert match is not None, f"{where}expected:\n{expected}"
            self.ids.update(zip(shown, match.groups(), strict=True))

    def _pattern(self, expected: str, shown: list[str]) -> str:
        """Return the expression for an expected output; ids that it shows for the first time are appended to `shown`."""
        pattern, position = "", 0
        for match in LOOSE.finditer(expected):
            pattern += re.escape(expected[position : match.start()])
            position = match.end()
            if match.lastgroup != "id":
                pattern += PATTERNS[match.lastgroup or ""]
            elif match.group() in self.ids:
                pattern += re.escape(self.ids[match.group()])
            elif match.group() in shown:
                pattern += f"(?:\\{shown.index(match.group()) + 1})"
            else:
                shown.append(match.group())
                pattern += f"({ID.pattern})"
        return pattern + re.escape(expected[position:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_work(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    session = Session(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python", "console"):
        if block.why:
            continue
        if block.kind == "console":
            session.run(block)
        else:
            # Empty lines before the code, so that a traceback names the line of the page.
            code = "\n" * (block.line - 1) + block.text
            exec(compile(code, str(page), "exec"), namespace)  # noqa: S102 - our own page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_configuration_in_a_page_is_accepted(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(page, "yaml")):
        of_host = bool({"plugins", "memory"} & yaml.safe_load(block.text).keys())
        home, store = tmp_path / f"home{number}", tmp_path / f"store{number}"
        for directory in (home, store):
            directory.mkdir()
        file = home / "config.yaml" if of_host else store / "mnemosyne.yaml"
        file.write_text(block.text, encoding="utf-8")
        resolved = settings.resolve(environ={}, store_dir=store, hermes_home=home, strict=True)
        assert not resolved.warnings


def test_the_alias_of_the_example_gives_the_owners_chat_the_main_theme() -> None:
    [example] = blocks(DOCS / "privacy.md", "yaml")
    aliases = yaml.safe_load(example.text)["plugins"]["mnemosyne"]["identity_aliases"]
    assert identity.normalise("agent:main:telegram:dm:123").theme == identity.DM_BUCKET
    assert identity.normalise("agent:main:telegram:dm:123", aliases=aliases).theme == settings.Settings().theme
    assert identity.normalise("agent:main:telegram:dm:123:7", aliases=aliases).theme == identity.DM_BUCKET
    assert identity.normalise("agent:main:telegram:dm:124", aliases=aliases).theme == identity.DM_BUCKET


# -- tables and figures ----------------------------------------------------------------------------------------------------------


def test_the_table_of_settings_is_that_of_the_code() -> None:
    documented = [row[:4] for row in rows("configuration.md", "| key | type | default | variable | effect |")]
    known = []
    for key in settings.KEYS:
        default = settings.shown(key.default)
        shown = f"`{default}`" if default else "unset"
        known.append([f"`{key.name}`", key.type, shown, f"`{key.env}`" if key.env else "none"])
    assert documented == known


def test_every_type_and_choice_of_a_setting_is_explained() -> None:
    explained = {name for row in rows("configuration.md", "| type | written as |") for name in row[0].split(", ")}
    assert explained == {key.type for key in settings.KEYS}
    effects = {row[0].strip("`"): row[4] for row in rows("configuration.md", "| key | type | default | variable | effect |")}
    assert [key.name for key in settings.KEYS for choice in key.choices if f"`{choice}`" not in effects[key.name]] == []


def test_the_wizard_asks_for_what_the_page_says() -> None:
    sentence = re.search(r"asks for ([^.]*?) and\nwrites", prose(DOCS / "configuration.md"))
    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence[1])) == {key.name for key in settings.KEYS if key.asked}


def test_the_limits_of_recall_are_those_of_the_code() -> None:
    page = (DOCS / "recall.md").read_text(encoding="utf-8")
    figures = [
        f"{analyse.MAX_TEXT_TOKENS:,}",
        f"{analyse.MAX_QUERY_CHARS:,} characters",
        f"{analyse.MAX_QUERY_WORDS} different words",
        f"{analyse.MAX_QUERY_TERMS} terms",
        f"the {plan.MAX_SEARCH_TERMS} rarest",
        f"{plan.COMMON_SHARE:.0%}".replace("%", " %"),
        f"{plan.MATCH_BUDGET:,}",
        f"the newest {plan.NEWEST:,}",
        f"an evidence of {pipeline.RecallOptions().gate}",
    ]
    assert [figure for figure in figures if figure not in page] == []


def test_the_weights_of_ranking_are_those_of_the_code() -> None:
    documented = [float(row[1]) for row in rows("recall.md", "| share of the score | figure |")]
    options = pipeline.RecallOptions()
    boosts = options.boosts
    shares = [options.neighbour, options.answer, boosts.recency, boosts.importance, boosts.pinned, boosts.speaker, boosts.period]
    assert documented == shares


def test_the_figures_of_words_and_meaning_are_those_of_the_code() -> None:
    page = (DOCS / "retrieval.md").read_text(encoding="utf-8")
    options = pipeline.RecallOptions()
    figures = [
        f"the {meaning.DEPTH} rows whose vectors are nearest",
        f"a likeness of {options.likeness} to be a hit",
        f"the first {meaning.JUDGED} rows",
        f"neighbours' share of {options.neighbour}",
        f"their strength is at least {options.whole}",
        f"{gate.LIKENESS_WORTH} times its likeness",
        f"must reach {options.gate},",
    ]
    assert [figure for figure in figures if figure not in " ".join(page.split())] == []


def test_the_trust_in_words_is_that_of_the_code() -> None:
    page = " ".join((DOCS / "retrieval.md").read_text(encoding="utf-8").split())
    network, *_ = rows("retrieval.md", "| embedder | weight for turns | weight for entries | |")
    weights = meaning.Weights(turn=float(network[1]), entry=float(network[2]))
    asked = meaning.Meaning(model="", vector=(), floor=0.0, weights=weights)
    assert "strength of 0.55 on, falls evenly down to 0.3, and is never less than 0.1" in page
    assert asked.shares(0.55) == asked.shares(1.0) == pytest.approx((weights.turn, weights.entry))
    assert asked.shares(0.3) == asked.shares(0.0) == pytest.approx(asked.shares(0.325))
    turn, entry = asked.shares(0.0)
    assert f"({turn:.2f} for turns, {entry:.2f} for entries)" in page


def test_every_public_name_and_field_is_documented() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    names = {*hermes_mnemosyne.__all__}
    for fields in (drafts.EntryFields, drafts.EntryChanges, drafts.TurnFields, engine.ListOptions):
        names |= fields.__annotations__.keys()
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_every_module_stands_on_the_architecture_page() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    modules = {path.stem for path in (*PACKAGE.glob("*.py"), *(PACKAGE / "recall").glob("*.py"))} - {"__init__", "__main__"}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    words = set(re.findall(r"\w+", page))
    assert sorted((modules | packages) - words) == []


# -- links -----------------------------------------------------------------------------------------------------------------------


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


def anchors(page: Path) -> set[str]:
    """Return the names by which the headings of a page are reached, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_linked_from_the_index() -> None:
    linked = {link.partition("#")[0] for link in links(DOCS / "index.md")}
    assert {page.name for page in PAGES} - {"index.md"} - linked == set()
