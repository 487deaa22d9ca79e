"""What a request proves its identity with, kept current: files re-read, plugins run again.

One `Source` per client; it hands out the same `Credential` object until something changed, so
that the TLS context built from it can be kept.

Once there has been a credential, nothing here ends the process: a file that is missing for an
instant or a plugin that fails once leaves the one in use, and is asked again.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import logging
import pathlib
from collections.abc import Callable

from tenantry.core import clock
from tenantry.kube import config as configs
from tenantry.kube import errors, execplugin

logger = logging.getLogger(__name__)

#: Seconds after which files are read again. Bound service account tokens are rotated by kubelet at
#: 80 % of their life, an hour by default.
REREAD = 60.0
#: Seconds before a plugin's expiry at which it is run again.
EARLY = 10.0
#: Seconds after a failure before files are read and plugins run again.
RETRY = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Credential:
    """Everything that identifies us and the server at this moment."""

    #: The `Authorization` header; "" for none.
    authorization: str = dataclasses.field(default="", repr=False)
    ca: bytes = b""
    cert: bytes = dataclasses.field(default=b"", repr=False)
    key: bytes = dataclasses.field(default=b"", repr=False)


class Source:
    """Give the current credential of one configuration.

    :param check: raises ConfigError for a credential that cannot be used, such as a certificate
        whose new key is not there yet
    """

    def __init__(
        self,
        config: configs.Config,
        *,
        check: Callable[[Credential], object] | None = None,
        monotonic: clock.Clock = clock.monotonic,
        wall: clock.Clock = clock.wall,
    ) -> None:
        self._config = config
        self._check = check
        self._monotonic = monotonic
        self._wall = wall
        self._current: Credential | None = None
        self._stale_at = 0.0
        #: Whether there ever was a credential.
        self._begun = False
        #: Why the last attempt failed, and until when that counts.
        self._failure: errors.ConfigError | None = None
        self._failure_until = 0.0
        self._answer: execplugin.Answer | None = None
        # One plugin run serves all who wait.
        self._lock = asyncio.Lock()
        files = (config.ca_file, config.cert_file, config.key_file, config.token_file)
        self._has_files = any(files)

    @property
    def renewable(self) -> bool:
        """Tell whether reading again could give something else."""
        return self._has_files or self._config.exec is not None

    def invalidate(self, used: Credential) -> None:
        """Say that the server refused `used` (401): the next `get` reads files and runs plugins."""
        if self._current is used:
            self._current = self._answer = None

    async def get(self) -> Credential:
        """Give the current credential.

        :raises ConfigError: when the first one cannot be had: a file that cannot be read, a plugin
            that fails
        :raises Unreachable: when the server refused the last one and for now there is no other
        """
        if not self._fresh():
            async with self._lock:
                if not self._fresh():
                    await self._renew_or_keep()
        assert self._current is not None
        return self._current

    async def _renew_or_keep(self) -> None:
        now = self._monotonic()
        if self._failure is None or now >= self._failure_until:
            try:
                await self._renew()
            except errors.ConfigError as error:
                if not self._begun:
                    raise
                logger.warning("credential_not_renewed", extra={"why": str(error)})
                self._failure = error
                self._failure_until = self._monotonic() + RETRY
            else:
                self._failure = None
        if self._current is None:
            raise errors.Unreachable(f"no credential for now: {self._failure}") from self._failure

    def _fresh(self) -> bool:
        if self._current is None:
            return False
        if self._failure is not None and self._monotonic() < self._failure_until:
            return True  # as good as it gets
        if self._has_files and self._monotonic() >= self._stale_at:
            return False
        return self._config.exec is None or self._answer_valid()

    def _answer_valid(self) -> bool:
        if self._answer is None:
            return False
        return self._answer.expires is None or self._wall() < self._answer.expires - EARLY

    async def _renew(self) -> None:
        config = self._config
        answer = execplugin.Answer()
        if config.exec is not None:
            if not self._answer_valid():
                self._answer = await execplugin.run(config, config.exec)
            assert self._answer is not None
            answer = self._answer
        credential = Credential(
            authorization=_authorization(config, answer),
            ca=config.ca_data or _read(config.ca_file),
            cert=answer.cert or config.cert_data or _read(config.cert_file),
            key=answer.key or config.key_data or _read(config.key_file),
        )
        # Equal content keeps the object, and with it TLS context and connections.
        if credential != self._current:
            if self._check is not None:
                self._check(credential)
            self._current = credential
        self._begun = True
        self._stale_at = self._monotonic() + REREAD


def _authorization(config: configs.Config, answer: execplugin.Answer) -> str:
    # A token given literally loses against its file, as in client-go: the file is the fresher one.
    token = _read(config.token_file).decode("utf-8", "replace").strip() or config.token
    token = token or answer.token
    if token:
        if not token.isascii() or not token.isprintable():
            raise errors.ConfigError("token: must be printable ASCII without line breaks")
        return f"Bearer {token}"
    if config.username:
        pair = f"{config.username}:{config.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""


def _read(path: str) -> bytes:
    if not path:
        return b""
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise errors.ConfigError(f"{path}: cannot be read: {error.strerror}") from error
