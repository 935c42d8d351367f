"""Remember, recall, list, show, edit, retire, forget, undo and history from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.integration.command import Store, mnemosyne, process

ANY_TEXT = st.text(
    st.characters(codec=None, categories=None, exclude_categories=())
    | st.sampled_from("\x00\x1b\x07\ud83c\udcff\u4e2d\u0301\r\n\t-'\"%")
)
SENTENCES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(lambda text: bool(text.strip()))
UNKNOWN = "01938f2e-7c1a-7b6e-9d53-0f2a4c6e8b10"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "m.db")


def test_what_was_remembered_is_recalled_with_id_and_theme(store: Store) -> None:
    uid = store.add("The staging database listens on port 5433", "--theme", "infra")
    store.add("Ada likes tea")
    done = store("recall", "which port has the staging database?")
    assert done.code == 0
    assert uid in done.out
    assert "infra" in done.out
    assert "5433" in done.out


def test_json_of_remember_and_recall_keeps_the_contract(store: Store) -> None:
    first = store("remember", "Ada's boat is called Perelandra", "--json").json
    again = store("remember", "Ada's boat is called Perelandra  ", "--json").json
    assert (first["status"], again["status"]) == ("added", "exists")
    assert first["uid"] == again["uid"]
    answer = store("recall", "Perelandra", "--json").json
    assert answer["query"] == "Perelandra"
    assert answer["degraded"] == []
    [hit] = answer["hits"]
    assert (hit["uid"], hit["kind"], hit["theme"]) == (first["uid"], "entry", "hermes")
    assert hit["content"] == "Ada's boat is called Perelandra"
    assert isinstance(hit["score"], float)


@pytest.mark.parametrize("order", ["before", "after"])
def test_common_options_may_stand_before_or_after_the_command(tmp_path: Path, order: str) -> None:
    options = ["--db", str(tmp_path / "m.db"), "--theme", "work", "--json"]
    words = ["remember", "a note"]
    assert mnemosyne(*(options + words if order == "before" else words + options)).json["status"] == "added"
    listed = mnemosyne("--db", str(tmp_path / "m.db"), "list", "--json").json["entries"]
    assert [(entry["content"], entry["theme"]) for entry in listed] == [("a note", "work")]


def test_a_named_theme_narrows_reads_and_ids(store: Store) -> None:
    uid = store.add("The lighthouse keeper is called Tove", "--theme", "sea")
    assert store.found("lighthouse") == [uid]
    assert store.found("lighthouse", "--theme", "land") == []
    assert store("list", "--theme", "land", "--json").json == {"entries": []}
    assert store("show", uid).code == 0
    assert store("show", uid, "--theme", "land").err == store("show", UNKNOWN, "--theme", "land").err.replace(UNKNOWN, uid)


def test_a_recall_without_hits_is_done_and_says_how_much_was_searched(store: Store) -> None:
    store.add("one thing")
    store.add("another matter")
    done = store("recall", "zebra")
    assert done.code == 0
    assert done.out == "searched 2 memories, nothing relevant\n"


@pytest.mark.parametrize("query", ["", " ", "\n", "\t \r\n"])
def test_an_empty_query_is_done_and_says_why_there_is_no_answer(store: Store, query: str) -> None:
    store.add("something")
    done = store("recall", query)
    assert done.code == 0
    assert "query is empty" in done.out
    assert "empty-query" in store("recall", query, "--json").json["notes"]


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\r\n"])
def test_blank_content_is_a_usage_error_and_stores_nothing(store: Store, text: str) -> None:
    assert store("remember", text).code == 2
    assert store("remember", "-", stdin=text.encode()).code == 2
    uid = store.add("kept")
    assert store("edit", uid, text).code == 2
    assert [entry["content"] for entry in store("list", "--json").json["entries"]] == ["kept"]


@given(text=ANY_TEXT)
def test_every_text_can_be_remembered_listed_recalled_and_forgotten(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    assume(text != "-")  # means standard input
    store = Store(tmp_path_factory.mktemp("any") / "m.db")
    done = store("remember", "--json", f"--tag={text[:50]}", "--meta", f"k={text}", "--", text)
    if done.code == 2:
        assert not text.strip()
        return
    uid = done.json["uid"]
    assert store("list").out.count("\n") == 1
    assert store("recall", "--", text).code == 0
    assert store("recall", "--json", "--explain", "--", text).code == 0
    shown = store("show", uid)
    assert "\x1b" not in shown.out
    assert store("show", uid, "--json").json["uid"] == uid
    assert store("forget", uid).code == 0
    assert store("list", "--json").json["entries"] == []


@given(data=st.binary(max_size=200))
def test_every_byte_string_may_come_from_standard_input(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    store = Store(tmp_path_factory.mktemp("bytes") / "m.db")
    store.add("the first of all memories")
    done = store("remember", "-", "--json", stdin=data)
    assert done.code in {0, 2}
    assert store("recall", "-", "--json", stdin=data).code == 0
    assert len(store("list", "--json").json["entries"]) == 1 + (done.code == 0)


def test_text_from_standard_input_loses_its_last_line_end_only(store: Store) -> None:
    uid = store("remember", "-", "--json", stdin="  Zeile eins\nZeile zwei ü\r\n".encode()).json["uid"]
    assert store("show", uid, "--json").json["content"] == "  Zeile eins\nZeile zwei ü"


def test_every_field_given_is_stored_and_shown(store: Store) -> None:
    uid = store.add(
        "Renew the certificate", "--target", "user", "--tag", "ops", "--tag", "tls", "--importance", "0.9", "--pin",
        "--valid-until", "2999-12-31", "--occurred-at", "2026-01-02T03:04:05+02:00", "--local", "--meta", "n=5", "--meta", "who=Ada",
        "--session", "s-1", "--source", "calendar",
    )  # fmt: skip
    entry = store("show", uid, "--json").json
    assert (entry["target"], entry["tags"], entry["importance"], entry["pinned"]) == ("user", ["ops", "tls"], 0.9, True)
    assert (entry["visibility"], entry["metadata"], entry["session_id"]) == ("local", {"n": 5, "who": "Ada"}, "s-1")
    assert entry["occurred_at"] == "2026-01-02T01:04:05.000000Z"
    assert entry["valid_until"] > "2999-12-31"
    assert entry["origins"] == [{"kind": "cli", "place": "calendar"}]
    for word in ("certificate", "ops", "calendar", uid):
        assert word in store("show", uid).out


def test_an_edit_changes_what_is_found_and_goes_to_the_history(store: Store) -> None:
    uid = store.add("copper kettle")
    assert store("edit", uid, "steel pan", "--tag", "kitchen", "--json").json["status"] == "updated"
    assert store.found("copper") == []
    assert store.found("steel") == [uid]
    changes = store("history", uid, "--json").json["changes"]
    assert "copper kettle" in json.dumps(changes)
    assert "copper kettle" in store("history", uid).out
    assert store("undo", uid).code == 0
    assert store.found("copper") == [uid]


def test_tags_pin_and_expiry_can_be_taken_back(store: Store) -> None:
    uid = store.add("note", "--tag", "x", "--pin", "--valid-until", "2999-01-01")
    assert store("edit", uid, "--no-tags", "--no-pin", "--valid-until", "never").code == 0
    entry = store("show", uid, "--json").json
    assert (entry["tags"], entry["pinned"], entry["valid_until"]) == ([], False, None)


def test_an_edit_without_a_change_is_a_usage_error(store: Store) -> None:
    assert store("edit", store.add("note")).code == 2


def test_a_retired_memory_is_gone_until_undo(store: Store) -> None:
    uid = store.add("the red bicycle")
    assert store("retire", uid, "--json").json["status"] == "retired"
    assert store.found("bicycle") == []
    assert store("undo", uid).code == 0
    assert store.found("bicycle") == [uid]


def test_forgetting_one_of_many_leaves_no_trace_and_says_one(store: Store) -> None:
    uids = [store.add(f"the password hint number {word} of many") for word in ("zwölf", "dreizehn", "vierzehn")]
    done = store("forget", uids[1])
    assert done.code == 0
    assert "1 deleted" in done.out
    assert store.found("dreizehn") == []
    assert "dreizehn" not in store("export").out
    assert b"dreizehn" not in b"".join(path.read_bytes() for path in store.path.parent.iterdir())
    assert len(store("list", "--json").json["entries"]) == 2
    assert store("undo", uids[1]).code == 1


@pytest.mark.parametrize("command", ["show", "history", "forget", "retire", "undo"])
@pytest.mark.parametrize("uid", [UNKNOWN, "x", "\udcff", "' OR 1=1", "\x1b[2J"])
def test_an_unknown_id_is_not_found(store: Store, command: str, uid: str) -> None:
    store.add("a memory")
    done = store(command, uid)
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    "option", ["--session", "--tag", "--contains", "--theme", "--since", "--source", "--supersedes", "--meta"]
)
@pytest.mark.parametrize("value", ["\udcff", "\x1b[2J", "'; --", "\ud83c=\udf0d"])
def test_no_value_of_an_option_is_a_traceback(store: Store, option: str, value: str) -> None:
    store.add("a memory")
    for command in (("recall", "memory"), ("list",), ("remember", "another one")):
        done = store(*command, f"{option}={value}")
        assert done.code in ({0, 1, 2} if option == "--supersedes" else {0, 2})
        assert len(done.err.splitlines()) <= 1
        assert "\x1b" not in done.out + done.err


def test_several_ids_are_done_one_by_one_and_the_unknown_one_is_named(store: Store) -> None:
    first, last = store.add("first thing"), store.add("last thing")
    done = store("forget", first, UNKNOWN, last, "--json")
    assert done.code == 1
    assert [line["status"] for line in done.lines] == ["forgotten", "forgotten"]
    assert UNKNOWN in done.err


def test_adding_what_was_forgotten_makes_a_new_memory(store: Store) -> None:
    uid = store.add("born again")
    assert store("forget", uid).code == 0
    assert store("remember", "born again", "--json").json["status"] == "added"


def test_a_superseded_memory_shows_on_request_only(store: Store) -> None:
    old = store.add("The build server is 10.0.0.4")
    new = store.add("The build server moved to 10.0.0.9", "--supersedes", old)
    assert store.found("build server") == [new]
    assert set(store.found("build server", "--superseded")) == {old, new}
    assert f"superseded by {new}" in store("recall", "build server", "--superseded").out


def test_filters_narrow_a_recall_and_a_list(store: Store) -> None:
    store.add("report about owls", "--tag", "birds", "--target", "user", "--occurred-at", "2026-01-05")
    other = store.add("report about otters", "--occurred-at", "2026-02-05")
    assert store.found("report", "--since", "2026-02-01") == [other]
    assert store.found("report", "--until", "2026-01-31", "--target", "user") != [other]
    assert store.found("report", "--tag", "birds") != [other]
    assert store.found("report", "--contains", "otters") == [other]
    assert len(store.found("report", "--limit", "1")) == 1
    assert len(store("list", "--json", "--tag", "birds").json["entries"]) == 1
    assert len(store("list", "--json", "--limit", "1", "--offset", "1").json["entries"]) == 1
    assert store("list", "--json", "--kind", "turn").json["entries"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("nonsense",), ("remember",), ("recall",), ("remember", "x", "--importance", "5"), ("remember", "x", "--importance", "high"),
        ("remember", "x", "--valid-until", "soonish"), ("remember", "x", "--meta", "novalue"), ("recall", "x", "--limit", "0"),
        ("recall", "x", "--limit", "many"), ("recall", "x", "--since", "the day"), ("list", "--kind", "poem"), ("remember", "two", "texts"),
        ("search", "x", "5000"), ("store", "x", "source", "7"), ("remember", "x", "--theme", " "), ("remember", "x", "--db", ""),
        ("recall", "x", "--no-such-option"), ("spool", "drain", "retry"), ("spool", "quarantine", "drop"), ("edit", "x", "y", "0.5"),
        ("remember", "x", "--tag", "t" * 10_000), ("config", "show", "--config", "/nonexistent.yaml"),
    ],
)  # fmt: skip
def test_a_usage_error_is_one_line_with_exit_code_two(arguments: tuple[str, ...]) -> None:
    done = mnemosyne(*arguments)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("text", ["-5 degrees outside", "--verbose is the flag", "- a list item", "-12"])
def test_a_text_that_begins_with_a_dash_is_text(store: Store, text: str) -> None:
    assert store("remember", text).code == 0
    assert store("recall", text).code == 0
    assert [entry["content"] for entry in store("list", "--json").json["entries"]] == [text]


def test_a_text_that_looks_like_an_option_needs_two_dashes_and_the_error_says_so(store: Store) -> None:
    done = store("remember", "--flag")
    assert done.code == 2
    assert " -- " in done.err
    assert store("remember", "--", "--flag").code == 0


def test_the_old_spellings_of_commands_and_arguments_work(store: Store) -> None:
    assert store("store", "The tram is line 14", "chat", "0.8").code == 0
    [entry] = store("list", "--json").json["entries"]
    assert (entry["importance"], entry["origins"]) == (0.8, [{"kind": "cli", "place": "chat"}])
    assert len(store("search", "tram", "1", "--json").json["hits"]) == 1
    assert store("update", entry["uid"], "The tram is line 15", "0.4").code == 0
    assert store("show", entry["uid"], "--json").json["importance"] == 0.4
    assert store("delete", entry["uid"]).code == 0


def test_words_of_a_query_need_no_quotation_marks(store: Store) -> None:
    uid = store.add("the deploy key lies in the vault")
    assert store.found("deploy", "key") == [uid]


def test_a_read_of_a_named_store_that_is_not_there_fails_and_makes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "typo" / "m.db")
    for command in (("recall", "x"), ("list",), ("stats",), ("export",), ("forget", UNKNOWN)):
        done = store(*command)
        assert done.code == 1
        assert "--db" in done.err
    assert not store.path.parent.exists()


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "mnemosyne.db"
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE working_memory (id TEXT)")
    foreign.close()
    before = path.read_bytes()
    done = Store(path)("remember", "x")
    assert done.code == 1
    assert "--db" in done.err
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database at all, just text", b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_file_that_is_no_database_is_an_error_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(content)
    for command in (("remember", "x"), ("recall", "x"), ("stats",)):
        done = Store(path)(*command)
        assert done.code == 1
        assert len(done.err.splitlines()) == 1
    assert path.read_bytes() == content


def test_a_secret_is_masked_and_the_note_says_so(store: Store) -> None:
    done = store("remember", "the key is AKIAIOSFODNN7EXAMPLQ, keep it", "--json").json
    assert any(note.startswith("masked:") for note in done["notes"])
    assert "AKIAIOSFODNN7EXAMPLQ" not in store("export").out


def test_a_terminal_gets_numbers_headers_and_no_escape_of_a_memory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    uid = store.add("\x1b[2Jgone\x07 with the wind\nsecond line")
    recalled = store("recall", "wind", terminal=True).out
    assert recalled.startswith("1. ")
    assert uid in recalled
    assert "second line" in recalled
    listed = store("list", terminal=True).out
    assert listed.startswith("ID")
    for text in (recalled, listed, store("show", uid, terminal=True).out):
        assert "\x1b" not in text
        assert "\x07" not in text


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}]
)
def test_undecodable_arguments_and_every_locale_are_fine(tmp_path: Path, locale: dict[str, str]) -> None:
    db = str(tmp_path / "m.db")
    added = process("remember", "--db", db, "--json", b"caf\xff \xe6\x88\x91 na\xc3\xafve", environ=locale)
    assert added.returncode == 0, added.stderr
    for command in (("list",), ("recall", "naïve".encode()), ("show", json.loads(added.stdout)["uid"]), ("export",)):
        done = process(*command, "--db", db, environ=locale)
        assert (done.returncode, done.stderr) == (0, b"")
    answer = process("recall", "--json", b"\xff\xc3\xaf", "--db", db, environ=locale)
    assert answer.stdout.isascii()
    json.loads(answer.stdout)
