"""Names, keys and hashes whose exact form clients rely on.

Patterns: Kubernetes' "Object Names and IDs" and "Labels and Selectors". Hash: specs/capsule 2.4.
"""

from __future__ import annotations

import functools
import re

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_dns_label(text: str) -> bool:
    """Tell whether `text` is an RFC 1123 label: lower case, at most 63 characters."""
    return DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Tell whether `text` is an RFC 1123 subdomain: dotted labels, at most 253 characters."""
    return len(text) <= 253 and DNS_SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Tell whether `text` is a label or annotation key: an optional DNS prefix, a slash, a name."""
    prefix, slash, name = text.rpartition("/")
    return _KEY_NAME.fullmatch(name) is not None and (not slash or is_dns_subdomain(prefix))


def is_label_value(text: str) -> bool:
    """Tell whether `text` may stand as the value of a label."""
    return not text or _KEY_NAME.fullmatch(text) is not None


def fnv1a64(data: bytes) -> int:
    """Return the 64 bit FNV-1a hash of `data`."""
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest


@functools.lru_cache(maxsize=4096)
def fields_hash(fields: tuple[str, ...]) -> str:
    """Hash a sequence of strings, each behind its length, as unpadded hexadecimal.

    The length (8 bytes, little-endian) keeps ("ab", "c") and ("a", "bc") apart.
    """
    data = bytearray()
    for field in fields:
        encoded = field.encode()
        data += len(encoded).to_bytes(8, "little") + encoded
    return f"{fnv1a64(bytes(data)):x}"
