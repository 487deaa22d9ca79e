"""`tenantry uninstall`: a cluster without Tenantry is a cluster like any other."""

from __future__ import annotations

import asyncio
from typing import Any

import click.testing
import msgspec
import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.apps import conversions, hooks, ownership_policy
from tenantry.cli import main
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.local import testing
from tenantry.tenancy import bindings

pytestmark = pytest.mark.plane

OWN = constants.CONTROLLER_NAMESPACE


def run(plane: testing.Plane, *args: str, answer: str = "") -> click.testing.Result:
    return click.testing.CliRunner().invoke(
        main.command, [*args, "--kubeconfig", str(plane.admin)], input=answer
    )


@pytest.fixture
def own(new_plane: Any) -> testing.Plane:
    made: testing.Plane = new_plane()
    return made


async def _locked(client: kube.Client) -> None:
    """Leave behind what processes leave that were killed."""
    tenant = await client.create(
        capsule.TENANTS,
        {
            "metadata": {"name": "oil", "finalizers": [constants.FINALIZER]},
            "spec": {"owners": [{"kind": "User", "name": "alice"}]},
        },
    )
    reference = {
        "apiVersion": constants.API_VERSION,
        "kind": "Tenant",
        "name": "oil",
        "uid": tenant["metadata"]["uid"],
    }
    metadata = {
        "name": "oil-prod",
        "labels": {constants.TENANT_LABEL: "oil"},
        "ownerReferences": [reference],
    }
    await client.create(resources.NAMESPACES, {"metadata": metadata})
    config = type("Spec", (), {"rbac": type("Rbac", (), {"provisioner": "p", "deleter": "d"})})
    roles, binding = bindings.provisioning(config, [])
    for resource, obj in (
        *((resources.CLUSTER_ROLES, role) for role in roles),
        (resources.CLUSTER_ROLE_BINDINGS, binding),
    ):
        await client.apply(resource, obj, field_manager="test")
    endpoint = hooks.endpoint("https://127.0.0.1:1", OWN, b"")
    for resource, wanted in (
        *hooks.configurations(endpoint, OWN, []),
        *ownership_policy.policies(),
    ):
        await client.apply(resource, wanted, field_manager="test")
    await client.patch(
        resources.CRDS,
        conversions.NAME,
        kind="merge",
        body={"spec": {"conversion": hooks.conversion(endpoint)}},
    )
    configured = await client.create(capsule.CONFIGURATIONS, {"metadata": {"name": "default"}})
    owner = {**reference, "kind": "CapsuleConfiguration", "name": "default",
             "uid": configured["metadata"]["uid"]}  # fmt: skip
    label = {constants.CREATED_BY_LABEL: constants.CREATED_BY_CONTROLLER}
    for name, references in (("any-name", [owner]), ("of-others", [])):
        metadata = {"name": name, "labels": label, "ownerReferences": references}
        await client.create(resources.VALIDATING_WEBHOOKS, {"metadata": metadata})
    async with asyncio.timeout(20):
        while True:
            try:
                await client.create(resources.NAMESPACES, {"metadata": {"generateName": "x-"}})
            except errors.KubeError:
                return
            await asyncio.sleep(0.1)


async def _is_read(client: kube.Client) -> None:
    """Read Tenants without the webhook that converted them."""
    definition = await client.get(resources.CRDS, conversions.NAME)
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    found = await client.get(capsule.TENANTS, "oil")
    assert found["apiVersion"] == constants.API_VERSION
    assert found["spec"]["owners"][0]["name"] == "alice"
    older = msgspec.structs.replace(capsule.TENANTS, version="v1beta1")
    # The API server asks the webhook for an instant longer than the definition says.
    async with asyncio.timeout(20):
        while True:
            try:
                await client.get(older, "oil")
            except errors.KubeError:
                await asyncio.sleep(0.1)
            else:
                return


async def _is_free(client: kube.Client) -> None:
    await client.create(resources.NAMESPACES, {"metadata": {"name": "free"}})
    for resource in (resources.CLUSTER_ROLE_BINDINGS, resources.CLUSTER_ROLES):
        with pytest.raises(errors.NotFound):
            await client.get(resource, "p")
        with pytest.raises(errors.NotFound):
            await client.get(resource, "tenantry:webhook")


def test_nothing_is_locked_and_no_namespace_is_lost(own: testing.Plane) -> None:
    assert run(own, "crds", "install").exit_code == 0

    async def before() -> None:
        async with kube.Client(own.config()) as client:
            await _locked(client)

    async def between() -> None:
        async with kube.Client(own.config()) as client:
            await _is_free(client)
            await _is_read(client)
            # What a CapsuleConfiguration defined is ours by its reference, not by its name.
            with pytest.raises(errors.NotFound):
                await client.get(resources.VALIDATING_WEBHOOKS, "any-name")
            await client.get(resources.VALIDATING_WEBHOOKS, "of-others")

    async def after() -> None:
        async with kube.Client(own.config()) as client:
            stayed = await client.get(resources.NAMESPACES, "oil-prod")
            assert "ownerReferences" not in stayed["metadata"]
            assert "deletionTimestamp" not in stayed["metadata"]
            # The API server serves a kind for an instant longer than it says.
            async with asyncio.timeout(20):
                with pytest.raises(errors.NotFound):
                    while True:
                        await client.list(capsule.TENANTS)
                        await asyncio.sleep(0.1)

    asyncio.run(before())
    done = run(own, "uninstall")
    assert done.exit_code == 0, done.output
    asyncio.run(between())
    # Kinds and objects go only when that is asked for, and confirmed.
    assert run(own, "uninstall", "--crds", answer="n").exit_code != 0
    asyncio.run(between_again(own))
    done = run(own, "uninstall", "--crds", answer="y")
    assert done.exit_code == 0, done.output
    assert "oil removed, its namespaces stay" in done.output
    asyncio.run(after())
    # Once more finds nothing, and says so.
    assert run(own, "uninstall", "--crds", "--yes").exit_code == 0


async def between_again(own: testing.Plane) -> None:
    async with kube.Client(own.config()) as client:
        await client.get(capsule.TENANTS, "oil")
