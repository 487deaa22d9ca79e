"""The review that the API server exchanges with a webhook.

Source: `k8s.io/api/admission/v1`. Objects stay raw bytes: they are decoded once, by the one who
composes the steps. A raw field that was absent or null is ``b"null"``; `present` tells.
"""

from __future__ import annotations

import msgspec

GROUP_VERSION = "admission.k8s.io/v1"


class GroupVersionKind(msgspec.Struct, gc=False, kw_only=True):
    """Name a kind."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(msgspec.Struct, gc=False, kw_only=True):
    """Name a resource."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(msgspec.Struct, gc=False, omit_defaults=True, kw_only=True):
    """Tell who asks, as authentication (and impersonation) found out."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class AdmissionRequest(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Ask whether one operation may proceed.

    `kind` and `resource` are what the webhook registered for; `request_kind` and
    `request_resource` what the user sent, different when the API server converted.
    """

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    #: Empty for a create with `generateName`, and for a collection.
    name: str = ""
    namespace: str = ""
    #: CREATE, UPDATE, DELETE or CONNECT.
    operation: str
    user_info: UserInfo = msgspec.field(default_factory=UserInfo)
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")
    dry_run: bool | None = None
    options: msgspec.Raw = msgspec.Raw(b"null")


class Status(msgspec.Struct, gc=False, omit_defaults=True, kw_only=True):
    """Explain a refusal; `message` reaches the user, `code` becomes the HTTP status."""

    message: str = ""
    reason: str = ""
    code: int = 0


class AdmissionResponse(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Answer a request; `allowed` has no default, so it is always written."""

    uid: str
    allowed: bool
    status: Status | None = None
    #: A JSON patch; base64 on the wire.
    patch: bytes | None = None
    #: "JSONPatch" whenever `patch` is there.
    patch_type: str | None = None
    audit_annotations: dict[str, str] = {}
    #: At most 256 characters each, 4096 together; the API server cuts the rest.
    warnings: list[str] = []


class AdmissionReview(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Wrap a request on the way in and a response on the way out."""

    api_version: str
    kind: str
    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None


def present(raw: msgspec.Raw) -> bool:
    """Tell whether a raw field holds an object, rather than being absent or null."""
    return bytes(raw) != b"null"
