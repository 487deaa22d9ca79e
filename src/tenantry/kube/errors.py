"""What can go wrong with a request, by what the caller may conclude from it.

`ApiError`: the server answered with a refusal; the operation did not happen.
`Unreachable`: the request did not reach the server, or a read was cut; nothing happened.
`OutcomeUnknown`: a write was sent and its answer is missing or says nothing about the outcome.
`ConfigError`: no request can be made at all.
`NotServed`: there is nowhere to send an object of that kind.

The classification follows `k8s.io/apimachinery/pkg/api/errors`: by `reason`, and where that is
empty or not known here, by HTTP code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from tenantry.core import errors

Outcome = Literal["rejected", "unknown"]


class ConfigError(errors.TenantryError):
    """Raised when configuration or credentials cannot be read or do not fit together."""


class NotServed(errors.TenantryError):
    """Raised when the API server does not know a kind of objects, at least not yet."""


class KubeError(errors.TenantryError):
    """Raised by any request; `outcome` says what is known of a write."""

    outcome: ClassVar[Outcome] = "rejected"


class Unreachable(KubeError):
    """Raised when no connection was made, or when a read or a watch was cut or timed out."""


class AnswerTooLarge(Unreachable):
    """Raised when a read brings more bytes than the client takes; another try would, too."""


class OutcomeUnknown(KubeError):
    """Raised when a write may or may not have happened; read back before repeating it.

    :param operation: method and path
    :param why: what is missing, in words
    :param answer: the server's answer where there was one
    """

    outcome: ClassVar[Outcome] = "unknown"

    def __init__(self, operation: str, why: str, answer: ApiError | None = None) -> None:
        self.operation = operation
        self.answer = answer
        super().__init__(f"{operation}: outcome unknown: {why}")


class Cause(msgspec.Struct, gc=False, kw_only=True):
    """One detail of a refusal: a field and what is wrong with it."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """What a refusal is about (`metav1.StatusDetails`)."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[Cause] | None = None
    retry_after_seconds: float = 0


