"""Read `X-Forwarded-Client-Cert`, by which a proxy in front names the certificate it verified. Pure.

Grammar: Envoy's. Exactly one element is accepted: more would mean more hops than are trusted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from urllib import parse

from cryptography import exceptions, x509
from cryptography.hazmat.primitives import serialization

from tenantry.gateway import errors

_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


def certificate(value: str, authorities: Sequence[x509.Certificate] = ()) -> bytes:
    """Return the certificate, DER.

    :param authorities: one of which must have issued it; none = whoever the proxy believed
    :raises Unauthenticated: when there is not exactly one, its hash does not fit, or nobody who
        is believed issued it
    """
    found = _fields(value)
    encoded = found.get("cert", "")
    pem = parse.unquote(encoded).encode().strip()
    if not pem.startswith(_BEGIN) or not pem.endswith(_END) or pem.count(_BEGIN) != 1:
        raise errors.Unauthenticated("forwarded client certificate: Cert must be one PEM")
    try:
        loaded = x509.load_pem_x509_certificate(pem)
        der = loaded.public_bytes(serialization.Encoding.DER)
    except ValueError:
        raise errors.Unauthenticated("forwarded client certificate cannot be read") from None
    wanted = found.get("hash")
    if wanted is not None and wanted.lower() != hashlib.sha256(der).hexdigest():
        raise errors.Unauthenticated("forwarded client certificate does not have its hash")
    if authorities and not any(_issued(loaded, authority) for authority in authorities):
        raise errors.Unauthenticated("forwarded client certificate is of an unknown authority")
    return der


def _issued(found: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        found.verify_directly_issued_by(authority)
    except (ValueError, TypeError, exceptions.InvalidSignature):
        return False
    return True


def _fields(value: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _split(value):
        key, equals, content = part.partition("=")
        key = key.strip().lower()
        if not equals or not key:
            raise errors.Unauthenticated("forwarded client certificate: not key=value")
        if key in {"cert", "hash"} and key in found:
            raise errors.Unauthenticated(f"forwarded client certificate: {key} given twice")
        found[key] = content
    return found


def _split(value: str) -> list[str]:
    """Split at semicolons outside quotes, and take the quotes off."""
    parts, current, quoted, escaped = [], "", False, False
    for character in value:
        if escaped:
            current, escaped = current + character, False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            raise errors.Unauthenticated("forwarded client certificate: more than one hop")
        elif character == ";" and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
    if quoted or escaped:
        raise errors.Unauthenticated("forwarded client certificate: quote is not closed")
    return [part for part in (*parts, current) if part.strip()]
