"""Keep the webhook configurations that a CapsuleConfiguration defines, and say what is wrong."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from tenantry.api import meta, resources
from tenantry.api.capsule import configuration, constants
from tenantry.api.capsule import resources as capsule
from tenantry.apps import configured_clients as clients
from tenantry.apps import configured_hooks as configured
from tenantry.apps import hooks
from tenantry.core import clock
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.runtime import (
    admission,
    apply,
    cluster,
    conditions,
    informer,
    permissions,
    registration,
    store,
    views,
)
from tenantry.tenancy import state, validation

Object = dict[str, Any]

#: Names that Capsule's chart and its configurations use. One's own is allowed by whoever chooses
#: it: who could change any webhook could turn off those of others.
NAMES = (
    "capsule-dynamic-webhook",
    *hooks.UPSTREAM_NAMES,
)
NEEDS = (
    *(
        permissions.Need(side.resource, ("get", "patch", "delete"), names=NAMES)
        for side in clients.SIDES
    ),
    permissions.Need(capsule.CONFIGURATIONS, ("patch",), subresource="status"),
)

#: The condition on the CapsuleConfiguration.
CONDITION = "WebhooksRegistered"
#: Nothing is ever called so: what is asked of the API server without being written.
_TRIAL = "tenantry-trial"
#: More than this is not told; the rest is seen once that is put right.
_MOST_PROBLEMS = 10

_NUMBERED = re.compile(r"webhooks\[\d+\]")


class Keeper:
    """Writes, removes and reports; driven by `registering.Registration`."""

    def __init__(
        self,
        source: cluster.Cluster,
        known: state.State,
        caches: Mapping[resources.Resource, informer.Informer[bytes]],
        *,
        namespace: str,
        controllers: Collection[str],
        now: clock.Clock = clock.wall,
    ) -> None:
        self._client = source.client
        self._known = known
        self._caches = caches
        self._namespace = namespace
        self._controllers = controllers
        self._now = now
        self._applier = apply.Applier(
            source.client, f"{constants.FIELD_MANAGER}/configured-webhooks", timing=source.timing
        )
        #: The configuration as it is, for its status.
        self.raw = source.informer(capsule.CONFIGURATIONS, views.as_bytes)
        #: Side -> the webhooks tried last, and what the API server said of them.
        self._tried: dict[str, tuple[bytes, dict[str, list[str]]]] = {}

    def concerns(self, event: store.Event[bytes]) -> bool:
        """Tell whether an event is about an object that was, or is to be, made here."""
        found = self._configuration()
        if found is None:
            return False
        if event.key[1] in {side.name(found.spec) for side in clients.SIDES}:
            return True
        return any(
            raw is not None and found.metadata.uid.encode() in raw for raw in (event.old, event.new)
        )

    def _configuration(self) -> configuration.CapsuleConfiguration | None:
        return self._known.configurations.get(self._known.configuration_name)

    async def keep(self, ca: bytes) -> None:
        """Make both objects what the configuration says, and report on it."""
        found = self._configuration()
        if found is None:
            # What was made from one that is gone goes with it: the garbage collector sees to that.
            return
        problems: list[str] = []
        notes: list[str] = []
        for side in clients.SIDES:
            made = self._made(side, found.spec)
            problems += made.problems
            notes += made.notes
            found_problems, found_notes = await self._keep(side, made, found, ca)
            problems += found_problems
            notes += found_notes
        await self._report(found, problems, notes)

    def _made(
        self, side: clients.Side, spec: configuration.CapsuleConfigurationSpec
    ) -> configured.Made:
        return configured.make(
            side,
            spec,
            namespace=self._namespace,
            controllers=self._controllers,
            roster=self._known.directory.roster,
        )

    async def _keep(
        self,
        side: clients.Side,
        made: configured.Made,
        owner: configuration.CapsuleConfiguration,
        ca: bytes,
    ) -> tuple[list[str], list[str]]:
        """Return what is wrong, and what was left as it was."""
        left: list[str] = []
        unsound = await self._unsound(side, made)
        sound = [hook for hook in made.hooks if hook.field not in unsound]
        made = dataclasses.replace(made, hooks=sound)
        problems = [text for texts in unsound.values() for text in texts]
        try:
            problems += await self._put(side, made, owner, ca)
            left = await self._prune(side, owner, {made.name} if made.hooks else set())
        except errors.Forbidden as problem:
            problems.append(
                f"spec.admission.{side.field}.name: {problem.message}; a name other than "
                f"{', '.join(NAMES)} has to be allowed to the webhook role"
            )
        return problems, left

    async def _put(
        self,
        side: clients.Side,
        made: configured.Made,
        owner: configuration.CapsuleConfiguration,
        ca: bytes,
    ) -> list[str]:
        if not made.hooks:
            return []
        raw = self._caches[side.resource].get(made.name)
        observed: Object | None = msgspec.json.decode(raw) if raw else None
        if observed is None:
            observed = await self._live(side, made.name)
        if observed is not None and not configured.is_ours(observed, owner):
            return [
                f"spec.admission.{side.field}.name: Invalid value: {made.name!r}: is the name of "
                "a configuration that was not made from this one, so it is left alone"
            ]
        manager = self._applier.field_manager
        trust = clients.bundles(
            side, [hook.body for hook in made.hooks], owner.spec, observed, ca=ca, manager=manager
        )
        wanted = configured.object_of(side, made, owner, trust)
        if observed is not None and registration.kept_by_others(observed, manager):
            return await self._share(side, wanted, observed)
        await self._applier.apply(side.resource, wanted, observed)
        return []

    async def _share(self, side: clients.Side, wanted: Object, observed: Object) -> list[str]:
        """Fill in the caBundle where Capsule, or whoever it is, keeps the rules."""
        trusting = [hook for hook in wanted["webhooks"] if "caBundle" in hook["clientConfig"]]
        if trusting:
            share = registration.wanted(
                {**wanted, "webhooks": trusting}, observed, self._applier.field_manager
            )
            if share["webhooks"]:
                await self._applier.apply(side.resource, share, observed)
        return [
            f"spec.admission.{side.field}.name: {wanted['metadata']['name']} is kept by others, "
            "so only its caBundle is written here; delete it once Capsule runs no more"
        ]

    async def _prune(
        self, side: clients.Side, owner: configuration.CapsuleConfiguration, kept: set[str]
    ) -> list[str]:
        """Delete what was made from this configuration under another name, or is empty now.

        What others keep is theirs to delete, and told.
        """
        left: list[str] = []
        for raw in self._caches[side.resource].list():
            if owner.metadata.uid.encode() not in raw:
                continue
            found = msgspec.json.decode(raw)
            name = found["metadata"]["name"]
            if name in kept or not configured.is_ours(found, owner):
                continue
            if registration.kept_by_others(found, self._applier.field_manager):
                left.append(
                    f"{side.kind} {name} was made from here by others, who keep it; delete it once "
                    "Capsule runs no more"
                )
                continue
            uid = found["metadata"]["uid"]
            await self._applier.delete(side.resource, ("", name), uid=uid)
        return left

    async def _live(self, side: clients.Side, name: str) -> Object | None:
        """Read what the cache does not know: it may have been made a moment ago, by anybody."""
        try:
            return await self._client.get(side.resource, name)
        except errors.NotFound:
            return None

    async def _unsound(self, side: clients.Side, made: configured.Made) -> dict[str, list[str]]:
        """Return what the API server would not take, by the field that defines it."""
        digest = msgspec.json.encode([(hook.field, hook.body) for hook in made.hooks])
        known = self._tried.get(side.field)
        if known is None or known[0] != digest:
            known = digest, await tried(self._client, side, made.hooks)
            self._tried[side.field] = known
        return known[1]

    async def judged(
        self, review: admission.Review, verdict: admission.Verdict
    ) -> admission.Verdict:
        """Refuse definitions that this request brings and no API server would take."""
        if not review.is_about(capsule.CONFIGURATIONS) or review.subresource:
            return verdict
        new, old = _spec(review.object), _spec(review.old)
        if not verdict.allowed or new is None or review.operation == "DELETE":
            return verdict
        if old is not None and (old.admission, old.overrides) == (new.admission, new.overrides):
            return verdict
        problems = await self._problems(new)
        if problems and old is not None:
            before = await self._problems(old)
            problems = [problem for problem in problems if problem not in before]
        if problems:
            return admission.denied(
                validation.message(review.kind, review.name, problems),
                code=422,
                reason="Invalid",
                by="configurations.webhooks",
            )
        notes = [note for side in clients.SIDES for note in self._made(side, new).notes]
        told = (*verdict.warnings, *configured.warnings(new), *notes)
        return dataclasses.replace(verdict, warnings=told)

    async def _problems(self, spec: configuration.CapsuleConfigurationSpec) -> list[str]:
        found = clients.override_problems(spec)
        for side in clients.SIDES:
            made = self._made(side, spec)
            found += made.problems
            unsound = await tried(self._client, side, made.hooks)
            found += [text for texts in unsound.values() for text in texts]
        return found

    async def _report(
        self,
        found: configuration.CapsuleConfiguration,
        problems: Sequence[str],
        notes: Sequence[str],
    ) -> None:
        raw = self.raw.get(found.metadata.name)
        before = conditions.find_condition(found.status.conditions, CONDITION)
        defined = any(side.of(found.spec) is not None for side in clients.SIDES)
        if raw is None or not (defined or before is not None):
            return
        told = [*problems[:_MOST_PROBLEMS], *notes[:_MOST_PROBLEMS]]
        wanted = meta.Condition(
            type=CONDITION,
            status="False" if problems else "True",
            reason=constants.FAILED_REASON if problems else constants.SUCCEEDED_REASON,
            message="; ".join(told) or constants.READY_MESSAGE,
            observed_generation=found.metadata.generation,
        )
        merged, _ = conditions.set_condition([before] if before else [], wanted, self._now())
        status = {
            "apiVersion": constants.API_VERSION,
            "kind": capsule.CONFIGURATIONS.kind,
            "metadata": {"name": found.metadata.name},
            "status": {"conditions": msgspec.to_builtins(merged)},
        }
        await self._applier.apply_status(capsule.CONFIGURATIONS, status, msgspec.json.decode(raw))


async def tried(
    client: kube.Client, side: clients.Side, wanted: Sequence[configured.Hook]
) -> dict[str, list[str]]:
    """Ask the API server what it would not take, all at once and, if need be, one by one."""
    if not wanted:
        return {}
    together = await _try(client, side, [hook.body for hook in wanted])
    if not together:
        return {}
    found: dict[str, list[str]] = {}
    for hook in wanted:
        texts = await _try(client, side, [hook.body])
        if texts:
            found[hook.field] = [_of_field(text, hook.field) for text in texts]
    # Each is well, but not beside the others: then none is registered, rather than some.
    return found or {
        hook.field: [f"spec.admission.{side.field}: {text}" for text in together] for hook in wanted
    }


def _of_field(text: str, field: str) -> str:
    return _NUMBERED.sub(lambda _: field, text, count=1)


async def _try(client: kube.Client, side: clients.Side, bodies: Sequence[Object]) -> list[str]:
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": side.kind,
        "metadata": {"name": _TRIAL},
        "webhooks": list(bodies),
    }
    try:
        await client.create(side.resource, body, dry_run=True)
    except (errors.Invalid, errors.BadRequest) as problem:
        return [f"{cause.field}: {cause.message}" for cause in problem.causes] or [
            f"webhooks[0]: {problem.message}"
        ]
    return []


def _spec(obj: object) -> configuration.CapsuleConfigurationSpec | None:
    if obj is None:
        return None
    try:
        found = msgspec.convert(obj, configuration.CapsuleConfiguration, strict=False)
    except msgspec.ValidationError:
        return None
    return found.spec