class _ListMeta(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    continue_: str = msgspec.field(name="continue", default="")


class _Status(msgspec.Struct, gc=False, kw_only=True):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None
    metadata: _ListMeta | None = None


class ApiError(KubeError):
    """Raised when the server refused.

    :param code: HTTP status
    :param reason: `metav1.StatusReason`; "" when the answer was not a Status
    :param retry_after: seconds the server asks to wait, None when it does not say
    :param continue_token: with `Gone` on a paged list: continue inconsistently from here
    :param is_status: whether the answer was a `Status` of the API server itself, rather than of
        something in between
    """

    #: Reasons that select this class, then the code for answers without a known reason.
    REASONS: ClassVar[tuple[str, ...]] = ()
    CODE: ClassVar[int] = 0

    def __init__(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        details: Details | None = None,
        retry_after: float | None = None,
        *,
        continue_token: str = "",
        is_status: bool = False,
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or Details()
        self.retry_after = retry_after
        self.continue_token = continue_token
        self.is_status = is_status
        super().__init__(f"{message or 'no message'} ({reason or 'HTTP'} {code})")

    @property
    def causes(self) -> list[Cause]:
        """Give the details field by field."""
        return self.details.causes or []


class BadRequest(ApiError):
    """Raised when the request cannot be understood."""

    REASONS = ("BadRequest",)
    CODE = 400


class Unauthorized(ApiError):
    """Raised when the server does not know who asks: missing, expired or foreign credentials."""

    REASONS = ("Unauthorized",)
    CODE = 401


class Forbidden(ApiError):
    """Raised when authorisation, admission or a quota forbids it."""

    REASONS = ("Forbidden",)
    CODE = 403


class NotFound(ApiError):
    """Raised when the object, or the kind itself, does not exist."""

    REASONS = ("NotFound",)
    CODE = 404


class MethodNotAllowed(ApiError):
    """Raised when the kind does not support the verb."""

    REASONS = ("MethodNotAllowed",)
    CODE = 405


class NotAcceptable(ApiError):
    """Raised when the server cannot answer in the form asked for."""

    REASONS = ("NotAcceptable",)
    CODE = 406


class FieldConflict(msgspec.Struct, frozen=True):
    """One field that another manager owns, as an apply without force finds it."""

    manager: str
    field: str


class Conflict(ApiError):
    """Raised when the object changed since it was read, or a field belongs to somebody else."""

    REASONS = ("Conflict",)
    CODE = 409

    @property
    def fields(self) -> list[FieldConflict]:
        """List the fields of other managers; empty when the conflict is about the version."""
        return [
            # conflict with "kubectl-edit" using apps/v1 at 2026-01-01T00:00:00Z
            FieldConflict(
                manager=cause.message.partition('"')[2].partition('"')[0], field=cause.field
            )
            for cause in self.causes
            if cause.reason == "FieldManagerConflict"
        ]


class AlreadyExists(Conflict):
    """Raised by a create whose name is taken; also a 409, so a `Conflict`."""

    REASONS = ("AlreadyExists",)
    CODE = 0


class Gone(ApiError):
    """Raised when a resourceVersion or continue token is too old: list again."""

    REASONS = ("Expired", "Gone")
    CODE = 410


class PreconditionFailed(ApiError):
    """Raised by proxies; the API server answers a failed precondition with `Conflict`."""

    CODE = 412


class TooLarge(ApiError):
    """Raised when the request body exceeds the server's limit."""

    REASONS = ("RequestEntityTooLarge",)
    CODE = 413


class UnsupportedMediaType(ApiError):
    """Raised when the kind does not accept that form of patch (strategic on a custom resource)."""

    REASONS = ("UnsupportedMediaType",)
    CODE = 415


class Invalid(ApiError):
    """Raised when validation fails; `causes` lists the fields."""

    REASONS = ("Invalid",)
    CODE = 422


class TooManyRequests(ApiError):
    """Raised when the server sheds load, or a disruption budget forbids an eviction now."""

    REASONS = ("TooManyRequests",)
    CODE = 429


class InternalError(ApiError):
    """Raised when the server failed; also when it could not reach a webhook or its storage."""

    REASONS = ("InternalError",)
    CODE = 500


class ServerTimeout(ApiError):
    """Raised when the server could not answer in time: reason ServerTimeout (500) or Timeout (504)."""

    REASONS = ("ServerTimeout", "Timeout")
    CODE = 504


class ServiceUnavailable(ApiError):
    """Raised while the server starts, stops, or lacks what is behind it."""

    REASONS = ("ServiceUnavailable",)
    CODE = 503


_CLASSES: tuple[type[ApiError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    Conflict,
    AlreadyExists,
    Gone,
    PreconditionFailed,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServerTimeout,
    ServiceUnavailable,
)
_BY_REASON = {reason: cls for cls in _CLASSES for reason in cls.REASONS}
_BY_CODE = {cls.CODE: cls for cls in _CLASSES if cls.CODE}
#: Bytes of a body that is no Status which are repeated in the message.
_EXCERPT = 300


def from_response(code: int, body: bytes, headers: Mapping[str, str] | None = None) -> ApiError:
    """Turn an answer that is not 2xx into the error it means.

    :param headers: of the answer; `Retry-After` in seconds is taken from it (the API server
        never sends a date)
    """
    status = _status(body)
    if status is None:
        message = body[:_EXCERPT].decode("utf-8", "replace").strip()
        cls = _BY_CODE.get(code, ApiError)
        return cls(code, "", message, retry_after=_retry_after(headers, None))
    return _build(code or status.code, status, headers)


def from_status(raw: bytes) -> ApiError:
    """Turn the object of a watch's ERROR event into the error it means."""
    status = _status(raw)
    if status is None:
        return InternalError(500, "", raw[:_EXCERPT].decode("utf-8", "replace"))
    return _build(status.code or 500, status, None)


#: How a 500 begins that a webhook caused: by failing, or by refusing with that very code.
_ASKED_BEFORE = ("failed calling webhook", " denied the request")


def unknown_outcome(error: ApiError) -> bool:
    """Tell whether a write answered with `error` may nevertheless have happened.

    5xx that is no Status comes from something between us and the API server. With a Status:
    504 is the request's own time-out, 500 InternalError covers etcd errors after the write was
    proposed, and panics. ServerTimeout, 501 and 503 are said before anything is done, and a
    webhook is asked before the write.
    """
    if error.code < 500:
        return False
    if not error.is_status:
        return True
    if error.code in {501, 503} or error.reason == "ServerTimeout":
        return False
    return not any(words in error.message for words in _ASKED_BEFORE)


def _build(code: int, status: _Status, headers: Mapping[str, str] | None) -> ApiError:
    cls = _BY_REASON.get(status.reason) or _BY_CODE.get(code, ApiError)
    return cls(
        code,
        status.reason,
        status.message,
        status.details,
        _retry_after(headers, status.details),
        continue_token=status.metadata.continue_ if status.metadata else "",
        is_status=True,
    )


def _status(body: bytes) -> _Status | None:
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def _retry_after(headers: Mapping[str, str] | None, details: Details | None) -> float | None:
    text = (headers or {}).get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    if details is not None and details.retry_after_seconds > 0:
        return float(details.retry_after_seconds)
    return None


def explain(error: ApiError) -> dict[str, Any]:
    """Give the error as structured log fields."""
    return {
        "code": error.code,
        "reason": error.reason,
        "message": error.message,
        "causes": [{"field": cause.field, "message": cause.message} for cause in error.causes],
    }
