"""Under which reason each refusal is told as an event (specs/capsule 2.6)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.runtime import admission
from tenantry.tenancy.admission import ingresses, pods, services, storage
from tenantry.tenancy.policy import classes, surroundings, volumes

from . import policies

Object = dict[str, Any]

ONLY = {"allowed": ["gold"]}
GATEWAY = "gateway.networking.k8s.io"
STEPS = (
    pods.VALIDATING,
    *services.VALIDATING,
    *services.MUTATING,
    *storage.VALIDATING,
    *ingresses.VALIDATING,
)


def obj(**spec: Any) -> Object:
    return {"metadata": {"name": "x"}, "spec": spec}


def container(image: str = "r.io/a", policy: str = "Always", **more: Any) -> Object:
    return obj(containers=[{"name": "c", "image": image, "imagePullPolicy": policy}], **more)


def workloads(**more: Any) -> Object:
    return {"rules": [{"enforce": {"workloads": more}}]}


def served(**more: Any) -> Object:
    return {"rules": [{"enforce": {"action": "allow", "services": more}}]}


def service(kind: str, **spec: Any) -> Object:
    return obj(type=kind, ports=[{"port": 80, "nodePort": 30001}], **spec)


def named(host: str, cls: str = "gold") -> Object:
    return obj(ingressClassName=cls, rules=[{"host": host} if host else {}])


def ingress(**options: Any) -> Object:
    return {"ingressOptions": options}


def device(cls: str) -> Object:
    return obj(devices={"requests": [{"exactly": {"deviceClassName": cls}}]})


def around(*taken: tuple[str, str]) -> surroundings.Surroundings:
    views = {name: classes.View(name=name, labels={}) for name in ("gold", "silver")}
    return surroundings.Surroundings(
        find=lambda _, name: views.get(name),
        volume=lambda name: volumes.Volume(name=name, tenant="gas") if name == "theirs" else None,
        taken=taken,
    )


CASES: list[tuple[str, str, Object, Object]] = [
    ("ForbiddenContainerRegistry", "pods", container("e.io/a"), {"containerRegistries": ONLY}),
    ("MissingFQCI", "pods", container("nginx"), {"containerRegistries": ONLY}),
    ("ForbiddenPullPolicy", "pods", container(policy="Never"), {"imagePullPolicies": ["Always"]}),
    ("ForbiddenContainerRegistry", "pods", container(), workloads(registries=[{"exp": "."}])),
    ("ForbiddenScheduler", "pods", container(schedulerName="s"),
     workloads(schedulers=[{"exact": ["s"]}])),
    ("ForbiddenQoSClass", "pods", container(), workloads(qosClasses=["BestEffort"])),
    ("ForbiddenPodResources", "pods",
     obj(containers=[{"name": "c", "resources": {"limits": {"cpu": "1"}}}]),
     workloads(resources={"limits": {"cpu": {"policy": "Remove"}}})),
    ("ForbiddenPriorityClass", "pods", container(priorityClassName="silver"),
     {"priorityClasses": ONLY}),
    ("ForbiddenRuntimeClass", "pods", container(runtimeClassName="silver"),
     {"runtimeClasses": ONLY}),
    ("ForbiddenStorageClass", "persistentvolumeclaims", obj(storageClassName="silver"),
     {"storageClasses": ONLY}),
    ("MissingStorageClass", "persistentvolumeclaims", obj(), {"storageClasses": ONLY}),
    ("CrossTenantReference", "persistentvolumeclaims", obj(volumeName="theirs"), {}),
    ("CrossTenantReference", "persistentvolumeclaims", obj(volumeName="ghost"), {}),
    ("ForbiddenDeviceClass", "resourceclaims", device("silver"), {"deviceClasses": ONLY}),
    ("MissingDeviceClass", "resourceclaims", device("ghost"), {"deviceClasses": ONLY}),
    ("ForbiddenIngressClass", "ingresses", named("a.io", "silver"), ingress(allowedClasses=ONLY)),
    ("MissingIngressClass", "ingresses", named("a.io", ""), ingress(allowedClasses=ONLY)),
    ("IngressHostnameNotValid", "ingresses", named("a.io"),
     ingress(allowedHostnames={"allowed": ["b.io"]})),
    ("IngressHostnameEmpty", "ingresses", named(""),
     ingress(allowedHostnames={"allowed": ["b.io"]})),
    ("WildcardDenied", "ingresses", named("*.io"), {}),
    ("IngressHostnameCollision", "ingresses", named("taken.io"),
     ingress(hostnameCollisionScope="Cluster")),
    ("ForbiddenIngressHostname", "ingresses", named("a.io"), {"rules": [{"enforce": {
        "ingress": {"types": ["Ingress"], "hostnames": [{"exact": ["a.io"]}]}}}]}),
    ("ForbiddenGatewayClass", "gateways", obj(gatewayClassName="silver"),
     {"gatewayOptions": {"allowedClasses": ONLY}}),
    ("MissingGatewayClass", "gateways", obj(gatewayClassName="ghost"),
     {"gatewayOptions": {"allowedClasses": ONLY}}),
    ("ForbiddenNodePort", "services", service("NodePort"),
     {"serviceOptions": {"allowedServices": {"nodePort": False}}}),
    ("ForbiddenLoadBalancer", "services", service("LoadBalancer"),
     {"serviceOptions": {"allowedServices": {"loadBalancer": False}}}),
    ("ForbiddenExternalName", "services", service("ExternalName", externalName="a.io"),
     {"serviceOptions": {"allowedServices": {"externalName": False}}}),
    ("ForbiddenExternalServiceIP", "services", service("ClusterIP", externalIPs=["8.8.8.8"]),
     {"serviceOptions": {"externalIPs": {"allowed": ["10.0.0.0/8"]}}}),
    ("ForbiddenServiceType", "services", service("NodePort"), served(types=["ClusterIP"])),
    ("ForbiddenNodePort", "services", service("NodePort"),
     served(nodePorts={"ports": [{"from": 2, "to": 3}]})),
    ("ForbiddenExternalName", "services", service("ExternalName", externalName="a.io"),
     served(externalNames={"hostnames": [{"exact": ["b.io"]}]})),
    ("ForbiddenLoadBalancerCIDR", "services", service("LoadBalancer", loadBalancerIP="9.9.9.9"),
     served(loadBalancers={"cidrs": ["10.0.0.0/8"]})),
    ("ForbiddenLabel", "services",
     {"metadata": {"name": "x", "labels": {"bad": "1"}}, "spec": {"type": "ClusterIP"}},
     {"serviceOptions": {"forbiddenLabels": {"denied": ["bad"]}}}),
    ("ForbiddenAnnotation", "services",
     {"metadata": {"name": "x", "annotations": {"bad": "1"}}, "spec": {"type": "ClusterIP"}},
     {"serviceOptions": {"forbiddenAnnotations": {"denied": ["bad"]}}}),
]  # fmt: skip
GROUPS = {
    "resourceclaims": "resource.k8s.io",
    "ingresses": "networking.k8s.io",
    "gateways": GATEWAY,
}
KINDS = {"ingresses": "Ingress", "gateways": "Gateway"}


@pytest.mark.parametrize(("reason", "resource", "what", "spec"), CASES)
def test_reasons(reason: str, resource: str, what: Object, spec: Object) -> None:
    review = policies.a_review(
        resource, what, group=GROUPS.get(resource, ""), kind=KINDS.get(resource, "")
    )
    taken = [("taken.io", "/")] if "Collision" in reason else []
    known = policies.known(policies.policy(**spec), around=around(*taken))
    steps = [step for step in STEPS if step.matches(review)]
    assert steps
    denials = [
        decision
        for step in steps
        if isinstance(decision := step.decide(review, known), admission.Deny)
    ]
    assert [one.event for one in denials] == [reason], [one.message for one in denials]
