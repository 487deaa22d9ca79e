"""Labels and annotations of a tenant's namespaces (specs/capsule 4.2, 5.5)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors

from .harness import Object, World, eventually, refused

pytestmark = pytest.mark.plane

NODE_SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
ENFORCED = f"the {NODE_SELECTOR} annotation is enforced via tenant, "


async def annotate(world: World, client: kube.Client, **annotations: str | None) -> Object:
    return await client.patch(
        resources.NAMESPACES,
        world.name("prod"),
        kind="merge",
        body={"metadata": {"annotations": annotations}},
    )


async def stored_annotations(world: World) -> dict[str, str]:
    found: dict[str, str] = (await world.stored())["metadata"].get("annotations") or {}
    return found


async def test_the_node_selector_is_set_on_create_in_sorted_order(world: World) -> None:
    await world.tenant(nodeSelector={"zone": "b", "pool": "gpu"})
    made = await world.namespace()
    assert made["metadata"]["annotations"] == {NODE_SELECTOR: "pool=gpu,zone=b"}


async def test_pods_of_the_namespace_get_the_node_selector(world: World) -> None:
    await world.tenant(nodeSelector={"pool": "gpu"})
    await world.namespace()
    await world.bound()
    where = world.name("prod")
    account = {"metadata": {"name": "runner", "namespace": where}}
    alice = world.user()
    await alice.create(resources.SERVICE_ACCOUNTS, account)
    pod: Object = {
        "metadata": {"name": "p", "namespace": where},
        "spec": {"serviceAccountName": "runner", "containers": [{"name": "c", "image": "x"}]},
    }
    assert (await alice.create(resources.PODS, pod))["spec"]["nodeSelector"] == {"pool": "gpu"}
    pod["metadata"]["name"], pod["spec"]["nodeSelector"] = "q", {"pool": "cpu"}
    with pytest.raises(errors.Forbidden):
        await alice.create(resources.PODS, pod)


@pytest.mark.parametrize("value", ["pool=cpu", "", "pool=gpu,zone=b"])
async def test_an_owner_cannot_choose_the_node_selector(world: World, value: str) -> None:
    await world.tenant(nodeSelector={"pool": "gpu"})
    # On create and update the tenant's word replaces hers.
    made = await world.namespace(annotations={NODE_SELECTOR: value})
    assert made["metadata"]["annotations"] == {NODE_SELECTOR: "pool=gpu"}
    changed = await annotate(world, world.user(), **{NODE_SELECTOR: value})
    assert changed["metadata"]["annotations"] == {NODE_SELECTOR: "pool=gpu"}
    changed = await annotate(world, world.user(), **{NODE_SELECTOR: None})
    assert changed["metadata"]["annotations"] == {NODE_SELECTOR: "pool=gpu"}


@pytest.mark.parametrize(
    ("value", "why"), [("pool=cpu", "cannot be updated"), (None, "cannot be removed")]
)
async def test_nobody_but_an_administrator_changes_the_node_selector(
    world: World, value: str | None, why: str
) -> None:
    await world.tenant(nodeSelector={"pool": "gpu"})
    await world.namespace()
    await refused(annotate(world, world.admin, **{NODE_SELECTOR: value}), ENFORCED + why)


async def test_a_tenant_without_node_selector_cannot_set_one_either(world: World) -> None:
    await world.tenant()
    await refused(
        world.namespace(annotations={NODE_SELECTOR: "pool=gpu"}), ENFORCED + "cannot be updated"
    )
    await world.namespace()
    await refused(
        annotate(world, world.user(), **{NODE_SELECTOR: "x=y"}), ENFORCED + "cannot be updated"
    )


async def test_the_status_subresource_is_no_way_around_the_node_selector(world: World) -> None:
    await world.tenant(nodeSelector={"pool": "gpu"})
    await world.namespace()
    await world.grant(world.name("alice"), "patch", "update", what=["namespaces/status"])
    await refused(
        world.user().patch(
            resources.NAMESPACES,
            world.name("prod"),
            subresource="status",
            kind="merge",
            body={"metadata": {"annotations": {NODE_SELECTOR: "pool=cpu"}}},
        ),
        ENFORCED + "cannot be updated",
    )


async def test_an_administrators_change_is_put_right_by_the_controller(world: World) -> None:
    tenant = await world.tenant(
        nodeSelector={"pool": "gpu"},
        namespaceOptions={"additionalMetadata": {"labels": {"team": "a"}}},
    )
    await world.namespace()
    await world.bound()
    await world.admin.patch(
        resources.NAMESPACES,
        world.name("prod"),
        kind="merge",
        body={"metadata": {"labels": {"team": "b"}}},
    )

    async def repaired() -> bool:
        return bool((await world.stored())["metadata"]["labels"]["team"] == "a")

    await eventually(repaired)
    await world.change(tenant, nodeSelector={"pool": "cpu"})

    async def followed() -> bool:
        return await stored_annotations(world) == {NODE_SELECTOR: "pool=cpu"}

    await eventually(followed)
    await world.change(tenant, nodeSelector=None)

    async def removed() -> bool:
        return await stored_annotations(world) == {}

    await eventually(removed)


async def test_additional_metadata_is_there_from_the_first_moment(world: World) -> None:
    await world.tenant(
        namespaceOptions={
            "additionalMetadata": {"labels": {"team": "a"}, "annotations": {"cost": "1"}},
            "additionalMetadataList": [
                {
                    "namespaceSelector": {"matchLabels": {"stage": "dev"}},
                    "labels": {"owner": "{{tenant.name}}", "team": "an-earlier-key-wins"},
                    "annotations": {"who": "{{ tenant.name }}/{{ namespace }}"},
                },
                {"namespaceSelector": {"matchLabels": {"stage": "prod"}}, "labels": {"x": "y"}},
            ],
        }
    )
    made = await world.namespace(labels={"stage": "dev", "mine": "1"})
    labels, oil = made["metadata"]["labels"], world.name("oil")
    assert labels["team"] == "a"
    assert labels["owner"] == oil
    assert labels["mine"] == "1"
    assert "x" not in labels
    assert made["metadata"]["annotations"] == {"cost": "1", "who": f"{oil}/{world.name('prod')}"}


async def test_additional_metadata_that_is_not_wanted_any_more_goes(world: World) -> None:
    tenant = await world.tenant(
        namespaceOptions={"additionalMetadata": {"labels": {"team": "a", "old": "1"}}}
    )
    await world.namespace(labels={"mine": "1"})
    await world.bound()
    await world.change(
        tenant, namespaceOptions={"additionalMetadata": {"labels": {"team": "b", "old": None}}}
    )

    async def followed() -> bool:
        labels = (await world.stored())["metadata"]["labels"]
        return labels["team"] == "b" and labels["mine"] == "1" and "old" not in labels

    await eventually(followed)


FORBIDDEN: dict[str, Any] = {
    "forbiddenLabels": {"denied": ["secret"], "deniedRegex": "^evil\\.io/"},
    "forbiddenAnnotations": {"denied": ["secret"], "deniedRegex": "^evil\\.io/"},
}


@pytest.mark.parametrize("key", ["secret", "evil.io/x"])
@pytest.mark.parametrize("kind", ["label", "annotation"])
async def test_forbidden_keys(world: World, kind: str, key: str) -> None:
    await world.tenant(namespaceOptions=FORBIDDEN)
    words = f"namespace {kind}s validation failed: {kind} {key} is forbidden"
    more: dict[str, Any] = {f"{kind}s": {key: "x"}}
    with pytest.raises(errors.Forbidden, match=words):
        await world.namespace(**more)
    await world.namespace()
    alice = world.user()
    for subresource in ("", "status"):
        if subresource:
            await world.grant(world.name("alice"), "patch", what=["namespaces/status"])
        with pytest.raises(errors.Forbidden, match=words):
            await alice.patch(
                resources.NAMESPACES,
                world.name("prod"),
                subresource=subresource,
                kind="merge",
                body={"metadata": more},
            )


async def test_forbidden_keys_bind_owners_only_and_only_what_they_change(world: World) -> None:
    await world.tenant(namespaceOptions=FORBIDDEN)
    await world.namespace(by=world.boss(), tenant="oil", labels={"secret": "x"})
    await world.labelled(world.user(), "prod", colour="red")
    changed = await world.labelled(world.user(), "prod", secret=None)
    assert "secret" not in changed["metadata"]["labels"]


async def test_a_forbidden_key_that_the_tenant_sets_itself_is_fine(world: World) -> None:
    options = {**FORBIDDEN, "additionalMetadata": {"labels": {"secret": "ours"}}}
    await world.tenant(namespaceOptions=options)
    assert (await world.namespace())["metadata"]["labels"]["secret"] == "ours"
    changed = await world.labelled(world.user(), "prod", secret="mine")
    assert changed["metadata"]["labels"]["secret"] == "ours"


async def test_required_metadata(world: World) -> None:
    required = {"labels": {"cost": "^cc-[0-9]+$"}, "annotations": {"contact": "@"}}
    await world.tenant(namespaceOptions={"requiredMetadata": required})
    await refused(
        world.namespace(annotations={"contact": "a@b"}), 'required label "cost" not present'
    )
    await refused(
        world.namespace(labels={"cost": "cc-x"}, annotations={"contact": "a@b"}),
        'required label "cost" value "cc-x" does not match regex "^cc-[0-9]+$"',
    )
    await refused(
        world.namespace(labels={"cost": "cc-1"}), 'required annotation "contact" not present'
    )
    await world.namespace(labels={"cost": "cc-1"}, annotations={"contact": "a@b"})
    await world.labelled(world.user(), "prod", colour="red")
    await refused(
        world.labelled(world.user(), "prod", cost=None), 'required label "cost" not present'
    )


async def test_what_is_required_later_is_asked_of_changes_only(world: World) -> None:
    tenant = await world.tenant()
    await world.namespace()
    await world.change(tenant, namespaceOptions={"requiredMetadata": {"labels": {"cost": "^cc-"}}})
    await world.labelled(world.user(), "prod", colour="red")
    await refused(
        world.labelled(world.user(), "prod", cost="x"),
        'required label "cost" value "x" does not match regex "^cc-"',
    )


async def test_namespaces_say_which_classes_and_registries_they_may_use(world: World) -> None:
    """What tools look up on a namespace (specs/capsule 2.2): the tenant's word, and only that."""
    tenant = await world.tenant(
        ingressOptions={"allowedClasses": {"allowed": ["a", "b"], "allowedRegex": "^c-"}},
        storageClasses={"allowed": ["fast"]},
        containerRegistries={"allowedRegex": "^r[.]example$"},
    )
    prefix = "capsule.clastix.io/"
    wanted = {
        f"{prefix}ingress-classes": "a,b",
        f"{prefix}ingress-classes-regexp": "^c-",
        f"{prefix}storage-classes": "fast",
        f"{prefix}allowed-registries-regexp": "^r[.]example$",
    }
    made = await world.namespace(annotations={f"{prefix}storage-classes": "slow"})
    assert made["metadata"]["annotations"] == wanted
    await world.bound()
    changed = await annotate(world, world.user(), **{f"{prefix}ingress-classes": "a,b,mine"})
    assert changed["metadata"]["annotations"] == wanted
    await world.change(
        tenant, storageClasses=None, ingressOptions={"allowedClasses": {"allowed": ["b"]}}
    )
    del wanted[f"{prefix}storage-classes"]
    wanted[f"{prefix}ingress-classes"] = "b"

    async def follows() -> bool:
        return await stored_annotations(world) == wanted

    await eventually(follows)
