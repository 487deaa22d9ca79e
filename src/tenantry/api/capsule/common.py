"""Pieces that several of Capsule's kinds share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec

from tenantry.api import meta, schema

SubjectKind: TypeAlias = Literal["User", "Group", "ServiceAccount"]


class Wire(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Give every Struct of this group the same shape on the wire.

    Subclasses repeat `kw_only=True`, which is not inherited.
    """


class User(Wire, kw_only=True):
    """A user, a group or a ServiceAccount as Kubernetes authenticates it."""

    kind: SubjectKind
    """What the name stands for: `User`, `Group` or `ServiceAccount`."""
    name: str
    """Name as the API server sees it, e.g. `alice`, `projectcapsule.dev`, or for a ServiceAccount
    `system:serviceaccount:<namespace>:<name>`."""


class Metadata(Wire, kw_only=True):
    """Labels and annotations to place on objects."""

    labels: dict[str, str] = {}
    """Labels by key."""
    annotations: dict[str, str] = {}
    """Annotations by key."""


class AllowedList(Wire, kw_only=True):
    """What may be used: listed names, or names that match an expression."""

    allowed: list[str] = []
    """Names that may be used, compared exactly."""
    allowed_regex: str = ""
    """Deprecated: list names, or select by labels. Names in which this regular expression (RE2)
    finds a match may be used as well; anchor it with `^` and `$` to match whole names."""


class SelectorAllowedList(AllowedList, kw_only=True):
    """What may be used: listed names, names that match, or objects with matching labels."""

    SCHEMA: ClassVar[tuple[schema.Facts, ...]] = (schema.ATOMIC_MAP,)

    match_labels: dict[str, str] = {}
    """Objects that carry all of these labels may be used as well."""
    match_expressions: Annotated[
        list[meta.LabelSelectorRequirement], schema.Core("LabelSelectorRequirements")
    ] = []
    """Objects whose labels meet all of these requirements may be used as well."""


class DefaultAllowedList(SelectorAllowedList, kw_only=True):
    """What may be used, and what is used when an object names nothing."""

    default: str = ""
    """Name written into objects that name none. It may always be used."""


class Forbidden(Wire, kw_only=True):
    """Keys that may not be set."""

    denied: list[str] = []
    """Keys that may not be set, compared exactly."""
    denied_regex: str = ""
    """Keys in which this regular expression (RE2) finds a match may not be set either."""


class ExpressionMatch(Wire, kw_only=True):
    """Match a value against listed values or a regular expression."""

    SCHEMA: ClassVar[tuple[schema.Rule, ...]] = (
        schema.Rule(
            "has(self.exact) || has(self.exp)", "at least one of exact and exp must be set"
        ),
    )

    exact: Annotated[list[str], schema.SOME] = []
    """Values that match as they stand."""
    exp: Annotated[str, schema.NOT_EMPTY] = ""
    """Regular expression (RE2); a value in which it finds a match anywhere matches, so
    `^harbor/` matches `harbor/app` but not `my/harbor/app`."""
    negate: bool = False
    """Turn the result around: what matched does not, and the other way round. Default: false."""


class RoleBinding(Wire, kw_only=True):
    """A role given to subjects in every namespace concerned."""

    cluster_role_name: str
    """Name of the ClusterRole to bind, e.g. `view`."""
    subjects: Annotated[list[meta.Subject], schema.SOME, schema.Core("Subjects")]
    """Who gets the role; at least one."""
    labels: dict[str, str] = {}
    """Labels for the RoleBindings made from this entry."""
    annotations: dict[str, str] = {}
    """Annotations for the RoleBindings made from this entry."""


#: Labels as a selector in Kubernetes' usual form; the opaque part is expanded in the schema.
Selector: TypeAlias = Annotated[meta.LabelSelector, schema.Core("LabelSelector")]

#: Current state, one entry per aspect.
Conditions: TypeAlias = Annotated[list[meta.Condition], schema.Core("Conditions")]

ResourceQuotaSpec: TypeAlias = Annotated[dict[str, Any], schema.Core("ResourceQuotaSpec")]
LimitRangeSpec: TypeAlias = Annotated[dict[str, Any], schema.Core("LimitRangeSpec")]
NetworkPolicySpec: TypeAlias = Annotated[dict[str, Any], schema.Core("NetworkPolicySpec")]
ScopeSelector: TypeAlias = Annotated[dict[str, Any], schema.Core("ScopeSelector")]
