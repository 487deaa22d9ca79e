"""Which pods may be in a tenant's namespaces (specs/capsule 1.1, 5.6, 5.8)."""

from __future__ import annotations

import pytest

from tenantry.api import resources
from tenantry.kube import errors

from .content import in_force, pod, put, ready
from .harness import Object, World, eventually, refused

pytestmark = pytest.mark.plane

EVIL: Object = {"name": "evil", "image": "e.io/x", "imagePullPolicy": "Always"}
LISTED = (
    "registry is forbidden for the current Tenant: use one from the following list (r.io) or "
    " use one matching the following regex (^x[.]io$)"
)


async def test_registries_and_pull_policies_of_the_deprecated_fields(world: World) -> None:
    tenant = await world.tenant(
        containerRegistries={"allowed": ["r.io"], "allowedRegex": "^x[.]io$"},
        imagePullPolicies=["Always", "IfNotPresent"],
    )
    await world.namespace()
    where = await ready(world)
    made = await put(world, resources.PODS, pod("runs"), dry_run=False)
    await put(world, resources.PODS, pod("p", "X.io/a"))
    for bad in ("e.io/x", "E.IO/x:1"):
        words = f"Container image {bad} {LISTED}"
        await refused(put(world, resources.PODS, pod("p", bad)), words)
        await refused(
            put(world, resources.PODS, pod("p", initContainers=[{**EVIL, "image": bad}])), words
        )
        volume = {"name": "v", "image": {"reference": bad, "pullPolicy": "Always"}}
        await refused(put(world, resources.PODS, pod("p", volumes=[volume])), words)
    short = await refused_somehow(world, pod("p", "nginx"))
    assert "Container image nginx is not fully qualified" in short
    never = pod("p")
    never["spec"]["containers"][0]["imagePullPolicy"] = "Never"
    await refused(
        put(world, resources.PODS, never),
        "ImagePullPolicy Never for container main is forbidden, use one of the followings: "
        "Always, IfNotPresent",
    )
    # What runs is changed to something else.
    change = {"spec": {"containers": [{"name": "main", "image": "e.io/x"}]}}
    await refused(
        world.admin.patch(resources.PODS, "runs", where, kind="strategic", body=change),
        f"Container image e.io/x {LISTED}",
    )
    debug = {"spec": {"ephemeralContainers": [EVIL]}}
    await refused(
        world.admin.patch(
            resources.PODS, "runs", where, kind="strategic", body=debug,
            subresource="ephemeralcontainers",
        ),
        f"Container image e.io/x {LISTED}",
    )  # fmt: skip
    # What runs already is nobody's problem, whatever the tenant says later.
    await world.change(tenant, containerRegistries={"allowed": ["other.io"], "allowedRegex": None})

    async def stricter() -> bool:
        return "use one from the following list (other.io)" in await refused_somehow(
            world, pod("p")
        )

    await eventually(stricter)
    label = {"metadata": {"labels": {"touched": "yes"}}}
    touched = await world.admin.patch(resources.PODS, "runs", where, kind="merge", body=label)
    assert touched["metadata"]["uid"] == made["metadata"]["uid"]
    await in_force(world)


async def refused_somehow(world: World, obj: Object) -> str:
    """Return the words of a refusal, "" where there is none."""
    try:
        await put(world, resources.PODS, obj)
    except errors.Forbidden as problem:
        return problem.message
    return ""


_MISSED = "is not allowed by namespace rule: value did not match any allowed rule."
NOT_SELECTED = f"{_MISSED} Allowed node selectors: exact: pool=gpu"
NOT_TOLERATED = f"{_MISSED} Allowed tolerations: exact: nvidia.com/gpu"


