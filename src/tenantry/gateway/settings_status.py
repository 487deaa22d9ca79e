"""Say on each ProxySetting and GlobalProxySettings that the gateway follows it, or why not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tenantry.api import meta, resources
from tenantry.api.capsule import constants, proxy_settings
from tenantry.api.capsule import resources as capsule
from tenantry.core import clock, selectors
from tenantry.core import errors as core_errors
from tenantry.gateway import state
from tenantry.kube import errors
from tenantry.runtime import cluster, conditions, controller, permissions, store

Setting = proxy_settings.ProxySetting | proxy_settings.GlobalProxySettings
Key = tuple[str, str]

NEEDS = (
    permissions.Need(capsule.PROXY_SETTINGS, ("patch",), subresource="status"),
    permissions.Need(capsule.GLOBAL_PROXY_SETTINGS, ("patch",), subresource="status"),
)


def wanted(found: Setting, now: float) -> proxy_settings.ProxyStatus:
    """Return the status that an object should have; the same one when nothing is due. Pure."""
    problem = next(iter(_problems(found)), "")
    condition = meta.Condition(
        type=constants.READY,
        status="False" if problem else "True",
        reason="Failed" if problem else "Succeeded",
        message=problem or "reconciled",
        observed_generation=found.metadata.generation,
    )
    kept, _ = conditions.set_condition(found.status.conditions, condition, now)
    return proxy_settings.ProxyStatus(
        observed_generation=found.metadata.generation, conditions=kept
    )


def _problems(found: Setting) -> Iterable[str]:
    """Yield what a rule says that can have no effect."""
    if isinstance(found, proxy_settings.ProxySetting):
        groups = [
            (f"spec.subjects[{index}]", subject.cluster_resources)
            for index, subject in enumerate(found.spec.subjects)
        ]
    else:
        groups = [
            (f"spec.rules[{index}]", rule.cluster_resources)
            for index, rule in enumerate(found.spec.rules)
        ]
    for place, rules in groups:
        for index, rule in enumerate(rules):
            try:
                selectors.matcher(
                    rule.selector.plain(), f"{place}.clusterResources[{index}].selector"
                )
            except core_errors.InvalidValueError as error:
                yield str(error)


def controllers(source: cluster.Cluster) -> list[controller.Controller[Key]]:
    """Return the controllers of both kinds. Every replica runs them: they write the same."""
    return [
        _controller(source, capsule.PROXY_SETTINGS, state.setting_view),
        _controller(source, capsule.GLOBAL_PROXY_SETTINGS, state.global_view),
    ]


def _controller(
    source: cluster.Cluster, resource: resources.Resource, view: Any
) -> controller.Controller[Key]:
    cache = source.informer(resource, view)

    async def reconcile(key: Key) -> None:
        found: Setting | None = cache.get(key[1], key[0])
        if found is None:
            return
        status = wanted(found, clock.wall())
        if status == found.status:
            return
        body = {"status": msgspec.to_builtins(status)}
        try:
            await source.client.patch(
                resource, key[1], key[0], kind="merge", body=body, subresource="status"
            )
        except errors.NotFound:
            return

    def keys(event: store.Event[Any]) -> list[Key]:
        return [event.key]

    made: controller.Controller[Key] = controller.Controller(
        f"{resource.plural}-status", reconcile, timing=source.timing, registry=source.metrics
    )
    made.watches(cache, keys)
    return made
