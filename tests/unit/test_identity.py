"""Which theme a session belongs to, which contact it is, and what it may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_mnemosyne import identity
from hermes_mnemosyne.identity import allowed_metadata, normalise, readable, resolve_identity, session_reference, subject_of
from hermes_mnemosyne.keys import SubjectKey


@pytest.fixture
def key(tmp_path: Path) -> SubjectKey:
    return SubjectKey(tmp_path / "subject.key")


@pytest.fixture
def no_key(tmp_path: Path) -> SubjectKey:
    return SubjectKey(tmp_path / "none.key", create=False)


@pytest.mark.parametrize(
    ("kwargs", "raw"),
    [
        ({"gateway_session_key": " k ", "agent_identity": "a", "agent_workspace": "w"}, "k"),
        ({"gateway_session_key": "  ", "agent_identity": "a", "agent_workspace": "w"}, "a"),
        ({"agent_identity": "default", "agent_workspace": "hermes"}, "hermes"),
        ({"agent_identity": "default"}, "default"),
        ({"agent_identity": None, "agent_workspace": ""}, "default"),
        ({}, "default"),
    ],
)
def test_the_first_name_that_says_something_is_the_identity(kwargs: dict[str, str], raw: str) -> None:
    assert resolve_identity(kwargs) == raw


@pytest.mark.parametrize(
    ("raw", "theme", "reason"),
    [
        (None, "default", "empty"),
        ("  ", "default", "empty"),
        ("marketing", "marketing", "unchanged"),
        ("Marketing", "marketing", "lowercased"),
        ("agent:main:telegram:dm:123", "whatsapp-dm", "dm-bucket"),
        ("AGENT:main:Slack:DM:D1", "whatsapp-dm", "dm-bucket"),
        ("agent:main:signal:dm", "whatsapp-dm", "dm-bucket"),
        ("dm:5", "whatsapp-dm", "dm-bucket"),
        ("whatsapp:+43660", "whatsapp-dm", "dm-bucket"),
        ("x:telegram:dm:5", "whatsapp-dm", "dm-bucket"),
        ("signal:7", "whatsapp-dm", "dm-bucket"),
        ("agent:main:telegram:group:c-1", "external-group", "group-bucket"),
        ("agent:main:discord:forum:9:t", "external-group", "group-bucket"),
        ("agent:main:webhook:webhook", "external-group", "group-bucket"),
        ("agent:main:made_up:anything:1", "external-group", "group-bucket"),
        ("agent:profile:api_server:x", "external-group", "group-bucket"),
        ("agent:main:telegram", "external-group", "group-bucket"),
        ("matrix:room:!a", "external-group", "group-bucket"),
        ("teams:channel", "external-group", "group-bucket"),
        ("bench", "_bench", "bench-bucket"),
        ("locomo-Bench-ws", "_bench", "bench-bucket"),
        ("skill-bench-17", "_bench", "bench-bucket"),
        ("skill-benchmark:run", "_bench", "bench-bucket"),
        ("bench-press", "bench-press", "unchanged"),
        ("workbench", "workbench", "unchanged"),
        ("desk:signal:main", "desk:signal:main", "unchanged"),
        ("eng:channel:alerts", "eng:channel:alerts", "unchanged"),
        ("ops:group:oncall", "ops:group:oncall", "unchanged"),
        ("agent-7", "agent-7", "unchanged"),
        ("admin:5", "admin:5", "unchanged"),
        ("bad\0\ud800", "bad\ufffd\ufffd", "lowercased"),
    ],
)
def test_identities_become_themes(raw: str | None, theme: str, reason: str) -> None:
    found = normalise(raw)
    assert found.theme == theme
    assert found.changed == (theme != raw)
    if raw != "bad\0\ud800":
        assert found.reason == reason


@pytest.mark.parametrize("kind", ["group", "channel", "supergroup", "x"])
@pytest.mark.parametrize("head", ["agent:main:", "agent::", "AGENT:a b:", "agent::telegram", "agent:main:telegram"])
def test_a_host_key_with_empty_parts_never_becomes_a_theme(head: str, kind: str) -> None:
    assert normalise(f"{head}:{kind}:5551234567").theme == "external-group"
    assert normalise(f"{head}::5551234567").theme == "external-group"
    assert normalise(f"{head}:dm:5551234567").theme == "whatsapp-dm"


def test_bench_identities_can_be_sent_to_the_default_theme() -> None:
    assert normalise("a-bench", bench_mode="reject") == identity.Identity("default", changed=True, reason="bench-reject")
    assert normalise("a-bench", bench_mode="anything").theme == "_bench"


@pytest.mark.parametrize("allowed", ["Hermes, ops", ["hermes", "OPS"], ("hermes", " ops ")])
def test_other_identities_than_the_allowed_ones_get_the_default_theme(allowed: object) -> None:
    def theme(raw: str) -> str:
        return normalise(raw, allowed_themes=allowed).theme  # type: ignore[arg-type]

    assert [theme(raw) for raw in ("HERMES", "ops", "else", "dm:1", "agent:a:b:c", "x-bench", "default")] == [
        "hermes", "ops", "default", "whatsapp-dm", "external-group", "_bench", "default",
    ]  # fmt: skip
    assert normalise("else", allowed_themes=" , ").theme == "else"


def test_aliases_come_first_and_are_judged_like_any_other_value() -> None:
    aliases = {"agent:main:telegram:dm:123": "Hermes", "old": "dm:1", "gone": " ", "Mixed": "new"}
    assert normalise("agent:main:telegram:dm:123", aliases=aliases) == identity.Identity("hermes", changed=True, reason="alias")
    assert normalise("Agent:Main:Telegram:DM:123", aliases=aliases).theme == "hermes"
    assert normalise("old", aliases=aliases).reason == "dm-bucket"
    assert normalise("gone", aliases=aliases).theme == "default"
    assert normalise("mIXED", aliases=aliases).theme == "new"
    assert normalise("new", aliases=aliases).reason == "unchanged"


def test_two_contacts_that_differ_by_case_alone_do_not_share_an_alias() -> None:
    aliases = {"agent:main:matrix:dm:!AbC": "hermes"}
    assert normalise("agent:main:matrix:dm:!AbC", aliases=aliases).theme == "hermes"
    assert normalise("agent:main:matrix:dm:!aBc", aliases=aliases).theme == "whatsapp-dm"


@pytest.mark.parametrize(
    ("theme", "kind"),
    [
        ("default", "default"),
        ("whatsapp-dm", "dm"),
        ("external-group", "group"),
        ("_bench", "bench"),
        ("agent-1", "worker"),
        ("x", "theme"),
    ],
)
def test_themes_have_kinds(theme: str, kind: str) -> None:
    assert identity.kind_of(theme) == kind


# -- subjects --------------------------------------------------------------------------------------------------------------------

DM, GROUP = "whatsapp-dm", "external-group"


def test_ordinary_themes_have_no_subject_and_need_no_key(no_key: SubjectKey) -> None:
    assert subject_of("hermes", {"gateway_session_key": "agent:main:telegram:dm:1"}, no_key) == ""


def test_a_contact_is_the_same_however_much_the_host_tells(key: SubjectKey) -> None:
    session_key = "agent:main:telegram:dm:123"
    full = {"gateway_session_key": session_key, "platform": "telegram", "chat_type": "dm", "chat_id": "123", "user_id": "123"}
    found = {
        subject_of(DM, full, key),
        subject_of(DM, {"gateway_session_key": session_key}, key),
        subject_of(DM, {"gateway_session_key": session_key.replace("main", "other"), "platform": "api_server"}, key),
        subject_of(DM, full | {"gateway_session_key": session_key + ":topic-9", "thread_id": "topic-9"}, key),
        subject_of(DM, {"platform": "telegram", "chat_type": "dm", "user_id": "123"}, key),
        subject_of(DM, {"agent_identity": "telegram:dm:123"}, key),
    }
    assert len(found) == 1
    assert found == {key.digest("subject", "telegram", "dm", "123")}


def test_a_group_is_its_chat_and_thread_and_not_the_person(key: SubjectKey) -> None:
    def subject(session_key: str, **kwargs: str) -> str | None:
        return subject_of(GROUP, {"gateway_session_key": session_key, "chat_id": "c:1", **kwargs}, key)

    base = "agent:main:matrix:group:c:1"
    plain = subject(base)
    assert plain == key.digest("subject", "matrix", "group", "c:1")
    assert subject(base + ":u1", user_id="u1") == subject(base + ":u2", user_id="u2") == plain
    threaded = subject(base + ":t", thread_id="t")
    assert threaded == subject(base + ":t:u1", thread_id="t", user_id="u1")
    assert threaded != plain


def test_different_contacts_are_different_subjects(key: SubjectKey) -> None:
    keys = [
        "agent:main:telegram:dm:1", "agent:main:telegram:dm:2", "agent:main:signal:dm:1", "agent:main:telegram:group:1",
        "agent:main:matrix:dm:!AbC", "agent:main:matrix:dm:!abc", "agent:main:telegram:dm", "agent:main:telegram:other:1",
    ]  # fmt: skip
    assert len({subject_of(DM, {"gateway_session_key": one}, key) for one in keys}) == len(keys)


@pytest.mark.parametrize(
    ("theme", "session_key"),
    [
        (DM, "agent:main:telegram:dm"), (DM, "agent:main:telegram:dm:"), (GROUP, "agent:main:telegram:group"), (DM, "whatsapp-dm"),
        (GROUP, "External-Group"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["chat_id", "user_id", "user_id_alt"])
def test_a_key_that_names_no_contact_does_not_make_one_of_many(key: SubjectKey, theme: str, session_key: str, field: str) -> None:
    ada, bob, nobody = (
        subject_of(theme, {"gateway_session_key": session_key, "platform": "telegram", **who}, key)
        for who in ({field: "ada"}, {field: "bob"}, {})
    )
    assert ada
    assert bob
    assert len({ada, bob, nobody}) == 3


def test_a_chat_that_stands_beside_the_key_is_the_same_contact(key: SubjectKey) -> None:
    bare = {"gateway_session_key": "agent:main:telegram:group", "chat_id": "-1", "thread_id": "7"}
    assert subject_of(GROUP, bare, key) == subject_of(GROUP, {"gateway_session_key": "agent:main:telegram:group:-1:7"}, key)


def test_a_chat_that_the_key_writes_in_another_form_is_read_from_the_key(key: SubjectKey) -> None:
    kwargs = {"chat_id": "43660@s.whatsapp.net", "user_id": "43660@s.whatsapp.net", "thread_id": "t"}
    plain = subject_of(DM, {"gateway_session_key": "agent:main:whatsapp:dm:43660"}, key)
    assert subject_of(DM, {"gateway_session_key": "agent:main:whatsapp:dm:43660", **kwargs}, key) == plain
    assert subject_of(DM, {"gateway_session_key": "agent:main:whatsapp:dm:43660:t", **kwargs}, key) == plain


def test_without_a_key_or_a_contact_there_is_no_subject(key: SubjectKey, no_key: SubjectKey) -> None:
    assert subject_of(DM, {"gateway_session_key": "agent:main:telegram:dm:1"}, no_key) is None
    assert subject_of(DM, {"agent_identity": "whatsapp-dm"}, key) is None
    assert subject_of(GROUP, {"agent_identity": "External-Group", "agent_workspace": "hermes"}, key) is None


def test_benchmarks_are_kept_apart_from_each_other(key: SubjectKey) -> None:
    one, two = (subject_of("_bench", {"agent_identity": name}, key) for name in ("a-bench", "b-bench"))
    assert one
    assert two
    assert one != two


# -- references, metadata, reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "session_id",
    ["20261130_124458_f114fc", "api-00ff00ff00ff00ff", "0190163d-8694-739b-aea5-966c26f8ad91", "planning", "s-1", "week 48", ""],
)
def test_session_ids_that_name_nobody_stay(key: SubjectKey, session_id: str) -> None:
    assert session_reference(session_id, key) == session_id


@pytest.mark.parametrize(
    "session_id",
    [
        "agent:main:telegram:dm:123",
        "telegram:5",
        "carol@example.org",
        "+43 660 1234567",
        "436601234567",
        "chat-4366012345",
        "dm/anna",
    ],
)
def test_session_ids_built_from_contacts_are_hashed(key: SubjectKey, no_key: SubjectKey, session_id: str) -> None:
    found = session_reference(session_id, key)
    assert found is not None
    assert found.startswith("h-")
    assert session_id not in found
    assert session_reference(session_id, key) == found
    assert session_reference(found, key) == found
    assert session_reference(session_id, no_key) is None


def test_a_session_id_with_the_contacts_own_identifier_is_hashed(key: SubjectKey) -> None:
    uuid = "0190163d-8694-739b-aea5-966c26f8ad91"
    for kwargs in ({"user_name": "anna"}, {"chat_id": "anna"}, {"gateway_session_key": "agent:main:x:dm:anna:t"}):
        found = session_reference("with-Anna-1", key, kwargs)
        assert found is not None
        assert found.startswith("h-")
    for spelt in ("anna-maria-chat", "Anna_Maria", "x.ANNA.maria"):
        assert session_reference(spelt, key, {"user_name": "Anna Maria"}) != spelt
    assert session_reference("tg_100123", key, {"chat_id": "-100123"}) != "tg_100123"
    assert session_reference(uuid, key, {"user_id": uuid}) != uuid
    assert session_reference("20261130_124458_f123fc", key, {"chat_id": "123"}) == "20261130_124458_f123fc"


def test_host_metadata_passes_by_an_allow_list() -> None:
    sent = {
        "write_origin": "assistant_tool", "execution_context": "foreground", "platform": "telegram", "tool_name": "memory",
        "session_id": "agent:main:telegram:dm:1", "task_id": "t", "tool_call_id": "c", "user_id": "1", "old_text": "x", "chat_name": "Anna",
    }  # fmt: skip
    assert allowed_metadata(sent) == {
        "write_origin": "assistant_tool", "execution_context": "foreground", "tool_name": "memory", "platform": "telegram",
    }  # fmt: skip
    assert allowed_metadata(None) == {}
    assert allowed_metadata({"platform": "+43660", "tool_name": "a b", "kind": 5, "write_origin": "anna@x"}) == {}


def test_buckets_are_closed_to_everybody_else() -> None:
    for own in ("hermes", "whatsapp-dm", "_bench"):
        for bucket in identity.BUCKETS:
            allowed = bucket == own
            assert readable(bucket, own=own, readable_themes=None) is allowed
            assert readable(bucket.upper(), own=own, readable_themes=["*", bucket]) is allowed
            assert (bucket in identity.restricted_for(own)) is not allowed


def test_other_themes_are_readable_when_they_are_listed() -> None:
    assert readable("Hermes", own="hermes")
    assert not readable("ops", own="hermes")
    assert readable("ops", own="hermes", readable_themes=None)
    assert readable("ops", own="hermes", readable_themes=("*",))
    assert readable("OPS", own="hermes", readable_themes=["Ops"])
    assert not readable("else", own="hermes", readable_themes=["ops"])


def test_new_rows_stay_local_in_buckets_unless_told_otherwise() -> None:
    assert identity.default_visibility("hermes") == "synced"
    assert identity.default_visibility("whatsapp-dm") == "local"
    assert identity.default_visibility("whatsapp-dm", "synced") == "synced"
    assert identity.default_visibility("hermes", "local") == "local"
