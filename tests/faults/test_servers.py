"""The API server dies in the middle of things, or comes back with an older etcd."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.local import testing
from tenantry.runtime import leadership, timing

from . import proxy as proxies
from .conftest import Follow, config_map, fill, make_namespace, until

pytestmark = pytest.mark.plane

#: An API server that comes back before the renew deadline keeps the leader.
LEASE = timing.Timing(lease=40.0, renew_deadline=30.0, lease_retry=0.5)


@pytest.fixture(scope="module")
def doomed() -> Iterator[testing.Plane]:
    """A plane of this module's own, to be killed."""
    made = testing.Planes()
    yield made.start(components=())
    made.close()


@pytest.fixture
def front(doomed: testing.Plane) -> Iterator[proxies.Proxy]:
    with proxies.Proxy(doomed.config()) as made:
        yield made


@pytest.fixture
async def admin(doomed: testing.Plane) -> AsyncIterator[kube.Client]:
    async with kube.Client(doomed.config()) as connected:
        await ready(connected)
        yield connected


@pytest.fixture
async def namespace(admin: kube.Client) -> str:
    return await make_namespace(admin)


async def ready(client: kube.Client) -> None:
    async with asyncio.timeout(40):
        while True:
            with contextlib.suppress(errors.KubeError):
                await client.request("GET", "/readyz", timeout=1.0)
                return
            await asyncio.sleep(0.05)


@pytest.fixture
async def leader(front: proxies.Proxy, namespace: str) -> AsyncIterator[leadership.Leadership]:
    lost: list[str] = []
    heartbeat = leadership.Heartbeat()
    beating = asyncio.create_task(heartbeat.run(0.1))
    made = leadership.Leadership(
        front.config(),
        namespace=namespace,
        name="lease",
        identity="me",
        heartbeat=heartbeat,
        lost=lost.append,
        timing=LEASE,
    )
    made.start()
    async with asyncio.timeout(10):
        await made.acquired()
    yield made
    await made.release()
    beating.cancel()
    assert not lost


class Killer:
    """Kills the API server once."""

    def __init__(self, plane: testing.Plane) -> None:
        self.plane = plane
        self.killed = threading.Event()

    def __call__(self) -> None:
        if not self.killed.is_set():
            self.killed.set()
            self.plane.signal("kube-apiserver", signal.SIGKILL)


async def writer(client: kube.Client, namespace: str, stop: asyncio.Event) -> dict[str, str]:
    """Create one object after the other; return what was said of each."""
    said: dict[str, str] = {}
    number = 0
    while not stop.is_set():
        name = f"w{number}"
        number += 1
        try:
            await client.create(resources.CONFIG_MAPS, config_map(namespace, name), timeout=1.0)
        except errors.KubeError as error:
            said[name] = error.outcome
            await asyncio.sleep(0.02)
        else:
            said[name] = "applied"
            await asyncio.sleep(0)
    return said


@pytest.mark.parametrize(
    "moment",
    [
        "list",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("watch", "write", "renewal")),
    ],
)
async def test_the_api_server_is_killed(
    *,
    doomed: testing.Plane,
    front: proxies.Proxy,
    admin: kube.Client,
    namespace: str,
    follow: Follow,
    leader: leadership.Leadership,
    moment: str,
) -> None:
    await fill(admin, namespace, 50)
    kill = Killer(doomed)
    stop = asyncio.Event()
    rules = {
        "list": (proxies.Call(9000, hook=kill), proxies.watches),
        "watch": (proxies.Call(9000, hook=kill), proxies.watches),
        "write": (proxies.Sent(kill), lambda seen: seen.method == "POST"),
        "renewal": (proxies.Sent(kill), lambda seen: seen.method == "PUT"),
    }
    fault, match = rules[moment]
    oracle = await follow() if moment != "list" else None
    writing = asyncio.create_task(writer(admin, namespace, stop))
    if moment == "watch":
        front.add(fault, match)
        front.cut()
    else:
        front.add(fault, match)
    through = asyncio.create_task(_writes_through(front, namespace))
    if oracle is None:
        oracle = await follow(wait=False)
    await until(kill.killed.is_set)
    await asyncio.sleep(0.3)
    await ready(admin)
    await asyncio.sleep(0.3)
    stop.set()
    said = {**await writing, **await through}
    await oracle.agrees(admin, within=30)
    held = {key[1] for key in oracle.state}
    # Nothing lost, nothing invented.
    assert {name for name, outcome in said.items() if outcome == "applied"} <= held
    assert not {name for name, outcome in said.items() if outcome == "rejected"} & held
    assert leader.leading


async def _writes_through(front: proxies.Proxy, namespace: str) -> dict[str, str]:
    """Write a little by way of the proxy, so that one write is under way when the end comes."""
    said: dict[str, str] = {}
    async with kube.Client(front.config(), timeout=1.0) as client:
        for number in range(5):
            name = f"p{number}"
            try:
                await client.create(resources.CONFIG_MAPS, config_map(namespace, name))
            except errors.KubeError as error:
                said[name] = error.outcome
            else:
                said[name] = "applied"
    return said


def etcd_data(plane: testing.Plane) -> Path:
    found = [path for path in plane.platform.home.rglob("member") if path.is_dir()]
    assert len(found) == 1
    return found[0]


@contextlib.contextmanager
def frozen(plane: testing.Plane, unit: str) -> Iterator[None]:
    plane.signal(unit, signal.SIGSTOP)
    try:
        yield
    finally:
        plane.signal(unit, signal.SIGCONT)


async def test_etcd_is_restored_from_an_older_snapshot(
    doomed: testing.Plane, admin: kube.Client, namespace: str, follow: Follow, tmp_path: Path
) -> None:
    await fill(admin, namespace, 5)
    data = etcd_data(doomed)
    with frozen(doomed, "etcd"):
        shutil.copytree(data, tmp_path / "member")
    oracle = await follow()
    await admin.delete(resources.CONFIG_MAPS, "a0", namespace)
    await fill(admin, namespace, 30, prefix="later")
    await oracle.agrees(admin)
    doomed.signal("etcd", signal.SIGSTOP)
    doomed.signal("kube-apiserver", signal.SIGSTOP)
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "member", data)
    doomed.signal("etcd", signal.SIGKILL)
    doomed.signal("kube-apiserver", signal.SIGKILL)
    await asyncio.sleep(0.5)
    await ready(admin)
    assert len(await oracle.fresh(admin)) == 5
    # Far sooner than by silence, which takes 70 s to be noticed.
    await oracle.agrees(admin, within=30)
