"""`tenantry manifests`: what an existing cluster needs to run Tenantry."""

from __future__ import annotations

from importlib import metadata

import click

from tenantry.cli import crds, options
from tenantry.core import yamls


@click.command("manifests")
@options.namespace
@click.option(
    "--image",
    default=lambda: f"tenantry:{metadata.version('tenantry')}",
    metavar="REFERENCE",
    help="Image with this package; the Containerfile makes one.  [default: tenantry:VERSION]",
)
@click.option(
    "--replicas", type=click.IntRange(1, 20), default=2, show_default=True, help="Of each role."
)
@click.option(
    "--gateway-secret",
    default="",
    metavar="NAME",
    help="Secret (kubernetes.io/tls) in the namespace with the gateway's certificate.  "
    "[default: no gateway]",
)
@click.option("--crds/--no-crds", "kinds", default=True, show_default=True, help="API kinds.")
@click.option(
    "--webhooks/--no-webhooks",
    default=True,
    show_default=True,
    help="Webhook configurations; without, the webhook role writes them when it serves.",
)
def command(
    *, namespace: str, image: str, replicas: int, gateway_secret: str, kinds: bool, webhooks: bool
) -> None:
    """Print what an existing cluster needs, for `kubectl apply --server-side -f -`.

    API kinds, service accounts with the rights they need and no more, Deployments, Services,
    disruption budgets and webhook configurations, in the order to create them. Controllers that
    wait for their Lease, webhooks and gateways run as any number of replicas.
    """
    from tenantry.apps import installation

    chosen = installation.Options(
        image=image, namespace=namespace, replicas=replicas, gateway_secret=gateway_secret
    )
    made = installation.manifests(
        chosen, crds.bundled("crds") if kinds else [], registered=webhooks
    )
    click.echo(yamls.write(*made), nl=False)
