"""Nobody gets a namespace that is not theirs (specs/capsule 5.4, 5.5; CVE-2022-46167,
CVE-2024-39690, CVE-2025-55205).

A namespace's label, ownerReference and uid move together or not at all, whoever asks and by
whichever verb or subresource.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.kube import client as kube
from tenantry.kube import errors

from .harness import Object, World, eventually, reference, refused, tenant_of

pytestmark = pytest.mark.plane

LABEL = constants.TENANT_LABEL
NOT_IN = "namespace can not be patched into a tenant"
NOT_OUT = "namespace can not remove tenant ownership"
NOT_OVER = "namespace can not be migrated between tenants"
NOT_YOURS = "denied patch request for this namespace"
UNOWNED = "namespace is not owned by any tenant"
INCOMPLETE = "namespace tenant ownership is incomplete"

#: Send changed metadata to a namespace, some way.
Send = Callable[[kube.Client, Object, Object, str], Awaitable[Object]]


async def by_merge(client: kube.Client, stored: Object, changed: Object, sub: str) -> Object:
    return await client.patch(
        resources.NAMESPACES,
        stored["metadata"]["name"],
        kind="merge",
        subresource=sub,
        body={"metadata": changed},
    )


async def by_strategic(client: kube.Client, stored: Object, changed: Object, sub: str) -> Object:
    references = changed.get("ownerReferences")
    body: Object = {"metadata": dict(changed)}
    if references is not None:
        gone = [{"$patch": "delete", "uid": r["uid"]} for r in _references(stored)]
        kept = {r["uid"] for r in references}
        body["metadata"]["ownerReferences"] = [
            *(d for d in gone if d["uid"] not in kept),
            *references,
        ]
    return await client.patch(
        resources.NAMESPACES,
        stored["metadata"]["name"],
        kind="strategic",
        subresource=sub,
        body=body,
    )


async def by_json(client: kube.Client, stored: Object, changed: Object, sub: str) -> Object:
    after = _after(stored, changed)["metadata"]
    operations: list[Object] = [
        {"op": "add", "path": f"/metadata/{key}", "value": after.get(key) or empty}
        for key, empty in (("labels", {}), ("ownerReferences", []))
    ]
    return await client.patch(
        resources.NAMESPACES,
        stored["metadata"]["name"],
        kind="json",
        subresource=sub,
        body=operations,
    )


async def by_replace(client: kube.Client, stored: Object, changed: Object, sub: str) -> Object:
    return await client.replace(resources.NAMESPACES, _after(stored, changed), subresource=sub)


async def by_apply(client: kube.Client, stored: Object, changed: Object, sub: str) -> Object:
    metadata = {"name": stored["metadata"]["name"]}
    metadata |= {key: value for key, value in changed.items() if value}
    metadata["labels"] = {k: v for k, v in (changed.get("labels") or {}).items() if v is not None}
    return await client.apply(
        resources.NAMESPACES, {"metadata": metadata}, field_manager="thief", subresource=sub
    )


def _references(stored: Object) -> list[Object]:
    found: list[Object] = stored["metadata"].get("ownerReferences") or []
    return found


def _after(stored: Object, changed: Object) -> Object:
    metadata = {**stored["metadata"], **changed}
    labels = {**stored["metadata"].get("labels", {}), **(changed.get("labels") or {})}
    metadata["labels"] = {key: value for key, value in labels.items() if value is not None}
    metadata.pop("managedFields", None)
    return {**stored, "metadata": metadata}


WAYS: dict[str, Send] = {
    "merge": by_merge,
    "strategic": by_strategic,
    "json": by_json,
    "replace": by_replace,
    "apply": by_apply,
}
SUBRESOURCES = ("", "status", "finalize")


class Scene:
    """Two tenants with a namespace each, a free one, and a thief with every right on namespaces."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.oil: Object = {}
        self.gas: Object = {}

    async def build(self) -> None:
        world = self.world
        self.oil, self.gas = await world.tenant("oil"), await world.tenant("gas", owner="bob")
        await world.namespace("oil")
        await world.namespace("gas", by=world.user("bob"))
        await world.namespace("free", by=world.admin)
        for who in ("alice", "bob", "root"):
            await world.grant(
                world.name(who),
                "get", "create", "patch", "update",
                what=["namespaces", "namespaces/status", "namespaces/finalize"],
            )  # fmt: skip

    async def unmoved(self) -> None:
        """Check that everything still belongs where it belonged, with the right uid."""
        for name, tenant in (("oil", self.oil), ("gas", self.gas)):
            stored = await self.world.stored(name)
            assert stored["metadata"]["labels"][LABEL] == tenant["metadata"]["name"]
            assert stored["metadata"]["ownerReferences"] == [reference(tenant)]
        assert tenant_of(await self.world.stored("free")) is None

    def into(self, tenant: Object) -> Object:
        return {
            "labels": {LABEL: tenant["metadata"]["name"]},
            "ownerReferences": [reference(tenant)],
        }


