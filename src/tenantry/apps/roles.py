"""Roles by name, and a process that plays some of them."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from tenantry.apps import controller, settings, webhook
from tenantry.core import clock, errors, keypair
from tenantry.kube import config
from tenantry.pki import authority
from tenantry.runtime import certificates, cluster, manager
from tenantry.tenancy import state

Add = Callable[[manager.Manager, state.State, settings.Settings], None]

ROLES: dict[str, Add] = {"controller": controller.add, "webhook": webhook.add}

#: Upstream's, so that the two never lead at once.
LEASE = "42c733ea.clastix.capsule.io"


def run(roles: Sequence[str], credentials: config.Config, options: settings.Settings) -> int:
    """Play the roles until stopped; return the exit code.

    :raises InvalidValueError: when a role does not exist
    """
    for role in roles:
        if role not in ROLES:
            raise errors.InvalidValueError("roles", role, f"must be among {', '.join(ROLES)}")

    async def build() -> manager.Manager:
        chosen = dataclasses.replace(options.timing, drain=options.drain)
        source = cluster.Cluster(credentials, timing=chosen)
        election = manager.Election(config=credentials, namespace=options.namespace, name=LEASE)
        part = manager.Manager(
            "+".join(roles),
            cluster=source,
            election=election if options.elect else None,
            probes=(options.probe_host, options.probe_port),
        )
        for host, port, files in options.listeners:
            part.listen(host, port, tls=_tls(*files) if files is not None else None)
        known = state.State(
            source,
            controllers=options.controllers,
            configuration_name=options.configuration_name,
            namespace=options.namespace,
        )
        for role in roles:
            ROLES[role](part, known, options)
        return part

    return manager.main(build)


def _tls(*files: Path) -> ssl.SSLContext:
    """Return a context for metrics; without files, with a certificate that nobody can check."""
    context = certificates.server_context()
    if files:
        certificate, key = files
        context.load_cert_chain(certificate, key)
    else:
        now = clock.wall()
        leaf = authority.Authority.create("tenantry-metrics", now).issue_server(["localhost"], now)
        keypair.load(context, leaf.cert, leaf.key)
    return context
