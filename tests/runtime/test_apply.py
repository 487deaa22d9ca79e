from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors as kube_errors
from tenantry.runtime import apply

from .conftest import config_map

MAPS = resources.CONFIG_MAPS
US = "tenantry/test"


def test_finalizer_patches_are_guarded() -> None:
    def obj(*finalizers: str) -> dict[str, Any]:
        return {"metadata": {"uid": "u", "resourceVersion": "5", "finalizers": list(finalizers)}}

    uid = {"op": "test", "path": "/metadata/uid", "value": "u"}
    assert apply.finalizer_patch(obj("x"), "x", present=True) == []
    assert apply.finalizer_patch(obj("x"), "y", present=False) == []
    assert apply.finalizer_patch(obj("x"), "y", present=True) == [
        uid,
        {"op": "test", "path": "/metadata/finalizers", "value": ["x"]},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "y"},
    ]
    assert apply.finalizer_patch(obj(), "y", present=True) == [
        uid,
        {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
        {"op": "add", "path": "/metadata/finalizers", "value": ["y"]},
    ]
    assert apply.finalizer_patch(obj("x", "y"), "y", present=False) == [
        uid,
        {"op": "test", "path": "/metadata/finalizers/1", "value": "y"},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]


pytest_plane = pytest.mark.plane


@pytest_plane
async def test_sends_only_differences(admin: kube.Client, namespace: str) -> None:
    applier = apply.Applier(admin, US)
    first = await applier.apply(MAPS, config_map(namespace, "a", x="1", y="2"), None)
    assert first.sent
    again = await applier.apply(MAPS, config_map(namespace, "a", x="1", y="2"), first.object)
    assert not again.sent
    assert again.object == first.object

    # Somebody else's field is theirs and stays; a field of ours that is no longer wanted goes.
    await admin.patch(MAPS, "a", namespace, kind="merge", body={"data": {"z": "3"}})
    seen = await admin.get(MAPS, "a", namespace)
    less = await applier.apply(MAPS, config_map(namespace, "a", x="1"), seen)
    assert less.sent
    assert less.object["data"] == {"x": "1", "z": "3"}

    # Somebody else's change of a field of ours is set right.
    await admin.patch(MAPS, "a", namespace, kind="merge", body={"data": {"x": "9"}})
    seen = await admin.get(MAPS, "a", namespace)
    right = await applier.apply(MAPS, config_map(namespace, "a", x="1"), seen)
    assert right.object["data"]["x"] == "1"
    assert (applier.sent, applier.skipped) == (3, 1)


@pytest_plane
async def test_is_silent_when_the_server_only_writes_it_differently(
    admin: kube.Client, namespace: str
) -> None:
    applier = apply.Applier(admin, US)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"namespace": namespace, "name": "q"},
        "spec": {"hard": {"requests.cpu": "1000m"}},
    }
    first = await applier.apply(resources.RESOURCE_QUOTAS, quota, None)
    assert first.object["spec"]["hard"]["requests.cpu"] == "1"
    assert not (await applier.apply(resources.RESOURCE_QUOTAS, quota, first.object)).sent
    touched = await admin.patch(
        resources.RESOURCE_QUOTAS,
        "q",
        namespace,
        kind="merge",
        body={"metadata": {"labels": {"a": "b"}}},
    )
    assert (await applier.apply(resources.RESOURCE_QUOTAS, quota, touched)).sent, "looked at anew"
    assert not (await applier.apply(resources.RESOURCE_QUOTAS, quota, touched)).sent


@pytest_plane
async def test_does_not_repeat_what_the_cache_has_not_seen_yet(
    admin: kube.Client, namespace: str
) -> None:
    applier = apply.Applier(admin, US)
    old = (await applier.apply(MAPS, config_map(namespace, "a", x="1"), None)).object
    assert (await applier.apply(MAPS, config_map(namespace, "a", x="2"), old)).sent
    assert not (await applier.apply(MAPS, config_map(namespace, "a", x="2"), old)).sent
    assert (await applier.apply(MAPS, config_map(namespace, "a", x="3"), old)).sent


