"""Identity: which theme a host's session belongs to, which contact it speaks with, and what it may read.

Contacts of messaging platforms share *bucket* themes; inside one each contact is a *subject*, known by a keyed hash. Nothing here
asks a database, and no personal identifier leaves this module: neither in a theme, a subject, a session reference nor metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hermes_mnemosyne.store.protocol import ContentKey
from hermes_mnemosyne.text import storable
from hermes_mnemosyne.values import ALL_THEMES, Visibility

FALLBACK_THEME = "default"
DM_BUCKET = "whatsapp-dm"
GROUP_BUCKET = "external-group"
BENCH_BUCKET = "_bench"
BUCKETS = frozenset({DM_BUCKET, GROUP_BUCKET, BENCH_BUCKET})

IdentityKind = Literal["default", "dm", "group", "bench", "worker", "theme"]

PLATFORMS = frozenset((
    "local", "telegram", "discord", "whatsapp_cloud", "whatsapp", "slack", "signal", "mattermost", "matrix", "homeassistant", "email",
    "sms", "dingtalk", "webhook", "feishu", "wecom_callback", "wecom", "weixin", "qqbot", "bluebubbles", "msgraph_webhook", "yuanbao",
    "relay", "api_server", "a2a", "buzz", "google_chat", "irc", "line", "ntfy", "photon", "raft", "simplex", "teams",
))  # fmt: skip
GROUP_TYPES = frozenset({"group", "channel", "thread", "forum", "webhook", "room"})

_DM = re.compile(r"(?i)(?:^|:)(?:dm:|(?:whatsapp|telegram|signal):(?:dm:|\+?[0-9]))|^agent:[^:]+:[^:]+:dm$")
_HOST_KEY = re.compile(r"(?i)^agent:[^:]*:(?:[^:]+$|[^:]*:)")
_GROUP = re.compile(rf"(?i)(?:^|:)(?:{'|'.join(sorted(PLATFORMS))}):(?:{'|'.join(sorted(GROUP_TYPES))})(?::|$)")
_BENCH = re.compile(r"(?i)^(?:skill-bench.*|(?:.*-)?bench(?:-ws)?)$", re.DOTALL)


# -- theme -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """A normalised identity: its theme, whether that differs from what was given, and the rule that decided.

    `reason` is `empty`, `dm-bucket`, `group-bucket`, `bench-bucket`, `bench-reject`, `not-in-allowlist`, `alias`, `lowercased`
    or `unchanged`.
    """

    theme: str
    changed: bool
    reason: str

    @property
    def kind(self) -> IdentityKind:
        """Return what sort of identity this theme stands for."""
        return kind_of(self.theme)


def resolve_identity(kwargs: Mapping[str, Any]) -> str:
    """Return the raw identity among the keyword arguments of the host's `initialize`; `default` when there is none.

    In order: `gateway_session_key`, `agent_identity` unless it is `default`, `agent_workspace`, `agent_identity`.
    """
    identity = _text(kwargs.get("agent_identity"))
    named = "" if identity.lower() == FALLBACK_THEME else identity
    return _text(kwargs.get("gateway_session_key")) or named or _text(kwargs.get("agent_workspace")) or identity or FALLBACK_THEME


def normalise(
    raw: str | None,
    *,
    allowed_themes: str | Iterable[str] | None = None,
    aliases: Mapping[str, str] | None = None,
    bench_mode: str = "bucket",
) -> Identity:
    """Return the identity that a raw value stands for; decided once when a session begins, never when reading.

    `allowed_themes` may be a comma-separated text. Themes are lower case. Aliases are compared without regard to case, except
    for what follows the chat type in a host's session key: there two contacts may differ by case alone.
    """
    given = raw if isinstance(raw, str) else ""
    value = _text(given)
    if not value:
        return Identity(FALLBACK_THEME, changed=True, reason="empty")
    alias = _alias(value, aliases or {})
    if alias is not None:
        value = _text(alias) or FALLBACK_THEME
    theme, reason = _classified(value, bench_mode)
    if not theme:
        theme = value.lower()
        reason = "alias" if alias is not None else "unchanged" if theme == value else "lowercased"
        allowed = theme_names(allowed_themes)
        if allowed and theme not in allowed and theme not in BUCKETS and theme != FALLBACK_THEME:
            theme, reason = FALLBACK_THEME, "not-in-allowlist"
    return Identity(theme, theme != given, reason)


def kind_of(theme: str) -> IdentityKind:
    """Return what sort of identity a theme stands for."""
    fixed: dict[str, IdentityKind] = {FALLBACK_THEME: "default", DM_BUCKET: "dm", GROUP_BUCKET: "group", BENCH_BUCKET: "bench"}
    return fixed.get(theme) or ("worker" if theme.startswith("agent-") else "theme")


def is_bucket(theme: str) -> bool:
    """Tell whether a theme is shared by contacts, whatever the case it was written in."""
    return theme.lower() in BUCKETS


def default_visibility(theme: str, setting: Visibility | str | None = None) -> Visibility:
    """Return the visibility of new rows: what the setting says, else `local` in buckets and `synced` elsewhere."""
    if setting in {"local", "synced"}:
        return "local" if setting == "local" else "synced"
    return "local" if is_bucket(theme) else "synced"


def theme_names(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return theme names, lower case, of a list or a comma-separated text; empty for None or nothing left."""
    items = given.split(",") if isinstance(given, str) else given or ()
    return tuple(dict.fromkeys(name for name in (_text(item).lower() for item in items) if name))


