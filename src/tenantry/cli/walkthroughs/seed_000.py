"""Seed 000: shared clusters and their tenants. Chapters 2, 3, 5.1 and 5.3."""

from __future__ import annotations

from tenantry.api.capsule import resources as capsule
from tenantry.cli.walkthroughs import steps
from tenantry.cli.walkthroughs.steps import Chapter, Step

TENANTS_HEADER = (
    "NAME",
    "STATE",
    "NAMESPACE QUOTA",
    "NAMESPACE COUNT",
    "NODE SELECTOR",
    "READY",
    "STATUS",
    "AGE",
)

#: On what the tour creates, so that it never removes a tenant that is somebody's.
MARK = "tenantry.io/tour"

_HYPERSUITE = f"""\
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata:
  name: hypersuite
  labels:
    {MARK}: seed-000
spec:
  owners:
  - kind: User
    name: alice
"""

_ORION = f"""\
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata:
  name: orion
  labels:
    {MARK}: seed-000
spec:
  owners:
  - kind: User
    name: bob
  namespaceOptions:
    quota: 3
"""


def _claimed(namespace: str, tenant: str = "hypersuite") -> str:
    return f"""\
apiVersion: v1
kind: Namespace
metadata:
  name: {namespace}
  labels:
    capsule.clastix.io/tenant: {tenant}
"""


_QUOTA = "Cannot exceed Namespace quota: please, reach out to the system administrators"
_TENANT_OF = "jsonpath={.metadata.labels.capsule\\.clastix\\.io/tenant}"
_REFERENCE_OF = "jsonpath={.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}"

WALKTHROUGH = steps.Walkthrough(
    name="000",
    title="Multi-tenancy on a shared cluster",
    tenants=("hypersuite", "orion"),
    users={"alice": ("projectcapsule.dev",), "bob": ("projectcapsule.dev",)},
    chapters=(
        Chapter(
            title="5.1, 5.3  The platform is installed",
            steps=(
                Step(
                    says="the API kinds of this release are there",
                    argv=("get", "crd", "-o", "name"),
                    check=steps.prints(*(kind.group_resource for kind in capsule.ALL)),
                ),
                Step(
                    says="the platform is configured and ready",
                    argv=("get", "capsuleconfigurations"),
                    check=steps.columns(
                        ("NAME", "READY", "STATUS", "AGE"), ("default", "True", "reconciled", "*")
                    ),
                    within=10,
                ),
                Step(
                    says="the API server asks the platform about namespaces and tenants",
                    argv=("get", "validatingwebhookconfigurations", "-o", "name"),
                    check=steps.prints("/tenantry"),
                ),
            ),
        ),
        Chapter(
            title="2  An administrator draws the boundary",
            steps=(
                Step(
                    says="a tenant, with an owner who has no role in the cluster",
                    argv=("apply", "-f", "-"),
                    stdin=_HYPERSUITE,
                    check=steps.succeeds,
                ),
                Step(
                    says="what an owner is, in the API's own words",
                    argv=("explain", "tenant.spec.owners"),
                    check=steps.prints("FIELD: owners", "clusterRoles"),
                ),
                Step(
                    says="alice is nobody in the cluster",
                    who="alice",
                    argv=("auth", "can-i", "*", "*", "--all-namespaces"),
                    check=steps.equals("no"),
                ),
            ),
        ),
        Chapter(
            title="2  The owner serves herself",
            steps=(
                Step(
                    says="alice creates a namespace with her own kubeconfig",
                    who="alice",
                    argv=("create", "namespace", "hypersuite-dev"),
                    check=steps.succeeds,
                ),
                Step(
                    says="it belongs to her tenant, by label",
                    argv=("get", "namespace", "hypersuite-dev", "-o", _TENANT_OF),
                    check=steps.equals("hypersuite"),
                ),
                Step(
                    says="and by ownerReference",
                    argv=("get", "namespace", "hypersuite-dev", "-o", _REFERENCE_OF),
                    check=steps.equals("Tenant/hypersuite"),
                ),
                Step(
                    says="she administers it",
                    who="alice",
                    argv=("auth", "can-i", "create", "pods", "-n", "hypersuite-dev"),
                    check=steps.equals("yes"),
                    within=5,
                ),
                Step(
                    says="and works in it",
                    who="alice",
                    argv=("create", "configmap", "notes", "-n", "hypersuite-dev",
                          "--from-literal=first=hour"),
                    check=steps.succeeds,
                ),
            ),
        ),
        Chapter(
            title="3  The boundary holds",
            steps=(
                Step(
                    says="a second tenant, of bob, with room for three namespaces",
                    argv=("apply", "-f", "-"),
                    stdin=_ORION,
                    check=steps.succeeds,
                ),
                Step(
                    says="alice cannot create a namespace in bob's tenant",
                    who="alice",
                    argv=("create", "-f", "-"),
                    stdin=_claimed("orion-stolen", "orion"),
                    check=steps.refused("can not assign the desired namespace to a non-owned Tenant"),
                ),
                Step(
                    says="bob has his first namespace",
                    who="bob",
                    argv=("create", "namespace", "orion-1"),
                    check=steps.succeeds,
                ),
                Step(
                    says="alice cannot pull it over to her tenant",
                    who="alice",
                    argv=("apply", "--server-side", "--force-conflicts", "-f", "-"),
                    stdin=_claimed("orion-1"),
                    check=steps.refused("denied patch request for this namespace"),
                ),
                Step(
                    says="nor take over a namespace of the system",
                    who="alice",
                    argv=("apply", "--server-side", "--force-conflicts", "-f", "-"),
                    stdin=_claimed("kube-system"),
                    check=steps.refused("namespace can not be patched into a tenant"),
                ),
                Step(
                    says="nor look into bob's namespace",
                    who="alice",
                    argv=("get", "pods", "-n", "orion-1"),
                    check=steps.refused("(Forbidden)", 'cannot list resource "pods"'),
                ),
                Step(
                    says="nor list all namespaces of the cluster",
                    who="alice",
                    argv=("get", "namespaces"),
                    check=steps.refused("(Forbidden)", "at the cluster scope"),
                ),
            ),
        ),
        Chapter(
            title="3  The quota of namespaces holds",
            steps=(
                *(
                    Step(
                        says=f"bob's namespace {number} of 3",
                        who="bob",
                        argv=("create", "namespace", f"orion-{number}"),
                        check=steps.succeeds,
                    )
                    for number in (2, 3)
                ),
                Step(
                    says="the fourth is refused",
                    who="bob",
                    argv=("create", "namespace", "orion-4"),
                    check=steps.refused(_QUOTA),
                ),
            ),
        ),
        Chapter(
            title="5.2  The tenants at a glance",
            steps=(
                Step(
                    says="the listing of the document, column by column",
                    argv=("get", "tenants"),
                    check=steps.columns(
                        TENANTS_HEADER,
                        ("hypersuite", "Active", "", "1", "", "True", "reconciled", "*"),
                        ("orion", "Active", "3", "3", "", "True", "reconciled", "*"),
                    ),
                    within=10,
                ),
            ),
        ),
    ),
)  # fmt: skip
