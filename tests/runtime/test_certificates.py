from __future__ import annotations

import asyncio
import contextlib
import pathlib
import ssl
import time

import pytest

from tenantry.pki import authority
from tenantry.runtime import certificates, errors, metrics

from .conftest import Until


@pytest.fixture(scope="module")
def ca() -> authority.Authority:
    return authority.Authority.create("runtime-tests", time.time())


class Files:
    def __init__(self, directory: pathlib.Path, ca: authority.Authority) -> None:
        self.cert, self.key = directory / "tls.crt", directory / "tls.key"
        self._ca = ca
        self.source = certificates.from_files(self.cert, self.key)

    def issue(self) -> authority.Issued:
        issued = self._ca.issue_server(("localhost", "127.0.0.1"), time.time())
        self.cert.write_bytes(issued.cert)
        self.key.write_bytes(issued.key)
        return issued


@pytest.fixture
def files(tmp_path: pathlib.Path, ca: authority.Authority) -> Files:
    return Files(tmp_path, ca)


async def served(context: ssl.SSLContext, ca: authority.Authority) -> bytes:
    """Return the certificate that a new connection gets."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        over.set()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        trust = ssl.create_default_context(cadata=ca.cert.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        await asyncio.wait_for(over.wait(), 10)
        return found


async def test_a_new_pair_is_used_by_the_next_handshake(
    files: Files, ca: authority.Authority
) -> None:
    files.issue()
    watcher = certificates.Watcher(files.source, interval=1.0)
    assert watcher.load()
    assert not watcher.load(), "nothing new"
    first = await served(watcher.context, ca)
    files.issue()
    assert watcher.load()
    assert await served(watcher.context, ca) != first


async def test_half_of_a_pair_changes_nothing(files: Files, ca: authority.Authority) -> None:
    files.issue()
    watcher = certificates.Watcher(files.source, interval=1.0)
    watcher.load()
    first = await served(watcher.context, ca)
    old_key = files.key.read_bytes()
    files.issue()
    new_key = files.key.read_bytes()
    for wrong in (old_key, b"", new_key[: len(new_key) // 2]):
        files.key.write_bytes(wrong)
        with pytest.raises(errors.CertificateError):
            watcher.load()
        assert await served(watcher.context, ca) == first
    files.key.write_bytes(new_key)
    assert watcher.load()
    assert await served(watcher.context, ca) != first


def test_no_certificate_at_all(files: Files) -> None:
    with pytest.raises(errors.CertificateError, match="cannot be used"):
        certificates.Watcher(files.source, interval=1.0).load()


async def test_looks_again_by_itself(
    files: Files, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    registry = metrics.Registry()
    failed = registry.counter("certwatcher_read_certificate_errors_total", "")
    files.issue()
    watcher = certificates.Watcher(files.source, interval=0.01, registry=registry)
    watcher.load()
    task = asyncio.create_task(watcher.run())
    files.key.write_bytes(b"")
    await until(lambda: failed.value())
    digest = watcher._digest
    files.issue()
    await until(lambda: watcher._digest != digest)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "certificate_not_reloaded" in caplog.text
