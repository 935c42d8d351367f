"""What the distribution promises: its files, its dependencies, its public names."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from scripts.environments import ROOT, project

NAME = "hermes_mnemosyne"
PACKAGE = ROOT / "src" / NAME
MOST_PUBLIC_NAMES = 15

# The exact versions, or the lowest ones, that hermes-agent 0.19.0 asks for. A floor above one of them could not be installed beside it.
HOST_PINS = {
    "cryptography": "46.0.7",
    "httpx": "0.28.1",
    "jinja2": "3.1.6",
    "mcp": "1.26.0",
    "openai": "2.24.0",
    "packaging": "26.0",
    "prompt-toolkit": "3.0.52",
    "psutil": "7.2.2",
    "pydantic": "2.13.4",
    "pyjwt": "2.13.0",
    "pyyaml": "6.0.3",
    "requests": "2.33.0",
    "rich": "14.3.3",
    "ruamel-yaml": "0.18.17",
    "starlette": "1.0.1",
    "tenacity": "9.1.4",
    "urllib3": "2.7.0",
    "websockets": "15.0.1",
}


def requirements() -> list[str]:
    """Return every requirement of the distribution but those of its own tests and on itself."""
    table = project()
    extras = [one for name, lines in table["optional-dependencies"].items() if name not in ("all", "test") for one in lines]
    return [*table["dependencies"], *extras]


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers that compare."""
    return tuple(int(part) for part in version.split("."))


@pytest.mark.parametrize("requirement", requirements())
def test_a_dependency_has_a_floor_that_the_host_satisfies(requirement: str) -> None:
    found = re.fullmatch(r"([\w.-]+)>=([\d.]+)(,<\d+)?", requirement)
    assert found, f"{requirement}: a name and a floor, no more"
    pin = HOST_PINS.get(re.sub(r"[-_.]+", "-", found[1]).lower())
    assert pin is None or numbers(found[2]) <= numbers(pin)


def test_the_extra_all_holds_every_part_but_the_tests() -> None:
    extras = project()["optional-dependencies"]
    [line] = extras["all"]
    assert set(re.findall(r"\w+", line.partition("[")[2])) == set(extras) - {"all", "test"}


def test_python_has_a_floor_and_no_cap() -> None:
    assert project()["requires-python"] == ">=3.11"


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(f"{NAME}/")}
    wanted = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".pyc", "")}
    assert packed == {str(path.relative_to(PACKAGE.parent)) for path in wanted}
    assert f"{NAME}/py.typed" in packed
    assert {Path(name).suffix for name in packed} >= {".py", ".sql", ".yaml"}


def test_the_public_names_are_few_sorted_and_importable() -> None:
    package = importlib.import_module(NAME)
    assert list(package.__all__) == sorted(package.__all__)
    assert len(package.__all__) <= MOST_PUBLIC_NAMES
    assert all(hasattr(package, name) for name in package.__all__)
    assert set(package.__all__) <= set(dir(package))


def test_the_version_is_that_of_the_distribution() -> None:
    assert metadata.version("hermes-mnemosyne") == project()["version"]


def test_the_changelog_speaks_of_this_version_or_of_an_unreleased_one() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{project()['version']}]" in text or "## [Unreleased]" in text
