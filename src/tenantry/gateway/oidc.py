"""Verify tokens of an OpenID Connect issuer as the API server does, without asking it. Pure.

The settings must be the API server's own. What cannot be told with certainty (a key that is not
known yet, names that begin with `system:`) is left to the API server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
from joserfc import errors as jose
from joserfc import jwk

from tenantry.core import errors as core_errors
from tenantry.gateway import errors, identity, jwt

#: What a kind of key may sign with; a secret can never be a public key.
_ALGORITHMS = {
    "RSA": frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
    "EC": frozenset(("ES256", "ES384", "ES512")),
}
ALGORITHMS = tuple(sorted(frozenset().union(*_ALGORITHMS.values())))
#: Seconds by which a token may be used before its time; the API server's library's.
_EARLY = 300.0
_RESERVED = "system:"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one issuer's tokens are read; the API server's flags `--oidc-*`."""

    issuer: str
    client_id: str
    username_claim: str = "sub"
    username_prefix: str | None = None
    """None = the issuer and `#`, but nothing before an e-mail address; `-` = none"""
    groups_claim: str = ""
    groups_prefix: str = ""
    required: tuple[tuple[str, str], ...] = ()
    """claims that a token must have, with their values"""
    algorithms: tuple[str, ...] = ("RS256",)

    def __post_init__(self) -> None:
        """Refuse what could not work.

        :raises InvalidValueError: naming the flag
        """
        if not self.issuer.startswith("https://") or "?" in self.issuer or "#" in self.issuer:
            raise core_errors.InvalidValueError(
                "oidc-issuer-url", self.issuer, "an https:// address without query and fragment"
            )
        if not self.client_id:
            raise core_errors.InvalidValueError("oidc-client-id", "", "the client's id")
        for algorithm in self.algorithms:
            if algorithm not in ALGORITHMS:
                raise core_errors.InvalidValueError(
                    "oidc-signing-algs", algorithm, f"one of {', '.join(ALGORITHMS)}"
                )

    @property
    def prefix(self) -> str:
        """What is put before user names."""
        if self.username_prefix is None:
            return "" if self.username_claim == "email" else f"{self.issuer}#"
        return "" if self.username_prefix == "-" else self.username_prefix


def keys(document: bytes) -> list[jwt.Key]:
    """Read the public keys of a JWKS; what cannot be used here is left out.

    :raises ValueError: when it is none
    """
    try:
        found = msgspec.json.decode(document, type=_KeySet)
    except msgspec.MsgspecError as error:
        raise ValueError(f"no JWKS: {error}") from None
    usable: list[jwt.Key] = []
    for one in found.keys:
        if one.get("use", "sig") != "sig" or "d" in one:
            continue
        try:
            key = jwk.import_key(one)
        except (jose.JoseError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, (jwk.RSAKey, jwk.ECKey)):
            usable.append(key)
    return usable


class _Times(msgspec.Struct):
    exp: float
    nbf: float = 0.0


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


class Verifier:
    """Knows the keys of one issuer, as long as they are fresh."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: Whether a key was asked for that is not known.
        self.missing = False
        self._keys: Sequence[jwt.Key] = ()
        self._until = 0.0

    def keys_are(self, found: Sequence[jwt.Key], until: float) -> None:
        """Replace the keys; after `until` they are not used any more."""
        self._keys, self._until, self.missing = found, until, False

    def identity(self, token: str, now: float) -> identity.Identity | None:
        """Return whose token it is; None when the API server has to say it.

        :raises Unauthenticated: when it says to be this issuer's and is not valid now
        """
        found = jwt.read(token)
        if found is None or found.issuer != self.settings.issuer:
            return None
        if now >= self._until:
            self.missing = True
            return None
        if not self._signed(found):
            return None
        claims = found.claims
        audience = claims.get("aud")
        if self.settings.client_id not in (audience if isinstance(audience, list) else [audience]):
            raise errors.Unauthenticated("token is for somebody else")
        if not _valid(claims, now):
            raise errors.Unauthenticated("token is not valid now")
        for key, value in self.settings.required:
            if claims.get(key) != value:
                raise errors.Unauthenticated(f"token does not have the claim {key} as required")
        return _named(self.settings, claims)

    def _signed(self, found: jwt.Unverified) -> bool:
        """Check the signature; False when it is made with a key that is not known.

        :raises Unauthenticated: when it is not the known key's
        """
        algorithm, name = found.header.alg, found.header.kid
        if algorithm not in self.settings.algorithms:
            raise errors.Unauthenticated("token is signed by an algorithm that is not accepted")
        candidates = [key for key in self._keys if not name or key.kid == name]
        if not candidates:
            self.missing = True
            return False
        if any(
            algorithm in _ALGORITHMS[key.key_type] and found.signed_by(key, (algorithm,))
            for key in candidates
        ):
            return True
        raise errors.Unauthenticated("token is not signed by a known key")


def _named(settings: Settings, claims: dict[str, Any]) -> identity.Identity | None:
    name = claims.get(settings.username_claim)
    if not isinstance(name, str) or not name:
        raise errors.Unauthenticated(f"token has no claim {settings.username_claim}")
    if settings.username_claim == "email" and claims.get("email_verified", True) is not True:
        raise errors.Unauthenticated("token's e-mail address is not verified")
    listed = claims.get(settings.groups_claim) if settings.groups_claim else None
    given = [listed] if isinstance(listed, str) else listed or []
    if not isinstance(given, list) or not all(isinstance(group, str) for group in given):
        raise errors.Unauthenticated(f"token's claim {settings.groups_claim} is no list")
    user = settings.prefix + name
    groups = [settings.groups_prefix + group for group in given]
    if any(text.startswith(_RESERVED) for text in (user, *groups)):
        return None
    return identity.Identity(user, (*dict.fromkeys(groups), identity.AUTHENTICATED))


def _valid(claims: dict[str, Any], now: float) -> bool:
    try:
        times = msgspec.convert(claims, _Times)
    except msgspec.ValidationError:
        return False
    return times.nbf - _EARLY <= now < times.exp
