"""Tell the API server what to ask: webhook configurations, policies, conversion of Tenants."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.tenantry import node_pool
from tenantry.apps import (
    certificates,
    configured_clients,
    configured_keeper,
    conversions,
    hooks,
    ownership_policy,
    settings,
)
from tenantry.core import errors as core_errors
from tenantry.nodes import policies as node_policies
from tenantry.nodes import state as nodes
from tenantry.runtime import apply, cluster, controller, informer, permissions, store, views
from tenantry.runtime import registration as registrations
from tenantry.tenancy import state
from tenantry.tenancy.policy import compiling

#: Kind -> names of the objects that we keep of it.
_KEPT = {
    resources.MUTATING_WEBHOOKS: (hooks.NAME,),
    resources.VALIDATING_WEBHOOKS: (hooks.NAME,),
    resources.VALIDATING_POLICIES: (ownership_policy.NAME, node_policies.NAME),
    resources.VALIDATING_POLICY_BINDINGS: (ownership_policy.NAME, node_policies.NAME),
}

NEEDS = (
    conversions.NEEDS
    + configured_keeper.NEEDS
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


class Registration:
    """Keeps the webhook configurations and policies as `hooks` says; a controller of one key."""

    def __init__(
        self,
        source: cluster.Cluster,
        options: settings.Settings,
        *,
        certificate: certificates.Serving,
        reload: Callable[[], None],
        known: state.State,
        pools: nodes.Pools,
    ) -> None:
        """Ask for the informers; the controller is for a manager to run.

        :param reload: makes the server look at the certificate at once
        """
        self._reload = reload
        self._named: list[str] | None = None
        #: What says where the API server comes to.
        self._placed = known.directory.config
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
        self._caches: dict[resources.Resource, informer.Informer[bytes]] = {}
        self._done = False
        self._conversion = conversions.Keeper(source)
        self.controller.watches(self._conversion.definitions, lambda _: [hooks.NAME])
        self.configured = configured_keeper.Keeper(
            source,
            known,
            self._caches,
            namespace=options.namespace,
            controllers=options.controllers,
        )
        for resource, names in _KEPT.items():
            cache = source.informer(resource, views.as_bytes)
            self._caches[resource] = cache
            self.controller.watches(cache, _only(names, self.configured.concerns))
        self.controller.watches(self.configured.raw, lambda _: [hooks.NAME])
        # Whose requests configured webhooks are about follows users, administrators and these.
        self.controller.watches(
            known.tenant_owners, lambda _: [hooks.NAME], debounce=source.timing.debounce
        )
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
        problem = await self._name()
        mutating, client = (
            configured_clients.endpoint(
                side,
                self._placed,
                url=options.webhook_url,
                namespace=options.namespace,
                ca=self._certificate.trust,
            )
            for side in configured_clients.SIDES
        )
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
                mutating=mutating,
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
        # Last: what is wrong with it must not keep the rest from being registered.
        await self.configured.keep(self._certificate.trust)
        if problem is not None:
            raise problem

    async def _name(self) -> core_errors.TenantryError | None:
        """Serve with a certificate for every name by which the API server is told to come.

        While there is none, it is told to come where it came before: what else has changed must
        reach it all the same.
        """
        names = names_of(self._options, self._known)
        if self._named is not None and names != self._named:
            try:
                await self._certificate.refresh()
                self._reload()
            except core_errors.TenantryError as problem:
                return problem
        self._named, self._placed = names, self._known.directory.config
        return None

    def check(self) -> str:
        """Say what is missing as long as the API server was not told to ask us."""
        return "" if self._done else "webhook configurations are not written yet"


def _respecified(event: store.Event[node_pool.TenantNodePool]) -> bool:
    return event.old is None or event.new is None or event.old.spec != event.new.spec


def _only(
    names: Collection[str], more: Callable[[store.Event[bytes]], bool]
) -> Callable[[store.Event[bytes]], list[str]]:
    return lambda event: [hooks.NAME] if event.key[1] in names or more(event) else []


def names_of(options: settings.Settings, known: state.State) -> list[str]:
    """Return what the serving certificate must name."""
    return configured_clients.server_names(
        known.directory.config, url=options.webhook_url, namespace=options.namespace
    )
