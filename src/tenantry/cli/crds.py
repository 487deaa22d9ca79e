"""`tenantry crds`: show or install the API kinds, and what the roles need to run."""

from __future__ import annotations

import asyncio
from importlib import resources as files
from pathlib import Path
from typing import Any

import click

from tenantry.cli import options, printers
from tenantry.core import yamls

FIELD_MANAGER = "tenantry-install"


def bundled(*parts: str) -> list[dict[str, Any]]:
    """Return the objects of the manifests under `deploy/`, in the order of file names."""
    folder = files.files("tenantry.deploy").joinpath(*parts)
    found: list[dict[str, Any]] = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".yaml"):
            found += yamls.read(file.read_text())
    return found


@click.group("crds")
def command() -> None:
    """Show or install the API kinds that Tenantry serves."""


@command.command("list")
@printers.option()
def listed(output: str) -> None:
    """List the kinds."""
    objects = bundled("crds")
    rows = [
        (
            crd["metadata"]["name"],
            crd["spec"]["scope"],
            ",".join(version["name"] for version in crd["spec"]["versions"]),
        )
        for crd in objects
    ]
    whole = {"apiVersion": "v1", "kind": "List", "items": objects}
    printers.show(whole, output, lambda: printers.table(("NAME", "SCOPE", "VERSIONS"), rows))


@command.command("print")
@click.option("--rbac", is_flag=True, help="Print service accounts and roles instead.")
def print_(rbac: bool) -> None:
    """Print the manifests, for `kubectl apply --server-side -f -`."""
    click.echo(yamls.write(*bundled("rbac" if rbac else "crds")), nl=False)


@command.command("install")
@click.option("--rbac/--no-rbac", default=True, show_default=True, help="Service accounts, roles.")
@options.kubeconfig
def install(rbac: bool, kubeconfig: Path | None, context: str) -> None:
    """Install or update kinds (and roles) in a cluster, by server-side apply."""
    objects = bundled("crds") + (bundled("rbac") if rbac else [])
    for line in asyncio.run(_install(options.credentials(kubeconfig, context), objects)):
        click.echo(line)


async def _install(credentials: Any, objects: list[dict[str, Any]]) -> list[str]:
    from tenantry.kube import client
    from tenantry.kube import install as installing

    async with client.Client(credentials) as api:
        found = await installing.apply(api, objects, field_manager=FIELD_MANAGER)
    return [
        f"{resource.group_resource}/{obj['metadata']['name']} applied"
        for resource, obj in zip(found, objects, strict=True)
    ]
