from __future__ import annotations

import os
import pathlib
import ssl
import tempfile

import pytest
from cryptography.hazmat.primitives import serialization

from tenantry.core import keypair
from tenantry.pki import authority

NOW = 1_700_000_000.0
AUTHORITY = authority.Authority.create("tests", NOW)
ALICE = AUTHORITY.issue_client("alice", (), NOW)
BOB = AUTHORITY.issue_client("bob", (), NOW)


def context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def refuse(*_: object) -> int:
    raise OSError(38, "Function not implemented")


@pytest.fixture(params=["in memory", "no such call", "refused", "no /proc"])
def way(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    """A machine of each kind; the value is where its temporary files are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    match request.param:
        case "no such call":
            monkeypatch.delattr(os, "memfd_create")
        case "refused":
            monkeypatch.setattr(os, "memfd_create", refuse)
        case "no /proc":
            monkeypatch.setattr(os, "access", lambda *_: False)
    return tmp_path


def test_a_pair_is_loaded_and_nothing_is_left(way: pathlib.Path) -> None:
    before = sorted(pathlib.Path("/proc/self/fd").iterdir())
    keypair.load(context(), ALICE.cert, ALICE.key)
    with pytest.raises(ssl.SSLError, match="MISMATCH"):
        keypair.load(context(), ALICE.cert, BOB.key)
    assert list(way.iterdir()) == []
    assert sorted(pathlib.Path("/proc/self/fd").iterdir()) == before


def test_the_key_is_never_on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    keypair.load(context(), ALICE.cert, ALICE.key)


def test_only_this_user_can_read_the_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "memfd_create", refuse)
    with keypair._file(ALICE.key) as path:
        assert pathlib.Path(path).read_bytes() == ALICE.key
        assert pathlib.Path(path).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("chain", "key"), [(b"", b""), (b"x", b"y"), (ALICE.cert, b"")])
def test_what_is_no_pair(chain: bytes, key: bytes) -> None:
    with pytest.raises(ssl.SSLError):
        keypair.load(context(), chain, key)


def test_a_chain_that_holds_another_key() -> None:
    keypair.load(context(), BOB.key + ALICE.cert, ALICE.key + BOB.cert)


def test_an_encrypted_key_asks_nobody() -> None:
    loaded = serialization.load_pem_private_key(ALICE.key, None)
    encrypted = loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    with pytest.raises(ValueError, match="keys with a pass phrase are not supported"):
        keypair.load(context(), ALICE.cert, encrypted)
