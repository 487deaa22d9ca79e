"""ProxySetting and GlobalProxySettings: which cluster-wide objects somebody sees at the gateway.

Both generations of Capsule Proxy's schema are accepted at once: operations may be any of the four
words, of which `List` and `Get` mean something.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from tenantry.api import meta, schema
from tenantry.api.capsule import common, tenant

VERSION = "v1beta1"

Operation: TypeAlias = Literal["List", "Get", "Update", "Delete"]


def operations() -> list[Operation]:
    """Give the operations of a rule that names none."""
    return ["List", "Get"]


class ClusterResource(common.Wire, kw_only=True):
    """Cluster-wide objects, by kind and labels."""

    api_groups: list[str]
    """API groups, e.g. `storage.k8s.io`, `storage.k8s.io/v1`, `*.k8s.io/*`; `""` is the core
    group and `*` stands for any text."""
    resources: list[str]
    """Plural names, e.g. `storageclasses`; `*` for all."""
    operations: list[Operation] = msgspec.field(default_factory=operations)
    """`List` also allows to get and watch, `Get` only to get by name. `Update` and `Delete` are
    accepted for manifests of older releases and allow nothing. Default: `[List, Get]`."""
    selector: common.Selector
    """Labels of the objects; an empty selector selects nothing."""


class GlobalSubject(common.User, kw_only=True):
    """Somebody a rule is for."""


class Subject(common.User, kw_only=True):
    """Somebody who sees through the gateway what an owner of the tenant sees, and more."""

    cluster_resources: list[ClusterResource] = []
    """Further cluster-wide objects that the subject sees."""
    proxy_settings: list[tenant.ProxySetting] = []
    """Deprecated: use `clusterResources`. Cluster-wide kinds that the subject sees, filtered to
    those that belong to the tenant."""


class GlobalRule(common.Wire, kw_only=True):
    """Cluster-wide objects for some subjects."""

    subjects: list[GlobalSubject]
    """Who sees them."""
    cluster_resources: list[ClusterResource] = []
    """What they see."""


class ProxySettingSpec(common.Wire, kw_only=True):
    """What is shown to whom."""

    subjects: Annotated[list[Subject], schema.SOME]
    """Who may look; at least one."""


class GlobalProxySettingsSpec(common.Wire, kw_only=True):
    """What is shown to whom."""

    rules: Annotated[list[GlobalRule], schema.SOME]
    """Subjects with what they see; at least one."""


class ProxyStatus(common.Wire, kw_only=True):
    """Whether the gateway follows it."""

    observed_generation: Annotated[int, schema.INT64] = 0
    """Generation of the spec that this status is about."""
    conditions: common.Conditions = []
    """State of the setting, by aspect."""


class ProxySetting(common.Wire, kw_only=True):
    """What is shown at the gateway to subjects of the tenant that owns this namespace."""

    metadata: meta.ObjectMeta
    spec: ProxySettingSpec = msgspec.field(default_factory=lambda: ProxySettingSpec(subjects=[]))
    """What is shown to whom."""
    status: ProxyStatus = msgspec.field(default_factory=ProxyStatus)
    """Whether the gateway follows it; written by the gateway."""


class GlobalProxySettings(common.Wire, kw_only=True):
    """What is shown at the gateway to subjects of any tenant, or of none."""

    metadata: meta.ObjectMeta
    spec: GlobalProxySettingsSpec = msgspec.field(
        default_factory=lambda: GlobalProxySettingsSpec(rules=[])
    )
    """What is shown to whom."""
    status: ProxyStatus = msgspec.field(default_factory=ProxyStatus)
    """Whether the gateway follows it; written by the gateway."""
