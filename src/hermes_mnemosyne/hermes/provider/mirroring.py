"""The host's own memory: its files MEMORY.md and USER.md, and the committed writes of its memory tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne import mirror
from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.hermes.provider import host, waiting
from hermes_mnemosyne.hermes.provider.boundary import count, log
from hermes_mnemosyne.hermes.provider.capturing import submitted
from hermes_mnemosyne.hermes.provider.session import Session
from hermes_mnemosyne.identity import allowed_metadata
from hermes_mnemosyne.store.operations import MirrorChange, MirrorFile
from hermes_mnemosyne.text import content_hash
from hermes_mnemosyne.values import TARGETS

ACTIONS = frozenset({"add", "replace", "remove"})


@dataclass(frozen=True, slots=True)
class Write:
    """One committed write of the host's memory tool, as the host tells it."""

    action: str
    target: str
    content: str
    metadata: Mapping[str, Any]


def mirror_write(session: Session, session_id: str, write: Write) -> None:
    """Do to the mirror of a file what the host did to the file."""
    target = next((one for one in TARGETS if one == write.target), None)
    if target is None or write.action not in ACTIONS:
        count("mirror-ignored")
        log.warning("a write of an unknown kind was not mirrored: %.40r to %.40r", write.action, write.target)
        return
    content, old_text, previous = (
        _cleaned(session, text) for text in (write.content, _old_text(write), write.metadata.get("previous_content"))
    )
    if write.action == "remove" and not (old_text or previous):
        count("mirror-refused")
        log.warning("a removal was not mirrored: it does not say which entry")
        return
    if write.action != "remove" and not content:
        count("mirror-refused")
        log.warning("a write was not mirrored: its content is blank")
        return
    # A replacement that names no entry can only be taken as an addition.
    action = "add" if write.action == "replace" and not (old_text or previous) else write.action
    submitted(
        session,
        [
            session.memory.make(
                MirrorChange,
                uid=uuid7(),
                action=action,
                target=target,
                origin=session.origins.get(target) or waiting.origin_to_come(target),
                content=content,
                old_text=old_text or previous,
                previous_content=previous,
                session_id=session_id,
                visibility=session.visibility,
                metadata=allowed_metadata(write.metadata),
            )
        ],
    )


def _old_text(write: Write) -> Any:
    """Return what names the entry; a host that sends a removal without metadata names it by the content."""
    given = [write.metadata[key] for key in ("old_text", "replaces") if write.metadata.get(key) is not None]
    if given:
        return next((text for text in given if isinstance(text, str) and text.strip()), "")
    return write.content if write.action == "remove" else ""


def _cleaned(session: Session, text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        return ""
    return session.memory.clean(text.strip())[0]


# -- files -----------------------------------------------------------------------------------------------------------------------


def mirror_files(session: Session) -> None:
    """Bring the origins of this home's files into line with their present lines, where a file has changed since the last time.

    A file that is missing, empty or unreadable says nothing about the memories that came from it.
    """
    if not session.settings.bulk_sync_on_init or not session.writes or session.bucket:
        return
    for target in TARGETS:
        file = mirror.read(session.home, target)
        origin = session.origins.get(target)
        if file is None or origin is None or session.memory.file_stamp(origin.place) == file.stamp:
            continue
        lines = tuple((uuid7(), text) for text in dict.fromkeys(_cleaned(session, line) for line in file.lines) if text)
        if lines:
            op = session.memory.make(
                MirrorFile, target=target, origin=origin, lines=lines, visibility=session.visibility, stamp=file.stamp
            )
            submitted(session, [op])


def hashes_in_prompt(session: Session) -> frozenset[str]:
    """Return the content hashes of the lines that the host shows in its prompt."""
    shown = host.files_in_prompt(session.home)
    files = (mirror.read(session.home, target) for target in TARGETS if target in shown)
    return frozenset(content_hash(_cleaned(session, line)) for file in files if file is not None for line in file.lines)
