"""What a tenancy decision can say besides yes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Denial:
    """A refusal: the message is what the user reads, the code the HTTP status."""

    message: str
    code: int = 403

    @property
    def reason(self) -> str:
        """Return the reason by which clients tell refusals apart."""
        return _REASONS.get(self.code, "Forbidden")


_REASONS = {
    400: "BadRequest",
    409: "AlreadyExists",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}
