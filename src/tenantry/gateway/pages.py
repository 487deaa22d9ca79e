"""Continue tokens of lists that are made of several. Pure.

They need no seal: each part is listed in the caller's own name, and only namespaces that the
caller is shown anyway are looked into. Whoever changes one, changes what they see themselves.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses

import msgspec

from tenantry.gateway import errors, paths

_DECODER = msgspec.json.Decoder(tuple[int, str, str, str])
_FORM = 1
_LONGEST = 16384


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """Where the next page begins."""

    namespace: str
    inner: str
    """the API server's own token there; empty = at the namespace's beginning"""
    version: str
    """of the first page, which is that of the whole list"""

    def written(self) -> str:
        encoded = msgspec.json.encode((_FORM, self.namespace, self.inner, self.version))
        return base64.urlsafe_b64encode(encoded).rstrip(b"=").decode()


def read(text: str) -> Token:
    """Read a token.

    :raises Malformed: when it is none of ours
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError
        padded = text + "=" * (-len(text) % 4)
        form, namespace, inner, version = _DECODER.decode(
            base64.b64decode(padded, altchars=b"-_", validate=True)
        )
        if form != _FORM or (version and not version.isdigit()):
            raise ValueError
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise errors.Malformed("continue key is not valid") from None
    return Token(namespace, inner, version)


def limit(query: paths.Query) -> int:
    """Return how many objects a page may have; 0 = all.

    :raises Malformed: when it is no number
    """
    text = query.first("limit") or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise errors.Malformed("limit must be a number that is not negative")
    # The API server answers from its cache then, as a whole.
    return 0 if query.first("resourceVersion") == "0" else int(text)
