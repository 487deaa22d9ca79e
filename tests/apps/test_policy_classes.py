"""Classes of storage, priority, runtime and devices; volumes of others (specs/capsule 1.1, 5.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.kube import errors

from .content import in_force, pod, put, ready
from .harness import Object, World, eventually, refused

pytestmark = pytest.mark.plane

CLAIMS = resources.PERSISTENT_VOLUME_CLAIMS
GOLD = {"matchLabels": {"tier": "gold"}}


def claim(name: str, storage_class: str | None = None, **spec: Any) -> Object:
    chosen = {} if storage_class is None else {"storageClassName": storage_class}
    size = {"requests": {"storage": "1Gi"}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": size, **chosen, **spec},
    }


async def make_classes(world: World) -> None:
    """Make a gold, a silver and a plain class of each kind."""
    for rest, labels in (("gold", {"tier": "gold"}), ("silver", {"tier": "silver"}), ("plain", {})):
        metadata = {"metadata": {"name": world.name(rest), "labels": labels}}
        storage = {**metadata, "provisioner": "example.com/none"}
        await world.admin.create(resources.STORAGE_CLASSES, storage)
        await world.admin.create(resources.PRIORITY_CLASSES, {**metadata, "value": 1000})
        await world.admin.create(resources.RUNTIME_CLASSES, {**metadata, "handler": "runc"})
        await world.admin.create(resources.DEVICE_CLASSES, {**metadata, "spec": {}})


async def test_what_is_listed_selected_or_the_default(world: World) -> None:
    gold, silver, plain = (world.name(rest) for rest in ("gold", "silver", "plain"))
    limits = {"allowed": [silver], **GOLD}
    await make_classes(world)
    await world.tenant(
        storageClasses={"default": gold, **limits},
        priorityClasses={"default": gold, **limits},
        runtimeClasses={"default": gold, **limits},
        deviceClasses=limits,
    )
    await world.namespace()
    await ready(world)
    # Who names nothing gets the default, with all that belongs to it.
    made = (await put(world, resources.PODS, pod("p")))["spec"]
    assert (made["priorityClassName"], made["priority"], made["runtimeClassName"]) == (
        gold,
        1000,
        gold,
    )
    assert (await put(world, CLAIMS, claim("c")))["spec"]["storageClassName"] == gold
    for fine in (gold, silver):
        await put(world, resources.PODS, pod("p", priorityClassName=fine, runtimeClassName=fine))
        await put(world, CLAIMS, claim("c", fine))
        await put(world, resources.RESOURCE_CLAIMS, devices(fine))
    words = (
        f"{plain} is forbidden for the current Tenant: use the default {gold} or use one from the "
        f"following list ({silver}) or use one with labels matching the selector (tier=gold)"
    )
    await refused(
        put(world, resources.PODS, pod("p", priorityClassName=plain)),
        f"Pod Priority Class {words}",
    )
    await refused(
        put(world, resources.PODS, pod("p", runtimeClassName=plain)), f"Pod Runtime Class {words}"
    )
    await refused(put(world, CLAIMS, claim("c", plain)), f"Storage Class {words}")
    await refused(
        put(world, resources.RESOURCE_CLAIMS, devices(plain)),
        f"Device Class {plain} is forbidden for the current Tenant: use one from the following "
        f"list ({silver}) or use one with labels matching the selector (tier=gold)",
    )
    await in_force(world)

    async def usable() -> bool:
        classes = (await world.status())["classes"]
        kinds = ("storage", "priority", "runtime", "device")
        mine = {gold, silver, plain}
        # Classes of other tests have the label that is selected, too.
        found = [[name for name in classes[kind] if name in mine] for kind in kinds]
        return found == [[gold, silver]] * len(kinds)

    await eventually(usable)


def devices(name: str) -> Object:
    exactly = {"deviceClassName": name, "allocationMode": "ExactCount", "count": 1}
    request = {"name": "gpu", "exactly": exactly}
    return {"metadata": {"name": "d"}, "spec": {"devices": {"requests": [request]}}}


#: What names a class, by the words of its refusal.
USES: dict[str, tuple[resources.Resource, Callable[[str], Object]]] = {
    "Storage": (CLAIMS, lambda name: claim("c", name)),
    "Device": (resources.RESOURCE_CLAIMS, devices),
    "Pod Runtime": (resources.PODS, lambda name: pod("p", runtimeClassName=name)),
    "Pod Priority": (resources.PODS, lambda name: pod("p", priorityClassName=name)),
}


async def test_listed_and_matched_without_a_selector_or_a_default(world: World) -> None:
    await make_classes(world)
    gold, plain = world.name("gold"), world.name("plain")
    expression = f"^{world.name('')}g"
    await world.tenant(
        storageClasses={"allowed": [gold]},
        runtimeClasses={"allowed": [gold]},
        deviceClasses={"allowed": [gold]},
        priorityClasses={"allowedRegex": expression},
    )
    await world.namespace()
    await ready(world)
    await put(world, resources.PODS, pod("p", priorityClassName=gold, runtimeClassName=gold))
    await put(world, resources.PODS, pod("p"))
    listed = (
        f"{plain} is forbidden for the current Tenant: use one from the following list ({gold})"
    )
    matched = f"use one matching the following regex ({expression})"
    await refused(
        put(world, resources.PODS, pod("p", runtimeClassName=plain)), f"Pod Runtime Class {listed}"
    )
    await refused(
        put(world, resources.PODS, pod("p", priorityClassName=plain)),
        f"Pod Priority Class {plain} is forbidden for the current Tenant: {matched}",
    )
    await refused(put(world, resources.RESOURCE_CLAIMS, devices(plain)), f"Device Class {listed}")
    await refused(
        put(world, CLAIMS, claim("c", "")),
        "A Storage Class must be specified for the current Tenant: use one from the following "
        f"list ({gold})",
    )
    expressions = [{"key": "tier", "operator": "In", "values": ["gold"]}]
    ways: list[tuple[str, Object, str]] = [
        ("re", {"allowedRegex": expression}, matched),
        ("in", {"matchExpressions": expressions},
         "use one with labels matching the selector (tier In (gold))"),
    ]  # fmt: skip
    for name, limits, words in ways:
        fields = ("storageClasses", "runtimeClasses", "deviceClasses", "priorityClasses")
        same: Object = dict.fromkeys(fields, limits)
        await world.tenant(name, **same)
        await world.namespace(name, tenant=name)
        await ready(world, name)
        for kind, (resource, using) in USES.items():
            await put(world, resource, using(gold), where=name)
            forbidden = f"{kind} Class {plain} is forbidden for the current Tenant: "
            await refused(put(world, resource, using(plain), where=name), f"{forbidden}{words}")


async def test_volumes_of_others(world: World) -> None:
    await world.tenant()
    await world.namespace()
    volume: Object = {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/nowhere"},
            "storageClassName": "none",
        }
    }
    for rest, labels in (("bare", {}), ("others", {constants.TENANT_LABEL: "gas"}),
                         ("mine", {constants.TENANT_LABEL: world.name("oil")})):  # fmt: skip
        metadata = {"name": world.name(rest), "labels": labels}
        await world.admin.create(resources.PERSISTENT_VOLUMES, {**volume, "metadata": metadata})
    wanted = {"volumeName": world.name("mine")}
    made = await put(world, CLAIMS, claim("c", "none", **wanted))
    assert made["spec"]["selector"] == {
        "matchExpressions": [
            {"key": constants.TENANT_LABEL, "operator": "In", "values": [world.name("oil")]}
        ]
    }
    # A claim without a volume in mind is left alone, or nothing could be provisioned for it.
    assert "selector" not in (await put(world, CLAIMS, claim("c", "none")))["spec"]
    theft = {"selector": {"matchLabels": {constants.TENANT_LABEL: "gas"}}}
    mended = (await put(world, CLAIMS, claim("c", "none", **theft)))["spec"]["selector"]
    assert mended == made["spec"]["selector"]
    await refused(
        put(world, CLAIMS, claim("c", "none", volumeName=world.name("ghost"))),
        "cannot create a PVC referring to a not yet existing PV",
    )
    bare, others = world.name("bare"), world.name("others")
    unlabelled = (
        f"PersistentVolume {bare} is missing the Tenant label ({constants.TENANT_LABEL}), "
        "preventing a potential cross-tenant mount"
    )
    foreign = f"Preventing a cross-tenant mount for PersistentVolume {others}"
    await refused(put(world, CLAIMS, claim("c", "none", volumeName=bare)), unlabelled)
    await refused(put(world, CLAIMS, claim("c", "none", volumeName=others)), foreign)
    # Nor by a second thought, while the claim is not bound.
    huge = {"resources": {"requests": {"storage": "100Gi"}}}
    later = await put(world, CLAIMS, claim("later", "none", **huge), dry_run=False)
    for name, words in ((bare, unlabelled), (others, foreign)):
        steal = {"spec": {"volumeName": name}}
        await refused(
            world.admin.patch(CLAIMS, "later", world.name("prod"), kind="merge", body=steal),
            words,
        )
    # Nor by the cluster's own controller, which knows nothing of tenants: it proposes the volume
    # (its label stays), and binds the claim.
    reference = {
        "kind": "PersistentVolumeClaim", "name": "later", "namespace": world.name("prod"),
        "uid": later["metadata"]["uid"],
    }  # fmt: skip
    proposal = {"spec": {"claimRef": reference}}
    await world.admin.patch(resources.PERSISTENT_VOLUMES, others, kind="merge", body=proposal)
    binder = "system:serviceaccount:kube-system:persistent-volume-binder"
    await world.grant(binder, "patch", what=["persistentvolumeclaims"])
    system = world.account("kube-system", "persistent-volume-binder")
    await refused(
        system.patch(
            CLAIMS, "later", world.name("prod"), kind="merge", body={"spec": {"volumeName": others}}
        ),
        foreign,
    )
    found = await world.admin.get(resources.PERSISTENT_VOLUMES, others)
    assert found["metadata"]["labels"][constants.TENANT_LABEL] == "gas"


async def test_a_volume_is_labelled_for_the_tenant_of_its_claim(world: World) -> None:
    await world.tenant()
    await world.namespace()
    label = constants.TENANT_LABEL
    name = world.name("provisioned")
    reference = {"kind": "PersistentVolumeClaim", "name": "data", "namespace": world.name("prod")}
    volume: Object = {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/nowhere"},
            "claimRef": reference,
        },
    }
    await world.admin.create(resources.PERSISTENT_VOLUMES, volume)

    async def labelled() -> bool:
        found = await world.admin.get(resources.PERSISTENT_VOLUMES, name)
        return bool(found["metadata"]["labels"][label] == world.name("oil"))

    await eventually(labelled)
    # Empty and stale values are put right, too.
    for wrong in ("", "gas", None):
        body = {"metadata": {"labels": {label: wrong}}}
        await world.admin.patch(resources.PERSISTENT_VOLUMES, name, kind="merge", body=body)
        await eventually(labelled, f"{wrong!r} is put right")
    with pytest.raises(errors.NotFound):
        await world.admin.get(CLAIMS, "data", world.name("prod"))
