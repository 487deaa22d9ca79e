"""Errors that say which field, which value and what would be accepted."""

from __future__ import annotations


class TenantryError(Exception):
    """Raised when something a person can act on went wrong; the message is for that person."""


class InvalidValueError(TenantryError):
    """Raised when a value given from outside is not acceptable.

    :param field: path of the field as the author wrote it, such as ``spec.owners[0].kind``
    :param value: what was found there
    :param accepted: what would be accepted, in words
    """

    def __init__(self, field: str, value: object, accepted: str) -> None:
        self.field = field
        self.value = value
        self.accepted = accepted
        super().__init__(f"{field}: Invalid value: {shown(value)}: {accepted}")


def shown(value: object, limit: int = 120) -> str:
    """Quote a value for a message, cut to `limit` characters so that input cannot flood a log."""
    if isinstance(value, str):
        return f'"{_cut(value, limit - 2)}"'
    return _cut(str(value), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
