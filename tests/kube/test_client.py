"""The verbs against a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from tenantry.api import meta, resources
from tenantry.core import errors as core_errors
from tenantry.kube import calls, client, errors, reads, watch
from tenantry.kube import config as configs
from tenantry.local import testing

pytestmark = pytest.mark.plane
#: Selects what tests made; the control plane puts a config map into every namespace.
OURS = "made-by=tests"


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    labels = {"made-by": "tests"}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": data}


async def test_created_is_read_back_typed_and_untyped(admin: client.Client, namespace: str) -> None:
    created = await admin.create(
        resources.CONFIG_MAPS, config_map(namespace, "one", a="1"), field_manager="tests"
    )
    assert created["metadata"]["managedFields"][0]["manager"] == "tests"
    assert await admin.get(resources.CONFIG_MAPS, "one", namespace) == created

    partial = await admin.get(
        resources.CONFIG_MAPS,
        "one",
        namespace,
        decode=msgspec.json.Decoder(meta.PartialObject).decode,
        accept=reads.METADATA,
    )
    assert partial.kind == "PartialObjectMetadata"
    assert partial.metadata.uid == created["metadata"]["uid"]


async def test_table_answers_as_kubectl_prints(admin: client.Client, namespace: str) -> None:
    await admin.create(resources.CONFIG_MAPS, config_map(namespace, "one", a="1"))
    table = await admin.get(resources.CONFIG_MAPS, "one", namespace, accept=reads.TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]


async def test_errors_are_typed(admin: client.Client, namespace: str) -> None:
    with pytest.raises(errors.NotFound) as missing:
        await admin.get(resources.CONFIG_MAPS, "none", namespace)
    assert missing.value.details.name == "none"
    assert missing.value.details.kind == "configmaps"
    assert missing.value.outcome == "rejected"

    await admin.create(resources.CONFIG_MAPS, config_map(namespace, "one"))
    with pytest.raises(errors.AlreadyExists):
        await admin.create(resources.CONFIG_MAPS, config_map(namespace, "one"))

    with pytest.raises(errors.Invalid) as invalid:
        await admin.create(resources.CONFIG_MAPS, config_map(namespace, "Not A Name"))
    assert [cause.field for cause in invalid.value.causes] == ["metadata.name"]

    with pytest.raises(errors.BadRequest):
        await admin.create(resources.CONFIG_MAPS, {**config_map(namespace, "two"), "data": 1})
    with pytest.raises(core_errors.InvalidValueError, match="metadata"):
        await admin.create(resources.CONFIG_MAPS, {"metadata": "text"})

    with pytest.raises(errors.NotFound):
        await admin.list(resources.Resource("example.com", "v1", "nothings", "Nothing"))


async def test_an_empty_name_never_addresses_the_collection(
    admin: client.Client, namespace: str
) -> None:
    for call in (
        admin.delete(resources.CONFIG_MAPS, "", namespace),
        admin.get(resources.CONFIG_MAPS, "", namespace),
        admin.patch(resources.CONFIG_MAPS, "", namespace, kind="merge", body={}),
    ):
        with pytest.raises(core_errors.InvalidValueError, match="name"):
            await call


async def test_list_follows_pages(admin: client.Client, namespace: str) -> None:
    names = [f"item-{number:02}" for number in range(7)]
    for name in names:
        await admin.create(resources.CONFIG_MAPS, config_map(namespace, name))
    pages = [
        len(page.items)
        async for page in admin.pages(
            resources.CONFIG_MAPS, namespace, label_selector=OURS, limit=3
        )
    ]
    assert pages == [3, 3, 1]

    whole = await admin.list(resources.CONFIG_MAPS, namespace, label_selector=OURS, limit=3)
    decoded = [msgspec.json.decode(item, type=meta.PartialObject) for item in whole.items]
    assert [one.metadata.name for one in decoded] == names
    assert whole.resource_version

    some = await admin.list(
        resources.CONFIG_MAPS,
        namespace,
        label_selector=OURS,
        field_selector="metadata.name=item-03",
    )
    assert len(some.items) == 1
    cached = await admin.list(
        resources.CONFIG_MAPS,
        namespace,
        label_selector=OURS,
        resource_version=whole.resource_version,
        limit=2,
    )
    assert len(cached.items) == 7


async def test_four_kinds_of_patch(admin: client.Client, namespace: str) -> None:
    await admin.create(resources.CONFIG_MAPS, config_map(namespace, "one", a="1", b="2"))
    merged = await admin.patch(
        resources.CONFIG_MAPS, "one", namespace, kind="merge", body={"data": {"a": None}}
    )
    assert merged["data"] == {"b": "2"}

    operations = [
        {"op": "test", "path": "/data/b", "value": "2"},
        {"op": "replace", "path": "/data/b", "value": "3"},
    ]
    changed = await admin.patch(
        resources.CONFIG_MAPS, "one", namespace, kind="json", body=operations
    )
    assert changed["data"] == {"b": "3"}
    with pytest.raises(errors.Invalid):
        await admin.patch(resources.CONFIG_MAPS, "one", namespace, kind="json", body=operations)

    account = {
        "metadata": {"name": "one", "namespace": namespace},
        "secrets": [{"name": "a"}],
    }
    await admin.create(resources.SERVICE_ACCOUNTS, account)
    both = await admin.patch(
        resources.SERVICE_ACCOUNTS,
        "one",
        namespace,
        kind="strategic",
        body={"secrets": [{"name": "b"}]},
    )
    assert {secret["name"] for secret in both["secrets"]} == {"a", "b"}


async def test_apply_creates_changes_and_removes(admin: client.Client, namespace: str) -> None:
    first = await admin.apply(
        resources.CONFIG_MAPS, config_map(namespace, "one", a="1", b="2"), field_manager="tests"
    )
    assert first["data"] == {"a": "1", "b": "2"}
    second = await admin.apply(
        resources.CONFIG_MAPS, config_map(namespace, "one", a="1"), field_manager="tests"
    )
    assert second["data"] == {"a": "1"}


async def test_apply_without_force_names_field_and_manager(
    admin: client.Client, namespace: str
) -> None:
    await admin.create(
        resources.CONFIG_MAPS, config_map(namespace, "one", a="1"), field_manager="kubectl-edit"
    )
    desired = config_map(namespace, "one", a="2")
    with pytest.raises(errors.Conflict) as conflict:
        await admin.apply(resources.CONFIG_MAPS, desired, field_manager="tests", force=False)
    assert conflict.value.fields == [errors.FieldConflict("kubectl-edit", ".data.a")]
    forced = await admin.apply(resources.CONFIG_MAPS, desired, field_manager="tests")
    assert forced["data"] == {"a": "2"}


async def test_replace_is_compare_and_set(admin: client.Client, namespace: str) -> None:
    created = await admin.create(resources.CONFIG_MAPS, config_map(namespace, "one", a="1"))
    replaced = await admin.replace(resources.CONFIG_MAPS, {**created, "data": {"a": "2"}})
    assert replaced["data"] == {"a": "2"}
    with pytest.raises(errors.Conflict) as conflict:
        await admin.replace(resources.CONFIG_MAPS, {**created, "data": {"a": "3"}})
    assert not isinstance(conflict.value, errors.AlreadyExists)
    assert conflict.value.fields == []
    with pytest.raises(core_errors.InvalidValueError, match=r"metadata\.resourceVersion"):
        await admin.replace(resources.CONFIG_MAPS, config_map(namespace, "one"))


async def test_status_is_written_apart_from_the_spec(admin: client.Client, namespace: str) -> None:
    node = {"metadata": {"name": f"node-{namespace}"}}
    await admin.create(resources.NODES, node)
    patched = await admin.patch(
        resources.NODES,
        f"node-{namespace}",
        kind="merge",
        body={"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "4"}}},
        subresource="status",
    )
    assert patched["status"]["capacity"] == {"cpu": "4"}
    assert "unschedulable" not in patched["spec"]
    applied = await admin.apply(
        resources.NODES,
        {**node, "status": {"capacity": {"memory": "1Gi"}}},
        field_manager="tests",
        subresource="status",
    )
    assert applied["status"]["capacity"] == {"cpu": "4", "memory": "1Gi"}


async def test_delete_checks_preconditions(admin: client.Client, namespace: str) -> None:
    created = await admin.create(resources.CONFIG_MAPS, config_map(namespace, "one"))
    uid = created["metadata"]["uid"]
    with pytest.raises(errors.Conflict):
        await admin.delete(resources.CONFIG_MAPS, "one", namespace, uid="another")
    with pytest.raises(errors.Conflict):
        await admin.delete(resources.CONFIG_MAPS, "one", namespace, resource_version="1")
    await admin.delete(resources.CONFIG_MAPS, "one", namespace, uid=uid, dry_run=True)
    await admin.get(resources.CONFIG_MAPS, "one", namespace)
    gone = await admin.delete(
        resources.CONFIG_MAPS, "one", namespace, uid=uid, grace_seconds=0, propagation="Orphan"
    )
    assert gone["kind"] in {"Status", "ConfigMap"}


async def test_dry_run_changes_nothing(admin: client.Client, namespace: str) -> None:
    desired = config_map(namespace, "one", a="1")
    await admin.create(resources.CONFIG_MAPS, desired, dry_run=True)
    await admin.apply(resources.CONFIG_MAPS, desired, field_manager="tests", dry_run=True)
    with pytest.raises(errors.NotFound):
        await admin.get(resources.CONFIG_MAPS, "one", namespace)
    created = await admin.create(resources.CONFIG_MAPS, desired)
    await admin.patch(
        resources.CONFIG_MAPS, "one", namespace, kind="merge", body={"data": {}}, dry_run=True
    )
    await admin.replace(resources.CONFIG_MAPS, {**created, "data": {}}, dry_run=True)
    assert await admin.get(resources.CONFIG_MAPS, "one", namespace) == created


async def test_names_with_colons_are_addressed(admin: client.Client, namespace: str) -> None:
    name = f"system:tests:{namespace}"
    await admin.create(resources.CLUSTER_ROLES, {"metadata": {"name": name}, "rules": []})
    assert (await admin.get(resources.CLUSTER_ROLES, name))["metadata"]["name"] == name


async def test_watch_tells_what_happened(admin: client.Client, namespace: str) -> None:
    start = await admin.list(resources.CONFIG_MAPS, namespace, label_selector=OURS)
    created = await admin.create(
        resources.CONFIG_MAPS, config_map(namespace, "one", text="ä\n\u2028")
    )
    await admin.patch(
        resources.CONFIG_MAPS, "one", namespace, kind="merge", body={"data": {"a": "2"}}
    )
    await admin.delete(resources.CONFIG_MAPS, "one", namespace)
    seen: list[watch.Event] = []
    async with (
        asyncio.timeout(20),
        admin.watch(
            resources.CONFIG_MAPS,
            namespace,
            label_selector=OURS,
            resource_version=start.resource_version,
        ) as stream,
        contextlib.aclosing(aiter(stream)) as lines,
    ):
        async for line in lines:
            seen.append(watch.decode(line))
            if len(seen) == 3:
                break
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert watch.version(seen[0]) == created["metadata"]["resourceVersion"]
    assert msgspec.json.decode(seen[0].raw_object)["data"]["text"] == "ä\n\u2028"


async def test_watch_list_ends_its_initial_events(admin: client.Client, namespace: str) -> None:
    await admin.create(resources.CONFIG_MAPS, config_map(namespace, "one"))
    types = []
    async with (
        asyncio.timeout(20),
        admin.watch(
            resources.CONFIG_MAPS, namespace, label_selector=OURS, send_initial_events=True
        ) as stream,
        contextlib.aclosing(aiter(stream)) as lines,
    ):
        async for line in lines:
            event = watch.decode(line)
            types.append(event.type)
            if watch.ends_initial_events(event):
                break
    assert types == ["ADDED", "BOOKMARK"]


async def test_watch_ends_when_the_server_says(admin: client.Client, namespace: str) -> None:
    start = await admin.list(resources.CONFIG_MAPS, namespace, label_selector=OURS)
    async with (
        asyncio.timeout(20),
        admin.watch(
            resources.CONFIG_MAPS,
            namespace,
            label_selector=OURS,
            resource_version=start.resource_version,
            timeout_seconds=1,
        ) as stream,
    ):
        lines = [line async for line in stream]
    # The server sends a last bookmark when it ends a watch.
    assert {watch.decode(line).type for line in lines} <= {"BOOKMARK"}


async def test_silent_watch_is_cut_by_inactivity(admin: client.Client, namespace: str) -> None:
    start = await admin.list(resources.CONFIG_MAPS, namespace, label_selector=OURS)
    async with admin.watch(
        resources.CONFIG_MAPS,
        namespace,
        label_selector=OURS,
        resource_version=start.resource_version,
        inactivity=0.3,
    ) as stream:
        with pytest.raises(errors.Unreachable):
            async for _ in stream:
                pass


async def test_view_impersonates_over_the_same_pools(admin: client.Client, namespace: str) -> None:
    alice = admin.as_user("alice", ["projectcapsule.dev"], extra={"Example.com/Key": ["a b"]})
    with pytest.raises(errors.Forbidden, match='User "alice" cannot list'):
        await alice.list(resources.SECRETS, namespace)
    await alice.close()
    await admin.list(resources.SECRETS, namespace)


async def test_client_certificate_identifies(plane: testing.Plane, namespace: str) -> None:
    async with client.Client(plane.config("bob", ("dev",))) as bob:
        with pytest.raises(errors.Forbidden, match='User "bob" cannot list'):
            await bob.list(resources.SECRETS, namespace)


async def test_bad_token_is_unauthorized(plane: testing.Plane, namespace: str) -> None:
    config = configs.Config(server=plane.server, ca_data=plane.config().ca_data, token="nonsense")
    async with client.Client(config) as connected:
        with pytest.raises(errors.Unauthorized):
            await connected.list(resources.SECRETS, namespace)


async def test_every_try_is_observed(plane: testing.Plane, namespace: str) -> None:
    seen: list[calls.Attempt] = []
    async with client.Client(plane.config(), observer=seen.append) as connected:
        await connected.list(resources.SECRETS, namespace)
        with pytest.raises(errors.NotFound):
            await connected.get(resources.SECRETS, "none", namespace)
    assert [(one.method, one.path, one.code) for one in seen] == [
        ("GET", f"/api/v1/namespaces/{namespace}/secrets", 200),
        ("GET", f"/api/v1/namespaces/{namespace}/secrets/none", 404),
    ]


async def test_many_at_once_share_the_pool(admin: client.Client, namespace: str) -> None:
    await asyncio.gather(
        *(
            admin.create(resources.CONFIG_MAPS, config_map(namespace, f"item-{number}"))
            for number in range(150)
        )
    )
    assert (
        len(
            (
                await admin.list(resources.CONFIG_MAPS, namespace, label_selector=OURS, limit=40)
            ).items
        )
        == 150
    )


async def test_closed_client_refuses(plane: testing.Plane) -> None:
    connected = client.Client(plane.config())
    await connected.close()
    with pytest.raises(RuntimeError, match="closed"):
        await connected.request("GET", "/version")


async def test_a_collection_is_deleted_by_selector_only(
    admin: client.Client, namespace: str
) -> None:
    for name in ("one", "two"):
        await admin.create(resources.CONFIG_MAPS, config_map(namespace, name))
    await admin.create(
        resources.CONFIG_MAPS, {"metadata": {"name": "other", "namespace": namespace}}
    )
    for where, selector in ((namespace, ""), ("", OURS)):
        with pytest.raises(core_errors.InvalidValueError, match="selector"):
            await admin.delete_collection(resources.CONFIG_MAPS, where, label_selector=selector)
    await admin.delete_collection(
        resources.CONFIG_MAPS, namespace, label_selector=OURS, dry_run=True
    )
    assert len((await admin.list(resources.CONFIG_MAPS, namespace, label_selector=OURS)).items) == 2
    await admin.delete_collection(resources.CONFIG_MAPS, namespace, label_selector=OURS)
    assert not (await admin.list(resources.CONFIG_MAPS, namespace, label_selector=OURS)).items
    assert await admin.get(resources.CONFIG_MAPS, "other", namespace)
