"""What `initialize` decides once: the settings, whose memory this is, and what may be written."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hermes_mnemosyne import identity, mirror, paths
from hermes_mnemosyne._errors import ConfigError, StoreError
from hermes_mnemosyne.engine import Memory
from hermes_mnemosyne.hermes.provider import config, host
from hermes_mnemosyne.hermes.provider.boundary import log, within
from hermes_mnemosyne.hermes.provider.tools import Reader
from hermes_mnemosyne.hermes.provider.waiting import StoreKey
from hermes_mnemosyne.settings import Settings
from hermes_mnemosyne.store.protocol import ContentKey
from hermes_mnemosyne.values import TARGETS, Origin, Target, Visibility

CLIENT_PLATFORM, CLIENT_PREFIX = "api_server", "api-"
OWN_MARKS = ":own"
MOST_NAMES = 64
NAME_SECONDS = 0.02
_SALT = secrets.token_bytes(16)


def _process_name(session_id: str) -> str:
    return "h-" + hashlib.sha256(_SALT + session_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The arguments of one `initialize`, as text; what is no text counts as not given."""

    provider: str
    session_id: str
    given: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, provider: str, session_id: Any, kwargs: Mapping[str, Any]) -> Start:
        """Take over what a host gave."""
        given = {name: value for name, value in kwargs.items() if isinstance(value, str) and value.strip()}
        return cls(provider=provider, session_id=session_id if isinstance(session_id, str) else "", given=given)

    def moved(self, session_id: str) -> Start:
        """Return the same start in another session."""
        return replace(self, session_id=session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One binding of a provider: a view of the process's engine, and the decisions that hold until the next `initialize`.

    `keyless` says that a contact or its session cannot be named without the subject key, which has not been read yet or is
    missing: nothing is recalled, and what is captured waits. `origins` are those of this home's files, empty until then. `parent`
    stands for the session that delegated to this one, where it is not what the host said.
    """

    start: Start
    memory: Memory
    home: Path
    settings: Settings
    keyless: bool
    origins: Mapping[Target, Origin] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    parent: str = ""

    @property
    def bucket(self) -> bool:
        """Tell whether contacts share the theme."""
        return identity.is_bucket(self.memory.theme)

    @property
    def writes(self) -> bool:
        """Tell whether the host runs this agent in a context that may write."""
        return self.start.given.get("agent_context", "primary") in self.settings.write_contexts

    @property
    def captures(self) -> bool:
        """Tell whether turns are stored."""
        return self.writes and self.settings.sync_turns

    @property
    def visibility(self) -> Visibility:
        """Return the visibility of new rows."""
        return identity.default_visibility(self.memory.theme, self.settings.visibility)

    @property
    def parent_session_id(self) -> str:
        """Return the stored name of the session that delegated to this one, empty without one."""
        return self.parent or self.session_name(self.start.given.get("parent_session_id", ""))

    @property
    def contact(self) -> dict[str, str]:
        """Return what the host said that can tell whose memory this is, for writes that have to wait for the key."""
        return {**self.start.given, "hermes_home": str(self.home)}

    def session_name(self, session_id: str) -> str:
        """Return what is stored of a session id: itself, or a keyed hash where it could name a person."""
        if self.keyless:
            # It waits with what was captured, and becomes a hash with it.
            return session_id
        known = self.names.get(session_id)
        if known is None:
            name = identity.session_reference(session_id, _NoKey(), self.start.given)
            if name is None and self.memory.engine.ready(0.0):
                key = StoreKey(self.memory.engine)
                with contextlib.suppress(StoreError):
                    name = within(NAME_SECONDS, lambda: identity.session_reference(session_id, key, self.start.given))
            # Without a key a hash that only this process can make keeps its sessions apart and tells nobody anything.
            known = _process_name(session_id) if name is None else name
            if len(self.names) < MOST_NAMES:
                self.names[session_id] = known
        return known

    def client_keeps_history(self, session_id: str) -> bool:
        """Tell whether the client sends the conversation with every request, so that the host replays nothing of ours."""
        return self.start.given.get("platform") == CLIENT_PLATFORM and session_id.startswith(CLIENT_PREFIX)

    def own_marks(self, session_id: str) -> str:
        """Return the name under which the turns of a session are marked as standing in its prompt.

        Where the client keeps the history, they are marked apart: what the client holds is never recalled, while recalled
        memories, which it does not hold, may be recalled again.
        """
        return session_id + OWN_MARKS if self.client_keeps_history(session_id) else session_id

    def reader(self, session_id: str) -> Reader:
        """Return who asks when a tool is called."""
        theme = self.memory.theme
        return Reader(
            theme=theme,
            session_id=session_id,
            restricted=identity.restricted_for(theme),
            scope_default=self.settings.scope_default,
        )


def begin(start: Start) -> Session:
    """Resolve the settings and the identity; the store is named, not opened.

    Raises ConfigError for settings that cannot be read or a home that is not known.
    """
    home = host.hermes_home(start.given.get("hermes_home"))
    if home is None:
        raise ConfigError("the home of Hermes is not known: set HERMES_HOME")
    resolved = config.effective(start.provider, home)
    for warning in resolved.warnings:
        log.warning("%s", warning)
    settings = resolved.settings
    place = config.database(settings, home)
    who = identity.normalise(
        identity.resolve_identity(start.given),
        allowed_themes=settings.allowed_themes,
        aliases=dict(settings.identity_aliases),
        bench_mode=settings.bench_mode,
    )
    # Inside a shared theme a contact reads its own rows only, whatever the agent's owner may read.
    readable = () if identity.is_bucket(who.theme) else settings.readable_themes or ()
    memory = Memory.at(place, theme=who.theme, readable_themes=readable, settings=settings)
    if place.file is not None:
        paths.remember_last_used(place.file)
    unnamed = identity.session_reference(start.session_id, _NoKey(), start.given) is None
    names = {} if unnamed else {start.session_id: start.session_id}
    keyless = unnamed or identity.is_bucket(who.theme)
    # In a file's store the key of the store knows the places of files; in a fleet's each home has its own.
    origins = _origins(home, mirror.key_of_home(home)) if place.is_server else {}
    return Session(start=start, memory=memory, home=home, settings=settings, keyless=keyless, origins=origins, names=names)


def _origins(home: Path, key: ContentKey) -> dict[Target, Origin]:
    return {target: origin for target in TARGETS if (origin := mirror.origin(home, target, key)) is not None}


def settle(session: Session) -> Session:
    """Return the session with what only the store's key can tell: the contact, the names of sessions, the origins of files.

    It opens the store, which may take long. Without a usable key the session stays as it is.
    """
    key, start = StoreKey(session.memory.engine), session.start
    # The first host of a fleet makes its key, before anybody needs it.
    session.memory.engine.bind_key()
    origins = session.origins or _origins(session.home, key)
    if not session.keyless:
        return replace(session, origins=origins)
    subject = identity.subject_of(session.memory.theme, start.given, key)
    name = identity.session_reference(start.session_id, key, start.given)
    if subject is None or name is None:
        return session
    memory = session.memory
    if subject:
        memory = memory.of_contact(subject)
    return replace(session, memory=memory, keyless=False, origins=origins, names={start.session_id: name})


class _NoKey:
    """A key that is not there, to ask what could be said without one."""

    def digest(self, purpose: str, *parts: str) -> None:  # noqa: ARG002 - the signature of a key
        return None
