"""The gateway role: the tenants' API endpoint, as any number of equal processes."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import ipaddress
import logging
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography import x509

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.core import clock
from tenantry.core import errors as core_errors
from tenantry.directory import identity
from tenantry.gateway import (
    accesslog,
    authenticate,
    handler,
    heartbeat,
    issuer,
    jwt,
    oidc,
    paths,
    settings_status,
    snapshot,
    state,
    status,
    upstreams,
    watches,
)
from tenantry.gateway import identity as identities
from tenantry.httpproxy import server as engine
from tenantry.kube import config as kube_config
from tenantry.runtime import certificates, cluster, manager, metrics, permissions, store, timing
from tenantry.tenancy import state as tenancy

logger = logging.getLogger(__name__)

#: On ClusterRoles: what the gateway may read besides, for rules about further kinds.
AGGREGATE_LABEL = "gateway.tenantry.io/aggregate"

_NODE_METRICS = resources.Resource(
    "metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False
)
#: Kinds that are read as the gateway, to be narrowed.
NARROWED = (
    resources.NAMESPACES,
    capsule.TENANTS,
    resources.NODES,
    _NODE_METRICS,
    resources.STORAGE_CLASSES,
    resources.INGRESS_CLASSES,
    resources.PRIORITY_CLASSES,
    resources.RUNTIME_CLASSES,
    resources.PERSISTENT_VOLUMES,
)
NEEDS = (
    *(permissions.Need(resource, ("get", "list", "watch")) for resource in NARROWED),
    *tenancy.NEEDS,
    *state.NEEDS,
    *authenticate.NEEDS,
    *heartbeat.NEEDS,
    *settings_status.NEEDS,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one gateway process."""

    namespace: str = constants.CONTROLLER_NAMESPACE
    configuration_name: str = constants.CONFIGURATION_NAME
    host: str = "0.0.0.0"
    port: int = 9001
    certificate: Path | None = None
    """certificate chain, PEM; with `key`. None = plain HTTP"""
    key: Path | None = None
    client_ca: Path | None = None
    """whose client certificates are believed; None = the API server's authority"""
    kinds: tuple[str, ...] = (authenticate.CERTIFICATE, authenticate.BEARER)
    xfcc_header: str = "X-Forwarded-Client-Cert"
    trusted: tuple[str, ...] = ()
    """networks of proxies in front: only they are served, and their XFCC is believed"""
    account_keys: tuple[Path, ...] = ()
    """public keys by which service accounts' tokens are told without asking the API server"""
    account_issuer: str = "https://kubernetes.default.svc.cluster.local"
    account_audiences: tuple[str, ...] = ()
    """of which a token must be for one; none = the issuer"""
    oidc: oidc.Settings | None = None
    """whose tokens are told without asking the API server; its own settings"""
    oidc_ca: Path | None = None
    """authorities of that issuer's address; None = the system's"""
    ignored_users: tuple[str, ...] = ()
    ignored_groups: tuple[str, ...] = ()
    impersonated: identities.Groups = identities.ANY
    """of which groups callers may ask to be"""
    metrics: tuple[str, int] | None = None
    """where probes and metrics are served besides"""
    reflector: bool = False
    concurrency: int = 400
    fanout: int = 250
    """namespaces that one watch may be spread over"""
    access_log: bool = True
    shared: bool = False
    """whether other processes listen on the same port"""
    probe_host: str = "127.0.0.1"
    probe_port: int = 8081
    linger: float = 5.0
    """seconds for which connections are still taken after a stop, until nobody sends any"""
    grace: float = 20.0
    """seconds for which requests may go on then"""


