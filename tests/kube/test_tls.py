from __future__ import annotations

import dataclasses
import pathlib
import ssl
import time

import pytest
from cryptography.hazmat.primitives import serialization

from tenantry.kube import client, credentials, errors, tls
from tenantry.kube import config as configs
from tenantry.local import testing
from tenantry.pki import authority

SERVER = configs.Config(server="https://x")
AUTHORITY = authority.Authority.create("tests", 1_700_000_000.0)
ALICE = AUTHORITY.issue_client("alice", (), 1_700_000_000.0)
BOB = AUTHORITY.issue_client("bob", (), 1_700_000_000.0)


def test_context_checks_the_server_by_the_given_authority_only() -> None:
    context = tls.context(SERVER, credentials.Credential(ca=AUTHORITY.cert))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert [one["subject"] for one in context.get_ca_certs()] == [((("commonName", "tests"),),)]


def test_insecure_context_checks_nothing() -> None:
    insecure = configs.Config(server="https://x", insecure=True)
    context = tls.context(insecure, credentials.Credential())
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname


def test_without_an_authority_the_machine_decides() -> None:
    assert tls.context(SERVER, credentials.Credential()).verify_mode is ssl.CERT_REQUIRED


def encrypted(key: bytes) -> bytes:
    loaded = serialization.load_pem_private_key(key, None)
    return loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


@pytest.mark.parametrize(
    ("credential", "message"),
    [
        (credentials.Credential(ca=b"nonsense"), "certificate-authority is not usable"),
        (credentials.Credential(ca="ä".encode()), "certificate-authority is not usable"),
        (credentials.Credential(cert=b"x", key=b"y"), "client-certificate is not usable"),
        (
            credentials.Credential(cert=ALICE.cert, key=BOB.key),
            "client-certificate is not usable: .*MISMATCH",
        ),
        (
            credentials.Credential(cert=ALICE.cert, key=encrypted(ALICE.key)),
            "keys with a pass phrase are not supported",
        ),
    ],
    ids=["authority", "authority's encoding", "pair", "foreign key", "encrypted key"],
)
def test_unusable_material_is_a_configuration_error(
    credential: credentials.Credential, message: str
) -> None:
    with pytest.raises(errors.ConfigError, match=message):
        tls.context(SERVER, credential)


@pytest.mark.plane
async def test_unknown_authority_is_unreachable(plane: testing.Plane) -> None:
    other = authority.Authority.create("other", 1_700_000_000.0)
    config = configs.Config(server=plane.server, ca_data=other.cert)
    async with client.Client(config) as connected:
        with pytest.raises(errors.Unreachable, match="certificate"):
            await connected.request("GET", "/version", timeout=2)


@pytest.mark.plane
async def test_server_name_is_checked(plane: testing.Plane) -> None:
    good = dataclasses.replace(plane.config(), tls_server_name="localhost")
    async with client.Client(good) as connected:
        await connected.request("GET", "/version")
    bad = dataclasses.replace(plane.config(), tls_server_name="example.com")
    async with client.Client(bad) as connected:
        with pytest.raises(errors.Unreachable, match=r"example\.com"):
            await connected.request("GET", "/version", timeout=2)


@pytest.mark.plane
async def test_insecure_checks_nothing(plane: testing.Plane) -> None:
    config = configs.Config(server=plane.server, insecure=True)
    async with client.Client(config) as connected:
        await connected.request("GET", "/version")


@pytest.mark.plane
async def test_replaced_files_are_used_from_the_next_refusal_on(
    plane: testing.Plane, tmp_path: pathlib.Path
) -> None:
    """A certificate nobody knows, then a good one in the same files."""
    stranger = authority.Authority.create("stranger", time.time())
    bad = stranger.issue_client("admin", ("system:masters",), time.time())
    for name, content in (("ca", plane.config().ca_data), ("crt", bad.cert), ("key", bad.key)):
        (tmp_path / name).write_bytes(content)
    config = configs.Config(
        server=plane.server,
        ca_file=str(tmp_path / "ca"),
        cert_file=str(tmp_path / "crt"),
        key_file=str(tmp_path / "key"),
    )
    async with client.Client(config) as connected:
        with pytest.raises(errors.Unauthorized):
            await connected.request("GET", "/api/v1/namespaces")
        good = plane.config()
        (tmp_path / "crt").write_bytes(good.cert_data)
        (tmp_path / "key").write_bytes(good.key_data)
        await connected.request("GET", "/api/v1/namespaces")


@pytest.mark.plane
async def test_one_context_per_credential(plane: testing.Plane) -> None:
    async with client.Client(plane.config()) as connected:
        pools = connected._caller.pools
        await connected.request("GET", "/version")
        first = pools._tls
        await connected.as_user("alice").request("GET", "/version")
        await connected.request("GET", "/version")
        assert pools._tls is first
        assert first is not None
        # A new token alone does not cost a handshake.
        renewed = dataclasses.replace(first[0], authorization="Bearer new")
        assert pools._context(renewed) is first[1]
