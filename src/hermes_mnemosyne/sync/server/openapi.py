"""The description of the server's paths (OpenAPI 3.1), from which clients may be made and a fuzzer tests the server."""

from __future__ import annotations

from typing import Any

from hermes_mnemosyne.sync.server.asking import LONGEST_WAIT
from hermes_mnemosyne.sync.server.exchange import MOST_UIDS
from hermes_mnemosyne.sync.wire import MAX_RECORDS, PAGE_RECORDS, PAGE_TYPE, PROTOCOL

_LARGEST = 2**63 - 1
_ERROR = {"$ref": "#/components/schemas/Error"}


def description() -> dict[str, Any]:
    """Return the description."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mnemosyne sync", "version": str(PROTOCOL), "description": "docs/sync-protocol.md says what it means."},
        "security": [{"bearer": []}, {"signed": []}],
        "paths": {
            "/healthz": {"get": {**_get("Whether the server answers", _json(_health())), "security": []}},
            "/v1/status": {"get": _get("Who the server is, and what this key may do", _json(_status()))},
            "/v1/changes": {"get": _pull(), "post": _push()},
            "/v1/rows": {"post": _rows()},
            "/v1/digests": {"get": _digests()},
            "/v1/openapi.json": {"get": _get("This description", _json({"type": "object"}))},
            "/metrics": {"get": _get("Figures for Prometheus", {"description": "OK", "content": {"text/plain": {}}})},
        },
        "components": {
            "schemas": {"Error": _object({"error": {"type": "string"}, "message": {"type": "string"}}, "error", "message")},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "signed": {"type": "http", "scheme": "mnemosyne", "description": "Requests signed over clear HTTP"},
            },
        },
    }


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "OK", "content": {"application/json": {"schema": schema}}}


_PAGE = {"description": "A page of records, compressed", "content": {PAGE_TYPE: {}}}


def _get(summary: str, answer: dict[str, Any], *parameters: dict[str, Any]) -> dict[str, Any]:
    refusals = {"description": "Refused", "content": {"application/json": {"schema": _ERROR}}}
    return {"summary": summary, "parameters": list(parameters), "responses": {"200": answer, "4XX": refusals, "5XX": refusals}}


def _query(name: str, schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": schema}


def _whole(least: int, most: int, default: int | None = None) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most, **({} if default is None else {"default": default})}


_REPLICA = {"type": "string", "pattern": "^[0-9A-Za-z_-]{1,64}$"}
_MARK = {"type": "string", "maxLength": 64}
_NAME = {"type": "string", "maxLength": 1024}
_THEMES = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 1024}, "maxItems": 20}


_FLAG = {"type": "integer", "enum": [0, 1]}


def _filters() -> list[dict[str, Any]]:
    return [_query("include", _THEMES), _query("exclude", _THEMES), _query("turns", _FLAG), _query("sealed", _FLAG)]


def _health() -> dict[str, Any]:
    return _object({"status": {"const": "ok"}}, "status")


def _status() -> dict[str, Any]:
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    nullable = {"type": ["string", "null"]}
    return _object(
        {
            "product": {"const": "mnemosyne"},
            "protocol": {"type": "integer"},
            "capabilities": texts,
            "replica": text,
            "position": _whole(0, _LARGEST),
            "now": text,
            "rights": texts,
            "themes": {"type": ["array", "null"], "items": text},
            "model": nullable,
            "subject_key": nullable,
            "sealed": {"type": ["boolean", "null"]},
        },
        *(
            "product",
            "protocol",
            "capabilities",
            "replica",
            "position",
            "now",
            "rights",
            "themes",
            "model",
            "subject_key",
            "sealed",
        ),
    )


def _pull() -> dict[str, Any]:
    return _get(
        "A page of the server's rows after a position",
        _PAGE,
        _query("replica", _REPLICA),
        _query("mark", _MARK),
        _query("after", _whole(0, _LARGEST, 0)),
        _query("limit", _whole(1, MAX_RECORDS, PAGE_RECORDS)),
        _query("wait", {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT}),
        _query("skip", {"type": "string", "pattern": r"^([0-9]{1,18}-[0-9]{1,18}(,[0-9]{1,18}-[0-9]{1,18}){0,63})?$"}),
        _query("model", _NAME),
        *_filters(),
    )


def _push() -> dict[str, Any]:
    rows = {"type": "array", "items": {"type": "object"}}
    whole = {"type": "integer"}
    answer = _object(
        {
            "protocol": whole, "records": whole, "refused": rows, "set_aside": rows, "restamped": rows, "first": whole, "last": whole,
            "mixed": {"type": "boolean"}, "mark": {"type": "string"}, "now": {"type": "string"}, "stale": rows, "misdated": rows,
        },
        *("protocol", "records", "refused", "set_aside", "restamped", "first", "last", "mixed", "mark", "now"),
    )  # fmt: skip
    return {
        **_get(
            "A page of the client's rows, taken in as a whole",
            _json(answer),
            _query("replica", _REPLICA, required=True),
            _query("mark", _MARK),
            _query("sealed", _FLAG),
            _query("seen", _whole(0, _LARGEST)),
            {"name": "Content-Encoding", "in": "header", "schema": {"type": "string", "enum": ["identity", "gzip"]}},
        ),
        "requestBody": {"required": True, "content": {PAGE_TYPE: {"schema": {"type": "string"}}}},
    }


def _rows() -> dict[str, Any]:
    uids = {"type": "array", "maxItems": MOST_UIDS, "items": {"type": "string", "minLength": 1, "maxLength": 1024}}
    body = _object({"replica": {"type": "string"}, "uids": uids}, "uids")
    return {
        **_get("Every record about some ids", _PAGE, *_filters()),
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
    }


def _digests() -> dict[str, Any]:
    rows = {"type": "array", "items": {"type": "array"}}
    return _get(
        "Digests of all places, of the buckets of one, or the rows of one bucket",
        _json({"type": "object", "properties": {"places": rows, "buckets": rows, "rows": rows}}),
        _query("theme", {"type": "string", "minLength": 1, "maxLength": 1024}),
        _query("subject", _NAME),
        _query("bucket", _whole(0, 255)),
        *_filters(),
    )
