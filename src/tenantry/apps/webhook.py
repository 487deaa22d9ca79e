"""The webhook role: one mutating and one validating endpoint for all domains."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.api.capsule import constants, tenant, tenant_conversion
from tenantry.api.tenantry import node_pool
from tenantry.apps import (
    audit,
    certificates,
    conversions,
    evidence,
    fencing,
    hooks,
    ownership_policy,
    policies,
    settings,
)
from tenantry.kube import errors
from tenantry.nodes import policies as node_policies
from tenantry.nodes import state as nodes
from tenantry.runtime import (
    admission,
    apply,
    cluster,
    controller,
    events,
    manager,
    permissions,
    store,
    views,
    webhook,
)
from tenantry.runtime import registration as registrations
from tenantry.tenancy import evidence as tenancy
from tenantry.tenancy import ledger, reservations, state, verdicts
from tenantry.tenancy.admission import (
    content,
    defaults,
    ingresses,
    kinds,
    labelling,
    namespaces,
    pods,
    services,
    storage,
)
from tenantry.tenancy.admission import nodes as node_metadata
from tenantry.tenancy.policy import compiling

logger = logging.getLogger(__name__)

UNKNOWABLE = "tenantry could not find out whether this is allowed: {problem}"

#: Share of the API server's patience that reserving may take.
RESERVE_DEADLINE = 6.0

MUTATING = (
    namespaces.MUTATING,
    *kinds.MUTATING,
    *defaults.MUTATING,
    *storage.MUTATING,
    *services.MUTATING,
    *ingresses.MUTATING,
    *labelling.MUTATING,
    pods.MUTATING,
)
VALIDATING = (
    *kinds.VALIDATING,
    namespaces.VALIDATING,
    content.CORDONING,
    content.MANAGING,
    content.PROMOTING,
    pods.VALIDATING,
    *storage.VALIDATING,
    *services.VALIDATING,
    *ingresses.VALIDATING,
    *labelling.VALIDATING,
    node_metadata.VALIDATING,
)


#: Kind -> names of the objects that we keep of it.
_KEPT = {
    resources.MUTATING_WEBHOOKS: (hooks.NAME,),
    resources.VALIDATING_WEBHOOKS: (hooks.NAME,),
    resources.VALIDATING_POLICIES: (ownership_policy.NAME, node_policies.NAME),
    resources.VALIDATING_POLICY_BINDINGS: (ownership_policy.NAME, node_policies.NAME),
}

NEEDS = (
    audit.NEEDS
    + policies.NEEDS
    + conversions.NEEDS
    + nodes.POOL_NEEDS
    + tuple(
        need
        for resource, names in _KEPT.items()
        for need in (
            permissions.Need(resource, (*permissions.READ, "create")),
            # Who could change the hooks of others could send them anything.
            permissions.Need(resource, ("patch",), names=names),
        )
    )
)


class Handlers:
    """Answers reviews: gathers evidence, runs the steps, reserves what is counted."""

    def __init__(
        self,
        gather: evidence.Gatherer,
        counts: reservations.NamespaceReservations,
        counters: admission.Counters,
        auditor: audit.Auditor,
        fence: fencing.Fencing,
    ) -> None:
        self._mutating = (*MUTATING, *fence.mutating)
        self._validating = (*VALIDATING, *fence.validating)
        self._gather = gather
        self._auditor = auditor
        self._counts = counts
        self._counters = counters

    async def mutate(self, review: admission.Review) -> admission.Verdict:
        """Answer a mutating review."""
        return await answered(self._mutate(review))

    async def validate(self, review: admission.Review) -> admission.Verdict:
        """Answer a validating review."""
        return await answered(self._validate(review))

    async def _mutate(self, review: admission.Review) -> admission.Verdict:
        known = await self._gather(review, proposing=True)
        verdict = admission.run(self._mutating, review, known, counters=self._counters)
        if not verdict.allowed:
            # Who is let through here is judged, and told of, by the validating side.
            self._auditor.tell(review, verdict, known)
        return verdict

    async def _validate(self, review: admission.Review) -> admission.Verdict:
        known = await self._gather(review)
        verdict = admission.run(self._validating, review, known, counters=self._counters)
        verdict = await self._counted(review, verdict, known)
        self._auditor.tell(review, verdict, known)
        return verdict

    async def _counted(
        self, review: admission.Review, verdict: admission.Verdict, known: tenancy.Evidence
    ) -> admission.Verdict:
        """Reserve what is counted, which comes after all other checks."""
        wanted = namespaces.reservation(review, known) if verdict.allowed else None
        if wanted is None:
            return verdict
        owner, claim = wanted
        denial = await self._reserve(owner, claim, dry_run=review.dry_run)
        if denial is None:
            return verdict
        return admission.denied(
            denial.message, code=denial.code, reason=denial.reason, by="namespaces.quota"
        )

    async def _reserve(
        self, owner: tenant.Tenant, claim: ledger.Claim, *, dry_run: bool
    ) -> verdicts.Denial | None:
        if not reservations.counted(owner):
            return None
        if await self._gather.exists(claim.name):
            # The API server finds out after us; by then the room would be held for nothing, and
            # who creates again what exists, as scripts do, would use up the quota.
            return verdicts.Denial(f'namespaces "{claim.name}" already exists', code=409)
        return await self._counts.reserve(owner, claim, deadline=RESERVE_DEADLINE, dry_run=dry_run)


async def answered(judging: Awaitable[admission.Verdict]) -> admission.Verdict:
    """Refuse in the API server's own words where it could not be asked; try again helps."""
    try:
        return await judging
    except (errors.KubeError, ExceptionGroup) as problem:
        cause = first(problem)
        if cause is None:
            raise
        logger.warning("review_without_evidence", extra={"why": str(cause)})
        return admission.denied(
            UNKNOWABLE.format(problem=cause), code=503, reason="ServiceUnavailable"
        )


