"""Seed 000: shared clusters and their tenants. Chapters 2 to 5."""

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
_PLACE_OF = "jsonpath={.items[*].metadata.namespace}/{.items[*].metadata.name}"
_NODE = '{"kubernetes.io/hostname":"node-1"}'
_NODES = f"""\
{{"spec": {{"nodeSelector": {_NODE}, "owners": [{{"kind": "User", "name": "alice",
"proxySettings": [{{"kind": "Nodes", "operations": ["List"]}}]}}]}}}}"""
_SETTINGS = """\
apiVersion: capsule.clastix.io/v1beta1
kind: GlobalProxySettings
metadata:
  name: tour-seed-000
spec:
  rules:
  - subjects:
    - kind: User
      name: bob
    clusterResources:
    - apiGroups: [""]
      resources: [nodes]
      selector:
        matchLabels:
          kubernetes.io/hostname: node-2
"""
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
                    within=30,
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
                    within=30,
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
            title="4  What tenants see of the cluster",
            steps=(
                Step(
                    says="at the gateway alice lists namespaces, and sees hers",
                    who=steps.at_gateway("alice"),
                    argv=("get", "namespaces", "-o", "name"),
                    check=steps.lists("namespace/hypersuite-dev", never=("orion", "kube-", "default")),
                ),
                Step(
                    says="and bob his three",
                    who=steps.at_gateway("bob"),
                    argv=("get", "namespaces", "-o", "name"),
                    check=steps.lists(
                        *(f"namespace/orion-{number}" for number in (1, 2, 3)),
                        never=("hypersuite", "kube-", "default"),
                    ),
                ),
                Step(
                    says="with the columns that she knows",
                    who=steps.at_gateway("alice"),
                    argv=("get", "namespaces"),
                    check=steps.columns(
                        ("NAME", "STATUS", "AGE"), ("hypersuite-dev", "Active", "*")
                    ),
                ),
                Step(
                    says="other people's namespaces do not exist for her",
                    who=steps.at_gateway("alice"),
                    argv=("get", "namespace", "orion-1"),
                    check=steps.refused('(NotFound): namespaces "orion-1" not found'),
                ),
                Step(
                    says="she lists objects of all her namespaces at once",
                    who=steps.at_gateway("alice"),
                    argv=("get", "configmaps", "--all-namespaces", "--field-selector",
                          "metadata.name=notes", "-o", _PLACE_OF),
                    check=steps.lists("hypersuite-dev", "notes", never=("orion", "kube-")),
                ),
                Step(
                    says="tools that ask first are told so",
                    who=steps.at_gateway("alice"),
                    argv=("auth", "can-i", "list", "configmaps", "--all-namespaces"),
                    check=steps.equals("yes"),
                ),
                Step(
                    says="what she may do is still decided by the API server",
                    who=steps.at_gateway("alice"),
                    argv=("get", "pods", "-n", "orion-1"),
                    check=steps.refused("(Forbidden)", 'User "alice" cannot list resource "pods"'),
                ),
                Step(
                    says="she creates in her own name, at the gateway too",
                    who=steps.at_gateway("alice"),
                    argv=("create", "namespace", "hypersuite-lab"),
                    check=steps.succeeds,
                    direct=True,
                ),
                Step(
                    says="and sees it at once",
                    who=steps.at_gateway("alice"),
                    argv=("get", "namespaces", "-o", "name"),
                    check=steps.lists(
                        "namespace/hypersuite-dev",
                        "namespace/hypersuite-lab",
                        never=("orion", "kube-", "default"),
                    ),
                ),
                Step(
                    says="the administrator gives alice the nodes of her tenant",
                    argv=("patch", "tenant", "hypersuite", "--type=merge", "-p", _NODES),
                    check=steps.succeeds,
                ),
                Step(
                    says="and she sees those, and no others",
                    who=steps.at_gateway("alice"),
                    argv=("get", "nodes", "-o", "name"),
                    check=steps.equals("node/node-1"),
                    within=30,
                ),
            ),
        ),
        Chapter(
            title="5.2  The gateway is installed",
            steps=(
                Step(
                    says="it shows alice her tenant in the document's listing",
                    who=steps.at_gateway("alice"),
                    argv=("get", "tenants", "-o", "name"),
                    check=steps.lists("tenant.capsule.clastix.io/hypersuite", never=("orion",)),
                ),
                Step(
                    says="and further kinds to whom an administrator says",
                    argv=("apply", "-f", "-"),
                    stdin=_SETTINGS,
                    check=steps.succeeds,
                ),
                Step(
                    says="which it follows",
                    argv=("get", "globalproxysettings", "tour-seed-000"),
                    check=steps.columns(("NAME", "READY", "AGE"), ("tour-seed-000", "True", "*")),
                    within=30,
                ),
                Step(
                    says="so bob lists a node by its label",
                    who=steps.at_gateway("bob"),
                    argv=("get", "nodes", "-o", "name"),
                    check=steps.equals("node/node-2"),
                    within=30,
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
                        ("hypersuite", "Active", "", "2", _NODE, "True", "reconciled", "*"),
                        ("orion", "Active", "3", "3", "", "True", "reconciled", "*"),
                    ),
                    within=30,
                ),
            ),
        ),
    ),
)  # fmt: skip