@pytest.fixture
async def scene(world: World) -> Scene:
    built = Scene(world)
    await built.build()
    return built


#: By API server: the scene of all tests in which nothing moves.
_SHARED: dict[str, Scene] = {}


@pytest.fixture
async def shared(world: World) -> Scene:
    """Give a scene where others have been thieves before; each has left everything where it was."""
    server = world.tenancy.plane.server
    if server not in _SHARED:
        first = Scene(world)
        await first.build()
        _SHARED[server] = first
    mine = Scene(dataclasses.replace(world, prefix=_SHARED[server].world.prefix))
    mine.oil, mine.gas = _SHARED[server].oil, _SHARED[server].gas
    return mine


OUT: Object = {"labels": {LABEL: None}, "ownerReferences": []}


@pytest.mark.parametrize(
    ("way", "sub"),
    [
        *((way, sub) for sub in ("", "status") for way in WAYS),
        # There is nothing but replacing it.
        ("replace", "finalize"),
        ("merge", "finalize"),
    ],
)
async def test_moving_whole(shared: Scene, way: str, sub: str) -> None:
    """Label and reference together: in, out and over, by owners, strangers and cluster-admins."""
    world, send = shared.world, WAYS[way]
    allowed = {403, 409, 422} if sub != "finalize" or way == "replace" else {405}
    codes: set[int] = set()
    thieves = {
        "owner": world.user("alice"),
        "foreign owner": world.user("bob"),
        "cluster-admin": world.stranger("root", "system:masters"),
    }
    for thief in thieves.values():
        for name in ("oil", "gas", "free"):
            stored = await world.stored(name)
            for change in (shared.into(shared.oil), shared.into(shared.gas), OUT):
                if name == "free" and change is OUT:
                    continue
                # What changes nothing, or is silently undone, is no theft.
                try:
                    await send(thief, stored, change, sub)
                except errors.ApiError as problem:
                    codes.add(problem.code)
    assert codes <= allowed
    await shared.unmoved()


@pytest.mark.parametrize("sub", SUBRESOURCES)
async def test_moving_half(shared: Scene, sub: str) -> None:
    """Label alone, reference alone, uid alone, two references, a reference of another version."""
    world, oil, gas = shared.world, shared.oil, shared.gas
    # The subresource finalize can only be replaced.
    send = by_replace if sub == "finalize" else by_merge
    codes: set[int] = set()
    other = gas["metadata"]
    changes: list[Object] = [
        {"labels": {LABEL: other["name"]}},
        {"labels": {LABEL: None}},
        {"ownerReferences": []},
        {"ownerReferences": [reference(gas)]},
        {"ownerReferences": [reference(oil, uid=other["uid"])]},
        {"ownerReferences": [reference(gas, uid=oil["metadata"]["uid"])]},
        {"ownerReferences": [reference(oil), reference(gas)]},
        {"ownerReferences": [reference(oil), reference(gas, version="v1beta1")]},
        {"ownerReferences": [reference(gas, version="v1beta1")]},
        {"ownerReferences": [reference(gas, version="v9")]},
        {"ownerReferences": [reference(gas, controller=True)]},
        {"ownerReferences": [reference(oil), reference(oil, uid=other["uid"])]},
    ]
    for thief in (world.user("alice"), world.user("bob"), world.stranger("root", "system:masters")):
        for name in ("oil", "free"):
            for change in changes:
                stored = await world.stored(name)
                try:
                    await send(thief, stored, change, sub)
                except errors.ApiError as problem:
                    codes.add(problem.code)
    assert codes <= {403, 422}
    await shared.unmoved()