@pytest_plane
@pytest.mark.parametrize("kind", ["RoleBinding", "Service"])
async def test_built_in_kinds_settle(admin: kube.Client, namespace: str, kind: str) -> None:
    desired: dict[str, Any]
    if kind == "Service":
        resource = resources.SERVICES
        desired = {"spec": {"ports": [{"port": 80, "name": "w"}], "selector": {"a": "b"}}}
    else:
        resource = resources.ROLE_BINDINGS
        group = "rbac.authorization.k8s.io"
        desired = {
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
        }
    desired |= {
        "apiVersion": resource.api_version,
        "kind": kind,
        "metadata": {"namespace": namespace, "name": "a", "labels": {"l": "1"}},
    }
    await apply.Applier(admin, US).apply(resource, desired, None)
    seen = await admin.get(resource, "a", namespace)
    # A process that has just started remembers nothing: the object itself must say it.
    assert not (await apply.Applier(admin, US).apply(resource, desired, seen)).sent


@pytest_plane
async def test_writes_a_status_only_when_it_differs(admin: kube.Client, namespace: str) -> None:
    applier = apply.Applier(admin, US)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"namespace": namespace, "name": "q"},
    }
    seen = (await applier.apply(resources.RESOURCE_QUOTAS, quota, None)).object
    status = {**quota, "status": {"used": {"pods": "1"}}}
    first = await applier.apply_status(resources.RESOURCE_QUOTAS, status, seen)
    assert first.sent
    assert first.object["status"]["used"] == {"pods": "1"}
    assert not (await applier.apply_status(resources.RESOURCE_QUOTAS, status, first.object)).sent
    assert not (await applier.apply(resources.RESOURCE_QUOTAS, quota, first.object)).sent


@pytest_plane
async def test_prunes_what_is_not_kept_and_only_that(admin: kube.Client, namespace: str) -> None:
    applier = apply.Applier(admin, US)
    seen = [(await applier.apply(MAPS, config_map(namespace, name), None)).object for name in "abc"]
    # "b" was deleted and made anew by somebody else: not the one we know.
    await admin.delete(MAPS, "b", namespace)
    await admin.create(MAPS, config_map(namespace, "b"))
    # "c" is gone already.
    await admin.delete(MAPS, "c", namespace)
    dying = {"metadata": {"namespace": namespace, "name": "d", "deletionTimestamp": "x"}}
    pruned = await applier.prune(MAPS, [*seen, dying], keep=[(namespace, "x")])
    assert pruned == [(namespace, name) for name in "abc"]
    with pytest.raises(kube_errors.NotFound):
        await admin.get(MAPS, "a", namespace)
    assert await admin.get(MAPS, "b", namespace)


@pytest_plane
async def test_takes_over_from_the_product_before_us(admin: kube.Client, namespace: str) -> None:
    theirs = await admin.create(
        MAPS, config_map(namespace, "a", keep="1", drop="2"), field_manager="capsule"
    )
    applier = apply.Applier(admin, US)
    assert await applier.adopt(MAPS, theirs, ["capsule"])
    seen = await admin.get(MAPS, "a", namespace)
    assert not await applier.adopt(MAPS, seen, ["capsule"])
    result = await applier.apply(MAPS, config_map(namespace, "a", keep="1"), seen)
    assert result.object["data"] == {"keep": "1"}


@pytest_plane
async def test_finalizers_come_and_go(admin: kube.Client, namespace: str) -> None:
    applier = apply.Applier(admin, US)
    seen = await admin.create(MAPS, config_map(namespace, "a"))
    assert await applier.add_finalizer(MAPS, seen, "tenantry.io/x")
    assert await admin.delete(MAPS, "a", namespace)
    seen = await admin.get(MAPS, "a", namespace)
    assert seen["metadata"]["deletionTimestamp"]
    assert not await applier.add_finalizer(MAPS, seen, "tenantry.io/x")
    assert await applier.remove_finalizer(MAPS, seen, "tenantry.io/x")
    assert not await applier.remove_finalizer(MAPS, seen, "tenantry.io/x"), "gone already"
    assert not await applier.remove_finalizer(MAPS, {"metadata": {}}, "tenantry.io/x")
    with pytest.raises(kube_errors.NotFound):
        await admin.get(MAPS, "a", namespace)


@pytest_plane
async def test_explains_what_others_own(admin: kube.Client, namespace: str) -> None:
    await admin.apply(MAPS, config_map(namespace, "a", x="1"), field_manager="somebody")
    with pytest.raises(kube_errors.Conflict) as caught:
        await apply.Applier(admin, US).apply(
            MAPS, config_map(namespace, "a", x="2"), None, force=False
        )
    assert [field.manager for field in caught.value.fields] == ["somebody"]
