"""Things done to an object through a subresource of its own: evict, bind, scale, issue a token."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tenantry.api import resources
from tenantry.core import clock
from tenantry.kube import client as clients


async def evict(
    client: clients.Client,
    name: str,
    namespace: str,
    *,
    uid: str = "",
    grace_seconds: int | None = None,
    dry_run: bool = False,
    timeout: float | None = None,
) -> None:
    """Delete a pod as far as its disruption budgets allow.

    :raises TooManyRequests: when a budget forbids it now (a cause has reason DisruptionBudget)
    :raises Conflict: when the pod has another uid; the API server itself tries for 10 s before it
        says so, and a shorter deadline leaves the outcome unknown
    """
    options: dict[str, Any] = {}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": options,
    }
    await client.create(
        resources.PODS, eviction, subresource="eviction", dry_run=dry_run, timeout=timeout
    )


async def bind(
    client: clients.Client,
    name: str,
    namespace: str,
    *,
    node: str,
    uid: str,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> None:
    """Assign a pod to a node, and add metadata to it in the same write.

    :param uid: of the pod decided about; another incarnation is refused
    :raises Conflict: when the pod is bound, being deleted, or has another uid
    """
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if labels:
        metadata["labels"] = dict(labels)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await client.create(resources.PODS, binding, subresource="binding", timeout=timeout)


async def scale(
    client: clients.Client,
    resource: resources.Resource,
    name: str,
    namespace: str,
    *,
    replicas: int,
    field_manager: str = "",
    dry_run: bool = False,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Set the number of replicas, and nothing else; gives the Scale."""
    return await client.patch(
        resource,
        name,
        namespace,
        kind="merge",
        body={"spec": {"replicas": replicas}},
        subresource="scale",
        field_manager=field_manager,
        dry_run=dry_run,
        timeout=timeout,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Token:
    """A service account's token, and until when the server accepts it (wall-clock seconds)."""

    token: str = dataclasses.field(repr=False)
    expires: float


async def issue_token(
    client: clients.Client,
    service_account: str,
    namespace: str,
    *,
    audiences: Sequence[str] = (),
    seconds: int = 3600,
    bound_to: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Token:
    """Issue a token for a service account.

    :param audiences: by default the API server's own
    :param seconds: lifetime asked for, at least 600; the server may give another
    :param bound_to: ``{apiVersion, kind, name, uid}`` of the object with which the token dies
    """
    spec: dict[str, Any] = {"expirationSeconds": seconds}
    if audiences:
        spec["audiences"] = list(audiences)
    if bound_to:
        spec["boundObjectRef"] = dict(bound_to)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": service_account, "namespace": namespace},
        "spec": spec,
    }
    # One token more does no harm, so a lost answer may be asked for again.
    answer = await client.create(
        resources.SERVICE_ACCOUNTS,
        request,
        subresource="token",
        effect="repeatable",
        timeout=timeout,
    )
    status = answer["status"]
    return Token(token=status["token"], expires=clock.parse_rfc3339(status["expirationTimestamp"]))
