from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors as kube_errors
from tenantry.local import testing
from tenantry.pki import authority
from tenantry.runtime import apply, cluster, controller, manager, store, timing, views, webhook

from .conftest import Until, config_map

pytestmark = pytest.mark.plane

#: Lease 3 s; drains 0.4 s; the rest a fifth of its length.
T = timing.Timing(drain=2.0).scaled(0.2)


class Copier:
    """A controller as they are meant to be: for each map "x-source" one "x-copy" like it."""

    def __init__(self, source: cluster.Cluster, namespace: str) -> None:
        self.maps = source.informer(resources.CONFIG_MAPS, views.as_dict, namespace=namespace)
        self.applier = apply.Applier(source.client, "tenantry/copier", timing=T)
        self.namespace = namespace
        self.controller: controller.Controller[str] = controller.Controller(
            "copier", self.reconcile, concurrency=2, timing=T, registry=source.metrics
        ).watches(self.maps, self.keys)

    def keys(self, event: store.Event[dict[str, Any]]) -> list[str]:
        name, _, kind = event.key[1].rpartition("-")
        return [name] if kind in ("source", "copy") else []

    async def reconcile(self, name: str) -> None:
        wanted = self.maps.get(f"{name}-source", self.namespace)
        held = self.maps.get(f"{name}-copy", self.namespace)
        if wanted is None:
            if held is not None:
                await self.applier.prune(resources.CONFIG_MAPS, [held], keep=[])
            return
        desired = config_map(self.namespace, f"{name}-copy", **wanted.get("data", {}))
        await self.applier.apply(resources.CONFIG_MAPS, desired, held)


def build(plane: testing.Plane, namespace: str) -> tuple[manager.Manager, Copier]:
    config = plane.config()
    made = manager.Manager(
        "test",
        cluster=cluster.Cluster(config, timing=T),
        election=manager.Election(config=config, namespace=namespace, name="test"),
        probes=("127.0.0.1", 0),
    )
    copier = Copier(made.cluster, namespace)
    made.add_controller(copier.controller)
    return made, copier


