"""Which forms of an answer can be looked into, of those that a client accepts. Pure."""

from __future__ import annotations

from tenantry.gateway import errors, protobuf
from tenantry.httpproxy import heads

JSON = b"application/json"
_LISTS = {b"as=table": "Table", b"as=partialobjectmetadatalist": "PartialObjectMetadataList"}


def _accepted(headers: heads.Headers) -> list[bytes]:
    """Return the forms that a client accepts, as it wrote them."""
    accept = b",".join(value for name, value in headers if name == b"accept")
    return [part.strip() for part in accept.split(b",")] if accept.strip() else []


def _read(part: bytes) -> tuple[bytes, list[bytes]]:
    """Return a form's media type and parameters, in lower case."""
    kind, *parameters = [piece.strip() for piece in part.lower().split(b";")]
    return kind, parameters


def _form(part: bytes, *, binary: bool) -> bytes:
    kind, parameters = _read(part)
    if kind == JSON:
        return part
    if kind in {b"*/*", b"application/*"}:
        # How much it is wanted decides which of several it is.
        return b";".join((JSON, *(p for p in parameters if p.startswith(b"q="))))
    # A Table has its rows where lists have something else.
    return part if binary and kind == protobuf.MEDIA_TYPE and b"as=table" not in parameters else b""


def narrowed(headers: heads.Headers, *, binary: bool = True) -> heads.Headers:
    """Return headers for a request whose answer is read here: JSON or protobuf.

    :raises NotAcceptable: when the client accepts nothing that can be read here
    """
    accepted = _accepted(headers)
    forms = [found for part in accepted if (found := _form(part, binary=binary))]
    if accepted and not forms:
        raise errors.NotAcceptable(
            "what is narrowed comes as JSON" + (" or protobuf" if binary else "")
        )
    kept = [h for h in headers if h[0] not in {b"accept", b"accept-encoding"}]
    return [*kept, (b"accept", b",".join(forms) or JSON)]


def of_empty(headers: heads.Headers) -> tuple[str, str]:
    """Return kind and apiVersion of a list without objects, where they are not those of its kind."""
    for part in _accepted(headers)[:1]:
        _, parameters = _read(part)
        for parameter, kind in _LISTS.items():
            if parameter in parameters:
                beta = b"v=v1beta1" in parameters
                return kind, "meta.k8s.io/v1beta1" if beta else "meta.k8s.io/v1"
    return "", ""
