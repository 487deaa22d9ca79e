from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenantry.api import resources
from tenantry.core import clock
from tenantry.kube import access, client, config, errors
from tenantry.local import bootstrap, credentials, nodes, plan, state, testing
from tenantry.local import plane as planes

pytestmark = pytest.mark.plane

ROLE = plan.Role(
    name="controller",
    argv=("true",),
    service_account="bootstrap",
    namespace="local-bootstrap",
)


@pytest.fixture
async def chores(plane: testing.Plane, tmp_path: Path) -> AsyncIterator[bootstrap.Bootstrap]:
    """Chores at the shared plane, with directories of their own."""
    paths = state.layout("one", tmp_path)
    state.prepare(paths, minimum_free=0)
    state.write(paths.admin_kubeconfig, plane.admin.read_bytes())
    described = msgspec.structs.replace(plane.plan, roles=(ROLE,), components=(), nodes=())
    made = bootstrap.Bootstrap(described, paths)
    yield made
    await made.close()


async def test_a_role_gets_a_token_of_its_own_account(
    chores: bootstrap.Bootstrap, plane: testing.Plane
) -> None:
    await chores.apply_manifests()
    await chores.issue_tokens()
    token = credentials.token_file(chores.paths, ROLE)
    assert token.stat().st_mode & 0o777 == 0o600
    spoken = config.Config(
        server=plane.server, ca_data=plane.config().ca_data, token_file=str(token)
    )
    async with client.Client(spoken) as role:
        who = await access.who_am_i(role)
    assert who.username == "system:serviceaccount:local-bootstrap:bootstrap"


async def test_tokens_are_renewed_at_half_of_their_life(
    chores: bootstrap.Bootstrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chores.apply_manifests()
    await chores.issue_tokens()
    token = credentials.token_file(chores.paths, ROLE)
    first = token.read_text()
    now = clock.wall()
    await chores.renew()
    assert token.read_text() == first
    monkeypatch.setattr(clock, "wall", lambda: now + bootstrap.TOKEN_SECONDS * 0.51)
    await chores.renew()
    assert token.read_text() != first


async def test_definitions_come_before_what_they_define(
    chores: bootstrap.Bootstrap, plane: testing.Plane, tmp_path: Path
) -> None:
    group = "bootstrap.local.example"
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    thing = {
        "apiVersion": f"{group}/v1",
        "kind": "Thing",
        "metadata": {"name": "one", "namespace": "local-things"},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "local-things"}}
    path = tmp_path / "all.yaml"
    path.write_text(json.dumps({"kind": "List", "items": [thing, namespace, crd]}))
    chores.plan = msgspec.structs.replace(chores.plan, manifests=(str(path),))
    for _ in range(2):  # the second time everything is there
        await chores.apply_manifests()
    assert plane.run("-n", "local-things", "get", f"things.{group}", "-o", "name").stdout == (
        f"thing.{group}/one\n"
    )


async def test_an_unknown_kind_is_named(chores: bootstrap.Bootstrap, tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text("{apiVersion: no.example/v1, kind: Nothing, metadata: {name: a}}")
    chores.plan = msgspec.structs.replace(chores.plan, manifests=(str(path),))
    with pytest.raises(errors.NotServed, match=r"does not serve Nothing of no\.example/v1"):
        await chores.apply_manifests()


async def test_the_nodes_follow_the_plan(
    chores: bootstrap.Bootstrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody plays these nodes here, so nobody would make them ready.
    monkeypatch.setattr(bootstrap, "_is_ready", lambda _: True)
    monkeypatch.setattr(nodes, "LABEL", "bootstrap.local.example/node")

    async def there(wanted: tuple[dict[str, Any], ...]) -> dict[str, dict[str, Any]]:
        chores.plan = msgspec.structs.replace(chores.plan, nodes=wanted)
        await chores.apply_nodes()
        listed = await chores.client.list(resources.NODES, label_selector=nodes.LABEL)
        found = [msgspec.json.decode(raw) for raw in listed.items]
        return {node["metadata"]["name"]: node for node in found}

    def made(name: str, gpus: int, **labels: str) -> dict[str, Any]:
        status = {"capacity": {nodes.GPU: str(gpus)}}
        return nodes.completed({"metadata": {"name": name, "labels": labels}, "status": status})

    found = await there((made("local-a", 8), made("local-b", 8)))
    assert {name: node["status"]["allocatable"][nodes.GPU] for name, node in found.items()} == {
        "local-a": "8",
        "local-b": "8",
    }
    found = await there((made("local-b", 4, zone="x"),))
    assert list(found) == ["local-b"]
    assert found["local-b"]["status"]["allocatable"][nodes.GPU] == "4"
    assert found["local-b"]["metadata"]["labels"]["zone"] == "x"
    assert await there(()) == {}


def test_each_task_of_a_plan_has_its_chore(chores: bootstrap.Bootstrap) -> None:
    described = msgspec.structs.replace(chores.plan, components=(plan.KWOK,))
    for unit in planes.tasks(described):
        assert callable(chores.task(unit.name))
