"""The watches that feed the snapshot, and the discovery of what is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from tenantry.api import resources
from tenantry.api.capsule import proxy_settings
from tenantry.api.capsule import resources as capsule
from tenantry.gateway import snapshot
from tenantry.kube import client as kube
from tenantry.kube import discovery, errors
from tenantry.runtime import cluster, informer, permissions, store

logger = logging.getLogger(__name__)

#: Seconds between two looks at what is served; a new kind is known after at most as long.
_DISCOVERY = 10.0

#: Where rights are said.
RIGHTS = (
    resources.ROLES,
    resources.ROLE_BINDINGS,
    resources.CLUSTER_ROLES,
    resources.CLUSTER_ROLE_BINDINGS,
)
NEEDS = (
    permissions.Need(capsule.PROXY_SETTINGS, permissions.READ),
    permissions.Need(capsule.GLOBAL_PROXY_SETTINGS, permissions.READ),
    *(permissions.Need(resource, permissions.READ) for resource in RIGHTS),
)

_SETTING = msgspec.json.Decoder(proxy_settings.ProxySetting, strict=False)
_GLOBAL = msgspec.json.Decoder(proxy_settings.GlobalProxySettings, strict=False)


def setting_view(raw: bytes) -> proxy_settings.ProxySetting:
    """Project one ProxySetting."""
    return _SETTING.decode(raw)


def global_view(raw: bytes) -> proxy_settings.GlobalProxySettings:
    """Project one GlobalProxySettings."""
    return _GLOBAL.decode(raw)


class State:
    """Informers of one cluster and the snapshot they feed."""

    def __init__(
        self, source: cluster.Cluster, known: snapshot.Snapshot, *, reflector: bool = False
    ) -> None:
        """Ask for the informers; they begin when the cluster is started.

        :param reflector: whether RoleBindings make namespaces visible
        """
        self._client: kube.Client = source.client
        self.snapshot = known
        self.settings: informer.Informer[proxy_settings.ProxySetting] = source.informer(
            capsule.PROXY_SETTINGS, setting_view
        )
        self.globals: informer.Informer[proxy_settings.GlobalProxySettings] = source.informer(
            capsule.GLOBAL_PROXY_SETTINGS, global_view
        )
        self.settings.subscribe(self._setting)
        self.globals.subscribe(self._global)
        if reflector:
            bindings = source.informer(resources.ROLE_BINDINGS, snapshot.binding_view)
            bindings.subscribe(self._binding)
        self._source = source

    def follow_rights(self, changed: Callable[[store.Event[snapshot.RightView]], None]) -> None:
        """Tell of every change of RBAC."""
        for resource in RIGHTS:
            self._source.informer(resource, snapshot.right_view).subscribe(changed)

    async def discover(self) -> None:
        """Find out what is served. A group that does not answer keeps what was known of it."""
        found = await discovery.discover(self._client)
        scopes = {
            (one.group, one.version, one.plural): (one.namespaced, one.kind)
            for one in (served.resource for served in found.served)
        }
        failed = set(found.failed)
        for key, known in self.snapshot.scopes.items():
            if f"{key[0]}/{key[1]}".lstrip("/") in failed:
                scopes.setdefault(key, known)
        self.snapshot.scopes_are(scopes)

    async def keep_discovering(self) -> None:
        """Look again and again until cancelled."""
        while True:
            try:
                await self.discover()
            except (errors.KubeError, msgspec.MsgspecError) as error:
                logger.warning("discovery_failed", extra={"why": str(error)})
            await asyncio.sleep(_DISCOVERY)

    def _setting(self, event: store.Event[proxy_settings.ProxySetting]) -> None:
        self.snapshot.setting_changed(event.key[0], event.key[1], event.new)

    def _global(self, event: store.Event[proxy_settings.GlobalProxySettings]) -> None:
        self.snapshot.global_changed(event.key[1], event.new)

    def _binding(self, event: store.Event[snapshot.BindingView]) -> None:
        self.snapshot.binding_changed(event.old, event.new)
