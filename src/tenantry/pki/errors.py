"""What can be wrong with certificates that were stored or handed over."""

from __future__ import annotations

from tenantry.core import errors


class BrokenCertificateError(errors.TenantryError):
    """Raised when stored certificates or keys cannot be read or do not belong together."""

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what} cannot be used: {reason}")
