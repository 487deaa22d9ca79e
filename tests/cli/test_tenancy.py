"""`tenantry tenancy check` on a cluster as Capsule leaves it; it reads and writes nothing."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest
import yaml

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.apps import hooks, roles
from tenantry.cli import crds, main
from tenantry.kube import client as kube
from tenantry.kube import errors, install
from tenantry.local import testing
from tenantry.tenancy import bindings

pytestmark = pytest.mark.plane

GUIDE = Path(__file__).parents[2] / "docs" / "tenants.md"

Object = dict[str, Any]
OWN = constants.CONTROLLER_NAMESPACE
POOLS = resources.Resource(
    constants.GROUP, "v1beta2", "resourcepools", "ResourcePool", namespaced=False
)
#: Who may read everything and write nothing, and who may read only namespaces and tenants.
READER, POOR = "reader", "poor-reader"


def run(plane: testing.Plane, *args: str, user: str = READER) -> click.testing.Result:
    kubeconfig = plane.kubeconfig(user)
    return click.testing.CliRunner().invoke(
        main.command,
        ["tenancy", "check", *args, "--kubeconfig", str(kubeconfig)],
        standalone_mode=False,
    )


def labelled(name: str, tenant: str, uid: str) -> Object:
    return {
        "metadata": {
            "name": name,
            "labels": {constants.TENANT_LABEL: tenant},
            "ownerReferences": [
                {"apiVersion": constants.API_VERSION, "kind": "Tenant", "name": tenant, "uid": uid}
            ],
        }
    }


async def as_capsule_leaves_it(client: kube.Client) -> None:
    """Make what the chart of Capsule installs, and what its controller has made since."""

    async def create(resource: resources.Resource, obj: Object) -> Object:
        return await client.create(resource, obj, field_manager="capsule")

    await create(resources.NAMESPACES, {"metadata": {"name": OWN}})
    account = {"name": "capsule", "namespace": OWN}
    await create(resources.SERVICE_ACCOUNTS, {"metadata": account})
    labels = {"app": "capsule"}
    container = {"name": "manager", "image": "capsule", "args": ["--enable-leader-election"]}
    await create(
        resources.DEPLOYMENTS,
        {
            "metadata": {"name": "capsule-controller-manager", "namespace": OWN},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"serviceAccountName": "capsule", "containers": [container]},
                },
            },
        },
    )
    await create(
        resources.CLUSTER_ROLE_BINDINGS,
        {
            "metadata": {"name": "capsule-manager-rolebinding"},
            "roleRef": {"apiGroup": bindings.RBAC_GROUP, "kind": "ClusterRole",
                        "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
    )  # fmt: skip
    await create(
        resources.VALIDATING_WEBHOOKS,
        {
            "metadata": {"name": "capsule-validating-webhook-configuration"},
            "webhooks": [
                {
                    "name": "pods.capsule.clastix.io",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"],
                               "operations": ["CREATE"], "resources": ["nothings"]}],
                    "clientConfig": {
                        "service": {"namespace": OWN, "name": hooks.SERVICE, "path": "/pods"}
                    },
                }
            ],
        },
    )  # fmt: skip
    secret = {"metadata": {"name": "capsule-tls", "namespace": OWN}, "stringData": {"tls.key": "x"}}
    await create(resources.SECRETS, secret)
    await create(
        resources.LEASES,
        {
            "metadata": {"name": roles.LEASE, "namespace": OWN},
            "spec": {"holderIdentity": "capsule-controller-manager-0_1",
                     "leaseDurationSeconds": 3600, "renewTime": "2099-01-01T00:00:00.000000Z"},
        },
    )  # fmt: skip
    await create(
        capsule.CONFIGURATIONS,
        {"metadata": {"name": "default"},
         "spec": {"enableTLSReconciler": True, "userGroups": ["capsule.clastix.io"],
                  "protectedNamespaceRegex": "^kube-"}},
    )  # fmt: skip
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await client.create(
        resources.CRDS,
        {
            "metadata": {"name": "resourcepools.capsule.clastix.io"},
            "spec": {
                "group": constants.GROUP,
                "scope": "Cluster",
                "names": {"plural": "resourcepools", "kind": "ResourcePool"},
                "versions": [{"name": "v1beta2", "served": True, "storage": True,
                              "schema": {"openAPIV3Schema": schema}}],
            },
        },
    )  # fmt: skip


async def with_tenants(client: kube.Client) -> None:
    """Make tenants, their namespaces, and what belongs into these."""
    spec = {"owners": [{"kind": "User", "name": "alice", "clusterRoles": ["admin"]}]}
    oil = await client.create(
        capsule.TENANTS, {"metadata": {"name": "oil"}, "spec": spec}, field_manager="capsule"
    )
    hostile = {"owners": [{"kind": "ServiceAccount", "name": "\x1b[2Jrobot"}]}
    await client.create(capsule.TENANTS, {"metadata": {"name": "gas"}, "spec": hostile})
    uid = oil["metadata"]["uid"]
    for name, reference in (("oil-prod", uid), ("oil-restored", "an-earlier-uid")):
        await client.create(
            resources.NAMESPACES, labelled(name, "oil", reference), field_manager="capsule"
        )
    stale = {
        "metadata": {
            "name": "capsule-oil-0-admin",
            "namespace": "oil-prod",
            "labels": {constants.ROLE_BINDING_LABEL: "0", constants.TENANT_LABEL: "oil"},
        },
        "roleRef": {"apiGroup": bindings.RBAC_GROUP, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": bindings.RBAC_GROUP, "kind": "User", "name": "alice"}],
    }
    await client.create(resources.ROLE_BINDINGS, stale, field_manager="capsule")


async def pooled(client: kube.Client) -> None:
    """Make objects of a kind that Tenantry does not serve, as soon as the API server does."""
    async with asyncio.timeout(20):
        for name in ("a", "b"):
            while True:
                try:
                    await client.create(POOLS, {"metadata": {"name": name}, "spec": {}})
                except errors.NotFound:
                    await asyncio.sleep(0.1)
                else:
                    break


async def allow(
    client: kube.Client, user: str, groups: list[str], kinds: list[str], *verbs: str
) -> None:
    """Give a user verbs on kinds."""
    rule = {"apiGroups": groups, "resources": kinds, "verbs": list(verbs)}
    await client.create(resources.CLUSTER_ROLES, {"metadata": {"name": user}, "rules": [rule]})
    await client.create(
        resources.CLUSTER_ROLE_BINDINGS,
        {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": bindings.RBAC_GROUP, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": bindings.RBAC_GROUP, "kind": "User", "name": user}],
        },
    )


@pytest.fixture
async def cluster(new_plane: Callable[..., testing.Plane]) -> testing.Plane:
    made = new_plane(components=())
    async with kube.Client(made.config()) as client:
        await install.apply(client, crds.bundled("crds"), field_manager="test")
        await as_capsule_leaves_it(client)
        await with_tenants(client)
        await pooled(client)
        await allow(client, READER, ["*"], ["*"], "get", "list")
        await allow(client, POOR, ["", constants.GROUP], ["namespaces", "tenants"], "list")
    return made


def test_a_cluster_that_runs_capsule(cluster: testing.Plane) -> None:
    shown = run(cluster)
    assert shown.return_value == 1, shown.output
    # What a person wrote does not reach the terminal.
    assert "\x1b" not in shown.output
    assert r"\x1b[2Jrobot" in shown.output

    found = json.loads(run(cluster, "-o", "json").output)["findings"]
    assert yaml.safe_load(run(cluster, "-o", "yaml").output)["findings"] == found
    told = {(one["severity"], one["kind"], one["namespace"], one["name"]) for one in found}
    assert {
        ("blocks", "Deployment", OWN, "capsule-controller-manager"),
        ("blocks", "Lease", OWN, roles.LEASE),
        (
            "blocks",
            "ValidatingWebhookConfiguration",
            "",
            "capsule-validating-webhook-configuration",
        ),
        ("blocks", "CustomResourceDefinition", "", "resourcepools.capsule.clastix.io"),
        ("blocks", "Secret", OWN, "capsule-tls"),
        ("blocks", "Namespace", "", "oil-restored"),
        ("blocks", "Tenant", "", "gas"),
        ("changes", "Tenant", "", "oil"),
        ("note", "CapsuleConfiguration", "", "default"),
        ("note", "ClusterRoleBinding", "", "capsule-manager-rolebinding"),
        ("note", "RoleBinding", "", "*"),
    } <= told
    words = {one["name"]: one["now"] for one in found if one["severity"] == "blocks"}
    assert words["resourcepools.capsule.clastix.io"] == "2 objects of kind ResourcePool"
    changes = {one["now"] for one in found if one["severity"] == "changes"}
    hashed = f"{constants.ROLE_BINDING_PREFIX}f93a4d3523f699fb"
    assert f"1 RoleBinding is wanted and not there: oil-prod/{hashed}" in changes
    assert not any(one["kind"] == "Check" for one in found)
    # All that Tenantry defines is there.
    assert not any(one["now"] == "is not there" for one in found)
    assert not any(one["name"] == "oil-prod" for one in found)

    poor = run(cluster, "-o", "json", user=POOR)
    assert poor.return_value == 1
    unread = {
        one["name"]: one["now"]
        for one in json.loads(poor.output)["findings"]
        if one["kind"] == "Check"
    }
    assert "namespaces" not in unread
    assert "tenants.capsule.clastix.io" not in unread
    assert "forbidden" in unread["rolebindings.rbac.authorization.k8s.io"]
    assert {"leases", "clusterrolebindings", "deployments.apps"} <= unread.keys()
    switches_as_the_guide_says(cluster)


def typed() -> list[str]:
    """Return what the guide's chapter about the switch has people type, but for the check itself."""
    chapter = GUIDE.read_text(encoding="utf-8").partition("## Coming from Capsule\n")[2]
    steps = chapter.partition("\n## ")[0].partition("The switch, in this order:")[2]
    inline = [found for found in re.findall("`(kubectl [^`]+)`", steps) if " " in found]
    return inline + re.findall(r"^ *\$ (.+)$", steps, re.MULTILINE)


