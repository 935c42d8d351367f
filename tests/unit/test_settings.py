"""Where settings come from, what is accepted, and how the host's configuration is edited."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from hermes_mnemosyne import settings
from hermes_mnemosyne._errors import ConfigError
from hermes_mnemosyne.setting_keys import names_of, value_of
from hermes_mnemosyne.settings import KEYS, Settings, resolve, save

HERMES = """\
# top comment
model:
    default: x   # which
    list:
      - a
      - b
memory: {provider: mnemosyne}
plugins:
    enabled: [a]
    other:   # keep
        flag: yes
        quoted: 'single'
    mnemosyne:
        # mine
        turn_min_chars: 10  # short
        someone_elses: 1
# tail
"""


@pytest.fixture
def hermes(tmp_path: Path) -> Path:
    directory = tmp_path / "hermes"
    directory.mkdir()
    (directory / "config.yaml").write_text(HERMES)
    return directory


def test_the_table_and_the_settings_name_the_same_keys() -> None:
    assert [key.name for key in KEYS] == list(names_of())
    assert all(key.help for key in KEYS)
    assert resolve(environ={}).settings == Settings()


def test_settings_are_hashable_so_that_equal_ones_share_an_engine(hermes: Path) -> None:
    flags = {"identity_aliases": "a=b", "allowed_themes": ["x"], "write_contexts": "primary,cron"}
    one, two = (resolve(environ={}, hermes_home=hermes, flags=flags).settings for _ in range(2))
    assert hash(one) == hash(two)
    assert one == two


def test_every_place_gives_way_to_the_one_before_it(hermes: Path, tmp_path: Path) -> None:
    (hermes / "config.yaml").write_text(
        "plugins: {mnemosyne: {theme: host, turn_min_chars: 1, prefetch_limit: 1, durability: full}}"
    )
    (tmp_path / "mnemosyne.yaml").write_text("theme: store\nturn_min_chars: 2\nprefetch_limit: 2\n")
    found = resolve(
        flags={"turn_min_chars": 4, "theme": None},
        environ={"MNEMOSYNE_THEME": "environment"},
        store_dir=tmp_path,
        hermes_home=hermes,
        strict=True,
    )
    assert (found.settings.theme, found.settings.turn_min_chars) == ("environment", 4)
    assert (found.settings.prefetch_limit, found.settings.durability) == (2, "full")
    assert found.sources == {
        "turn_min_chars": "flag",
        "theme": "environment MNEMOSYNE_THEME",
        "prefetch_limit": str(tmp_path / "mnemosyne.yaml"),
        "durability": f"{hermes / 'config.yaml'} plugins.mnemosyne",
    }
    shown = {key.name: (value, source) for key, value, source in found.rows()}
    assert shown["sync_turns"] == (True, "default")
    assert shown["turn_min_chars"] == (4, "flag")


def test_the_stores_own_file_is_found_beside_the_database(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mnemosyne.yaml").write_text("theme: beside\n")
    assert resolve(flags={"db": tmp_path / "x.db"}, environ={"HOME": str(home)}).settings.theme == "beside"
    assert resolve(environ={"HOME": str(home), "MNEMOSYNE_DATA_DIR": str(tmp_path)}).settings.theme == "beside"
    named = tmp_path / "other.yaml"
    named.write_text("turn_min_chars: 7\n")
    found = resolve(config_file=named, flags={"db": str(tmp_path / "x.db")}, environ={"HOME": str(home)}).settings
    assert (found.theme, found.turn_min_chars) == ("hermes", 7)


def test_a_file_of_the_host_can_be_named_too(hermes: Path) -> None:
    assert resolve(config_file=hermes / "config.yaml", environ={}).settings.turn_min_chars == 10


def test_each_provider_reads_its_own_section(hermes: Path) -> None:
    (hermes / "config.yaml").write_text("plugins: {mnemosyne: {theme: a}, pgvector: {theme: b}}")
    assert resolve(environ={}, hermes_home=hermes, provider="pgvector").settings.theme == "b"


@pytest.mark.parametrize("empty", ["", "   "])
def test_empty_variables_and_null_values_are_not_set(home: Path, empty: str, hermes: Path) -> None:
    (hermes / "config.yaml").write_text("plugins: {mnemosyne: {durability: null}}")
    found = resolve(environ={"HOME": str(home), "MNEMOSYNE_THEME": empty, "MNEMOSYNE_DB": empty}, hermes_home=hermes)
    assert found.settings == Settings()
    assert found.sources == {}


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("mask_secrets", "false", False),
        ("mask_secrets", "OFF", False),
        ("mask_secrets", 0, False),
        ("mask_secrets", " Yes ", True),
        ("prefetch_limit", "7", 7),
        ("prefetch_limit", 7.0, 7),
        ("busy_timeout", "2.5", 2.5),
        ("spool_max_bytes", "64 MiB", 64 * 1024 * 1024),
        ("spool_max_bytes", "1.5k", 1536),
        ("spool_max_bytes", 4096, 4096),
        ("durability", "FULL", "full"),
        ("allowed_themes", "a, b,,a", ("a", "b")),
        ("allowed_themes", ["a", 5], ("a", "5")),
        ("allowed_themes", " , ", None),
        ("write_contexts", "primary,cron", ("primary", "cron")),
        ("identity_aliases", "agent:main:telegram:dm:1=hermes, b64==x", (("agent:main:telegram:dm:1", "hermes"), ("b64=", "x"))),
        ("identity_aliases", {"a": "b", "c": None}, (("a", "b"), ("c", ""))),
        ("identity_aliases", {}, ()),
        ("theme", 42, "42"),
    ],
)
def test_values_are_read_in_every_sensible_spelling(name: str, given: object, value: object) -> None:
    assert getattr(resolve(flags={name: given}, environ={}, strict=True).settings, name) == value


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("mask_secrets", "maybe"),
        ("mask_secrets", ""),
        ("mask_secrets", 2),
        ("mask_secrets", ["true"]),
        ("prefetch_limit", 51),
        ("prefetch_limit", -1),
        ("prefetch_limit", "3.5"),
        ("prefetch_limit", True),
        ("busy_timeout", "nan"),
        ("busy_timeout", "inf"),
        ("spool_max_bytes", 0),
        ("durability", "half"),
        ("theme", " "),
        ("theme", "a\0b"),
        ("theme", ["a"]),
        ("write_contexts", " , "),
        ("allowed_themes", 5),
        ("identity_aliases", "no pair"),
        ("identity_aliases", ["a=b"]),
    ],
)
def test_a_wrong_value_is_an_error_for_a_command_and_a_warning_in_a_host(name: str, given: object) -> None:
    with pytest.raises(ConfigError, match=name):
        resolve(flags={name: given}, environ={}, strict=True)
    found = resolve(flags={name: given}, environ={})
    assert found.settings == Settings()
    assert name in found.warnings[0]


def test_a_wrong_value_in_a_host_gives_way_to_the_next_place(hermes: Path) -> None:
    found = resolve(flags={"turn_min_chars": "many"}, environ={}, hermes_home=hermes)
    assert found.settings.turn_min_chars == 10


def test_an_unknown_key_names_the_nearest_one(hermes: Path) -> None:
    (hermes / "config.yaml").write_text("plugins: {mnemosyne: {mask_secret: true}}")
    found = resolve(environ={}, hermes_home=hermes)
    assert "`mask_secrets`" in found.warnings[0]
    with pytest.raises(ConfigError, match="mask_secrets"):
        resolve(environ={}, hermes_home=hermes, strict=True)


@pytest.mark.parametrize(
    "content",
    [
        b"a: [unclosed",
        b"\xff\xfe",
        b"- a\n- b\n",
        b"just text",
        b"plugins: {mnemosyne: [1]}",
        b"a: &a [*a, !!python/object:os.x {}]",
    ],
)
def test_a_file_that_cannot_be_understood_is_an_error_everywhere(hermes: Path, content: bytes) -> None:
    (hermes / "config.yaml").write_bytes(content)
    for strict in (True, False):
        with pytest.raises(ConfigError, match=r"config\.yaml"):
            resolve(environ={}, hermes_home=hermes, strict=strict)


def test_a_message_about_a_broken_file_does_not_quote_it(hermes: Path) -> None:
    (hermes / "config.yaml").write_text("api_key: hunter2\n  broken: [\n")
    with pytest.raises(ConfigError) as caught:
        resolve(environ={}, hermes_home=hermes)
    assert "hunter2" not in str(caught.value)


def test_a_named_file_must_exist_and_be_a_file(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.yaml", tmp_path):
        with pytest.raises(ConfigError, match=path.name):
            resolve(config_file=path, environ={})


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_leave_to_read_it_is_an_error(hermes: Path) -> None:
    (hermes / "config.yaml").chmod(0)
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve(environ={}, hermes_home=hermes)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "mnemosyne.yaml").write_bytes(b"\xef\xbb\xbftheme: marked\n")
    assert resolve(environ={}, store_dir=tmp_path).settings.theme == "marked"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    for theme in ("one", "three"):
        (tmp_path / "mnemosyne.yaml").write_text(f"theme: {theme}\n")
        assert resolve(environ={}, store_dir=tmp_path).settings.theme == theme


def test_the_stores_own_file_cannot_point_away_from_its_store(tmp_path: Path) -> None:
    (tmp_path / "mnemosyne.yaml").write_text("db: /elsewhere.db\n")
    with pytest.raises(ConfigError, match="db"):
        resolve(environ={}, store_dir=tmp_path)


def test_saving_keeps_comments_order_and_all_that_is_not_ours(hermes: Path) -> None:
    path = hermes / "config.yaml"
    path.chmod(0o640)
    save({"mask_secrets": "false", "turn_min_chars": "12", "theme": "on", "made_up": "no"}, hermes_home=hermes)
    after = path.read_text()
    for line in HERMES.splitlines():
        assert line in after or "turn_min_chars" in line
    assert "turn_min_chars: 12  # short" in after
    data = yaml.safe_load(after)
    before = yaml.safe_load(HERMES)
    ours = data["plugins"].pop("mnemosyne")
    before["plugins"].pop("mnemosyne")
    assert data == before
    assert ours == {"turn_min_chars": 12, "someone_elses": 1, "mask_secrets": False, "theme": "on", "made_up": "no"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in hermes.iterdir()] == ["config.yaml"]


def test_what_is_saved_is_what_is_resolved(hermes: Path) -> None:
    values = {
        "allowed_themes": "a,b",
        "identity_aliases": "x:y=z",
        "busy_timeout": "0.5",
        "visibility": "local",
        "readable_themes": "*",
    }
    save(values, hermes_home=hermes)
    found = resolve(environ={}, hermes_home=hermes).settings
    assert (found.allowed_themes, found.identity_aliases) == (("a", "b"), (("x:y", "z"),))
    assert (found.busy_timeout, found.visibility, found.readable_themes) == (0.5, "local", ("*",))
    for key, value, _ in resolve(environ={}, hermes_home=hermes).rows():
        if settings.shown(value):
            again = resolve(environ={}, flags={key.name: settings.shown(value)}, strict=True).settings
            assert value_of(again, key.name) == value


def test_saving_a_blank_brings_the_default_back(hermes: Path) -> None:
    save({"turn_min_chars": ""}, hermes_home=hermes)
    assert resolve(environ={}, hermes_home=hermes).settings.turn_min_chars == 40


def test_saving_the_same_again_does_not_touch_the_file(hermes: Path) -> None:
    save({"sync_turns": False}, hermes_home=hermes)
    first = (hermes / "config.yaml").stat().st_ino
    save({"sync_turns": False}, hermes_home=hermes)
    assert (hermes / "config.yaml").stat().st_ino == first


@pytest.mark.parametrize("content", [None, "", "# only a comment\n", "plugins:\n", "a: 1\r\nb: 2\r\n"])
def test_saving_works_on_files_without_our_section(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content.encode())
    save({"theme": "t"}, hermes_home=tmp_path)
    raw = path.read_bytes().decode()
    assert yaml.safe_load(raw)["plugins"]["mnemosyne"] == {"theme": "t"}
    assert ("# only a comment" in raw) == ("# only" in (content or ""))
    assert ("\r\n" in raw) == ("\r\n" in (content or ""))
    if content is None:
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["a: [broken", "plugins: 5", "plugins: {mnemosyne: text}", "- list"])
def test_a_file_that_cannot_be_edited_is_left_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError):
        save({"theme": "t"}, hermes_home=tmp_path)
    assert path.read_text() == content


def test_a_wrong_value_is_not_saved(hermes: Path) -> None:
    with pytest.raises(ConfigError, match="mask_secrets"):
        save({"mask_secrets": "perhaps"}, hermes_home=hermes)
    assert (hermes / "config.yaml").read_text() == HERMES


def test_the_wizard_is_offered_texts() -> None:
    schema = settings.config_schema()
    assert schema
    for entry in schema:
        assert isinstance(entry["default"], str)
        assert resolve(environ={}, flags={entry["key"]: entry["default"] or None}, strict=True)


def test_the_database_follows_the_settings(home: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(home)}
    assert settings.database_file(Settings(db="~/x.db")) == home / "x.db"
    assert settings.database_file(Settings(data_dir=str(tmp_path)), environ=environ) == tmp_path / "mnemosyne.db"
    assert settings.database_file(Settings(), environ=environ, hermes_home=tmp_path) == tmp_path / "mnemosyne/mnemosyne.db"


def test_keys_of_a_group_stand_in_a_mapping_or_with_a_dot(tmp_path: Path) -> None:
    (tmp_path / "mnemosyne.yaml").write_text("sync:\n  remote: https://one.example\n  turns: yes\nsync.interval: 10m\n")
    found = resolve(environ={}, store_dir=tmp_path, strict=True).settings.sync
    assert (found.remote, found.turns, found.interval) == ("https://one.example", True, 600.0)


def test_a_key_of_a_group_that_is_not_known_names_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "mnemosyne.yaml").write_text("sync: {xremote: https://one.example}\n")
    with pytest.raises(ConfigError, match=r"sync\.remote"):
        resolve(environ={}, store_dir=tmp_path, strict=True)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("10m", 600), ("1.5 h", 5400), ("1d", 86400), (" 30S ", 30), (45, 45)])
def test_a_length_of_time_is_a_number_of_seconds_or_one_with_a_unit(text: object, seconds: float) -> None:
    assert resolve(environ={}, flags={"sync.interval": text}, strict=True).settings.sync.interval == seconds


@pytest.mark.parametrize("text", ["10 parsecs", "m", "-5", "0", "nan"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sync\.interval"):
        resolve(environ={}, flags={"sync.interval": text}, strict=True)


def test_a_saved_key_of_a_group_stays_where_the_group_stands(hermes: Path) -> None:
    (hermes / "config.yaml").write_text("plugins:\n  mnemosyne:\n    sync:\n      turns: true  # all\n")
    save({"sync.turns": "false", "sync.remote": "https://one.example"}, hermes_home=hermes)
    assert yaml.safe_load((hermes / "config.yaml").read_text())["plugins"]["mnemosyne"] == {
        "sync": {"turns": False, "remote": "https://one.example"}
    }
    save({"sync.remote": ""}, hermes_home=hermes)
    assert resolve(environ={}, hermes_home=hermes).settings.sync.remote is None