class Gateway:
    """Wires the parts and adds them to a manager."""

    def __init__(
        self,
        part: manager.Manager,
        known: tenancy.State,
        credentials: kube_config.Config,
        options: Settings,
    ) -> None:
        self._options = options
        self._source: cluster.Cluster = part.cluster
        self._timing = part.timing
        self._credentials = credentials
        self.snapshot = snapshot.Snapshot(
            known.directory,
            ignored_users=options.ignored_users,
            ignored_groups=options.ignored_groups,
        )
        self.state = state.State(self._source, self.snapshot, reflector=options.reflector)
        self._follow(known)
        networks = networks_of(options.trusted)
        self.heartbeat = heartbeat.Heartbeat(self._source, options.namespace)
        verifiers: list[authenticate.Verifier] = [*_accounts(options)]
        if options.oidc is not None:
            verifier = oidc.Verifier(options.oidc)
            verifiers.append(verifier)
            part.add_work("gateway-issuer", issuer.Keeper(verifier, ca=options.oidc_ca).run)
        self._servers = upstreams.Upstreams(credentials)
        self.authenticator = authenticate.Authenticator(
            self._source.client,
            self._servers,
            authenticate.Options(
                kinds=options.kinds,
                xfcc_header=options.xfcc_header,
                trusted=networks,
                authorities=self._authorities(),
                verifiers=tuple(verifiers),
                groups=options.impersonated,
            ),
        )
        self.watches = watches.Watches(
            self.snapshot, self.authenticator, fresh=self.heartbeat.fresh
        )
        self.state.follow_rights(self.watches.rights_changed)
        handle = handler.Handler(
            handler.Parts(
                client=self._source.client,
                servers=self._servers,
                authenticator=self.authenticator,
                known=self.snapshot,
                watches=self.watches,
                fresh=self.heartbeat.fresh,
                observe=Observer(
                    part.metrics,
                    accesslog.AccessLog(sys.stderr.buffer.write) if options.access_log else None,
                ),
            ),
            handler.Options(
                sources=networks,
                concurrency=options.concurrency,
                fanout=options.fanout,
                xfcc_header=options.xfcc_header,
            ),
        )
        self.server = engine.Server(handle, engine.Settings(error=status.engine_error))
        part.metrics.gauge("gateway_connections", "Connections of clients.").follow(
            lambda: float(self.server.connections)
        )
        part.metrics.gauge("gateway_watches", "Open watches.").follow(
            lambda: float(len(self.watches))
        )
        part.metrics.gauge(
            "gateway_identity_questions", "Questions to the API server about callers."
        ).follow(lambda: float(self.authenticator.questions))
        self._watcher: certificates.Watcher | None = None
        part.add_check("gateway", self._check)
        part.add_setup("gateway", self._start)
        part.add_work("gateway", self._serve)
        part.add_work("gateway-discovery", self.state.keep_discovering)
        part.add_work("gateway-credentials", self._servers.keep_fresh)
        part.add_work("gateway-watches", self.watches.run)
        part.add_work("gateway-heartbeat", self.heartbeat.run)
        for built in settings_status.controllers(self._source):
            part.add_controller(built, leader=False)

    def _follow(self, known: tenancy.State) -> None:
        def changed(_: store.Event[Any]) -> None:
            self.snapshot.changed()

        # After the directory, which subscribed first and so knows already.
        known.tenants.subscribe(changed)
        known.tenant_owners.subscribe(changed)
        known.configurations.subscribe(changed)
        known.promotions.subscribe(changed)
        known.namespaces.subscribe(
            lambda event: self.snapshot.namespace_changed(event.key[1], event.old, event.new)
        )

    async def _start(self) -> None:
        options = self._options
        await self._servers.refresh()
        await self.state.discover()
        tls = self._tls()
        await self.server.start(options.host, options.port, tls=tls, shared=options.shared)

    async def _serve(self) -> None:
        """Reload certificates until the process stops, then end gently."""
        try:
            while True:
                await asyncio.sleep(self._timing.certificate_poll)
                if self._watcher is not None:
                    try:
                        self._watcher.load()
                    except core_errors.TenantryError as error:
                        logger.error("certificate_not_reloaded", extra={"why": str(error)})
        finally:
            self.server.draining = True
            if self.server.port:
                await asyncio.sleep(self._options.linger)
                await self.server.drain(self._options.grace)
            self._servers.close()

    def _tls(self) -> ssl.SSLContext | None:
        options = self._options
        if options.certificate is None or options.key is None:
            return None
        self._watcher = certificates.Watcher(
            certificates.from_files(options.certificate, options.key),
            interval=self._timing.certificate_poll,
            registry=self._source.metrics,
        )
        self._watcher.load()
        context = self._watcher.context
        context.set_alpn_protocols(["http/1.1"])
        # Clients of Kubernetes do not resume sessions; each ticket costs both ends memory.
        context.num_tickets = 0
        authority = self._authority()
        if authenticate.CERTIFICATE in options.kinds and authority:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(cadata=authority)
        return context

    def _authority(self) -> str:
        if self._options.client_ca is not None:
            return self._options.client_ca.read_text(encoding="ascii")
        if self._credentials.ca_data:
            return self._credentials.ca_data.decode("ascii")
        if self._credentials.ca_file:
            return Path(self._credentials.ca_file).read_text(encoding="ascii")
        return ""

    def _authorities(self) -> tuple[x509.Certificate, ...]:
        """Return who must have issued a certificate that a proxy in front names."""
        authority = self._authority()
        return tuple(x509.load_pem_x509_certificates(authority.encode())) if authority else ()

    def _check(self) -> str:
        if not self.server.port or self.server.draining:
            return "not listening"
        return "" if self.heartbeat.fresh() else "cut off from the API server: nothing is narrowed"


