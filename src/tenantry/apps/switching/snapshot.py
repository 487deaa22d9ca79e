"""What the check knows of a cluster; `reading` gathers it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tenantry.api.capsule import configuration, constants
from tenantry.tenancy.checking import views

#: The chart's.
DEPLOYMENT = "capsule-controller-manager"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """A Deployment or DaemonSet that runs Capsule."""

    kind: str
    name: str
    replicas: int
    #: Command lines of its containers.
    arguments: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lease:
    """The election that both products take part in."""

    holder: str
    #: Seconds that it still holds, by the server's clock; negative = it has ended.
    left: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hooks:
    """One webhook configuration."""

    kind: str
    name: str
    #: Name, Service (namespace, name) or ("", address), and path of each webhook that is not ours.
    webhooks: tuple[tuple[str, tuple[str, str], str], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Definition:
    """One kind of Capsule's group as the cluster has it."""

    name: str
    kind: str
    served: frozenset[str]
    stored: frozenset[str]
    #: Version -> paths of its fields.
    fields: Mapping[str, frozenset[str]]
    #: "namespace/name" of the Service, or the address, that converts; "" = none, or Tenantry.
    converter: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Secret:
    """The Secret that the configuration names."""

    name: str
    ours: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All that was found out. None means: could not be, see `problems`."""

    namespace: str = constants.CONTROLLER_NAMESPACE
    configuration_name: str = constants.CONFIGURATION_NAME
    #: What could not be read -> why.
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)
    workloads: Sequence[Workload] | None = ()
    lease: Lease | None = None
    hooks: Sequence[Hooks] | None = ()
    #: Kinds as this release defines them, and as the cluster has them.
    wanted: Mapping[str, Definition] = dataclasses.field(default_factory=dict)
    definitions: Sequence[Definition] | None = ()
    #: Kinds that we do not serve -> number of their objects.
    objects: Mapping[str, int] = dataclasses.field(default_factory=dict)
    configuration: configuration.CapsuleConfiguration | None = None
    #: Why the configuration cannot be understood.
    broken: str = ""
    #: Whether there is one, or that is not known.
    configured: bool | None = None
    secret: Secret | None = None
    #: ClusterRoleBindings that make the controller's ServiceAccount cluster-admin.
    almighty: Sequence[str] | None = ()
    tenancy: views.Tenancy = dataclasses.field(default_factory=views.Tenancy)


def spec_of(found: Snapshot) -> configuration.CapsuleConfigurationSpec:
    """Return the settings in force."""
    if found.configuration is None:
        return configuration.CapsuleConfigurationSpec()
    return found.configuration.spec
