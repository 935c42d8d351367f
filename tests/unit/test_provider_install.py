"""The discovery directory: what `mnemosyne install` writes, changes, and leaves alone."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hermes_mnemosyne import install as installer
from hermes_mnemosyne._errors import InvalidInput, MnemosyneError

FILES = ["__init__.py", "cli.py", "plugin.yaml"]


@pytest.fixture
def hermes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hermes home on a machine without the host, so that only our own interpreter can check."""
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path / "hermes"


def plugin(home: Path) -> Path:
    return home / "plugins" / "mnemosyne"


def test_an_installation_writes_import_lines_only_and_loads_the_provider_in_a_clean_process(hermes: Path) -> None:
    report = installer.install(hermes)
    assert (report.action, report.ok) == ("installed", True)
    assert sorted(path.name for path in plugin(hermes).iterdir()) == FILES
    assert report.verification is not None
    assert report.verification.interpreter == sys.executable
    init = (plugin(hermes) / "__init__.py").read_text(encoding="utf-8")
    assert "register_memory_provider" in init[:8192]
    assert "class " not in init
    assert "def " not in init
    assert (plugin(hermes) / "plugin.yaml").read_text(encoding="utf-8").count("name: mnemosyne\n") == 1


@pytest.mark.parametrize("provider", sorted(installer.PLUGINS))
@pytest.mark.parametrize("way", ["written", "linked"])
def test_an_agent_that_begins_while_the_directory_is_being_loaded_finds_its_provider(
    hermes: Path, monkeypatch: pytest.MonkeyPatch, provider: str, way: str
) -> None:
    if way == "linked":
        directory = Path(installer.__file__).parent.joinpath(*installer.PLUGINS[provider].split(".")[1:])
    else:
        directory = installer.install(hermes, provider=provider).directory
    # A host of the 0.19 line makes the package known, executes cli.py, and only then the package itself.
    loading: Any = ModuleType("loading")
    monkeypatch.setitem(sys.modules, "loading", loading)
    code = compile((directory / "cli.py").read_text(encoding="utf-8"), str(directory / "cli.py"), "exec")
    with monkeypatch.context() as while_imports_take_long, contextlib.suppress(ImportError):
        while_imports_take_long.setattr(sys, "path", list(sys.path))
        while_imports_take_long.setitem(sys.modules, "hermes_mnemosyne", None)
        exec(code, {"__name__": "loading.cli", "__file__": str(directory / "cli.py")})  # noqa: S102 - as the host does
    given: list[Any] = []
    loading.register(SimpleNamespace(register_memory_provider=given.append))
    assert [one.name for one in given] == [provider]


def test_the_activation_command_is_printed_for_this_home_and_never_run(hermes: Path) -> None:
    report = installer.install(hermes)
    assert report.next_steps[0] == f"HERMES_HOME={hermes} hermes memory setup mnemosyne"
    assert not (hermes / "config.yaml").exists()


def test_installing_twice_changes_nothing(hermes: Path) -> None:
    installer.install(hermes)
    before = {path.name: path.stat().st_mtime_ns for path in plugin(hermes).iterdir()}
    assert installer.inspect(hermes).status == "current"
    assert installer.install(hermes).action == "unchanged"
    assert {path.name: path.stat().st_mtime_ns for path in plugin(hermes).iterdir()} == before


@pytest.mark.parametrize("name", FILES)
def test_a_directory_of_another_release_of_ours_is_brought_up_to_date(hermes: Path, name: str) -> None:
    installer.install(hermes)
    file = plugin(hermes) / name
    current = file.read_text(encoding="utf-8")
    file.write_text(current.replace("hermes-mnemosyne 0", "hermes-mnemosyne 0.0.0-0"), encoding="utf-8")
    assert installer.inspect(hermes).status == "stale"
    assert installer.install(hermes).action == "updated"
    assert file.read_text(encoding="utf-8") == current


def test_a_missing_file_of_ours_is_written_again(hermes: Path) -> None:
    installer.install(hermes)
    (plugin(hermes) / "cli.py").unlink()
    assert installer.install(hermes).action == "updated"
    assert installer.inspect(hermes).status == "current"


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("from mnemosyne_hermes import register\n", "mnemosyne-hermes"),
        ("import hermes_memory_provider\n", "mnemosyne-memory"),
        ("x = 1\n", ""),
    ],
)
def test_what_others_wrote_is_named_and_neither_replaced_nor_removed(hermes: Path, text: str, owner: str) -> None:
    plugin(hermes).mkdir(parents=True)
    (plugin(hermes) / "__init__.py").write_text(text, encoding="utf-8")
    found = installer.inspect(hermes)
    assert (found.status, found.owner) == ("foreign", owner)
    for act in (installer.install, installer.remove):
        with pytest.raises(MnemosyneError, match="--force") as told:
            act(hermes)
        assert owner in str(told.value)
    assert (plugin(hermes) / "__init__.py").read_text(encoding="utf-8") == text


