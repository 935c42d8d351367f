"""The keys of the provider pgvector: names, defaults and spellings of hermes-memory-pgvector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_mnemosyne import settings
from hermes_mnemosyne._errors import ConfigError, InvalidInput
from hermes_mnemosyne.settings import Effective, resolve
from hermes_mnemosyne.stores import FilePlace, ServerPlace, place_of

REFERENCE = {
    "dsn": "dbname=hermes_memory user=hermes host=/var/run/postgresql connect_timeout=5",
    "embed_url": None, "embed_model": "nomic-embed-text", "embed_dim": 768, "embed_api_key_env": None, "embed_protocol": "auto",
    "prefetch_limit": 5, "min_similarity": 0.30, "embed_on_write": True, "scope_default": "current", "hybrid_search": True,
    "write_queue_maxsize": 256, "bulk_sync_on_init": True, "sync_turns": True, "turn_min_chars": 40, "allowed_themes": None,
    "identity_aliases": (), "bench_mode": "bucket", "conversation_embed_policy": "all", "ttl_days": 0, "embed_write_retries": 2,
    "embed_write_backoff": 0.1, "embed_timeout": 10.0, "embed_write_timeout": 30.0, "write_contexts": ("primary",),
    "shutdown_drain_timeout": 10.0, "prefetch_budget": 5.0,
}  # fmt: skip


def read(home: Path, **values: Any) -> Effective:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": values}}), encoding="utf-8")
    return resolve(environ={}, hermes_home=home, provider="pgvector")


@pytest.mark.parametrize("key", REFERENCE)
def test_every_key_of_the_reference_has_its_default(key: str, tmp_path: Path) -> None:
    assert getattr(read(tmp_path).settings, key) == REFERENCE[key]


def test_the_wizard_is_offered_every_key_with_its_default() -> None:
    offered = {field["key"]: field["default"] for field in settings.config_schema("pgvector")}
    assert set(REFERENCE) <= set(offered)
    assert offered["dsn"] == REFERENCE["dsn"]
    assert offered["min_similarity"] == "0.3"
    assert {"db", "data_dir"}.isdisjoint(offered)


@pytest.mark.parametrize(
    ("value", "meant"),
    [("false", False), ("False ", False), ("0", False), ("no", False), ("off", False), (False, False), (0, False), ("true", True),
     ("on", True), (1, True), ("", True), ("  ", True), ("maybe", True), (None, True), ([], True)],
)  # fmt: skip
def test_false_is_false_and_what_is_no_flag_is_the_default(value: Any, meant: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a table
    assert read(tmp_path, hybrid_search=value).settings.hybrid_search is meant


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        ("embed_dim", "1024", 1024), ("embed_dim", 0, 768), ("embed_dim", -4, 768), ("embed_dim", "many", 768),
        ("prefetch_limit", 0, 0), ("prefetch_limit", -2, 0), ("prefetch_limit", 90, 50), ("prefetch_limit", "x", 5),
        ("min_similarity", 7, 1.0), ("min_similarity", -1, 0.0), ("min_similarity", "0.5", 0.5), ("min_similarity", "low", 0.3),
        ("prefetch_budget", 100, 7.5), ("prefetch_budget", 0, 0.1), ("write_queue_maxsize", -1, -1), ("write_queue_maxsize", 0, 0),
        ("write_queue_maxsize", "x", 256), ("embed_timeout", "quick", 10.0), ("embed_protocol", "OLLAMA", "ollama"),
        ("embed_protocol", "grpc", "auto"), ("embed_protocol", "", "auto"), ("bench_mode", "drop", "bucket"),
        ("conversation_embed_policy", "some", "all"), ("embed_api_key_env", " KEY ", "KEY"),
        ("allowed_themes", "a, b,,", ("a", "b")), ("allowed_themes", ["a"], ("a",)), ("allowed_themes", "", None), ("allowed_themes", 7, None),
        ("identity_aliases", "x=y,z=w", (("x", "y"), ("z", "w"))), ("identity_aliases", {"x": "y"}, (("x", "y"),)),
        ("write_contexts", "primary,cron", ("primary", "cron")),
    ],
)  # fmt: skip
def test_values_are_taken_as_the_reference_takes_them(key: str, value: Any, meant: Any, tmp_path: Path) -> None:
    assert getattr(read(tmp_path, **{key: value}).settings, key) == meant


def test_all_ordinary_themes_are_readable_unless_narrowed(tmp_path: Path) -> None:
    assert read(tmp_path).settings.readable_themes == ("*",)
    assert read(tmp_path, readable_themes="a,b").settings.readable_themes == ("a", "b")


def test_an_unreadable_file_is_an_error_and_no_other_database(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("plugins: [", encoding="utf-8")
    with pytest.raises(ConfigError):
        resolve(environ={}, hermes_home=tmp_path, provider="pgvector")


def test_the_file_of_the_other_provider_is_never_meant(tmp_path: Path) -> None:
    found = resolve(environ={"MNEMOSYNE_DB": "/srv/other.db"}, hermes_home=tmp_path, provider="pgvector")
    assert found.settings.db is None
    assert found.settings.dsn == REFERENCE["dsn"]
    assert read(tmp_path, db="/srv/other.db").warnings


def test_a_dsn_is_no_key_of_the_file_provider(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("plugins: {mnemosyne: {dsn: dbname=x}}", encoding="utf-8")
    found = resolve(environ={}, hermes_home=tmp_path)
    assert found.settings.dsn is None
    assert "unknown setting `dsn`" in found.warnings[0]


def test_settings_name_one_place(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    place = place_of(read(tmp_path, dsn="host=h user=a dbname=d password=p").settings, hermes_home=tmp_path)
    assert isinstance(place, ServerPlace)
    assert place.beside("spool.db").parent == tmp_path / "mnemosyne"
    assert place.beside("spool.db").name.startswith("pgvector-")
    assert str(place) == "postgresql://a@h/d"
    assert isinstance(place_of(resolve(environ={}, flags={"db": "x.db"}).settings), FilePlace)
    assert isinstance(place_of(resolve(environ={}, flags={"db": "postgresql://h/d"}).settings), ServerPlace)


@pytest.mark.parametrize("named", [":memory:", "mysql://h/d"])
def test_what_names_no_store_is_refused(named: str) -> None:
    with pytest.raises(InvalidInput):
        place_of(resolve(environ={}, flags={"db": named}).settings)


EXAMPLE = """\
plugins:
  pgvector:
    dsn: "dbname=hermes_memory user=hermes host=/var/run/postgresql"
    embed_url: ""
    embed_api_key_env: ""
    embed_protocol: "auto"
    allowed_themes: []
    identity_aliases:
    bench_mode: "  "
"""


@pytest.mark.parametrize("strict", [True, False])
def test_what_an_example_leaves_blank_is_not_set(tmp_path: Path, strict: bool) -> None:  # noqa: FBT001 - a table
    (tmp_path / "config.yaml").write_text(EXAMPLE, encoding="utf-8")
    found = resolve(environ={}, hermes_home=tmp_path, provider="pgvector", strict=strict)
    assert found.warnings == ()
    assert found.settings.embed_url is None
    assert found.settings.embed_api_key_env is None
    assert found.settings.bench_mode == "bucket"


@pytest.mark.parametrize("key", REFERENCE)
def test_a_blank_is_the_default_of_every_key_of_the_reference(key: str, tmp_path: Path) -> None:
    for blank in ("", " \t"):
        (tmp_path / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {key: blank}}}), encoding="utf-8")
        found = resolve(environ={}, hermes_home=tmp_path, provider="pgvector", strict=True)
        assert getattr(found.settings, key) == REFERENCE[key]