DETACHED = json.dumps(
    {"metadata": {"ownerReferences": None, "labels": {constants.TENANT_LABEL: None}}},
    separators=(",", ":"),
)


def switches_as_the_guide_says(cluster: testing.Plane) -> None:
    # What the findings leave to people: what is still needed, and what is as good as gone.
    for line in (
        "delete resourcepools.capsule.clastix.io --all --wait=false",
        "delete tenant gas --wait=false",
        f"patch namespace oil-restored --type=merge -p {DETACHED}",
        f"-n {OWN} delete secret capsule-tls",
        f"-n {OWN} delete lease {roles.LEASE}",
    ):
        cluster.run(*line.split())
    saved, scaled, removed, applied = typed()
    for line in (saved, scaled, removed):
        program, *args = shlex.split(line)
        assert program == "kubectl"
        assert cluster.run(*args).stdout
    left, piped, program = applied.partition(" | kubectl ")
    assert piped
    words = shlex.split(left)
    assert words[0] == "tenantry"
    printed = click.testing.CliRunner().invoke(main.command, words[1:])
    assert printed.exit_code == 0, printed.output
    cluster.run(*shlex.split(program), stdin=printed.stdout)

    shown = run(cluster)
    assert shown.return_value == 0, shown.output
    assert "0 block" in shown.output


@pytest.mark.parametrize("args", [["-o", "xml"], ["--nonsense"]])
def test_usage(args: list[str]) -> None:
    assert main.run(["tenancy", "check", *args]) == 2
