"""Host names and classes of what comes in from outside, for every kind that brings some."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy.admission import ingresses, references
from tenantry.tenancy.policy import classes, hostnames, surroundings

from . import policies

Object = dict[str, Any]
K8S, GATEWAY = "networking.k8s.io", "gateway.networking.k8s.io"

VIEWS = {
    "public": classes.View(name="public", labels={"zone": "a"}),
    "usual": classes.View(name="usual", labels={}, default=True),
}


def ingress(*hosts: str, cls: str | None = "public", old_style: str = "", **spec: Any) -> Object:
    metadata: Object = {"name": "x"}
    if old_style:
        metadata["annotations"] = {ingresses.ANNOTATION: old_style}
    chosen = {} if cls is None else {"ingressClassName": cls}
    rules = [{"host": host} if host else {} for host in hosts]
    return {"metadata": metadata, "spec": {**chosen, "rules": rules, **spec}}


def refusals(
    obj: Object, spec: Object, old: Object | None = None, *, kind: str = "Ingress", group: str = K8S,
    taken: list[tuple[str, str]] | None = None,
) -> list[str]:  # fmt: skip
    plural = {"Ingress": "ingresses"}.get(kind, f"{kind.lower()}s")
    review = policies.a_review(plural, obj, old, kind=kind, group=group)
    around = surroundings.Surroundings(
        find=lambda _, name: VIEWS.get(name), taken=tuple(taken or ())
    )
    known = policies.known(policies.policy(**spec), around=around)
    steps = [step for step in ingresses.VALIDATING if step.matches(review)]
    assert steps
    return [words for step in steps if (words := policies.message(step.decide(review, known)))]


def refusal(obj: Object, spec: Object, old: Object | None = None, **more: Any) -> str:
    return "".join(refusals(obj, spec, old, **more))


# ---- the deprecated fields ----------------------------------------------------------------------

CLASSES: Object = {"ingressOptions": {"allowedClasses": {"allowed": ["public"], "default": "own"}}}
CLASS_WORDS = (
    "is forbidden for the current Tenant: use the default own or use one from the following list "
    "(public)"
)


def test_classes() -> None:
    assert refusal(ingress("a.io"), CLASSES) == ""
    assert refusal(ingress("a.io", cls="own"), CLASSES) == ""
    assert refusal(ingress("a.io", cls="x"), CLASSES) == f"Ingress Class x {CLASS_WORDS}"
    assert refusal(ingress("a.io", cls=None, old_style="x"), CLASSES) == (
        f"Ingress Class x {CLASS_WORDS}"
    )
    # One that is fine does not excuse the other.
    assert refusal(ingress("a.io", old_style="x"), CLASSES) == f"Ingress Class x {CLASS_WORDS}"
    assert refusal(ingress("a.io", cls="x"), CLASSES, ingress("a.io")) != ""
    assert refusal(ingress("a.io", cls="x"), CLASSES, ingress("a.io", cls="x")) == ""
    assert refusal(ingress("a.io", cls=None), CLASSES).startswith(
        "An Ingress Class must be specified for the current Tenant"
    )
    assert refusal(ingress("a.io", cls=None), CLASSES, ingress("a.io")) != ""


HOSTS: Object = {
    "ingressOptions": {
        "allowedHostnames": {"allowed": ["a.io"], "allowedRegex": r"^[a-z]+[.]b[.]io$"}
    }
}
HOST_WORDS = "specify one of the following (a.io), or matching the regex ^[a-z]+[.]b[.]io$"


def test_host_names() -> None:
    assert refusal(ingress("a.io", "x.b.io"), HOSTS) == ""
    assert refusal(ingress("a.io", "e.io", "f.io"), HOSTS) == (
        f"Hostnames [e.io f.io] are not valid for the current Tenant, {HOST_WORDS}"
    )
    assert refusal(ingress("e.io"), HOSTS, ingress("a.io")) != ""
    assert refusal(ingress("a.io", "e.io"), HOSTS, ingress("e.io")) == ""
    assert refusal(ingress("e.io"), {}) == ""


@pytest.mark.parametrize("obj", [ingress(""), ingress(), ingress("a.io", "")])
def test_no_host_name_stands_for_all(obj: Object) -> None:
    assert refusal(obj, HOSTS) == (
        f"empty hostname is not allowed for the current Tenant: {HOST_WORDS}"
    )
    assert refusal(obj, {}) == ""


def test_wildcards() -> None:
    assert refusal(ingress("*.a.io"), {}) == "Wildcard denied for tenant oil"
    assert refusal(ingress("a.io", "*.a.io"), {}, ingress("a.io")) != ""
    allowed = {"ingressOptions": {"allowWildcardHostnames": True}}
    assert refusal(ingress("*.a.io"), allowed) == ""


def test_what_others_have() -> None:
    assert refusal(ingress("a.io"), {}, taken=[("a.io", "/")]) == (
        "hostname a.io is already used across the cluster: please, reach out to the system "
        "administrators"
    )


def test_pairs_of_host_and_path() -> None:
    found = hostnames.pairs(
        {
            "spec": {
                "rules": [
                    {"host": "a.io", "http": {"paths": [{"path": "/x/"}, {"path": "/"}, {}]}},
                    {"host": "A.io", "http": {"paths": [{"path": "/x"}]}},
                    {"host": "b.io"},
                    {},
                ]
            }
        }
    )
    assert found == [("a.io", "/x"), ("a.io", "/"), ("b.io", "/"), ("", "/")]


@pytest.mark.parametrize(
    ("obj", "cls", "old_style"),
    [
        (ingress("a.io", cls=None), "own", ""),
        # The cluster's default was nobody's choice; where it stands, there the tenant's goes.
        (ingress("a.io", cls="usual"), "own", ""),
        (ingress("a.io", cls=None, old_style="usual"), "", "own"),
        (ingress("a.io", cls="public"), "public", ""),
    ],
)
def test_the_default_class(obj: Object, cls: str, old_style: str) -> None:
    step = ingresses.MUTATING[0]
    review = policies.a_review("ingresses", obj, group=K8S, kind="Ingress")
    assert step.matches(review)
    around = surroundings.Surroundings(find=lambda _, name: VIEWS.get(name))
    decision = step.decide(review, policies.known(policies.policy(**CLASSES), around=around))
    after = jsonpatch.apply(obj, decision.ops) if isinstance(decision, admission.Patch) else obj
    assert after["spec"].get("ingressClassName", "") == cls
    annotations = after["metadata"].get("annotations") or {}
    assert annotations.get(ingresses.ANNOTATION, "") == old_style


# ---- gateways -----------------------------------------------------------------------------------

GATEWAYS: Object = {
    "gatewayOptions": {"allowedClasses": {"default": "public", "matchLabels": {"zone": "a"}}}
}


def gateway(name: str, *names: str) -> Object:
    listeners = [{"name": "l", "hostname": one} if one else {"name": "l"} for one in names]
    return {"metadata": {"name": "x"}, "spec": {"gatewayClassName": name, "listeners": listeners}}


def test_gateway_classes() -> None:
    def found(name: str, old: Object | None = None) -> str:
        return refusal(gateway(name), GATEWAYS, old, kind="Gateway", group=GATEWAY)

    assert found("public") == ""
    words = "use the default public or use one with labels matching the selector (zone=a)"
    assert found("usual") == f"Gateway Class usual is forbidden for the current Tenant: {words}"
    assert found("ghost") == (
        'Gateway Class ghost is forbidden for the current Tenant: no GatewayClass "ghost" exists; '
        + words
    )
    assert found("ghost", gateway("ghost")) == ""
    assert found("usual", gateway("public")) != ""
    assert found("").startswith("A Gateway Class must be specified for the current Tenant")
    review = policies.a_review("gateways", gateway(""), group=GATEWAY, kind="Gateway")
    decision = ingresses.MUTATING[1].decide(review, policies.known(policies.policy(**GATEWAYS)))
    assert isinstance(decision, admission.Patch)
    assert jsonpatch.apply(review.object, decision.ops)["spec"]["gatewayClassName"] == "public"
    asked = policies.a_review("gateways", gateway("g"), group=GATEWAY, kind="Gateway")
    assert references.wanted(asked, policies.policy(**GATEWAYS)) == {("gateway", "g")}


# ---- rules --------------------------------------------------------------------------------------

TYPES = ["Ingress", "Route", "ListenerSet", "HTTPRoute", "Gateway", "TLSRoute", "GRPCRoute"]


def rules(action: str, expression: str, types: list[str] | None = None) -> Object:
    found = {"types": types or TYPES, "hostnames": [{"exp": expression}]}
    return {
        "ingressOptions": {"allowWildcardHostnames": True},
        "rules": [{"enforce": {"action": action, "ingress": found}}],
    }


X_LISTENERS = "gateway.networking.x-k8s.io"
ROUTES = {"HTTPRoute", "GRPCRoute", "TLSRoute"}


def every_kind(name: str) -> list[tuple[str, str, Object, str]]:
    """Return each kind with a host name, and the path of it ("" makes it a missing one)."""
    listeners: Object = {"spec": {"listeners": [{"hostname": name} if name else {}]}}
    found = [
        ("Ingress", K8S, ingress(name), "spec.rules[0].host"),
        ("Gateway", GATEWAY, listeners, "spec.listeners[0].hostname"),
        ("ListenerSet", GATEWAY, listeners, "spec.listeners[0].hostname"),
        ("XListenerSet", X_LISTENERS, listeners, "spec.listeners[0].hostname"),
        ("Route", "route.openshift.io", {"spec": {"host": name}}, "spec.host"),
    ]
    path = "spec.hostnames[0]" if name else "spec.hostnames[]"
    routed: Object = {"spec": {"hostnames": [name] if name else []}}
    return found + [(kind, GATEWAY, routed, path) for kind in sorted(ROUTES)]


@pytest.mark.parametrize(("kind", "group", "obj", "path"), every_kind("e.io"))
def test_every_kind_by_rule(kind: str, group: str, obj: Object, path: str) -> None:
    found = refusal(obj, rules("allow", r"[.]a[.]io$"), kind=kind, group=group)
    assert found == (
        f'ingress hostname "e.io" at {path} is not allowed by namespace rule: value did not match '
        r"any allowed rule. Allowed hostnames: exp: [.]a[.]io$"
    )
    found = refusal(obj, rules("deny", "^e[.]"), kind=kind, group=group)
    assert found == (
        f'ingress hostname "e.io" at {path} is denied by namespace rule: '
        "matched denied rule exp: ^e[.]"
    )
    assert refusal(obj, rules("allow", "e[.]io$"), kind=kind, group=group) == ""
    assert refusal(obj, rules("deny", "."), obj, kind=kind, group=group) == ""
    others = [name for name in TYPES if name != kind.removeprefix("X")]
    assert refusal(obj, rules("deny", ".", others), kind=kind, group=group) == ""


@pytest.mark.parametrize(("kind", "group", "obj", "path"), every_kind(""))
def test_a_missing_host_name(kind: str, group: str, obj: Object, path: str) -> None:
    called = kind.removeprefix("X")
    words = f"hostname is required at {path} because hostname rules target {called}"
    for action in ("allow", "deny"):
        assert refusal(obj, rules(action, "."), kind=kind, group=group) == words
    review = policies.a_review("x", obj, kind=kind, group=group)
    known = policies.known(policies.policy(**rules("audit", ".")))
    decision = ingresses.validate_hosts(review, known)
    assert isinstance(decision, admission.Allow)
    (note,) = decision.notes
    assert getattr(note, "message", "") == (
        f"empty hostname detected at {path} for {called} by audit namespace rule"
    )


def test_names_in_certificates_count_too() -> None:
    allow = rules("allow", "^a[.]io$")
    obj = ingress("a.io", tls=[{"hosts": ["a.io", "e.io"]}])
    assert '"e.io" at spec.tls[0].hosts[1]' in refusal(obj, allow)
    assert refusal(ingress("a.io", tls=[{"secretName": "s"}]), allow) == (
        "hostname is required at spec.tls[0].hosts because hostname rules target Ingress"
    )
    assert refusal(ingress(), allow) == (
        "hostname is required at spec.rules[].host because hostname rules target Ingress"
    )


def test_kinds_of_other_groups_are_others() -> None:
    assert hostnames.kind_of("example.com", "Ingress") == ""
    assert hostnames.kind_of("serving.knative.dev", "Route") == ""
    assert hostnames.kind_of("extensions", "Ingress") == "Ingress"