async def test_what_is_said_to_an_owner(shared: Scene) -> None:
    world, alice = shared.world, shared.world.user("alice")
    oil, gas = await world.stored("oil"), await world.stored("gas")
    free = await world.stored("free")
    await refused(by_merge(alice, oil, shared.into(shared.gas), ""), NOT_OVER)
    await refused(by_merge(alice, oil, OUT, ""), NOT_OUT)
    await refused(by_merge(alice, free, shared.into(shared.oil), ""), NOT_IN)
    await refused(by_merge(alice, free, {"labels": {LABEL: world.name("oil")}}, ""), NOT_IN)
    await refused(by_merge(alice, free, {"labels": {"colour": "red"}}, ""), UNOWNED)
    await refused(by_merge(alice, gas, {"labels": {"colour": "red"}}, ""), NOT_YOURS)
    await refused(by_merge(alice, gas, shared.into(shared.oil), ""), NOT_OVER)
    await refused(by_merge(alice, oil, shared.into(shared.gas), "status"), NOT_OVER)
    await refused(by_merge(alice, oil, {"labels": {LABEL: None}}, "status"), INCOMPLETE)
    kube_system = await world.admin.get(resources.NAMESPACES, "kube-system")
    await refused(by_merge(alice, kube_system, {"labels": {"colour": "red"}}, ""), UNOWNED)
    await refused(by_merge(alice, kube_system, shared.into(shared.oil), ""), NOT_IN)
    await refused(by_merge(alice, kube_system, shared.into(shared.oil), "status"), NOT_IN)


async def test_half_a_move_by_an_owner_is_undone_silently(scene: Scene) -> None:
    world, alice = scene.world, scene.world.user("alice")
    stored = await world.stored("oil")
    changes: list[Object] = [
        {"labels": {LABEL: world.name("gas"), "colour": "red"}},
        {"labels": {LABEL: None, "colour": "blue"}},
        {
            "labels": {"colour": "green"},
            "ownerReferences": [reference(scene.oil), reference(scene.gas)],
        },
    ]
    for change in changes:
        changed = await by_merge(alice, stored, change, "")
        assert changed["metadata"]["ownerReferences"] == [reference(scene.oil)]
        assert tenant_of(changed) == world.name("oil")
        assert changed["metadata"]["labels"]["colour"] == change["labels"]["colour"]


@pytest.mark.parametrize("sub", ["", "status"])
async def test_what_is_said_to_a_cluster_admin_who_is_no_administrator(
    shared: Scene, sub: str
) -> None:
    world = shared.world
    root = world.stranger("root", "system:masters")
    oil, free = await world.stored("oil"), await world.stored("free")
    await refused(by_merge(root, free, shared.into(shared.oil), sub), NOT_IN)
    await refused(by_merge(root, oil, OUT, sub), NOT_OUT)
    await refused(by_merge(root, oil, shared.into(shared.gas), sub), NOT_OVER)
    # Everything else is hers.
    await by_merge(root, oil, {"labels": {"colour": "red"}}, sub)
    await by_merge(root, free, {"labels": {"colour": "red"}}, sub)


@pytest.mark.parametrize("way", WAYS)
async def test_a_service_account_of_a_tenant_namespace(shared: Scene, way: str) -> None:
    """Whatever RBAC gave it: it lives in a tenant, so it is one of the tenant's people."""
    world, where = shared.world, shared.world.name("oil")
    name = f"system:serviceaccount:{where}:robot"
    await world.grant(
        name, "get", "create", "patch", "update", what=["namespaces", "namespaces/status"]
    )
    robot = world.account(where, "robot")
    for sub in ("", "status"):
        for target in ("oil", "gas", "free"):
            stored = await world.stored(target)
            for change in (
                shared.into(shared.oil),
                shared.into(shared.gas),
                OUT,
                {"labels": {"x": "y"}},
            ):
                if change is OUT and target == "free":
                    continue
                if way == "apply" and change is OUT:
                    # Applying nothing takes nothing away from other managers.
                    continue
                try:
                    await WAYS[way](robot, stored, change, sub)
                except errors.Forbidden:
                    continue
                raise AssertionError((sub, target, change))
    await refused(
        world.namespace("more", by=robot),
        "You do not have any Tenant assigned: please, reach out to the system administrators",
    )
    await shared.unmoved()


