"""The API server dies in the middle of things, or comes back with an older etcd."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.local import testing
from tenantry.runtime import leadership, timing

from . import proxy as proxies
from .conftest import Follow, Oracle, config_map, fill, make_namespace, until

pytestmark = pytest.mark.plane

#: An API server that comes back before the renew deadline keeps the leader.
LEASE = timing.Timing(lease=40.0, renew_deadline=30.0, lease_retry=0.5)


@pytest.fixture
def doomed(new_plane: Callable[..., testing.Plane]) -> testing.Plane:
    """A plane to be killed, by one test only: who is killed often is started anew later and later."""
    return new_plane(components=())


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

    def after(self, moment: threading.Barrier) -> None:
        """Kill it when all that shall be under way is."""
        pid = self.plane.pid("kube-apiserver")
        assert pid is not None
        moment.wait()
        os.kill(pid, signal.SIGKILL)
        self.killed.set()


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


async def test_the_api_server_is_killed_in_the_middle_of_everything(
    *,
    doomed: testing.Plane,
    front: proxies.Proxy,
    admin: kube.Client,
    namespace: str,
    follow: Follow,
    leader: leadership.Leadership,
) -> None:
    """A list, a watch, a create, an apply and a renewal are under way, all at once."""
    await fill(admin, namespace, 50)
    watching = await follow()
    # Each waits for the others, then goes on while the API server ends.
    moment = threading.Barrier(5, timeout=20)
    kill = Killer(doomed)
    front.add(proxies.Call(9000, hook=moment.wait), proxies.watches)
    together = [
        front.add(proxies.With(moment.wait), lambda seen, verb=verb: seen.method == verb)  # type: ignore[misc]
        for verb in ("POST", "PATCH", "PUT")
    ]
    killing = asyncio.create_task(asyncio.to_thread(kill.after, moment))
    listing = await follow(wait=False)
    writing = [
        asyncio.create_task(writes_through(front, namespace, kind)) for kind in ("create", "apply")
    ]
    await killing
    assert [rule.hits for rule in together] == [1, 1, 1]
    said = {name: told for each in writing for name, told in (await each).items()}
    await ready(admin)
    for oracle in (watching, listing):
        await oracle.agrees(admin, within=30)
    true(said, watching)
    assert leader.leading


def true(said: Mapping[str, str], oracle: Oracle) -> None:
    """Compare what was said about writes with what is there: nothing lost, nothing invented."""
    held = {key[1] for key in oracle.state}
    assert {name for name, outcome in said.items() if outcome == "applied"} <= held
    assert not {name for name, outcome in said.items() if outcome == "rejected"} & held


@pytest.mark.long
@pytest.mark.parametrize("moment", ["list", "watch", "create", "apply", "renewal"])
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
        "create": (proxies.Sent(kill), lambda seen: seen.method == "POST"),
        "apply": (proxies.Sent(kill), lambda seen: seen.method == "PATCH"),
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
    kind = "apply" if moment == "apply" else "create"
    through = asyncio.create_task(writes_through(front, namespace, kind))
    if oracle is None:
        oracle = await follow(wait=False)
    await until(kill.killed.is_set)
    await asyncio.sleep(0.3)
    await ready(admin)
    await asyncio.sleep(0.3)
    stop.set()
    said = {**await writing, **await through}
    await oracle.agrees(admin, within=30)
    true(said, oracle)
    assert leader.leading


async def writes_through(front: proxies.Proxy, namespace: str, kind: str) -> dict[str, str]:
    """Write a little by way of the proxy, so that one write is under way when the end comes."""
    said: dict[str, str] = {}
    async with kube.Client(front.config(), timeout=1.0) as client:
        for number in range(5):
            name = f"{kind}-{number}"
            wanted = config_map(namespace, name)
            try:
                if kind == "create":
                    await client.create(resources.CONFIG_MAPS, wanted)
                else:
                    await client.apply(resources.CONFIG_MAPS, wanted, field_manager="t")
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


@pytest.mark.long
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
