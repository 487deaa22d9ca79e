"""The RoleBindings in a tenant's namespaces (specs/capsule 2.4, 3.3)."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors, reads

from . import harness
from .harness import Object, World, eventually, reference, refused

pytestmark = pytest.mark.plane

RBAC = "rbac.authorization.k8s.io"
MANAGED = (
    "Labeling resources as controller managed can only be done by the controller or administrators"
)


async def test_names_labels_and_subjects_are_upstreams(world: World) -> None:
    tenant = await world.tenant(owners=[{"kind": "User", "name": "alice"}])
    # In other tests there is an alice with a tenant, too.
    await world.namespace(by=world.admin.as_user("alice", [constants.USER_GROUP]), tenant="oil")

    async def both() -> bool:
        return {("admin", "alice"), ("capsule-namespace-deleter", "alice")} <= await world.granted()

    await eventually(both)
    binding = (await world.bindings())["capsule:managed:f93a4d3523f699fb"]
    assert binding["metadata"]["labels"] == {
        "capsule.clastix.io/role-binding": "f93a4d3523f699fb",
        "projectcapsule.dev/managed-by": "controller",
        "projectcapsule.dev/tenant": world.name("oil"),
    }
    assert binding["metadata"]["ownerReferences"] == [
        reference(tenant, controller=True, blockOwnerDeletion=True)
    ]
    assert binding["roleRef"] == {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"}
    assert binding["subjects"] == [{"apiGroup": RBAC, "kind": "User", "name": "alice"}]


@pytest.mark.parametrize(
    "name",
    ["Alice.Smith@Example.COM", "CN=a,O=b c", "oidc:https://issuer#x/y", "ünï→" * 20, "a" * 1024],
)
async def test_owners_of_any_name(world: World, name: str) -> None:
    name = f"{world.prefix} {name}"
    await world.tenant(owners=[{"kind": "Group", "name": name}])
    await world.namespace(by=world.user("alice", name) if name.isascii() else world.boss(),
                          tenant="oil")  # fmt: skip

    async def bound() -> bool:
        return {("admin", name), (constants.DELETER_ROLE, name)} <= await world.granted()

    await eventually(bound)


async def test_labels_and_annotations_of_owners_and_bindings_are_copied(world: World) -> None:
    extra = {
        "clusterRoleName": "view",
        "subjects": [{"kind": "Group", "name": "auditors"}],
        "labels": {"audit": "yes"},
        "annotations": {"ticket": "4711"},
    }
    labels = {"team": "a", constants.MANAGED_BY_LABEL: "somebody"}
    owner = world.owner(clusterRoles=["edit"], labels=labels, annotations={"why": "because"})
    await world.tenant(owners=[owner], additionalRoleBindings=[extra])
    await world.namespace()

    async def found() -> dict[str, Object]:
        made = await world.bindings()
        roles = {binding["roleRef"]["name"]: binding["metadata"] for binding in made.values()}
        assert {"edit", "view"} <= roles.keys()
        return roles

    roles = await eventually(found)
    assert roles["edit"]["labels"]["team"] == "a"
    # What makes it ours cannot be said otherwise.
    assert roles["edit"]["labels"][constants.MANAGED_BY_LABEL] == "controller"
    assert roles["edit"]["annotations"] == {"why": "because"}
    assert roles["view"]["labels"]["audit"] == "yes"
    assert roles["view"]["annotations"] == {"ticket": "4711"}


async def test_bindings_of_rules_follow_their_selector(world: World) -> None:
    def rule(role: str, selector: Object | None) -> Object:
        subjects = [{"kind": "User", "name": "carol", "apiGroup": RBAC}]
        found: Object = {
            "permissions": {"bindings": [{"clusterRoleName": role, "subjects": subjects}]}
        }
        if selector is not None:
            found["namespaceSelector"] = selector
        return found

    await world.tenant(
        rules=[
            rule("view", None),
            rule("edit", {"matchLabels": {"stage": "dev"}}),
        ]
    )
    await world.namespace("dev", labels={"stage": "dev"})
    await world.namespace("prod")

    async def carol(name: str) -> set[str]:
        return {role for role, who in await world.granted(name) if who == "carol"}

    async def as_selected() -> bool:
        return await carol("dev") == {"view", "edit"} and await carol("prod") == {"view"}

    await eventually(as_selected)
    await world.labelled(world.user(), "dev", stage="prod")

    async def pruned() -> bool:
        return await carol("dev") == {"view"}

    await eventually(pruned)


async def test_what_an_owner_loses_is_pruned_and_what_stays_is_not_touched(world: World) -> None:
    tenant = await world.tenant()
    await world.namespace()
    await world.bound()
    before = {name: b["metadata"]["uid"] for name, b in (await world.bindings()).items()}
    await world.change(tenant, owners=[world.owner(clusterRoles=["admin", "view"])])

    async def changed() -> bool:
        mine = {role for role, who in await world.granted() if who == world.name("alice")}
        return mine == {"admin", "view"}

    await eventually(changed)
    after = {name: b["metadata"]["uid"] for name, b in (await world.bindings()).items()}
    assert set(before.items()) & set(after.items()) >= {
        item for item in before.items() if item[0] in after
    }


async def test_access_never_flickers_while_roles_change(world: World) -> None:
    """Replacing every binding creates the new ones before the old ones go."""
    tenant = await world.tenant(owners=[world.owner(clusterRoles=["edit"])])
    await world.namespace()

    async def there() -> bool:
        # Hers, and the administrator's.
        return {found["roleRef"]["name"] for found in (await world.bindings()).values()} == {
            "edit", constants.DELETER_ROLE,
        }  # fmt: skip

    await eventually(there)
    listed = await world.admin.list(resources.ROLE_BINDINGS, world.name("prod"))
    await world.change(tenant, owners=[world.owner(clusterRoles=["admin"])])
    order: list[tuple[str, str]] = []
    async with (
        world.admin.watch(
            resources.ROLE_BINDINGS, world.name("prod"), resource_version=listed.resource_version
        ) as stream,
        asyncio.timeout(15),
    ):
        async for line in stream:
            event = reads.to_dict(bytes(line))
            if event["type"] in {"ADDED", "DELETED"}:
                order.append((event["type"], event["object"]["roleRef"]["name"]))
            if event["type"] == "DELETED":
                break
    assert order == [("ADDED", "admin"), ("DELETED", "edit")]


async def test_one_that_an_administrator_deletes_comes_back(world: World) -> None:
    await world.tenant()
    await world.namespace()
    await world.bound()
    for name, binding in (await world.bindings()).items():
        await world.boss().delete(
            resources.ROLE_BINDINGS, name, world.name("prod"), uid=binding["metadata"]["uid"]
        )
    await world.bound()


async def test_one_that_an_administrator_changes_is_put_right(world: World) -> None:
    await world.tenant()
    await world.namespace()
    await world.bound()
    name, before = next(iter((await world.bindings()).items()))
    mallory = [{"kind": "User", "name": "mallory", "apiGroup": RBAC}]
    await world.boss().patch(
        resources.ROLE_BINDINGS,
        name,
        world.name("prod"),
        kind="merge",
        body={"subjects": mallory, "metadata": {"labels": {constants.MANAGED_TENANT_LABEL: "x"}}},
    )

    async def repaired() -> bool:
        found = (await world.bindings())[name]
        return bool(
            found["subjects"] == before["subjects"]
            and found["metadata"]["labels"] == before["metadata"]["labels"]
        )

    await eventually(repaired)


async def test_owners_cannot_touch_them(world: World) -> None:
    await world.tenant()
    await world.namespace()
    await world.bound()
    alice, where = world.user(), world.name("prod")
    for name, binding in (await world.bindings()).items():
        for key in (constants.MANAGED_BY_LABEL, "any"):
            body = {"metadata": {"labels": {key: None if key != "any" else "thing"}}}
            await refused(
                alice.patch(resources.ROLE_BINDINGS, name, where, kind="merge", body=body), MANAGED
            )
        await refused(alice.replace(resources.ROLE_BINDINGS, binding), MANAGED)
        await refused(alice.delete(resources.ROLE_BINDINGS, name, where), MANAGED)
    await refused(alice.request("DELETE", resources.ROLE_BINDINGS.path(where)), MANAGED)
    await refused(world.admin.delete(resources.ROLE_BINDINGS, name, where), MANAGED)


@pytest.mark.parametrize("labelled", [False, True])
async def test_squatting_on_a_name_keeps_nobody_out(world: World, labelled: bool) -> None:
    """An owner cannot keep a binding of the platform out by using its name first."""
    auditors = {"apiGroup": RBAC, "kind": "Group", "name": world.name("auditors")}
    extra = {"clusterRoleName": "view", "subjects": [auditors]}
    other = await world.tenant("gas", owner="bob", additionalRoleBindings=[extra])
    await world.namespace("gas", by=world.user("bob"))

    async def audited(name: str) -> bool:
        return ("view", auditors["name"]) in await world.granted(name)

    await eventually(lambda: audited("gas"))
    (name,) = (n for n, b in (await world.bindings("gas")).items() if b["subjects"] == [auditors])
    tenant = await world.tenant()
    await world.namespace()
    await world.bound()
    squat = {
        "metadata": {
            "name": name,
            "namespace": world.name("prod"),
            "labels": {constants.ROLE_BINDING_LABEL: name.rpartition(":")[2]} if labelled else {},
            "finalizers": ["example.com/hold"] if labelled else [],
        },
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "mallory"}],
    }
    await world.user().create(resources.ROLE_BINDINGS, squat)
    await world.change(tenant, additionalRoleBindings=[extra])
    await eventually(lambda: audited("prod"))
    assert (await world.bindings())[name]["subjects"] == [auditors]
    assert other["metadata"]["name"] != tenant["metadata"]["name"]


async def test_a_binding_of_an_owners_own_is_left_alone(world: World) -> None:
    await world.tenant()
    await world.namespace()
    await world.bound()
    mine = {
        "metadata": {
            "name": "mine",
            "namespace": world.name("prod"),
            "labels": {constants.ROLE_BINDING_LABEL: "abc"},
        },
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "friend"}],
    }
    await world.user().create(resources.ROLE_BINDINGS, mine)
    await world.change(
        await world.admin.get(capsule.TENANTS, world.name("oil")),
        owners=[world.owner(clusterRoles=["admin"])],
    )

    async def pruned() -> bool:
        return (constants.DELETER_ROLE, world.name("alice")) not in await world.granted()

    await eventually(pruned)
    await world.admin.get(resources.ROLE_BINDINGS, "mine", world.name("prod"))


async def test_a_role_that_is_not_ours_to_give_fails_its_namespace_only(world: World) -> None:
    """The controller is no cluster-admin: it hands out only roles that it was given to hand out."""
    extra = {
        "clusterRoleName": "cluster-admin",
        "subjects": [{"kind": "User", "name": "mallory", "apiGroup": RBAC}],
    }
    await world.tenant(additionalRoleBindings=[extra])
    await world.namespace()
    await world.bound()

    async def failed() -> Object | None:
        ready = world.condition(await world.status(), "Ready")
        return ready if ready["status"] == "False" else None

    ready = await eventually(failed)
    assert ready is not None
    assert ready["reason"] == "Failed"
    assert "cluster-admin" in ready["message"]
    assert "cluster-admin" not in {role for role, _ in await world.granted()}


async def test_a_role_that_does_not_exist_is_named(world: World) -> None:
    auditors = {"apiGroup": RBAC, "kind": "Group", "name": world.name("auditors")}
    role = world.name("auditor")
    await world.tenant(
        additionalRoleBindings=[{"clusterRoleName": role, "subjects": [auditors]}],
    )
    await world.namespace()
    await world.bound()

    async def failed() -> bool:
        ready = world.condition(await world.status(), "Ready")
        return ready["status"] == "False" and role in ready["message"]

    await eventually(failed)
    await world.admin.create(
        resources.CLUSTER_ROLES,
        {
            "metadata": {"name": role, "labels": {constants.AGGREGATE_LABEL: constants.TRUE}},
            "rules": [],
        },
    )

    async def healed() -> bool:
        ready = world.condition(await world.status(), "Ready")
        return ready["status"] == "True" and (role, auditors["name"]) in await world.granted()

    await eventually(healed, seconds=30)


async def test_a_revoked_owner_goes_even_when_something_else_fails(world: World) -> None:
    extra = {
        "clusterRoleName": "cluster-admin",
        "subjects": [{"kind": "User", "name": "mallory", "apiGroup": RBAC}],
    }
    tenant = await world.tenant(owners=[world.owner("alice"), world.owner("bob")])
    await world.namespace()
    await world.bound(by="alice")
    await world.bound(by="bob")
    await world.change(
        tenant, owners=[world.owner("bob"), world.owner("carol")], additionalRoleBindings=[extra]
    )
    await world.bound(by="carol")

    async def gone() -> bool:
        return world.name("alice") not in {who for _, who in await world.granted()}

    await eventually(gone)


async def test_what_the_roles_allow(world: World) -> None:
    await world.tenant()
    await world.tenant("gas", owner="bob")
    await world.namespace()
    await world.namespace("gas", by=world.user("bob"))
    await world.bound()
    alice = world.user()
    settings = {"metadata": {"name": "settings", "namespace": world.name("prod")}}
    await alice.create(resources.CONFIG_MAPS, settings)
    with pytest.raises(errors.Forbidden):
        await alice.list(resources.CONFIG_MAPS, world.name("gas"))
    for resource in (resources.NAMESPACES, resources.NODES, capsule.TENANTS):
        with pytest.raises(errors.Forbidden):
            await alice.list(resource)
    with pytest.raises(errors.Forbidden):
        await alice.delete(resources.NAMESPACES, world.name("gas"))
    await alice.delete(resources.NAMESPACES, world.name("prod"))


async def test_members_have_their_role_and_own_nothing(world: World) -> None:
    """Who is bound by the tenant without owning it (upstream's issues 709, 1452)."""
    subject = {"kind": "User", "name": world.name("vera"), "apiGroup": RBAC}
    member = {"clusterRoleName": "view", "subjects": [subject]}
    await world.tenant(additionalRoleBindings=[member])
    await world.namespace()
    await world.bound()
    vera, prod = world.user("vera"), world.name("prod")

    async def reads() -> bool:
        with contextlib.suppress(errors.Forbidden):
            await vera.list(resources.CONFIG_MAPS, prod)
            return True
        return False

    await eventually(reads)
    settings = {"metadata": {"name": "settings", "namespace": prod}}
    with pytest.raises(errors.Forbidden):
        await vera.create(resources.CONFIG_MAPS, settings, dry_run=True)
    with pytest.raises(errors.Forbidden):
        await vera.delete(resources.NAMESPACES, prod)
    await refused(world.namespace("more", by=vera), harness.NO_TENANT)
    await refused(world.namespace("more", by=vera, tenant="oil"), harness.NOT_OWNED, code=400)
    await refused(world.labelled(vera, "prod", team="a"), "denied patch request for this namespace")

    async def owners() -> set[str]:
        return {owner["name"] for owner in (await world.status())["owners"]}

    # An administrator owns every tenant.
    assert await eventually(owners) == {world.name("alice"), harness.BOSS}
