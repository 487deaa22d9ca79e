"""Two replicas of a webhook behind one Service, as in a cluster; one goes away and nobody notices."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.pki import authority
from tenantry.runtime import admission, timing, webhook

from .conftest import Until, config_map

pytestmark = pytest.mark.plane

#: Drains for a second.
T = timing.Timing(drain=1.0)


def address() -> str:
    """Find an address of this machine that is no loopback: endpoints may not hold one of those."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, contextlib.suppress(OSError):
        one.connect(("192.0.2.1", 9))  # a datagram socket sends nothing by that
        return str(one.getsockname()[0])
    pytest.skip("this machine has no address but loopback")


class Replica:
    """One server and what it was asked."""

    def __init__(self, host: str, pair: authority.Issued) -> None:
        self.asked = 0
        self.server = webhook.Server(host, 0, certificate=lambda: (pair.cert, pair.key), timing=T)
        self.server.route("/", self.judge)

    async def judge(self, review: admission.Review) -> admission.Verdict:
        self.asked += 1
        return admission.Verdict()


def slice_of(namespace: str, name: str, host: str, port: int) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": "hooks"}
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


@pytest.fixture
async def replicas(admin: kube.Client, namespace: str) -> AsyncIterator[list[Replica]]:
    host = address()
    now = time.time()
    ca = authority.Authority.create("replicas", now)
    pair = ca.issue_server([f"hooks.{namespace}.svc"], now)
    made = [Replica(host, pair) for _ in range(2)]
    service = {
        "metadata": {"namespace": namespace, "name": "hooks"},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 9443}]},
    }
    await admin.create(resources.SERVICES, service)
    for number, replica in enumerate(made):
        await replica.server.start()
        await admin.create(
            resources.ENDPOINT_SLICES,
            slice_of(namespace, f"hooks-{number}", host, replica.server.port),
        )
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
        "operations": ["CREATE"],
    }
    hook = {
        "name": "replicas.example.com",
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "clientConfig": {
            "service": {"namespace": namespace, "name": "hooks", "path": "/"},
            "caBundle": base64.b64encode(ca.cert).decode(),
        },
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "admissionReviewVersions": ["v1"],
    }
    await admin.create(
        resources.VALIDATING_WEBHOOKS, {"metadata": {"name": namespace}, "webhooks": [hook]}
    )
    yield made
    await admin.delete(resources.VALIDATING_WEBHOOKS, namespace)
    await asyncio.gather(*(replica.server.stop() for replica in made))


async def test_one_of_two_goes_away(
    admin: kube.Client, namespace: str, replicas: list[Replica], until: Until
) -> None:
    number = 0
    failed: list[str] = []
    stop = asyncio.Event()

    async def create() -> None:
        nonlocal number
        number += 1
        try:
            await admin.create(resources.CONFIG_MAPS, config_map(namespace, f"c{number}"))
        except errors.KubeError as error:
            failed.append(str(error))

    # The API server learns of all this in its own time, and keeps a connection once it has one:
    # only several at a time make it choose again.
    async with asyncio.timeout(20):
        while True:
            await asyncio.gather(*(create() for _ in range(16)))
            if all(replica.asked for replica in replicas):
                break
    failed.clear()

    async def keep_creating() -> None:
        while not stop.is_set():
            await create()

    creating = [asyncio.create_task(keep_creating()) for _ in range(4)]
    leaving, staying = replicas
    # As in a cluster: the endpoint goes and the server drains at the same time.
    leave = asyncio.create_task(leaving.server.stop())
    await admin.delete(resources.ENDPOINT_SLICES, "hooks-0", namespace)
    await leave
    before, gone = staying.asked, leaving.asked
    await until(lambda: staying.asked > before + 20)
    stop.set()
    await asyncio.gather(*creating)
    assert not failed
    assert leaving.asked == gone
