"""Errors of the engine: why something is set aside, and what a caller got wrong."""

from __future__ import annotations

from tenantry.core import errors


class SetAside(errors.TenantryError):
    """Raised when one job, task or queue cannot be scheduled as it is written.

    The cycle goes on without it; the message becomes its reason.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class UnknownName(errors.TenantryError):
    """Raised when a configuration names an action or plugin that does not exist."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        self.name = name
        super().__init__(f'unknown {kind} "{name}"; known are {", ".join(known)}')


class InvalidArguments(errors.TenantryError):
    """Raised when a configuration gives a plugin arguments that it cannot use."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        super().__init__(f'arguments of plugin "{name}": {why}')


class InvalidSnapshot(errors.TenantryError):
    """Raised when a file is not a snapshot that can be read."""
