"""Read and verify JWTs; tell the API server's own service account tokens without asking it. Pure.

Who is removed, or whose pod is, keeps a token that verifies until it expires; the API server would
know better. So this is for narrowing only (what a token may do is asked of the API server with the
token itself), and only where it is asked for.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import errors as jose
from joserfc import jwk, jws

from tenantry.core import errors as core_errors
from tenantry.directory import identity as directory
from tenantry.gateway import errors, identity

#: Seconds by which clocks may differ.
_LEEWAY = 10.0
_LONGEST = 16384
#: Each kind of key goes with one algorithm, whatever the token says.
_ALGORITHMS = {"RSA": ("RS256",), "EC": ("ES256",)}

Key: TypeAlias = jwk.RSAKey | jwk.ECKey


class Header(msgspec.Struct):
    """What a token says about its signature."""

    alg: str
    kid: str = ""


class _Claims(msgspec.Struct):
    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    nbf: float = 0.0


_HEADER = msgspec.json.Decoder(Header)
_ANY = msgspec.json.Decoder(dict[str, Any])


@dataclasses.dataclass(frozen=True, slots=True)
class Unverified:
    """A token taken apart. Nothing in it is to be believed yet."""

    text: str
    header: Header
    claims: dict[str, Any]

    @property
    def issuer(self) -> object:
        return self.claims.get("iss")

    def signed_by(self, key: Key, algorithms: Sequence[str]) -> bool:
        """Tell whether a key made the signature, by one of the algorithms."""
        try:
            jws.deserialize_compact(self.text, key, algorithms=list(algorithms))
        except (jose.JoseError, ValueError):
            return False
        return True


def read(token: str) -> Unverified | None:
    """Take a token apart; None when it is no JWT."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _LONGEST or not token.isascii():
        return None
    try:
        return Unverified(
            token, _HEADER.decode(_decoded(parts[0])), _ANY.decode(_decoded(parts[1]))
        )
    except (ValueError, msgspec.MsgspecError):
        return None


def keys(pem: bytes) -> list[Key]:
    """Read the public keys of a PEM text.

    :raises InvalidValueError: when one is neither RSA nor ECDSA on P-256
    """
    found: list[Key] = []
    end = b"-----END PUBLIC KEY-----"
    for part in pem.split(end)[:-1]:
        pem = part.strip() + b"\n" + end
        try:
            key: Any = serialization.load_pem_public_key(pem)
        except ValueError:
            key = None
        elliptic = isinstance(key, ec.EllipticCurvePublicKey) and key.key_size == 256
        if not elliptic and not isinstance(key, rsa.RSAPublicKey):
            raise core_errors.InvalidValueError(
                "service-account-key-file", "a key", "RSA, or ECDSA on the curve P-256"
            )
        found.append(jwk.ECKey.import_key(pem) if elliptic else jwk.RSAKey.import_key(pem))
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
        found = read(token)
        if found is None or found.issuer != self.issuer:
            return None
        try:
            claims = msgspec.convert(found.claims, _Claims)
        except msgspec.ValidationError:
            return None
        if not any(found.signed_by(key, _ALGORITHMS[key.key_type]) for key in self.keys):
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
