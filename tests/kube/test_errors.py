from __future__ import annotations

import msgspec
import pytest

from tenantry.core import errors as core_errors
from tenantry.kube import errors


def status(code: int, reason: str = "", message: str = "m", **extra: object) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": message,
            **extra,
        }
    )


@pytest.mark.parametrize(
    ("code", "reason", "cls"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.MethodNotAllowed),
        (406, "NotAcceptable", errors.NotAcceptable),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (410, "Gone", errors.Gone),
        (413, "RequestEntityTooLarge", errors.TooLarge),
        (415, "UnsupportedMediaType", errors.UnsupportedMediaType),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.InternalError),
        (500, "ServerTimeout", errors.ServerTimeout),
        (503, "ServiceUnavailable", errors.ServiceUnavailable),
        (504, "Timeout", errors.ServerTimeout),
        # The reason decides; a code alone, or a reason nobody knows, falls back to the code.
        (403, "", errors.Forbidden),
        (409, "", errors.Conflict),
        (404, "SomethingNew", errors.NotFound),
        (418, "", errors.ApiError),
    ],
)
def test_class_by_reason_then_code(code: int, reason: str, cls: type[errors.ApiError]) -> None:
    error = errors.from_response(code, status(code, reason))
    assert type(error) is cls
    assert (error.code, error.reason, error.is_status) == (code, reason, True)
    assert isinstance(error, errors.KubeError)
    assert isinstance(error, core_errors.TenantryError)


@pytest.mark.parametrize(
    "body", [b"", b"Bad Gateway", b"<html>", b"{}", b"[1]", b"\xff\xfe", b'{"kind":"Pod"}', b"null"]
)
def test_what_is_no_status_keeps_an_excerpt(body: bytes) -> None:
    error = errors.from_response(502, body)
    assert type(error) is errors.ApiError
    assert (error.code, error.reason, error.is_status) == (502, "", False)
    long = errors.from_response(404, b"x" * 10_000)
    assert type(long) is errors.NotFound
    assert len(long.message) == 300


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({}, {}, None),
        ({"Retry-After": "3"}, {}, 3.0),
        ({"Retry-After": "3"}, {"retryAfterSeconds": 7}, 3.0),
        ({}, {"retryAfterSeconds": 7}, 7.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None),
        ({"Retry-After": "-1"}, {}, None),
        ({"Retry-After": "٣"}, {}, None),
    ],
)
def test_retry_after(
    headers: dict[str, str], details: dict[str, object], expected: float | None
) -> None:
    body = status(429, "TooManyRequests", details=details)
    assert errors.from_response(429, body, headers).retry_after == expected


def test_message_names_reason_code_and_causes() -> None:
    error = errors.from_response(
        422,
        status(
            422,
            "Invalid",
            'Pod "a" is invalid',
            details={
                "name": "a",
                "kind": "Pod",
                "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec.x"}],
            },
        ),
    )
    assert str(error) == 'Pod "a" is invalid (Invalid 422)'
    assert errors.explain(error) == {
        "code": 422,
        "reason": "Invalid",
        "message": 'Pod "a" is invalid',
        "causes": [{"field": "spec.x", "message": "bad"}],
    }
    assert str(errors.ApiError(500)) == "no message (HTTP 500)"


def test_gone_carries_the_token_to_go_on_with() -> None:
    error = errors.from_response(410, status(410, "Expired", metadata={"continue": "abc"}))
    assert error.continue_token == "abc"


def test_conflict_lists_fields_of_others() -> None:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-edit" using apps/v1',
            "field": ".spec.replicas",
        },
        {"reason": "Other", "message": "x", "field": ".y"},
    ]
    error = errors.from_response(409, status(409, "Conflict", details={"causes": causes}))
    assert isinstance(error, errors.Conflict)
    assert error.fields == [errors.FieldConflict("kubectl-edit", ".spec.replicas")]


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (errors.from_response(409, status(409, "Conflict")), False),
        (errors.from_response(429, b"slow down"), False),
        (errors.from_response(502, b"bad gateway"), True),
        (errors.from_response(503, b"no upstream"), True),
        (errors.from_response(500, b"oops"), True),
        (errors.from_response(503, status(503, "ServiceUnavailable")), False),
        (errors.from_response(501, status(501)), False),
        (errors.from_response(500, status(500, "ServerTimeout")), False),
        (errors.from_response(504, status(504, "Timeout")), True),
        (
            errors.from_response(500, status(500, "InternalError", "etcdserver: leader changed")),
            True,
        ),
        (
            errors.from_response(
                500, status(500, "InternalError", 'failed calling webhook "x": refused')
            ),
            False,
        ),
        (
            errors.from_response(
                500,
                status(500, "InternalError", 'admission webhook "x" denied the request: later'),
            ),
            False,
        ),
    ],
)
def test_which_answers_leave_a_write_unknown(error: errors.ApiError, unknown: bool) -> None:
    assert errors.unknown_outcome(error) is unknown


def test_outcomes() -> None:
    assert errors.ApiError(409).outcome == "rejected"
    assert errors.Unreachable("x").outcome == "rejected"
    unknown = errors.OutcomeUnknown("POST /x", "cut", errors.ApiError(502))
    assert unknown.outcome == "unknown"
    assert str(unknown) == "POST /x: outcome unknown: cut"
    assert not isinstance(unknown, errors.ApiError)


def test_from_status_of_a_watch() -> None:
    assert type(errors.from_status(status(410, "Expired"))) is errors.Gone
    assert type(errors.from_status(status(0, "Expired"))) is errors.Gone
    assert errors.from_status(b"???").code == 500
