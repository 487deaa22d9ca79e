"""Binaries from the official releases, checked against the checksums published with them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib import parse

from tenantry.core import clock
from tenantry.local import artefacts, errors, progress

if TYPE_CHECKING:
    import aiohttp

#: A mirror to use instead: holds `<component>/` with the files as in the official release. "off"
#: = do not download.
URL = "TENANTRY_DOWNLOAD_URL"
_CHUNK = 1 << 18


class Refused(Exception):
    """Raised when a download cannot be had; the message says why. Never leaves this package."""


@dataclass(kw_only=True)
class Downloads:
    environ: Mapping[str, str]
    #: Seconds to reach a host, names included: without a network the next source should come soon.
    connect: float = 4.0
    #: Seconds without a single byte.
    silence: float = 20.0
    #: Bytes per second, on average after `patience` seconds, below which it is given up.
    slowest: float = 50_000.0
    patience: float = 20.0
    #: Hosts that could not be reached; there is no sense in asking them once more.
    _unreachable: dict[str, str] = field(default_factory=dict)

    def fetch(self, artefact: artefacts.Artefact, target: Path, step: progress.Step) -> str:
        """Put the verified file at `target` and return its origin; raises Refused."""
        base = self.environ.get(URL, "")
        if base == "off":
            raise Refused(f"{URL}=off")
        root = f"{base.rstrip('/')}/{artefact.component}" if base else artefact.releases
        # A loop of its own, which leaves a loop that the caller may have set as it is.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(self._fetch(artefact, root, target=target, step=step))

    async def _fetch(
        self, artefact: artefacts.Artefact, root: str, *, target: Path, step: progress.Step
    ) -> str:
        import aiohttp

        arch = artefacts.architecture()
        url = f"{root}/{artefact.file.format(arch=arch)}"
        sums = f"{root}/{artefact.checksums}" if artefact.checksums else f"{url}.sha256"
        host = parse.urlsplit(url).netloc
        if reason := self._unreachable.get(host):
            raise Refused(reason)
        timeout = aiohttp.ClientTimeout(
            total=None, connect=self.connect, sock_connect=self.connect, sock_read=self.silence
        )
        try:
            async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
                expected = await self._checksum(session, sums, name=url.rpartition("/")[2])
                got = await self._save(session, url, target=target, step=step)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as err:
            self._unreachable[host] = f"cannot reach {host}: {_worded(err)}"
            raise Refused(self._unreachable[host]) from err
        except (aiohttp.ClientError, TimeoutError) as err:
            raise Refused(f"{url}: {_worded(err)}") from err
        if got != expected:
            raise Refused(f"{url} has the checksum {got}, but {sums} says {expected}")
        if artefact.member:
            _unpack(target, artefact.member.format(arch=arch), url=url)
        return f"downloaded from {url}"

    async def _checksum(self, session: aiohttp.ClientSession, url: str, *, name: str) -> str:
        """Read the published checksum: alone, or in the lines of sha256sum."""
        async with session.get(url) as answer:
            if answer.status == 404:
                raise Refused(f"no checksum is published at {url}")
            if answer.status != 200:
                raise Refused(f"{url} answered {answer.status}")
            text = (await answer.content.read(1 << 20)).decode(errors="replace")
        for line in text.splitlines():
            value, _, file = line.strip().partition(" ")
            if len(value) == 64 and file.strip(" *") in {"", name}:
                return value.lower()
        raise Refused(f"{url} has no SHA-256 of {name}")

    async def _save(
        self, session: aiohttp.ClientSession, url: str, *, target: Path, step: progress.Step
    ) -> str:
        hashed = hashlib.sha256()
        done, started = 0, clock.monotonic()
        step.detail = f"downloading from {parse.urlsplit(url).netloc}"
        async with session.get(url) as answer:
            if answer.status != 200:
                raise Refused(f"{url} answered {answer.status}")
            total = answer.content_length or 0
            try:
                with target.open("wb") as file:
                    async for chunk in answer.content.iter_chunked(_CHUNK):
                        file.write(chunk)
                        hashed.update(chunk)
                        done += len(chunk)
                        of = f" of {total / 1e6:.0f}" if total else ""
                        step.count = f"{done / 1e6:.0f}{of} MB"
                        spent = clock.monotonic() - started
                        if spent > self.patience and done / spent < self.slowest:
                            raise Refused(
                                f"{url} is too slow: {done / spent / 1000:.0f} kB/s after {spent:.0f} s"
                            )
            except OSError as err:
                if isinstance(err, TimeoutError):
                    raise
                raise errors.StorageError.of(target, err) from err
        return hashed.hexdigest()


def _unpack(archive: Path, member: str, *, url: str) -> None:
    """Replace an archive by one file in it."""
    unpacked = archive.with_name(archive.name + "-member")
    try:
        with tarfile.open(archive) as tar:
            source = tar.extractfile(member)
            if source is None:
                raise Refused(f"{url} holds no file {member}")
            with unpacked.open("wb") as file:
                while chunk := source.read(_CHUNK):
                    file.write(chunk)
    except KeyError:
        raise Refused(f"{url} holds no {member}") from None
    except (tarfile.TarError, EOFError) as err:
        raise Refused(f"{url} is not an archive: {err}") from err
    except OSError as err:
        raise errors.StorageError.of(unpacked, err) from err
    else:
        unpacked.rename(archive)
    finally:
        with contextlib.suppress(OSError):
            unpacked.unlink(missing_ok=True)


def _worded(err: BaseException) -> str:
    return str(err) or type(err).__name__
