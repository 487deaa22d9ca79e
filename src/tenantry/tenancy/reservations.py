"""Reserve namespaces in a tenant's ledger: the I/O around `tenantry.tenancy.ledger`.

One writer per ledger and process folds all waiting requests into one compare-and-set. A plain
retry loop lets 30 of 200 concurrent requests through; this one lets all through in a few writes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.core import clock, quantity
from tenantry.directory import state as directory
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.runtime import permissions
from tenantry.tenancy import ledger, verdicts

#: The API server ends a request after this long (`--request-timeout`), so a namespace whose
#: admission is older and that a quorum read does not show will never appear.
REQUEST_TIMEOUT = 60.0

QUOTA_EXCEEDED = "Cannot exceed Namespace quota: please, reach out to the system administrators"
TRY_AGAIN = (
    "the namespace could not be counted against the quota of tenant {tenant} in time; try again"
)
TOO_MANY = (
    "too many attempts to create namespace {name} are undecided; stop trying for a minute, and see "
    "why the earlier ones were refused"
)
NO_HOME = (
    'namespace "{namespace}", in which Tenantry counts, does not exist, so no namespace of tenant '
    "{tenant} can be counted against its quota"
)

#: Seconds before a lost race is run again: at first, and at most.
FIRST_WAIT, LONGEST_WAIT = 0.01, 0.5


NEEDS = (
    permissions.Need(capsule.QUANTITY_LEDGERS, ("get", "create"), own=True),
    permissions.Need(capsule.QUANTITY_LEDGERS, ("update",), subresource="status", own=True),
    permissions.Need(resources.NAMESPACES, ("list",)),
)

Object = dict[str, Any]


@dataclass(slots=True)
class _Waiting:
    claim: ledger.Claim
    owner: tenant.Tenant
    dry_run: bool
    answer: asyncio.Future[verdicts.Denial | None]


@dataclass(slots=True)
class _Line:
    waiting: list[_Waiting] = field(default_factory=list)
    writer: asyncio.Task[None] | None = None


def counted(owner: tenant.Tenant) -> bool:
    """Tell whether a tenant's namespaces are limited at all."""
    options = owner.spec.namespace_options
    return options is not None and options.quota is not None


