"""Fetch an issuer's keys, now and again, and soon when one is asked for that is not known."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import aiohttp
import msgspec

from tenantry.core import clock
from tenantry.gateway import oidc

logger = logging.getLogger(__name__)

#: Seconds between two looks, between two attempts when the first failed or a key is missing, and
#: for which keys are believed: an issuer that cannot be reached may have withdrawn them.
_EVERY, _SOON, _KEPT = 600.0, 10.0, 3600.0
_POLL = 0.5
_LARGEST = 1 << 20
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)


class _Discovery(msgspec.Struct):
    issuer: str
    jwks_uri: str


class Keeper:
    """Keeps a verifier's keys fresh."""

    def __init__(
        self,
        verifier: oidc.Verifier,
        *,
        ca: Path | None = None,
        wall: clock.Clock = clock.wall,
        every: float = _EVERY,
        soon: float = _SOON,
    ) -> None:
        """Take the verifier.

        :param ca: authorities (PEM) of the issuer's certificate; None = the system's
        """
        self._verifier = verifier
        self._context = ssl.create_default_context(cafile=str(ca) if ca is not None else None)
        self._wall = wall
        self._every, self._soon = every, soon
        self.fetched = 0

    async def run(self) -> None:
        """Fetch until cancelled. A token with an unknown key cannot hurry it more than `soon`."""
        while True:
            done = await self.fetch()
            waited, least = 0.0, self._soon
            most = self._every if done else self._soon
            while waited < most and not (self._verifier.missing and waited >= least):
                await asyncio.sleep(_POLL)
                waited += _POLL

    async def fetch(self) -> bool:
        """Fetch once; tell whether that worked."""
        issuer = self._verifier.settings.issuer
        try:
            async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
                address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
                found = msgspec.json.decode(await self._get(session, address), type=_Discovery)
                if found.issuer != issuer:
                    raise ValueError(f"the issuer calls itself {found.issuer!r}")
                keys = oidc.keys(await self._get(session, found.jwks_uri))
        except (aiohttp.ClientError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
            logger.warning("issuer_keys_not_read", extra={"issuer": issuer, "why": str(error)})
            return False
        if not keys:
            logger.warning("issuer_keys_not_read", extra={"issuer": issuer, "why": "no usable key"})
            return False
        self.fetched += 1
        self._verifier.keys_are(keys, self._wall() + _KEPT)
        return True

    async def _get(self, session: aiohttp.ClientSession, address: str) -> bytes:
        if not address.startswith("https://"):
            raise ValueError(f"{address!r} is not https")
        async with session.get(address, ssl=self._context, allow_redirects=False) as answer:
            answer.raise_for_status()
            if answer.status != 200:
                raise ValueError(f"{address!r} answered {answer.status}")
            body = await answer.content.read(_LARGEST + 1)
            while len(body) <= _LARGEST and (more := await answer.content.read(_LARGEST)):
                body += more
        if len(body) > _LARGEST:
            raise ValueError(f"{address!r} is longer than {_LARGEST} bytes")
        return body