class Observer:
    """Counts every exchange, and has it written down."""

    def __init__(self, registry: metrics.Registry, log: accesslog.AccessLog | None) -> None:
        self._log = log
        self._total = registry.counter(
            "capsule_proxy_requests_total", "Requests.", ("path", "status")
        )
        self._seconds = registry.histogram(
            "capsule_proxy_response_time_seconds", "Time until a response was over.", ("path",)
        )
        self._decisions = registry.counter(
            "gateway_decisions_total", "What became of requests.", ("decision",)
        )

    def __call__(self, entry: handler.Entry) -> None:
        seconds = clock.monotonic() - entry.found.started_at
        kind = _kind(entry)
        self._total.inc(kind, str(entry.found.outcome.status))
        self._seconds.observe(seconds, kind)
        self._decisions.inc(entry.decision)
        if self._log is not None:
            self._log.add(entry, seconds)


def issuer_of(url: str, client: str, **others: Any) -> oidc.Settings | None:
    """Return how an issuer's tokens are told; None when there is none.

    Without one, what is said about claims means nothing: Capsule Proxy's chart says it always.

    :raises InvalidValueError: naming the flag
    """
    return oidc.Settings(issuer=url, client_id=client, **others) if url else None


def _accounts(options: Settings) -> Iterator[jwt.Verifier]:
    """Yield who tells service accounts' tokens, if anybody does."""
    if options.account_keys:
        keys = [key for path in options.account_keys for key in jwt.keys(path.read_bytes())]
        audiences = options.account_audiences or (options.account_issuer,)
        yield jwt.Verifier(keys, options.account_issuer, frozenset(audiences))


def _kind(entry: handler.Entry) -> str:
    """Return a path with few values: the kind that was asked for."""
    return _label(entry.request.target if entry.request is not None else None)


@functools.lru_cache(maxsize=4096)
def _label(target: paths.Target | None) -> str:
    if target is None:
        return "other"
    scope = "namespaced" if target.namespace else "cluster"
    return f"{target.group or 'core'}/{target.version}/{target.plural}/{scope}"


def networks_of(texts: tuple[str, ...]) -> authenticate.Networks:
    """Parse networks.

    :raises InvalidValueError: for one that is none
    """
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise core_errors.InvalidValueError(
                "trusted-proxy-cidrs", text, "a network such as 10.0.0.0/8"
            ) from None
    return tuple(found)


def run(credentials: kube_config.Config, options: Settings) -> int:
    """Play the role until stopped; return the exit code."""
    if authenticate.FORWARDED in options.kinds and not options.trusted:
        raise core_errors.InvalidValueError(
            "auth-preferred-types",
            authenticate.FORWARDED,
            "only together with trusted-proxy-cidrs: else everybody could claim to be anybody",
        )

    async def build() -> manager.Manager:
        source = cluster.Cluster(credentials, timing=timing.Timing())
        part = manager.Manager(
            "gateway", cluster=source, probes=(options.probe_host, options.probe_port)
        )
        if options.metrics is not None:
            part.listen(*options.metrics)
        account = f"{identity.SERVICE_ACCOUNT_PREFIX}{options.namespace}:"
        known = tenancy.State(
            source,
            controllers={account + constants.CONTROLLER_SERVICE_ACCOUNT},
            configuration_name=options.configuration_name,
            namespace=options.namespace,
        )
        Gateway(part, known, credentials, options)
        return part

    return manager.main(build)
