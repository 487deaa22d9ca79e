"""Host names, and the classes of Ingresses and Gateways (specs/capsule 1.1, 5.6, 5.8)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources

from .content import put
from .harness import Object, World, eventually, refused
from .kinds import GATEWAYS, OTHERS, ROUTES

pytestmark = pytest.mark.plane

ANNOTATION = "kubernetes.io/ingress.class"
USED = (
    "hostname {} is already used across the cluster: please, reach out to the system administrators"
)


def ingress(name: str, host: str = "", cls: str | None = None, path: str = "/") -> Object:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    paths = {"paths": [{"path": path, "pathType": "Prefix", "backend": backend}]}
    rule: Object = {"http": paths, **({"host": host} if host else {})}
    chosen = {"ingressClassName": cls} if cls else {}
    return {"metadata": {"name": name}, "spec": {"rules": [rule], **chosen}}


async def test_classes_and_names_of_ingresses(world: World) -> None:
    own, public, private = (world.name(rest) for rest in ("own", "public", "private"))
    for name, labels in ((own, {}), (public, {"zone": "a"}), (private, {})):
        cls: Object = {"metadata": {"name": name, "labels": labels}}
        cls["spec"] = {"controller": "example.com/none"}
        await world.admin.create(resources.INGRESS_CLASSES, cls)
    await world.tenant(
        ingressOptions={
            "allowedClasses": {"default": own, "matchLabels": {"zone": "a"}},
            "allowedHostnames": {"allowed": ["a.io"], "allowedRegex": "[.]b[.]io$"},
        }
    )
    await world.tenant("wild", ingressOptions={"allowWildcardHostnames": True})
    await world.namespace(tenant="oil")
    await world.namespace("wild", tenant="wild")
    made = await put(world, resources.INGRESSES, ingress("i", "a.io"), dry_run=False)
    assert made["spec"]["ingressClassName"] == own
    await put(world, resources.INGRESSES, ingress("j", "x.b.io", public))
    words = (
        f"Ingress Class {private} is forbidden for the current Tenant: use the default {own} or "
        "use one with labels matching the selector (zone=a)"
    )
    await refused(put(world, resources.INGRESSES, ingress("j", "a.io", private)), words)
    old = ingress("j", "a.io")
    old["metadata"]["annotations"] = {ANNOTATION: private}
    await refused(put(world, resources.INGRESSES, old), words)
    change: Object = {"spec": {"ingressClassName": private}}
    where = world.name("prod")
    await refused(
        world.admin.patch(resources.INGRESSES, "i", where, kind="merge", body=change), words
    )
    listed = "specify one of the following (a.io), or matching the regex [.]b[.]io$"
    await refused(
        put(world, resources.INGRESSES, ingress("j", "e.io")),
        f"Hostnames [e.io] are not valid for the current Tenant, {listed}",
    )
    await refused(
        put(world, resources.INGRESSES, ingress("j")),
        f"empty hostname is not allowed for the current Tenant: {listed}",
    )
    await refused(
        put(world, resources.INGRESSES, ingress("j", "*.b.io")),
        f"Wildcard denied for tenant {world.name('oil')}",
    )
    await put(world, resources.INGRESSES, ingress("j", "*.b.io"), where="wild")


async def test_one_name_for_one(world: World) -> None:
    host = world.name("app.example.com")
    for scope in ("Cluster", "Tenant", "Namespace"):
        await world.tenant(scope.lower(), ingressOptions={"hostnameCollisionScope": scope})
        for space in ("a", "b"):
            await world.namespace(f"{scope.lower()}-{space}", tenant=scope.lower())
    await world.tenant("free")
    await world.namespace("free", tenant="free")

    async def asks(space: str, path: str = "/", name: str = "i", *, keep: bool = False) -> Object:
        found = ingress(name, host, path=path)
        return await put(world, resources.INGRESSES, found, where=space, dry_run=not keep)

    await asks("free", keep=True)

    async def seen() -> bool:
        await refused(asks("cluster-a"), USED.format(host))
        return True

    await eventually(seen)
    # Of its tenant's namespaces nobody has it, and in each namespace one may.
    await asks("tenant-a", keep=True)
    await refused(asks("tenant-b"), USED.format(host))
    await refused(asks("tenant-a", name="other"), USED.format(host))
    await asks("tenant-b", path="/elsewhere")
    await asks("namespace-a", keep=True)
    await asks("namespace-b", keep=True)
    await refused(asks("namespace-a", name="other"), USED.format(host))
    # The same object may say it again.
    label = {"metadata": {"labels": {"a": "b"}}}
    where = world.name("tenant-a")
    await world.admin.patch(resources.INGRESSES, "i", where, kind="merge", body=label)


async def test_gateways_and_routes(world: World) -> None:
    own, public, private = (world.name(rest) for rest in ("own", "public", "private"))
    for name, labels in ((own, {}), (public, {"zone": "a"}), (private, {})):
        metadata = {"metadata": {"name": name, "labels": labels}}
        await world.admin.create(resources.GATEWAY_CLASSES, metadata)
        await world.admin.create(
            resources.INGRESS_CLASSES, {**metadata, "spec": {"controller": "example.com/none"}}
        )
    types = ["Gateway", "HTTPRoute", "Ingress", *(one.kind for one in OTHERS)]
    rule = {"action": "allow", "ingress": {"types": types, "hostnames": [{"exp": "[.]b[.]io$"}]}}
    await world.tenant(
        gatewayOptions={"allowedClasses": {"default": own, "matchLabels": {"zone": "a"}}},
        rules=[{"enforce": rule}],
    )
    await world.namespace()

    def gateway(host: str | None = "x.b.io", **spec: Any) -> Object:
        listener = {"name": "l", **({"hostname": host} if host else {})}
        return {"metadata": {"name": "g"}, "spec": {"listeners": [listener], **spec}}

    made = await put(world, GATEWAYS, gateway())
    assert made["spec"]["gatewayClassName"] == own
    await put(world, GATEWAYS, gateway(gatewayClassName=public))

    async def usable() -> bool:
        return bool((await world.status())["classes"]["gateway"] == [own, public])

    await eventually(usable)
    listed = f"use the default {own} or use one with labels matching the selector (zone=a)"
    await refused(
        put(world, GATEWAYS, gateway(gatewayClassName=private)),
        f"Gateway Class {private} is forbidden for the current Tenant: {listed}",
    )
    await refused(
        put(world, GATEWAYS, gateway(gatewayClassName="ghost")),
        'Gateway Class ghost is forbidden for the current Tenant: no GatewayClass "ghost" '
        f"exists; {listed}",
    )
    tail = (
        "is not allowed by namespace rule: value did not match any allowed rule. "
        "Allowed hostnames: exp: [.]b[.]io$"
    )
    await refused(
        put(world, GATEWAYS, gateway("e.io")),
        f'ingress hostname "e.io" at spec.listeners[0].hostname {tail}',
    )
    await refused(
        put(world, GATEWAYS, gateway(None)),
        "hostname is required at spec.listeners[0].hostname because hostname rules target Gateway",
    )
    route: Object = {"metadata": {"name": "r"}, "spec": {"hostnames": ["a.b.io", "e.io"]}}
    await refused(put(world, ROUTES, route), f'ingress hostname "e.io" at spec.hostnames[1] {tail}')
    await refused(
        put(world, resources.INGRESSES, ingress("i", "e.io")),
        f'ingress hostname "e.io" at spec.rules[0].host {tail}',
    )
    await put(world, ROUTES, {**route, "spec": {"hostnames": ["a.b.io"]}})
    paths = {"ListenerSet": "spec.listeners[0].hostname", "Route": "spec.host"}
    for other in OTHERS:
        await put(world, other, named("a.b.io"))
        path = paths.get(other.kind, "spec.hostnames[0]")
        await refused(put(world, other, named("e.io")), f'ingress hostname "e.io" at {path} {tail}')

    expression = f"^{public}$"
    ways: list[tuple[str, Object, str]] = [
        ("list", {"allowed": [public]}, f"use one from the following list ({public})"),
        (
            "re",
            {"allowedRegex": expression},
            f"use one matching the following regex ({expression})",
        ),
        (
            "in",
            {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
            "use one with labels matching the selector (zone Exists)",
        ),
    ]
    for name, limits, words in ways:
        allowed = {"allowedClasses": limits}
        await world.tenant(name, gatewayOptions=allowed, ingressOptions=allowed)
        await world.namespace(name, tenant=name)
        await put(world, GATEWAYS, gateway(gatewayClassName=public), where=name)
        await put(world, resources.INGRESSES, ingress("i", "a.io", public), where=name)
        forbidden = f"Class {private} is forbidden for the current Tenant: {words}"
        await refused(
            put(world, GATEWAYS, gateway(gatewayClassName=private), where=name),
            f"Gateway {forbidden}",
        )
        await refused(
            put(world, resources.INGRESSES, ingress("i", "a.io", private), where=name),
            f"Ingress {forbidden}",
        )


def named(host: str) -> Object:
    """Return an object that says a host name in the way of every kind."""
    listeners = [{"name": "l", "hostname": host}]
    return {
        "metadata": {"name": "o"},
        "spec": {"listeners": listeners, "hostnames": [host], "host": host},
    }
