"""Processes that die: nobody else notices for long, and nothing is let through meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.faults import proxy as proxies

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .content import pod, put, ready
from .harness import (
    Object,
    Process,
    World,
    eventually,
    free_port,
    reference,
    refused_as_nobody,
    tenant_of,
)

pytestmark = pytest.mark.plane

SECRET = "tenantry-webhook-tls"


async def in_thread(work: Callable[[], object]) -> None:
    await asyncio.to_thread(work)


async def leads(process: Process) -> bool:
    return await asyncio.to_thread(process.leads)


async def test_of_two_controllers_one_leads_and_the_other_takes_over(world: World) -> None:
    tenancy = world.tenancy
    first, second = tenancy.controller, tenancy.role("controller")
    second.start()
    try:
        await in_thread(second.wait_ready)
        await eventually(lambda: leads(first))
        assert not await leads(second)
        await world.tenant()
        await world.namespace("before")
        await world.bound("before")
        before = await world.bindings("before")

        first.kill()
        await world.namespace("meanwhile")
        tenant = await world.change(
            await world.admin.get(capsule.TENANTS, world.name("oil")),
            owners=[world.owner("alice"), world.owner("bob")],
        )
        assert tenant["metadata"]["generation"] == 2
        await eventually(lambda: leads(second), seconds=30)
        await world.bound("meanwhile")
        await world.bound("before", by="bob")
        # The successor writes nothing that was in order.
        after = await world.bindings("before")
        assert before.items() <= after.items()

        first.start()
        await in_thread(first.wait_ready)
        assert not await leads(first)
        # One that is asked to stop hands over at once.
        assert await asyncio.to_thread(second.stop) == 0
        await eventually(lambda: leads(first))
        await world.namespace("after")
        await world.bound("after")
    finally:
        if second.running:
            second.kill()
        if not first.running:
            first.start()
            await in_thread(first.wait_ready)


@contextlib.asynccontextmanager
async def without_webhook(world: World) -> AsyncIterator[None]:
    webhook = world.tenancy.webhook
    webhook.kill()
    try:
        yield
    finally:
        webhook.start()
        await in_thread(webhook.wait_ready)


@contextlib.asynccontextmanager
async def behind(world: World, folder: Path) -> AsyncIterator[proxies.Proxy]:
    """Let a replica answer whose way to the API server can be disturbed."""
    usual = world.tenancy.webhook
    (given,) = (arg for arg in usual.argv if arg.startswith("--kubeconfig="))
    plane = world.tenancy.plane
    with proxies.Proxy(plane.config(), identity=False) as proxy:
        disturbed = folder / "disturbed.yaml"
        text = Path(given.partition("=")[2]).read_text()
        assert plane.server in text
        disturbed.write_text(text.replace(plane.server, proxy.server))
        probes = free_port()
        changed = (f"--kubeconfig={disturbed}", f"--probes=127.0.0.1:{probes}")
        # Of an option that is given twice the last one counts.
        replica = Process("webhook", [*usual.argv, *changed], folder / "disturbed.log", probes)
        usual.kill()
        replica.start()
        try:
            await in_thread(replica.wait_ready)
            yield proxy
        finally:
            replica.kill()
            usual.start()
            await in_thread(usual.wait_ready)


async def test_a_fresh_tenant_s_first_pod_on_a_replica_whose_watches_are_held_back(
    world: World, tmp_path: Path
) -> None:
    rules: Object = {"containerRegistries": {"allowed": ["r.io"]}}
    reached: Object = {"registries": [{"exact": ["r.io/app:1"]}]}
    ruled: Object = {"rules": [{"enforce": {"action": "allow", "workloads": reached}}]}
    await world.tenant("old", owner="bob")
    await world.namespace("old", by=world.user("bob"))
    await world.namespace("joins", by=world.admin)
    await ready(world, "joins")
    async with behind(world, tmp_path) as proxy:
        # It knows what there is; from now on it hears nothing more.
        proxy.held.update(seen.agent for seen in proxy.requests if seen.watch)
        assert proxy.held
        since = len(proxy.requests)
        await world.tenant(**rules)
        await world.namespace()
        await world.tenant("gas", **ruled)
        await world.namespace("fuel", tenant="gas")
        # Memory knows one namespace as nobody's, and one tenant without the rules it has now.
        moved = {constants.TENANT_LABEL: world.name("oil")}
        await world.labelled(world.boss(), "joins", **moved)
        old = await world.admin.get(capsule.TENANTS, world.name("old"))
        await world.change(old, **rules)
        await world.namespace("older", by=world.user("bob"))
        for where in ("prod", "fuel", "joins", "older"):
            await ready(world, where)
            await put(world, resources.PODS, pod("good"), where=where)
            for bad in ("e.io/x", "R.IO.e.io/app:1"):
                with pytest.raises(errors.ApiError, match="registry") as caught:
                    await put(world, resources.PODS, pod("bad", bad), where=where)
                assert caught.value.code == 403
        # Nor is its word enough for who owns what: bob owned this one a moment ago.
        await world.change(old, owners=[world.owner("carol")])
        await refused_as_nobody(world.namespace("again", by=world.user("bob")))
        asked = [seen.path for seen in proxy.requests[since:] if not seen.watch]
        assert f"/api/v1/namespaces/{world.name('prod')}" in asked
        lists = [seen for seen in proxy.requests[since:] if seen.path == "/api/v1/namespaces"]
        assert not lists, "the watch was not held"


async def fails_closed(attempt: Awaitable[object]) -> None:
    with pytest.raises(errors.KubeError, match="failed calling webhook"):
        await attempt


async def test_without_webhooks_tenants_wait_and_the_cluster_goes_on(world: World) -> None:
    tenant = await world.tenant()
    await world.namespace()
    await world.bound()
    await world.namespace("frozen", labels={constants.CORDONED_LABEL: "true"})
    await world.bound("frozen")
    alice, where = world.user(), world.name("prod")
    secret = await world.admin.get(resources.SECRETS, SECRET, constants.CONTROLLER_NAMESPACE)
    async with without_webhook(world):
        await fails_closed(world.namespace("more"))
        await fails_closed(world.labelled(alice, "prod", colour="red"))
        ours = {constants.MANAGED_BY_LABEL: constants.MANAGED_BY_CONTROLLER}
        labelled: Object = {"metadata": {"name": "x", "namespace": where, "labels": ours}}
        await fails_closed(alice.create(resources.CONFIG_MAPS, labelled))
        name = next(iter(await world.bindings()))
        await fails_closed(alice.delete(resources.ROLE_BINDINGS, name, where))
        await fails_closed(
            alice.create(
                resources.CONFIG_MAPS,
                {"metadata": {"name": "x", "namespace": world.name("frozen")}},
            )
        )
        # What no rule concerns goes on in the tenant's namespace too.
        await alice.create(
            resources.CONFIG_MAPS, {"metadata": {"name": "plain", "namespace": where}}
        )
        # The cluster: kube-system, our own namespace, nodes, leases, and its controllers.
        for namespace in ("kube-system", constants.CONTROLLER_NAMESPACE):
            for labels in ({}, ours):
                body: Object = {
                    "metadata": {
                        "generateName": world.name("x"),
                        "namespace": namespace,
                        "labels": labels,
                    }
                }
                await world.admin.create(resources.CONFIG_MAPS, body)
        node: Object = {"metadata": {"name": world.name("node"), "labels": ours}}
        await world.admin.create(resources.NODES, node)
        await world.admin.patch(
            resources.NODES,
            world.name("node"),
            kind="merge",
            subresource="status",
            body={"status": {"phase": "Running"}},
        )
        await world.admin.delete(resources.NODES, world.name("node"))
        for namespace in ("kube-system", "kube-node-lease"):
            lease = {"metadata": {"name": world.name("lease"), "namespace": namespace}}
            await world.admin.create(resources.LEASES, lease)
        # Masters mend what the cluster rests on; nobody does by its name alone.
        for name in ("kube-system", "kube-public", "default", constants.CONTROLLER_NAMESPACE):
            mend = {"metadata": {"labels": {world.name("mended"): "yes"}}}
            await world.admin.patch(resources.NAMESPACES, name, kind="merge", body=mend)
            await fails_closed(alice.patch(resources.NAMESPACES, name, kind="merge", body=mend))
        await fails_closed(world.labelled(world.admin, "prod", colour="blue"))
        await fails_closed(
            world.admin.create(resources.NAMESPACES, {"metadata": {"generateName": "x-"}})
        )
        controller = world.account("kube-system", "some-controller")
        account = "system:serviceaccount:kube-system:some-controller"
        await world.grant(account, "create", "patch", "delete")
        free = await world.namespace("free", by=controller)
        # The policy holds without us: label and reference name the same tenant, or none.
        with pytest.raises(errors.ApiError, match="ValidatingAdmissionPolicy"):
            await world.labelled(controller, "free", **{constants.TENANT_LABEL: world.name("oil")})
        with pytest.raises(errors.ApiError, match="ValidatingAdmissionPolicy"):
            await controller.patch(
                resources.NAMESPACES,
                free["metadata"]["name"],
                kind="merge",
                body={"metadata": {"ownerReferences": [reference(tenant)]}},
            )
    assert tenant_of(await world.namespace("more")) == world.name("oil")
    await world.labelled(alice, "prod", colour="red")
    # It comes back with the certificate that was there.
    again = await world.admin.get(resources.SECRETS, SECRET, constants.CONTROLLER_NAMESPACE)
    assert again["metadata"]["resourceVersion"] == secret["metadata"]["resourceVersion"]


async def test_a_webhook_killed_while_it_counts_never_lets_too_many_through(world: World) -> None:
    await world.tenant(namespaceOptions={"quota": 3})

    async def attempt(number: int) -> str:
        try:
            await world.namespace(f"n{number}")
        except errors.KubeError as problem:
            return str(problem)
        return ""

    attempts = [asyncio.create_task(attempt(number)) for number in range(20)]
    # In the middle: as soon as one is through.
    await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
    async with without_webhook(world):
        await asyncio.gather(*attempts)
    await asyncio.gather(*(attempt(number) for number in range(20, 30)))
    selector = f"{constants.TENANT_LABEL}={world.name('oil')}"
    listed = await world.admin.list(resources.NAMESPACES, label_selector=selector)
    assert 1 <= len(listed.items) <= 3


@pytest.mark.long
async def test_an_api_server_that_dies_comes_back_to_its_controllers(world: World) -> None:
    tenancy = world.tenancy
    await world.tenant()
    tenancy.plane.signal("kube-apiserver", signal.SIGKILL)

    async def created() -> bool:
        try:
            await world.namespace()
        except errors.AlreadyExists:
            return True
        except errors.KubeError:
            return False
        return True

    await eventually(created, seconds=60)
    if not tenancy.controller.running:
        # It could not renew its lease, and ended; a platform starts it anew.
        tenancy.controller.start()
    await in_thread(tenancy.controller.wait_ready)
    await in_thread(tenancy.webhook.wait_ready)
    await world.bound()
