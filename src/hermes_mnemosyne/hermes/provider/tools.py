"""The two tools of the agent: their schemas, what they accept, and the JSON they answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermes_mnemosyne._errors import MnemosyneError, StoreError
from hermes_mnemosyne.text import neutralise
from hermes_mnemosyne.values import TARGETS, Hit, Kind, RecallQuery, RecallResult, Target

MEMORY_TOOL = "recall_memory"
CONVERSATION_TOOL = "recall_conversation"
DEFAULT_LIMIT, MOST = 5, 20
CONTENT_CHARS = 2000
ERROR_CHARS = 300
SCOPE_CHARS = 80

_SECRET = re.compile(r"\b(password|passfile|sslkey|sslpassword)(\s*=\s*)('[^']*'|\S+)", re.IGNORECASE)


def schemas() -> list[dict[str, Any]]:
    """Return the schemas of both tools."""
    query = {"type": "string", "description": "What to look for: names, identifiers and rare words find most."}
    limit = {"type": "integer", "default": DEFAULT_LIMIT, "description": f"Most results, 1 to {MOST}."}
    return [
        {
            "name": MEMORY_TOOL,
            "description": (
                "Search durable memories: facts, preferences and notes kept across sessions, beyond those shown in the prompt. "
                "An empty answer means that nothing relevant is stored."
            ),
            "parameters": {
                "type": "object",
                "properties": {
                    "query": query,
                    "scope": {
                        "type": "string",
                        "default": "current",
                        "description": "current (this theme), all (every readable theme) or the name of a theme.",
                    },
                    "target": {
                        "type": "string",
                        "enum": ["memory", "user", "both"],
                        "default": "both",
                        "description": "memory (notes), user (about the user) or both.",
                    },
                    "limit": limit,
                },
                "required": ["query"],
            },
        },
        {
            "name": CONVERSATION_TOOL,
            "description": (
                "Search what was said in earlier conversations, and in this one before its context was compressed. "
                "An empty answer means that nothing relevant was said."
            ),
            "parameters": {
                "type": "object",
                "properties": {
                    "query": query,
                    "scope": {
                        "type": "string",
                        "default": "current",
                        "description": "current (this theme), session (this session only), all (every readable theme) or the name of a theme.",
                    },
                    "limit": limit,
                },
                "required": ["query"],
            },
        },
    ]


class ArgumentError(MnemosyneError):
    """The model's arguments cannot be used; the message is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Who asks: the own theme, the session, the themes shared by contacts that are closed to it, and the default scope."""

    theme: str
    session_id: str
    restricted: frozenset[str]
    scope_default: str = "current"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as the engine understands it."""

    tool: str
    query: RecallQuery
    scope: str


def parse_call(tool: str, args: Any, reader: Reader) -> Call:
    """Return the call that a model meant. Raises ArgumentError in the order in which arguments are looked at."""
    given: Mapping[str, Any] = args if isinstance(args, Mapping) else {}
    query = _text(given.get("query"))
    if not query:
        raise ArgumentError("Missing required arg: query")
    limit = _limit(given.get("limit"))
    scope, themes, session_id = _scope(tool, _text(given.get("scope")), reader)
    kinds: tuple[Kind, ...] = ("entry",) if tool == MEMORY_TOOL else ("turn",)
    target = _target(_text(given.get("target"))) if tool == MEMORY_TOOL else None
    return Call(
        tool=tool,
        scope=scope,
        query=RecallQuery(text=query, limit=limit, kinds=kinds, target=target, themes=themes, session_id=session_id),
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _limit(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return DEFAULT_LIMIT
    return min(max(number, 1), MOST)


def _scope(tool: str, given: str, reader: Reader) -> tuple[str, tuple[str, ...] | None, str | None]:
    """Return the scope, the themes it stands for (None: all readable ones), and the session it is limited to."""
    scope = given.lower() or (reader.scope_default.strip().lower() if tool == MEMORY_TOOL else "") or "current"
    if scope == "current":
        return scope, (reader.theme,), None
    if scope == "session":
        if tool == MEMORY_TOOL:
            raise ArgumentError(f"scope '{given or scope}' is only valid for {CONVERSATION_TOOL}: use current, all or a theme")
        # Without a session there is nothing to limit to but the theme.
        return scope, (reader.theme,), reader.session_id or None
    if scope == "all":
        return scope, None, None
    if scope in reader.restricted and scope != reader.theme:
        raise ArgumentError(f"scope '{given or scope}' is private to its own contacts and cannot be read from here")
    return scope, (scope,), None


def _target(given: str) -> Target | None:
    chosen = given.lower() or "both"
    if chosen == "both":
        return None
    for target in TARGETS:
        if chosen == target:
            return target
    raise ArgumentError(f"Invalid target: {given!r}")


# -- answers ---------------------------------------------------------------------------------------------------------------------


def answer(call: Call, result: RecallResult, *, fused: bool = True) -> str:
    """Return the JSON text of a result; an empty one says what was searched, and that a repeat will not find more.

    Without `fused` the ranking is that of vectors alone, and no fused score is shown.
    """
    shape = _entry if call.tool == MEMORY_TOOL else _turn
    results = [shape(hit) | ({"rrf_score": round(hit.score, 6)} if fused else {}) for hit in result.hits]
    reply: dict[str, Any] = {"results": results, "count": len(results)}
    if result.degraded:
        reply["degraded"] = list(result.degraded)
    if not result.hits:
        reply["note"] = _nothing(call, result)
    return _json(reply)


def argument_error(message: str) -> str:
    """Return the JSON text for a call that cannot be understood."""
    return _json({"error": _told(message)})


def runtime_error(message: str) -> str:
    """Return the JSON text for a call that could not be answered."""
    return _json({"results": [], "count": 0, "error": _told(message)})


def trouble(error: Exception) -> str:
    """Return the JSON text for a failure while a call was answered."""
    return runtime_error(f"db: {error}" if isinstance(error, StoreError) else str(error) or type(error).__name__)


def _nothing(call: Call, result: RecallResult) -> str:
    what = "memories" if call.tool == MEMORY_TOOL else "messages"
    if "empty-query" in result.notes:
        return f"The query holds no word to search for, so none of {result.searched} {what} was compared."
    partly = " A part of the search was not available (see degraded)." if result.degraded else ""
    return (
        f"Searched {result.searched} {what} (scope {_told(call.scope)[:SCOPE_CHARS]}): nothing relevant is stored. "
        f"The same search again, or in other words for the same thing, will not find more.{partly}"
    )


def _entry(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.uid,
        "agent_identity": hit.theme,
        "target": hit.target,
        "ts": _iso(hit.updated_at or hit.created_at),
        **_scored(hit),
    }


def _turn(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.uid,
        "agent_identity": hit.theme,
        "session_id": hit.session_id,
        "role": hit.role,
        "ts": _iso(hit.occurred_at or hit.created_at),
        **_scored(hit),
    }


def _scored(hit: Hit) -> dict[str, Any]:
    return {
        "score": None if hit.similarity is None else round(hit.similarity, 4),
        "content": neutralise(hit.content)[:CONTENT_CHARS],
    }


def _iso(moment: str) -> str:
    return f"{moment[:-1]}+00:00" if moment.endswith("Z") else moment


def _told(message: str) -> str:
    return _SECRET.sub(r"\1\2[redacted]", neutralise(message))[:ERROR_CHARS]


def _json(value: Any) -> str:
    # A model may have sent half a character, which no encoding takes back.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
