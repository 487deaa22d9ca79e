"""Verify the API server's own service account tokens, without asking it. Pure.

Who is removed, or whose pod is, keeps a token that verifies until it expires; the API server would
know better. So this is for narrowing only (what a token may do is asked of the API server with the
token itself), and only where it is asked for.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from tenantry.core import errors as core_errors
from tenantry.directory import identity as directory
from tenantry.gateway import errors, identity

#: Seconds by which clocks may differ.
_LEEWAY = 10.0
_LONGEST = 16384

Key = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class _Header(msgspec.Struct):
    alg: str


class _Claims(msgspec.Struct):
    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    nbf: float = 0.0


_HEADER = msgspec.json.Decoder(_Header)
_CLAIMS = msgspec.json.Decoder(_Claims)


def keys(pem: bytes) -> list[Key]:
    """Read the public keys of a PEM text.

    :raises InvalidValueError: when one is neither RSA nor ECDSA on P-256
    """
    found: list[Key] = []
    end = b"-----END PUBLIC KEY-----"
    for part in pem.split(end)[:-1]:
        try:
            key: Any = serialization.load_pem_public_key(part.strip() + b"\n" + end)
        except ValueError:
            key = None
        elliptic = isinstance(key, ec.EllipticCurvePublicKey) and key.key_size == 256
        if not elliptic and not isinstance(key, rsa.RSAPublicKey):
            raise core_errors.InvalidValueError(
                "service-account-key-file", "a key", "RSA, or ECDSA on the curve P-256"
            )
        found.append(key)
    if not found:
        raise core_errors.InvalidValueError(
            "service-account-key-file", "", "at least one PUBLIC KEY in PEM"
        )
    return found


@dataclasses.dataclass(frozen=True)
class Verifier:
    """Knows the keys of one issuer."""

    keys: Sequence[Key]
    issuer: str
    audiences: frozenset[str]

    def identity(self, token: str, now: float) -> identity.Identity | None:
        """Return whose token it is; None when it is not this issuer's.

        :raises Unauthenticated: when it says to be this issuer's and is not valid now
        """
        parts = token.split(".")
        if len(parts) != 3 or len(token) > _LONGEST:
            return None
        try:
            claims = _CLAIMS.decode(_decoded(parts[1]))
            algorithm = _HEADER.decode(_decoded(parts[0])).alg
            signature = _decoded(parts[2])
        except (ValueError, msgspec.MsgspecError):
            return None
        if claims.iss != self.issuer:
            return None
        signed = f"{parts[0]}.{parts[1]}".encode()
        if not any(_verifies(key, algorithm, signed, signature) for key in self.keys):
            raise errors.Unauthenticated("token is not signed by a known key")
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        if self.audiences.isdisjoint(audiences):
            raise errors.Unauthenticated("token is for somebody else")
        if not claims.nbf - _LEEWAY <= now < claims.exp:
            raise errors.Unauthenticated("token is not valid now")
        account = directory.split_service_account(claims.sub)
        if account is None:
            raise errors.Unauthenticated("token is no service account's")
        groups = (
            directory.SERVICE_ACCOUNTS,
            f"{directory.SERVICE_ACCOUNTS}:{account[0]}",
            identity.AUTHENTICATED,
        )
        return identity.Identity(claims.sub, groups)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _verifies(key: Key, algorithm: str, signed: bytes, signature: bytes) -> bool:
    """Check a signature; each kind of key goes with one algorithm, whatever the token says."""
    try:
        if isinstance(key, rsa.RSAPublicKey):
            if algorithm != "RS256":
                return False
            key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        else:
            if algorithm != "ES256" or len(signature) != 64:
                return False
            pair = utils.encode_dss_signature(
                int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
            )
            key.verify(pair, signed, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
