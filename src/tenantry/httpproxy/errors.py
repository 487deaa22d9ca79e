"""What can go wrong between two connections."""

from __future__ import annotations

from tenantry.core import errors


class ProxyError(errors.TenantryError):
    """Base of all errors of this package."""


class BadMessageError(ProxyError):
    """Raised when a message cannot be parsed exactly, or in only one way.

    :param code: the status code a client is answered with
    """

    def __init__(self, reason: str, code: int = 400) -> None:
        self.reason = reason
        self.code = code
        super().__init__(reason)


class UpstreamUnavailableError(ProxyError):
    """Raised when no upstream could be reached: nothing was sent, so trying again is safe."""

    def __init__(self, why: str) -> None:
        super().__init__(f"upstream cannot be reached: {why}")


class UpstreamBrokenError(ProxyError):
    """Raised when a connection ended before the answer did: the request may have had its effect."""

    def __init__(self, why: str) -> None:
        super().__init__(f"upstream connection broke: {why}")


class ClientGoneError(ProxyError):
    """Raised to a handler whose client has hung up."""

    def __init__(self) -> None:
        super().__init__("client closed the connection")


class TooLargeError(ProxyError):
    """Raised when a body that must be held in memory exceeds its bound."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"body exceeds {limit} bytes")
