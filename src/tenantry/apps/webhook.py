"""The webhook role: one mutating and one validating endpoint for all domains."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from tenantry.api.capsule import constants, tenant, tenant_conversion
from tenantry.apps import (
    audit,
    certificate_files,
    certificates,
    configured_keeper,
    evidence,
    fencing,
    hooks,
    policies,
    registering,
    settings,
)
from tenantry.kube import errors
from tenantry.nodes import state as nodes
from tenantry.runtime import (
    admission,
    cluster,
    events,
    manager,
    webhook,
)
from tenantry.tenancy import evidence as tenancy
from tenantry.tenancy import ledger, reservations, state, verdicts
from tenantry.tenancy.admission import (
    break_glass,
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

logger = logging.getLogger(__name__)

UNKNOWABLE = "tenantry could not find out whether this is allowed: {problem}"

#: Share of the API server's patience that reserving may take.
RESERVE_DEADLINE = 6.0

MUTATING = (
    break_glass.MUTATING,
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
    break_glass.VALIDATING,
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


NEEDS = (
    *audit.NEEDS,
    *policies.NEEDS,
    *nodes.POOL_NEEDS,
    *registering.NEEDS,
)


class Handlers:
    """Answers reviews: gathers evidence, runs the steps, reserves what is counted."""

    def __init__(
        self,
        gather: evidence.Gatherer,
        counts: reservations.NamespaceReservations,
        counters: admission.Counters,
        auditor: audit.Auditor,
        *,
        fence: fencing.Fencing,
        configured: configured_keeper.Keeper,
    ) -> None:
        self._mutating = (*MUTATING, *fence.mutating)
        self._validating = (*VALIDATING, *fence.validating)
        self._gather = gather
        self._configured = configured
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
        else:
            self._auditor.tell_mended(review, verdict)
        return verdict

    async def _validate(self, review: admission.Review) -> admission.Verdict:
        known = await self._gather(review)
        verdict = admission.run(self._validating, review, known, counters=self._counters)
        verdict = await self._counted(review, verdict, known)
        verdict = await self._configured.judged(review, verdict)
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


def _certificate(
    source: cluster.Cluster, known: state.State, options: settings.Settings
) -> certificates.Serving:
    if options.webhook_certificate is not None:
        return certificate_files.FileCertificate(*options.webhook_certificate)
    return certificates.ServingCertificate(
        source.client,
        options.namespace,
        lambda: registering.names_of(options, known),
        secret=lambda: certificates.secret_name(known.directory.config),
        registry=source.metrics,
    )


def add(part: manager.Manager, known: state.State, options: settings.Settings) -> None:
    """Add the webhook role to a process."""
    source = part.cluster
    certificate = _certificate(source, known, options)
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
    registration = registering.Registration(
        source,
        options,
        certificate=certificate,
        reload=server.reload,
        known=known,
        pools=pools,
    )
    handlers = Handlers(
        evidence.Gatherer(source.client, known, options.controllers, content),
        reservations.NamespaceReservations(source.client, options.namespace),
        server.counters,
        audit.Auditor(recorder, known.directory.tenant_named),
        fence=fencing.Fencing(pools),
        configured=registration.configured,
    )
    for path in (hooks.MUTATE, *hooks.UPSTREAM_MUTATING):
        server.route(path, handlers.mutate)
    for path in (hooks.VALIDATE, *hooks.UPSTREAM_VALIDATING):
        server.route(path, handlers.validate)
    server.route_conversion(hooks.CONVERT, tenant_conversion.convert)

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
