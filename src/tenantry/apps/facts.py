"""Gather what `doctor` judges: reads, access reviews, and one dry run that calls the webhooks."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import aiohttp
import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from tenantry.api import resources
from tenantry.apps import certificates, doctor, hooks, permissions, validity
from tenantry.core import clock
from tenantry.core import errors as core_errors
from tenantry.kube import access, discovery, errors
from tenantry.kube import client as clients
from tenantry.runtime import permissions as needs

T = TypeVar("T")
Object = dict[str, Any]

#: Access reviews under way at a time.
_AT_ONCE = 16
_TIMEOUT = 10.0
#: Seconds for the first question: without an answer to it there is nothing else to ask.
FIRST = 5.0
_HEARD = re.compile(r'^informer_silence_seconds\{resource="([^"]+)"\} (\S+)$', re.MULTILINE)


async def gather(
    client: clients.Client,
    namespace: str,
    wanted_kinds: Mapping[str, frozenset[str]],
    probes: Sequence[str] = (),
    *,
    wall: clock.Clock = clock.wall,
) -> doctor.Facts:
    """Find out everything; what cannot be is noted as a problem.

    :param probes: addresses (http://host:port) of roles' probes
    """
    facts = doctor.Facts(now=wall(), namespace=namespace, wanted_kinds=wanted_kinds)
    problems: dict[str, str] = {}

    async def ask(check: str, question: Awaitable[T]) -> T | None:
        try:
            return await question
        except (errors.KubeError, core_errors.TenantryError, ValueError) as error:
            problems[check] = str(error)
            return None

    version = await ask("server", discovery.version(client, timeout=FIRST))
    roles = tuple(await asyncio.gather(*(_role(address) for address in probes)))
    if version is None:
        return dataclasses.replace(facts, problems=problems, roles=roles)
    # The clock first and alone: others at the same time would make its answer late.
    skew = await ask("clock", _skew(client, wall))
    secrets, configurations, kinds, called, missing, leases = await asyncio.gather(
        ask("certificates", validity.secrets(client, namespace, _TIMEOUT)),
        ask("webhooks", _configurations(client)),
        ask("kinds", _kinds(client)),
        _call(client),
        ask("permissions", _missing(client, namespace)),
        ask("leases", _leases(client, namespace)),
    )
    leaf = (secrets or {}).get(certificates.SECRET, {}).get("tls.crt", b"")
    known = [*validity.of_identity(client.config), *validity.of_secrets(secrets or {})]
    return dataclasses.replace(
        facts,
        version=(int(version.major or 0), int(version.minor.rstrip("+") or 0)),
        skew=skew,
        kinds=kinds,
        certificates=known,
        hooks=_hooks(configurations, leaf) if configurations is not None else None,
        called=called,
        missing=missing,
        leases=leases,
        problems=problems,
        roles=roles,
    )


async def _skew(client: clients.Client, wall: clock.Clock) -> tuple[float, float] | None:
    before = wall()
    answer = await client.request("GET", "/version", timeout=_TIMEOUT)
    after = wall()
    stamp = answer.headers.get("Date", "")
    if not stamp:
        return None
    theirs = parsedate_to_datetime(stamp).timestamp() + 0.5  # whole seconds, cut off
    return theirs - (before + after) / 2, (after - before) / 2 + 0.5


async def _kinds(client: clients.Client) -> dict[str, doctor.Kind]:
    found: dict[str, doctor.Kind] = {}
    for crd in _decoded((await client.list(resources.CRDS, timeout=_TIMEOUT)).items):
        conditions = {
            each["type"]: each for each in (crd.get("status") or {}).get("conditions") or ()
        }
        established = conditions.get("Established") or {}
        found[crd["metadata"]["name"]] = doctor.Kind(
            versions=frozenset(
                each["name"] for each in crd["spec"]["versions"] if each.get("served")
            ),
            established=established.get("status") == "True",
            message=established.get("message") or "",
        )
    return found


async def _configurations(client: clients.Client) -> list[Object]:
    found = []
    for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS):
        found += _decoded((await client.list(resource, timeout=_TIMEOUT)).items)
    return found


def _hooks(configurations: Iterable[Object], leaf: bytes) -> list[doctor.Hook]:
    found = []
    for configuration in configurations:
        name = configuration["metadata"]["name"]
        for hook in configuration.get("webhooks") or ():
            service = hook["clientConfig"].get("service") or {}
            if name != hooks.NAME and service.get("name") != hooks.SERVICE:
                continue
            bundle = base64.b64decode(hook["clientConfig"].get("caBundle") or "")
            found.append(
                doctor.Hook(
                    configuration=name,
                    name=hook["name"],
                    trusted=trusts(bundle, leaf),
                    fails_closed=hook.get("failurePolicy") != "Ignore",
                )
            )
    return found


def trusts(bundle: bytes, leaf: bytes) -> bool:
    """Tell whether a certificate of the bundle has signed the leaf; pure."""
    try:
        served = x509.load_pem_x509_certificate(leaf)
        authorities = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return False
    for authority in authorities:
        try:
            served.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue  # another name, another kind of key, another key
        return True
    return False


async def _call(client: clients.Client) -> str | None:
    """Let the API server call the webhooks of namespaces, in a dry run that changes nothing."""
    try:
        await client.create(
            resources.NAMESPACES,
            {"metadata": {"generateName": "tenantry-doctor-"}},
            dry_run=True,
            timeout=_TIMEOUT + 20.0,
        )
    except errors.ApiError as error:
        failed = "failed calling webhook" in error.message and hooks.NAME in error.message
        return error.message if failed else ""
    except errors.KubeError:
        return None
    return ""


async def _missing(client: clients.Client, namespace: str) -> list[str]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(account: str, need: needs.Need, verb: str, name: str) -> str:
        question = access.Question(
            verb=verb,
            resource=need.resource,
            namespace=namespace if need.own else "",
            name=name,
            subresource=need.subresource,
        )
        async with gate:
            answer = await access.can(
                client,
                question,
                user=f"system:serviceaccount:{namespace}:{account}",
                groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
                timeout=_TIMEOUT,
            )
        what = need.resource.group_resource + (f"/{need.subresource}" if need.subresource else "")
        where = f" in {namespace}" if need.own else ""
        return "" if answer.allowed else f"{account} {verb} {what}{where}"

    asked = {
        (account, need, verb, name)
        for account, all_needs in permissions.ROLES.items()
        for need in all_needs
        for verb in need.verbs
        for name in need.names or ("",)
    }
    return sorted(filter(None, await asyncio.gather(*(one(*each) for each in asked))))


async def _leases(client: clients.Client, namespace: str) -> list[doctor.Lease]:
    found = []
    for lease in _decoded((await client.list(resources.LEASES, namespace, timeout=_TIMEOUT)).items):
        spec = lease.get("spec") or {}
        renewed = spec.get("renewTime")
        found.append(
            doctor.Lease(
                name=lease["metadata"]["name"],
                holder=spec.get("holderIdentity") or "",
                renewed=clock.parse_rfc3339(renewed) if renewed else 0.0,
                duration=float(spec.get("leaseDurationSeconds") or 0),
            )
        )
    return found


async def _role(address: str) -> doctor.Role:
    limit = aiohttp.ClientTimeout(total=_TIMEOUT)
    try:
        async with aiohttp.ClientSession(timeout=limit) as session:
            async with session.get(f"{address}/readyz", params={"verbose": ""}) as answer:
                lines = (await answer.text()).splitlines()
            async with session.get(f"{address}/metrics") as answer:
                metrics = await answer.text()
    except (aiohttp.ClientError, TimeoutError):
        return doctor.Role(address=address, failing=None)
    return doctor.Role(
        address=address,
        failing=tuple(line.removeprefix("[-]") for line in lines if line.startswith("[-]")),
        heard={resource: float(seconds) for resource, seconds in _HEARD.findall(metrics)},
        noted=tuple(line.removeprefix("[ ]") for line in lines if line.startswith("[ ]")),
    )


def _decoded(items: Iterable[msgspec.Raw]) -> list[Object]:
    decode: Callable[[msgspec.Raw], Object] = msgspec.json.decode
    return [decode(raw) for raw in items]
