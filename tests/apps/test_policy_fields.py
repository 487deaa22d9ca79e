"""Fields that no other test here is about: effect and refusal of each (specs/capsule 1.2, 1.5)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import client as kube

from .content import in_force, pod, put, ready
from .harness import BOSS, CAPSULE_USERS, NO_TENANT, SYSTEM, Object, World, eventually, refused

pytestmark = pytest.mark.plane

MASTERS = "system:masters"
CLAIMS = resources.PERSISTENT_VOLUME_CLAIMS


def service(kind: str) -> Object:
    named = {"externalName": "a.io"} if kind == "ExternalName" else {"ports": [{"port": 80}]}
    return {"metadata": {"name": "s"}, "spec": {"type": kind, **named}}


def claim(**annotations: str) -> Object:
    size = {"requests": {"storage": "1Gi"}}
    return {
        "metadata": {"name": "c", "annotations": annotations},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "s"},
    }


async def test_audiences(world: World) -> None:
    robot = f"system:serviceaccount:{world.name('prod')}:robot"
    audiences = {
        "Group": ("NodePort", world.name("crew")),
        "ServiceAccount": ("LoadBalancer", robot),
        "CapsuleUser": ("ExternalName", "CapsuleUser"),
        "Administrator": ("ClusterIP", "Administrator"),
    }
    await world.tenant(
        rules=[
            {"enforce": {"services": {"types": [of_type]}},
             "audience": [{"kind": "Custom" if kind == name else kind, "name": name}]}
            for kind, (of_type, name) in audiences.items()
        ]
    )  # fmt: skip
    await world.namespace()
    who: dict[str, kube.Client] = {
        "Group": world.admin.as_user(world.name("x"), [MASTERS, world.name("crew")]),
        "ServiceAccount": world.admin.as_user(robot, [MASTERS, "system:serviceaccounts"]),
        "CapsuleUser": world.user("x", MASTERS),
        "Administrator": world.boss(),
    }
    for kind, (of_type, _) in audiences.items():
        await put(world, resources.SERVICES, service(of_type))
        await refused(
            put(world, resources.SERVICES, service(of_type), by=who[kind]),
            f'service type "{of_type}" at spec.type is denied by namespace rule: '
            f"matched denied rule {of_type}",
        )
    # To be of one audience is not to be of another.
    await put(world, resources.SERVICES, service("NodePort"), by=who["Administrator"])
    await put(world, resources.SERVICES, service("ClusterIP"), by=who["Group"])


async def test_targets_amounts_and_annotations(world: World) -> None:
    kept = {
        "team": {"required": True, "values": [{"exp": "^t-"}]},
        "tier": {"default": "bronze"},
        "home": {"managed": "{{ .namespace.metadata.name }}"},
    }
    await world.tenant(
        rules=[
            {"enforce": {"workloads": {"targets": ["pod/initcontainers", "pod/volumes"],
                                       "registries": [{"exp": "^t[.]io/"}]}}},
            {"enforce": {"workloads": {"schedulers": [
                {"exact": ["default-scheduler", "vip"], "negate": True}]}}},
            {"enforce": {"workloads": {"resources": {
                "requests": {"memory": {"policy": "Remove"}},
                "limits": {"cpu": {"policy": "MatchRequest"}, "memory": {"policy": "Remove"}}}}}},
            {"enforce": {"workloads": {"resources": {
                "requests": {"memory": {"policy": "Preserve"}}}}}},
            {"enforce": {"action": "allow", "metadata": [
                {"kinds": ["PersistentVolumeClaim"], "annotations": kept}]}},
        ]
    )  # fmt: skip
    await world.namespace()
    where = await ready(world)
    main = pod("runs", "t.io/a:1", schedulerName="vip")
    main["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    made = await put(world, resources.PODS, main, dry_run=False)
    # What an earlier block removes, a later one keeps; a limit is made from its request.
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "1"},
    }
    denied = "is denied by namespace rule: "
    tail = f"{denied}matched denied rule exp: ^t[.]io/"
    init = {"name": "i", "image": "t.io/b:1"}
    await refused(
        put(world, resources.PODS, pod("p", initContainers=[init])),
        f'registry "t.io/b:1" at initContainers[0] {tail}',
    )
    volume = {"name": "v", "image": {"reference": "t.io/c:1"}}
    await refused(
        put(world, resources.PODS, pod("p", volumes=[volume])),
        f'registry "t.io/c:1" at volumes[0](v) {tail}',
    )
    await refused(
        put(world, resources.PODS, pod("p", schedulerName="rogue")),
        f'scheduler "rogue" at spec.schedulerName {denied}'
        "matched denied rule not exact: default-scheduler, vip",
    )
    for limits, words in (
        ({"cpu": "2"}, '["cpu"] {}violates policy MatchRequest: limit 2 must equal request 1'),
        (
            {"memory": "2Gi"},
            '["memory"] {}violates policy Remove: limit must be undefined for policy Remove',
        ),
    ):
        resize = {"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
        await refused(
            world.admin.patch(
                resources.PODS, "runs", where, kind="strategic", body=resize, subresource="resize"
            ),
            f"spec.containers[0].resources.limits{words.format(denied)}",
        )
    annotations = (await put(world, CLAIMS, claim(team="t-1", home="mine")))["metadata"][
        "annotations"
    ]
    assert annotations == {"team": "t-1", "tier": "bronze", "home": where}
    await refused(
        put(world, CLAIMS, claim()),
        'metadata annotation "team" is required at metadata.annotations["team"]',
    )
    await refused(
        put(world, CLAIMS, claim(team="u")),
        'metadata annotation "u" at metadata.annotations["team"] is not allowed by namespace rule: '
        "value did not match any allowed rule. Allowed metadata values: exp: ^t-",
    )
    await in_force(world)


async def test_the_first_claim_of_a_tenant_made_a_moment_ago(world: World) -> None:
    """What no watch has told of yet is judged by its rules all the same."""
    for number in range(5):
        name = f"t{number}"
        await world.tenant(name, storageClasses={"allowed": ["other"]})
        await world.namespace(name, tenant=name)
        await refused(
            put(world, CLAIMS, claim(), where=name),
            "Storage Class s is forbidden for the current Tenant: use one from the following list "
            "(other)",
        )


async def test_names_of_the_configuration(world: World) -> None:
    """Its deprecated lists of users, and the roles that it names."""
    dora, crew = world.name("dora"), world.name("crew")
    provisioner, deleter = world.name("provisioner"), world.name("deleter")
    strangers = (world.stranger("dora"), world.stranger("x", crew))
    await world.tenant()
    await world.namespace()

    async def provisioning(name: str, *, without: str) -> bool:
        found = await world.admin.list(
            resources.CLUSTER_ROLE_BINDINGS,
            label_selector="projectcapsule.dev/created-by=rbac-controller",
        )
        names = [bytes(one).decode() for one in found.items]
        return any(f'"{name}"' in one for one in names) and not any(
            f'"name":"{without}"' in one for one in names
        )

    async def known() -> set[tuple[str, str]]:
        status = (await world.admin.get(capsule.CONFIGURATIONS, "default"))["status"]
        return {(one["kind"], one["name"]) for one in status["users"]}

    roles: Any = {
        "provisioner": provisioner, "deleter": deleter,
        "administrationClusterRoles": ["view", deleter], "promotionClusterRoles": ["view"],
    }  # fmt: skip
    events = {"namespace": SYSTEM}
    robot: Any = {"name": "robot", "labels": {constants.PROMOTE_OWNER_LABEL: "true"}}
    account = {"metadata": {**robot, "namespace": world.name("prod")}}
    await world.boss().create(resources.SERVICE_ACCOUNTS, account)

    async def promoted(*to: str) -> bool:
        listed = {one["name"]: one["clusterRoles"] for one in (await world.status())["owners"]}
        held = {role for role, who in await world.granted() if who == "robot"}
        name = f"system:serviceaccount:{world.name('prod')}:robot"
        return listed.get(name) == list(to) and held == set(to)

    usual = (constants.PROVISIONER_ROLE, constants.DELETER_ROLE)
    await eventually(lambda: promoted(*usual))
    async with world.configured(userNames=[dora], userGroups=[crew], rbac=roles, events=events):

        async def told() -> bool:
            wanted = {("User", dora), ("Group", crew), ("Group", CAPSULE_USERS)}
            return wanted <= await known()

        await eventually(told)

        async def renamed() -> bool:
            role = await world.admin.get(resources.CLUSTER_ROLES, deleter)
            assert role["rules"][0]["verbs"] == ["delete"]
            assert role["metadata"]["labels"]["projectcapsule.dev/created-by"] == "rbac-controller"
            return await provisioning(provisioner, without=constants.PROVISIONER_ROLE)

        await eventually(renamed)

        async def given() -> bool:
            bindings = (await world.bindings()).values()
            his = [b for b in bindings if any(s["name"] == BOSS for s in b["subjects"])]
            return {b["roleRef"]["name"] for b in his} == {"view", deleter}

        await eventually(given)
        await eventually(lambda: promoted("view"))
        # Events about namespaces and tenants are where they are wanted.
        await world.namespace("second")
        label = f"{constants.MANAGED_TENANT_LABEL}={world.name('oil')}"

        async def there() -> bool:
            found = await world.admin.list(resources.CORE_EVENTS, SYSTEM, label_selector=label)
            return any(b'"TenantAssigned"' in bytes(one) for one in found.items)

        await eventually(there)
        # They are Capsule users now, so they may ask, and own nothing.
        for one in strangers:
            await refused(one.create(resources.NAMESPACES, {"metadata": {"name": dora}}), NO_TENANT)

    async def back() -> bool:
        return await provisioning(constants.PROVISIONER_ROLE, without=provisioner)

    await eventually(back)
    await eventually(lambda: promoted(*usual))

    async def forgotten() -> bool:
        return ("User", dora) not in await known()

    await eventually(forgotten)
    await refused(
        strangers[0].create(resources.NAMESPACES, {"metadata": {"name": dora}}),
        f'namespaces is forbidden: User "{dora}" cannot create resource "namespaces" in API group '
        '"" at the cluster scope',
    )
