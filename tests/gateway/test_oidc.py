"""Tokens of an issuer: whose they are, and which are nobody's."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from joserfc import jwk
from joserfc import jwt as signing

from tenantry.core import errors as core_errors
from tenantry.gateway import errors, identity, oidc

NOW = 1_000_000.0
ISSUER = "https://login.example.com"
RSA = jwk.RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
OTHER = jwk.RSAKey.generate_key(2048, {"kid": "one"})
UNKNOWN = jwk.RSAKey.generate_key(2048, {"kid": "two"})
ELLIPTIC = jwk.ECKey.generate_key("P-256", {"kid": "curve"})
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "sub": "1234",
    "aud": "kubernetes",
    "exp": NOW + 60,
    "email": "alice@example.com",
    "groups": ["oil-owners", "staff"],
}


def token(key: Any = RSA, alg: str = "RS256", *, kid: str | None = None, **claims: Any) -> str:
    header = {"alg": alg, "kid": key.kid if kid is None else kid}
    body = {k: v for k, v in {**CLAIMS, **claims}.items() if v is not None}
    return signing.encode(header, body, key, algorithms=[alg])


def verifier(*keys: Any, **settings: Any) -> oidc.Verifier:
    made = oidc.Verifier(oidc.Settings(issuer=ISSUER, client_id="kubernetes", **settings))
    document = {"keys": [key.as_dict(private=False) for key in keys or (RSA,)]}
    made.keys_are(oidc.keys(msgspec.json.encode(document)), NOW + 1000)
    return made


def who(user: str, *groups: str) -> identity.Identity:
    return identity.Identity(user, (*groups, "system:authenticated"))


def encoded(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("settings", "claims", "expected"),
    [
        ({}, {}, who(f"{ISSUER}#1234")),
        ({"username_prefix": "-"}, {}, who("1234")),
        ({"username_prefix": "corp:"}, {}, who("corp:1234")),
        ({"username_claim": "email"}, {}, who("alice@example.com")),
        ({"username_claim": "email"}, {"email_verified": True}, who("alice@example.com")),
        (
            {"username_prefix": "-", "groups_claim": "groups", "groups_prefix": "g:"},
            {},
            who("1234", "g:oil-owners", "g:staff"),
        ),
        ({"username_prefix": "-", "groups_claim": "groups"}, {"groups": "a"}, who("1234", "a")),
        ({"username_prefix": "-", "groups_claim": "groups"}, {"groups": None}, who("1234")),
        ({"username_prefix": "-"}, {"aud": ["x", "kubernetes"]}, who("1234")),
        ({"username_prefix": "-", "required": (("hd", "corp"),)}, {"hd": "corp"}, who("1234")),
        ({"username_prefix": "-"}, {"nbf": NOW + 200}, who("1234")),
    ],
)
def test_a_token_names_user_and_groups(
    settings: dict[str, Any], claims: dict[str, Any], expected: identity.Identity
) -> None:
    assert verifier(**settings).identity(token(**claims), NOW) == expected


def test_a_key_of_another_kind() -> None:
    made = verifier(RSA, ELLIPTIC, algorithms=("ES256",), username_prefix="-")
    assert made.identity(token(ELLIPTIC, "ES256"), NOW) == who("1234")


@pytest.mark.parametrize(
    ("bad", "settings"),
    [
        pytest.param(token(OTHER), {}, id="another key of that name"),
        pytest.param(token(exp=NOW), {}, id="expired"),
        pytest.param(token(exp=None), {}, id="without an end"),
        pytest.param(token(exp=str(NOW + 60)), {}, id="an end that is no number"),
        pytest.param(token(nbf=NOW + 301), {}, id="not yet valid"),
        pytest.param(token(aud="vault"), {}, id="for somebody else"),
        pytest.param(token(aud=None), {}, id="for nobody"),
        pytest.param(token(aud={"kubernetes": 1}), {}, id="for something odd"),
        pytest.param(token(sub=None), {}, id="without a name"),
        pytest.param(token(sub=""), {}, id="with an empty name"),
        pytest.param(token(sub=["alice"]), {}, id="with a list for a name"),
        pytest.param(token(email_verified=False), {"username_claim": "email"}, id="unverified"),
        pytest.param(token(email_verified="true"), {"username_claim": "email"}, id="so it says"),
        pytest.param(token(groups=[1]), {"groups_claim": "groups"}, id="groups that are none"),
        pytest.param(token(), {"required": (("hd", "corp"),)}, id="without what is required"),
        pytest.param(token(hd="x"), {"required": (("hd", "corp"),)}, id="required otherwise"),
        pytest.param(token(RSA, "RS512"), {}, id="by an algorithm that is not accepted"),
        pytest.param(token().rpartition(".")[0] + ".", {}, id="no signature"),
    ],
)
def test_what_is_not_valid_is_nobody(bad: str, settings: dict[str, Any]) -> None:
    with pytest.raises(errors.Unauthenticated):
        verifier(**settings).identity(bad, NOW)


def test_a_public_key_is_no_secret() -> None:
    """The confusion of algorithms: HMAC with what everybody knows, and none at all."""
    public = RSA.as_pem(private=False)
    secret = jwk.OctKey.import_key(public.decode().encode("utf-16"))
    for bad in (
        signing.encode({"alg": "HS256", "kid": "one"}, CLAIMS, secret, algorithms=["HS256"]),
        f"{encoded({'alg': 'none', 'kid': 'one'})}.{encoded(CLAIMS)}.",
    ):
        with pytest.raises(errors.Unauthenticated):
            verifier(algorithms=("RS256", "ES256")).identity(bad, NOW)
    with pytest.raises(core_errors.InvalidValueError, match="oidc-signing-algs"):
        verifier(algorithms=("HS256",))


@pytest.mark.parametrize(
    "other",
    [
        "",
        "a.b.c",
        "opaque",
        token(iss="https://login.example.com/"),
        token(iss=["https://login.example.com"]),
        token(iss=None),
        "é" * 10,
    ],
)
def test_others_tokens_are_left_to_the_api_server(other: str) -> None:
    made = verifier()
    assert made.identity(other, NOW) is None
    assert not made.missing


@pytest.mark.parametrize(
    ("settings", "claims"),
    [
        ({"username_prefix": "-"}, {"sub": "system:admin"}),
        ({"username_prefix": "-", "groups_claim": "groups"}, {"groups": ["system:masters"]}),
        ({"groups_claim": "groups", "groups_prefix": "system:"}, {"groups": ["masters"]}),
    ],
)
def test_names_of_the_system_are_the_api_servers_to_confirm(
    settings: dict[str, Any], claims: dict[str, Any]
) -> None:
    assert verifier(**settings).identity(token(**claims), NOW) is None


def asked_for(made: oidc.Verifier) -> bool:
    return made.missing


def test_an_unknown_key_is_asked_for_and_then_known() -> None:
    made = verifier(username_prefix="-")
    assert made.identity(token(UNKNOWN), NOW) is None
    assert asked_for(made)
    made.keys_are([*oidc.keys(_set(RSA)), *oidc.keys(_set(UNKNOWN))], NOW + 1000)
    assert not asked_for(made)
    assert made.identity(token(UNKNOWN), NOW) == who("1234")
    # And one that is withdrawn is not believed any more.
    made.keys_are(oidc.keys(_set(UNKNOWN)), NOW + 1000)
    assert made.identity(token(RSA), NOW) is None


def test_old_keys_are_not_believed_for_ever() -> None:
    made = verifier()
    made.keys_are(oidc.keys(_set(RSA)), NOW)
    assert made.identity(token(), NOW) is None
    assert made.missing


def _set(*keys: Any) -> bytes:
    return msgspec.json.encode({"keys": [key.as_dict(private=False) for key in keys]})


def test_of_a_key_set_only_public_keys_for_signatures_are_taken() -> None:
    secret = jwk.OctKey.generate_key(256)
    sealing = jwk.RSAKey.generate_key(2048, {"use": "enc"})
    document = msgspec.json.encode(
        {
            "keys": [
                RSA.as_dict(private=False),
                RSA.as_dict(private=True),
                secret.as_dict(),
                sealing.as_dict(private=False),
                {"kty": "RSA", "n": "!", "e": "AQAB"},
                {"kty": "new"},
            ]
        }
    )
    assert [key.kid for key in oidc.keys(document)] == ["one"]


@pytest.mark.parametrize("bad", [b"", b"[]", b'{"keys": 1}', b"{}", b"<html>"])
def test_what_is_no_key_set_is_refused(bad: bytes) -> None:
    with pytest.raises(ValueError, match="JWKS"):
        oidc.keys(bad)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"issuer": "http://login.example.com", "client_id": "k"}, "oidc-issuer-url"),
        ({"issuer": "https://x?y", "client_id": "k"}, "oidc-issuer-url"),
        ({"issuer": ISSUER, "client_id": ""}, "oidc-client-id"),
    ],
)
def test_settings_that_could_not_work_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(core_errors.InvalidValueError, match=named):
        oidc.Settings(**settings)