def _text(value: Any) -> str:
    return storable(value)[0].strip() if isinstance(value, str) else "" if value is None else str(value).strip()


def _alias(value: str, aliases: Mapping[str, str]) -> str | None:
    cleaned = {_text(raw): theme for raw, theme in aliases.items()}
    if value in cleaned:
        return cleaned[value]
    wanted = _without_case(value)
    return next((theme for raw, theme in cleaned.items() if _without_case(raw) == wanted), None)


def _without_case(value: str) -> str:
    if not _HOST_KEY.match(value):
        return value.lower()
    head, rest = value.split(":", 4)[:4], value.split(":", 4)[4:]
    return ":".join([*(part.lower() for part in head), *rest])


def _classified(value: str, bench_mode: str) -> tuple[str, str]:
    if _DM.search(value):
        return DM_BUCKET, "dm-bucket"
    if _HOST_KEY.match(value) or _GROUP.search(value):
        return GROUP_BUCKET, "group-bucket"
    if _BENCH.match(value):
        rejected = bench_mode.strip().lower() == "reject"
        return (FALLBACK_THEME, "bench-reject") if rejected else (BENCH_BUCKET, "bench-bucket")
    return "", ""


# -- subject ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A host's session key in its parts: `rest` is what follows the chat type, as it stands there."""

    platform: str
    chat_type: str
    rest: str


def parse_session_key(key: str) -> SessionKey:
    """Return the parts of a host's session key.

    Of `agent:<namespace>:<platform>:<chat type>:<rest>` the namespace does not count: one contact stays one contact. Shorter
    forms (`telegram:dm:1`, `dm:1`, `telegram:1`) give the same parts where they say the same; of any other key all is `rest`.
    """
    parts = _text(key).split(":")
    host = len(parts) > 2 and parts[0].lower() == "agent"  # noqa: PLR2004 - agent, namespace, platform
    if host:
        parts = parts[2:]
    platform = parts.pop(0).lower() if host or parts[0].lower() in PLATFORMS else ""
    chat_type = ""
    if parts and (host or parts[0].lower() == "dm" or parts[0].lower() in GROUP_TYPES):
        chat_type = parts.pop(0).lower()
    elif platform and parts and re.match(r"\+?[0-9]", parts[0]):
        chat_type = "dm"
    return SessionKey(platform, chat_type, ":".join(parts))


def subject_of(theme: str, kwargs: Mapping[str, Any], key: ContentKey) -> str | None:
    """Return the subject of a session: `""` outside buckets, a keyed hash (hex) inside, None when it cannot be known.

    With a session key the hash is over platform, chat type, chat and, for groups, thread as they stand in the key; where the
    host gives no chat id beside it, over the key's whole rest. Without a session key it is over the user, else the chat, else the
    identity that named the contact or the benchmark. None means: read nothing and keep what is captured waiting.
    """
    if not is_bucket(theme):
        return ""
    session_key = _text(kwargs.get("gateway_session_key"))
    if session_key and session_key.lower() not in BUCKETS:
        parts = parse_session_key(session_key)
        # A key without a chat is the same for many contacts: what the host tells beside it keeps them apart.
        contact = _contact(parts, kwargs) if parts.rest else _beside(parts.chat_type, kwargs)
        return key.digest("subject", parts.platform, parts.chat_type, contact)
    platform, chat_type = _text(kwargs.get("platform")).lower(), _text(kwargs.get("chat_type")).lower()
    for name in ("user_id", "user_id_alt", "chat_id"):
        if contact := _text(kwargs.get(name)):
            return key.digest("subject", platform, chat_type, contact)
    identity = resolve_identity(kwargs)
    if identity.lower() in BUCKETS:
        # The bucket itself was named, and no contact: whose rows would they be?
        return None
    parts = parse_session_key(identity)
    return key.digest("subject", parts.platform, parts.chat_type, parts.rest)


