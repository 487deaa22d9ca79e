"""What every Kubernetes object carries: metadata, owners, conditions, selectors, subjects.

Source: `k8s.io/apimachinery/pkg/apis/meta/v1` and `k8s.io/api/rbac/v1`. Times stay the strings of
the wire (`core.clock.parse_rfc3339` reads them); an absent string is "" and an absent time None,
since the API server writes ``"creationTimestamp": null`` inside templates.
"""

from __future__ import annotations

from typing import Any

import msgspec


class OwnerReference(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Name the object that keeps this one alive; same namespace or cluster-scoped."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Identity and bookkeeping of one object; `managedFields` is left out on purpose (size)."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    #: Opaque; compare with `==` only, order through a cache's `at_least`.
    resource_version: str = ""
    #: Raised by the API server when the spec changes; 0 where the kind has no spec.
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []


class PartialObject(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Hold any object's identity: what decoding needs when the kind does not matter."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class LabelSelectorRequirement(
    msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True
):
    """One row of `matchExpressions`; operator is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: list[str] = []


class LabelSelector(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Select by labels; all parts must hold. `core.selectors.matcher` compiles `plain()`."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []

    def plain(self) -> dict[str, Any]:
        """Give the wire form, ``{matchLabels, matchExpressions}``."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Condition(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """State one aspect of an object; status is True, False or Unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class Subject(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Name who a role is given to: User, Group or ServiceAccount."""

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""
