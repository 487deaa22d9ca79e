"""`tenantry uninstall`: take Tenantry off a cluster, so that nothing stays locked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import click

from tenantry.api.capsule import constants
from tenantry.cli import crds, options

#: Seconds that a running webhook role gets to write its configurations again.
_WATCH = 2.0
#: Seconds that the garbage collector gets to set the namespaces of a tenant free.
_RELEASE = 60.0
#: Seconds that the pods of an installation get to end.
_END = 120.0


@click.command("uninstall")
@click.option(
    "--namespace",
    default=constants.CONTROLLER_NAMESPACE,
    show_default=True,
    help="The platform's.",
)
@click.option("--crds", "kinds", is_flag=True, help="Remove API kinds and all their objects too.")
@click.option("--yes", is_flag=True, help="Do not ask before removing kinds and objects.")
@options.kubeconfig
def command(namespace: str, kinds: bool, yes: bool, kubeconfig: Path | None, context: str) -> None:
    """Take Tenantry off a cluster, so that nothing stays locked.

    Ends the Deployments that `tenantry manifests` printed; processes that were started otherwise
    are to be stopped first. Namespaces of tenants stay, with all that is in them.
    """
    if kinds and not yes and not click.confirm("Remove all tenants, their settings and quotas?"):
        raise click.ClickException("nothing was removed")
    asyncio.run(_uninstall(options.credentials(kubeconfig, context), namespace, kinds=kinds))


async def _uninstall(credentials: Any, namespace: str, *, kinds: bool) -> None:
    from tenantry.kube import client

    async with client.Client(credentials) as api:
        async for line in _steps(api, namespace, kinds=kinds):
            click.echo(line)


async def _steps(api: Any, namespace: str, *, kinds: bool) -> AsyncIterator[str]:
    """Remove what could lock the cluster first; yield what was done."""
    from tenantry.api import resources
    from tenantry.apps import certificates, hooks, installation, ownership_policy, permissions
    from tenantry.nodes import policies as node_policies

    locks = (
        (resources.VALIDATING_WEBHOOKS, hooks.NAME),
        (resources.MUTATING_WEBHOOKS, hooks.NAME),
        (resources.VALIDATING_POLICY_BINDINGS, ownership_policy.NAME),
        (resources.VALIDATING_POLICIES, ownership_policy.NAME),
        (resources.VALIDATING_POLICY_BINDINGS, node_policies.NAME),
        (resources.VALIDATING_POLICIES, node_policies.NAME),
    )
    async for line in _ended(api, namespace, installation.SELECTOR):
        yield line
    # Capsule users may patch every namespace, which nobody would judge any more.
    async for line in _withdraw(api, resources.CLUSTER_ROLE_BINDINGS):
        yield line
    for resource, name in locks:
        yield await _delete(api, resource, name)
    async for line in _remove_configured(api):
        yield line
    await asyncio.sleep(_WATCH)
    for resource, name in locks:
        if await _exists(api, resource, name):
            raise click.ClickException(
                f"{resource.group_resource}/{name} came back: a process with the webhook role "
                "still runs; stop all processes of Tenantry, then try again"
            )
    async for line in _withdraw(api, resources.CLUSTER_ROLES):
        yield line
    yield await _unconverted(api)
    if kinds:
        async for line in _remove_kinds(api):
            yield line
    by_kind = {found.kind: found for found in _rbac(resources)}
    for obj in reversed(permissions.manifests(namespace)):
        if obj["kind"] in by_kind:
            metadata, kind = obj["metadata"], by_kind[obj["kind"]]
            yield await _delete(api, kind, metadata["name"], metadata.get("namespace", ""))
    yield await _delete(api, resources.SECRETS, certificates.SECRET, namespace)


def _rbac(resources: Any) -> Iterable[Any]:
    return (
        resources.CLUSTER_ROLES,
        resources.CLUSTER_ROLE_BINDINGS,
        resources.ROLES,
        resources.ROLE_BINDINGS,
        resources.SERVICE_ACCOUNTS,
    )


async def _ended(api: Any, namespace: str, labels: str) -> AsyncIterator[str]:
    """Remove the workloads, and wait until nothing of them runs."""
    from tenantry.api import resources

    for resource in (
        resources.DEPLOYMENTS,
        resources.SERVICES,
        resources.POD_DISRUPTION_BUDGETS,
    ):
        listed = await api.list(resource, namespace, label_selector=labels)
        for raw in listed.items:
            yield await _delete(api, resource, _named(raw), namespace)
    try:
        async with asyncio.timeout(_END):
            while True:
                listed = await api.list(resources.PODS, namespace, label_selector=labels)
                if not listed.items:
                    return
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise click.ClickException(
            f"pods labelled {labels} in namespace {namespace} still run after {_END:.0f} s; "
            "end them, then try again"
        ) from None


async def _withdraw(api: Any, resource: Any) -> AsyncIterator[str]:
    """Take from Capsule users what they were given in the whole cluster."""
    from tenantry.tenancy import state

    listed = await api.list(resource, label_selector=state.RBAC_SELECTOR)
    for raw in listed.items:
        yield await _delete(api, resource, _named(raw))


async def _remove_configured(api: Any) -> AsyncIterator[str]:
    """Remove the webhooks that a CapsuleConfiguration defines, under whatever name."""
    import msgspec

    from tenantry.apps import configured_clients, configured_hooks

    label = f"{constants.CREATED_BY_LABEL}={constants.CREATED_BY_CONTROLLER}"
    for side in configured_clients.SIDES:
        for raw in (await api.list(side.resource, label_selector=label)).items:
            if configured_hooks.made_from(msgspec.json.decode(raw)):
                yield await _delete(api, side.resource, _named(raw))


async def _unconverted(api: Any) -> str:
    """Let the old version of Tenants be read and written without us, as far as it goes."""
    from tenantry.api import resources
    from tenantry.apps import conversions
    from tenantry.kube import errors

    body = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    try:
        await api.patch(resources.CRDS, conversions.NAME, kind="merge", body=body)
    except errors.NotFound:
        return f"{resources.CRDS.group_resource}/{conversions.NAME} not found"
    return f"{resources.CRDS.group_resource}/{conversions.NAME} is converted without webhook"


async def _remove_kinds(api: Any) -> AsyncIterator[str]:
    from tenantry.api import resources
    from tenantry.api.capsule import resources as capsule
    from tenantry.kube import errors

    try:
        tenants = [_named(raw) for raw in (await api.list(capsule.TENANTS)).items]
    except errors.NotFound:
        tenants = []
    for name in tenants:
        # Nobody is there any more to take the finalizer off, and to orphan is to let the
        # namespaces be: the garbage collector would delete them.
        body = {"metadata": {"finalizers": None}}
        with contextlib.suppress(errors.NotFound):
            await api.patch(capsule.TENANTS, name, kind="merge", body=body)
            await api.delete(capsule.TENANTS, name, propagation="Orphan")
    for name in tenants:
        await _gone(api, capsule.TENANTS, name)
        yield f"{capsule.TENANTS.group_resource}/{name} removed, its namespaces stay"
    for crd in crds.bundled("crds"):
        yield await _delete(api, resources.CRDS, crd["metadata"]["name"])


def _named(raw: Any) -> str:
    import msgspec

    name: str = msgspec.json.decode(raw)["metadata"]["name"]
    return name


async def _gone(api: Any, resource: Any, name: str) -> None:
    try:
        async with asyncio.timeout(_RELEASE):
            while True:
                if not await _exists(api, resource, name):
                    return
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise click.ClickException(
            f"{resource.group_resource}/{name} is still there after {_RELEASE:.0f} s: does the "
            "kube-controller-manager run? It must let the namespaces go before the kinds do"
        ) from None


async def _exists(api: Any, resource: Any, name: str) -> bool:
    from tenantry.kube import errors

    try:
        await api.get(resource, name)
    except errors.NotFound:
        return False
    return True


async def _delete(api: Any, resource: Any, name: str, namespace: str = "") -> str:
    from tenantry.kube import errors

    try:
        await api.delete(resource, name, namespace)
    except errors.NotFound:
        return f"{resource.group_resource}/{name} is not there"
    return f"{resource.group_resource}/{name} removed"
