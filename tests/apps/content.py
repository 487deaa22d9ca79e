"""What tests put into a tenant's namespaces, and how they ask whether it may be there."""

from __future__ import annotations

from typing import Any

from tenantry.api import resources
from tenantry.kube import client as kube

from .harness import Object, World, eventually


async def ready(world: World, name: str = "prod") -> str:
    """Wait until pods can be made in a namespace; return its full name."""
    where = world.name(name)

    async def there() -> bool:
        await world.admin.get(resources.SERVICE_ACCOUNTS, "default", where)
        return True

    await eventually(there, f"{where} has its default ServiceAccount")
    return where


def pod(name: str, image: str = "r.io/app:1", **spec: Any) -> Object:
    """Return a pod of one container; more of its specification as given."""
    container = {"name": "main", "image": image, "imagePullPolicy": "Always"}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


async def put(
    world: World,
    resource: resources.Resource,
    obj: Object,
    *,
    by: kube.Client | None = None,
    where: str = "prod",
    dry_run: bool = True,
) -> Object:
    """Create an object in a namespace, without keeping it unless asked to."""
    metadata = {**obj["metadata"], "namespace": world.name(where)}
    client = by or world.admin
    return await client.create(resource, {**obj, "metadata": metadata}, dry_run=dry_run)


async def in_force(world: World, name: str = "oil") -> None:
    """Wait until a tenant says that every field it sets has its effect."""

    async def told() -> bool:
        found = world.condition(await world.status(name), "Enforced")
        assert found["status"] == "True", found["message"]
        return True

    await eventually(told)