def test_force_keeps_what_others_wrote_under_a_name_that_the_host_does_not_list(hermes: Path) -> None:
    plugin(hermes).mkdir(parents=True)
    (plugin(hermes) / "__init__.py").write_text("x = 1\n", encoding="utf-8")
    report = installer.install(hermes, force=True)
    assert report.action == "installed"
    assert report.backup is not None
    assert report.backup.name.startswith(".mnemosyne.bak-")
    assert (report.backup / "__init__.py").read_text(encoding="utf-8") == "x = 1\n"


def test_a_link_to_our_own_plugin_directory_is_a_valid_installation(hermes: Path) -> None:
    plugin(hermes).parent.mkdir(parents=True)
    plugin(hermes).symlink_to(Path(installer.__file__).parent / "hermes")
    assert installer.inspect(hermes).status == "linked"
    report = installer.install(hermes)
    assert (report.action, report.ok) == ("unchanged", True)
    with pytest.raises(MnemosyneError, match="link"):
        installer.remove(hermes)
    assert installer.remove(hermes, force=True).action == "removed"
    assert not plugin(hermes).is_symlink()
    assert (Path(installer.__file__).parent / "hermes" / "plugin.yaml").exists()


def test_a_link_that_leads_nowhere_is_foreign(hermes: Path) -> None:
    plugin(hermes).parent.mkdir(parents=True)
    plugin(hermes).symlink_to("/nowhere/at/all")
    assert installer.inspect(hermes).status == "foreign-link"
    assert installer.install(hermes, force=True).action == "installed"


def test_removal_takes_our_files_and_leaves_those_of_others(hermes: Path) -> None:
    installer.install(hermes)
    (plugin(hermes) / "__pycache__").mkdir()
    (plugin(hermes) / "__pycache__" / "cli.pyc").write_bytes(b"")
    assert installer.remove(hermes).action == "removed"
    assert not plugin(hermes).exists()
    assert installer.remove(hermes).action == "nothing"

    installer.install(hermes)
    (plugin(hermes) / "notes.txt").write_text("mine", encoding="utf-8")
    report = installer.remove(hermes)
    assert "notes.txt" in report.warnings[0]
    assert [path.name for path in plugin(hermes).iterdir()] == ["notes.txt"]


def test_a_provider_that_cannot_be_loaded_makes_the_installation_fail_with_the_reason(
    hermes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "__init__.py").write_text("raise RuntimeError('the host is broken')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = installer.install(hermes)
    assert not report.ok
    assert any("the host is broken" in warning for warning in report.warnings)


def test_the_hosts_interpreter_is_taken_from_its_command(hermes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin" / "hermes"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\n", encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent))
    # The host's discovery, as small as it can be, on the path of that interpreter only.
    site = tmp_path / "site"
    (site / "plugins").mkdir(parents=True)
    (site / "plugins" / "__init__.py").write_text("", encoding="utf-8")
    (site / "plugins" / "memory.py").write_text("def load_memory_provider(name):\n    return None\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(site))
    verification = installer.install(hermes).verification
    assert verification is not None
    assert (verification.by_host, verification.ok) == (True, False)
    assert "does not load" in verification.detail


def test_a_home_that_cannot_be_written_stays_as_it_was(hermes: Path) -> None:
    hermes.mkdir()
    (hermes / "plugins").write_text("a file", encoding="utf-8")
    with pytest.raises(OSError, match="plugins"):
        installer.install(hermes)
    assert [path.name for path in hermes.iterdir()] == ["plugins"]


def test_an_unknown_provider_is_refused(hermes: Path) -> None:
    with pytest.raises(InvalidInput, match="mnemosyne"):
        installer.install(hermes, provider="memory9")


def test_the_plugin_says_the_version_of_the_distribution() -> None:
    from importlib.metadata import version

    text = (Path(installer.__file__).parent / "hermes" / "plugin.yaml").read_text(encoding="utf-8")
    assert f"version: {version('hermes-mnemosyne')}\n" in text


def test_older_distributions_that_own_our_names_are_named(hermes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = tmp_path / "site" / "mnemosyne_memory-3.15.1.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: mnemosyne-memory\nVersion: 3.15.1\n", encoding="utf-8")
    (older / "entry_points.txt").write_text("[console_scripts]\nmnemosyne = mnemosyne.cli:main\n", encoding="utf-8")
    # In the environment of the host alone, where the check is made.
    monkeypatch.setenv("PYTHONPATH", str(older.parent))
    [warning] = [line for line in installer.install(hermes).warnings if "mnemosyne-memory" in line]
    assert "command mnemosyne" in warning
    assert "pip uninstall mnemosyne-memory" in warning


def test_an_empty_directory_is_nobodys(hermes: Path) -> None:
    plugin(hermes).mkdir(parents=True)
    assert installer.install(hermes).action == "installed"
