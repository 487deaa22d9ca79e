from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from tenantry.core import errors as core_errors
from tenantry.gateway import errors, jwt

NOW = 1_000_000.0
ISSUER = "https://kubernetes.default.svc.cluster.local"
ELLIPTIC = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "sub": "system:serviceaccount:ns:sa",
    "aud": [ISSUER],
    "exp": NOW + 60,
    "nbf": NOW - 60,
}


def pem(key: Any) -> bytes:
    found: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return found


KEYS = jwt.keys(pem(ELLIPTIC) + pem(RSA))
VERIFIER = jwt.Verifier(KEYS, ISSUER, frozenset((ISSUER,)))


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def token(key: Any = ELLIPTIC, alg: str = "", **claims: Any) -> str:
    elliptic = isinstance(key, ec.EllipticCurvePrivateKey)
    header = {"alg": alg or ("ES256" if elliptic else "RS256")}
    body = {k: v for k, v in {**CLAIMS, **claims}.items() if v is not None}
    signed = f"{encoded(msgspec.json.encode(header))}.{encoded(msgspec.json.encode(body))}"
    if elliptic:
        r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32) + s.to_bytes(32)
    else:
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{encoded(signature)}"


@pytest.mark.parametrize("key", [ELLIPTIC, RSA])
def test_a_service_accounts_token(key: Any) -> None:
    found = VERIFIER.identity(token(key), NOW)
    assert found is not None
    assert found.user == "system:serviceaccount:ns:sa"
    assert found.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:ns",
        "system:authenticated",
    )


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(token(OTHER), id="another key"),
        pytest.param(token(exp=NOW), id="expired"),
        pytest.param(token(nbf=NOW + 60), id="not yet valid"),
        pytest.param(token(aud="vault"), id="for somebody else"),
        pytest.param(token(aud=[]), id="for nobody"),
        pytest.param(token(sub="admin"), id="no service account"),
        pytest.param(token(sub="system:serviceaccount:ns/../x:sa"), id="no namespace"),
        pytest.param(token(alg="none"), id="no algorithm"),
        pytest.param(token(alg="HS256"), id="a secret that is public"),
        pytest.param(token(RSA, alg="ES256"), id="algorithm of another key"),
        pytest.param(token().rpartition(".")[0] + ".", id="no signature"),
    ],
)
def test_what_is_not_valid_is_nobody(bad: str) -> None:
    with pytest.raises(errors.Unauthenticated):
        VERIFIER.identity(bad, NOW)


@pytest.mark.parametrize(
    "other",
    [
        "",
        "a.b",
        "a.b.c",
        "opaque",
        token(iss="https://login.example.com"),
        token(exp=None),
        "." * 9,
    ],
)
def test_others_tokens_are_left_to_a_review(other: str) -> None:
    assert VERIFIER.identity(other, NOW) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        pem(ec.generate_private_key(ec.SECP384R1())),
    ],
)
def test_keys_that_cannot_be_used_are_refused(text: bytes) -> None:
    with pytest.raises(core_errors.InvalidValueError):
        jwt.keys(text)
