"""Bearer tokens in requests: where they stand, and when they end. Pure."""

from __future__ import annotations

import base64
import binascii

import msgspec

from tenantry.httpproxy import heads

_WEBSOCKET = "base64url.bearer.authorization.k8s.io."


def of(head: heads.RequestHead) -> str:
    """Return the token that a request brings, empty for none."""
    value = head.get(b"authorization")
    if value:
        scheme, _, token = value.partition(b" ")
        return token.strip().decode("ascii", "replace") if scheme.lower() == b"bearer" else ""
    for protocol in head.get(b"sec-websocket-protocol").decode("ascii", "replace").split(","):
        encoded = protocol.strip()
        if encoded.startswith(_WEBSOCKET):
            encoded = encoded.removeprefix(_WEBSOCKET)
            try:
                padded = encoded + "=" * (-len(encoded) % 4)
                return base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
            except (binascii.Error, UnicodeDecodeError):
                return ""
    return ""


def without_token(protocols: bytes) -> bytes:
    """Return a list of WebSocket protocols without the one that carries a token."""
    kept = [
        part for part in protocols.split(b",") if not part.strip().startswith(_WEBSOCKET.encode())
    ]
    return b",".join(kept).strip()


class _Claims(msgspec.Struct):
    exp: float = float("inf")


def expires(token: str) -> float:
    """Read when a JWT ends, without believing anything else it says."""
    parts = token.split(".")
    if len(parts) != 3:
        return float("inf")
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims, type=_Claims, strict=False).exp
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return float("inf")
