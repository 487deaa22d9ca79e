"""A serving certificate that others keep in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenantry.apps import certificate_files
from tenantry.core import clock
from tenantry.pki import authority


def write(folder: Path, signer: authority.Authority) -> bytes:
    leaf = signer.issue_server(["127.0.0.1"], clock.wall(), days=1)
    (folder / "tls.crt").write_bytes(leaf.cert)
    (folder / "tls.key").write_bytes(leaf.key)
    (folder / "ca.crt").write_bytes(signer.cert)
    return leaf.cert


@pytest.fixture
def files(tmp_path: Path) -> certificate_files.FileCertificate:
    return certificate_files.FileCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")


async def test_what_is_written_anew_is_served(
    files: certificate_files.FileCertificate, tmp_path: Path
) -> None:
    assert "cannot be read" in files.check()
    signer = authority.Authority.create("a", clock.wall())
    first = write(tmp_path, signer)
    assert files.check() == ""
    assert (await files.refresh(), await files.renew()) == (True, False)
    assert files.trust == signer.cert
    assert files.pair()[0] == first
    successor = authority.Authority.create("b", clock.wall())
    assert files.pair()[0] != write(tmp_path, successor)
    assert await files.renew()
    assert files.trust == successor.cert


async def test_an_authority_that_cannot_be_read_changes_nothing(
    files: certificate_files.FileCertificate, tmp_path: Path
) -> None:
    signer = authority.Authority.create("a", clock.wall())
    write(tmp_path, signer)
    await files.refresh()
    (tmp_path / "ca.crt").write_bytes(signer.cert[:40])
    assert not await files.renew()
    (tmp_path / "ca.crt").unlink()
    assert not await files.renew()
    assert files.trust == signer.cert
