"""What can go wrong with a template: it is refused, or it fails on some data."""

from __future__ import annotations

from tenantry.core import errors


class TemplateRefusedError(errors.InvalidValueError):
    """Raised when a template cannot be accepted, whatever the data.

    :param line: counted from 1
    :param column: in characters, counted from 1
    """

    def __init__(self, field: str, source: str, line: int, column: int, reason: str) -> None:
        self.line = line
        self.column = column
        self.reason = reason
        super().__init__(field, source, f"line {line}:{column}: {reason}")


class TemplateFailedError(errors.TenantryError):
    """Raised when a template cannot be filled from the data given."""

    def __init__(self, field: str, line: int, column: int, reason: str) -> None:
        self.field = field
        self.line = line
        self.column = column
        self.reason = reason
        super().__init__(f"{field}: line {line}:{column}: {reason}")


class TemplateLimitError(TemplateFailedError):
    """Raised when filling a template takes more than its budget."""


class Failure(Exception):
    """Raised inside the engine; what runs closest to it says where in the source that was."""

    at: int | None = None


class Exhausted(Failure):
    """Raised inside the engine when a budget is used up."""
