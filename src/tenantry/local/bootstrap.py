"""What is done at the API server itself on every start: objects, nodes, and the roles' tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.core import clock
from tenantry.kube import actions, config, install
from tenantry.kube import client as clients
from tenantry.local import credentials, manifests, nodes, plan, plane, state

MANAGER = "tenantry-local"
#: Seconds a token is good for. It is renewed at half of that, so that an API server which is
#: down for a while does not leave a role without.
TOKEN_SECONDS = 7200


class Bootstrap:
    """The chores of one platform; speaks as its admin, from the first task on."""

    def __init__(self, described: plan.Plan, paths: state.Layout) -> None:
        self.plan = described
        self.paths = paths
        self._client: clients.Client | None = None
        #: Role -> when its token is to be renewed, wall-clock seconds.
        self._renew_at: dict[str, float] = {}

    @property
    def client(self) -> clients.Client:
        if self._client is None:
            self._client = clients.Client(config.load(self.paths.admin_kubeconfig))
        return self._client

    def task(self, name: str) -> Callable[[], Awaitable[None]]:
        return {
            plane.MANIFESTS: self.apply_manifests,
            plane.TOKENS: self.issue_tokens,
            plane.NODES: self.apply_nodes,
        }[name]

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def apply_manifests(self) -> None:
        """Apply the platform's own objects, then those of the plan's files."""
        await install.apply(self.client, manifests.own(self.plan), field_manager=MANAGER)
        given = [item for path in self.plan.manifests for item in manifests.read(Path(path))]
        await install.apply(self.client, given, field_manager=MANAGER)

    async def issue_tokens(self) -> None:
        for role in self.plan.roles:
            await self._issue(role)

    async def renew(self) -> None:
        """Renew the tokens that are past half of their life."""
        now = clock.wall()
        for role in self.plan.roles:
            if self._renew_at.get(role.name, now + 1) <= now:
                await self._issue(role)

    async def _issue(self, role: plan.Role) -> None:
        now = clock.wall()
        token = await actions.issue_token(
            self.client, role.service_account, role.namespace, seconds=TOKEN_SECONDS
        )
        state.write(credentials.token_file(self.paths, role), token.token.encode())
        self._renew_at[role.name] = now + (token.expires - now) / 2

    async def apply_nodes(self) -> None:
        """Make the plan's nodes, remove those of an earlier plan, and wait until all are ready."""
        wanted = {node["metadata"]["name"]: node for node in self.plan.nodes}
        there = await self._nodes()
        writes: list[Awaitable[Any]] = [
            self.client.delete(resources.NODES, name) for name in there if name not in wanted
        ]
        writes += [self._apply_node(node, there.get(name)) for name, node in wanted.items()]
        await install.in_parallel(writes)
        while True:
            late = [node for node in (await self._nodes()).values() if not _is_ready(node)]
            if not late:
                return
            await asyncio.sleep(0.1 + len(late) / 1000)

    async def _nodes(self) -> dict[str, dict[str, Any]]:
        listed = await self.client.list(resources.NODES, label_selector=nodes.LABEL)
        found = [msgspec.json.decode(raw, type=dict[str, Any]) for raw in listed.items]
        return {node["metadata"]["name"]: node for node in found}

    async def _apply_node(self, wanted: Mapping[str, Any], there: Mapping[str, Any] | None) -> None:
        if there is None:
            await self.client.create(resources.NODES, wanted, field_manager=MANAGER)
            return
        # Not the spec: its taints belong to the node's life by now.
        metadata, status = wanted["metadata"], wanted["status"]
        if not metadata["labels"].items() <= there["metadata"].get("labels", {}).items():
            await self.client.apply(resources.NODES, {"metadata": metadata}, field_manager=MANAGER)
        if any(there.get("status", {}).get(key) != status[key] for key in status):
            await self.client.patch(
                resources.NODES,
                metadata["name"],
                kind="json",
                body=[
                    {"op": "add", "path": f"/status/{key}", "value": status[key]} for key in status
                ],
                subresource="status",
            )


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
