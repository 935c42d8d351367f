"""The rules of docs/architecture.md, checked over the syntax tree of the package."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from scripts.environments import ROOT

NAME = "hermes_mnemosyne"
PACKAGE = ROOT / "src" / NAME

# From the bottom up: a module imports from its own layer and those before it. Names are modules or packages below ours.
LAYERS = (
    {"_errors", "clock", "config_files", "dsn", "forks", "keys", "masking", "paths", "text", "times", "values"},
    {"identity", "setting_keys", "store"},
    {"asking", "cancelling", "capture", "drafts", "embed", "latency", "mirror", "pending", "recall", "settings", "spool"},
    {
        "backfill",
        "companions",
        "contact",
        "core",
        "doctor",
        "embedding",
        "engine",
        "figures",
        "install",
        "intake",
        "link",
        "maintenance",
        "metrics",
        "reaching",
        "registry",
        "rivals",
        "stores",
        "transfer",
        "worker",
    },
    {""},  # the package's own __init__, which hands out the public names
    {"sync"},
    {"cli"},
    {"__main__", "hermes", "pgvector"},
)

DRIVERS = {
    "sqlite3": {"store.sqlite"},
    "psycopg": {"store.postgres"},
    "psycopg_pool": {"store.postgres"},
    "pgvector": {"store.postgres"},
    "starlette": {"sync.server"},
    "uvicorn": {"sync.server"},
}
# What needs an extra and is imported by nobody who lacks it: there the parts of that extra stand at the top.
OF_EXTRAS = {"store.postgres", "sync.server"}
MCP = {"mcp"}
HOST = {"agent", "gateway", "hermes_cli", "hermes_constants", "hermes_state", "plugins", "run_agent", "tools", "utils"}

# Who may know the implementation of a store, beside the store itself: whoever opens it, and the spool, which is one of its files.
STORE_OPENERS = {"maintenance", "spool", "stores"}

# Where everything is caught: the host's hooks, the worker's loop, the boundary of a server. Each with its reason.
BROAD_HANDLERS = {
    "hermes.provider.boundary.hook.decorate.guarded": "the host's hooks: the host would swallow the exception unseen",
    "hermes.provider.boundary.within.run": "a helper thread hands whatever it met to the thread that waits for it",
    "sync.server.app.SyncApp._serve": "the server's boundary: a request that fails unexpectedly is answered, logged, counted",
    "worker.Worker._run": "the worker's loop: one failing job must not end it",
}

LONGEST_MODULE = 450
LONGEST_FUNCTION = 80


@dataclass(frozen=True)
class Import:
    """One import statement of a module; `top` says that it runs when the module is imported."""

    place: str
    target: str
    top: bool


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees by dotted name below the package, `` being the package itself."""
    trees = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def nodes(tree: ast.AST, *, top: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Walk a tree and tell of each node whether it runs at import; what is for type checkers only is left out."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            continue
        yield child, top
        inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from nodes(child, top=top and not inner)


@cache
def imports() -> dict[str, list[Import]]:
    """Return what each module imports, as dotted names; `from a import b` where b is a module of ours counts as a.b."""
    found: dict[str, list[Import]] = {}
    for name, tree in modules().items():
        found[name] = rows = []
        for node, top in nodes(tree):
            if isinstance(node, ast.Import):
                rows += [Import(f"{name}:{node.lineno}", alias.name, top) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                for alias in node.names:
                    below = f"{base}.{alias.name}".removeprefix(f"{NAME}.")
                    target = f"{NAME}.{below}" if base.startswith(NAME) and below in modules() else base
                    rows.append(Import(f"{name}:{node.lineno}", target, top))
    return found


def within(module: str, places: set[str]) -> bool:
    """Tell whether a module is one of the places or lies below one."""
    return any(module == place or module.startswith(f"{place}.") for place in places)


def layer(module: str) -> int:
    """Return the number of a module's layer."""
    numbers = [number for number, names in enumerate(LAYERS) if module.partition(".")[0] in names]
    assert numbers, f"{module} has no place in the layers of docs/architecture.md"
    return numbers[0]


def ours(target: str) -> str | None:
    """Return the dotted name below the package, None for what is not ours."""
    if target == NAME:
        return ""
    return target.removeprefix(f"{NAME}.") if target.startswith(f"{NAME}.") else None


def every_import() -> Iterator[tuple[str, Import]]:
    """Return each import with the module it stands in."""
    return ((name, one) for name, rows in imports().items() for one in rows)


def test_every_module_has_a_place_in_the_layers() -> None:
    assert all(layer(name) >= 0 for name in modules())


def test_arrows_point_down_only() -> None:
    upward = [
        f"{one.place} imports {one.target}"
        for name, one in every_import()
        if (below := ours(one.target)) is not None and layer(below) > layer(name)
    ]
    assert upward == []


def test_drivers_and_servers_are_imported_only_where_they_are_spoken_to() -> None:
    drivers = [
        f"{one.place} imports {one.target}"
        for name, one in every_import()
        if (root := one.target.partition(".")[0]) in DRIVERS and not within(name, DRIVERS[root])
    ]
    assert drivers == []


def test_only_whoever_opens_a_store_knows_which_one_it_is() -> None:
    knowing = [
        f"{one.place} imports {one.target}"
        for name, one in every_import()
        if within(ours(one.target) or "", {"store.sqlite", "store.postgres"}) and not within(name, {"store", *STORE_OPENERS})
    ]
    assert knowing == []


def test_only_the_provider_imports_the_host_and_only_the_mcp_server_imports_mcp() -> None:
    foreign = [
        f"{one.place} imports {one.target}"
        for name, one in every_import()
        if ((root := one.target.partition(".")[0]) in HOST and not within(name, {"hermes"}))
        or (root in MCP and not within(name, {"mcp"}))
    ]
    assert foreign == []


def test_what_is_not_of_the_standard_library_is_imported_where_it_is_used() -> None:
    early = [
        f"{one.place} imports {one.target}"
        for name, one in every_import()
        if one.top
        and ours(one.target) is None
        and (root := one.target.partition(".")[0]) not in sys.stdlib_module_names
        and not (root in HOST and within(name, {"hermes.provider"}))
        and not (root in DRIVERS and within(name, OF_EXTRAS))
    ]
    assert early == []


def test_imports_are_absolute() -> None:
    relative = [
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        for node, _ in nodes(tree)
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []


def test_the_plugin_directory_holds_only_what_the_host_may_execute() -> None:
    assert {path.name for path in (PACKAGE / "hermes").glob("*.py")} == {"__init__.py", "cli.py"}


def enclosing(tree: ast.Module, wanted: ast.AST) -> str:
    """Return the dotted name of the function that a node stands in."""

    def search(node: ast.AST, names: tuple[str, ...]) -> str | None:
        if node is wanted:
            return ".".join(names)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*names, node.name)
        return next((found for child in ast.iter_child_nodes(node) if (found := search(child, names)) is not None), None)

    return search(tree, ()) or ""


def everything(kind: ast.expr | None) -> bool:
    """Tell whether an exception class, or one of several, stands for everything."""
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(one is None or ast.unparse(one) in ("Exception", "BaseException") for one in kinds)


def swallows(node: ast.AST) -> bool:
    """Tell whether a node catches everything and lets none of it through; a clean-up that raises again at its end does not."""
    if isinstance(node, ast.ExceptHandler):
        last = node.body[-1]
        return everything(node.type) and not (isinstance(last, ast.Raise) and last.exc is None)
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress") and any(map(everything, node.args))


def test_everything_is_caught_only_at_the_boundaries_that_are_listed_with_a_reason() -> None:
    broad = {f"{name}.{enclosing(tree, node)}" for name, tree in modules().items() for node in ast.walk(tree) if swallows(node)}
    assert broad == set(BROAD_HANDLERS)
    assert all(BROAD_HANDLERS.values())


def test_modules_and_functions_stay_readable() -> None:
    long = [f"{name}: {tree.body[-1].end_lineno} lines" for name, tree in modules().items() if tree.body and long_module(tree)]
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                long += [f"{name}.{node.name}: {length} lines"] if length > LONGEST_FUNCTION else []
    assert long == []


def long_module(tree: ast.Module) -> bool:
    """Tell whether a module is longer than it should be."""
    return (tree.body[-1].end_lineno or 0) > LONGEST_MODULE


def importable() -> list[str]:
    """Return the modules that anyone may import: all but the provider, which needs the host, what needs an extra, and the program's start."""
    needing = {"hermes.provider", "__main__", *OF_EXTRAS}
    return sorted(f"{NAME}.{name}".rstrip(".") for name in modules() if not within(name, needing))


@pytest.mark.parametrize("names", [[NAME], importable()], ids=["the package", "every module"])
def test_importing_needs_only_the_standard_library_and_creates_nothing(names: list[str], home: Path, tmp_path: Path) -> None:
    # -S -E: without site-packages a third-party import fails, whichever way it is written.
    program = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n" + "\n".join(f"import {name}" for name in names)
    command = [sys.executable, "-S", "-E", "-B", "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env={"HOME": str(home)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""
    assert [*home.rglob("*"), *tmp_path.rglob("*")] == []