async def test_gitops_applies_and_stops_applying_the_label(scene: Scene) -> None:
    world, alice = scene.world, scene.world.user("alice")

    async def apply(**labels: str) -> Object:
        body = {"metadata": {"name": world.name("oil"), "labels": labels}}
        return await alice.apply(resources.NAMESPACES, body, field_manager="gitops")

    await apply(**{LABEL: world.name("oil"), "colour": "red"})
    changed = await apply(colour="blue")
    assert tenant_of(changed) == world.name("oil")
    # Also when it owned the reference, and gives up both.
    whole = {"metadata": {"name": world.name("oil"), **scene.into(scene.oil)}}
    await alice.apply(resources.NAMESPACES, whole, field_manager="gitops")
    await apply(colour="green")
    await scene.unmoved()


async def test_gitops_creates_by_server_side_apply(world: World) -> None:
    await world.tenant()
    body = {"metadata": {"name": world.name("prod"), "labels": {"colour": "red"}}}
    for _ in range(2):
        made = await world.user().apply(resources.NAMESPACES, body, field_manager="gitops")
        assert tenant_of(made) == world.name("oil")


async def test_replacing_by_a_bare_manifest_does_not_set_free(shared: Scene) -> None:
    world = shared.world
    stored = await world.stored("oil")
    bare = {
        "metadata": {
            "name": world.name("oil"),
            "resourceVersion": stored["metadata"]["resourceVersion"],
        }
    }
    await refused(world.user("alice").replace(resources.NAMESPACES, bare), NOT_OUT)


async def test_other_references_are_the_owners_business(scene: Scene) -> None:
    world = scene.world
    kube_public = await world.admin.get(resources.NAMESPACES, "kube-public")
    other = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "name": "kube-public",
        "uid": kube_public["metadata"]["uid"],
    }
    changed = await by_merge(
        world.user("alice"),
        await world.stored("oil"),
        {"ownerReferences": [other, reference(scene.oil)]},
        "",
    )
    assert changed["metadata"]["ownerReferences"] == [other, reference(scene.oil)]


async def test_administrators_move_adopt_and_detach(scene: Scene) -> None:
    world, boss = scene.world, scene.world.boss()
    name = world.name("free")
    for change, tenant in (
        ({"labels": {LABEL: world.name("oil")}}, "oil"),
        (scene.into(scene.gas), "gas"),
        ({"labels": {LABEL: None}, "ownerReferences": [reference(scene.oil)]}, "oil"),
    ):
        changed = await by_merge(boss, await world.stored("free"), change, "")
        assert tenant_of(changed) == world.name(tenant)
    await by_merge(boss, await world.stored("free"), OUT, "")
    assert tenant_of(await world.stored("free")) is None
    for change, words in (
        (
            {"ownerReferences": [reference(scene.oil), reference(scene.gas)]},
            "namespace can not have multiple Tenant ownerReferences",
        ),
        (
            {"labels": {LABEL: world.name("gas")}, "ownerReferences": [reference(scene.oil)]},
            f'namespace label "{world.name("gas")}" does not match '
            f'owner reference "{world.name("oil")}"',
        ),
    ):
        await refused(by_merge(boss, await world.stored("free"), change, ""), words)
    with pytest.raises(errors.Forbidden, match="tenant ownerReference UID mismatch"):
        wrong = reference(scene.oil, uid=scene.gas["metadata"]["uid"])
        await by_merge(boss, await world.stored("free"), {"ownerReferences": [wrong]}, "")
    with pytest.raises(errors.Forbidden):
        half = {"labels": {LABEL: world.name("oil")}}
        await by_merge(boss, await world.stored("free"), half, "status")
    assert name == (await world.stored("free"))["metadata"]["name"]


async def test_after_a_move_the_old_owners_bindings_go(scene: Scene) -> None:
    world = scene.world
    await world.bound("oil")
    await by_merge(world.boss(), await world.stored("oil"), scene.into(scene.gas), "")

    async def changed_hands() -> bool:
        who = {name for _, name in await world.granted("oil")}
        return who == {world.name("bob")}

    await eventually(changed_hands)
    await by_merge(world.boss(), await world.stored("oil"), OUT, "")

    async def none_left() -> bool:
        return not await world.bindings("oil")

    await eventually(none_left)


