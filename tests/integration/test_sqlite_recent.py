"""Rows of the latest writes in SQLite, while another process keeps them from being indexed, and damage that `check` must find."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hermes_mnemosyne.recall.analyse import TextAnalyser
from hermes_mnemosyne.store.protocol import Filter, Reach
from hermes_mnemosyne.store.sqlite import store as sqlite_store
from hermes_mnemosyne.store.sqlite.store import SqliteStore
from tests.conformance.world import ANALYSER, EVERYTHING, FixedKey, World

HERE = Filter(reach=EVERYTHING)
MODEL = "model"


class LaterAnalyser(TextAnalyser):
    """An analyser of a later release, which knows a synonym."""

    version = ANALYSER.version + 1

    def entry_tokens(self, content: str, tags: tuple[str, ...] = ()) -> str:  # type: ignore[override]
        """Return the tokens of an entry."""
        return super().entry_tokens(content.replace("car", "car automobile"), tags)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file's place."""
    return tmp_path / "mnemosyne.db"


@pytest.fixture
def world(path: Path) -> Iterator[World]:
    """A store."""
    store = SqliteStore(path, ANALYSER, FixedKey())
    yield World(store)
    store.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process is writing."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def change(path: Path, *statements: str) -> None:
    """Damage a file by hand."""
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def test_rows_that_cannot_be_indexed_now_are_told_within_reach_the_newest_first_of_all(
    path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_MOST_UNINDEXED", 2)
    for theme in ("alpha", "beta"):
        for number in range(3):
            world.add(f"{theme} {number}", theme=theme)
    world.add("contact", theme="beta", subject="contact")
    with locked(path):
        for theme, subject, expected in (
            ("alpha", "", {"alpha 1", "alpha 2"}),
            ("Beta", "", {"beta 1", "beta 2"}),
            ("beta", "contact", {"contact"}),
            ("gamma", "", set()),
        ):
            assert {row.content for row in world.store.unindexed(Reach(frozenset({theme}), subject))} == expected
    assert world.store.unindexed(EVERYTHING) == []


def test_counts_of_terms_taken_while_rows_could_not_be_indexed_are_taken_again(path: Path, world: World) -> None:
    (term,) = ANALYSER.entry_tokens("zebra", ()).split()
    world.add("apple")
    assert world.found("apple") == ["apple"]
    world.add("zebra")
    with locked(path):
        for _ in range(2):
            assert world.store.term_counts([term], HERE, ceiling=9) == {term: 0}
    assert world.store.term_counts([term], HERE, ceiling=9) == {term: 1}


def test_rows_of_an_older_analyser_are_indexed_anew_wherever_they_stand(path: Path, world: World) -> None:
    world.add("a car")
    assert world.found("car") == ["a car"]
    world.add("another car")
    later = SqliteStore(path, LaterAnalyser(), FixedKey())
    while not later.upkeep(seconds=5):
        pass
    assert not later.due()
    assert sorted(World(later).found("automobile")) == ["a car", "another car"]
    assert later.check() == []
    later.close()


@pytest.mark.parametrize(
    ("damage", "is_recent", "finding"),
    [
        ("DELETE FROM tokens WHERE rowid = {row}", False, "rows without tokens"),
        ("DELETE FROM recent_tokens WHERE row = {row}", True, "rows without tokens"),
        ("INSERT INTO recent_tokens SELECT rowid, body, context, facets, version FROM tokens", False, "rows indexed twice"),
        ("DELETE FROM vectors WHERE row = {row}", False, "rows never embedded"),
        ("INSERT INTO missing_vectors (model, row) SELECT id, 7 FROM vector_models", False, "vectors without rows"),
    ],
)
def test_damage_is_found_and_repaired_by_indexing_anew(
    path: Path,
    world: World,
    damage: str,
    is_recent: bool,  # noqa: FBT001
    finding: str,
) -> None:
    for number in range(3):
        world.add(f"row {number}")
    rows = [item.id for item in world.store.pending_vectors(MODEL)]
    world.store.attach_vectors(MODEL, [(row, [1.0, 0.0]) for row in rows])
    if not is_recent:
        while not world.store.upkeep(seconds=5):
            pass
    assert world.store.check() == []
    change(path, damage.format(row=rows[1]))
    (found,) = world.store.check()
    assert found.startswith(finding)
    world.store.reindex()
    assert world.store.check() == []
    assert len(world.found("row")) == 3
    world.store.attach_vectors(MODEL, [(item.id, [1.0, 0.0]) for item in world.store.pending_vectors(MODEL)])
    assert len(world.store.nearest(MODEL, [1.0, 0.0], HERE, limit=9)) == 3
