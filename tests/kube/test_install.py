"""Objects that depend on each other, against a real API server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.core import clock
from tenantry.kube import client, discovery, errors, install

pytestmark = pytest.mark.plane

MANAGER = "install-tests"


def definition(group: str, plural: str = "things") -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def thing(group: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": namespace}
    return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": metadata}


async def test_what_depends_on_others_may_come_first(admin: client.Client, namespace: str) -> None:
    group = f"{namespace}.install.example"
    objects = [
        thing(group, f"{namespace}-new"),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-new"}},
        definition(group),
    ]
    for _ in range(2):  # the second time everything is there
        found = await install.apply(admin, objects, field_manager=MANAGER)
        assert [one.plural for one in found] == [
            "things",
            "namespaces",
            "customresourcedefinitions",
        ]
    assert (await admin.get(found[0], "one", f"{namespace}-new"))["kind"] == "Thing"


async def test_what_is_there_already_is_left_alone(admin: client.Client, namespace: str) -> None:
    labels = {"install": "tests"}
    for obj in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace},
        },
    ):
        changed: dict[str, Any] = copy.deepcopy(obj)
        changed["metadata"]["labels"] = labels
        await install.apply(admin, [changed], field_manager=MANAGER)
    stored = await admin.get(resources.NAMESPACES, namespace)
    assert not labels.items() <= stored["metadata"]["labels"].items()


async def test_an_unknown_kind_is_named(admin: client.Client) -> None:
    unknown = {"apiVersion": "no.example/v1", "kind": "Nothing", "metadata": {"name": "a"}}
    with pytest.raises(errors.NotServed, match=r"does not serve Nothing of no\.example/v1"):
        await install.apply(admin, [unknown], field_manager=MANAGER)


async def test_discovery_that_lags_behind_is_waited_for(
    admin: client.Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = f"{namespace}.install.example"
    ask, asked = discovery.resources, 0

    async def lagging(api: client.Client) -> list[resources.Resource]:
        nonlocal asked
        asked += 1
        return [one for one in await ask(api) if asked > 2 or one.group != group]

    monkeypatch.setattr(discovery, "resources", lagging)
    await install.apply(admin, [definition(group), thing(group, namespace)], field_manager=MANAGER)
    assert asked >= 3


async def test_a_definition_that_is_never_accepted_says_why(
    admin: client.Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = f"{namespace}.install.example"
    await install.apply(admin, [definition(group)], field_manager=MANAGER)
    rival = definition(group, "others")  # of the same kind
    monkeypatch.setattr(install, "SERVED_TIMEOUT", 1.0)
    begun = clock.monotonic()
    with pytest.raises(errors.NotServed, match=r"others\..* is not established: .*already in use"):
        await install.apply(admin, [rival], field_manager=MANAGER)
    assert clock.monotonic() - begun < 20
