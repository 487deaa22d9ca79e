"""Tell the API server that we convert Tenants: the part of their definition that is ours.

Whoever installs the kinds says nothing of it, so that kinds can be installed again at any time.
Without it Tenants of both versions would be taken for the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.apps import hooks
from tenantry.runtime import cluster, permissions

Object = dict[str, Any]

NAME = capsule.TENANTS.group_resource
FIELD_MANAGER = f"{constants.FIELD_MANAGER}/conversion"

NEEDS = (
    permissions.Need(resources.CRDS, permissions.READ, names=(NAME,)),
    permissions.Need(resources.CRDS, ("patch",), names=(NAME,)),
)

#: What is removed to go from a Service to an address and back.
_PLACES = ("url", "service")


class _Spec(msgspec.Struct):
    conversion: Object = {}


class _Definition(msgspec.Struct):
    spec: _Spec


_DEFINITION = msgspec.json.Decoder(_Definition)


def view(raw: bytes) -> Object:
    """Return how a definition's kind is converted; the schemas are large, and not kept."""
    return _DEFINITION.decode(raw).spec.conversion


class Keeper:
    """Keeps the definition of Tenants pointing here."""

    def __init__(self, source: cluster.Cluster) -> None:
        self._client = source.client
        self._deadline = source.timing.write
        self.definitions = source.informer(
            resources.CRDS, view, field_selector=f"metadata.name={NAME}"
        )

    async def keep(self, client: Object) -> None:
        """Write what differs; without a definition there is nothing to say yet."""
        found = self.definitions.get(NAME)
        wanted = hooks.conversion(client)
        if found is None or found == wanted:
            return
        await self._client.patch(
            resources.CRDS,
            NAME,
            kind="merge",
            body={"spec": {"conversion": change(wanted)}},
            field_manager=FIELD_MANAGER,
            timeout=self._deadline,
        )


def change(wanted: Object) -> Object:
    """Return the merge patch that also takes away the place there was before; pure."""
    place = wanted["webhook"]["clientConfig"]
    whole = {**dict.fromkeys(_PLACES), **place}
    return {**wanted, "webhook": {**wanted["webhook"], "clientConfig": whole}}
