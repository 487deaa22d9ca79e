"""A serving certificate that somebody else keeps in files, such as cert-manager's Secret mounted."""

from __future__ import annotations

from pathlib import Path

from tenantry.pki import authority
from tenantry.pki import errors as pki_errors
from tenantry.runtime import certificates

#: What cert-manager writes beside the pair; by it the API server recognises the server.
AUTHORITY = "ca.crt"


class FileCertificate:
    """Reads the pair each time it is asked for; writes nothing."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._read = certificates.from_files(certificate, key)
        self._authority = certificate.with_name(AUTHORITY)
        self._trust = b""

    @property
    def trust(self) -> bytes:
        """Return the authority beside the certificate; empty where there is none."""
        return self._trust

    def pair(self) -> tuple[bytes, bytes]:
        """Return the certificate chain and private key, PEM."""
        return self._read()

    def check(self) -> str:
        """Say what keeps it from being used."""
        try:
            self.pair()
        except OSError as problem:
            return f"serving certificate cannot be read: {problem}"
        return ""

    async def renew(self) -> bool:
        """Look again."""
        return await self.refresh()

    async def refresh(self) -> bool:
        """Read the authority; the pair is watched by the server."""
        before = self._trust
        try:
            found = self._authority.read_bytes()
            authority.load_certificate(found)
        except (OSError, ValueError, pki_errors.BrokenCertificateError):
            # Half written, or none: the next look finds it.
            return False
        self._trust = found
        return found != before
