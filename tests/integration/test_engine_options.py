"""What callers may ask of a memory, and which places may hold one: anything else is refused by name and changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import InvalidInput, Memory, MnemosyneError, NotFound

WRONG_FILTERS: list[tuple[str, Any]] = [
    ("kinds", "entry"), ("kinds", None), ("kinds", ("page",)), ("kinds", 5), ("target", "nobody"), ("target", ["user"]), ("target", 5),
    ("themes", "notes"), ("themes", 5), ("themes", [5]), ("tags", "infra"), ("tags", b"infra"), ("tags", None), ("tags", [None]),
    ("tags", {"infra": 1}), ("session_id", 5), ("session_id", b"s"), ("contains", 5), ("contains", ["x"]), ("since", 5), ("since", "soon"),
    ("until", []), ("written_since", "x"), ("written_until", 1.5), ("limit", -1), ("limit", "5"), ("limit", 2.5), ("limit", True),
]  # fmt: skip
WRONG_RECALLS: list[tuple[str, Any]] = [
    *WRONG_FILTERS, ("limit", None), ("exclude", "abc"), ("exclude", [5]), ("budget_chars", -1), ("budget_chars", "80"),
    ("budget_tokens", -1), ("budget_tokens", 1.5), ("text", None),
]  # fmt: skip
WRONG_LISTS: list[tuple[str, Any]] = [*WRONG_FILTERS, ("offset", -1), ("offset", "1"), ("offset", 0.5)]
WRONG_PLACES: list[Any] = ["", "  ", "a\0b", "a\ud800b", 5, b"memories.db", Path("a\0b"), ["memories.db"]]


@pytest.mark.parametrize(("name", "value"), WRONG_RECALLS, ids=str)
def test_a_wrong_option_of_a_recall_is_refused_and_never_finds_nothing_instead(memory: Memory, name: str, value: Any) -> None:
    memory.remember("A note about infra", tags=["infra"])
    with pytest.raises(InvalidInput) as caught:
        memory.recall(**{"query": "infra", **({"query": value} if name == "text" else {name: value})})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("name", "value"), WRONG_LISTS, ids=str)
def test_a_wrong_option_of_a_list_is_refused(memory: Memory, name: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        memory.list(**{name: value})


def test_lists_of_any_kind_are_taken_for_the_options_that_are_lists(memory: Memory) -> None:
    uid = memory.remember("A note about infra", tags=["infra"]).uid
    options: dict[str, Any] = {"tags": ["infra"], "kinds": ["entry"], "themes": {"hermes"}}
    assert [row.uid for row in memory.list(**options)] == [uid]
    assert [hit.uid for hit in memory.recall("infra", **{**options, "exclude": []})] == [uid]
    assert not memory.recall("infra", **{**options, "exclude": [uid]})


@pytest.mark.parametrize("number", [2**31, 2**63, 2**70, 10**5000], ids=["2**31", "2**63", "2**70", "10**5000"])
def test_a_number_beyond_every_store_is_no_bound(memory: Memory, number: int) -> None:
    uid = memory.remember("A note about infra").uid
    assert [row.uid for row in memory.list(limit=number)] == [uid]
    assert memory.list(offset=number) == []
    assert [hit.uid for hit in memory.recall("infra", limit=number, budget_chars=number, budget_tokens=number)] == [uid]


@pytest.mark.parametrize("place", WRONG_PLACES, ids=ascii)
def test_what_cannot_name_a_file_is_refused_and_the_default_file_is_not_used_instead(place: Any, home: Path) -> None:
    with pytest.raises(InvalidInput):
        Memory.open(place)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("theme", ["", " ", "\0", "\ud800", 5, b"notes"], ids=ascii)
def test_what_cannot_name_a_theme_is_refused(tmp_path: Path, theme: Any) -> None:
    with pytest.raises(InvalidInput):
        Memory.open(tmp_path / "m.db", theme=theme)


def test_a_subject_of_a_wrong_type_is_refused(tmp_path: Path) -> None:
    subject: Any = 5
    with pytest.raises(InvalidInput):
        Memory.open(tmp_path / "m.db", subject=subject)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device: run the tests as root")
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices cannot be made here: run the tests outside a container that forbids mknod")


@pytest.mark.parametrize("make", [_fifo, _device, Path.mkdir])
def test_what_is_no_regular_file_is_refused_and_left_with_its_mode(tmp_path: Path, make: Callable[[Path], None]) -> None:
    place = tmp_path / "special.db"
    make(place)
    place.chmod(0o666)
    before = place.stat().st_mode
    with Memory.open(place) as memory, pytest.raises(MnemosyneError, match="left untouched"):
        memory.remember("a text that must not be said to be stored")
    assert place.stat().st_mode == before
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("special.db-")] == []


@pytest.mark.parametrize("method", ["get", "history", "retire", "undo", "forget"])
def test_the_message_about_an_unknown_id_is_short_however_long_the_id_is(memory: Memory, method: str) -> None:
    with pytest.raises(NotFound) as caught:
        getattr(memory, method)("x" * 100_000)
    assert len(str(caught.value)) < 200


def test_an_unknown_memory_to_supersede_is_not_found_and_nothing_is_stored(memory: Memory) -> None:
    with pytest.raises(NotFound):
        memory.remember("A newer fact", supersedes="01938f2e-7c1a-7b6e-9d53-0f2a4c6e8b10")
    assert memory.list() == []


def test_figures_tell_nothing_of_rows_out_of_reach(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    others = [Memory.open(path, theme="other"), Memory.open(path, theme="whatsapp-dm", subject="ab" * 32)]
    for other in others:
        older = other.remember("An old fact", target="user", valid_until="2001-01-01").uid
        other.remember("A new fact", supersedes=older)
        other.forget(other.remember("To be forgotten").uid)
        other.retire(other.remember("To be retired").uid)
        other.capture_turn("Something said")
    mine = Memory.open(path, theme="mine")
    mine.remember("My own")
    names = ("memory", "user", "turns", "themes", "history", "retired", "forgotten", "aliases", "superseded", "expired")
    assert [mine.stats()["store"][name] for name in names] == [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    everything = Memory.open(path, readable_themes="*").stats()["store"]
    assert [everything[name] for name in names] == [3, 2, 2, 3, 4, 2, 2, 0, 2, 2]


def test_records_out_of_reach_are_refused_in_their_place_and_the_rest_is_taken_in(tmp_path: Path) -> None:
    source = tmp_path / "source.db"
    for theme, subject in (("a", None), ("b", None), ("whatsapp-dm", "ab" * 32)):
        Memory.open(source, theme=theme, subject=subject).remember("A fact")
    records = list(Memory.open(source, readable_themes="*").export_records())
    narrow = Memory.open(tmp_path / "target.db", theme="b")
    outcomes = list(narrow.import_records(records))
    assert [outcome.status for outcome in outcomes] == ["added" if record["theme"] == "b" else "failed" for record in records]
    assert {row.theme for row in Memory.open(tmp_path / "target.db", readable_themes="*").list()} == {"b"}
