"""Why the gateway answers a request by itself."""

from __future__ import annotations

from tenantry.core import errors


class Refused(errors.TenantryError):
    """Raised when a request ends here.

    :param code: HTTP status
    :param reason: machine-readable reason of the Status
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        super().__init__(message)


class Unauthenticated(Refused):
    """Raised when nobody can be made out; 401, at which clients renew their tokens."""

    def __init__(self, why: str = "") -> None:
        super().__init__(401, "Unauthorized", f"Unauthorized: {why}" if why else "Unauthorized")


class Forbidden(Refused):
    """Raised when the caller may not do what was asked."""

    def __init__(self, message: str) -> None:
        super().__init__(403, "Forbidden", message)


class Malformed(Refused):
    """Raised when a request could be understood in more than one way."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


class NotAcceptable(Refused):
    """Raised when an answer in no form that the client accepts can be narrowed."""

    def __init__(self, message: str) -> None:
        super().__init__(406, "NotAcceptable", message)
