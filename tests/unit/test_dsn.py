"""Names of Postgres databases: what counts as one, which are the same, and that nothing secret is shown."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne._errors import ConfigError
from hermes_mnemosyne.dsn import Dsn, is_dsn

SECRET = "s3cret-w0rd"


def dsn(text: str, **environ: str) -> Dsn:
    return Dsn(text, environ=environ)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://db.example/memory", "postgres://", "POSTGRESQL://x", "dbname=memory", " host=/run/postgresql dbname = 'a b'",
        "service=fleet", "user=hermes",
    ],
)  # fmt: skip
def test_a_uri_and_pairs_name_a_database(text: str) -> None:
    assert is_dsn(text)


@pytest.mark.parametrize("text", ["", "memory.db", "/srv/a=b.db", "mysql://x", "path/dbname=memory", "./host=x", ":memory:"])
def test_anything_else_is_a_file(text: str) -> None:
    assert not is_dsn(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("postgresql://hermes@db/memory", "host=db user=hermes dbname=memory"),
        ("postgresql://hermes@db:5432/memory", "user='hermes' dbname=memory host=db port=5432"),
        ("postgresql:///memory?host=/run/pg&user=hermes", "host=/run/pg user=hermes dbname=memory"),
        (r"dbname='it\'s' user=a host=h", "postgresql://a@h/it's"),
        ("postgresql://a:p%40ss@h/d", "host=h user=a password=p@ss dbname=d"),
        ("postgresql://a@[::1]:5433/d", "host=::1 port=5433 user=a dbname=d"),
    ],
)
def test_the_same_database_has_the_same_name_however_it_is_written(one: str, other: str) -> None:
    assert dsn(one).key == dsn(other).key
    assert dsn(one).name == dsn(other).name


@pytest.mark.parametrize(
    "other", ["host=h2 user=a dbname=d", "host=h user=b dbname=d", "host=h user=a dbname=e", "host=h port=6000 user=a dbname=d"]
)
def test_another_host_port_user_or_database_has_another_name(other: str) -> None:
    assert dsn("host=h user=a dbname=d").name != dsn(other).name


def test_a_password_and_a_timeout_change_the_connection_and_not_the_name() -> None:
    plain, other = dsn("host=h user=a dbname=d"), dsn("host=h user=a dbname=d password=x connect_timeout=3")
    assert plain.name == other.name
    assert plain.key != other.key


def test_what_is_left_out_comes_from_the_variables_of_libpq() -> None:
    environ = {"PGHOST": "h", "PGUSER": "a", "PGDATABASE": "d", "PGPORT": "6000"}
    assert dsn("connect_timeout=3", **environ).name == dsn("host=h user=a dbname=d port=6000").name
    assert dsn("host=other", **environ).name != dsn("host=h user=a dbname=d port=6000").name


def test_the_database_has_the_name_of_the_user_unless_it_is_given() -> None:
    assert dsn("host=h user=a").name == dsn("host=h user=a dbname=a").name


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://hermes:{SECRET}@db/memory", f"host=db password={SECRET} dbname=memory", f"host=db password='{SECRET}' user=x",
        f"postgresql://db/memory?password={SECRET}&sslpassword={SECRET}", f"service=x passfile={SECRET}",
    ],
)  # fmt: skip
def test_no_form_for_people_shows_a_secret(text: str) -> None:
    made = dsn(text)
    assert SECRET not in f"{made} {made!r} {made.key} {made.name}"


@pytest.mark.parametrize(
    "text",
    [
        f"host=db password='{SECRET}", f"host=db {SECRET}", f"postgresql://a:{SECRET}@h:port/d", f"postgresql://h/d?{SECRET}",
        f"postgresql://a:p@{SECRET}@h/d", f"postgresql://a:12/{SECRET}@h/d", f"postgresql://a:{SECRET}%zz@h/d",
        f"postgresql://a:{SECRET}%00@h/d", f"PASSWORD={SECRET} host=h", f"host=h dbname=postgresql://a:{SECRET}@h/d",
        f"host=h dbname='postgres://a:{SECRET}@h/d'", f"postgresql+psycopg://a:{SECRET}@h/d",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigError) as told:
        dsn(text)
    assert SECRET not in str(told.value)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for one in (text, f"postgresql://{text}", f"host={text}", f"host='{text}'"):
        with contextlib.suppress(ConfigError):
            assert str(dsn(one)).startswith("postgresql://")


@given(
    st.dictionaries(
        st.sampled_from(["host", "user", "dbname", "password", "application_name"]),
        st.text("ab' \\=%", min_size=1, max_size=8),
        min_size=1,
    )
)
def test_pairs_are_read_as_the_driver_reads_them(values: dict[str, str]) -> None:
    conninfo = pytest.importorskip("psycopg.conninfo")
    text = conninfo.make_conninfo(**values)
    assert (
        dsn(text).key
        == dsn(
            " ".join(
                f"{key}='{value.translate({39: chr(92) + chr(39), 92: chr(92) * 2})}'"
                for key, value in conninfo.conninfo_to_dict(text).items()
            )
        ).key
    )
