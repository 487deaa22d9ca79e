"""Ask every API server of a cluster the same, and judge the answers."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib import parse

import msgspec

from tenantry.api import resources
from tenantry.core import clock
from tenantry.kube import client as clients
from tenantry.kube import config, errors
from tenantry.nodes import apiservers

Object = dict[str, Any]

_TIMEOUT = 10.0
#: No node has it, so the pods that are tried would be nowhere even if they were made.
_WANTED = {"tenantry.io/api-server-check": "here"}


async def check(credentials: config.Config, *, since: float | None = None) -> list[Any]:
    """Compare the API servers by both methods; return the findings."""
    async with clients.Client(credentials) as client:
        mirrors = await client.list(
            resources.PODS,
            "kube-system",
            label_selector=",".join(f"{k}={v}" for k, v in apiservers.SELECTOR.items()),
            timeout=_TIMEOUT,
        )
        pods = [msgspec.json.decode(raw) for raw in mirrors.items]
        slices = await client.list(
            resources.ENDPOINT_SLICES,
            "default",
            label_selector="kubernetes.io/service-name=kubernetes",
            timeout=_TIMEOUT,
        )
        where = apiservers.addresses(msgspec.json.decode(raw) for raw in slices.items)
        # Outside of tenants, where nobody but the plugin itself would add the selector.
        async with _namespace(client) as namespace:
            answers = await asyncio.gather(
                *(_ask(credentials, address, port, namespace) for address, port in where)
            )
    return [
        *apiservers.static(pods, since=since),
        *apiservers.behavioural(answers, _WANTED),
    ]


@asynccontextmanager
async def _namespace(client: clients.Client) -> AsyncIterator[str]:
    name = f"tenantry-check-{secrets.token_hex(4)}"
    text = ",".join(f"{key}={value}" for key, value in _WANTED.items())
    annotations = {apiservers.ANNOTATION: text}
    body = {"metadata": {"name": name, "annotations": annotations}}
    await client.create(resources.NAMESPACES, body, timeout=_TIMEOUT)
    try:
        yield name
    finally:
        await client.delete(resources.NAMESPACES, name, timeout=_TIMEOUT)


async def _ask(
    credentials: config.Config, address: str, port: int, namespace: str
) -> apiservers.Answer:
    host = f"[{address}]" if ":" in address else address
    name = credentials.tls_server_name or parse.urlsplit(credentials.server).hostname or ""
    one = dataclasses.replace(
        credentials, server=f"https://{host}:{port}", tls_server_name=name, proxy_url=""
    )
    where = f"{host}:{port}"
    async with clients.Client(one) as client:
        ready = await _ready(client)
        try:
            selector = await _selector(client, namespace)
        except errors.KubeError as problem:
            return apiservers.Answer(address=where, ready=ready, problem=str(problem))
        conflict = ""
        try:
            other = dict.fromkeys(_WANTED, "elsewhere")
            await client.create(resources.PODS, _pod(namespace, other), dry_run=True)
        except errors.ApiError as problem:
            conflict = problem.message
    return apiservers.Answer(address=where, ready=ready, selector=selector, conflict=conflict)


async def _ready(client: clients.Client) -> str:
    try:
        await client.request("GET", "/readyz", timeout=_TIMEOUT)
    except errors.KubeError as problem:
        return str(problem)
    return ""


async def _selector(client: clients.Client, namespace: str) -> dict[str, str]:
    """Dry-run a pod; a server that has not heard of the namespace yet is asked again."""
    deadline = clock.monotonic() + _TIMEOUT
    while True:
        try:
            pod = await client.create(
                resources.PODS, _pod(namespace, {}), dry_run=True, timeout=_TIMEOUT
            )
        except errors.ApiError as problem:
            # Its service account is made a moment after the namespace.
            waiting = "serviceaccount" in problem.message or problem.code == 404
            if not waiting or clock.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
            continue
        found: dict[str, str] = pod["spec"].get("nodeSelector") or {}
        return found


def _pod(namespace: str, selector: dict[str, str]) -> Object:
    return {
        "metadata": {"name": "check", "namespace": namespace},
        "spec": {
            "containers": [{"name": "check", "image": "none.invalid/none"}],
            "nodeSelector": selector,
        },
    }