async def test_a_namespace_owned_already_can_not_be_created_again(shared: Scene) -> None:
    world = shared.world
    for name in ("oil", "gas", "free"):
        with pytest.raises(errors.AlreadyExists):
            await world.namespace(name, by=world.user("alice"))
    with pytest.raises(errors.AlreadyExists):
        body = {"metadata": {"name": "kube-system"}}
        await world.user("alice").create(resources.NAMESPACES, body)
    await refused(
        world.user("alice").apply(
            resources.NAMESPACES,
            {"metadata": {"name": world.name("gas"), "labels": {"x": "y"}}},
            field_manager="gitops",
        ),
        NOT_YOURS,
    )
    await shared.unmoved()


async def test_nobody_but_the_platform_says_managed_by_controller(scene: Scene) -> None:
    world, where = scene.world, scene.world.name("oil")
    await world.bound("oil")
    words = (
        "Labeling resources as controller managed can only be done by the controller or "
        "administrators"
    )
    ours = {constants.MANAGED_BY_LABEL: constants.MANAGED_BY_CONTROLLER}
    labelled = {"metadata": {"name": "x", "namespace": where, "labels": ours}}
    alice = world.user("alice")
    await refused(alice.create(resources.CONFIG_MAPS, labelled), words)
    await refused(world.admin.create(resources.CONFIG_MAPS, labelled), words)
    plain = {"metadata": {"name": "x", "namespace": where}}
    await alice.create(resources.CONFIG_MAPS, plain)
    body = {"metadata": {"labels": ours}}
    await refused(alice.patch(resources.CONFIG_MAPS, "x", where, kind="merge", body=body), words)
    await world.boss().patch(resources.CONFIG_MAPS, "x", where, kind="merge", body=body)
    await refused(alice.delete(resources.CONFIG_MAPS, "x", where), words)


async def test_the_managed_label_does_not_make_pods_untouchable(scene: Scene) -> None:
    """By way of a pod template, a tenant could have pods that nobody may evict or report on."""
    world, where = scene.world, scene.world.name("oil")
    await world.bound("oil")
    labels = {"app": "x", constants.MANAGED_BY_LABEL: constants.MANAGED_BY_CONTROLLER}
    body: Object = {
        "metadata": {"name": "x", "namespace": where},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
        },
    }
    await world.user("alice").create(resources.REPLICA_SETS, body)

    async def refused_by_us() -> bool:
        found = await world.admin.get(resources.REPLICA_SETS, "x", where)
        messages = [c.get("message", "") for c in found["status"].get("conditions") or ()]
        return any("controller managed" in message for message in messages)

    await eventually(refused_by_us)
    assert not (await world.admin.list(resources.PODS, where)).items
    # A kubelet goes on reporting whatever somebody labelled.
    name = world.name("kubelet")
    await world.grant(name, "patch", what=["configmaps"])
    await world.boss().create(
        resources.CONFIG_MAPS, {"metadata": {"name": "m", "namespace": where, "labels": labels}}
    )
    change = {"data": {"a": "b"}}
    kubelet = world.stranger("kubelet", "system:nodes")
    await kubelet.patch(resources.CONFIG_MAPS, "m", where, kind="merge", body=change)


async def test_group_tricks(shared: Scene) -> None:
    """Names that look like somebody else's do not make anybody somebody else."""
    world = shared.world
    stored = await world.stored("oil")
    for name, groups in (
        ("capsule-system:capsule", ["system:serviceaccounts"]),
        ("system:serviceaccount:capsule-system:default", ["system:serviceaccounts"]),
        ("system:serviceaccount:capsule-system:capsule:x", []),
        ("system:serviceaccount:CAPSULE-SYSTEM:capsule", []),
        ("Boss", ["system:masters"]),
        (world.name("mallory"), ["boss", "system:masters"]),
    ):
        mallory = world.admin.as_user(name, [*groups, "system:masters"])
        try:
            await by_merge(mallory, stored, shared.into(shared.gas), "")
        except errors.Forbidden:
            continue
        raise AssertionError(name)
    await shared.unmoved()
