"""What the admission decisions of this package rest on.

Gathered for one request by the process that serves it (docs/architecture.md, "Evidence"): *live*
parts were read from the API server after the request arrived, *state* parts come from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tenantry.api.capsule import configuration, tenant
from tenantry.directory import identity, owners
from tenantry.tenancy.policy import compiling, engine, surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Who asks, and the tenants that the request can concern.

    :param tenants: by name; one that is not here does not exist
    :param owners_of: gives the owners of one of them
    :param tenant_name: tenant of the namespace that the request is in, if it is in one
    :param guest: gives, for one of the tenants and the name of a namespace, whom its service
        accounts would be that has rights outside of the tenant; "" for nobody
    :param home: tenant of the namespace that the requester lives in, if it is a service account
    :param node_selector: labels of nodes that the tenant of the namespace chooses for its pods
    :param cordoned: whether that namespace, or its tenant as a whole, is frozen
    :param leaving: whether that namespace is being deleted, or gone
    :param occupied: whether it may hold more than what the platform put there
    :param policy: what may be in that namespace; None where it belongs to no tenant
    :param around: what else there is in the cluster that the policy speaks of
    :param owns: whether the requester owns the tenant of that namespace
    :param work: what comparing with rules may still cost
    :param is_controller: whether the requester is the platform itself
    """

    requester: identity.Requester
    requester_class: identity.Class
    config: configuration.CapsuleConfigurationSpec
    tenants: Mapping[str, tenant.Tenant]
    owners_of: Callable[[tenant.Tenant], Sequence[owners.Owner]]
    guest: Callable[[tenant.Tenant, str], str] = lambda _owner, _name: ""
    tenant_name: str | None = None
    home: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    cordoned: bool = False
    leaving: bool = False
    occupied: bool = False
    policy: compiling.Policy | None = None
    around: surroundings.Surroundings = surroundings.NOTHING
    owns: Callable[[], bool] = lambda: False
    is_controller: bool = False
    work: engine.Work = field(default_factory=engine.Work)

    @property
    def who(self) -> engine.Who:
        """Return the requester as rules see one."""
        return engine.Who(
            requester=self.requester,
            klass=self.requester_class,
            owns=self.owns,
            controller=self.is_controller,
            work=self.work,
        )

    def owned(self, name: str) -> tenant.Tenant | None:
        """Return the tenant of that name if the requester owns it; administrators own all."""
        found = self.tenants.get(name)
        if found is None or self.requester_class is identity.Class.ADMIN:
            return found
        return found if owners.is_owner(self.owners_of(found), self.requester) else None
