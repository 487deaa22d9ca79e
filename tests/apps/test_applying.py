"""Every kind of ours under `kubectl apply` and the like, with webhooks and controllers at work.

Helm and Argo CD apply custom resources as kubectl does: by a merge patch from what was applied
last, or by server-side apply.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from tenantry.api.capsule import constants

from .harness import Object, World
from .test_v1beta1 import world as world  # with v1beta1 served

pytestmark = pytest.mark.plane

LAST = "kubectl.kubernetes.io/last-applied-configuration"
GROUP = constants.GROUP


def manifests(world: World, prefix: str, *, more: bool) -> list[Object]:
    """Return one of each kind; `more` sets a field that is taken out again later."""
    user = {"kind": "User", "name": world.name("alice")}
    # What a list leaves to defaults, kubectl sends each time (and nothing is written).
    owner = {**user, "clusterRoles": ["admin", "capsule-namespace-deleter"]}
    proxied = {**user, "proxySettings": [{"kind": "Nodes", "operations": ["List"]}]}
    resource = {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"],
                "operations": ["List"], "selector": {"matchLabels": {"a": "b"}}}  # fmt: skip
    rule = {"enforce": {"action": "audit", "workloads": {"qosClasses": ["BestEffort"]}}}
    extra: Object = {"labels": {"extra": "yes"}} if more else {}

    def one(version: str, kind: str, spec: object, *, namespaced: bool = False) -> Object:
        name = f"{world.name(prefix)}-{kind.lower()}-{version.rpartition('/')[2]}"
        place = {"namespace": "default"} if namespaced else {}
        metadata = {"name": name, **place, **extra}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}

    new, old = f"{GROUP}/v1beta2", f"{GROUP}/v1beta1"
    selector: Object = {"nodeSelector": {"pool": "a"}} if more else {}
    return [
        one(new, "Tenant", {"owners": [owner], "rules": [rule], **selector}),
        one(old, "Tenant", {"owners": [user], **selector}),
        one(new, "TenantOwner", {**user, "aggregate": False}),
        one(new, "CapsuleConfiguration", {"users": [user], "enableTLSReconciler": False}),
        one(new, "RuleStatus", [rule], namespaced=True),
        one(new, "QuantityLedger", {"targetRef": {"kind": "Tenant", "name": "x"}}, namespaced=True),
        one(old, "ProxySetting", {"subjects": [proxied]}, namespaced=True),
        one(old, "GlobalProxySettings",
            {"rules": [{"subjects": [user], "clusterResources": [resource]}]}),
        one("tenantry.io/v1alpha1", "TenantNodePool", {"tenant": world.name("ghost"), "nodes": [world.name("none")]}),
    ]  # fmt: skip


async def kubectl(world: World, *words: str, given: list[Object]) -> str:
    stdin = "\n".join(json.dumps(one) for one in given)
    done = await asyncio.to_thread(world.tenancy.plane.run, *words, stdin=stdin)
    return done.stdout


async def stored(world: World, given: list[Object]) -> list[Object]:
    found: Object = json.loads(
        await kubectl(world, "get", "-f", "-", "-o", "json", "--show-managed-fields", given=given)
    )
    items: list[Object] = found["items"]
    return items


@pytest.mark.parametrize(
    ("prefix", "way"), [("c", ()), ("s", ("--server-side", "--field-manager=helm"))]
)
async def test_applying_twice_and_less(world: World, prefix: str, way: tuple[str, ...]) -> None:
    full, less = (manifests(world, prefix, more=more) for more in (True, False))
    apply = ("apply", *way, "-f", "-")
    await kubectl(world, *apply, given=full)
    before = await stored(world, full)
    said = (await kubectl(world, *apply, given=full)).splitlines()
    assert len(said) == len(full)
    ending = " serverside-applied" if way else " unchanged"
    assert [line for line in said if not line.endswith(ending)] == []
    again = await stored(world, full)
    # Controllers write status and finalizers meanwhile, and nobody wrote anything else.
    assert [one["spec"] for one in again] == [one["spec"] for one in before]
    assert [one["metadata"]["generation"] for one in again] == [
        one["metadata"]["generation"] for one in before
    ]
    await kubectl(world, *apply, given=less)
    for one in await stored(world, less):
        assert "extra" not in (one["metadata"].get("labels") or {}), one
        assert "nodeSelector" not in one["spec"], one
        assert (LAST in (one["metadata"].get("annotations") or {})) is not bool(way)
    # What is not there any more is deleted like anything else.
    await kubectl(world, "delete", "-f", "-", "--wait=false", given=less)