def first(problem: Exception) -> errors.KubeError | None:
    """Return the first failure of a request, however deep several tasks have buried it; pure."""
    if isinstance(problem, errors.KubeError):
        return problem
    if isinstance(problem, ExceptionGroup):
        return next(filter(None, map(first, problem.exceptions)), None)
    return None


class Registration:
    """Keeps the webhook configurations and policies as `hooks` says; a controller of one key."""

    def __init__(
        self, source: cluster.Cluster, certificate: certificates.ServingCertificate,
        options: settings.Settings, known: state.State, pools: nodes.Pools,
    ) -> None:  # fmt: skip
        self._certificate = certificate
        self._options = options
        self._known = known
        self._pools = pools.pools
        self._applier = apply.Applier(
            source.client, f"{constants.FIELD_MANAGER}/webhooks", timing=source.timing
        )
        self.controller: controller.Controller[str] = controller.Controller(
            "webhooks", self.reconcile, timing=source.timing, registry=source.metrics
        )
        self._caches = {}
        self._done = False
        self._conversion = conversions.Keeper(source)
        self.controller.watches(self._conversion.definitions, lambda _: [hooks.NAME])
        for resource, names in _KEPT.items():
            cache = source.informer(resource, views.as_bytes)
            self._caches[resource] = cache
            self.controller.watches(cache, _only(names))
        # Which tenants are asked about in everything they write follows their rules.
        self.controller.watches(
            known.tenants,
            lambda event: [hooks.NAME] if state.is_news(event) else [],
            debounce=source.timing.debounce,
        )
        # Which labels and taints of nodes are guarded follows the pools.
        self.controller.watches(
            self._pools,
            lambda event: [hooks.NAME] if _respecified(event) else [],
            debounce=source.timing.debounce,
        )
        # Whether nodes are asked about follows the configuration.
        self.controller.watches(known.configurations, lambda _: [hooks.NAME])
        self.controller.enqueue(hooks.NAME)

    async def reconcile(self, _: str) -> None:
        """Write what differs."""
        options = self._options
        client = hooks.endpoint(options.webhook_url, options.namespace, self._certificate.trust)
        for resource, wanted in (
            *ownership_policy.policies(),
            *node_policies.policies(options.controllers, node_policies.keys(self._pools.list())),
            *hooks.configurations(
                client,
                options.namespace,
                options.controllers,
                [
                    one.metadata.name
                    for one in self._known.directory.tenants()
                    if compiling.is_about_everything(one)
                ],
                nodes=self._known.directory.config.node_metadata is not None,
            ),
        ):
            raw = self._caches[resource].get(wanted["metadata"]["name"])
            observed: dict[str, Any] | None = msgspec.json.decode(raw) if raw else None
            share = wanted
            if "webhooks" in wanted:
                share = registrations.wanted(
                    wanted, observed, self._applier.field_manager, hooks.FOLLOWING
                )
            await self._applier.apply(resource, share, observed)
        await self._conversion.keep(client)
        self._done = True

    def check(self) -> str:
        """Say what is missing as long as the API server was not told to ask us."""
        return "" if self._done else "webhook configurations are not written yet"


