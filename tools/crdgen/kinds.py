"""The kinds to generate, with what `kubectl get` shows of each."""

from __future__ import annotations

from tools.crdgen import definition

from tenantry.api.capsule import (
    configuration,
    constants,
    proxy_settings,
    quantity_ledger,
    resources,
    rule_status,
    tenant,
    tenant_owner,
    tenant_v1beta1,
)
from tenantry.api.tenantry import constants as tenantry_constants
from tenantry.api.tenantry import node_pool
from tenantry.api.tenantry import resources as tenantry_resources


def _condition(name: str, type: str, part: str, description: str) -> definition.Column:
    return definition.Column(
        name=name,
        path=f'.status.conditions[?(@.type=="{type}")].{part}',
        description=description,
    )


AGE = definition.Column(
    name="Age", type="date", path=".metadata.creationTimestamp", description="Age"
)
READY = _condition("Ready", constants.READY, "status", "Whether everything is as it shall be")
MESSAGE = _condition("Message", constants.READY, "message", "Why it is ready or not")
STATUS = _condition("Status", constants.READY, "message", "Why it is ready or not")

NAMESPACE_QUOTA = definition.Column(
    name="Namespace quota",
    type="integer",
    path=".spec.namespaceOptions.quota",
    description="Most namespaces the tenant may have",
)
NAMESPACE_COUNT = definition.Column(
    name="Namespace count",
    type="integer",
    path=".status.size",
    description="Namespaces the tenant has",
)
NODE_SELECTOR = definition.Column(
    name="Node selector",
    path=".spec.nodeSelector",
    description="Labels of the nodes that the tenant's pods run on",
)

KINDS = (
    definition.Kind(
        resource=resources.TENANTS,
        short_names=("tnt",),
        versions=(
            definition.Version(
                name="v1beta2",
                struct=tenant.Tenant,
                # The name is the value of a label on every namespace of the tenant.
                name_facts={"maxLength": 63},
                columns=(
                    _condition(
                        "State", constants.CORDONED, "reason", "Whether the tenant is cordoned"
                    ),
                    NAMESPACE_QUOTA,
                    NAMESPACE_COUNT,
                    NODE_SELECTOR,
                    READY,
                    STATUS,
                    AGE,
                ),
            ),
            definition.Version(
                name="v1beta1",
                struct=tenant_v1beta1.Tenant,
                stored=False,
                name_facts={"maxLength": 63},
                columns=(
                    definition.Column(
                        name="State", path=".status.state", description="State of the tenant"
                    ),
                    NAMESPACE_QUOTA,
                    NAMESPACE_COUNT,
                    NODE_SELECTOR,
                    AGE,
                ),
            ),
        ),
    ),
    definition.Kind(
        resource=resources.TENANT_OWNERS,
        short_names=("to",),
        versions=(
            definition.Version(
                name="v1beta2", struct=tenant_owner.TenantOwner, columns=(READY, AGE)
            ),
        ),
    ),
    definition.Kind(
        resource=resources.CONFIGURATIONS,
        versions=(
            definition.Version(
                name="v1beta2",
                struct=configuration.CapsuleConfiguration,
                columns=(READY, STATUS, AGE),
            ),
        ),
    ),
    definition.Kind(
        resource=resources.QUANTITY_LEDGERS,
        short_names=("ql",),
        versions=(
            definition.Version(
                name="v1beta2",
                struct=quantity_ledger.QuantityLedger,
                columns=(
                    definition.Column(
                        name="TargetKind",
                        path=".spec.targetRef.kind",
                        description="Kind whose limit is counted",
                    ),
                    definition.Column(
                        name="TargetNamespace",
                        path=".spec.targetRef.namespace",
                        description="Namespace of the object whose limit is counted",
                    ),
                    definition.Column(
                        name="TargetName",
                        path=".spec.targetRef.name",
                        description="Name of the object whose limit is counted",
                    ),
                    definition.Column(
                        name="Reserved",
                        path=".status.reserved",
                        description="Amount held by reservations",
                    ),
                    AGE,
                ),
            ),
        ),
    ),
    definition.Kind(
        resource=resources.RULE_STATUSES,
        versions=(
            definition.Version(
                name="v1beta2",
                struct=rule_status.RuleStatus,
                columns=(READY, MESSAGE, AGE),
            ),
        ),
    ),
    definition.Kind(
        resource=resources.PROXY_SETTINGS,
        versions=(
            definition.Version(
                name="v1beta1", struct=proxy_settings.ProxySetting, columns=(READY, AGE)
            ),
        ),
    ),
    definition.Kind(
        resource=resources.GLOBAL_PROXY_SETTINGS,
        versions=(
            definition.Version(
                name="v1beta1", struct=proxy_settings.GlobalProxySettings, columns=(READY, AGE)
            ),
        ),
    ),
    definition.Kind(
        resource=tenantry_resources.NODE_POOLS,
        short_names=("tnp",),
        versions=(
            definition.Version(
                name=tenantry_constants.VERSION,
                struct=node_pool.TenantNodePool,
                # The name is the value of a label on every node of the pool.
                name_facts={"maxLength": 63},
                columns=(
                    definition.Column(
                        name="Tenant", path=".spec.tenant", description="Tenant of the nodes"
                    ),
                    definition.Column(
                        name="Mode", path=".spec.mode", description="How strictly they are its"
                    ),
                    definition.Column(
                        name="Nodes",
                        type="integer",
                        path=".status.desired",
                        description="Nodes that the pool has",
                    ),
                    definition.Column(
                        name="Dedicated",
                        type="integer",
                        path=".status.dedicated",
                        description="Nodes that are dedicated",
                    ),
                    READY,
                    _condition(
                        "Complete",
                        tenantry_constants.COMPLETE,
                        "status",
                        "Whether dedicated nodes have what they need",
                    ),
                    _condition(
                        "Exclusive",
                        tenantry_constants.EXCLUSIVE,
                        "status",
                        "Whether every pod is where it should be",
                    ),
                    STATUS,
                    AGE,
                ),
            ),
        ),
    ),
)
