"""The bodies of answers that are the gateway's own. Pure."""

from __future__ import annotations

import http
from typing import Any

import msgspec

from tenantry.gateway import errors, paths
from tenantry.httpproxy import exchange

JSON = (b"content-type", b"application/json")

GONE = "what you may see has changed; list again"
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    410: "Expired",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
    500: "InternalError",
    502: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def body(code: int, message: str, reason: str = "", details: dict[str, Any] | None = None) -> bytes:
    """Return a v1 Status."""
    found: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason or _REASONS.get(code, http.HTTPStatus(code).phrase.replace(" ", "")),
        "code": code,
    }
    if details:
        found["details"] = details
    return msgspec.json.encode(found)


def answer(code: int, message: str, reason: str = "", *, retry: bool = False) -> exchange.Answer:
    """Return an answer with a Status; with `retry` the client may try again in a second."""
    headers = [JSON]
    details = None
    if retry or code == 429:
        headers.append((b"retry-after", b"1"))
        details = {"retryAfterSeconds": 1}
    if code == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return exchange.Answer(code, body(code, message, reason, details), headers)


def refusal(error: errors.Refused) -> exchange.Answer:
    """Say why a request ends here."""
    return answer(error.code, error.message, error.reason, retry=error.code == 503)


def engine_error(code: int, why: str, retry: bool) -> exchange.Answer:
    """Word an error of the engine as the API does."""
    return answer(code, why, retry=retry)


def not_found(asked: paths.Target) -> exchange.Answer:
    """Say that an object does not exist, as the API server says it."""
    kind = f"{asked.plural}.{asked.group}" if asked.group else asked.plural
    details = {"name": asked.name, "kind": asked.plural}
    if asked.group:
        details["group"] = asked.group
    content = body(404, f'{kind} "{asked.name}" not found', "NotFound", details)
    return exchange.Answer(404, content, [JSON])


def gone() -> bytes:
    """Return the watch event that makes a client list again."""
    found = body(410, GONE, "Expired")
    return b'{"type":"ERROR","object":' + found + b"}\n"