async def test_rules_about_workloads(world: World) -> None:
    prod = {"matchLabels": {"env": "prod"}}
    await world.tenant(
        rules=[
            {"enforce": {"action": "allow", "workloads": {"registries": [
                {"exp": "^r[.]io/", "policy": ["Always"]}, {"exp": "^docker[.]io/library/"},
            ]}}},
            {"enforce": {"action": "deny", "workloads": {"registries": [{"exp": ":latest$"}]}},
             "namespaceSelector": prod},
            {"enforce": {"workloads": {"schedulers": [{"exact": ["rogue"]}]}}},
            {"enforce": {"workloads": {"qosClasses": ["BestEffort"]}},
             "audience": [{"kind": "User", "name": world.name("alice")}]},
            {"enforce": {"action": "allow", "workloads": {
                "targets": ["pod"], "tolerations": [{"exact": ["nvidia.com/gpu"]}],
                "nodeSelectors": [{"exact": ["pool=gpu"]}],
            }}, "namespaceSelector": prod},
        ]
    )  # fmt: skip
    await world.namespace("prod", labels={"env": "prod"})
    await world.namespace("test")
    await world.bound()
    await ready(world, "test")
    await ready(world)
    alice = world.user()
    # The administrator is not of the audience, so hers may be best effort.
    on: Object = {"nodeSelector": {"pool": "gpu"}}
    gpu = {"key": "nvidia.com/gpu", "operator": "Exists"}
    await put(world, resources.PODS, pod("p", **on, tolerations=[gpu]))
    await put(world, resources.PODS, pod("p", "nginx:1", **on))
    refusals: list[tuple[Object, str]] = [
        ({}, f'node selector "none" at spec.nodeSelector {NOT_SELECTED}'),
        (
            {"nodeSelector": {"pool": "cpu"}},
            f'node selector "pool=cpu" at spec.nodeSelector {NOT_SELECTED}',
        ),
        ({**on, "nodeName": "n"}, f'toleration "*" at spec.nodeName {NOT_TOLERATED}'),
        (
            {**on, "tolerations": [gpu, {"operator": "Exists"}]},
            f'toleration "*" at spec.tolerations[1] {NOT_TOLERATED}',
        ),
    ]
    for more, words in refusals:
        await refused(put(world, resources.PODS, pod("p", **more)), words)
    made = await put(world, resources.PODS, pod("waits", **on), dry_run=False)
    spec = {
        "spec": {"tolerations": [*made["spec"]["tolerations"], {"key": "x", "operator": "Exists"}]}
    }
    await refused(
        world.admin.patch(resources.PODS, "waits", world.name("prod"), kind="merge", body=spec),
        f'toleration "x" at spec.tolerations[2] {NOT_TOLERATED}',
    )
    for name in ("nginx", "docker.io/library/nginx:latest", "index.docker.io/nginx"):
        await put(world, resources.PODS, pod("p", name), where="test")
        await refused(
            put(world, resources.PODS, pod("p", name, **on)),
            f'registry "{name}" at containers[0] is denied by namespace rule: '
            "matched denied rule exp: :latest$",
        )
    await refused(
        put(world, resources.PODS, pod("p", "e.io/x:1")),
        'registry "e.io/x:1" at containers[0] is not allowed by namespace rule: value did not match '
        "any allowed rule. Allowed registries: exp: ^r[.]io/; exp: ^docker[.]io/library/",
    )
    lazy = pod("p")
    lazy["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    await refused(
        put(world, resources.PODS, lazy),
        'registry "r.io/app:1" at containers[0] uses pullPolicy=IfNotPresent which is not allowed '
        "(allowed: Always)",
    )
    await refused(
        put(world, resources.PODS, pod("p", schedulerName="rogue", **on)),
        'scheduler "rogue" at spec.schedulerName is denied by namespace rule: '
        "matched denied rule exact: rogue",
    )
    await refused(
        put(world, resources.PODS, pod("p", **on), by=alice),
        'QoS class "BestEffort" at status.qosClass is denied by namespace rule: '
        "matched denied rule BestEffort",
    )
    some = pod("p", **on)
    some["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    await put(world, resources.PODS, some, by=alice)


async def test_rules_about_requests_and_limits(world: World) -> None:
    rules = {
        "requests": {"cpu": {"policy": "Default", "value": "100m"}},
        "limits": {
            "memory": {"policy": "Ratio", "value": "1.5"},
            "cpu": {"policy": "Remove"},
        },
    }
    await world.tenant(rules=[{"enforce": {"workloads": {"resources": rules}}}])
    await world.namespace()
    where = await ready(world)

    def sized(name: str, requests: Object, limits: Object) -> Object:
        found = pod(name)
        found["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": limits}
        return found

    obj = sized("runs", {"memory": "1Gi"}, {"cpu": "2"})
    made = await put(world, resources.PODS, obj, dry_run=False)
    # The API server had made a request of the limit before it was removed.
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"memory": "1Gi", "cpu": "2"},
        "limits": {"memory": "1536Mi"},
    }
    bare = (await put(world, resources.PODS, pod("p")))["spec"]["containers"][0]["resources"]
    assert bare == {"requests": {"cpu": "100m"}}
    words = (
        'spec.containers[0].resources.limits["memory"] is denied by namespace rule: violates '
        "policy Ratio: limit 2Gi must not exceed 1536Mi (request 1Gi times 1500m)"
    )
    await refused(
        put(world, resources.PODS, sized("p", {"memory": "1Gi"}, {"memory": "2Gi"})), words
    )
    resize: Object = {
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"memory": "2Gi"}}}]}
    }
    await refused(
        world.admin.patch(
            resources.PODS, "runs", where, kind="strategic", body=resize, subresource="resize"
        ),
        words,
    )
    await in_force(world)