async def get(made: manager.Manager, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{made.probes_port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def data_of(admin: kube.Client, namespace: str, name: str) -> dict[str, str] | None:
    try:
        found = await admin.get(resources.CONFIG_MAPS, name, namespace)
    except kube_errors.NotFound:
        return None
    data: dict[str, str] = found["data"]
    return data


async def becomes(
    admin: kube.Client, namespace: str, name: str, data: dict[str, str] | None
) -> None:
    async with asyncio.timeout(20):
        while await data_of(admin, namespace, name) != data:
            pass  # each look is a request, so the loop is not blocked


async def test_reconciles_and_is_silent_when_settled(
    plane: testing.Plane, admin: kube.Client, namespace: str, until: Until
) -> None:
    made, copier = build(plane, namespace)
    await admin.create(resources.CONFIG_MAPS, config_map(namespace, "a-source", x="1"))
    stop = asyncio.Event()
    running = asyncio.create_task(made.run(stop))
    await asyncio.wait_for(made.active.wait(), 20)
    assert await get(made, "/readyz") == (200, "ok")
    assert "[+]caches ok" in (await get(made, "/readyz?verbose"))[1]
    assert await get(made, "/healthz") == (200, "ok")
    await becomes(admin, namespace, "a-copy", {"x": "1"})
    await admin.create(resources.CONFIG_MAPS, config_map(namespace, "b-source", y="2"))
    await becomes(admin, namespace, "b-copy", {"y": "2"})
    await admin.patch(
        resources.CONFIG_MAPS,
        "b-source",
        namespace,
        kind="merge",
        body={"data": {"y": None, "z": "3"}},
    )
    await becomes(admin, namespace, "b-copy", {"z": "3"})
    await admin.delete(resources.CONFIG_MAPS, "a-source", namespace)
    await becomes(admin, namespace, "a-copy", None)

    # What was written must have come back, else the last of it is work still to be done.
    await until(
        lambda: copier.maps.get("a-copy", namespace) is None and copier.controller.queue.idle
    )
    sent = copier.applier.sent
    for event in copier.maps._store.replay():
        copier.controller.enqueue(event.key[1].rpartition("-")[0])
    await until(lambda: copier.controller.queue.idle)
    assert copier.applier.sent == sent
    _, text = await get(made, "/metrics")
    assert 'controller_runtime_reconcile_total{controller="copier",result="success"}' in text
    assert 'leader_election_master_status{name="test"} 1' in text
    assert "rest_client_requests_total" in text
    stop.set()
    assert await asyncio.wait_for(running, 20) == manager.STOPPED
    lease = await admin.get(resources.LEASES, "test", namespace)
    assert lease["spec"].get("holderIdentity", "") == ""


async def test_a_standby_takes_over_and_writes_nothing_on_a_settled_cluster(
    plane: testing.Plane, admin: kube.Client, namespace: str, until: Until
) -> None:
    for number in range(10):
        await admin.create(
            resources.CONFIG_MAPS, config_map(namespace, f"m{number}-source", x=str(number))
        )
    one, first = build(plane, namespace)
    two, second = build(plane, namespace)
    stops = [asyncio.Event(), asyncio.Event()]
    running = asyncio.create_task(one.run(stops[0]))
    await asyncio.wait_for(one.active.wait(), 20)
    standby = asyncio.create_task(two.run(stops[1]))
    await asyncio.wait_for(two.up.wait(), 20)
    assert await get(two, "/readyz") == (200, "ok"), "a standby is ready"
    for number in range(10):
        await becomes(admin, namespace, f"m{number}-copy", {"x": str(number)})
    assert not two.active.is_set()
    holder = (await admin.get(resources.LEASES, "test", namespace))["spec"]["holderIdentity"]
    told = f"[ ]leader waiting for the lease, held by {holder}\n"
    for _ in range(200):
        if told in (await get(two, "/readyz?verbose"))[1]:
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the standby does not say whom it waits for")
    assert "leader" not in (await get(one, "/readyz?verbose"))[1]
    await until(lambda: first.controller.queue.idle)
    await until(lambda: all(second.maps.get(f"m{number}-copy", namespace) for number in range(10)))
    stops[0].set()
    assert await asyncio.wait_for(running, 20) == 0
    began = time.monotonic()
    await asyncio.wait_for(two.active.wait(), 20)
    assert time.monotonic() - began < 2.0
    await until(lambda: second.controller.queue.adds >= 20 and second.controller.queue.idle)
    assert second.applier.sent == 0
    stops[1].set()
    assert await asyncio.wait_for(standby, 20) == 0


async def test_roles_share_a_process_and_webhooks_wait_for_caches_and_setups(
    plane: testing.Plane, namespace: str
) -> None:
    ca = authority.Authority.create("x", time.time())
    issued: list[tuple[bytes, bytes]] = []
    made, copier = build(plane, namespace)
    order: list[str] = []
    server = webhook.Server("127.0.0.1", 0, certificate=lambda: issued[0], timing=T)

    async def certificate() -> None:
        assert copier.maps.synced
        assert server.check() == "not listening"
        order.append("certificate")
        pair = ca.issue_server(("127.0.0.1",), time.time())
        issued.append((pair.cert, pair.key))

    async def work() -> None:
        order.append("work")
        await asyncio.Event().wait()

    async def leading() -> None:
        order.append("leading")
        await asyncio.Event().wait()

    made.add_webhook(server)
    made.add_setup("certificate", certificate)
    made.add_work("work", work)
    made.add_work("leading", leading, leader=True)
    stop = asyncio.Event()
    running = asyncio.create_task(made.run(stop))
    await asyncio.wait_for(made.active.wait(), 20)
    assert server.check() == ""
    stop.set()
    assert await asyncio.wait_for(running, 20) == 0
    assert server.check() == "not listening" or server.check() == "draining"
    assert order == ["work", "certificate", "leading"]


def _raises(made: manager.Manager) -> None:
    async def work() -> None:
        raise LookupError("a defect")

    made.add_work("broken", work)


def _ends(made: manager.Manager) -> None:
    async def work() -> None:
        return

    made.add_work("broken", work, leader=True)


def _setup(made: manager.Manager) -> None:
    async def setup() -> None:
        raise LookupError("a defect")

    made.add_setup("broken", setup)


def _certificate(made: manager.Manager) -> None:
    def missing() -> tuple[bytes, bytes]:
        raise FileNotFoundError("tls.crt")

    made.add_webhook(webhook.Server("127.0.0.1", 0, certificate=missing))


# A process that ends cuts off connections that are being made; aiohttp leaves their sockets to the
# garbage collector, which warns of them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("sabotage", [_raises, _ends, _setup, _certificate])
async def test_a_part_that_fails_ends_the_process(
    plane: testing.Plane,
    namespace: str,
    sabotage: Callable[[manager.Manager], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    made, _ = build(plane, namespace)
    sabotage(made)
    assert await asyncio.wait_for(made.run(), 30) == manager.CRASHED
    assert "manager_crashed" in caplog.text


async def test_caches_that_do_not_fill_end_the_process(
    plane: testing.Plane, namespace: str
) -> None:
    config = plane.config()
    made = manager.Manager(
        "test", cluster=cluster.Cluster(config, timing=timing.Timing(sync=5.0).scaled(0.1))
    )
    unknown = resources.Resource("runtime.test", "v1", "nothings", "Nothing")
    made.cluster.informer(unknown, views.as_dict)
    assert await asyncio.wait_for(made.run(), 20) == manager.CRASHED


@pytest.mark.long
async def test_an_api_server_that_is_killed_costs_nothing(
    new_plane: Callable[..., testing.Plane], until: Until
) -> None:
    """Caches, controllers and the lease outlive it; what happened meanwhile is made up for."""
    plane = new_plane(components=())
    config = plane.config()
    calm = dataclasses.replace(T, lease=30.0, renew_deadline=20.0, lease_retry=0.5)
    made = manager.Manager(
        "test",
        cluster=cluster.Cluster(config, timing=calm),
        election=manager.Election(config=config, namespace="default", name="test"),
    )
    copier = Copier(made.cluster, "default")
    made.add_controller(copier.controller)
    stop = asyncio.Event()
    running = asyncio.create_task(made.run(stop))
    await asyncio.wait_for(made.active.wait(), 30)
    async with kube.Client(config) as admin:
        await admin.create(resources.CONFIG_MAPS, config_map("default", "a-source", x="1"))
        await until(lambda: copier.maps.get("a-copy", "default"))
        plane.signal("kube-apiserver", signal.SIGKILL)
        await written(admin, config_map("default", "a-source", x="2"))
        await until(lambda: _data(copier, "a-copy") == {"x": "2"}, 60)
        listed = await admin.list(resources.CONFIG_MAPS, "default")
        assert set(copier.maps._store.keys()) == {
            ("default", json.loads(bytes(item))["metadata"]["name"]) for item in listed.items
        }
    assert not running.done()
    stop.set()
    assert await asyncio.wait_for(running, 30) == manager.STOPPED


def _data(copier: Copier, name: str) -> Any:
    found = copier.maps.get(name, "default")
    return found.get("data") if found is not None else None


async def written(admin: kube.Client, obj: dict[str, Any]) -> None:
    """Apply, through an API server that is away for a while."""
    async with asyncio.timeout(60):
        while True:
            try:
                await admin.apply(resources.CONFIG_MAPS, obj, field_manager="test", timeout=5.0)
            except kube_errors.KubeError:
                await asyncio.sleep(0.1)
            else:
                return


SCRIPT = """
import asyncio, pathlib, sys
from tenantry.kube import config
from tenantry.runtime import cluster, logs, manager, timing

async def build():
    source = config.load(pathlib.Path(sys.argv[1]))
    timings = timing.Timing().scaled(0.2)
    made = manager.Manager(
        "process",
        cluster=cluster.Cluster(source, timing=timings),
        election=manager.Election(config=source, namespace=sys.argv[2], name="process"),
    )

    async def lead():
        print("leading", flush=True)
        if sys.argv[3] == "hang":
            import time
            time.sleep(60)
        await asyncio.Event().wait()

    made.add_work("lead", lead, leader=True)
    return made

logs.configure()
sys.exit(manager.main(build))
"""


@pytest.mark.parametrize(("how", "code"), [("stop", manager.STOPPED), ("hang", manager.LEASE_LOST)])
def test_as_a_process(
    plane: testing.Plane, namespace_sync: str, tmp_path: pathlib.Path, how: str, code: int
) -> None:
    """SIGTERM ends it in order; a main loop that hangs is ended from the election's thread."""
    script = tmp_path / "process.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), str(plane.admin), namespace_sync, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "leading\n"
        if how == "stop":
            process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code, log
    lease = json.loads(
        plane.run("get", "lease", "process", "-n", namespace_sync, "-o", "json").stdout
    )
    released = not lease["spec"].get("holderIdentity")
    assert released == (how == "stop")


@pytest.fixture
def namespace_sync(plane: testing.Plane) -> str:
    name = f"runtime-{os.getpid()}-{time.monotonic_ns()}"
    plane.run("create", "namespace", name)
    return name