def _respecified(event: store.Event[node_pool.TenantNodePool]) -> bool:
    return event.old is None or event.new is None or event.old.spec != event.new.spec


def _only(names: Collection[str]) -> Callable[[store.Event[bytes]], list[str]]:
    return lambda event: [hooks.NAME] if event.key[1] in names else []


def add(part: manager.Manager, known: state.State, options: settings.Settings) -> None:
    """Add the webhook role to a process."""
    source = part.cluster
    names = hooks.server_names(options.webhook_url, options.namespace)
    certificate = certificates.ServingCertificate(
        source.client,
        options.namespace,
        names,
        secret=lambda: certificates.secret_name(known.directory.config),
        registry=source.metrics,
    )
    server = webhook.Server(
        options.webhook_host,
        options.webhook_port,
        certificate=certificate.pair,
        clients=ca.read_bytes() if (ca := options.webhook_client_ca) else b"",
        timing=source.timing,
        registry=source.metrics,
    )
    recorder = events.Recorder(
        source.client,
        constants.EVENT_CONTROLLER,
        constants.EVENT_INSTANCE,
        timing=source.timing,
        registry=source.metrics,
        home=lambda: known.directory.config.events.namespace,
    )
    content = policies.Policies(source, known)
    part.add_setup("classes", content.look)
    part.add_work("classes", content.run)
    pools = nodes.Pools(source, known.directory)
    handlers = Handlers(
        evidence.Gatherer(source.client, known, options.controllers, content),
        reservations.NamespaceReservations(source.client, options.namespace),
        server.counters,
        audit.Auditor(recorder, known.directory.tenant_named),
        fencing.Fencing(pools),
    )
    for path in (hooks.MUTATE, *hooks.UPSTREAM_MUTATING):
        server.route(path, handlers.mutate)
    for path in (hooks.VALIDATE, *hooks.UPSTREAM_VALIDATING):
        server.route(path, handlers.validate)
    server.route_conversion(hooks.CONVERT, tenant_conversion.convert)
    registration = Registration(source, certificate, options, known, pools)

    async def first() -> None:
        await certificate.refresh()

    async def renew() -> None:
        while True:
            await asyncio.sleep(certificates.POLL)
            if await certificate.renew():
                registration.controller.enqueue(hooks.NAME)

    part.add_check("registration", registration.check)
    part.add_check("certificate", certificate.check)
    part.add_setup("certificate", first)
    part.add_webhook(server)
    part.add_controller(registration.controller, leader=False)
    part.add_work("certificate", renew)
    part.add_work("events", recorder.run)
