"""When a TLS server's certificates are made anew, so that no client ever meets a stranger.

A server certificate is replaced once a third of its life is left. An authority cannot simply be
replaced: clients would refuse the new server certificate until they have heard of it. So its
successor is first only *announced* (`trust` holds both), and signs after `Policy.overlap`; the
predecessor stays trusted until it expires.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tenantry.pki import authority as authorities
from tenantry.pki import errors

_BEGIN = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, kw_only=True)
class Policy:
    #: Seconds for which a new authority is announced before it signs: how long until every
    #: client has surely read `trust` again.
    overlap: float = 3600.0
    authority_days: float = authorities.AUTHORITY_DAYS
    leaf_days: float = authorities.LEAF_DAYS


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """What one TLS server keeps. `retired` are certificates of authorities that no longer sign."""

    authority: authorities.Authority
    leaf: authorities.Issued
    successor: authorities.Authority | None = None
    retired: tuple[bytes, ...] = ()

    @property
    def trust(self) -> bytes:
        """Return the PEM text that clients are given as `caBundle`."""
        successor = [self.successor.cert] if self.successor else []
        return b"".join([self.authority.cert, *successor, *self.retired])

    def to_secret(self) -> dict[str, bytes]:
        """Lay the bundle out as the data of a Secret of type kubernetes.io/tls."""
        data = {
            "ca.crt": self.trust,
            "ca.key": self.authority.key,
            "tls.crt": self.leaf.cert,
            "tls.key": self.leaf.key,
        }
        if self.successor:
            data["successor.key"] = self.successor.key
        return data

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> Bundle:
        """Read what `to_secret` wrote; raises BrokenCertificateError on anything else."""
        missing = [key for key in ("ca.crt", "ca.key", "tls.crt", "tls.key") if not data.get(key)]
        if missing:
            raise errors.BrokenCertificateError("bundle", f"no {', '.join(missing)}")
        trusted = _split(data["ca.crt"])
        if not trusted:
            raise errors.BrokenCertificateError("bundle", "ca.crt holds no certificate")
        current = authorities.Authority.load(trusted[0], data["ca.key"])
        successor = None
        if data.get("successor.key") and len(trusted) > 1:
            successor = authorities.Authority.load(trusted[1], data["successor.key"])
        leaf = authorities.Issued(cert=data["tls.crt"], key=data["tls.key"])
        if _public_of_key(leaf.key) != _public(authorities.load_certificate(leaf.cert)):
            raise errors.BrokenCertificateError("bundle", "tls.crt and tls.key differ")
        return cls(
            authority=current,
            leaf=leaf,
            successor=successor,
            retired=tuple(trusted[2 if successor else 1 :]),
        )


class Action(enum.Enum):
    KEEP = "keep"
    CREATE = "create"
    ANNOUNCE = "announce"
    PROMOTE = "promote"
    ISSUE = "issue"


@dataclass(frozen=True, kw_only=True)
class Decision:
    action: Action
    reason: str = ""


def decide(
    bundle: Bundle | None, sans: Sequence[str], now: float, *, policy: Policy | None = None
) -> Decision:
    """Choose the next step for a bundle; None stands for a missing or a broken one."""
    policy = policy or Policy()
    if bundle is None:
        return Decision(action=Action.CREATE, reason="there is none")
    signer = authorities.load_certificate(bundle.authority.cert)
    if signer.not_valid_after_utc.timestamp() <= now:
        return Decision(action=Action.CREATE, reason="the authority has expired")
    if bundle.successor is None and worn(signer, now):
        return Decision(action=Action.ANNOUNCE, reason="the authority nears its end")
    if bundle.successor is not None:
        announced = authorities.load_certificate(bundle.successor.cert)
        since = announced.not_valid_before_utc.timestamp() + authorities.SKEW
        if now - since >= policy.overlap:
            return Decision(action=Action.PROMOTE, reason="the new authority is known by now")
    return _decide_leaf(bundle, signer, sans=sans, now=now)


def _decide_leaf(
    bundle: Bundle, signer: x509.Certificate, *, sans: Sequence[str], now: float
) -> Decision:
    try:
        leaf = authorities.load_certificate(bundle.leaf.cert)
        leaf.verify_directly_issued_by(signer)
    except Exception as err:
        return Decision(action=Action.ISSUE, reason=f"not signed by the authority: {err}")
    missing = sorted(set(sans) - names_of(leaf))
    if missing:
        return Decision(action=Action.ISSUE, reason=f"does not name {', '.join(missing)}")
    if worn(leaf, now):
        return Decision(action=Action.ISSUE, reason="nears its end")
    return Decision(action=Action.KEEP)


def renewed(
    bundle: Bundle | None,
    sans: Sequence[str],
    now: float,
    *,
    name: str,
    policy: Policy | None = None,
) -> Bundle:
    """Take every step that is due and return the bundle to store; the same one if none is."""
    policy = policy or Policy()
    while True:
        match decide(bundle, sans, now, policy=policy).action:
            case Action.CREATE:
                signer = authorities.Authority.create(name, now, days=policy.authority_days)
                leaf = signer.issue_server(sans, now, days=policy.leaf_days)
                return Bundle(authority=signer, leaf=leaf)
            case Action.ANNOUNCE if bundle:
                successor = authorities.Authority.create(name, now, days=policy.authority_days)
                bundle = replace(bundle, successor=successor)
            case Action.PROMOTE if bundle and bundle.successor:
                retired = tuple(_unexpired([bundle.authority.cert, *bundle.retired], now))
                signer = bundle.successor
                leaf = signer.issue_server(sans, now, days=policy.leaf_days)
                bundle = Bundle(authority=signer, leaf=leaf, retired=retired)
            case Action.ISSUE if bundle:
                leaf = bundle.authority.issue_server(sans, now, days=policy.leaf_days)
                # What an authority at its end can still give is worn at once: one is enough.
                return replace(bundle, leaf=leaf)
            case _ if bundle:
                return bundle


def worn(certificate: x509.Certificate, now: float) -> bool:
    """Tell whether less than a third of a certificate's life is left."""
    start = certificate.not_valid_before_utc.timestamp()
    end = certificate.not_valid_after_utc.timestamp()
    return now >= end - (end - start) / 3


def names_of(certificate: x509.Certificate) -> set[str]:
    """Return the host names and addresses a server certificate is for."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in extension.value}


def _split(pem: bytes) -> list[bytes]:
    certificates = []
    for part in pem.split(_BEGIN)[1:]:
        certificate = _BEGIN + part.rstrip() + b"\n"
        authorities.load_certificate(certificate)
        certificates.append(certificate)
    return certificates


def _unexpired(certificates: Iterable[bytes], now: float) -> list[bytes]:
    return [
        pem
        for pem in certificates
        if authorities.load_certificate(pem).not_valid_after_utc.timestamp() > now
    ]


def _public(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _public_of_key(key: bytes) -> bytes:
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError) as err:
        raise errors.BrokenCertificateError("private key", "not a PEM private key") from err
    return private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
