"""A certificate authority: ECDSA P-256, PEM in and out.

Server certificates carry their names as subject alternative names only. Client certificates
follow Kubernetes' X.509 authentication: the common name is the user, each organization a group.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tenantry.core import errors as core_errors
from tenantry.core import names
from tenantry.pki import errors

DAY = 86400.0
AUTHORITY_DAYS = 3650.0
LEAF_DAYS = 365.0
#: Clocks of two machines differ; a certificate is valid from a little before its making.
SKEW = 300.0
#: X.520's upper bound of a common name (and of an organization), which readers enforce.
NAME_LENGTH = 64


@dataclass(frozen=True, kw_only=True)
class Issued:
    """A certificate and its private key, both PEM."""

    cert: bytes
    key: bytes


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A certificate that signs others. The subject's name tells generations apart in a log."""

    cert: bytes
    key: bytes

    @classmethod
    def create(cls, name: str, now: float, *, days: float = AUTHORITY_DAYS) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            _builder(subject, subject, key.public_key(), now=now, days=days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
        )
        return cls(cert=_pem(builder.sign(key, hashes.SHA256())), key=_key_pem(key))

    @classmethod
    def load(cls, cert: bytes, key: bytes) -> Authority:
        """Read a stored authority; raises BrokenCertificateError unless the two are a pair."""
        authority = cls(cert=cert, key=key)
        public = authority._certificate.public_key()
        if public != authority._key.public_key():
            raise errors.BrokenCertificateError("authority", "certificate and key differ")
        return authority

    @cached_property
    def _certificate(self) -> x509.Certificate:
        return load_certificate(self.cert)

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        try:
            key = serialization.load_pem_private_key(self.key, None)
        except (ValueError, TypeError) as err:
            raise errors.BrokenCertificateError("private key", "not a PEM private key") from err
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise errors.BrokenCertificateError("private key", "not an ECDSA key")
        return key

    def issue_server(
        self, sans: Iterable[str], now: float, *, days: float = LEAF_DAYS, name: str = ""
    ) -> Issued:
        """Sign a server certificate for host names and addresses; the first gives the subject."""
        alternatives = [_general_name(san) for san in sans]
        if not alternatives:
            raise core_errors.InvalidValueError("sans", "", "at least one name or address")
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
        return self._issue(
            x509.Name(subject),
            now=now,
            days=days,
            usage=ExtendedKeyUsageOID.SERVER_AUTH,
            # RFC 5280: with an empty subject the alternative names must be marked critical.
            alternatives=(x509.SubjectAlternativeName(alternatives), not subject),
        )

    def issue_client(
        self, user: str, groups: Sequence[str], now: float, *, days: float = LEAF_DAYS
    ) -> Issued:
        """Sign a certificate that Kubernetes reads as `user` in `groups`."""
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, _identity("user", user))]
        attributes += [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _identity("group", group))
            for group in groups
        ]
        return self._issue(
            x509.Name(attributes), now=now, days=days, usage=ExtendedKeyUsageOID.CLIENT_AUTH
        )

    def _issue(
        self,
        subject: x509.Name,
        *,
        now: float,
        days: float,
        usage: x509.ObjectIdentifier,
        alternatives: tuple[x509.SubjectAlternativeName, bool] | None = None,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        left = (self._certificate.not_valid_after_utc.timestamp() - now) / DAY
        builder = _builder(
            subject, self._certificate.subject, key.public_key(), now=now, days=min(days, left)
        ).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
            critical=False,
        )
        if alternatives:
            builder = builder.add_extension(alternatives[0], critical=alternatives[1])
        return Issued(cert=_pem(builder.sign(self._key, hashes.SHA256())), key=_key_pem(key))


def load_certificate(pem: bytes) -> x509.Certificate:
    """Read the first certificate of a PEM text."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as err:
        raise errors.BrokenCertificateError("certificate", "not a PEM certificate") from err


def signing_key() -> Issued:
    """Make a key pair without a certificate, as service account tokens are signed with.

    `cert` holds the public key.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return Issued(cert=public, key=_key_pem(key))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    *,
    now: float,
    days: float,
) -> x509.CertificateBuilder:
    start = datetime.fromtimestamp(int(now - SKEW), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(seconds=int(SKEW + max(days, 0.0) * DAY)))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _identity(field: str, value: str) -> str:
    if not value or len(value) > NAME_LENGTH:
        raise core_errors.InvalidValueError(
            field, value, f"1 to {NAME_LENGTH} characters, as a certificate's subject can hold"
        )
    return value


def _general_name(san: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(san))
    except ValueError:
        pass
    if not names.is_dns_subdomain(san.removeprefix("*.")):
        raise core_errors.InvalidValueError("sans", san, "a DNS name or an IP address")
    return x509.DNSName(san)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
