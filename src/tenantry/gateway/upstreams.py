"""The API server as the engine reaches it: as anybody, and as the gateway."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import ssl
from urllib import parse

from tenantry.core import errors as core_errors
from tenantry.httpproxy import connections, upstream
from tenantry.kube import config as configs
from tenantry.kube import credentials, tls

logger = logging.getLogger(__name__)

#: Seconds between two looks at our own credentials.
_REFRESH = 15.0


class Upstreams:
    """Two pools that never mix.

    `plain` proves nothing about anybody: what a caller sends on it counts for as much as the
    caller's own credentials. `own` may carry our client certificate.
    """

    def __init__(self, config: configs.Config) -> None:
        self._config = config
        self._source = credentials.Source(config)
        self._current: credentials.Credential | None = None
        address = parse.urlsplit(config.server)
        if address.path or config.proxy_url:
            raise core_errors.InvalidValueError(
                "server", config.server, "an address without a path, reached without a proxy"
            )
        port = address.port or (443 if address.scheme == "https" else 80)
        addresses = [connections.Address(address.hostname or "", port)]
        name = config.tls_server_name
        self.plain = upstream.Upstream(addresses, server_name=name)
        self.own = upstream.Upstream(addresses, server_name=name)
        self._secure = address.scheme == "https"
        #: The `Authorization` header of our own; empty when a certificate speaks for us.
        self.authorization = b""

    async def refresh(self) -> None:
        """Read our credentials again."""
        found = await self._source.get()
        if found is self._current:
            return
        self._current = found
        self.authorization = found.authorization.encode()
        if self._secure:
            nobody = dataclasses.replace(found, cert=b"", key=b"", authorization="")
            self.plain.replace_tls(self._context(nobody))
            self.own.replace_tls(self._context(found))

    async def keep_fresh(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await asyncio.sleep(_REFRESH)
            try:
                await self.refresh()
            except core_errors.TenantryError as error:
                logger.warning("credentials_not_read", extra={"why": str(error)})

    def close(self) -> None:
        self.plain.close()
        self.own.close()

    def _context(self, credential: credentials.Credential) -> ssl.SSLContext:
        return tls.context(self._config, credential)
