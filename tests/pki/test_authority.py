from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tenantry.core import clock
from tenantry.core import errors as core_errors
from tenantry.pki import authority, errors

NOW = 1_800_000_000.0
DAY = authority.DAY


@pytest.fixture(scope="module")
def ca() -> authority.Authority:
    return authority.Authority.create("test-ca", NOW)


class TestClientCertificates:
    def test_name_the_user_and_its_groups(self, ca: authority.Authority) -> None:
        issued = ca.issue_client("alice", ["projectcapsule.dev", "devs"], NOW)
        subject = authority.load_certificate(issued.cert).subject
        assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
        groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        assert [a.value for a in groups] == ["projectcapsule.dev", "devs"]

    @pytest.mark.parametrize(
        ("user", "groups", "field"),
        [
            pytest.param("", [], "user", id="no user"),
            pytest.param("u" * 65, [], "user", id="user over 64 characters"),
            pytest.param("alice", [""], "group", id="empty group"),
            pytest.param("alice", ["g" * 65], "group", id="group over 64 characters"),
        ],
    )
    def test_refuse_what_a_subject_cannot_hold(
        self, ca: authority.Authority, user: str, groups: list[str], field: str
    ) -> None:
        with pytest.raises(core_errors.InvalidValueError) as caught:
            ca.issue_client(user, groups, NOW)
        assert caught.value.field == field

    def test_never_outlive_their_authority(self) -> None:
        short = authority.Authority.create("short", NOW, days=10)
        issued = short.issue_client("alice", [], NOW + 9 * DAY)
        end = authority.load_certificate(issued.cert).not_valid_after_utc.timestamp()
        assert end == NOW + 10 * DAY


class TestServerCertificates:
    def test_hold_names_and_addresses(self, ca: authority.Authority) -> None:
        issued = ca.issue_server(["localhost", "*.svc", "127.0.0.1", "::1"], NOW)
        certificate = authority.load_certificate(issued.cert)
        san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert san.get_values_for_type(x509.DNSName) == ["localhost", "*.svc"]
        assert [str(ip) for ip in san.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]

    @pytest.mark.parametrize("sans", [[], ["a b"], ["under_score"], [""]])
    def test_refuse_what_is_no_name(self, ca: authority.Authority, sans: list[str]) -> None:
        with pytest.raises(core_errors.InvalidValueError):
            ca.issue_server(sans, NOW)

    def test_convince_a_strict_client(self, tmp_path: Path) -> None:
        """A handshake with the checks that newer Pythons and browsers make by default."""
        now = clock.wall()
        ca = authority.Authority.create("handshake", now)
        server = ca.issue_server(["localhost"], now)
        client = ca.issue_client("alice", ["devs"], now)
        served = _context(ssl.PROTOCOL_TLS_SERVER, tmp_path / "server.pem", server)
        served.load_verify_locations(cadata=ca.cert.decode())
        served.verify_mode = ssl.CERT_REQUIRED
        asking = _context(ssl.PROTOCOL_TLS_CLIENT, tmp_path / "client.pem", client)
        asking.load_verify_locations(cadata=ca.cert.decode())
        asking.verify_flags |= ssl.VERIFY_X509_STRICT
        near, far = socket.socketpair()
        seen: list[object] = []

        def serve() -> None:
            with served.wrap_socket(far, server_side=True) as connection:
                seen.append(connection.getpeercert())
                connection.sendall(b"hello")

        thread = threading.Thread(target=serve)
        thread.start()
        with asking.wrap_socket(near, server_hostname="localhost") as connection:
            assert connection.recv(5) == b"hello"
        thread.join()
        assert "alice" in str(seen[0])


class TestLoading:
    def test_round_trip(self, ca: authority.Authority) -> None:
        again = authority.Authority.load(ca.cert, ca.key)
        issued = again.issue_client("alice", [], NOW)
        authority.load_certificate(issued.cert).verify_directly_issued_by(
            authority.load_certificate(ca.cert)
        )

    def test_refuses_parts_that_do_not_belong_together(self, ca: authority.Authority) -> None:
        other = authority.Authority.create("other", NOW)
        with pytest.raises(errors.BrokenCertificateError, match="differ"):
            authority.Authority.load(ca.cert, other.key)

    @pytest.mark.parametrize("broken", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
    def test_refuses_garbage(self, ca: authority.Authority, broken: bytes) -> None:
        with pytest.raises(errors.BrokenCertificateError):
            authority.Authority.load(broken, ca.key)
        with pytest.raises(errors.BrokenCertificateError):
            authority.Authority.load(ca.cert, broken)

    def test_refuses_a_key_of_another_kind(self, ca: authority.Authority) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519

        key = ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        with pytest.raises(errors.BrokenCertificateError, match="ECDSA"):
            authority.Authority.load(ca.cert, key)


def test_signing_key_is_a_pair() -> None:
    pair = authority.signing_key()
    assert pair.cert.startswith(b"-----BEGIN PUBLIC KEY-----")
    assert pair.key.startswith(b"-----BEGIN PRIVATE KEY-----")


def _context(protocol: int, path: Path, issued: authority.Issued) -> ssl.SSLContext:
    path.write_bytes(issued.cert + issued.key)
    context = ssl.SSLContext(protocol)
    context.load_cert_chain(path)
    return context
