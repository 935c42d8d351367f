"""Identities of every kind: whatever a host sends, people stay apart and their names stay out."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne import identity
from hermes_mnemosyne.identity import normalise, parse_session_key, session_reference, subject_of
from hermes_mnemosyne.keys import SubjectKey

KEY = SubjectKey(Path(tempfile.mkdtemp()) / "subject.key")
ANY = st.text(st.characters(exclude_categories=()), max_size=60)
SEGMENT = st.text(
    st.characters(exclude_characters=":", exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=12
)
PLATFORM = st.sampled_from(sorted(identity.PLATFORMS))
CHAT_TYPE = st.sampled_from(["dm", *sorted(identity.GROUP_TYPES), "private", "x"])


@given(ANY)
def test_every_value_gets_one_storable_lower_case_theme(raw: str) -> None:
    found = normalise(raw)
    assert found.theme
    assert found.theme == found.theme.strip()
    assert found.changed == (found.theme != raw)
    found.theme.encode("utf-8")
    again = normalise(found.theme)
    assert again.theme == found.theme or found.reason in {"lowercased", "unchanged"}


@given(SEGMENT, PLATFORM, CHAT_TYPE, st.lists(SEGMENT, max_size=3))
def test_every_session_key_of_the_host_lands_in_a_bucket(namespace: str, platform: str, chat_type: str, rest: list[str]) -> None:
    raw = ":".join(["agent", namespace, platform, chat_type, *rest])
    theme = normalise(raw).theme
    assert theme in {identity.DM_BUCKET, identity.GROUP_BUCKET}
    if chat_type == "dm" and rest:
        assert theme == identity.DM_BUCKET
    parts = parse_session_key(raw)
    assert (parts.platform, parts.chat_type, parts.rest) == (platform, chat_type, ":".join(rest))


@given(PLATFORM, CHAT_TYPE, st.lists(st.tuples(SEGMENT, SEGMENT), min_size=2, max_size=2, unique_by=lambda pair: pair[0]))
def test_two_chats_are_never_one_subject_and_are_named_nowhere(
    platform: str, chat_type: str, chats: list[tuple[str, str]]
) -> None:
    subjects = []
    for chat, user in chats:
        kwargs = {"gateway_session_key": f"agent:main:{platform}:{chat_type}:{chat}:{user}", "chat_id": chat, "user_id": user}
        subjects.append(subject_of(identity.GROUP_BUCKET, kwargs, KEY))
    assert None not in subjects
    assert len(set(subjects)) == 2
    assert all(set(subject or "") <= set("0123456789abcdef") and len(subject or "") == 64 for subject in subjects)


@given(ANY, PLATFORM, SEGMENT)
def test_a_session_reference_is_stable_and_hides_session_keys(session_id: str, platform: str, chat: str) -> None:
    found = session_reference(session_id, KEY)
    assert found is not None
    assert session_reference(found, KEY) == found
    built = session_reference(f"{session_id}agent:main:{platform}:dm:{chat}", KEY)
    assert built is not None
    assert built.startswith("h-")
    assert len(built) == 34