class NamespaceReservations:
    """Hold room for namespaces between their admission and their appearance."""

    def __init__(
        self,
        client: kube.Client,
        namespace: str,
        *,
        now: Callable[[], float] = clock.wall,
        lifetime: float = REQUEST_TIMEOUT,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._now = now
        self._lifetime = lifetime
        self._rng = rng
        self._lines: dict[str, _Line] = {}

    async def reserve(
        self, owner: tenant.Tenant, claim: ledger.Claim, *, deadline: float, dry_run: bool = False
    ) -> verdicts.Denial | None:
        """Reserve room for one namespace; None when it is held.

        :param owner: the tenant as just read; its quota is the limit
        :param deadline: seconds to wait at most
        :param dry_run: compute only
        """
        if not counted(owner):
            return None
        future: asyncio.Future[verdicts.Denial | None] = asyncio.get_running_loop().create_future()
        line = self._lines.setdefault(owner.metadata.uid, _Line())
        line.waiting.append(_Waiting(claim, owner, dry_run, future))
        if line.writer is None:
            line.writer = asyncio.create_task(self._write(owner.metadata.uid, line))
        try:
            async with asyncio.timeout(deadline):
                return await future
        except TimeoutError:
            message = TRY_AGAIN.format(tenant=owner.metadata.name)
            return verdicts.Denial(message, code=503)

    async def settle(self, owner: tenant.Tenant) -> float | None:
        """Drop reservations whose object was seen or can no longer appear.

        Returns when the next one may be dropped, in seconds since the epoch; None when the
        ledger is clear. Safe beside the writers of other processes: a lost race is theirs.
        """
        found = await self._read(owner, create=False)
        if found is None or not _reservations(found):
            return None
        folded = self._fold(owner, _reservations(found), await self._observed(owner), [])
        await self._save(found, folded)
        left = [ledger.expiry(reservation, self._lifetime) for reservation in folded.reservations]
        return min(left) if left else None

    async def _write(self, uid: str, line: _Line) -> None:
        """Serve a line until nobody waits any more."""
        try:
            while line.waiting:
                batch, line.waiting = line.waiting, []
                try:
                    await self._serve(batch)
                except Exception as problem:
                    for waiting in batch:
                        if not waiting.answer.done():
                            waiting.answer.set_exception(problem)
        finally:
            # No await since the line was found empty, so nobody joined it in between.
            line.writer = None
            self._lines.pop(uid, None)

    async def _serve(self, batch: list[_Waiting]) -> None:
        """Fold a batch into the ledger; a lost race or an unknown outcome is read back."""
        # The youngest reading of the tenant has the limit that counts.
        owner = batch[-1].owner
        lost = 0
        while batch := [waiting for waiting in batch if not waiting.answer.done()]:
            binding = [waiting.claim for waiting in batch if not waiting.dry_run]
            trial = [waiting.claim for waiting in batch if waiting.dry_run]
            try:
                found = await self._read(owner, create=bool(binding)) or {}
                observed = await self._observed(owner)
                folded = self._fold(owner, _reservations(found), observed, binding)
                await self._save(found, folded)
            except (errors.Conflict, errors.OutcomeUnknown, errors.NotFound) as problem:
                if _homeless(problem):
                    message = NO_HOME.format(namespace=self._namespace, tenant=owner.metadata.name)
                    raise errors.NotFound(404, "NotFound", message) from problem
                lost += 1
                longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(lost, 16))
                await asyncio.sleep(longest * self._rng())
                continue
            # Each dry run is judged as if it were alone.
            folds = [
                folded,
                *(self._fold(owner, folded.reservations, observed, [claim]) for claim in trial),
            ]
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_result(_answer(waiting.claim, folds))

    async def _observed(self, owner: tenant.Tenant) -> set[str]:
        """List the uids of the tenant's namespaces by quorum; to be called after `_read`."""
        selector = f"{constants.TENANT_LABEL}={owner.metadata.name}"
        listed = await self._client.list(resources.NAMESPACES, label_selector=selector)
        return {directory.namespace_view(raw).uid for raw in listed.items}

    def _fold(
        self,
        owner: tenant.Tenant,
        reservations: list[Object],
        observed: set[str],
        claims: list[ledger.Claim],
    ) -> ledger.Fold:
        options = owner.spec.namespace_options
        limit = options.quota if options is not None and options.quota is not None else 0
        return ledger.fold(
            reservations,
            used=quantity.parse(len(observed)),
            observed=observed,
            claims=claims,
            limit=quantity.parse(limit),
            now=self._now(),
            lifetime=self._lifetime,
        )

    async def _save(self, found: Object, folded: ledger.Fold) -> None:
        """Write the fold where the ledger was read; raises Conflict if somebody was faster."""
        if folded.changed and found:
            body = {**found, "status": {**(found.get("status") or {}), **ledger.status(folded)}}
            await self._client.replace(capsule.QUANTITY_LEDGERS, body, subresource="status")

    async def _read(self, owner: tenant.Tenant, *, create: bool) -> Object | None:
        wanted = ledger.namespaces_ledger(owner, self._namespace)
        name = wanted["metadata"]["name"]
        try:
            return await self._client.get(capsule.QUANTITY_LEDGERS, name, self._namespace)
        except errors.NotFound:
            if not create:
                return None
        try:
            return await self._client.create(
                capsule.QUANTITY_LEDGERS, wanted, field_manager=constants.FIELD_MANAGER
            )
        except (errors.AlreadyExists, errors.OutcomeUnknown):
            return await self._client.get(capsule.QUANTITY_LEDGERS, name, self._namespace)


def _answer(claim: ledger.Claim, folds: list[ledger.Fold]) -> verdicts.Denial | None:
    if any(claim.uid in fold.granted for fold in folds):
        return None
    if any(claim.uid in fold.crowded for fold in folds):
        return verdicts.Denial(TOO_MANY.format(name=claim.name), code=429)
    return verdicts.Denial(QUOTA_EXCEEDED)


def _homeless(problem: errors.KubeError) -> bool:
    """Tell whether nothing was found because the namespace to count in is not there."""
    if not isinstance(problem, errors.NotFound):
        return False
    return problem.details.kind == resources.NAMESPACES.plural


def _reservations(found: Object) -> list[Object]:
    reservations: list[Object] = (found.get("status") or {}).get("reservations") or []
    return reservations
