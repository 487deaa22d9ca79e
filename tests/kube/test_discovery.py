from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.kube import conftest

from tenantry.api import resources
from tenantry.kube import client, discovery
from tenantry.kube import config as configs
from tenantry.local import testing

GROUPS = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": "example.com"},
            "versions": [
                {
                    "version": "v2",
                    "freshness": "Current",
                    "resources": [
                        {
                            "resource": "things",
                            "responseKind": {
                                "group": "example.com",
                                "version": "v2",
                                "kind": "Thing",
                            },
                            "scope": "Namespaced",
                            "singularResource": "thing",
                            "verbs": ["get", "list"],
                            "shortNames": ["th"],
                            "categories": ["all"],
                            "subresources": [{"subresource": "status", "verbs": ["get"]}],
                        },
                        {"resource": "ghosts", "scope": "Cluster", "subresources": []},
                    ],
                },
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "things",
                            "responseKind": {"kind": "Thing"},
                            "scope": "Cluster",
                        },
                        {"resource": "olds", "responseKind": {"kind": "Old"}, "scope": "Cluster"},
                    ],
                },
            ],
        },
        {
            "metadata": {"name": "metrics.k8s.io"},
            "versions": [{"version": "v1beta1", "freshness": "Stale"}],
        },
    ],
}


def test_aggregated_discovery_is_read() -> None:
    found = discovery.parse_aggregated(msgspec.json.encode(GROUPS))
    assert found.failed == ("metrics.k8s.io/v1beta1",)
    assert found.served[0] == discovery.Served(
        resource=resources.Resource("example.com", "v2", "things", "Thing"),
        verbs=("get", "list"),
        singular="thing",
        short_names=("th",),
        categories=("all",),
        subresources=("status",),
    )
    rest = [(one.resource.plural, one.resource.version, one.preferred) for one in found.served[1:]]
    # What only an older version serves is preferred there.
    assert rest == [("things", "v1", False), ("olds", "v1", True)]


def test_legacy_discovery_is_read() -> None:
    body = msgspec.json.encode(
        {
            "kind": "APIResourceList",
            "resources": [
                {"name": "pods", "kind": "Pod", "namespaced": True, "shortNames": ["po"]},
                {"name": "pods/log", "kind": "Pod", "namespaced": True},
                {"name": "nodes", "kind": "Node", "namespaced": False},
            ],
        }
    )
    pods, nodes = discovery.parse_legacy(body, "", "v1", {"nodes"})
    assert pods.resource == resources.PODS
    assert pods.subresources == ("log",)
    assert nodes.resource == resources.NODES
    assert (pods.preferred, nodes.preferred) == (True, False)


@pytest.mark.parametrize(
    ("word", "plural"),
    [
        ("things", "things"),
        ("Thing", "things"),
        ("th", "things"),
        ("th.example.com", "things"),
        ("old", "olds"),
        ("oldest", None),
        ("olds", "olds"),
        ("th.other.com", None),
        ("", None),
    ],
)
def test_kinds_are_found_by_what_people_call_them(word: str, plural: str | None) -> None:
    found = discovery.parse_aggregated(msgspec.json.encode(GROUPS)).find(word)
    assert (found.resource.plural if found else None) == plural


@pytest.mark.parametrize(
    ("minor", "expected"), [("33", False), ("34", True), ("35+", True), ("", False)]
)
def test_version_compares_by_number(minor: str, expected: bool) -> None:
    assert discovery.Version(major="1", minor=minor).at_least(1, 34) is expected


@pytest.mark.plane
async def test_real_server_knows_our_constants(admin: client.Client) -> None:
    found = await discovery.discover(admin)
    assert found.failed == ()
    served = {one.resource for one in found.served}
    ours = {value for value in vars(resources).values() if isinstance(value, resources.Resource)}
    # The only one that comes with a CRD, which nobody installed here.
    assert ours - served == {resources.GATEWAY_CLASSES}
    assert set(await discovery.resources(admin)) == served
    pods = found.find("po")
    assert pods is not None
    assert pods.resource == resources.PODS
    assert {"log", "binding", "eviction", "status"} <= set(pods.subresources)
    assert (await discovery.version(admin)).at_least(1, 33)


@pytest.mark.plane
async def test_old_discovery_finds_the_same(
    plane: testing.Plane,
    admin: client.Client,
    scripted: Callable[..., Awaitable[conftest.Scripted]],
) -> None:
    """A server in between that answers in the old form only, as before Kubernetes 1.27."""

    async def relay(head: str, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = head.split(" ")[1]
        if path == "/apis/policy/v1":
            writer.write(b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")
            return
        answer = await admin.request("GET", path)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(answer.body), answer.body))

    server = await scripted(relay)
    async with client.Client(configs.Config(server=server.server)) as old:
        found = await discovery.discover(old)
    assert found.failed == ("policy/v1",)
    new = await discovery.discover(admin)
    expected = {one.resource for one in new.served if one.resource.group != "policy"}
    assert {one.resource for one in found.served} == expected
