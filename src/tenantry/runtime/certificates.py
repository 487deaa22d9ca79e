"""Serving certificates that may change while the server runs.

Loading a chain into the live `SSLContext` is enough: the next handshake uses it, open connections
keep what they have. A pair is tried in a context of its own first, so that a half-written file or a
key that does not belong to the certificate leaves the server as it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import pathlib
import ssl
from collections.abc import Callable

from tenantry.core import keypair
from tenantry.runtime import errors, metrics

logger = logging.getLogger(__name__)

#: Certificate chain and private key, PEM.
Pair = tuple[bytes, bytes]
Source = Callable[[], Pair]


def from_files(certificate: pathlib.Path, key: pathlib.Path) -> Source:
    """Read the pair from two files each time."""

    def read() -> Pair:
        return certificate.read_bytes(), key.read_bytes()

    return read


def server_context(clients: bytes = b"") -> ssl.SSLContext:
    """Return a context for a server that faces the cluster.

    :param clients: authorities (PEM) one of which must have signed the certificate that a client
        presents; whether it must present one is for the server to say, path by path, since API
        servers have none where they ask for conversions
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if clients:
        context.load_verify_locations(cadata=clients.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class Watcher:
    """Keep a live context equal to a source."""

    def __init__(
        self,
        source: Source,
        *,
        interval: float,
        clients: bytes = b"",
        registry: metrics.Registry | None = None,
    ) -> None:
        self._source = source
        self._interval = interval
        self._digest = b""
        registry = registry or metrics.Registry()
        self._reads = registry.counter(
            "certwatcher_read_certificate_total", "Looks at the certificate."
        )
        self._errors = registry.counter(
            "certwatcher_read_certificate_errors_total", "Certificates that could not be used."
        )
        self.context = server_context(clients)

    def load(self) -> bool:
        """Look at the source; return whether a new pair is in use now.

        :raises CertificateError: when there is none to use; what was in use stays
        """
        self._reads.inc()
        try:
            pair = self._source()
            digest = hashlib.sha256(pair[0] + b"\0" + pair[1]).digest()
            if digest == self._digest:
                return False
            keypair.load(server_context(), *pair)
            keypair.load(self.context, *pair)
        except (OSError, ssl.SSLError, ValueError) as error:
            self._errors.inc()
            raise errors.CertificateError(f"serving certificate cannot be used: {error}") from error
        self._digest = digest
        return True

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                if self.load():
                    logger.info("certificate_reloaded")
            except errors.CertificateError as error:
                logger.error("certificate_not_reloaded", extra={"why": str(error)})
