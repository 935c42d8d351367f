"""One engine under many threads, many openings and forks."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import hermes_mnemosyne
from hermes_mnemosyne import Memory
from hermes_mnemosyne.settings import resolve
from tests.integration.engine_processes import problems_of, rows_of

MOST_CONNECTIONS = 8


def run_all(works: list[Callable[[], object]]) -> list[BaseException]:
    """Run works in threads that begin together, and return what they raised."""
    start = threading.Barrier(len(works))
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the assertion of the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def handles_in(directory: Path) -> int:
    """Return how many database handles of this process lie in a directory: one per connection."""
    names = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            names.append(str(handle.readlink()))
        except FileNotFoundError:
            continue
    return sum(name.startswith(str(directory)) and name.endswith(".db") for name in names)


def test_many_threads_leave_few_connections(tmp_path: Path) -> None:
    path = tmp_path / "mnemosyne.db"
    # A loaded machine must not decide whether the last of so many gets its turn in time.
    with Memory.open(
        path, settings=replace(resolve(environ={}, flags={"embedder": "none"}).settings, busy_timeout=120.0)
    ) as memory:

        def work(number: int) -> None:
            receipt = memory.remember(f"the secret of thread {number} is a copper kettle")
            memory.capture_turn(f"turn of thread {number}", session_id=f"s{number % 7}")
            assert memory.recall(f"secret thread {number}", limit=3).searched > 0
            assert memory.get(receipt.uid).content.endswith("kettle")

        assert run_all([lambda number=number: work(number) for number in range(500)]) == []  # type: ignore[misc]
        assert memory.stats()["store"]["connections"] <= MOST_CONNECTIONS
        assert handles_in(tmp_path) <= MOST_CONNECTIONS
        assert memory.counts().entries == memory.counts().turns == 500
        assert memory.engine.store.check() == []
    assert handles_in(tmp_path) == 0


def test_opening_again_and_again_adds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mnemosyne.db"
    with Memory.open(path) as first:
        first.remember("fact")
        first.recall("fact")
        handles, threads = handles_in(tmp_path), threading.active_count()
        memories = [Memory.open(path, theme=f"theme-{number % 5}") for number in range(200)]
        for memory in memories:
            assert memory.engine is first.engine
            memory.remember(f"fact of {memory.theme}")
            memory.recall("fact")
        for memory in memories[:100]:
            memory.close()
            memory.close()
        for _ in range(200):
            with Memory.open(str(path)) as again:
                again.recall("fact")
        assert handles_in(tmp_path) <= max(handles, MOST_CONNECTIONS)
        assert threading.active_count() <= threads + 1
        assert first.recall("fact").hits
        for memory in memories[100:]:
            memory.close()
        assert first.recall("fact").hits
    assert handles_in(tmp_path) == 0


def test_the_last_close_closes_and_the_next_opening_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "mnemosyne.db"
    one, two = Memory.open(path), Memory.open(path)
    one.remember("fact")
    one.close()
    two.remember("another fact")
    two.close()
    assert handles_in(tmp_path) == 0
    with pytest.raises(hermes_mnemosyne.MnemosyneError):
        two.remember("too late")
    with Memory.open(path) as three:
        assert len(three.list()) == 2


def test_threads_that_open_and_close_at_once_share_without_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mnemosyne.db"

    def work(number: int) -> None:
        for step in range(5):
            with Memory.open(path) as memory:
                memory.remember(f"{number} {step}")

    assert run_all([lambda number=number: work(number) for number in range(12)]) == []  # type: ignore[misc]
    assert len(rows_of(path)) == 60
    assert handles_in(tmp_path) == 0


def test_a_second_copy_of_the_package_shares_the_engine(tmp_path: Path) -> None:
    root = Path(hermes_mnemosyne.__file__).parent
    spec = importlib.util.spec_from_file_location("another_copy", root / "__init__.py", submodule_search_locations=[str(root)])
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["another_copy"] = package
    try:
        spec.loader.exec_module(package)
        copy = importlib.import_module("another_copy.engine")
        registry = importlib.import_module("another_copy.registry")
        settings = importlib.import_module("another_copy.setting_keys")
        assert copy.Memory is not Memory
        path = tmp_path / "mnemosyne.db"
        with Memory.open(path) as ours, copy.Memory.open(path) as theirs:
            assert theirs.engine is ours.engine
            foreign = settings.Settings(
                **{name: getattr(ours.settings, name) for name in type(ours.settings).__dataclass_fields__}
            )
            assert type(foreign) is not type(ours.settings)
            assert registry.borrow(path, foreign) is ours.engine
            registry.give_back(ours.engine)
            theirs.remember("fact")
            assert ours.recall("fact").hits
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "another_copy"]:
            del sys.modules[name]


# -- forks -----------------------------------------------------------------------------------------------------------------------


def child_of(work: Callable[[], object]) -> int:
    """Fork a child that does some work and ends at once."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:  # noqa: BLE001 - the exit status tells
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def exit_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_that_forks_while_its_threads_write_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mnemosyne.db"
    with Memory.open(path) as memory:
        memory.remember("first")
        stop = threading.Event()
        written: list[str] = []
        failures: list[BaseException] = []

        def write(name: int) -> None:
            number = 0
            while not stop.is_set():
                try:
                    written.append(memory.remember(f"thread {name} {number}").uid)
                    memory.recall(f"thread {name}", limit=2)
                except BaseException as error:  # noqa: BLE001 - told by the assertion below
                    failures.append(error)
                    return
                number += 1

        def in_child(name: int) -> None:
            for number in range(20):
                memory.remember(f"child {name} {number}")
            assert memory.recall(f"child {name}", limit=50).hits
            memory.close()

        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        children = []
        for name in range(6):
            enough = len(written) + 20
            while len(written) < enough and not failures:
                time.sleep(0.001)
            children.append(child_of(lambda name=name: in_child(name)))  # type: ignore[misc]
        assert [exit_of(child) for child in children] == [0] * 6
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert memory.stats()["store"]["connections"] <= MOST_CONNECTIONS
    rows = rows_of(path)
    assert set(written) <= set(rows)
    assert len(rows) == 1 + len(written) + 6 * 20
    assert problems_of(path) == []


def test_a_child_and_a_grandchild_use_what_the_parent_opened(tmp_path: Path) -> None:
    path = tmp_path / "mnemosyne.db"
    memory = Memory.open(path)
    memory.remember("of the parent")

    def grandchild() -> None:
        assert memory.recall("parent").hits
        memory.remember("of the grandchild")

    def child() -> None:
        memory.remember("of the child")
        assert exit_of(child_of(grandchild)) == 0
        assert memory.recall("grandchild").hits

    assert exit_of(child_of(child)) == 0
    assert len(memory.recall("of the child grandchild parent", limit=9)) == 3
    memory.close()
    assert problems_of(path) == []


def test_a_child_may_end_in_the_ordinary_way(tmp_path: Path) -> None:
    import subprocess

    script = (
        "import os, sys; from hermes_mnemosyne import Memory\n"
        "memory = Memory.open(sys.argv[1]); memory.remember('parent')\n"
        "child = os.fork()\n"
        "memory.remember('child' if not child else 'again')\n"
        "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    path = tmp_path / "mnemosyne.db"
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert sorted(row.content for row in rows_of(path).values()) == ["again", "child", "parent"]
