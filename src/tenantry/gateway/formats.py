"""Which forms of an answer can be looked into, of those that a client accepts. Pure."""

from __future__ import annotations

from tenantry.gateway import errors, protobuf
from tenantry.httpproxy import heads

JSON = b"application/json"


def _narrowed(accept: bytes, *, binary: bool) -> bytes:
    kept = [found for part in accept.split(b",") if (found := _form(part.strip(), binary=binary))]
    if kept:
        return b",".join(kept)
    if accept.strip():
        raise errors.NotAcceptable(
            "what is narrowed comes as JSON" + (" or protobuf" if binary else "")
        )
    return JSON


def _form(part: bytes, *, binary: bool) -> bytes:
    kind, *parameters = [piece.strip() for piece in part.split(b";")]
    kind = kind.lower()
    if kind == JSON:
        return part
    if kind in {b"*/*", b"application/*"}:
        # How much it is wanted decides which of several it is.
        return b";".join((JSON, *(p for p in parameters if p.startswith(b"q="))))
    # A Table has its rows where lists have something else.
    table = any(parameter.lower() == b"as=table" for parameter in parameters)
    return part if binary and kind == protobuf.MEDIA_TYPE and not table else b""


def narrowed(headers: heads.Headers, *, binary: bool = True) -> heads.Headers:
    """Return headers for a request whose answer is read here: JSON or protobuf.

    :raises NotAcceptable: when the client accepts nothing that can be read here
    """
    accept = b",".join(value for name, value in headers if name == b"accept")
    kept = [h for h in headers if h[0] not in {b"accept", b"accept-encoding"}]
    return [*kept, (b"accept", _narrowed(accept, binary=binary))]


def of_empty(headers: heads.Headers) -> tuple[str, str]:
    """Return kind and apiVersion of a list without objects, where they are not those of its kind."""
    for name, value in headers:
        if name == b"accept":
            first = value.partition(b",")[0].lower().split(b";")
            for kind in ("Table", "PartialObjectMetadataList"):
                if f"as={kind.lower()}".encode() in map(bytes.strip, first):
                    beta = b"v=v1beta1" in map(bytes.strip, first)
                    return kind, "meta.k8s.io/v1beta1" if beta else "meta.k8s.io/v1"
    return "", ""