def _contact(parts: SessionKey, kwargs: Mapping[str, Any]) -> str:
    rest = parts.rest
    chat, thread = _text(kwargs.get("chat_id")), _text(kwargs.get("thread_id"))
    if not chat:
        return rest
    if rest == chat or rest.startswith(chat + ":"):
        kept = chat
        after = rest[len(chat) :]
        if thread and parts.chat_type != "dm" and (after == f":{thread}" or after.startswith(f":{thread}:")):
            kept += f":{thread}"
        return kept
    # The host wrote the chat in another form than it tells us: take away what is known not to be the chat.
    for name in ("user_id_alt", "user_id"):
        user = _text(kwargs.get(name))
        if user and parts.chat_type != "dm" and rest.endswith(f":{user}"):
            rest = rest[: -len(user) - 1]
            break
    if thread and parts.chat_type == "dm" and rest.endswith(f":{thread}"):
        rest = rest[: -len(thread) - 1]
    return rest


def _beside(chat_type: str, kwargs: Mapping[str, Any]) -> str:
    chat, thread = _text(kwargs.get("chat_id")), _text(kwargs.get("thread_id"))
    if chat:
        return f"{chat}:{thread}" if thread and chat_type != "dm" else chat
    return _text(kwargs.get("user_id")) or _text(kwargs.get("user_id_alt"))


# -- references ------------------------------------------------------------------------------------------------------------------

_SAFE_SESSION = re.compile(
    r"[0-9]{8}_[0-9]{6}(?:_[0-9a-fA-F]{4,32})?|(?:[a-z]{1,12}[-_])?(?=[0-9]*[a-fA-F])[0-9a-fA-F]{12,64}"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|h-[0-9a-f]{32}"
)
_PERSONAL = re.compile(r"(?i)[:@+/\\]|[0-9][0-9 ._()-]{5,}[0-9]|\bdm\b")
_CONTACT_FIELDS = ("user_id", "user_id_alt", "user_name", "chat_id", "chat_name", "thread_id")
_MIN_CONTACT = 3


def session_reference(session_id: str, key: ContentKey, kwargs: Mapping[str, Any] | None = None) -> str | None:
    """Return what may be stored of a session id: itself, or a keyed hash where it can name a person; None without a key.

    Ids in the host's own forms (time stamps, UUIDs, hex) stay. Others are hashed when they hold a piece of a session key, an
    address or a number as long as a telephone's; any when it holds one of the contact's identifiers in `kwargs`.
    """
    text = _text(session_id)
    if not text or (not _names_contact(text, kwargs or {}) and (_SAFE_SESSION.fullmatch(text) or not _PERSONAL.search(text))):
        return text
    digest = key.digest("session", text)
    return None if digest is None else f"h-{digest[:32]}"


def _names_contact(text: str, kwargs: Mapping[str, Any]) -> bool:
    known = [_text(kwargs.get(name)) for name in _CONTACT_FIELDS]
    if session_key := _text(kwargs.get("gateway_session_key")):
        known += [session_key, *parse_session_key(session_key).rest.split(":")]
    # Signs differ between a name and an id made of it: what counts are the words, in their order.
    words = f" {_words(text)} "
    return any(f" {piece} " in words for value in known if len(piece := _words(value)) >= _MIN_CONTACT)


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


_ALLOWED_METADATA = ("write_origin", "execution_context", "tool_name", "platform", "kind")
_PLAIN_WORD = re.compile(r"[A-Za-z][A-Za-z_.-]{0,63}")


def allowed_metadata(metadata: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what may be stored of the metadata that the host sends: a few plain words about how the text came about.

    Identifiers of people, chats, tasks and calls are on no list and therefore never stored.
    """
    found = {name: (metadata or {}).get(name) for name in _ALLOWED_METADATA}
    return {name: value for name, value in found.items() if isinstance(value, str) and _PLAIN_WORD.fullmatch(value)}


# -- reading ---------------------------------------------------------------------------------------------------------------------


def restricted_for(theme: str) -> frozenset[str]:
    """Return the bucket themes that a session of this theme may not read."""
    return BUCKETS - {theme.lower()}


def readable(theme: str, *, own: str, readable_themes: Iterable[str] | None = ()) -> bool:
    """Tell whether a session of the theme `own` may read `theme`.

    Its own always; another bucket never; an ordinary theme when it is listed, or when `readable_themes` is None or holds `*`.
    """
    wanted = theme.lower()
    if wanted == own.lower():
        return True
    if wanted in BUCKETS:
        return False
    if readable_themes is None:
        return True
    listed = {name.lower() for name in readable_themes}
    return ALL_THEMES in listed or wanted in listed
