"""Errors of the runtime."""

from __future__ import annotations

from tenantry.core import errors


class TerminalError(errors.TenantryError):
    """Raised by a reconcile when trying again cannot help until something else changes.

    It is logged and counted; the key is not queued again.
    """


class NotSyncedError(errors.TenantryError):
    """Raised when caches did not fill within their deadline."""

    def __init__(self, waiting: list[str], seconds: float) -> None:
        self.waiting = waiting
        super().__init__(f"caches not filled after {seconds:g} s: {', '.join(waiting)}")


class ClosedError(errors.TenantryError):
    """Raised when something is asked of a queue, informer or cluster that was closed."""


class CacheFullError(errors.TenantryError):
    """Raised when the caches of a cluster hold more than they may: its handle must be closed.

    There is nothing that a cache could leave out and still be one.
    """

    def __init__(self, resource: str, most: int) -> None:
        self.resource = resource
        super().__init__(
            f"the caches may hold {most} bytes, and a further object of {resource} does not fit"
        )


class CrashedError(errors.TenantryError):
    """Raised when a part that must never end has ended."""

    def __init__(self, part: str) -> None:
        self.part = part
        super().__init__(f"{part} ended although nobody stopped it")


class PatchError(errors.TenantryError):
    """Raised when a JSON patch does not fit the document it is applied to."""


class CertificateError(errors.TenantryError):
    """Raised when a serving certificate cannot be loaded."""
